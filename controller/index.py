"""Where other Workloads run: what affinity between Workloads reads.

Kept up to date one Workload at a time and asked by namespace and label, so that a decision costs
what its own terms select and not what the fleet has ever placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from controller.model import WorkloadTerm
from controller.unit import Unit
from machinery.objects import Key
from machinery.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class Placed:
    """A Workload as others see it: its labels, where its units are, whom it keeps away."""

    key: Key
    labels: Mapping[str, str]
    clusters: frozenset[str]
    repels: tuple[WorkloadTerm, ...]


class Index:
    """Every Workload, placed or not, by namespace and label."""

    def __init__(self) -> None:
        self._all: dict[Key, Placed] = {}
        self._by_label: dict[tuple[str, str, str], set[Key]] = {}
        self._by_namespace: dict[str, set[Key]] = {}
        self._repelling: dict[str, set[Key]] = {}

    def put(self, unit: Unit, placements: Mapping[str, int]) -> None:
        """Take a Workload with its shares as they are now."""
        self.drop(unit.key)
        holding = frozenset(cluster for cluster, units in placements.items() if units > 0)
        placed = Placed(unit.key, unit.labels, holding, tuple(unit.anti_affinity.required))
        self._all[unit.key] = placed
        self._by_namespace.setdefault(unit.namespace, set()).add(unit.key)
        for label in unit.labels.items():
            self._by_label.setdefault((unit.namespace, *label), set()).add(unit.key)
        if placed.repels and placed.clusters:
            self._repelling.setdefault(unit.namespace, set()).add(unit.key)

    def drop(self, key: Key) -> None:
        """Forget a Workload."""
        placed = self._all.pop(key, None)
        if placed is None:
            return
        namespace = key[0]
        for label in placed.labels.items():
            _discard(self._by_label, (namespace, *label), key)
        _discard(self._by_namespace, namespace, key)
        _discard(self._repelling, namespace, key)

    def selected(self, namespace: str, selector: LabelSelector) -> Iterator[Placed]:
        """The Workloads of a namespace that a selector picks."""
        for key in self._candidates(namespace, selector):
            placed = self._all[key]
            if selector.matches(placed.labels):
                yield placed

    def overlay(self, units: Mapping[Key, tuple[Unit, Mapping[str, int]]]) -> Index:
        """What the index would be with these Workloads placed so; this one stays as it is."""
        return _Overlay(self, units)

    def _candidates(self, namespace: str, selector: LabelSelector) -> Iterable[Key]:
        sets = [
            self._by_label.get((namespace, *pair), set[Key]())
            for pair in selector.match_labels.items()
        ]
        if not sets:
            return self._by_namespace.get(namespace, ())
        return min(sets, key=_size)

    def clusters_of(self, namespace: str, selector: LabelSelector, *, but: Key) -> set[str]:
        """The clusters that hold units of the selected Workloads, one of them left out."""
        return {
            cluster
            for placed in self.selected(namespace, selector)
            if placed.key != but
            for cluster in placed.clusters
        }

    def anyone(self, namespace: str, selector: LabelSelector, *, but: Key) -> bool:
        """Whether a selected Workload, one left out, holds units anywhere."""
        return any(p.clusters and p.key != but for p in self.selected(namespace, selector))

    def repelling(self, unit: Unit) -> Iterator[tuple[WorkloadTerm, frozenset[str]]]:
        """The terms by which placed Workloads keep this one away, with the clusters they hold."""
        for key in self._repelling.get(unit.namespace, ()):
            placed = self._all[key]
            if key == unit.key:
                continue
            for term in placed.repels:
                if term.label_selector.matches(unit.labels):
                    yield term, placed.clusters


class _Overlay(Index):
    """A few Workloads placed otherwise, over an index that is not touched."""

    def __init__(self, base: Index, units: Mapping[Key, tuple[Unit, Mapping[str, int]]]) -> None:
        super().__init__()
        self._base = base
        for unit, placements in units.values():
            self.put(unit, placements)

    def selected(self, namespace: str, selector: LabelSelector) -> Iterator[Placed]:
        """Those of the overlay, and those of the base that it does not hide."""
        yield from super().selected(namespace, selector)
        for placed in self._base.selected(namespace, selector):
            if placed.key not in self._all:
                yield placed

    def repelling(self, unit: Unit) -> Iterator[tuple[WorkloadTerm, frozenset[str]]]:
        """Those of both; a Workload of the overlay only ever adds to where it repels."""
        yield from super().repelling(unit)
        yield from self._base.repelling(unit)


def _size(keys: set[Key]) -> int:
    return len(keys)


def _discard(table: dict, entry: object, key: Key) -> None:  # type: ignore[type-arg] # of any key
    members = table.get(entry)
    if members is not None:
        members.discard(key)
        if not members:
            del table[entry]
