"""Workloads as the propagator reads them.

Templates stay the bytes that the hub sent: decoded ones take four times the memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType, structs

from crds.admission.placeholder import keeps_room
from crds.fields.dependencies import Dependencies
from crds.fields.placing import Distribution
from crds.fields.publishing import Delivery
from crds.fields.template import well_formed
from crds.fields.why import ChangeCause
from crds.groups import membership
from crds.groups.gate import decision_of
from crds.names import (
    ANNOTATION_CLUSTERS,
    ANNOTATION_DELETION,
    ANNOTATION_KINDS,
    ANNOTATION_ORDINALS,
    CONFIRMED,
    GROUP_LABELS,
)
from crds.restored import RestoredMark
from crds.workload import OnDelete
from machinery.api.resources import group_of
from machinery.kinds.groups import groups_of as groups_in
from machinery.kinds.ordinals import MOST_RANGES, known_ranges, with_new_ranges
from machinery.kinds.paths import value_at
from machinery.kinds.profile import Profile
from machinery.kinds.readiness import Judged, Result, done_of
from machinery.kinds.table import ALONE, profile_of
from machinery.kinds.templates import first_ordinal, run_of, runs_once
from machinery.overrides.override import ClusterOverride, cluster_overrides_of
from machinery.types.api import Placement
from machinery.types.metadata import Key, Object
from machinery.types.selectors import label_selector
from machinery.types.workload_api import (
    Footprint,
    IgnoredFields,
    LeavingShare,
    ObservedGenerations,
    OrdinalRange,
    OverrideTarget,
    ReviewVerdict,
    RevisionException,
    StatusField,
    Suspension,
)
from machinery.types.written_clusters import MemberRecord
from propagator.types.movement import Movement
from propagator.types.overrides import Costs, Overrides, overrides_of

CLAIM = "PersistentVolumeClaim"


class WorkTold(NamedTuple):
    """What the hub knows of the work of a share."""

    done: int | None = None
    """How much of `part` is done; None: nobody else goes on with it."""
    part: int | None = None
    """The completions of the share; None: all of its object."""
    awaits_end: bool = False
    """Whether the end of the share counts for all clusters, and is not stored yet."""
    run: str = ""
    """Of which object that is (`run_of`); empty of any: the work of another run counts nowhere."""

    def matters(self, judged: Judged) -> bool:
        """Whether an object's work counts beyond its cluster."""
        return self.awaits_end or (self.done is not None and judged.total is not None)

    def covers(self, judged: Judged) -> bool:
        if self.awaits_end and judged.result is not None:
            return False
        return self.done is None or judged.total is None or done_of(judged, self.part) <= self.done


MOST_KINDS = 256
"""A note with more kinds is not one of ours, and counts as empty."""
IN_EACH_GROUP_KEY = "-group"
"""Searched for first: one pass instead of three."""
_ACCOUNT = b"serviceAccount"
_GROUP_SIGN = IN_EACH_GROUP_KEY.encode()
_GROUP_KEYS = tuple(f'"{key}"'.encode() for key in GROUP_LABELS)
_template_decoder = msgspec.json.Decoder(dict[str, Any])


class ResourceRef(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    secret_name: str = ""

    @property
    def secret(self) -> str:
        return self.secret_name or self.name


class _OutlineMeta(msgspec.Struct, frozen=True, gc=False):
    name: str | None = None
    namespace: str | None = None


ObjectId: TypeAlias = tuple[str, str, str, str]
"""Group, kind, namespace and name; the namespace is the Workload's where the kind has none."""


class Outline(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _OutlineMeta | None = None

    @property
    def pair(self) -> tuple[str, str]:
        return self.api_version, self.kind

    @property
    def name(self) -> str:
        return (self.metadata and self.metadata.name) or ""

    @property
    def namespace(self) -> str:
        return (self.metadata and self.metadata.namespace) or ""


class WorkloadSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Empty bytes and `null` both mean no object."""

    replicas: int | None = None
    scheduler_name: str = ""
    distribution: str = ""
    target_namespace: str = ""
    target_deployment: msgspec.Raw = msgspec.Raw()
    target_service: msgspec.Raw = msgspec.Raw()
    template: msgspec.Raw = msgspec.Raw()
    replicas_path: str = ""
    manifests: list[msgspec.Raw] = []
    resources: list[ResourceRef] = []
    dependencies: str = ""
    overrides: msgspec.Raw = msgspec.Raw()
    adoption: str = "Never"
    ignore_fields: list[IgnoredFields] = []
    status_fields: list[StatusField] = []
    drift: str = "Repair"
    on_delete: str = OnDelete.DELETE.value
    movement: Movement = Movement()
    suspend: Suspension | None = None
    delivery: str = Delivery.PUSH.value
    rollout: msgspec.Raw = msgspec.Raw()
    """Only its presence matters: the status names each cluster's revision."""


class PresentRollout(msgspec.Struct, frozen=True, gc=False):
    revision: str = ""


class StoredCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Missing fields stay unset. A fifth of a dict's memory."""

    type: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    last_transition_time: str | UnsetType = UNSET
    observed_generation: int | UnsetType = UNSET


class DecisionRef(msgspec.Struct, frozen=True, gc=False):
    """`id` is empty if another scheduler made the placements."""

    id: str = ""


class WorkloadStatus(msgspec.Struct, frozen=True, rename="camel"):
    state: str = ""
    observed_generation: int = -1
    observed: ObservedGenerations = ObservedGenerations()
    desired: int | None = None
    placements: list[Placement] = []
    decision: DecisionRef = DecisionRef()
    leaving: list[LeavingShare] = []
    carried: dict[str, str] = {}
    ordinals: list[OrdinalRange] = []
    run: str = ""
    overrides: msgspec.Raw = msgspec.Raw()
    """Decoded by `Workload.overrides`: a fault there spoils no other field."""
    clusters: list[dict[str, Any]] = []
    fields_omitted: int | None = None
    kept: list[dict[str, Any]] = []
    drift: list[dict[str, Any]] = []
    dependencies: list[dict[str, Any]] = []
    pending: int = 0
    ready: int | None = None
    ready_summary: str = ""
    cluster_summary: str = ""
    service_external_ip: str | None = msgspec.field(default=None, name="serviceExternalIP")
    conditions: list[StoredCondition] = []
    review: ReviewVerdict = ReviewVerdict(0)
    rollout: PresentRollout = PresentRollout()
    revisions: msgspec.Raw = msgspec.Raw()
    """Decoded by `Workload.revision_of`: most Workloads have none."""
    footprint: Footprint = Footprint()


class Workload(Object, frozen=True, dict=True):
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def owner(self) -> str:
        """`namespace/name`, the value of the owner annotation."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def keeps_room(self) -> bool:
        return keeps_room(self.spec.scheduler_name, self.metadata.owner_references)

    @property
    def delivered(self) -> bool:
        return self.spec.delivery != Delivery.NONE

    @property
    def restored(self) -> RestoredMark:
        """What became of it since the hub was restored; empty if it was not made by that."""
        return RestoredMark.of(self.metadata.annotations)

    @property
    def incomplete(self) -> bool:
        return self.restored.incomplete and not self.metadata.deleting

    @property
    def duplicated(self) -> bool:
        """Whether each cluster has a copy, unless a policy or a spread divides it."""
        return self.profile.everywhere or self.spec.distribution == Distribution.DUPLICATED

    @property
    def ended(self) -> bool:
        """Whether no member should hold its objects."""
        return self.metadata.deleting or not self.delivered

    def suspended(self, labels: Mapping[str, str]) -> bool:
        """Whether nothing is written on a cluster of these labels; its deletion ends that."""
        held = self.spec.suspend
        if held is None or self.metadata.deleting:
            return False
        return label_selector(held.cluster_selector).matches(labels)

    @property
    def orphans(self) -> bool:
        """Whether the objects of an ended Workload stay on the members, without Stowage's marks."""
        return self.spec.on_delete == OnDelete.ORPHAN or not self.delivered

    @property
    def deletion_confirmed(self) -> bool:
        return self.metadata.annotations.get(ANNOTATION_DELETION) == CONFIRMED

    @property
    def staged(self) -> bool:
        return _some(self.spec.rollout)

    def revision_of(self, cluster: str) -> str:
        """Return the revision that a cluster gets; empty if none is set."""
        if not self.staged:
            return ""
        return self._exceptions.get(cluster, self.status.rollout.revision)

    @property
    def revisions(self) -> set[str]:
        return {self.status.rollout.revision, *self._exceptions.values()}

    @cached_property
    def _exceptions(self) -> dict[str, str]:
        raw = self.status.revisions
        exceptions = _revisions.decode(raw) or () if _some(raw) else ()
        return {name: each.revision for each in exceptions for name in each.clusters}

    def with_other_revision(self, other: Workload) -> set[str]:
        """Return the clusters whose revision differs in `other`."""
        before, after = self._revisions_said, other._revisions_said
        if before == after:
            return set()
        names = {*other.placements, *other.causes}
        return {name for name in names if self.revision_of(name) != other.revision_of(name)}

    @property
    def _revisions_said(self) -> tuple[bool, str, bytes]:
        return self.staged, self.status.rollout.revision, bytes(self.status.revisions)

    @cached_property
    def ends(self) -> dict[str, Mapping[str, Any]]:
        """How shares ended, by cluster; ends of an object of another name are ignored."""
        if self.profile.ended is None:
            return {}
        found = ((share["name"], share.get("ended")) for share in self.status.clusters)
        known = {name: end for name, end in found if isinstance(end, dict)}
        return {
            name: end for name, end in known.items() if end.get("object") in (None, "", self.run)
        }

    def end_of(self, cluster: str, former: Iterable[str] = ()) -> Mapping[str, Any] | None:
        """Return how the share there ended; `former` are the names that the cluster had.

        The placements have the present name before the status tells of the cluster by it.
        """
        return next((self.ends[n] for n in self._names(cluster, former) if n in self.ends), None)

    def _names(self, cluster: str, former: Iterable[str]) -> list[str]:
        return [cluster, *(name for name in former if name not in self.placements)]

    def forgets(self, cluster: str, former: Iterable[str] = ()) -> bool:
        """Whether the object goes with its stored end there: it failed, and would run again."""
        end = self.profile.ended
        if end is None or not end.delete_failed:
            return False
        return (self.end_of(cluster, former) or {}).get("result") == Result.FAILED

    @cached_property
    def run(self) -> str:
        outline = self.outline
        return run_of(outline.kind, self.namespace, outline.name or self.metadata.name)

    def left(self, member: str) -> bool:
        """Whether the placements name other members only."""
        there = member in self.placements or member in self.leaving
        return bool(self.placements) and not there

    @property
    def namespace(self) -> str:
        return self.spec.target_namespace or self.metadata.namespace

    @property
    def template(self) -> dict[str, Any]:
        """Decoded at each call, like the properties below."""
        return _whole(self._main)

    @property
    def target_service(self) -> dict[str, Any]:
        return _whole(self.spec.target_service)

    @property
    def manifests(self) -> list[dict[str, Any]]:
        return [_whole(raw) for raw in self.spec.manifests]

    @property
    def cluster_overrides(self) -> tuple[ClusterOverride, ...]:
        """Raises UnreadableOverrides."""
        raw = self.spec.overrides
        return cluster_overrides_of(bytes(raw)) if _some(raw) else ()

    def ignored(self, kind: str, name: str, *, main: bool) -> Iterator[str]:
        for each in self.spec.ignore_fields:
            if _means(each.target, kind, name, main=main):
                yield from each.paths

    def status_paths(self, kind: str, name: str, *, main: bool) -> Iterator[tuple[str, str]]:
        for each in self.spec.status_fields:
            if _means(each.target, kind, name, main=main):
                yield each.name, each.path

    @property
    def outline(self) -> Outline:
        return outline_of(self._main) or Outline()

    @property
    def kept_back(self) -> float:
        """How many units of an older revision the update strategy keeps."""
        spec = self.template.get("spec")
        strategy = spec.get("updateStrategy") if isinstance(spec, dict) else None
        if not isinstance(strategy, dict):
            return 0
        if strategy.get("type") == "OnDelete":
            return math.inf
        rolling = strategy.get("rollingUpdate")
        partition = rolling.get("partition") if isinstance(rolling, dict) else 0
        return partition if type(partition) is int else 0

    @cached_property
    def alone(self) -> bool:
        """Whether it is manifests alone, without an object that runs its replicas."""
        return bool(self.spec.manifests) and not _some(self._main)

    @cached_property
    def profile(self) -> Profile:
        if self.alone:
            return ALONE
        return profile_of(*self.outline.pair, self.spec.replicas_path)

    @property
    def _main(self) -> msgspec.Raw:
        spec = self.spec
        return spec.target_deployment if _some(spec.target_deployment) else spec.template

    @cached_property
    def decided(self) -> dict[str, int]:
        """Units by cluster, also if another tool delivers.

        Cached: there may be ten thousand clusters.
        """
        return {share.cluster: share.replicas for share in self.status.placements}

    @cached_property
    def parts(self) -> dict[str, int]:
        """Completions by cluster; empty if the work is not divided, or that of another run is."""
        if self.profile.ended is None or self.status.run not in ("", self.run):
            return {}
        given = ((share.cluster, share.completions) for share in self.status.placements)
        return {cluster: part for cluster, part in given if part is not None}

    def part_of(self, cluster: str) -> int | None:
        left = (s.completions for s in self.status.leaving if s.cluster == cluster)
        part = self.parts.get(cluster)
        return next(left, None) or None if part is None else part

    def awaits_part(self, cluster: str) -> bool:
        """Whether the cluster has no completions yet because other shares still have open ones."""
        return self._divides_work and cluster in self.placements and cluster not in self.parts

    def starts_later(self, cluster: str) -> bool:
        """Whether nothing may start there for what is known of other clusters.

        The work of other shares is counted first, or was all of it.
        """
        over = self.ends_whole and bool(self.ends) and cluster not in self.ends
        return over or self.awaits_part(cluster)

    @property
    def ends_whole(self) -> bool:
        """Whether its end on one cluster is the end of it, as of a Job that is not divided."""
        divides = self._divides_work or self.spec.distribution == Distribution.DIVIDED
        several = divides or self.duplicated or len(self.placements) > 1
        return self.profile.ended is not None and not several

    def told(self, cluster: str, former: Sequence[str] = ()) -> WorkTold:
        awaits_end = self.ends_whole and self.end_of(cluster, former) is None
        done = self.known_done(cluster, former)
        return WorkTold(done, self.part_of(cluster), awaits_end, self.run)

    def known_done(self, cluster: str, former: Iterable[str] = ()) -> int | None:
        """Return how much of its work a share that left is stored to have done."""
        if cluster in self.placements or not self._divides_work:
            return None
        told = {each["name"]: each.get("completed", 0) for each in self.status.clusters}
        return next((told[name] for name in self._names(cluster, former) if name in told), 0)

    @property
    def _divides_work(self) -> bool:
        placed = any(share.completions is not None for share in self.status.placements)
        divided = placed and self.profile.ended is not None
        return divided or any(share.completions for share in self.status.leaving)

    @property
    def placements(self) -> dict[str, int]:
        """Units to deliver, by cluster; empty if another tool delivers them."""
        return self.decided if self.delivered else {}

    @cached_property
    def shares(self) -> dict[str, int]:
        """Replicas wanted on each cluster of the placements, including those that leave it."""
        if not self.status.leaving:
            return self.placements
        stay = {name: n for name, n in self.leaving.items() if not self.gives_first(name)}
        return {name: n + stay.get(name, 0) for name, n in self.placements.items()}

    @cached_property
    def leaving(self) -> dict[str, int]:
        """Replicas that run until their successors are ready, by cluster."""
        left = ((share.cluster, share.replicas - share.replaced) for share in self.status.leaving)
        return {cluster: replicas for cluster, replicas in left if replicas > 0}

    @cached_property
    def causes(self) -> dict[str, str]:
        return {share.cluster: share.cause for share in self.status.leaving}

    @cached_property
    def at_most_once(self) -> bool:
        """Whether a unit must be gone from its cluster before another cluster starts it."""
        profile = self.profile
        # Most templates are not read for it.
        body = self.template if profile.once_when and not profile.once else {}
        once = runs_once(profile, body)
        return self.spec.movement.at_most_once(otherwise=once)

    def gives_first(self, cluster: str) -> bool:
        """Whether units that leave that cluster stop before their successors start.

        After a loss they stay as long as `leaving` lists them, because they may still run.
        """
        return self.at_most_once and self.causes.get(cluster) != ChangeCause.CLUSTER_LOST

    @property
    def unavailable(self) -> int:
        """The ready replicas below those wanted that a move may cause."""
        wanted = self.wanted or sum(self.placements.values())
        return self.spec.movement.unavailable(wanted, at_most_once=self.at_most_once)

    @property
    def wants_replicas(self) -> bool:
        """True if the number cannot be read. A placeholder wants those of its placements."""
        return bool(self.placements) or (not self.keeps_room and self._wanted != 0)

    @property
    def wanted(self) -> int:
        """The replicas in the spec; 0 without a number."""
        return wanted if type(wanted := self._wanted) is int else 0

    @property
    def _wanted(self) -> Any:
        path = self.profile.replicas_path
        if self.spec.replicas is not None or not path:
            return self.spec.replicas
        return value_at(self.template, path)

    @cached_property
    def overrides(self) -> Overrides:
        return overrides_of(bytes(self.status.overrides))

    def costs_on(self, cluster: str) -> Costs | None:
        """Return the deletion costs of its pods there; None if unknown, or if the share goes."""
        if self.metadata.deleting or cluster not in self.placements or self.overrides.fault:
            return None
        return self.overrides.of(cluster).costs

    @cached_property
    def clusters(self) -> AbstractSet[str]:
        """The clusters in the placements and in `status.clusters`."""
        if not self.delivered:
            return frozenset()
        placed, reported = self.placements.keys(), {share["name"] for share in self.status.clusters}
        return placed if reported <= placed else placed | reported

    @property
    def conditions(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(each) for each in self.status.conditions]

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """More than one is the author's error."""
        return groups_of(self.metadata.labels, self._main)

    @cached_property
    def decision(self) -> str:
        return decision_of(self.placements)

    @property
    def decided_by(self) -> str:
        """Return what tells the present decision from earlier ones: its id, else the placements."""
        return self.status.decision.id or f"{self.metadata.generation}/{self.decision}"

    @property
    def sent(self) -> MemberRecord:
        """The members that may have been sent objects, and have not confirmed their end."""
        noted = self.metadata.annotations.get(ANNOTATION_CLUSTERS, "")
        return MemberRecord.read(noted) | MemberRecord.read(self.status.footprint.clusters)

    def only_kept(self, member: str) -> bool:
        """Whether the status has of that member what a rule keeps there, and no share."""
        shares = (each["name"] for each in self.status.clusters)
        if member in self.placements or member in shares:
            return False
        return any(each["cluster"] == member for each in self.status.kept)

    def claims_left(self, member: str) -> list[dict[str, Any]]:
        """Return the claims that the status names as kept on a member without a share."""
        if self.ended or member in self.placements:
            return []
        of_it = (each for each in self.status.kept if each["cluster"] == member)
        return [each for each in of_it if each["kind"] == CLAIM]

    @property
    def leaves(self) -> bool:
        return bool(self.status.leaving) or not self.sent.entries <= self.placements.keys()

    @property
    def secrets(self) -> list[str]:
        return [resource.secret for resource in self.spec.resources]

    @property
    def follows(self) -> bool:
        return self.spec.dependencies == Dependencies.FOLLOW

    def outlines(self) -> Iterator[Outline]:
        for raw in (self._main, self.spec.target_service, *self.spec.manifests):
            if outline := outline_of(raw):
                yield outline

    def ids(self) -> Iterator[ObjectId]:
        """Yield the objects of the spec."""
        yield from map(self._id, self.outlines())

    def carried_ids(self) -> Iterator[ObjectId]:
        """Yield the objects of spec.manifests."""
        found = (outline_of(raw) for raw in self.spec.manifests)
        yield from (self._id(each) for each in found if each is not None)

    def _id(self, outline: Outline) -> ObjectId:
        name = outline.name or self.metadata.name
        where = outline.namespace or self.namespace
        return group_of(outline.api_version), outline.kind, where, name

    def kinds(self) -> Iterator[tuple[str, str]]:
        """Yield (apiVersion, kind) of everything that is rendered."""
        yield from (each.pair for each in self.outlines())
        if self.spec.resources:
            yield "v1", "Secret"
        if self.follows:
            yield from (("v1", kind) for kind in self._followed_kinds())

    def _followed_kinds(self) -> Iterator[str]:
        """Yield the kinds that may travel along, whichever overrides apply."""
        yield from ("ConfigMap", "Secret")
        running = self.outlines() if self.alone else ()
        if self.profile.service or any(profile_of(*each.pair).service for each in running):
            yield "Service"
        if any(_ACCOUNT in bytes(raw) for raw in self._sources):
            yield "ServiceAccount"

    @property
    def _sources(self) -> tuple[msgspec.Raw, ...]:
        bodies = self.spec.manifests if self.alone else (self._main,)
        return *bodies, self.spec.overrides, self.status.overrides

    def names_of(self, api_version: str, kind: str) -> Iterator[Key]:
        """Yield the member's keys of rendered objects of that kind."""
        yield from self.carried(api_version, kind)
        if (api_version, kind) == ("v1", "Secret"):
            yield from ((self.namespace, name) for name in self.secrets)

    def carried(self, api_version: str, kind: str) -> Iterator[Key]:
        """As `names_of`, without the Secrets that the spec only names."""
        for each in self.outlines():
            if each.pair == (api_version, kind):
                yield each.namespace or self.namespace, each.name or self.metadata.name

    def namespaces(self) -> set[str]:
        named = {each.namespace for each in map(outline_of, self.spec.manifests) if each}
        return {self.namespace, *named} - {""}

    def remembered(self) -> frozenset[tuple[str, str]]:
        """An oversized note counts as empty."""
        return frozenset().union(*(_kinds_in(text) or () for text in self._notes))

    @property
    def spoilt(self) -> bool:
        """Whether a note lists more kinds than Stowage ever writes."""
        return any(_kinds_in(text) is None for text in self._notes)

    @property
    def _notes(self) -> tuple[str, str]:
        return self.metadata.annotations.get(ANNOTATION_KINDS, ""), self.status.footprint.kinds

    @cached_property
    def ranges(self) -> Mapping[str, int]:
        noted = {each.cluster: each.start for each in self.status.ordinals}
        if not self.profile.ordered:
            return {**self._annotated, **noted}
        first = self.first_ordinal
        before = {name: start or first for name, start in self._annotated.items()}
        told = {e["name"]: e["start"] for e in self.status.clusters if type(e.get("start")) is int}
        return known_ranges({**before, **noted}, told)

    @property
    def first_ordinal(self) -> int:
        return first_ordinal(self.profile, self.template)

    def missing_ranges(self, formerly: Callable[[str], Sequence[str]]) -> dict[str, int]:
        """Return all ranges if the scheduler gives none and a cluster lacks one; else nothing.

        `formerly` returns the former names of a cluster.
        """
        if not self.profile.ordered or self.status.observed.controller is not None:
            return {}
        known, lacks = dict(self.ranges), sorted(self.placements.keys() - self.ranges.keys())
        for name in lacks:
            former = next((each for each in formerly(name) if each in known), None)
            if former is not None:
                known[name] = known.pop(former)
        found = with_new_ranges(known, lacks, self.first_ordinal) if lacks else {}
        return found if len(found) <= MOST_RANGES else {}

    @property
    def _annotated(self) -> dict[str, int]:
        """Written by earlier releases; empty if malformed."""
        try:
            noted = json.loads(self.metadata.annotations.get(ANNOTATION_ORDINALS, "{}"))
            return {str(name): int(first) for name, first in noted.items()}
        except (ValueError, AttributeError, TypeError):
            return {}


def _means(target: OverrideTarget | None, kind: str, name: str, *, main: bool) -> bool:
    return main if target is None else (target.kind, target.name) == (kind, name)


@lru_cache(maxsize=1024)
def _kinds_in(text: str) -> frozenset[tuple[str, str]] | None:
    """None if there are too many. Cached: many notes are equal."""
    noted = text.split(",", MOST_KINDS)
    if len(noted) > MOST_KINDS:
        return None
    pairs = ((version, kind) for version, _, kind in (each.rpartition("/") for each in noted))
    return frozenset(pair for pair in pairs if well_formed(*pair))


def groups_of(labels: Mapping[str, str], template: msgspec.Raw) -> tuple[str, ...]:
    """Return the names in the labels of a Workload, its template and its pods, each once.

    The bytes are searched first: few have a group. An undecodable template names no group.
    """
    raw = bytes(template)
    if _GROUP_SIGN not in raw or not any(key in raw for key in _GROUP_KEYS):
        return membership.groups_named(labels)
    found: Any = {}
    with suppress(ValueError, RecursionError):
        found = _template_decoder.decode(raw)
    return groups_in(labels, found)


class _Departing(Object, frozen=True):
    spec: Any = None
    status: WorkloadStatus = WorkloadStatus()


def departing(raw: msgspec.Raw, last: Workload | None) -> Workload:
    """Return a deleted Workload whose spec is unreadable, with the last readable spec.

    Raises ValueError if its status is unreadable too.
    """
    now = _departing.decode(raw)
    spec = last.spec if last is not None and last.uid == now.metadata.uid else WorkloadSpec()
    if isinstance(now.spec, dict) and now.spec.get("onDelete") in list(OnDelete):
        spec = structs.replace(spec, on_delete=now.spec["onDelete"])
    return Workload(metadata=now.metadata, spec=spec, status=now.status)


def read_anew(workload: Workload) -> Workload:
    fields = {name: getattr(workload, name) for name in workload.__struct_fields__}
    return Workload(**fields)


def workload_of(value: Mapping[str, Any]) -> Workload:
    """Raises ValueError."""
    return _workload.decode(msgspec.json.encode(value))


def _some(raw: msgspec.Raw) -> bool:
    size = len(memoryview(raw))
    return size > len(b"null") or bytes(raw) not in (b"", b"null", b"{}")


def _whole(raw: msgspec.Raw) -> dict[str, Any]:
    return _object.decode(raw) if _some(raw) else {}


def outline_of(raw: msgspec.Raw) -> Outline | None:
    """Return None without a template, and an empty outline if its metadata is malformed."""
    try:
        return _outlines.decode(raw) if _some(raw) else None
    except msgspec.ValidationError:
        return Outline()


_object = msgspec.json.Decoder(dict[str, Any])
_outlines = msgspec.json.Decoder(Outline)
_workload = msgspec.json.Decoder(Workload)
_departing = msgspec.json.Decoder(_Departing)
_revisions = msgspec.json.Decoder(list[RevisionException] | None)
