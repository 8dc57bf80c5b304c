"""`stowage restart`: new pods for a Workload, by an edit of its template as kubectl makes it.

The time in the annotation makes another pod template, so each member replaces the pods by the
rules of the kind there. A staged rollout takes it to the clusters wave by wave.
"""

from __future__ import annotations

from typing import Any

from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS
from machinery.clock import Clock, timestamp
from machinery.errors import ConfigurationError, NotFound
from machinery.kinds.paths import value_at
from machinery.kinds.profile import with_article
from machinery.kinds.table import profile_in
from machinery.types.metadata import Key
from stowage.console.terminal import say
from stowage.hub import edit
from stowage.kinds import Reference

RESTARTED = "kubectl.kubernetes.io/restartedAt"
_UNREPLACED = {
    "CronJob": "each of its runs makes new pods",
    "Job": "its pods run to their end: make another Job",
    "ReplicaSet": "it keeps its pods when its template changes: delete them on the members",
}
"""Kinds that leave their pods as they are when the template changes, and what to do of each."""


async def restart(hub: ApiClient, key: Key, *, clock: Clock) -> None:
    """Write the time into the pod template.

    Raises ConfigurationError where there is no such Workload, or no pods that a restart replaces,
    and Conflict as `edit` does.
    """
    now = timestamp(clock.now())

    def patch(stored: dict[str, Any]) -> dict[str, Any]:
        spec = stored["spec"]
        field = "targetDeployment" if spec.get("targetDeployment") else "template"
        pods = _pod_template("/".join(key), spec.get(field) or {}, spec)
        if (value_at(pods, "metadata.annotations") or {}).get(RESTARTED) == now:
            raise ConfigurationError(f"{'/'.join(key)} was restarted within this second: wait")
        noted = {"metadata": {"annotations": {RESTARTED: now}}}
        return {"spec": {field: {"spec": {"template": noted}}}}

    try:
        found = await edit(hub, WORKLOADS, key[1], patch, namespace=key[0])
    except NotFound as e:
        raise ConfigurationError(Reference(WORKLOADS, key[1]).missing(key[0])) from e
    say(f"workload.{WORKLOADS.group}/{key[1]} restarted{_how(found, key)}")


def _pod_template(name: str, template: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """Return the pod template. Raises ConfigurationError for pods that a restart replaces not."""
    kind = str(template.get("kind") or "Deployment")
    profile = profile_in(template, spec.get("replicasPath"))
    if profile.known and kind in _UNREPLACED:
        raise ConfigurationError(
            f"{name} is {with_article(kind)}, which cannot be restarted: {_UNREPLACED[kind]}"
        )
    found = value_at(template, "spec.template")
    if not isinstance(found, dict) or not isinstance(value_at(found, "spec.containers"), list):
        raise ConfigurationError(
            f"{name} is {with_article(kind)}, which cannot be restarted: it has no pod template at "
            "spec.template, so a change of it starts no pods"
        )
    return found


def _how(found: dict[str, Any], key: Key) -> str:
    if found["spec"].get("rollout"):
        return f", wave by wave: `stowage rollout status wl/{key[1]} -n {key[0]}` shows it"
    if not (found.get("status") or {}).get("placements"):
        return "; it has no place yet, so nothing runs that would be replaced"
    return ""
