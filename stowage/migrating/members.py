"""What members say: their objects, whether these are as a Workload renders them, who scales them.

Nothing is written here: a comparison is a dry run of the propagator's own apply.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.model.objects import MemberCluster
from crds.names import OWNER_PREFIX
from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.errors import ApiError, NotFound
from machinery.types.bounds import clean
from propagator.drift.fields import differences, in_words
from propagator.types.hub_objects import HubSecret
from stowage.importing.reading import dig
from stowage.migrating.peer import Json, Ref
from stowage.simulation.differences import objects_on

HPAS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
Opening = Callable[[str], Awaitable[Verbs]]
"""Returns the client of a member. Raises StowageError for one that cannot be reached."""


@dataclass(frozen=True, slots=True)
class ComparedObject:
    """An object of a Workload on a member; `text` is how it differs, empty if it does not."""

    ref: Ref
    text: str


async def find(member: Verbs, ref: Ref) -> tuple[Resource, dict[str, Any]] | None:
    """Return an object of a member with its kind; None if there is none. Raises TransportError."""
    try:
        resource = await member.resource(ref.api_version, ref.kind)
        where = ref.namespace if resource.namespaced else None
        body = await member.get(resource, ref.name, namespace=where)
    except NotFound:
        return None
    return resource, {"apiVersion": ref.api_version, "kind": ref.kind, **body}


async def compared(
    member: Verbs, body: Json, cluster: MemberCluster, secrets: Mapping[str, HubSecret]
) -> list[ComparedObject]:
    """Return each object of a Workload on a member, compared. Raises TransportError.

    `body` is the Workload with its placements. Raises ValueError where it does not render.
    """
    found = []
    for each in objects_on(body, cluster, secrets):
        ref = Ref.of(each, str(body["metadata"].get("namespace") or ""))
        found.append(ComparedObject(ref, await _difference(member, ref, each)))
    return found


async def _difference(member: Verbs, ref: Ref, wanted: Json) -> str:
    there = await find(member, ref)
    if there is None:
        return f"{ref.kind} {ref.name} is not there"
    resource, live = there
    where = ref.namespace if resource.namespaced else None
    if dig(live, "metadata", "deletionTimestamp"):
        return f"{ref.kind} {ref.name} is being deleted"
    if not resource.namespaced:
        return f"{ref.kind} {ref.name} exists: a cluster-scoped object is never taken over"
    only = {key: live["metadata"][key] for key in ("uid", "resourceVersion")}
    asked = {**wanted, "metadata": {**wanted["metadata"], **only}}
    try:
        applied = await member.apply(
            resource, asked, name=ref.name, namespace=where, force=True, dry_run=True
        )
    except ApiError as e:
        return f"{ref.kind} {ref.name}: {clean(e.message)}"
    changed = differences(live, applied)
    said = in_words(changed, secret=ref.kind == "Secret")
    return f"{ref.kind} {ref.name} differs in {said}" if changed else ""


async def scalers(member: Verbs, namespace: str, kind: str, name: str) -> list[str]:
    """Return the names of the autoscalers on a member that hold the replicas of an object."""
    try:
        listed = await member.list(HPAS, namespace=namespace)
    except NotFound:
        return []
    return [
        each["metadata"]["name"]
        for each in listed["items"]
        if (
            dig(each, "spec", "scaleTargetRef", "kind"),
            dig(each, "spec", "scaleTargetRef", "name"),
        )
        == (kind, name)
    ]


def start_of(body: Json) -> int:
    """Return the first ordinal of an object on a member."""
    return int(dig(body, "spec", "ordinals", "start") or 0)


def ours(body: Json) -> bool:
    """Whether an object on a member carries the mark of a Workload of Stowage."""
    annotations: Iterable[str] = dig(body, "metadata", "annotations") or ()
    return any(key.startswith(OWNER_PREFIX) for key in annotations)
