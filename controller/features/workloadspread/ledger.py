"""The ledger of WorkloadSpreads: which of them divides the replicas of which Workload."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Self

from controller.cache.ledger import PlacementsByWorkload
from controller.features.workloadspread.compiled import CompiledSpread
from controller.model.unit import WorkloadInfo
from machinery.types.metadata import Key


class Spreads:
    def __init__(self) -> None:
        self._spreads: dict[Key, CompiledSpread] = {}
        self._of: dict[Key, list[CompiledSpread]] = {}

    def put_spread(self, spread: CompiledSpread) -> set[Key]:
        before = self._take_out(spread.key)
        self._spreads[spread.key] = spread
        there = self._of.setdefault(spread.target, [])
        there.append(spread)
        there.sort(key=_precedence)
        if before is None or before.target == spread.target:
            return {spread.target}
        return {before.target, spread.target}

    def drop_spread(self, key: Key) -> set[Key]:
        before = self._take_out(key)
        return set() if before is None else {before.target}

    def get(self, key: Key) -> CompiledSpread | None:
        return self._spreads.get(key)

    def of(self, key: Key) -> CompiledSpread | None:
        """Return the spread that divides a Workload: of several the oldest valid one.

        A spread with a fault is returned only if there is no valid one.
        """
        there = self._of.get(key)
        return there[0] if there else None

    def values(self) -> Collection[CompiledSpread]:
        return self._spreads.values()

    def targets(self) -> list[Key]:
        return list(self._of)

    def all_of(self, key: Key) -> Sequence[CompiledSpread]:
        """Return the spreads of a Workload; the first one divides it."""
        return tuple(self._of.get(key, ()))

    def put(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Count nothing."""

    def drop(self, key: Key) -> None:
        """Count nothing."""

    def overlay(self, placed: PlacementsByWorkload) -> Self:
        return self

    def _take_out(self, key: Key) -> CompiledSpread | None:
        before = self._spreads.pop(key, None)
        if before is not None:
            left = [each for each in self._of[before.target] if each.key != key]
            if left:
                self._of[before.target] = left
            else:
                del self._of[before.target]
        return before


def _precedence(spread: CompiledSpread) -> tuple[bool, str, str]:
    return (bool(spread.fault), *spread.age)
