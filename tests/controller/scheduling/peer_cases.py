"""Where other schedulers put units and copies, as fleets and Workloads of ours.

`planner.peers` has what the same files divide; here is the rest of it, put to the whole decision:
packing on few clusters, copies, and spreading over groups of clusters. `peer_choices` has the
questions whose answer is no number. A unit asks for one cpu, so that a cluster's free cpu is its
room. A peer's score of a cluster is a label here, and a preference of the Workload for it;
everything else that we score is alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.framework.runtime import framework as runtime
from controller.model.objects import MemberCluster
from controller.model.observedlimits import FIRST_HOLD, ObservedLimit, Shown
from controller.model.unit import WorkloadInfo
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from tests.controller.make import CLUSTER, NOW, PREFERRED, builder, cluster, info
from tests.controller.planner.peers import Answer, load

REGION = "topology.kubernetes.io/region"
AMPLE = 10_000
PROFILE = default_profile()
POD = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}

Bound = tuple[str, int | None, int | None]
"""A topology key, at least and at most so many of its domains."""


@dataclass(frozen=True)
class Case:
    """A question: `answers` are all that the peer's own test accepts, none where it gives up.

    `seen` is what they are about: shares, clusters, regions or an order. `room` is what a cluster
    can run in all, where that is limited; `lower` and `upper` bound its share.
    """

    id: str
    members: list[MemberCluster]
    of: WorkloadInfo
    seen: Callable[[Decision], Any]
    answers: list[Any]
    room: Answer = field(default_factory=dict)
    lower: Answer = field(default_factory=dict)
    upper: Answer = field(default_factory=dict)

    @cached_property
    def decision(self) -> Decision:
        """Ours."""
        return self.arriving(self.members)

    def arriving(self, members: Iterable[MemberCluster]) -> Decision:
        """Ours where the fleet came to know its clusters one by one, in this order."""
        known = builder([])
        for each in members:
            known.upsert(each)
            known.snapshot()
        return decide(known.snapshot(), self.of, PlacementIndex(), PROFILE, NOW)

    def present(self) -> Answer:
        """The shares on clusters that are still there."""
        there = {member.metadata.name for member in self.members}
        return {name: units for name, units in self.of.present.items() if name in there}

    def most(self, name: str) -> int:
        """The most units that its room and its upper bound let onto a cluster."""
        return min(self.room.get(name, AMPLE), self.upper.get(name, AMPLE))

    def running(self, shares: Answer) -> int:
        """Units of these shares that find room."""
        return sum(min(units, self.room.get(name, units)) for name, units in shares.items())


def shares(decision: Decision) -> Answer:
    """Units by cluster."""
    return dict(decision.placements)


def chosen(decision: Decision) -> frozenset[str]:
    """The clusters that got a share."""
    return frozenset(decision.placements)


def regions(decision: Decision) -> frozenset[str]:
    """The regions of these."""
    snapshot = decision.snapshot
    rows = [snapshot.row[name] for name in decision.placements]
    return frozenset(snapshot.clusters[row].metadata.labels[REGION] for row in rows)


def member(
    name: str, room: int, *, score: int = 0, labels: Mapping[str, str] | None = None, **fields: Any
) -> MemberCluster:
    """A cluster that has room for so many units more."""
    told = {CLUSTER: name, "score": str(score), **(labels or {})}
    groups = [{"count": 1, "free": {"cpu": str(room), "pods": str(2 * AMPLE)}}]
    return cluster(name, told, groups=groups, **fields)


def preferring(scores: Iterable[int]) -> dict[str, Any]:
    """spec.clusterAffinity that ranks clusters by their scores."""

    def term(score: int) -> dict[str, Any]:
        has = {"key": "score", "operator": "In", "values": [str(score)]}
        return {"weight": score, "preference": {"matchExpressions": [has]}}

    return {PREFERRED: [term(score) for score in sorted({*scores} - {0})]}


def asking(replicas: int, distribution: str, *bounds: Bound, **fields: Any) -> WorkloadInfo:
    """A Workload of so many units with these spread constraints."""
    constraints = []
    for key, least, most in bounds:
        known = {"minDomains": least, "maxDomains": most}
        numbers = {name: number for name, number in known.items() if number}
        constraints.append({"topologyKey": key, **numbers})
    asked = {"replicas": replicas, "distribution": distribution, "pod": POD, **fields}
    return info(spreadConstraints=constraints, **asked)


def _some(answer: Mapping[str, int]) -> Answer:
    """Peers leave out clusters that get nothing, or name them; it is the same answer."""
    return {name: units for name, units in answer.items() if units}


def binpack() -> Iterator[Case]:
    """Where the peer plans again although something is placed, so do we.

    Units that it counts and that do not run have waited for a node long enough to be believed. A
    limit that it was told is one that we have learnt.
    """
    for case in load("kubeadmiral_binpack_planner")["cases"]:
        names, per = case["clusters"], case["per_cluster"]
        present = _some(case["current"] if case.get("avoid_disruption") else {})
        room = {n: AMPLE if per[n]["capacity"] is None else per[n]["capacity"] for n in names}
        lower = {n: per[n]["min"] for n in names if per[n]["min"]}
        upper = {n: per[n]["max"] for n in names if per[n]["max"] is not None}
        limits = {n: per[n]["limited"] for n in names if per[n]["limited"] is not None}
        of = asking(
            case["replicas"],
            "Divided",
            packing="Fewest",
            present=present,
            distributionWeights=_rules(names, lower, upper),
        )
        seen = {name: min(units, room[name]) for name, units in present.items()}
        members = [member(n, max(room[n] - present.get(n, 0), 0)) for n in names]
        room = {name: min(units, limits.get(name, units)) for name, units in room.items()}
        answers = [_some(case["expected"]["plan"])]
        yield Case(
            case["id"], members, _knowing(of, seen, limits), shares, answers, room, lower, upper
        )


def _knowing(of: WorkloadInfo, runs: Answer, limits: Answer) -> WorkloadInfo:
    """The unit when its clusters have told what they run of it, and what was learnt before."""
    shown = {
        name: Shown(asked, runs[name], NOW - FIRST_HOLD)
        for name, asked in of.present.items()
        if runs[name] < asked
    }
    known = {name: ObservedLimit(units, NOW + FIRST_HOLD) for name, units in limits.items()}
    return runtime.settled(PROFILE, replace(of, shown=shown, limits=known), NOW, PlacementIndex())


def _rules(names: list[str], lower: Answer, upper: Answer) -> list[dict[str, Any]]:
    """spec.distributionWeights that say nothing but these bounds."""
    rules = []
    for name in names:
        rule = {"clusterSelector": {"matchLabels": {CLUSTER: name}}, "weight": 1}
        rule |= {"minReplicas": lower[name]} if name in lower else {}
        rules.append(rule | ({"maxReplicas": upper[name]} if name in upper else {}))
    return rules if lower or upper else []


def _aggregated(
    key: str, available: Answer, current: Answer, total: int, answers: list[Answer]
) -> Case:
    """Add the available units to the present ones."""
    members = [member(name, room) for name, room in available.items()]
    of = asking(total, "Divided", packing="Fewest", present=current)
    room = {name: more + current.get(name, 0) for name, more in available.items()}
    return Case(key, members, of, shares, answers, room)


def _copies(key: str, names: list[str], total: int, answers: list[Answer]) -> Case:
    """A case without a word on room has enough."""
    members = [member(name, AMPLE) for name in names]
    return Case(key, members, asking(total, "Duplicated"), shares, answers)


def division() -> Iterator[Case]:
    """Packing, copies and choices of the second."""
    for kind, cases in load("karmada_division").items():
        for case in cases:
            key, asked, found = f"{kind}/{case['name']}", case["in"], case["want"].get("anyOf", [])
            if kind in _CHOICES:
                yield _CHOICES[kind](key, asked, found)
            elif asked.get("strategy") == "Aggregated":
                yield _aggregated(
                    key,
                    dict(asked["available"])
                    if "available" in asked
                    else {entry["name"]: entry["allocatable"] for entry in asked["clusters"]},
                    dict(asked.get("previous", [])),
                    asked["target"] if "target" in asked else asked["replicas"],
                    [dict(answer) for answer in found],
                )
            elif asked.get("strategy") == "Duplicated":
                names = [entry["name"] for entry in asked["clusters"]]
                yield _copies(key, names, asked["replicas"], [dict(answer) for answer in found])


def _groups(key: str, asked: Any, found: list[list[str]]) -> Case:
    """The same groups read otherwise: the value is the number of clusters in the region."""
    groups = asked["groups"]
    of = asking(
        1,
        "Duplicated",
        (REGION, asked["min"], asked["max"]),
        (CLUSTER, asked["target"], None),
        clusterAffinity=preferring(group["weight"] for group in groups),
    )
    members = [
        member(f"{g['name']}-{number}".lower(), 1, score=g["weight"], labels={REGION: g["name"]})
        for g in groups
        for number in range(g["value"])
    ]
    return Case(key, members, of, regions, [frozenset(answer) for answer in found])


def _by_region(key: str, asked: Any, found: list[list[str]]) -> Case:
    """Regions, then clusters in them; every chosen cluster gets a copy."""
    clusters = [(name, each) for name, r in asked["regions"].items() for each in r["clusters"]]
    of = asking(
        1,
        "Duplicated",
        (REGION, asked["region"]["min"], asked["region"]["max"]),
        (CLUSTER, asked["cluster"]["min"], asked["cluster"]["max"]),
        clusterAffinity=preferring(each["score"] for _, each in clusters),
    )
    members = [
        member(each["name"], each["available"], score=each["score"], labels={REGION: region})
        for region, each in clusters
    ]
    return Case(key, members, of, chosen, [frozenset(answer) for answer in found])


EVERYWHERE: dict[str, tuple[str, dict[str, Any]]] = {
    "Duplicated": ("Duplicated", {}),
    "Divided": ("Divided", {}),
    "DynamicWeight": ("Divided", {}),
    "Aggregated": ("Divided", {"packing": "Fewest"}),
    "StaticWeight": (
        "Divided",
        {"distributionWeights": [{"clusterSelector": {}, "weight": 1}]},
    ),
}
"""The peer's strategies as ours, alike for every cluster."""


def _by_cluster(key: str, asked: Any, found: list[list[str]]) -> Case:
    distribution, more = EVERYWHERE[asked["strategy"]]
    clusters = asked["clusters"]
    of = asking(
        asked["need"],
        distribution,
        (CLUSTER, asked["min"], asked["max"]),
        clusterAffinity=preferring(each["score"] for each in clusters),
        **more,
    )
    members = [member(c["name"], c["available"], score=c["score"]) for c in clusters]
    room = {each["name"]: each["available"] for each in clusters}
    return Case(key, members, of, chosen, [frozenset(answer) for answer in found], room)


def _better_group(key: str, asked: Any, found: list[bool]) -> Case:
    """Two regions of which one may be used. The better one comes last by name: no luck with it."""
    distribution, more = EVERYWHERE[asked["strategy"]]
    better, worse = ("a", "b") if found[0] else ("b", "a")
    clusters = [(r, c) for r, old in (("first", worse), ("last", better)) for c in asked[old]]
    of = asking(
        asked["replicas"],
        distribution,
        (REGION, 1, 1),
        (CLUSTER, asked["minGroups"], None),
        clusterAffinity=preferring(each["score"] for _, each in clusters),
        **more,
    )
    members = [
        member(f"{r}-{c['name']}", c["available"], score=c["score"], labels={REGION: r})
        for r, c in clusters
    ]
    room = {f"{r}-{c['name']}": c["available"] for r, c in clusters}
    return Case(key, members, of, regions, [frozenset(["last"])], room)


_CHOICES: dict[str, Callable[[str, Any, list[Any]], Case]] = {
    "select_groups": _groups,
    "select_by_region": _by_region,
    "select_by_cluster": _by_cluster,
    "group_score_compare": _better_group,
}
