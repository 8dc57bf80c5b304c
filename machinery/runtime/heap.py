"""A heap whose entries can be replaced and removed by key."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SMALL = 64  # below this a rebuild gains nothing


@dataclass(frozen=True, slots=True, eq=False)
class HeapEntry(Generic[K]):
    key: K
    priority: int
    at: float
    rank: tuple[Any, ...] = ()

    @property
    def order(self) -> tuple[Any, ...]:
        """The sort key: smaller goes first."""
        return self.rank or (-self.priority,)


class Heap(Generic[K]):
    """At most one entry for each key; the lowest rank first, then the one put first."""

    def __init__(self) -> None:
        self._live: dict[K, HeapEntry[K]] = {}
        self._heap: list[tuple[tuple[Any, ...], int, HeapEntry[K]]] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: object) -> bool:
        return key in self._live

    def get(self, key: K) -> HeapEntry[K] | None:
        return self._live.get(key)

    def entries(self) -> Iterable[HeapEntry[K]]:
        return self._live.values()

    def put(self, entry: HeapEntry[K], *, rank: tuple[Any, ...]) -> None:
        self._live[entry.key] = entry
        heapq.heappush(self._heap, (rank, next(self._numbers), entry))
        self._tidy()

    def discard(self, key: K) -> HeapEntry[K] | None:
        return self._live.pop(key, None)

    def first(self) -> HeapEntry[K] | None:
        while self._heap and not self._alive(self._heap[0][2]):
            heapq.heappop(self._heap)
        return self._heap[0][2] if self._heap else None

    def pop(self) -> HeapEntry[K]:
        self.first()
        entry = heapq.heappop(self._heap)[2]
        del self._live[entry.key]
        return entry

    def clear(self) -> None:
        self._live.clear()
        self._heap.clear()

    def _alive(self, entry: HeapEntry[K]) -> bool:
        return self._live.get(entry.key) is entry

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._live) + _SMALL:
            self._heap = [item for item in self._heap if self._alive(item[2])]
            heapq.heapify(self._heap)
