"""What the gangs of one namespace may keep from those of others, whatever they ask for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.features.workloadgroup.compiled import Group
from controller.features.workloadgroup.rivals import SHARE, TURN, Keeping
from controller.features.workloadgroup.turns import Turns
from controller.framework.gathering import Outcome
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS
from machinery.types.metadata import Key
from tests.examples import examples

from . import make
from .gang_traffic import START, InModel, InModelAsked, Arrival
from .memory import Stage
from .test_gang_turns import crowded, elsewhere, gang, told
from .test_gang_waits import LABEL

pytestmark = pytest.mark.proves("N10")
PATIENCE = 300
LENGTH = TURN * PATIENCE
"""Seconds for which the turns of a namespace may keep others out, in any SHARE times as many."""


def most_in_any_window(kept: list[float], step: float) -> float:
    """Of samples at these times, the seconds of the fullest window of that length."""
    window, most, first = SHARE * LENGTH, 0, 0
    for last, at in enumerate(kept):
        while kept[first] <= at - window:
            first += 1
        most = max(most, last - first + 1)
    return most * step


@given(st.lists(st.floats(0, 4 * LENGTH), max_size=60), st.integers(1, 10**5))
@examples(100)
def test_no_window_has_more_than_its_share_whenever_somebody_is_kept_out(
    gaps: list[float], patience: int
) -> None:
    keeping, now = Keeping(), START
    length = float(TURN * patience)
    stretches: list[tuple[float, float]] = []
    for gap in gaps:
        now += timedelta(seconds=gap * patience / PATIENCE)
        left, at = keeping.left("greedy", now, patience), (now - START).total_seconds()
        assert 0 <= left <= length
        if left > 0:
            keeping.keeps("greedy", now, patience)
            stretches.append((at, at + left))
    for begin in [each[0] for each in stretches]:
        end, covered, upto = begin + SHARE * length, 0.0, begin
        for first, last in stretches:
            a, b = max(first, upto), min(last, end)
            if b > a:
                covered, upto = covered + b - a, b
        assert covered <= length + 1e-3
    assert keeping.left("other", now, patience) == length, "each namespace has its own"


# --- gang after gang ------------------------------------------------------------------------------


@dataclass
class Flood(InModel):
    """A tenant who makes gang after gang, each as large as the fleet, and one of somebody else."""

    def __init__(self) -> None:
        super().__init__(100, PATIENCE)
        self.number = 0

    def adds(self, since: float) -> None:
        """Another large gang, which waits since then."""
        self.number += 1
        self.comes(_Arrival(f"big-{self.number:05}", int(since), 100, 60, "greedy"))

    def kept_out(self, now: int, name: str, namespace: str) -> bool:
        """Whether a small gang that comes then has to stand behind one of the large ones."""
        arrival = _Arrival(name, now, 1, 60, namespace)
        self.comes(arrival)
        asked: Any = InModelAsked(self, arrival, START + timedelta(seconds=now))
        asked.behind = self.turns.behind(asked)
        self.turns.concluded(asked, Outcome.REFUSE if asked.behind else Outcome.PLACE)
        del self.books.groups[arrival.key], self.waits[name]
        return asked.behind is not None


class _Arrival(Arrival):
    """One of a namespace."""

    def __init__(self, name: str, at: int, units: int, runs: int, namespace: str) -> None:
        super().__init__(name, at, units, runs)
        object.__setattr__(self, "namespace", namespace)

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)  # type: ignore[attr-defined]


def flooded(seconds: int, step: int, seed: int = 1) -> Iterator[tuple[int, bool, bool]]:
    """Moments: whether a small gang of another namespace is kept out, and whether one of its own.

    One large gang is always old enough: each is gone as soon as its own first turn is over.
    """
    world, rng = Flood(), random.Random(seed)
    world.free = 50
    world._count()
    for number in range(seconds // LENGTH + 2):
        world.adds((number - 1) * LENGTH + rng.randint(-PATIENCE, 0))
    for now in range(PATIENCE, seconds, step):
        for key, each in [*world.books.groups.items()]:
            if now - (each_at := _since(each)) > LENGTH + PATIENCE:
                assert each_at < now
                world.turns.over(key)
                del world.books.groups[key], world.waits[key[1]]
        foreign = world.kept_out(now, f"s{now}", "shop")
        own = world.kept_out(now, f"o{now}", "greedy")
        yield now, foreign, own


def _since(group: Group) -> float:
    return (make_moment(group.created) - START).total_seconds()
