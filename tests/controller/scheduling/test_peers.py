"""Every case of the peers that divides nothing, put to the whole decision.

The same answer, or a rule of ours which is better, and why. `DIFFERENT` is the whole list of cases
that end differently on purpose, with our answer to each, `BETTER` the check of what each rule
claims. What divides is in `planner.test_oracles`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controller.scheduling.decision import Decision
from tests.controller.make import adds_up
from tests.controller.planner.peers import ALL, Answer
from tests.controller.scheduling.peer_cases import AMPLE, REGION, Case, binpack, division, shares

FILES: dict[str, Callable[[], Iterator[Case]]] = {
    "karmada_division": division,
    "kubeadmiral_binpack_planner": binpack,
}

CASES = {name: list(read()) for name, read in FILES.items()}
EVERY = [case for cases in CASES.values() for case in cases]


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
        "select_groups/select groups with greater value": {"R2", "R4"},
    },
    ALL_USED: {
        "select_groups/select groups with less total number": {"R1", "R2", "R3", "R4", "R5", "R6"},
    },
}

PURPOSE = {key: (rule, ours) for rule, found in DIFFERENT.items() for key, ours in found.items()}

NOWHERE = {COPY_ROOM}
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
}
"""What makes ours the better one under each rule, as a check."""


def _same(case: Case, decision: Decision) -> bool:
    return case.seen(decision) in case.answers if case.answers else not decision.placements


@pytest.mark.proves("P10", "C6", "C13", "C14", "C20", "D3")
@pytest.mark.parametrize("file", CASES)
def test_the_answer(file: str, subtests: pytest.Subtests) -> None:
    for case in CASES[file]:
        with subtests.test(case.id):
            _answers(case)


def _answers(case: Case) -> None:
    decision = case.decision
    if case.id in PURPOSE:
        rule, ours = PURPOSE[case.id]
        assert case.seen(decision) == ours
        assert not _same(case, decision), "the difference has gone: take it off the list"
        assert BETTER[rule](case, decision), rule
    else:
        assert _same(case, decision), (case.seen(decision), case.answers)


@pytest.mark.proves("C19")
@pytest.mark.parametrize("file", CASES)
def test_the_order_in_which_clusters_come_changes_nothing(
    file: str, subtests: pytest.Subtests
) -> None:
    """Another process has seen them in another order, and must say the same."""
    for case in CASES[file]:
        with subtests.test(case.id):
            for order in (case.members[::-1], case.members[1::2] + case.members[::2]):
                assert shares(case.arriving(order)) == shares(case.decision)


@pytest.mark.proves("D3")
@pytest.mark.parametrize("file", CASES)
def test_bounds_room_and_constraints_hold(file: str, subtests: pytest.Subtests) -> None:
    for case in CASES[file]:
        with subtests.test(case.id):
            _keeps_bounds(case)


def _keeps_bounds(case: Case) -> None:
    decision, held = case.decision, case.present()
    adds_up(decision)
    for name, units in decision.placements.items():
        assert units <= max(case.most(name), held.get(name, 0)), name
    wanted = {n: min(least, case.most(n)) for n, least in case.lower.items()}
    missing = {name: max(n - held.get(name, 0), 0) for name, n in wanted.items()}
    if sum(held.values()) + sum(missing.values()) <= decision.assigned:
        assert all(decision.placements.get(name, 0) >= n for name, n in wanted.items())
    _spread_holds(case, decision)


def _spread_holds(case: Case, decision: Decision) -> None:
    for constraint in case.of.spread:
        key = constraint.topology_key
        labels = {m.metadata.name: m.metadata.labels[key] for m in case.members}
        domains = {labels[name] for name in decision.placements}
        if domains:
            least = min(constraint.min_domains or 1, decision.assigned)
            assert least <= len(domains) <= (constraint.max_domains or AMPLE), key


@pytest.mark.proves("D3")
@pytest.mark.parametrize("file", CASES)
def test_never_fewer_units_are_placed_than_the_peer_places(
    file: str, subtests: pytest.Subtests
) -> None:
    for case in CASES[file]:
        with subtests.test(case.id):
            _places_as_many(case)


def _places_as_many(case: Case) -> None:
    decision = case.decision
    if case.seen is shares:
        ours = case.running(shares(decision))
        assert all(ours >= case.running(answer) for answer in case.answers)
    elif case.id in PURPOSE and PURPOSE[case.id][0] in NOWHERE:
        assert not decision.placements
    else:
        everywhere, rule = case.of.everywhere, PURPOSE.get(case.id, ("", None))[0]
        copies = len(decision.placements) if everywhere else 1
        for answer in case.answers:
            allowed = _clusters(case, answer)
            offered = sum(case.most(name) for name in allowed)
            assert decision.assigned >= min(case.of.replicas, offered) * copies
            fitting = [name for name in allowed if case.most(name) >= case.of.replicas]
            # The best domain may have fewer clusters than those that it is preferred to.
            assert copies >= len(fitting) or not everywhere or rule == BEST_KEPT


def _clusters(case: Case, answer: Any) -> list[str]:
    """The clusters that the peer lets units onto, of which it tells names or regions."""
    labels = {each.metadata.name: each.metadata.labels for each in case.members}
    return [name for name, told in labels.items() if {name, told.get(REGION)} & {*answer}]


PACKED = [
    case for case in EVERY if case.of.packing == "Fewest" and case.seen is shares and case.answers
]


@pytest.mark.proves("D3")
def test_packing_uses_no_more_clusters_than_the_peer(subtests: pytest.Subtests) -> None:
    assert PACKED
    for case in PACKED:
        with subtests.test(case.id):
            assert all(len(case.decision.placements) <= len(answer) for answer in case.answers)


def test_each_case_is_decided_and_every_line_of_the_lists_is_needed() -> None:
    assert set(PURPOSE) <= {case.id for case in EVERY}
    assert set(BETTER) == set(DIFFERENT)
    for name, cases in CASES.items():
        assert sorted(case.id for case in cases) == sorted(
            c for c in ALL[name] if isinstance(c, str)
        )
