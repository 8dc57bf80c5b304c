"""Every division of the peers: the same answer, or a rule of ours that is better, and why.

`DIFFERENT` is the whole list of divisions that end differently on purpose, with our answer to each.
What divides nothing is in `scheduling.test_peers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from .peers import ALL, Answer, Case, divisions

ADMIRAL = "kubeadmiral/kubeadmiral.spread"
FLAGS = ["avoid=0,keep=0", "avoid=0,keep=1", "avoid=1,keep=0", "avoid=1,keep=1"]


def _flagged(test: str, ours: list[int], flags: list[str] = FLAGS) -> dict[str, list[int]]:
    return {f"{ADMIRAL}/{test}/{flag}": ours for flag in flags}


DIFFERENT: dict[str, dict[str, list[int]]] = {
    "what is there counts: new units go where most is missing, so that the whole is in proportion": {
        "assign_dynamic_rescale/replica 12 -> 24, dynamic weighted 10:10:10": [8, 8, 8],
    },
    "units leave where most is over the weight's part, so that the rest is in proportion": {
        "assign_dynamic_rescale/replica 12 -> 6, dynamic weighted 1:1:1": [2, 2, 2],
    },
    "as many as fit are placed and the rest is pending: units that could run are not held back": {
        "assign_dynamic_rescale/replica 12 -> 24, dynamic weighted 1:1:1": [3, 5, 7],
        "assign_dynamic_scale_up/replica 12, dynamic weight 3:3:3": [3, 3, 3],
        "karmada/TestAssignReplicas/3": [2, 2],
    },
    "lower bounds that do not all fit are served evenly: none in full while another gets nothing": {
        **_flagged("TestWithoutExisting/8", [16, 17, 17]),
        **_flagged("TestWithoutExisting/9", [17, 16, 17]),
    },
    "a lower bound that the weights exceed changes nothing: it is no gift on top of the part": {
        **_flagged("TestWithoutExisting/10", [25, 25]),
    },
    "equal weights get equal parts of what is new": {
        **_flagged("TestWithExisting/1", [10, 10, 30], FLAGS[2:]),
    },
    "each unit that a full cluster gives back goes to the one farthest below its part": {
        **_flagged("TestWithExistingAndCapacity/8", [20, 31, 10, 10], FLAGS[2:]),
    },
    "a whole is divided without rest: a thousand parts, not 999": {
        "kubeadmiral/TestCalcWeightLimit/4": [334, 333, 333],
        "kubeadmiral/TestCalcWeightLimit/5": [334, 333, 333],
        "kubeadmiral/TestAvailableToPercentage/5": [334, 333, 333],
        "kubeadmiral/TestAvailableToPercentage/6": [334, 333, 333],
    },
}

PURPOSE = {key: (rule, ours) for rule, found in DIFFERENT.items() for key, ours in found.items()}
DIVISIONS = {name: [c for c in cases if isinstance(c, Case)] for name, cases in ALL.items()}
DIVIDING = [name for name, cases in DIVISIONS.items() if cases]
"""Files with such cases."""


def _same(case: Case, ours: Answer) -> bool:
    """Peers leave out clusters that get nothing, or name them; it is the same answer."""
    some = {name: units for name, units in ours.items() if units}
    return any({n: u for n, u in answer.items() if u} == some for answer in case.answers)


@pytest.mark.parametrize("file", DIVIDING)
def test_a_division(file: str, subtests: pytest.Subtests) -> None:
    for case in DIVISIONS[file]:
        with subtests.test(case.id):
            _divides(case)
            _places_as_many(case)


def _divides(case: Case) -> None:
    ours = case.ours()
    if case.id in PURPOSE:
        assert list(ours.values()) == PURPOSE[case.id][1]
        assert not _same(case, ours), "the difference has gone: take it off the list"
    else:
        assert _same(case, ours), (ours, case.answers)


def _places_as_many(case: Case) -> None:
    """Never fewer than the peer places."""
    ours = case.ours()
    for answer in case.answers:
        inside = sum(min(u, case.hidden.get(name, u)) for name, u in answer.items())
        if all(name in ours for name in answer):
            assert sum(ours.values()) >= min(inside, case.of.total)


def _exact(case: Case, placed: int) -> list[Fraction] | None:
    """The parts that the weights give within the bounds, unrounded; None where bounds allow none.

    They are `x * w` between the bounds for the x at which they add up; between two neighbours of
    the positions where a bound is met, the sum is a straight line.
    """
    of = case.of
    weight = of.weight.tolist()
    low = [min(pair) for pair in zip(of.lower.tolist(), of.cap().tolist(), strict=True)]
    high = [c if w else b for c, w, b in zip(of.cap().tolist(), weight, low, strict=True)]

    def parts(x: Fraction) -> list[Fraction]:
        rows = zip(weight, low, high, strict=True)
        return [min(max(x * w, Fraction(lo)), Fraction(hi)) for w, lo, hi in rows]

    ends = {Fraction(lo, w) for lo, w in zip(low, weight, strict=True) if w}
    ends |= {Fraction(hi, w) for hi, w in zip(high, weight, strict=True) if w}
    for left, right in _neighbours(sorted(ends | {Fraction(0)})):
        before, after = sum(parts(left)), sum(parts(right))
        if before <= placed <= after:
            share = (placed - before) / (after - before) if after > before else Fraction(0)
            return parts(left + share * (right - left))
    return None


def _quota(case: Case, placed: int) -> list[Fraction]:
    """The other definition of an exact part, the textbook's: by weight alone, without any bound."""
    weights = case.of.weight.tolist()
    return [Fraction(placed * weight, max(sum(weights), 1)) for weight in weights]


def _neighbours(ends: list[Fraction]) -> Iterator[tuple[Fraction, Fraction]]:
    yield from zip(ends, [*ends[1:], ends[-1]], strict=True)


def _off(exact: list[Fraction], answer: list[int]) -> tuple[Fraction, Fraction]:
    """The largest deviation, and the sum of squares."""
    apart = [abs(part - units) for part, units in zip(exact, answer, strict=True)]
    return max(apart), sum((gap * gap for gap in apart), Fraction(0))


def _within(case: Case, answer: list[int]) -> bool:
    of = case.of
    low = [min(pair) for pair in zip(of.lower.tolist(), of.cap().tolist(), strict=True)]
    rows = zip(low, answer, of.cap().tolist(), of.weight.tolist(), strict=True)
    return all(lo <= units <= (hi if w else lo) for lo, units, hi, w in rows)


@cache
def _compared() -> list[tuple[Case, list[int]]]:
    """The cases with nothing there, without groups, where the peer keeps to the bounds."""
    found = []
    for case in divisions():
        for answer in case.answers:
            theirs = [answer.get(name, 0) for name in case.names]
            fresh = case.fresh() and not case.of.groups and case.names
            placed_alike = sum(theirs) == sum(case.ours().values())
            if fresh and placed_alike and _within(case, theirs):
                found.append((case, theirs))
    return found


@pytest.mark.proves("P10")
def test_never_further_from_exact_proportion_than_the_peer(subtests: pytest.Subtests) -> None:
    """By both definitions of the exact part: within the bounds, and of the weights alone."""
    for case, theirs in _compared():
        with subtests.test(case.id):
            _no_further_off(case, theirs)


def _no_further_off(case: Case, theirs: list[int]) -> None:
    ours = list(case.ours().values())
    exact = _exact(case, sum(ours))
    assert exact is not None
    for part in (exact, _quota(case, sum(ours))):
        mine, other = _off(part, ours), _off(part, theirs)
        told = f"of {[str(each) for each in part]}: {ours} is off by {mine}, {theirs} by {other}"
        assert mine[0] <= other[0], told
        assert mine[1] <= other[1], told


def _incomparable(case: Case) -> str:
    """Why a case with nothing there has no exact part to compare with; empty where it has one."""
    if not case.names or not case.answers:
        return "there is no cluster, or no answer"
    if case.of.groups:
        return "tiers come before weights"
    if np.minimum(case.of.lower, case.of.cap()).sum() > case.of.total:
        return "no placement meets the lower bounds"
    if all(sum(answer.values()) < sum(case.ours().values()) for answer in case.answers):
        return "the peer places fewer"
    return ""


def test_only_cases_without_an_exact_part_are_not_compared() -> None:
    assert set(PURPOSE) <= {case.id for case in divisions()}
    compared = {case.id for case, _ in _compared()}
    for case in divisions():
        assert (case.id in compared) == (case.fresh() and not _incomparable(case)), case.id
