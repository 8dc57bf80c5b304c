"""The same decision as a plain loop over clusters, to compare `decide` with.

Written from the rules and not from the plugins: no arrays, one cluster at a time, labels looked up
where they are needed (quantities are read once, so that parsing is not measured). The benchmark
divides its time by that of `decide`; the property tests demand the same answers. The loop has the
default profile and the distributions Single and Duplicated of a Workload without shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cache
from typing import TypeAlias

from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo
from crds.names import LABEL_CLUSTER, LABEL_PROVIDER, LABEL_VERSION
from machinery.types import quantities
from machinery.types.api import NodeGroup, WorkloadAffinityTerm
from machinery.types.selectors import label_selector
from machinery.types.taints import Taint, Toleration

WEIGHTS = {
    "ClusterAffinity": 2,
    "WorkloadAffinity": 2,
    "TaintToleration": 3,
    "ClusterResources": 1,
}

amount = cache(quantities.amount)
Request: TypeAlias = Mapping[str, int]
Flying: TypeAlias = Mapping[str, Sequence[tuple[Request, int]]]
"""Units in flight by cluster: the request of one of them, and their number."""


@dataclass(frozen=True, slots=True)
class Other:
    """Another Workload and its placements."""

    workload: WorkloadInfo
    placements: Mapping[str, int]


@dataclass(slots=True)
class Answer:
    """Reasons of refused clusters, totals and ranking of the others, and the shares."""

    refused: dict[str, str] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    ranking: list[str] = field(default_factory=list)
    placements: dict[str, int] = field(default_factory=dict)


def plain(
    clusters: Sequence[MemberCluster],
    info: WorkloadInfo,
    others: Sequence[Other] = (),
    flying: Flying | None = None,
) -> Answer:
    """Return the decision of the default profile."""
    answer = Answer()
    world = _World(clusters, info, others, flying or {})
    left = []
    for cluster in clusters:
        reason = world.refusal(cluster)
        if reason:
            answer.refused[cluster.metadata.name] = reason
        else:
            left.append(cluster)
    answer.totals = world.totals(left)
    answer.ranking = sorted(answer.totals, key=lambda name: (-answer.totals[name], name))
    chosen = answer.ranking if info.everywhere else answer.ranking[:1]
    answer.placements = dict.fromkeys(sorted(chosen), info.replicas)
    return answer


class _World:
    def __init__(
        self,
        clusters: Sequence[MemberCluster],
        info: WorkloadInfo,
        others: Sequence[Other],
        flying: Flying,
    ) -> None:
        self._labels = {c.metadata.name: labels_of(c) for c in clusters}
        self._info = info
        self._others = [o for o in others if o.workload.namespace == info.namespace]
        self._flying = flying

    def refusal(self, cluster: MemberCluster) -> str:
        """Return the first reason in the order of the filters; empty when the cluster fits."""
        info, labels = self._info, self._labels[cluster.metadata.name]
        target = info.target_cluster
        if target is not None and not _is_target(cluster, target.name, target.namespace):
            return "didn't match targetCluster"
        selector = label_selector(info.cluster_selector)
        chosen = [_selected(cluster, labels, k, v) for k, v in selector.match_labels.items()]
        if not all((*chosen, *(each.matches(labels) for each in selector.match_expressions))):
            return "didn't match clusterSelector"
        required = info.cluster_affinity.required
        if required is not None and not any(
            term.matches(labels) for term in required.cluster_selector_terms
        ):
            return "didn't match clusterAffinity"
        globs = cluster.spec.namespaces.allow
        if not any(fnmatchcase(info.target_namespace, glob) for glob in globs):
            return f"namespace {info.target_namespace} is not allowed"
        told = cluster.status.namespaces
        among = told.given is None or info.target_namespace in told.given
        if not among or info.target_namespace in told.refused:
            return f"namespace {info.target_namespace} was not given to Stowage"
        return self._state(cluster) or self._relations(labels) or self._lack(cluster)

    def _state(self, cluster: MemberCluster) -> str:
        if cluster.metadata.deleting:
            return "being deleted"
        if not cluster.ready:
            return "not ready"
        if cluster.spec.unschedulable:
            return "unschedulable"
        if _bears(cluster.spec.taints, self._info.tolerations):
            return ""
        return "had taints that were not tolerated"

    def _relations(self, labels: Mapping[str, str]) -> str:
        info = self._info
        for term in info.affinity.required:
            if not self._beside(term, labels):
                return "didn't match workloadAffinity"
        if any(self._holds_match(term, labels) for term in info.anti_affinity.required):
            return "didn't match workloadAntiAffinity"
        for other in self._others:
            for term in other.workload.anti_affinity.required:
                if term.label_selector.matches(info.labels) and self._near(term, other, labels):
                    return "kept away by another Workload's workloadAntiAffinity"
        return ""

    def _beside(self, term: WorkloadAffinityTerm, labels: Mapping[str, str]) -> bool:
        if self._holds_match(term, labels):
            return True
        anywhere = any(self._holds_match(term, known) for known in self._labels.values())
        return (
            term.topology_key in labels
            and not anywhere
            and term.label_selector.matches(self._info.labels)
        )

    def _holds_match(self, term: WorkloadAffinityTerm, labels: Mapping[str, str]) -> bool:
        return any(
            term.label_selector.matches(other.workload.labels) and self._near(term, other, labels)
            for other in self._others
        )

    def _near(self, term: WorkloadAffinityTerm, other: Other, labels: Mapping[str, str]) -> bool:
        here = labels.get(term.topology_key)
        return here is not None and any(
            units > 0 and self._labels.get(cluster, {}).get(term.topology_key) == here
            for cluster, units in other.placements.items()
        )

    def _lack(self, cluster: MemberCluster) -> str:
        info = self._info
        if not info.counted or self._fits(cluster, info.request) >= info.replicas:
            return ""
        if self._fits(cluster, info.request, tainted=True) >= info.replicas:
            groups = [g for g in cluster.status.node_groups if self._matches(g)]
            taints = {taint.text for g in groups for taint in self._untolerated(g)}
            return f"had nodes with the taint {min(taints)} that the pods do not tolerate"
        if self._fits(cluster, info.request, tainted=True, unlike=True) >= info.replicas:
            return "had no node with room that the pods' nodeSelector and node affinity match"
        for resource in sorted(info.request):
            if self._fits(cluster, {resource: info.request[resource]}) < info.replicas:
                return f"insufficient {resource}"
        return "insufficient room"

    def _fits(self, cluster: MemberCluster, request: Request, **on: bool) -> int:
        """`on` lets nodes with taints, and those with other labels, count too."""
        if cluster.spec.virtual or not request:
            return 2**40
        groups = cluster.status.node_groups
        fits = sum(self._fits_group(group, request, **on) * group.count for group in groups)
        flying = self._flying.get(cluster.metadata.name, ())
        lost = [self._lost(groups, request, asks, number, **on) for asks, number in flying]
        return max(fits - int(sum(lost)), 0)

    def _lost(
        self,
        groups: Sequence[NodeGroup],
        request: Request,
        asks: Request,
        number: int,
        **on: bool,
    ) -> Fraction:
        """Return the room that units in flight may take, as in `controller.snapshot.inflight`."""
        most, reach = Fraction(0), 0
        for group in groups:
            fits, free = self._fits_group(group, request, **on), free_of(group)
            if any(n > 2 * free.get(r, 0) for r, n in asks.items()) or not _bears(group.taints, ()):
                continue
            reach += fits * group.count
            for r, t in request.items():
                if fits and group.count and asks.get(r):
                    slope = max(
                        Fraction(1, free[r] - fits * t + 1), Fraction(fits, free[r] - t + 1)
                    )
                    most = max(most, min(Fraction(-(-asks[r] // t)), asks[r] * slope))
        return min(number * most, Fraction(reach))

    def _fits_group(
        self, group: NodeGroup, request: Request, *, tainted: bool = False, unlike: bool = False
    ) -> int:
        if not (unlike or self._matches(group)) or not (tainted or not self._untolerated(group)):
            return 0
        free = free_of(group)
        return min(free.get(r, 0) // n for r, n in request.items())

    def _matches(self, group: NodeGroup) -> bool:
        return all(group.labels.get(k, v) == v for k, v in self._info.place.labels)

    def _untolerated(self, group: NodeGroup) -> list[Taint]:
        return _untolerated(group.taints, self._info.place.tolerations)

    def totals(self, left: Sequence[MemberCluster]) -> dict[str, int]:
        """Return the weighted sum of the normalised scores, by name."""
        raw = {
            "ClusterAffinity": [self._preferred(c) for c in left],
            "WorkloadAffinity": [self._attraction(c) for c in left],
            "TaintToleration": [self._soft_taints(c) for c in left],
            "ClusterResources": [self._left_free(c) for c in left],
        }
        normal = {
            "ClusterAffinity": _of_the_best(raw["ClusterAffinity"]),
            "WorkloadAffinity": _between(raw["WorkloadAffinity"]),
            "TaintToleration": _fewest(raw["TaintToleration"]),
            "ClusterResources": raw["ClusterResources"],
        }
        return {
            cluster.metadata.name: sum(WEIGHTS[p] * normal[p][i] for p in WEIGHTS)
            for i, cluster in enumerate(left)
        }

    def _preferred(self, cluster: MemberCluster) -> int:
        labels = self._labels[cluster.metadata.name]
        preferred = self._info.cluster_affinity.preferred
        return sum(term.weight for term in preferred if term.preference.matches(labels))

    def _attraction(self, cluster: MemberCluster) -> int:
        labels = self._labels[cluster.metadata.name]
        drawn = self._info.affinity.preferred
        driven = self._info.anti_affinity.preferred
        return sum(
            sign * each.weight
            for sign, terms in ((1, drawn), (-1, driven))
            for each in terms
            if self._holds_match(each.workload_affinity_term, labels)
        )

    def _soft_taints(self, cluster: MemberCluster) -> int:
        soft = [t for t in set(cluster.spec.taints) if t.effect == "PreferNoSchedule"]
        return sum(not any(t.tolerates(s) for t in self._info.tolerations) for s in soft)

    def _left_free(self, cluster: MemberCluster) -> int:
        capacity, info = cluster.status.capacity, self._info
        if capacity is None:
            return 0
        units = info.replicas if info.counted else 0
        total = 0
        for resource in ("cpu", "memory"):
            offered = amount(resource, capacity.allocatable.get(resource, "0"))
            taken = amount(resource, capacity.requested.get(resource, "0"))
            taken += sum(
                asks.get(resource, 0) * number
                for asks, number in self._flying.get(cluster.metadata.name, ())
                if not cluster.spec.virtual and _offered(cluster, asks)
            )
            left = offered - taken - info.request.get(resource, 0) * units
            total += 100 * max(left, 0) // max(offered, 1)
        return min(total // 2, 100)


def _offered(cluster: MemberCluster, asks: Request) -> bool:
    """Return whether some node has some of each resource."""
    return all(any(free_of(g).get(r, 0) for g in cluster.status.node_groups) for r in asks)


def free_of(group: NodeGroup) -> dict[str, int]:
    """Return the room of one node of a group, by resource."""
    return {r: amount(r, text) for r, text in group.free.items()}


def labels_of(cluster: MemberCluster) -> dict[str, str]:
    """Return the labels of a cluster, with that of its own name."""
    return {**cluster.metadata.labels, LABEL_CLUSTER: cluster.metadata.name}


def _is_target(cluster: MemberCluster, name: str, namespace: str) -> bool:
    if cluster.metadata.name != name:
        return False
    return not namespace or cluster.secret_namespace == namespace


def _selected(cluster: MemberCluster, labels: Mapping[str, str], key: str, value: str) -> bool:
    if labels.get(key) == value:
        return True
    match key:
        case "clusterName":
            return cluster.metadata.name == value
        case "clusterNamespace":
            return cluster.secret_namespace == value
        case "cloudProvider" | "clusterProvider":
            known = cluster.status.provider or labels.get(LABEL_PROVIDER, "")
            return bool(known) and known.lower() == value.lower()
        case "clusterVersion":
            known = cluster.status.version or labels.get(LABEL_VERSION, "")
            return bool(known) and known.removeprefix("v") == value.removeprefix("v")
    return False


def _bears(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> bool:
    return not _untolerated(taints, tolerations)


def _untolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> list[Taint]:
    hard = [taint for taint in taints if taint.effect != "PreferNoSchedule"]
    return [taint for taint in hard if not any(t.tolerates(taint) for t in tolerations)]


def _of_the_best(values: Sequence[int]) -> list[int]:
    best = max(values, default=0)
    return [100 * value // best if best else 0 for value in values]


def _between(values: Sequence[int]) -> list[int]:
    low, high = min(values, default=0), max(values, default=0)
    return [100 * (v - low) // (high - low) if high > low else 0 for v in values]


def _fewest(values: Sequence[int]) -> list[int]:
    most = max(values, default=0)
    return [100 - 100 * value // most if most else 100 for value in values]
