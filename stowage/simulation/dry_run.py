"""`stowage plan --server`: what a member's API server says of the planned objects, by a dry run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from machinery.api.client import ApiClient
from machinery.api.resources import Resource
from machinery.config.kubeconfig import Connection
from machinery.errors import ApiError, NotFound
from machinery.types.bounds import clean
from stowage.console.terminal import say
from stowage.kinds import titled
from stowage.simulation import differences
from stowage.simulation.plan import Plan, overridden

Json = Mapping[str, Any]
_SELECTING = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"})


def unlike(body: Json) -> Iterator[str]:
    """Yield what every API server refuses of a Workload's template, known without asking one."""
    spec = body.get("spec") or {}
    for field in ("template", "targetDeployment"):
        inner = (spec.get(field) or {}).get("spec")
        if not isinstance(inner, Mapping) or (spec[field].get("kind") not in _SELECTING):
            continue
        wanted = (inner.get("selector") or {}).get("matchLabels") or {}
        labels = ((inner.get("template") or {}).get("metadata") or {}).get("labels") or {}
        if any(labels.get(key) != value for key, value in wanted.items()):
            yield (
                f"spec.{field}.spec.selector: Invalid value: {wanted}: `selector` does not match "
                "template `labels`: every member refuses it"
            )


def show(made: Plan, member: Connection | None) -> bool:
    """Print what members refuse of a plan; return whether there is anything.

    Without a member it is what is known without asking one. Raises TransportError of it.
    """
    bodies = made.bodies.items()
    refused = [f"{titled(key)}: {text}" for key, body in bodies for text in unlike(body)]
    refused += refusals(made, member) if member is not None else []
    for text in refused:
        say(f"refused: {text}", err=True)
    return bool(refused)


def refusals(made: Plan, at: Connection) -> list[str]:
    """Return what that member refuses. Raises TransportError if it does not answer."""
    return asyncio.run(_refusals(made, at))


async def _refusals(made: Plan, at: Connection) -> list[str]:
    clusters = {each.metadata.name: each for each in made.clusters}
    found = []
    async with ApiClient(at, name=at.context or "member") as member:
        for planned in made.planned:
            key, placed = planned.decision.workload.key, planned.decision.placements
            # The context has the cluster's name, or it is taken for any of those that get a share.
            name = at.context if at.context in clusters else next(iter(placed), "")
            if key not in made.bodies or name not in clusters:
                continue
            body = overridden(made.bodies[key], planned.decision)
            for each in differences.objects_on(body, clusters[name]):
                if said := await _refusal(member, each):
                    what = f"{each['kind']} {each['metadata']['name']}"
                    found.append(f"{titled(key)}: {what}: {said}")
    return found


async def _refusal(member: ApiClient, body: Json) -> str:
    try:
        resource = await member.resource(body["apiVersion"], body["kind"])
        try:
            await _dry_run(member, resource, body)
        except NotFound as e:
            if e.details.get("kind") != "namespaces":
                raise
            # The propagator makes the namespace: ask in one that is there.
            meta = {**body["metadata"], "namespace": "default"}
            await _dry_run(member, resource, {**body, "metadata": meta})
    except NotFound as e:
        # An API server answers without a Status, and so without a reason, for an unknown group.
        unknown = f"the server has no kind {body['kind']} in {body['apiVersion']}"
        return clean(e.message if e.reason else unknown)
    except ApiError as e:
        return clean(e.message)
    return ""


async def _dry_run(member: ApiClient, resource: Resource, body: Json) -> None:
    name, where = body["metadata"]["name"], body["metadata"].get("namespace")
    namespace = where if resource.namespaced else None
    await member.apply(resource, body, name=name, namespace=namespace, force=True, dry_run=True)
