"""Ready keys by flow (a namespace), with a fair share of the work for each flow.

Each flow has a clock that runs while its keys are in work, and the earliest clock is next, as in
the API server's priority and fairness. A flow is charged its usual cost when a key is handed out,
corrected when the work ends.

Within a flow keys go by rank; without rank by priority. Among flows within `TURN_SECONDS` of the
earliest clock, the priority of the first key decides; beyond that it does not count, because any
user may choose one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from machinery.runtime.heap import Heap, HeapEntry

K = TypeVar("K", bound=Hashable)

TURN_SECONDS = 0.25
"""How far ahead of the others a flow may get by priority, in seconds of work."""
LEAST_SECONDS = 0.001
"""The least cost of a key, in seconds."""
_NEWS = 0.25


def one_flow(_key: Hashable) -> str:
    return ""


def namespace_of(key: tuple[str, str]) -> str:
    return key[0]


@dataclass(slots=True, eq=False)
class _Flow(Generic[K]):
    """The ready keys of one flow; `clock` in seconds of work, `usual` those of one key."""

    name: str
    clock: float
    keys: Heap[K] = field(default_factory=Heap)
    at_work: int = 0
    usual: float = LEAST_SECONDS

    @property
    def priority(self) -> int:
        first = self.keys.first()
        return first.priority if first else 0


class Flows(Generic[K]):
    """Ready keys. `flow` names the flow of a key; `seats`, if given, bounds the keys in work."""

    def __init__(self, *, flow: Callable[[K], str], seats: int | None = None) -> None:
        self._flow_of = flow
        self._seats = seats
        self._flows: dict[str, _Flow[K]] = {}
        self._now = 0.0  # the earliest clock of the waiting flows; never goes back
        self._waiting: Heap[str] = Heap()  # flows that have a key and may get a seat, by clock
        self._turn: Heap[str] = Heap()  # of those, the ones not too far ahead, by priority
        self._ahead: Heap[str] = Heap()  # of those, the others, by clock
        self._idle: Heap[str] = Heap()  # flows without key and seat that are ahead, by clock
        self._full: dict[str, _Flow[K]] = {}  # flows with a key and all the seats they may have
        self._charged: dict[K, float] = {}
        self._ready = 0

    def __len__(self) -> int:
        return self._ready

    def entries(self) -> Iterator[HeapEntry[K]]:
        return (entry for flow in self._flows.values() for entry in flow.keys.entries())

    def get(self, key: K) -> HeapEntry[K] | None:
        flow = self._flows.get(self._flow_of(key))
        return flow.keys.get(key) if flow else None

    def put(self, entry: HeapEntry[K]) -> None:
        flow = self._known(self._flow_of(entry.key))
        self._ready += entry.key not in flow.keys
        before = flow.keys.first()
        flow.keys.put(entry, rank=entry.order)
        if before is None or flow.keys.first() is not before:
            self._place(flow)

    def discard(self, key: K) -> HeapEntry[K] | None:
        flow = self._flows.get(self._flow_of(key))
        entry = flow.keys.discard(key) if flow else None
        if flow is not None and entry is not None:
            self._ready -= 1
            self._place(flow)
        return entry

    def take(self) -> HeapEntry[K] | None:
        """Hand out the next key; None if no key is ready, or no flow may have another seat."""
        while True:
            self._advance()
            first = self._turn.first()
            if first is None or self._free() <= 0:
                return None
            flow = self._flows[first.key]
            if flow.at_work < self._free():
                return self._hand_out(flow)
            self._place(flow)  # fewer seats are free than when it was placed

    def done(self, key: K, seconds: float) -> None:
        flow = self._flows[self._flow_of(key)]
        took = max(seconds, LEAST_SECONDS)
        flow.clock += took - self._charged.pop(key)
        flow.usual += _NEWS * (took - flow.usual)
        flow.at_work -= 1
        self._place(flow)
        for other in list(self._full.values()):
            self._place(other)
        if not self._ready and not self._charged:
            self.clear()

    def clear(self) -> None:
        for heap in (self._waiting, self._turn, self._ahead, self._idle):
            heap.clear()
        self._full.clear()
        self._flows = {name: flow for name, flow in self._flows.items() if flow.at_work}
        for flow in self._flows.values():
            flow.keys.clear()
            flow.clock = self._now
        self._ready = 0

    def _free(self) -> float:
        return float("inf") if self._seats is None else self._seats - len(self._charged)

    def _known(self, name: str) -> _Flow[K]:
        flow = self._flows.get(name)
        if flow is None:
            self._advance()
            flow = self._flows[name] = _Flow(name, self._now)
        return flow

    def _hand_out(self, flow: _Flow[K]) -> HeapEntry[K]:
        entry = flow.keys.pop()
        self._ready -= 1
        self._charged[entry.key] = flow.usual
        flow.clock += flow.usual
        flow.at_work += 1
        self._place(flow)
        return entry

    def _place(self, flow: _Flow[K]) -> None:
        name = flow.name
        for heap in (self._waiting, self._turn, self._ahead, self._idle):
            heap.discard(name)
        self._full.pop(name, None)
        if not flow.keys:
            self._drop_or_idle(flow)
        elif flow.at_work and flow.at_work >= self._free():
            self._full[name] = flow
        else:
            self._wait(flow)

    def _wait(self, flow: _Flow[K]) -> None:
        flow.clock = max(flow.clock, self._now)  # an idle flow earns no credit
        entry = HeapEntry(flow.name, flow.priority, flow.clock)
        self._waiting.put(entry, rank=(flow.clock,))
        if flow.clock <= self._now + TURN_SECONDS:
            self._turn.put(entry, rank=(-flow.priority, flow.clock, flow.at_work))
        else:
            self._ahead.put(entry, rank=(flow.clock,))

    def _drop_or_idle(self, flow: _Flow[K]) -> None:
        if flow.at_work:
            return
        if flow.clock <= self._now:
            del self._flows[flow.name]
        else:
            self._idle.put(HeapEntry(flow.name, 0, flow.clock), rank=(flow.clock,))

    def _advance(self) -> None:
        first = self._waiting.first()
        if first is not None:
            self._now = max(self._now, first.at)
        while (entry := self._idle.first()) is not None and entry.at <= self._now:
            self._idle.pop()
            del self._flows[entry.key]
        while (entry := self._ahead.first()) is not None and entry.at <= self._now + TURN_SECONDS:
            self._place(self._flows[entry.key])
