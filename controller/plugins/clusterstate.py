"""The clusters that their own state rules out: not ready, cordoned, tainted, closed.

Only the rules on namespaces and kinds move a present share.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.explains import Shortage, either
from controller.framework.interface import NOTHING_REFUSED, CycleState, FilterMask, Variant
from controller.framework.room import by_variant, variants_of
from controller.framework.status import Refusal
from controller.model.objects import MemberCluster
from controller.model.place import HARD, SOFT
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from crds.membercluster import MemberClusterCondition
from crds.names import forbidden_namespace
from machinery.types.taints import Taint

_CORDONED = "Cordoned"
_AGENT_OLD = MemberClusterCondition.AGENT_OLD.value
_NAMESPACES = "spec.namespaces.allow of the MemberCluster"


class TargetNamespace:
    """Enforces MemberCluster.spec.namespaces: the target namespaces that the cluster takes."""

    name = "TargetNamespace"
    ignored_during_execution = False

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.SPEC, _takes_namespace),)

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        """Return the clusters whose rule excludes the namespace; all for a forbidden one."""
        target = info.target_namespace
        if forbidden_namespace(target):
            nowhere = np.ones(len(snapshot), dtype=np.bool_)
            return FilterMask([(nowhere, f"namespace {target} is never a target")])

        def refused(rule: str | None) -> bool:
            return not _allowed(target, (rule or "").split("\n"))

        outside = snapshot.kept.fixed((self.name, target), lambda: snapshot.rules.where(refused))
        return FilterMask([(outside, f"namespace {target} is not allowed")])

    def cure(self, shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        return f"namespace {shortage.workload.target_namespace} in {_NAMESPACES}"


def _allowed(target: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(target, glob) for glob in globs)


def _takes_namespace(info: WorkloadInfo, _old: MemberCluster | None, new: MemberCluster) -> bool:
    target = info.target_namespace
    return not forbidden_namespace(target) and _allowed(target, new.spec.namespaces.allow)


class NamespaceGiven:
    """Enforces MemberCluster.status.namespaces: the target namespaces that the member takes."""

    name = "NamespaceGiven"
    ignored_during_execution = True

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.VERSION, _is_given),)

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        target = info.target_namespace

        def outside() -> Mask:
            only = snapshot.given.where(lambda listed: listed is not None and not named(listed))
            return only | snapshot.withheld.where(
                lambda listed: listed is not None and named(listed)
            )

        def named(listed: str) -> bool:
            return target in listed.split("\n")

        refused = snapshot.kept.fixed((self.name, target), outside)
        return FilterMask([(refused, f"namespace {target} was not given to Stowage")])

    def cure(self, shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        given = f"--target-namespace {shortage.workload.target_namespace}"
        return f"`stowage join CLUSTER --member-kubeconfig FILE {given}`"


def _is_given(info: WorkloadInfo, _old: MemberCluster | None, new: MemberCluster) -> bool:
    namespaces, target = new.status.namespaces, info.target_namespace
    among = namespaces.given is None or target in namespaces.given
    return among and target not in namespaces.refused


class AllowedKinds:
    """Enforces MemberCluster.spec.allowedKinds: the guarded kinds that the cluster takes."""

    name = "AllowedKinds"
    ignored_during_execution = False

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.SPEC, _takes_kinds),)

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        wanted = set(info.guarded_kinds)
        if not wanted:
            return NOTHING_REFUSED

        def refused(listed: str | None) -> bool:
            return not wanted <= set((listed or "").split("\n"))

        named = ", ".join(info.guarded_kinds)
        return FilterMask([(snapshot.kinds.where(refused), f"{named} not in spec.allowedKinds")])

    def cure(self, shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        named = ", ".join(shortage.workload.guarded_kinds)
        return f"{named} in spec.allowedKinds of the MemberCluster"


def _takes_kinds(info: WorkloadInfo, _old: MemberCluster | None, new: MemberCluster) -> bool:
    return set(info.guarded_kinds) <= set(new.spec.allowed_kinds)


class ClusterReady:
    """Refuses new replicas on clusters that do not answer, or are being deleted.

    So it does where an agent is older than this hub serves.
    """

    name = "ClusterReady"
    ignored_during_execution = True

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.READY, _is_ready),)

    def filter(
        self, _state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        return FilterMask(
            [
                (snapshot.deleting, "being deleted"),
                (~snapshot.ready, "not ready"),
                (snapshot.agent_old, f"agent too old ({_AGENT_OLD})", _AGENT_OLD),
            ]
        )

    def cure(self, _shortage: Shortage, refusal: Refusal, _rows: Mask) -> str:
        if refusal.code == _AGENT_OLD:
            return "a younger agent: `stowage agents upgrade --image IMAGE`"
        return "a cluster that is ready again"


def _is_ready(_info: WorkloadInfo, _old: MemberCluster | None, new: MemberCluster) -> bool:
    return new.ready and not new.agent_old and not new.metadata.deleting


class TaintToleration:
    """Checks taints and the cordon of MemberClusters against spec.tolerations."""

    name = "TaintToleration"
    ignored_during_execution = True

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.TAINTS, _lets_in),)

    def filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        tainted = _untolerated(state, info, snapshot, HARD) > 0
        return FilterMask(
            [
                (snapshot.cordoned, "unschedulable", _CORDONED),
                (tainted, "had taints that were not tolerated"),
            ]
        )

    def cure(self, shortage: Shortage, refusal: Refusal, rows: Mask) -> str:
        """Name the end of the cordon, or the taints to tolerate, as `key=value:effect`."""
        if refusal.code == _CORDONED:
            return "an end of the cordon (spec.unschedulable of the MemberCluster)"
        return f"a toleration of {either(_taints(shortage, rows), 'and')} in spec.tolerations"

    def score(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """Return how many soft taints are not tolerated."""
        return _untolerated(state, info, snapshot, SOFT)

    def normalize(self, _state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """Scale so that fewer taints are better; 100 without any."""
        worst = int(scores[feasible].max(initial=0)) if scores.any() else 0
        return np.full_like(scores, 100) if not worst else 100 - 100 * scores // worst


class Suspended:
    """Enforces spec.suspend: the clusters that it selects take nothing new."""

    name = "Suspended"
    ignored_during_execution = True

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.LABELS, _goes_on),)

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        if info.suspended is None:
            return NOTHING_REFUSED
        return FilterMask([(snapshot.selected(info.suspended), "suspended by spec.suspend")])

    def cure(self, _shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        return "an end of spec.suspend"


def _goes_on(info: WorkloadInfo, _old: MemberCluster | None, new: MemberCluster) -> bool:
    return info.suspended is None or not info.suspended.matches(new.labels)


def _untolerated(
    state: CycleState, info: WorkloadInfo, snapshot: Snapshot, effects: frozenset[str]
) -> Ints:
    def count(of: WorkloadInfo | Variant) -> Ints:
        return snapshot.untolerated(of.tolerations, effects)

    return by_variant(variants_of(state), info, snapshot, count)


def _taints(shortage: Shortage, rows: Mask) -> list[str]:
    mine = shortage.workload.tolerations
    return sorted(
        taint.text
        for taint, mask in shortage.snapshot.taints.items()
        if taint.effect in HARD
        and (mask & rows).any()
        and not any(each.tolerates(taint) for each in mine)
    )


def _lets_in(info: WorkloadInfo, _old: MemberCluster | None, new: MemberCluster) -> bool:
    borne = (any(t.tolerates(taint) for t in info.tolerations) for taint in _hard(new))
    return not new.spec.unschedulable and all(borne)


def _hard(cluster: MemberCluster) -> list[Taint]:
    return [taint for taint in cluster.spec.taints if taint.effect in HARD]
