"""Ranges of ordinals: the numbers of a Workload's pods on each cluster.

Each cluster has a range, 1000 apart: a range may grow without renumbering a running pod. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final

DISTANCE: Final = 1000
"""Between the starts of two ranges."""
MOST_RANGES: Final = 1000


def known_ranges(noted: Mapping[str, int], told: Mapping[str, int]) -> dict[str, int]:
    """Return the start of each cluster's range."""
    taken = sorted(told.values())
    free = {
        cluster: start
        for cluster, start in noted.items()
        if cluster not in told and _nearest(taken, start) >= DISTANCE
    }
    return {**free, **told}


def with_new_ranges(
    known: Mapping[str, int], clusters: Iterable[str], first: int
) -> dict[str, int]:
    """Return the ranges, with the lowest free ones for further clusters.

    `first` is the template's start: that of the first range.
    """
    found, taken = dict(known), set[int]()
    for start in known.values():
        below = (start - first) // DISTANCE
        taken |= {below} if (start - first) % DISTANCE == 0 else {below, below + 1}
    number = 0
    for cluster in clusters:
        if cluster not in found:
            while number in taken:
                number += 1
            found[cluster] = first + number * DISTANCE
            number += 1
    return found


def overlapping(start: int, others: Mapping[str, int]) -> str:
    """Return a cluster whose range overlaps with one from `start`; empty for none."""
    return next((name for name, n in others.items() if abs(n - start) < DISTANCE), "")


def _nearest(starts: list[int], start: int) -> int:
    at = bisect_left(starts, start)
    beside = starts[max(at - 1, 0) : at + 1]
    return min((abs(each - start) for each in beside), default=DISTANCE)


def in_words(name: str, start: int, replicas: int) -> str:
    first = f"{name}-{start}"
    return first if replicas <= 1 else f"{first} to {name}-{start + replicas - 1}"
