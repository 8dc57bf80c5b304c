"""`stowage sweep` without a cluster: deleted Workloads that wait for a person.

Many were deleted at once, so the propagator removes nothing of them. A person lets them go, or has
what they run left on the members. Each Workload is written by itself, and only as the one that was
listed: what is deleted later is not covered.
"""

from __future__ import annotations

from typing import Any

from crds.names import ANNOTATION_DELETION, CONFIRMED
from crds.workload import OnDelete, PropagatedReason, WorkloadCondition
from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS
from machinery.errors import ConfigurationError, Conflict, NotFound
from machinery.types import conditions
from stowage.console import output
from stowage.console.terminal import say
from stowage.setup.sweep import digest

_COLUMNS = ("namespace", "name", "clusters", "units", "uid")
_NOTHING = "no deleted Workload waits for a person"


async def show(hub: ApiClient, form: str) -> None:
    """Print the held Workloads. Raises TransportError."""
    held = await _held(hub)
    output.show({"digest": digest(held), "workloads": held}, form, text=_text(held))


async def decide(hub: ApiClient, shown: str, *, orphan: bool) -> None:
    """Let the held Workloads go, or with `orphan` leave what they run on the members.

    `shown` is the digest that the list must have, if not empty. Raises ConfigurationError where it
    has another one by now, and TransportError.
    """
    held = await _held(hub)
    say(_table(held))
    if shown and shown != digest(held):
        raise ConfigurationError(
            f"this is not what was shown as {shown} any more, nothing is changed: look, and decide "
            "again"
        )
    for each in held:
        # The UID makes the patch fail on another Workload of that name.
        metadata: dict[str, Any] = {"uid": each["uid"]}
        if orphan:
            patch = {"metadata": metadata, "spec": {"onDelete": OnDelete.ORPHAN.value}}
        else:
            patch = {"metadata": {**metadata, "annotations": {ANNOTATION_DELETION: CONFIRMED}}}
        try:
            await hub.merge_patch(WORKLOADS, each["name"], patch, namespace=each["namespace"])
        except (NotFound, Conflict):
            say(f"{each['namespace']}/{each['name']}: gone already")
    if held:
        what = "leaves what they run on the members" if orphan else "removes what they run"
        say(f"the propagator {what}")


async def _held(hub: ApiClient) -> list[dict[str, Any]]:
    listed = await hub.list(WORKLOADS)
    found = []
    for each in listed["items"]:
        meta, status = each["metadata"], each.get("status") or {}
        said = conditions.find(status, WorkloadCondition.PROPAGATED)
        confirmed = (meta.get("annotations") or {}).get(ANNOTATION_DELETION) == CONFIRMED
        left = each["spec"].get("onDelete") == OnDelete.ORPHAN
        if said.get("reason") != PropagatedReason.DELETION_HELD or confirmed or left:
            continue
        placements = status.get("placements") or []
        found.append(
            {
                "namespace": meta["namespace"],
                "name": meta["name"],
                "clusters": len(placements),
                "units": sum(share["replicas"] for share in placements),
                "uid": meta["uid"],
            }
        )
    return sorted(found, key=lambda each: (each["namespace"], each["name"]))


def _table(held: list[dict[str, Any]]) -> str:
    return output.table(held, _COLUMNS) if held else _NOTHING


def _text(held: list[dict[str, Any]]) -> str:
    if not held:
        return _NOTHING
    which = digest(held)
    return (
        f"{_table(held)}\n\nto let exactly these go: stowage sweep --confirm {which}\n"
        f"to leave what they run on the members: stowage sweep --orphan {which}"
    )
