"""Levels of domains that cross: random small ones, all choices by hand, and the nastiest large ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from controller.planner.domains import Level


@dataclass(frozen=True)
class Asked:
    """One choice: what `largest_capacity` is given."""

    name: str
    levels: list[Level]
    held: np.ndarray
    room: np.ndarray
    need: int

    def value(self, used: np.ndarray | None) -> int | None:
        """The room that counts; None where nothing was found."""
        return None if used is None else min(self.need, int(self.room[used].sum()))

    def kept(self, used: np.ndarray) -> bool:
        """Whether a choice keeps to all bounds, and to what is held."""
        bounds = (
            level.least <= level.count(used) <= max(level.most, level.count(self.held))
            for level in self.levels
        )
        return all(bounds) and not (self.held & ~used).any()


def small(dice: random.Random) -> Asked:
    """Up to eight clusters and four constraints of any kind; some held, now and then single ones."""
    size = dice.randint(1, 8)
    levels = []
    for _ in range(dice.randint(1, 4)):
        values, least = dice.randint(1, 5), dice.choice([1, 1, 1, 2, 3])
        domain = [dice.randrange(values) for _ in range(size)]
        if dice.random() < 0.2:
            domain = list(range(size))
        levels.append(Level(np.array(domain), least, dice.randint(least, least + 3)))
    held = np.array([dice.random() < 0.1 for _ in range(size)])
    room = np.array([dice.choice([dice.randint(1, 4), dice.randint(1, 60)]) for _ in range(size)])
    return Asked("small", levels, held, room, dice.choice([10**6, dice.randint(0, 60)]))


def by_hand(asked: Asked) -> int | None:
    """The most room of all sets of clusters that keep to the bounds."""
    kept = np.flatnonzero(asked.held).tolist()
    free = np.flatnonzero(~asked.held).tolist()
    best = None
    for size in range(len(free) + 1):
        for added in combinations(free, size):
            used = np.zeros(len(asked.held), dtype=np.bool_)
            used[[*kept, *added]] = True
            if used.any() and asked.kept(used):
                best = max(best or 0, min(asked.need, int(asked.room[used].sum())))
    return best


def nasty(size: int, seed: int = 0) -> Iterator[Asked]:
    """A few hundred: eight keys at random, all distinct, one value, impossible, ties, deep nests."""
    dice = np.random.default_rng(seed)
    for name, levels in _nasty_levels(size, dice):
        rooms = {
            "ties": np.full(size, 7),
            "random": dice.integers(1, 10**6, size),
            "few large": np.where(dice.random(size) < 0.03, 10**5, 1),
        }
        for kind, room in rooms.items():
            held = dice.random(size) < dice.choice([0, 0.002])
            for part in (0.05, 10):
                need = int(room.sum() * part)
                yield Asked(f"{name}, {kind}, {part:g}", levels, held, room, need)


def _nasty_levels(size: int, dice: np.random.Generator) -> Iterator[tuple[str, list[Level]]]:
    single = np.arange(size)
    for values in (2, 5, 30, 300, 1000):
        for least, most in ((1, 1), (1, 2), (2, 5), (5, 5), (1, 20), (20, 100)):
            if most < values:
                levels = [Level(dice.integers(0, values, size), least, most) for _ in range(8)]
                yield f"8 keys of {values} values, {least} to {most}", levels
    for keys in (2, 3, 4):
        for values, most in ((5, 2), (30, 3), (30, 10), (100, 5)):
            levels = [Level(dice.integers(0, values, size), 1, most) for _ in range(keys)]
            levels.append(Level(single, 1, 3 * most))
            yield f"{keys} keys of {values} values, at most {most}, and clusters", levels
    yield "all distinct", [Level(dice.permutation(size), 1, 5 + n) for n in range(8)]
    yield "one value", [Level(np.zeros(size, dtype=np.int64), 1, 1) for _ in range(8)]
    crossing = [Level(dice.integers(0, 40, size), 1, 1) for _ in range(7)]
    yield "impossible", [*crossing, Level(single, size // 40, size)]
    for most in (1, 2, 5):
        zone = single // 5
        chain = [Level(zone // 5, 1, most), Level(zone, 2, 3 * most), Level(single, 3, 9 * most)]
        yield f"zones in regions, {most}", chain
        yield (
            f"clusters in zones, {most}",
            [Level(zone, 1, 2 * most), Level(single, most, 5 * most)],
        )
    for number in range(10):
        levels = []
        for _ in range(8):
            values = int(dice.choice([2, 3, 5, 10, 30, 100, 1000]))
            least = int(dice.integers(1, values + 1))
            most = int(dice.integers(least, values + 1))
            levels.append(Level(dice.integers(0, values, size), least, most))
        yield f"any bounds, {number}", levels
