"""Every case of every peer that divides nothing, put to the whole decision.

The same answer, or a rule of ours which is better, and why: `peer_rules` has the lists. What
divides is in `planner.test_oracles`.
"""

from __future__ import annotations

from typing import Any

import pytest

from controller.scheduling.decision import Decision
from tests.controller.make import adds_up
from tests.controller.planner.peers import ALL
from tests.controller.scheduling.peer_cases import AMPLE, REGION, Case, shares
from tests.controller.scheduling.peer_rules import (
    BEST_KEPT,
    BETTER,
    CASES,
    DIFFERENT,
    EVERY,
    FILES,
    NOWHERE,
    OUTSIDE,
    PURPOSE,
)


def _same(case: Case, decision: Decision) -> bool:
    return case.seen(decision) in case.answers if case.answers else not decision.placements


@pytest.mark.proves("C6", "C13", "C14", "C20", "D3")
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
    for case in PACKED:
        with subtests.test(case.id):
            assert all(len(case.decision.placements) <= len(answer) for answer in case.answers)


def test_packing_is_compared_wherever_the_peer_packs() -> None:
    sizes = [(name, len([c for c in cases if c in PACKED])) for name, cases in CASES.items()]
    assert [(name, size) for name, size in sizes if size] == [
        ("karmada_division", 9),
        ("karmada_planner", 9),
        ("kubeadmiral_binpack_planner", 86),
    ]


@pytest.mark.parametrize("name", FILES)
def test_no_case_of_a_file_is_left_out(name: str) -> None:
    """Each that divides nothing is decided here, or stands in exactly one list of what we lack."""
    decided = [case.id for case in CASES[name]]
    outside = [key for files in OUTSIDE.values() for key in files.get(name, [])]
    assert sorted(decided + outside) == sorted(case for case in ALL[name] if isinstance(case, str))
    assert len({*decided, *outside}) == len(decided) + len(outside)


def test_every_file_with_such_cases_is_read() -> None:
    others = {name for name, cases in ALL.items() if any(isinstance(case, str) for case in cases)}
    assert others == set(FILES)
    assert {name: len(cases) for name, cases in CASES.items()} == {
        "karmada_division": 42,
        "karmada_planner": 14,
        "karmada_spread_groups": 9,
        "kubeadmiral_binpack_planner": 86,
        "kubefleet_scheduling": 27,
        "ocm_scheduling": 51,
    }


def test_every_line_of_the_lists_is_needed() -> None:
    decided = {case.id for case in EVERY}
    assert set(PURPOSE) <= decided
    assert sum(map(len, DIFFERENT.values())) == len(PURPOSE)
    assert set(BETTER) == set(DIFFERENT)
