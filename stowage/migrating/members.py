"""What members say: their objects, whether these are as a Workload renders them, who scales them.

Nothing is written here: a comparison is a dry run of the propagator's own apply. A member may
answer anything, so what is read of an object has a type.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.model.objects import MemberCluster
from crds.names import OWNER_PREFIX
from machinery.api.resources import MEMBER_CLUSTERS, NAMESPACES, Resource
from machinery.api.verbs import Verbs
from machinery.errors import ApiError, ConfigurationError, NotFound
from machinery.types.bounds import clean
from propagator.drift.fields import differences, in_words
from propagator.types.hub_objects import HubSecret
from stowage.importing.reading import dig
from stowage.migrating.clusters import uid_of
from stowage.migrating.peer import Json, Ref
from stowage.simulation.differences import objects_on

HPAS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
Opening = Callable[[str], Awaitable[Verbs]]
"""Returns the client of a member. Raises StowageError for one that cannot be reached."""
Scalers = Mapping[tuple[str, str], Sequence[str]]
"""The names of autoscalers by kind and name of the object whose replicas they hold."""


class Members:
    """Opens each member once in a run, and asks it whether it is the cluster of that name.

    A kubeconfig of another cluster would have that one changed, and have it prove that the peer has
    let go.
    """

    def __init__(self, hub: Verbs, opening: Opening) -> None:
        self._hub, self._opening = hub, opening
        self._opened: dict[str, asyncio.Task[Verbs]] = {}

    async def __call__(self, name: str) -> Verbs:
        """Raises StowageError, for a member that did not answer the same one again."""
        if name not in self._opened:
            self._opened[name] = asyncio.create_task(self._open(name))
        return await self._opened[name]

    async def _open(self, name: str) -> Verbs:
        try:
            known = uid_of(await self._hub.get(MEMBER_CLUSTERS, name))
        except NotFound:
            raise ConfigurationError(f"the hub has no MemberCluster {name} any more") from None
        member = await self._opening(name)
        there = await kube_system(member)
        if known and there != known:
            raise ConfigurationError(
                f"the kubeconfig of {name} leads to another cluster: its kube-system has the UID "
                f"{clean(there)}, and the MemberCluster's {known}"
            )
        return member


async def kube_system(server: Verbs) -> str:
    """Return the UID of a server's kube-system, by which a cluster is known."""
    return str(dig(await server.get(NAMESPACES, "kube-system"), "metadata", "uid") or "")


class _Owner(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    name: str
    uid: str


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    resource_version: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None


class _Scaled(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _ScalerSpec(msgspec.Struct, frozen=True, rename="camel"):
    scale_target_ref: _Scaled = _Scaled()


class _Named(msgspec.Struct, frozen=True):
    name: str


class _Scaler(msgspec.Struct, frozen=True):
    metadata: _Named
    spec: _ScalerSpec = _ScalerSpec()


class _Scalers(msgspec.Struct, frozen=True):
    items: list[_Scaler]


def _read(body: Any, as_: Any) -> Any:
    try:
        return msgspec.convert(body, as_)
    except msgspec.ValidationError as e:
        raise ConfigurationError(f"the answer of the server is none: {clean(str(e))}") from e


def formed(body: Any) -> dict[str, Any]:
    """Return an object as a member answered. Raises ConfigurationError for one without a form."""
    found: dict[str, Any] = _read(body, dict[str, Any])
    _read(found.get("metadata"), _Metadata)
    return found


@dataclass(frozen=True, slots=True)
class ComparedObject:
    """An object of a Workload on a member; `text` is how it differs, empty if it does not."""

    ref: Ref
    text: str


@dataclass(frozen=True, slots=True)
class ObjectsAlong:
    """What a Workload brings along from the hub."""

    secrets: Mapping[str, HubSecret] = field(default_factory=dict)
    copies: Sequence[Json] = ()
    """What its pods name."""


async def find(member: Verbs, ref: Ref) -> tuple[Resource, dict[str, Any]] | None:
    """Return an object of a member with its kind; None if there is none. Raises TransportError."""
    try:
        resource = await member.resource(ref.api_version, ref.kind)
        where = ref.namespace if resource.namespaced else None
        body = formed(await member.get(resource, ref.name, namespace=where))
    except NotFound:
        return None
    return resource, {"apiVersion": ref.api_version, "kind": ref.kind, **body}


async def lives(member: Verbs, owner: Json, namespace: str) -> bool:
    """Whether the owner of an object is there: what names one that is gone is collected."""
    ref = Ref(owner["apiVersion"], owner["kind"], namespace, owner["name"])
    there = await find(member, ref)
    return there is not None and there[1]["metadata"]["uid"] == owner["uid"]


async def compared(
    member: Verbs, body: Json, cluster: MemberCluster, along: ObjectsAlong
) -> list[ComparedObject]:
    """Return each object of a Workload on a member, compared. Raises TransportError.

    `body` is the Workload with its placements. Raises ValueError where it does not render.
    """
    found = []
    for each in (*objects_on(body, cluster, along.secrets), *along.copies):
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


async def scalers(member: Verbs, namespace: str) -> Scalers:
    """Return the autoscalers of a namespace on a member."""
    try:
        listed = await member.list(HPAS, namespace=namespace)
    except NotFound:
        return {}
    found: dict[tuple[str, str], list[str]] = {}
    for each in _read(listed, _Scalers).items:
        target = each.spec.scale_target_ref
        found.setdefault((target.kind, target.name), []).append(each.metadata.name)
    return found


def start_of(body: Json) -> int:
    """Return the first ordinal of an object on a member."""
    start = dig(body, "spec", "ordinals", "start")
    return start if isinstance(start, int) else 0


def ours(body: Json) -> bool:
    """Whether an object on a member carries the mark of a Workload of Stowage."""
    return any(key.startswith(OWNER_PREFIX) for key in body["metadata"].get("annotations") or ())
