"""A Workload as a decision reads it: one replica of it, how many are wanted, and its rules.

Compiled once for each generation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from controller.model import podtemplate, why
from controller.model.load import Load
from controller.model.moving import AT_REST, MovingState, moving_state, refuse_movement
from controller.model.objects import (
    Manifest,
    RolloutState,
    Template,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
    reserved_shares,
    rollout_state,
)
from controller.model.observedlimits import ObservedLimit, Shown, from_status, shown, waiting
from controller.model.overridden import Overridden, alongside, most_of, overridden_of, stays
from controller.model.patched import most_patched
from controller.model.place import Place, together
from controller.model.requests import Charge, parts_of, request_of
from controller.model.work import Work, known_in, work_of
from crds.admission.carried import guarded, kind_name
from crds.admission.placeholder import keeps_room
from crds.fields.movement import MovedData
from crds.fields.placing import Distribution
from crds.fields.publishing import Delivery
from crds.fields.shares import ShareHealth
from crds.groups.membership import groups_named
from crds.names import BINDING_LABELS
from crds.workload import OnDelete
from machinery.api.resources import CRDS, group_of
from machinery.kinds.builtin import DEPLOYMENT
from machinery.kinds.paths import steps
from machinery.kinds.profile import Profile, with_article
from machinery.kinds.readiness import judge
from machinery.kinds.scalers import refuse_scaler
from machinery.kinds.table import ALONE, PRESENT, may_change, profile_of
from machinery.kinds.templates import (
    claims_in,
    completions_in,
    first_ordinal,
    is_whole,
    pod_template,
    pods_in,
    replicas_in,
    run_of,
    runs_once,
)
from machinery.types.api import (
    ClusterAffinity,
    DistributionWeight,
    Movement,
    SpreadConstraint,
    TargetCluster,
    WorkloadAffinity,
)
from machinery.types.bounds import MOST_UNITS, between, quoted
from machinery.types.lean import lean
from machinery.types.metadata import Key, Meta, shared
from machinery.types.selectors import LabelSelector, SelectorPart, flattened, label_selector
from machinery.types.taints import Toleration
from machinery.types.workload_api import ReservedShare

_PLACED_BY = (
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
)
"""The fields that a member's scheduler reads of a pod beside its requests and host ports."""

_NOTHING: Mapping[str, Any] = {}
NO_CONTROLLER = ("", "", "", "")


@dataclass(frozen=True, slots=True)
class Left:
    """What of a Workload stays on its clusters, and runs, when the Workload is deleted."""

    main: bool
    """Its replicas."""
    alongside: Mapping[str, int]
    """The request of the pods of its manifests on each cluster, as `WorkloadInfo.alongside`."""


@dataclass(frozen=True, slots=True)
class WorkloadInfo:
    """One Workload, ready to be placed.

    `constraints`, `demand` and `shape` are hashes of what placement reads, the last one of what the
    members' own schedulers read.
    """

    namespace: str
    name: str
    uid: str
    created: str
    scheduler_name: str
    priority: int
    labels: Mapping[str, str]
    unit_labels: Mapping[str, str]
    """The labels of its pods; its own for a custom kind, whose pods are unknown."""
    bindings: tuple[str, ...]
    """The names that its binding labels give: more than one is a mistake of the user's."""
    api_version: str
    kind: str
    """Those of its template."""
    replicas: int
    """The replicas wanted beside those that have ended; on each cluster, where it is duplicated."""
    counted: bool
    request: Mapping[str, int]
    """The request of one replica: thousandths of cpu, whole numbers of the rest."""
    place: Place
    """The nodes that its pods may lie on."""
    pod_selector: str
    target_namespace: str
    guarded_kinds: tuple[str, ...]
    """The kinds, as `<group>/<kind>`, that a cluster must list to take it."""
    served_kinds: tuple[str, ...]
    """The kinds, as `<group>/<version>/<kind>`, of groups with a dot, that a cluster must serve."""
    target_cluster: TargetCluster | None
    cluster_selector: Mapping[str, SelectorPart]
    cluster_affinity: ClusterAffinity
    affinity: WorkloadAffinity
    anti_affinity: WorkloadAffinity
    tolerations: tuple[Toleration, ...]
    distribution: str
    weights: tuple[DistributionWeight, ...]
    packing: str
    spread: tuple[SpreadConstraint, ...]
    present: Mapping[str, int]
    """The shares as they are, by cluster, without those that have ended."""
    constraints: str
    demand: str
    shape: str
    decided: tuple[str, str, str]
    """The three hashes that the present placements were decided on."""
    limits: Mapping[str, ObservedLimit]
    """The bounds of clusters by what they ran of it."""
    shown: Mapping[str, Shown]
    """The clusters' reports that bear on limits."""
    waits: Mapping[str, datetime]
    """Since when pods of a share wait for a node, those that a rolling update adds too."""
    version: str
    """The version of the object that all of this was read from."""
    profile: Profile = PRESENT
    """What is known of its kind."""
    run: str = ""
    """What a run of its object is known by; empty of a kind that does not end."""
    asked: int = 0
    """The replicas that its spec asks for."""
    ended: Mapping[str, int] = field(default_factory=dict)
    """The shares that have ended, by cluster: they are nowhere made again."""
    indivisible: bool = False
    """Its template says what makes each copy a whole, so that nothing divides its replicas."""
    work: Work | None = None
    """What it has to do, of a kind that ends; None where each copy does all of it."""
    pod: bytes = b""
    """The `controller.model.podtemplate.skeleton` of its pods, for patches of them."""
    overridden: Overridden | None = None
    """What its overrides make of the template; None where it has none."""
    alongside: Mapping[str, int] = field(default_factory=dict)
    """The request of the pods that its manifests make on each cluster; "pods" is their number."""
    most_request: Mapping[str, int] = field(default_factory=dict)
    """The most that one replica requests by any of its overrides; empty without one."""
    patched: Mapping[str, int] = field(default_factory=dict)
    """The most that one replica requests by the patches in its status; empty without one."""
    divided: bool = False
    """A plugin divides its replicas whatever its distribution; set by a decision (`Settle`)."""
    booked: bool = False
    """A ledger holds the room of its replicas, so that none of them is in flight."""
    reservations: tuple[ReservedShare, ...] = ()
    """The replicas that are in the room of others, as its status tells."""
    controller: tuple[str, str, str, str] = NO_CONTROLLER
    """The object's controller: apiVersion, kind, name, uid; empty without."""
    template_name: str = ""
    first_ordinal: int = 0
    """The one that its template asks for, of a kind that counts its pods."""
    ranges: Mapping[str, int] = field(default_factory=dict)
    """Where the ordinals of clusters begin, as far as that is known, of such a kind."""
    groups: tuple[str, ...] = ()
    """The names that its labels give of its group: more than one is a mistake of the user's."""
    runs: bool = False
    """Whether a cluster reports pods of it."""
    moving: MovingState = AT_REST
    """Its budgets of movement, and what moves."""
    claims: int = 0
    """The claims that each replica has where it is, and does not go without; 0 for none. Of a kind
    that always has data it is 1.
    """
    holding: Mapping[str, str] = field(default_factory=dict)
    """Why the replicas of a share stay where they are, beside claims, by cluster."""
    rollout: RolloutState | None = None
    """How its template goes from cluster to cluster; None where all get it at once."""
    left: Left | None = None
    """What of it outlives it; None where nothing does."""
    deleting: bool = False
    """Its deletion was asked for."""
    unread: bool = False
    """Its spec could not be compiled: what its replicas request is not known."""
    source: WorkloadSpec | None = None
    """Its whole spec, of a kind whose profile may change, or with several sorts of pods."""
    suspended: LabelSelector | None = None
    """The clusters whose shares stay as they are, and that take none; None for no cluster."""
    idle: bool = False
    """Its object has no pods once it is made, such as a Job with `suspend`."""
    delivered: bool = True
    """The propagator brings it to its clusters, and tells how its replicas fare there."""

    key: Key = field(init=False, repr=False, compare=False)
    """(namespace, name), made once: a dozen tables keep it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (self.namespace, self.name))

    @property
    def load(self) -> Load:
        """The request of one replica, and where on a cluster it may lie."""
        return Load.of(self.request, self.place)

    @property
    def charge(self) -> Charge:
        """What quotas of its namespace on a member charge for one replica."""
        return Charge(self.target_namespace, self.pod)

    @property
    def hash(self) -> str:
        """The value of status.decision.hash."""
        return f"{self.constraints}-{self.demand}-{self.shape}"

    @property
    def edited(self) -> bool:
        """Whether the rules (not only the number) changed since the present placements."""
        return bool(self.present) and self.decided[0] != self.constraints

    @property
    def bound(self) -> bool:
        """Whether labels bind its replicas: then they are divided, whatever the distribution."""
        return bool(self.bindings) and self.counted and not self.indivisible

    @property
    def learns(self) -> bool:
        """Whether its own spec divides its replicas: clusters are held to what they ran of it."""
        return self.bound or self.distribution == Distribution.DIVIDED

    @property
    def split(self) -> bool:
        """Whether something beside its distribution divides its replicas."""
        return self.bound or self.divided

    @property
    def everywhere(self) -> bool:
        """Whether every matching cluster runs it in full."""
        return self.profile.everywhere or (self.distribution == "Duplicated" and not self.split)

    @property
    def shared_work(self) -> Work | None:
        """The work that is divided with its replicas; None where none is."""
        return self.work if self.learns or self.divided else None

    def as_divided(self) -> WorkloadInfo:
        """Return the Workload as one that a plugin divides."""
        work = self.work
        replicas = self.replicas if work is None else work.wanted(self.replicas, self.present)
        return replace(self, divided=True, replicas=replicas)

    @property
    def over(self) -> bool:
        """Whether all of it has ended, so that nothing is left to decide."""
        return bool(self.ended) and not self.everywhere and not self.replicas

    @property
    def ended_replicas(self) -> int:
        """The replicas of ended shares; 0 where each cluster has all of them."""
        return 0 if self.everywhere else sum(self.ended.values())

    @property
    def whole(self) -> bool:
        """Whether all replicas go to one cluster."""
        return self.distribution == "Single" and not self.everywhere and not self.split

    @property
    def stays(self) -> bool:
        """Whether nothing moves it, as its kind is not known, and its author says no budget."""
        return not self.profile.known and self.moving.spec.max_surge is None

    def holds(self, cluster: str) -> bool:
        """Whether its replicas there stay with what they have."""
        return bool(self.claims) or cluster in self.holding

    def with_present(self, present: Mapping[str, int]) -> WorkloadInfo:
        if self.ended:
            present = {name: n for name, n in present.items() if name not in self.ended}
        return replace(self, present=present)

    def arriving(self, placements: Mapping[str, int]) -> dict[str, int]:
        """Return the replicas that clusters would have beside their present ones, where any."""
        had = self.present
        return {c: n - had.get(c, 0) for c, n in placements.items() if n > had.get(c, 0)}

    def own(self, placements: Mapping[str, int]) -> Mapping[str, int]:
        """Return these placements as they may be kept: the stored ones are kept here already."""
        return placements if placements is self.present else dict(placements)

    def most(self, placements: Mapping[str, int]) -> dict[str, int]:
        """Return the more replicas of `present` and of these placements, by cluster."""
        before = self.present
        return {c: max(before.get(c, 0), placements.get(c, 0)) for c in {**before, **placements}}


def workload_info(workload: Workload) -> WorkloadInfo:
    """Compile a Workload.

    Raises ValueError, naming the field, for what the schema could not refuse, such as a quantity.
    """
    spec, meta = workload.spec, workload.metadata
    template = spec.target_deployment or spec.template or Template()
    profile = _profile(spec)
    _refuse_numbers(spec)
    refuse_movement(spec.movement)
    podtemplate.check(template, profile)
    name = podtemplate.name_of(template) or meta.name
    if may_change(template.api_version) and len(name) > profile.names.max:
        most = f"{with_article(profile.kind)} has {profile.names.max} at most"
        raise ValueError(f"spec.template.metadata.name: has {len(name)} characters; {most}")
    for at, each in enumerate(spec.manifests):
        refuse_scaler(
            f"spec.manifests[{at}]", {"spec": each.spec}, template.kind or DEPLOYMENT.kind, name
        )
    body = {"metadata": _marks(template), "spec": template.spec}
    indivisible = is_whole(profile, body) or (profile.whole and profile.counted)
    _refuse_dividing(spec, profile, indivisible=indivisible)
    _refuse_ignoring(spec, profile)
    pods = pod_template(profile, body)
    pod_meta, pod = pods.get("metadata") or {}, pods.get("spec") or {}
    counted, replicas = profile.counted, replicas_in(profile, body, spec.replicas)
    labels = pod_meta.get("labels") or {}
    placeholder = keeps_room(spec.scheduler_name, meta.owner_references)
    if profile.pod_path or not profile.known:
        request, place = request_of(pod, labels, placeholder=placeholder), Place.of(pod)
    else:
        request, place = together(parts_of(profile, body))
    bindings = _bindings(meta.labels, podtemplate.labels_of(template), labels)
    changes = overridden_of(spec, template, profile)
    read: list[Any] = [request, {name: pod[name] for name in _PLACED_BY if name in pod}]
    if place.parts:
        read.append([astuple(each) for each in place.parts])
    shape = _hash([*read, changes.raw.hex()] if changes else read)
    run = _run(spec, meta, template) if profile.ended is not None else ""
    bound = bool(bindings) and not indivisible
    divided = counted and (spec.distribution == Distribution.DIVIDED or bound)
    total = completions_in(profile, body)
    groups = groups_named(meta.labels, podtemplate.labels_of(template), labels)
    leaves_data = spec.movement.data == MovedData.LEAVE
    claims = max(len(claims_in(profile, body)), profile.data.always)
    none = not replicas or (profile.whole and not any(n.count for n in pods_in(profile, body)))
    if none and claims and profile.data.go_with_replicas and not leaves_data:
        field = "spec.template" if profile.whole else "spec.replicas"
        raise ValueError(
            f"{field}: at 0 {with_article(profile.kind)} deletes its claims and their data; "
            f"spec.movement.data: {MovedData.LEAVE} lets them go"
        )
    skeleton = podtemplate.skeleton(pod_meta, pod)
    source = spec if profile.pods and not profile.pod_path else None
    return WorkloadInfo(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=meta.creation_timestamp,
        scheduler_name=spec.scheduler_name,
        priority=spec.priority,
        labels=labels if meta.labels.items() <= labels.items() else {**labels, **meta.labels},
        unit_labels=labels if pod_meta or pod else meta.labels,
        bindings=bindings,
        api_version=template.api_version,
        kind=template.kind,
        profile=profile,
        run=run,
        indivisible=indivisible,
        counted=counted,
        request=request,
        place=place,
        pod_selector=_selector(template, pod_meta),
        target_namespace=spec.target_namespace or meta.namespace,
        guarded_kinds=_guarded(spec),
        served_kinds=_served(spec),
        target_cluster=spec.target_cluster,
        cluster_selector=flattened(spec.cluster_selector) or _NOTHING,
        cluster_affinity=spec.cluster_affinity,
        affinity=spec.workload_affinity,
        anti_affinity=spec.workload_anti_affinity,
        tolerations=tuple(spec.tolerations),
        distribution=spec.distribution,
        weights=tuple(spec.distribution_weights),
        packing=spec.packing,
        spread=tuple(spec.spread_constraints),
        constraints=_hash(_rules(spec, meta.namespace)),
        demand=_hash([replicas, request]),
        shape=shape,
        pod=skeleton,
        overridden=changes,
        alongside=alongside(spec.manifests, changes.raw if changes else b"") or _NOTHING,
        left=_outliving(spec, template, changes.raw if changes else b""),
        most_request=most_of(changes) if changes is not None else _NOTHING,
        controller=_controller(meta),
        template_name=podtemplate.name_of(template),
        first_ordinal=first_ordinal(profile, body),
        groups=groups,
        suspended=label_selector(spec.suspend.cluster_selector) if spec.suspend else None,
        idle=bool(profile.suspended) and judge(profile, body).health == ShareHealth.SUSPENDED,
        delivered=spec.delivery != Delivery.NONE,
        claims=0 if leaves_data else claims,
        source=source,
        patched=most_patched(workload.status.overrides, skeleton, source, profile) or _NOTHING,
        **_of_status(
            workload,
            shape,
            counted=counted,
            divided=divided,
            once=runs_once(profile, body),
            run=run,
            asked=replicas,
            each=_each(spec, profile, split=bound),
            ends=bool(run) and not indivisible,
            total=total,
            gang=bool(groups),
        ),
        ranges=known_in(workload, first_ordinal(profile, body)) if profile.ordered else _NOTHING,
    )


def restated(held: Workload, meta: Meta, status: WorkloadStatus) -> Workload:
    """Return a compiled Workload as of a version of which nothing but the status is another."""
    info: WorkloadInfo = held.info
    later = msgspec.structs.replace(
        held, metadata=meta, status=lean(why.compact(status)), info=None
    )
    divided = info.counted and info.learns
    once = info.moving.once
    fields = _of_status(
        later,
        info.shape,
        counted=info.counted,
        divided=divided,
        once=once,
        run=info.run,
        asked=info.asked,
        each=info.everywhere,
        ends=info.work is not None,
        total=info.work.total if info.work is not None else None,
        gang=bool(info.groups),
    )
    patched = most_patched(later.status.overrides, info.pod, info.source, info.profile)
    fields["patched"] = patched or _NOTHING
    if info.profile.ordered:
        fields["ranges"] = known_in(later, info.first_ordinal)
    return msgspec.structs.replace(later, info=replace(info, **fields))


def scaled(held: Workload, replicas: int) -> Workload:
    """Return a compiled Workload of which so many replicas are wanted."""
    spec = msgspec.structs.replace(held.spec, replicas=replicas)
    generation = held.metadata.generation + 1
    meta = msgspec.structs.replace(held.metadata, generation=generation)
    info: WorkloadInfo = held.info
    if not info.profile.whole:
        left = replicas if info.everywhere else _left(replicas, info.ended)
        demand = _hash([replicas, info.request])
        info = replace(info, replicas=left, asked=replicas, demand=demand)
    return msgspec.structs.replace(held, metadata=meta, spec=spec, info=info)


def _of_status(
    workload: Workload,
    shape: str,
    *,
    counted: bool,
    divided: bool,
    once: bool,
    run: str,
    asked: int,
    each: bool,
    ends: bool,
    total: int | None,
    gang: bool,
) -> dict[str, Any]:
    status, decided = workload.status, _parts(workload.status.decision.hash)
    stored = workload.placements
    ended = _ended(status, stored, run, asked=0 if divided or each else asked) if run else _NOTHING
    present = {name: n for name, n in stored.items() if name not in ended} if ended else stored
    left = asked if each else _left(asked, ended)
    work = work_of(workload, total, ended, run=run, gang=gang) if ends and not each else None
    limited = divided or workload.spec.movement.unhealthy_seconds is not None
    return dict(  # noqa: C408 - names of fields, and no texts
        present=present,
        ended=ended,
        asked=asked,
        work=work,
        replicas=work.wanted(left, present) if work is not None and divided else left,
        moving=moving_state(workload, stored, once=once),
        decided=decided,
        limits=from_status(status) if limited and decided[-1] == shape else _NOTHING,
        shown=shown(workload) or _NOTHING if counted else _NOTHING,
        waits=waiting(workload) or _NOTHING if counted else _NOTHING,
        holding=_holding(workload) or _NOTHING,
        version=workload.metadata.resource_version,
        reservations=reserved_shares(status.reservations),
        deleting=workload.metadata.deleting,
        runs=any(c.current or c.ready or c.scheduled for c in status.clusters),
        rollout=rollout_state(workload.spec.rollout, status.rollout, status.revisions),
    )


def _holding(workload: Workload) -> dict[str, str]:
    if workload.spec.movement.data == MovedData.LEAVE:
        return {}
    return {share.name: share.holds for share in workload.status.clusters if share.holds}


def _ended(
    status: WorkloadStatus, stored: Mapping[str, int], run: str, *, asked: int
) -> dict[str, int]:
    found = ((share.name, share.ended) for share in status.clusters if share.ended is not None)
    names = [name for name, end in found if end.object in ("", run)]
    shares = {name: stored.get(name, asked) for name in names}
    return {name: replicas for name, replicas in shares.items() if replicas or name in stored}


def _left(asked: int, ended: Mapping[str, int]) -> int:
    return max(asked - sum(ended.values()), 0) if ended else asked


def _marks(template: Template) -> Mapping[str, Any]:
    meta = template.metadata
    return {} if meta is None else {"labels": meta.labels, "annotations": meta.annotations}


def _run(spec: WorkloadSpec, meta: Meta, template: Template) -> str:
    name = podtemplate.name_of(template) or meta.name
    return run_of(template.kind, spec.target_namespace or meta.namespace, name)


def _outliving(spec: WorkloadSpec, template: Template, raw: bytes) -> Left | None:
    """Return what `onDelete: Orphan` and the annotation `stowage.dev/keep` leave on clusters."""
    if spec.delivery == Delivery.NONE:
        return None  # another tool's
    orphans = spec.on_delete == OnDelete.ORPHAN
    meta = template.metadata
    main = orphans or stays({"annotations": meta.annotations} if meta else None, raw)
    kept = [each for each in spec.manifests if orphans or stays(each.metadata, raw)]
    return Left(main, alongside(kept, raw)) if main or kept else None


def _each(spec: WorkloadSpec, profile: Profile, *, split: bool) -> bool:
    return profile.everywhere or (spec.distribution == Distribution.DUPLICATED and not split)


def _controller(meta: Meta) -> tuple[str, str, str, str]:
    owners = ((o.api_version, o.kind, o.name, o.uid) for o in meta.owner_references if o.controller)
    return next(owners, NO_CONTROLLER)


def _parts(text: str) -> tuple[str, str, str]:
    """Split a hash in three; a part that an older release did not write is empty."""
    first, second, third = (*text.split("-", 2), "", "")[:3]
    return shared(first), shared(second), shared(third)


def _bindings(*places: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that the labels give, each once; aliases count like the label itself."""
    named = [labels[key] for labels in places for key in BINDING_LABELS if labels.get(key)]
    return tuple(sorted(set(named)))


def compact(workload: Workload) -> Workload:
    """Return the Workload without the template's body: what a cache keeps once it is compiled."""
    slim = msgspec.structs.replace(
        workload.spec,
        target_deployment=None,
        template=None,
        manifests=[],
        overrides=None,
        ignore_fields=None,
    )
    return msgspec.structs.replace(workload, spec=slim, status=why.compact(workload.status))


def with_bodies(slim: Workload, spec: WorkloadSpec) -> Workload:
    """Return a compact Workload with the bodies of `spec`, to be compiled."""
    whole = msgspec.structs.replace(
        slim.spec,
        target_deployment=spec.target_deployment,
        template=spec.template,
        manifests=spec.manifests,
        overrides=spec.overrides,
        ignore_fields=spec.ignore_fields,
    )
    return msgspec.structs.replace(slim, spec=whole)


def harmless(workload: Workload) -> Workload:
    """Return a Workload that cannot be compiled without what could be wrong with it."""
    # Where the Workload runs it still counts, so its shares and required terms stay.
    spec = workload.spec
    slim = msgspec.structs.replace(
        spec,
        replicas=None if spec.replicas is None else between(0, spec.replicas, MOST_UNITS),
        priority=between(-MOST_UNITS, spec.priority, MOST_UNITS),
        distribution_weights=[],
        spread_constraints=[],
        cluster_affinity=ClusterAffinity(required=spec.cluster_affinity.required),
        workload_affinity=WorkloadAffinity(required=spec.workload_affinity.required),
        workload_anti_affinity=WorkloadAffinity(required=spec.workload_anti_affinity.required),
        tolerations=[msgspec.structs.replace(t, toleration_seconds=None) for t in spec.tolerations],
        movement=Movement(),
        target_deployment=None,
        template=None,
        manifests=[],
        overrides=None,
    )
    return msgspec.structs.replace(workload, spec=slim)


def _guarded(spec: WorkloadSpec) -> tuple[str, ...]:
    """Return the guarded kinds that it brings along, `<group>/<kind>`, as far as a name tells."""
    named = [(body.api_version, body.kind) for body in spec.manifests]
    if spec.template is not None:
        named.append((spec.template.api_version, spec.template.kind))
    kinds = {kind_name(str(api_version), str(kind)) for api_version, kind in named}
    return tuple(sorted(kind for kind in kinds if guarded(kind)))


def _served(spec: WorkloadSpec) -> tuple[str, ...]:
    """Return its kinds that not every cluster serves, without those that it defines itself."""
    named = [(body.api_version, body.kind) for body in spec.manifests]
    if spec.template is not None:
        named.append((spec.template.api_version, spec.template.kind))
    own = {kind for body in spec.manifests for kind in _defined(body)}
    kinds = {f"{version}/{kind}" for version, kind in named if "." in group_of(str(version))}
    return tuple(sorted(kinds - own))


def _defined(body: Manifest) -> Iterator[str]:
    if group_of(str(body.api_version)) != CRDS.group or body.kind != CRDS.kind:
        return
    spec = body.spec if isinstance(body.spec, dict) else {}
    names, versions = spec.get("names"), spec.get("versions")
    kind = names.get("kind") if isinstance(names, dict) else None
    for each in versions if isinstance(versions, list) else ():
        if isinstance(each, dict):
            yield f"{spec.get('group')}/{each.get('name')}/{kind}"


def _rules(spec: WorkloadSpec, namespace: str) -> dict[str, Any]:
    """Return what placement reads of the spec beside numbers, by names that never change."""
    return {
        "distribution": spec.distribution,
        "weights": [_in_one_form(each) for each in spec.distribution_weights],
        "packing": spec.packing,
        **({"spread": spec.spread_constraints} if spec.spread_constraints else {}),
        "namespace": spec.target_namespace or namespace,
        **({"kinds": kinds} if (kinds := _guarded(spec)) else {}),
        "cluster": spec.target_cluster,
        "selector": flattened(spec.cluster_selector),
        "clusterAffinity": spec.cluster_affinity,
        "affinity": spec.workload_affinity,
        "antiAffinity": spec.workload_anti_affinity,
        "tolerations": spec.tolerations,
        "scheduler": spec.scheduler_name,
    }


def _in_one_form(weight: DistributionWeight) -> DistributionWeight:
    """Return a weight whose selector is no edit of the same one in another form."""
    selector: Any = label_selector(weight.cluster_selector)
    return msgspec.structs.replace(weight, cluster_selector=selector)


def _hash(value: Any) -> str:
    """Stable over restarts and releases: canonical JSON, sorted keys."""
    encoded = msgspec.json.encode(value, order="deterministic")
    return shared(hashlib.blake2b(encoded, digest_size=8).hexdigest())


def _profile(spec: WorkloadSpec) -> Profile:
    """Return the profile of the object to run; without one a number is all that counts."""
    template = spec.target_deployment or spec.template
    if template is None:
        return ALONE if spec.manifests else PRESENT
    return profile_of(template.api_version, template.kind, spec.replicas_path)


def _refuse_dividing(spec: WorkloadSpec, profile: Profile, *, indivisible: bool) -> None:
    """Raise ValueError where a kind is to be divided of which nothing says how."""
    if indivisible and spec.distribution == Distribution.DIVIDED:
        where = profile.replicas
        why = f"{with_article(profile.kind)} runs whole: set distribution to Single or Duplicated"
        if where is not None:
            why = where.why or f"{with_article(profile.kind)} is not divided while {where.whole}"
            why = f"{why}: set distribution to Single"
        raise ValueError(f"spec.distribution: {why}")
    if profile.whole and not profile.known:
        divided = spec.distribution == Distribution.DIVIDED
        if divided or spec.replicas not in (None, 1):
            field = "distribution" if divided else "replicas"
            mend = "set distribution to Single or Duplicated" if divided else "remove the field"
            raise ValueError(
                f"spec.{field}: {with_article(profile.kind)} runs whole, as neither a "
                f"WorkloadKind nor spec.replicasPath says where its number of replicas is: {mend}"
            )
    if profile is ALONE and spec.distribution == Distribution.DIVIDED:
        raise ValueError(
            "spec.distribution: manifests alone have no replicas to divide: set it to Single or "
            "Duplicated"
        )
    path = spec.replicas_path if profile is not PRESENT else ""
    if profile.known and path and path != profile.replicas_path:
        of = with_article(profile.kind)
        has = f"that of {of} is {profile.replicas_path}" if profile.replicas else f"{of} has none"
        raise ValueError(f"spec.replicasPath: {has}: remove the field")


def _refuse_ignoring(spec: WorkloadSpec, profile: Profile) -> None:
    """Raise ValueError where a member is to have the number of replicas of its main object."""
    own = steps(profile.replicas_path)
    for each in spec.ignore_fields if own and isinstance(spec.ignore_fields, list) else ():
        if not isinstance(each, Mapping) or each.get("target"):
            continue
        for path in each.get("paths") or ():
            names = steps(path)
            shorter = min(len(names), len(own))
            if names[:shorter] == own[:shorter]:
                raise ValueError(
                    f"spec.ignoreFields: {path} is the number of replicas, which is Stowage's to "
                    "set: it is no field of a member"
                )


def _refuse_numbers(spec: WorkloadSpec) -> None:
    """Raise ValueError, naming the field, for a number that no version of the schema lets in."""
    # What is stored may be older than its schema, and columns hold no number beyond int64.
    both = (spec.workload_affinity, spec.workload_anti_affinity)
    numbers = [
        ("priority", spec.priority),
        *(
            ("distributionWeights", n or 0)
            for rule in spec.distribution_weights
            for n in (rule.weight, rule.min_replicas, rule.max_replicas)
        ),
        *(
            ("spreadConstraints", n or 0)
            for rule in spec.spread_constraints
            for n in (rule.min_domains, rule.max_domains)
        ),
        *(("clusterAffinity", each.weight) for each in spec.cluster_affinity.preferred),
        *(("workloadAffinity", each.weight) for side in both for each in side.preferred),
        *(("tolerations", each.toleration_seconds or 0) for each in spec.tolerations),
    ]
    for name, number in numbers:
        least = -MOST_UNITS - 1 if name == "priority" else 0
        if not least <= number <= MOST_UNITS:
            raise ValueError(f"spec.{name}: {quoted(number)} is not from {least} to {MOST_UNITS}")


def _selector(template: Template, pod_meta: Mapping[str, Any]) -> str:
    selector = template.spec.get("selector")
    # A custom kind's selector may be of any form.
    pairs = selector.get("matchLabels") if isinstance(selector, dict) else None
    if not pairs or not isinstance(pairs, dict):
        pairs = pod_meta.get("labels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(pairs.items()))
