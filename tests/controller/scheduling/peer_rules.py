"""Where our answers differ from the peers', which is better, and why; and what we do not have.

`DIFFERENT` is the whole list of cases that end differently on purpose, with our answer to each,
`BETTER` the check of what each rule claims. `OUTSIDE` is the whole list of cases that ask for
something that we do not have. A case in neither has the peer's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from controller.scheduling.decision import Decision
from tests.controller.make import verdicts
from tests.controller.planner.peers import Answer
from tests.controller.scheduling.peer_cases import (
    AMPLE,
    REGION,
    Case,
    binpack,
    division,
    planner,
    shares,
    spread_groups,
)
from tests.controller.scheduling.peer_choices import kubefleet, ocm

FILES: dict[str, Callable[[], Iterator[Case]]] = {
    "karmada_division": division,
    "karmada_planner": planner,
    "karmada_spread_groups": spread_groups,
    "kubeadmiral_binpack_planner": binpack,
    "kubefleet_scheduling": kubefleet,
    "ocm_scheduling": ocm,
}

CASES = {name: list(read()) for name, read in FILES.items()}
EVERY = [case for cases in CASES.values() for case in cases]


def _of(kind: str, *numbers: int) -> list[str]:
    """The names of these cases of a kind of karmada_division, which counts from one."""
    names = [case.id for case in CASES["karmada_division"] if case.id.startswith(f"{kind}/")]
    return [names[number - 1] for number in numbers]


OUTSIDE: dict[str, dict[str, list[str]]] = {
    "asks for a feature outside Stowage: CEL expressions over clusters": {
        "ocm_scheduling": [f"ocm/TestMatchWithClusterPredicates/{n}" for n in range(5, 11)],
    },
    "asks for a feature outside Stowage: published scores that expire": {
        "ocm_scheduling": ["ocm/TestScoreClusterWithAddOn/3"],
    },
    "asks for a feature outside Stowage: a taint that moves what runs, after tolerationSeconds": {
        "ocm_scheduling": [f"ocm/TestMatchWithClusterTaintToleration/{n}" for n in (29, 30)],
    },
    "asks what a function does with counts that contradict each other, which no fleet can show": {
        "kubefleet_scheduling": [f"kubefleet/TestWillViolate/{n}" for n in (1, 2, 3)],
    },
}

BINPACK = "kubeadmiral/kubeadmiral.binpack"
FRESH, KEEPING = ("avoid=0,keep=0", "avoid=0,keep=1"), ("avoid=1,keep=0", "avoid=1,keep=1")


def _flagged(test: str, flags: tuple[str, ...], **ours: int) -> dict[str, Answer]:
    return {f"{BINPACK}/{test}/{flag}": ours for flag in flags}


def _desired(number: int, **ours: int) -> dict[str, Answer]:
    return {f"{BINPACK}.desired/Test_getDesiredPlan/{number}": ours}


ROOMIEST = (
    "the roomiest cluster goes first: one that holds them all, not several that stand before it"
)
NEEDED = "a cluster that must have units is filled before another is opened: one less is in use"
IN_USE = (
    "a cluster in use is filled before another is opened: one less is in use, and nothing moves"
)
IN_TURN = (
    "clusters are filled in turn: the last one opened holds as little as can be, and empties first"
)
AS_MANY = (
    "as many as fit are placed and the rest is pending: units that could run are not held back"
)
EVEN = "a unit that could run is not held back to keep a skew: it goes where the fewest are"
OWN_ROOM = (
    "its own units take up room like any other: they stay by rule, and new ones go where more is"
)
NONE_OF_IT = "a cluster that has none of what a replica asks for takes no unit, whatever it scores"
EMPTY_TERM = (
    "a term that says nothing matches nothing, as for nodes: who wants every cluster leaves it out"
)
COPY_ROOM = "a copy goes only where all of its replicas have room: none waits on a cluster for ever"
MAXIMUM = "maxDomains holds for static weights as for any others: what was asked for is kept"
BEST_KEPT = "the best domain is used if any choice with it has room enough, not two that follow it"
ALL_USED = "all domains that maxDomains allows are used: one that fails takes fewer units with it"

DIFFERENT: dict[str, dict[str, Any]] = {
    ROOMIEST: {
        **_flagged("TestWithoutExisting/3", FRESH + KEEPING, C=50),
        **_flagged("TestWithExisting/3", FRESH, B=50),
        **_flagged("TestWithExisting/6", FRESH, B=15),
        **_flagged("TestWithExisting/8", FRESH, B=15),
        **_flagged("TestWithExistingAndCapacity/1", FRESH, C=50),
        **_flagged("TestWithExistingAndCapacity/3", FRESH, B=60),
        **_desired(2, B=10),
        **_desired(3, C=10),
        **_desired(5, B=10),
        **_desired(7, B=10),
    },
    NEEDED: {
        **_flagged("TestWithoutExisting/2", FRESH + KEEPING, B=50),
        **_flagged("TestWithoutExisting/4", FRESH + KEEPING, C=50),
        **_flagged("TestWithoutExisting/5", FRESH + KEEPING, D=50),
        **_flagged("TestWithExisting/7", FRESH, B=15),
        **_desired(8, B=10),
    },
    IN_USE: {
        **_flagged("TestWithExisting/1", KEEPING, C=50),
        **_flagged("TestWithExisting/4", KEEPING, B=15),
        **_flagged("TestWithExistingAndCapacity/6", KEEPING, B=10, C=40),
    },
    IN_TURN: {
        "karmada/Test_dynamicScale/6": {"member1": 8, "member2": 14, "member3": 2},
        "karmada/Test_dynamicScale/9": {"member1": 8, "member3": 4, "member4": 12},
        "karmada/Test_dynamicScaleUp/4": {"member2": 2, "member3": 10},
        "assign_dynamic_rescale/replica 12 -> 24, aggregated 4:6:8": {
            "member1": 8,
            "member2": 14,
            "member3": 2,
        },
        "assign_dynamic_rescale/replica 12 -> 24, aggregated 4:8:12, "
        "with cluster2 disappeared and cluster4 appeared": {
            "member1": 8,
            "member3": 4,
            "member4": 12,
        },
        "assign_dynamic_scale_up/replica 12, aggregated 6:8:10": {"member2": 2, "member3": 10},
    },
    AS_MANY: {
        "karmada/Test_dynamicScale/8": {"member1": 5, "member2": 9, "member3": 1},
        "karmada/Test_dynamicScaleUp/6": {"member1": 3, "member2": 3, "member3": 3},
        "assign_dynamic_rescale/replica 12 -> 24, aggregated 1:1:1": {
            "member1": 5,
            "member2": 9,
            "member3": 1,
        },
        "assign_dynamic_scale_up/replica 12, aggregated 3:3:3": {
            "member1": 3,
            "member2": 3,
            "member3": 3,
        },
        "karmada/TestSelectGroups/3": {"R1", "R2"},
        "select_by_cluster/select clusters by cluster score and insufficient resources": {
            "member2",
            "member3",
        },
    },
    COPY_ROOM: {
        "select_by_cluster/select clusters by cluster score": frozenset(),
        "select_by_cluster/select clusters by cluster score and ignore available resources when "
        "scheduling strategy is duplicated": frozenset(),
    },
    MAXIMUM: {
        "select_by_cluster/select clusters by cluster score and ignore available resources when "
        "scheduling strategy is static weight": {"member3", "member4"},
    },
    BEST_KEPT: {
        "karmada/TestSelectGroups/9": {"R2", "R4"},
        "select_groups/select groups with greater value": {"R2", "R4"},
    },
    ALL_USED: {
        "karmada/TestSelectGroups/6": {"R1", "R2", "R4", "R5", "R6"},
        "select_groups/select groups with less total number": {"R1", "R2", "R3", "R4", "R5", "R6"},
    },
    EVEN: {f"kubefleet/TestWillViolate/{number}": {"d1"} for number in (5, 7, 9, 15)},
    OWN_ROOM: {
        "ocm/balance.TestScoreClusterWithSteady/2": {"cluster1": 1, "cluster2": 0, "cluster3": 0},
    },
    NONE_OF_IT: {f"ocm/TestScoreClusterWithResource/{number}": {} for number in (3, 7)},
    EMPTY_TERM: {
        "ocm/TestMatchWithClusterPredicates/11": frozenset(),
    },
}

PURPOSE = {key: (rule, ours) for rule, found in DIFFERENT.items() for key, ours in found.items()}

NOWHERE = {COPY_ROOM, NONE_OF_IT, EMPTY_TERM}
"""The rules by which units go nowhere that the peer places."""


def _fewer(case: Case, decision: Decision) -> bool:
    """Just as many units, on fewer clusters than any answer of the peer."""
    most = max(case.running(answer) for answer in case.answers)
    return case.running(shares(decision)) >= most and all(
        len(decision.placements) < len(answer) for answer in case.answers
    )


def _least_last(case: Case, decision: Decision) -> bool:
    """As many clusters; all but one are full, and that one has less than any in the answer."""
    (answer,) = case.answers
    found = shares(decision)
    full = [name for name, units in found.items() if units == case.room[name]]
    return (
        len(found) == len(answer)
        and len(full) == len(found) - 1
        and min(found.values()) < min(answer.values())
    )


def _as_many(case: Case, decision: Decision) -> bool:
    """The peer places nothing; we leave no room unused on the clusters that may be used."""
    found, pending = shares(decision), decision.pending
    used = all(units == case.room[name] for name, units in found.items())
    return not any(case.answers) and bool(found) and used and pending > 0


def _even(case: Case, decision: Decision) -> bool:
    held = case.present()
    return [held[name] for name in case.seen(decision)] == [min(held.values())]


def _best_kept(case: Case, decision: Decision) -> bool:
    """The best cluster's domain is among ours, in no answer of the peer, and nothing is pending."""
    best = decision.snapshot.clusters[int(decision.ranking[0])].metadata.labels[REGION]
    missed = all(best not in answer for answer in case.answers)
    return best in case.seen(decision) and missed and not decision.pending


def _all_used(case: Case, decision: Decision) -> bool:
    """The peer's domains are among ours, which are as many as may be, or as there are units."""
    (answer,) = case.answers
    most = min(case.of.spread[0].max_domains or AMPLE, decision.assigned)
    return answer < case.seen(decision) and len(case.seen(decision)) == most


BETTER: dict[str, Callable[[Case, Decision], bool]] = {
    ROOMIEST: _fewer,
    NEEDED: _fewer,
    IN_USE: lambda case, decision: (
        _fewer(case, decision)
        and all(decision.placements[name] >= units for name, units in case.present().items())
    ),
    IN_TURN: _least_last,
    AS_MANY: _as_many,
    COPY_ROOM: lambda case, _: max(case.room.values()) < case.of.replicas,
    MAXIMUM: lambda case, _: all(
        len(answer) > (case.of.spread[0].max_domains or AMPLE) for answer in case.answers
    ),
    BEST_KEPT: _best_kept,
    ALL_USED: _all_used,
    EVEN: _even,
    OWN_ROOM: lambda case, decision: shares(decision) == case.present(),
    NONE_OF_IT: lambda _, decision: all(
        reason.startswith("insufficient ") for reason in verdicts(decision).values()
    ),
    EMPTY_TERM: lambda case, _: (
        not case.of.cluster_affinity.required.cluster_selector_terms[0].match_expressions
    ),
}
"""What makes ours the better one under each rule, as a check."""
