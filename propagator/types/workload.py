"""Workloads and the hub's Secrets as the apply side reads them.

Templates pass through whole: what we do not know must reach the member. They are kept as the bytes
that came, a fourth of what they are taken apart, and taken apart when they are rendered. Whoever
needs no more than their kinds and names asks for outlines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

import msgspec
from msgspec import structs

from crds.admission.placeholder import keeps_room
from crds.fields.template import REPLICAS_PATHS, well_formed
from crds.groups.gate import decision_of
from crds.names import ANNOTATION_KINDS, ANNOTATION_ORDINALS
from machinery.types.metadata import Key, Object
from propagator.types.membership import groups_of
from propagator.types.overrides import Overrides, overrides_of

MOST_KINDS = 256
"""Kinds of one Workload: what claims to be more was not written by us, and tells nothing."""


class ResourceRef(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A Secret that travels along."""

    name: str
    secret_name: str = ""

    @property
    def secret(self) -> str:
        """The name of the Secret that is meant."""
        return self.secret_name or self.name


class Placement(msgspec.Struct, frozen=True, gc=False):
    """A share."""

    cluster: str
    replicas: int


class _OutlineMeta(msgspec.Struct, frozen=True, gc=False):
    name: str | None = None
    namespace: str | None = None


class Outline(msgspec.Struct, frozen=True, rename="camel"):
    """Which object a template is of."""

    api_version: str = ""
    kind: str = ""
    metadata: _OutlineMeta | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """(apiVersion, kind)."""
        return self.api_version, self.kind

    @property
    def name(self) -> str:
        """metadata.name, empty where there is none."""
        return (self.metadata and self.metadata.name) or ""

    @property
    def namespace(self) -> str:
        """metadata.namespace, empty where there is none."""
        return (self.metadata and self.metadata.namespace) or ""


class WorkloadSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What is to be pushed. Empty bytes, or `null`, stand for no object."""

    replicas: int | None = None
    scheduler_name: str = ""
    target_namespace: str = ""
    target_deployment: msgspec.Raw = msgspec.Raw()
    target_service: msgspec.Raw = msgspec.Raw()
    template: msgspec.Raw = msgspec.Raw()
    replicas_path: str = ""
    manifests: list[msgspec.Raw] = []
    resources: list[ResourceRef] = []
    adoption: str = "Never"


class Review(msgspec.Struct, frozen=True, gc=False):
    """What the controller says of an edit, where the hub itself judges none."""

    generation: int = 0
    refusal: str = ""


class Footprint(msgspec.Struct, frozen=True, gc=False):
    """Where members may hold something, as far as it is noted in the status."""

    clusters: str = ""
    kinds: str = ""


class WorkloadStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What the scheduler decided, and what we said last."""

    state: str = ""
    desired: int | None = None
    placements: list[Placement] = []
    overrides: msgspec.Raw = msgspec.Raw()
    """Taken apart by `Workload.overrides`: what is wrong in them spoils nothing else."""
    clusters: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    ready: int | None = None
    ready_summary: str = ""
    cluster_summary: str = ""
    service_external_ip: str | None = msgspec.field(default=None, name="serviceExternalIP")
    conditions: list[dict[str, Any]] = []
    review: Review = Review()
    footprint: Footprint = Footprint()


class Workload(Object, frozen=True, dict=True):
    """Something to run on the clusters that status.placements names."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def uid(self) -> str:
        """Its UID, which marks everything that it owns on members."""
        return self.metadata.uid

    @property
    def owner(self) -> str:
        """`namespace/name`, the value of the owner annotation."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def keeps_room(self) -> bool:
        """Whether its pods only keep the room of a Reservation."""
        return keeps_room(self.spec.scheduler_name, self.metadata.owner_references)

    @property
    def namespace(self) -> str:
        """The namespace on the members."""
        return self.spec.target_namespace or self.metadata.namespace

    @property
    def template(self) -> dict[str, Any]:
        """The object to run, of whatever kind; made anew at each call, as those below."""
        return _whole(self._main)

    @property
    def target_service(self) -> dict[str, Any]:
        """The Service that goes along; empty where there is none."""
        return _whole(self.spec.target_service)

    @property
    def manifests(self) -> list[dict[str, Any]]:
        """What goes along besides."""
        return [_whole(raw) for raw in self.spec.manifests]

    @property
    def outline(self) -> Outline:
        """Which object runs."""
        return outline_of(self._main) or Outline()

    @property
    def template_kind(self) -> str:
        """The kind of the object to run."""
        return self.outline.kind

    @property
    def _main(self) -> msgspec.Raw:
        spec = self.spec
        return spec.target_deployment if _some(spec.target_deployment) else spec.template

    @cached_property
    def placements(self) -> dict[str, int]:
        """Units by cluster. Made once: there may be ten thousand, and everybody asks."""
        return {share.cluster: share.replicas for share in self.status.placements}

    @property
    def wants_units(self) -> bool:
        """Whether it is to run anywhere. What cannot be read for a number wants some."""
        wanted = self.spec.replicas
        path = self.spec.replicas_path or REPLICAS_PATHS.get(self.template_kind, "")
        if wanted is None and not self.placements and path:
            value: Any = self.template
            for part in path.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            wanted = value
        return bool(self.placements) or wanted != 0

    @cached_property
    def overrides(self) -> Overrides:
        """What shares differ in, by cluster."""
        return overrides_of(bytes(self.status.overrides))

    @cached_property
    def clusters(self) -> set[str]:
        """The clusters that it is placed on, and those that it was said to be on."""
        return {*self.placements, *(share["name"] for share in self.status.clusters)}

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The WorkloadGroups that it names: none, one, or several by mistake."""
        return groups_of(self.metadata.labels, self._main)

    @cached_property
    def decision(self) -> str:
        """The name of its placements in the gate of its group."""
        return decision_of(self.placements)

    @property
    def secrets(self) -> list[str]:
        """The names of the Secrets that travel along."""
        return [resource.secret for resource in self.spec.resources]

    def outlines(self) -> Iterator[Outline]:
        """The objects that it names: the template, its Service, what goes along."""
        for raw in (self._main, self.spec.target_service, *self.spec.manifests):
            if outline := outline_of(raw):
                yield outline

    def kinds(self) -> Iterator[tuple[str, str]]:
        """(apiVersion, kind) of everything that it renders."""
        yield from (each.pair for each in self.outlines())
        if self.spec.resources:
            yield "v1", "Secret"

    def names_of(self, api_version: str, kind: str) -> Iterator[Key]:
        """The names on a member of what it renders of that kind."""
        for each in self.outlines():
            if each.pair == (api_version, kind):
                yield each.namespace or self.namespace, each.name or self.metadata.name
        if (api_version, kind) == ("v1", "Secret"):
            yield from ((self.namespace, name) for name in self.secrets)

    def namespaces(self) -> set[str]:
        """Those that it writes to, on the members."""
        named = {each.namespace for each in map(outline_of, self.spec.manifests) if each}
        return {self.namespace, *named} - {""}

    def remembered(self) -> frozenset[tuple[str, str]]:
        """The kinds that its notes name, but for a note that somebody spoilt."""
        return frozenset().union(*(_kinds_in(text) or () for text in self._notes))

    @property
    def spoilt(self) -> bool:
        """Whether a note of its kinds claims more than we ever write."""
        return any(_kinds_in(text) is None for text in self._notes)

    @property
    def _notes(self) -> tuple[str, str]:
        return self.metadata.annotations.get(ANNOTATION_KINDS, ""), self.status.footprint.kinds

    def ordinals(self) -> dict[str, int]:
        """First ordinals by cluster; nothing where somebody spoilt the annotation."""
        try:
            noted = json.loads(self.metadata.annotations.get(ANNOTATION_ORDINALS, "{}"))
            return {str(name): int(first) for name, first in noted.items()}
        except (ValueError, AttributeError, TypeError):
            return {}


@lru_cache(maxsize=1024)
def _kinds_in(text: str) -> frozenset[tuple[str, str]] | None:
    """What a note names, None where that is too much. Many Workloads note the same kinds."""
    noted = text.split(",", MOST_KINDS)
    if len(noted) > MOST_KINDS:
        return None
    pairs = ((version, kind) for version, _, kind in (each.rpartition("/") for each in noted))
    return frozenset(pair for pair in pairs if well_formed(*pair))


def kept(workload: Workload) -> Workload:
    """The Workload without the answer that it came in: what was decoded of it points into that.

    Nearly all Workloads say the same words of their clusters and in their conditions, and these are
    the larger part of one: each word is kept once.
    """
    spec, status = workload.spec, workload.status
    own = structs.replace(
        spec,
        target_deployment=_own(spec.target_deployment),
        target_service=_own(spec.target_service),
        template=_own(spec.template),
        manifests=[_own(raw) for raw in spec.manifests],
    )
    said = structs.replace(
        status,
        overrides=_own(status.overrides),
        clusters=[_sharing(each) for each in status.clusters],
        conditions=[_sharing(each) for each in status.conditions],
    )
    return structs.replace(workload, spec=own, status=said)


def _own(raw: msgspec.Raw) -> msgspec.Raw:
    return raw.copy() if memoryview(raw) else _NOTHING


def _sharing(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: sys.intern(value) if isinstance(value, str) else value for key, value in entry.items()
    }


class _Departing(Object, frozen=True):
    """All that its end needs of a Workload whose spec cannot be read."""

    status: WorkloadStatus = WorkloadStatus()


def departing(raw: msgspec.Raw, last: Workload | None) -> Workload:
    """A deleted Workload whose spec cannot be read, with the last spec that could.

    Its finalizer is there from the beginning, so somebody has to end it whatever it holds. Raises
    ValueError where its status cannot be read either.
    """
    now = _departing.decode(raw)
    spec = last.spec if last is not None and last.uid == now.metadata.uid else WorkloadSpec()
    return Workload(metadata=now.metadata, spec=spec, status=now.status)


def workload_of(value: Mapping[str, Any]) -> Workload:
    """A Workload of plain values, as an answer to a write brings it. Raises ValueError."""
    return _workload.decode(msgspec.json.encode(value))


def _some(raw: msgspec.Raw) -> bool:
    size = len(memoryview(raw))
    return size > len(b"null") or bytes(raw) not in (b"", b"null", b"{}")


def _whole(raw: msgspec.Raw) -> dict[str, Any]:
    return _object.decode(raw) if _some(raw) else {}


def outline_of(raw: msgspec.Raw) -> Outline | None:
    """Which object it is of, if of any; no kind for what was stored before the schema held."""
    try:
        return _outlines.decode(raw) if _some(raw) else None
    except msgspec.ValidationError:
        return Outline()


class HubSecret(Object, frozen=True):
    """A Secret of the hub, its values as they lie there (base64); never shown."""

    type: str = "Opaque"
    data: dict[str, str] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"HubSecret({self.metadata.namespace}/{self.metadata.name})"


_NOTHING = msgspec.Raw()
_object = msgspec.json.Decoder(dict[str, Any])
_outlines = msgspec.json.Decoder(Outline)
_workload = msgspec.json.Decoder(Workload)
_departing = msgspec.json.Decoder(_Departing)
