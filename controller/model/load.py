"""The load of a replica on a node, as one value."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from controller.model.place import Place
from machinery.types import hostports

ANYWHERE = Place()
MOST_FLYING = 2**50
"""The most replicas of one load in flight to one cluster, over all Workloads."""


@dataclass(frozen=True, slots=True)
class Load:
    """The request of one replica, and the nodes for it: no `place` means every node.

    `ports` are the codes of the resources that each node has once, including those in `request`.
    `resources` are the other names in `request`, which a cluster must offer.
    """

    request: tuple[tuple[str, int], ...]
    place: Place | None
    ports: frozenset[int] = frozenset()
    resources: frozenset[str] = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Compute the hash once: a Workload on ten thousand clusters is looked up on each."""
        names = frozenset(name for name, _ in self.request)
        ports = frozenset(name for name in names if name.startswith(hostports.PREFIX))
        object.__setattr__(self, "resources", names - ports)
        if ports:
            object.__setattr__(self, "ports", self.ports | hostports.codes(ports))
        object.__setattr__(self, "_hash", hash((self.request, self.place)))

    def __hash__(self) -> int:
        return self._hash

    @staticmethod
    def of(request: Mapping[str, int], place: Place = ANYWHERE) -> Load:
        return _one(tuple(sorted(request.items())), place)


def in_parts(load: Load, replicas: int) -> Iterator[tuple[Load, int]]:
    """Yield the load of each sort of pods with their number."""
    parts = load.place.parts if load.place is not None else ()
    if not parts:
        yield load, replicas
    for each in parts:
        yield _one(each.request, each.place), replicas * each.count


@functools.lru_cache(maxsize=1024)
def _one(request: tuple[tuple[str, int], ...], place: Place) -> Load:
    return Load(request, place)


Loads: TypeAlias = Mapping[str, Mapping[Load, int]]
"""Replicas by cluster and by load."""


def added(parts: Iterable[Loads]) -> dict[str, dict[Load, int]]:
    found: dict[str, dict[Load, int]] = {}
    for part in parts:
        for cluster, loads in part.items():
            there = found.setdefault(cluster, {})
            for load, replicas in loads.items():
                there[load] = there.get(load, 0) + replicas
    return found


def lying(loads: Mapping[Load, int], offers: frozenset[str]) -> dict[Load, int]:
    return {
        load: min(MOST_FLYING, n) for load, n in loads.items() if n > 0 and load.resources <= offers
    }


def less(loads: Mapping[Load, int], others: Mapping[Load, int]) -> dict[Load, int]:
    left = {load: n - max(others.get(load, 0), 0) for load, n in loads.items()}
    return {load: n for load, n in left.items() if n > 0}


def entries(row: int, loads: Mapping[Load, int], most: int) -> list[tuple[int, Load, int]]:
    """Return (row, load, replicas), with at most `most` different loads."""
    entries = [(row, load, n) for load, n in loads.items()]
    return entries if len(entries) <= most else _merged(row, entries, most)


def _merged(
    row: int, entries: list[tuple[int, Load, int]], most: int
) -> list[tuple[int, Load, int]]:
    entries.sort(key=lambda entry: -entry[2])
    entries, rest = entries[: most - 1], entries[most - 1 :]
    request: dict[str, int] = {}
    for _, load, _ in rest:
        for resource, amount in load.request:
            if resource in load.resources:
                request[resource] = max(request.get(resource, 0), amount)
    ports = frozenset[int]().union(*(load.ports for _, load, _ in rest))
    replicas = min(sum(n for _, _, n in rest), MOST_FLYING)
    return [*entries, (row, Load(tuple(sorted(request.items())), None, ports), replicas)]
