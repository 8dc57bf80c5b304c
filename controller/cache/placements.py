"""The placements index: where other Workloads run, for affinity between Workloads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import msgspec

from controller.cache.ledger import Ledger
from controller.cache.ledger import PlacementsByWorkload as PlacedUnits
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot
from machinery import logs
from machinery.types.api import WorkloadAffinityTerm
from machinery.types.metadata import Key
from machinery.types.selectors import LabelSelector

LOG = logs.get(__name__)
_FAILED = "the ledger %s failed: what it counts of this Workload is not known"
Pair: TypeAlias = tuple[str, str]
K = TypeVar("K")
M = TypeVar("M")
V = TypeVar("V")
L = TypeVar("L", bound=Ledger)
_Take: TypeAlias = Callable[[WorkloadInfo, Mapping[str, int]], None]


@dataclass(frozen=True, slots=True)
class PlacedWorkload:
    key: Key
    labels: Mapping[str, str]
    clusters: frozenset[str]
    asks: tuple[LabelSelector, ...]
    repels: tuple[WorkloadAffinityTerm, ...]

    @staticmethod
    def of(info: WorkloadInfo, placements: Mapping[str, int]) -> PlacedWorkload:
        holding = _shared_set(
            frozenset(cluster for cluster, replicas in placements.items() if replicas > 0)
        )
        sides = (info.affinity, info.anti_affinity)
        terms = [term for side in sides for term in side.required]
        terms += [each.workload_affinity_term for side in sides for each in side.preferred]
        asks = tuple(term.label_selector for term in terms)
        return PlacedWorkload(
            info.key, info.labels, holding, asks, tuple(info.anti_affinity.required)
        )


@lru_cache(maxsize=4096)
def _shared_set(clusters: frozenset[str]) -> frozenset[str]:
    """Most Workloads are on one of few sets of clusters."""
    return clusters


@dataclass(slots=True)
class _Table:
    """How many Workloads hold replicas on each cluster; a table without `users` is dropped."""

    selector: LabelSelector
    topology_key: str = ""
    users: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, clusters: Iterable[str], sign: int) -> None:
        for cluster in clusters:
            left = self.counts.get(cluster, 0) + sign
            if left:
                self.counts[cluster] = left
            else:
                del self.counts[cluster]

    def without(self, others: Iterable[PlacedWorkload]) -> set[str]:
        less: dict[str, int] = {}
        for placed in others:
            for cluster in placed.clusters:
                less[cluster] = less.get(cluster, 0) + 1
        return {cluster for cluster, n in self.counts.items() if n > less.get(cluster, 0)}


class _Tables:
    def __init__(self) -> None:
        self._tables: dict[tuple[str, bytes], _Table] = {}
        self._by_pair: dict[tuple[str, Pair | None], dict[bytes, _Table]] = {}

    def get(self, namespace: str, about: LabelSelector | WorkloadAffinityTerm) -> _Table | None:
        return self._tables.get((namespace, _name(about)))

    def use(
        self, namespace: str, about: LabelSelector | WorkloadAffinityTerm
    ) -> tuple[_Table, bool]:
        name = _name(about)
        table = self._tables.get((namespace, name))
        new = table is None
        if table is None:
            table = _Table(about) if isinstance(about, LabelSelector) else _of_term(about)
            self._tables[namespace, name] = table
            self._by_pair.setdefault((namespace, _anchor(table.selector)), {})[name] = table
        table.users += 1
        return table, new

    def leave(self, namespace: str, about: LabelSelector | WorkloadAffinityTerm) -> None:
        name = _name(about)
        table = self._tables[namespace, name]
        table.users -= 1
        if not table.users:
            del self._tables[namespace, name]
            _remove(self._by_pair, (namespace, _anchor(table.selector)), name)

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> Iterator[_Table]:
        for pair in (None, *labels.items()):
            for table in self._by_pair.get((namespace, pair), {}).values():
                if table.selector.matches(labels):
                    yield table


class PlacementIndex:
    """Every Workload, placed or not; feeds the ledgers of features."""

    def __init__(self, ledgers: Iterable[Ledger] = ()) -> None:
        self._all: dict[Key, PlacedWorkload] = {}
        self._by_pair: dict[tuple[str, Pair], dict[Key, PlacedWorkload]] = {}
        self._by_namespace: dict[str, dict[Key, PlacedWorkload]] = {}
        self._asked = _Tables()
        self._repelling = _Tables()
        self._ledgers = tuple(ledgers)
        self._puts = [each.put for each in self._ledgers]
        self._assumes = [getattr(each, "assume", each.put) for each in self._ledgers]
        self.version = 0
        """Grows with each change: a decision in steps detects changes of the index."""

    def put(
        self, info: WorkloadInfo, placements: Mapping[str, int], *, deleting: bool = False
    ) -> None:
        """Store a Workload with its shares; one that is being deleted counts in no ledger."""
        self._feed_ledgers(self._puts, info, {} if deleting else placements)
        self._put_placed(info, placements)

    def assume(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        self._feed_ledgers(self._assumes, info, placements)
        self._put_placed(info, placements)

    def _feed_ledgers(
        self, takes: Iterable[_Take], info: WorkloadInfo, placements: Mapping[str, int]
    ) -> None:
        self.version += 1
        for ledger, take in zip(self._ledgers, takes, strict=True):
            try:
                take(info, placements)
            except Exception:  # one ledger's fault must not stop the others
                LOG.exception(_FAILED, type(ledger).__name__, extra={"object": "/".join(info.key)})

    def _put_placed(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        placed = PlacedWorkload.of(info, placements)
        if self._all.get(placed.key) == placed:
            return
        self._forget(placed.key)
        self._all[placed.key] = placed
        self._by_namespace.setdefault(info.namespace, {})[placed.key] = placed
        for pair in placed.labels.items():
            self._by_pair.setdefault((info.namespace, pair), {})[placed.key] = placed
        self._count(placed, 1)
        for selector in placed.asks:
            table, new = self._asked.use(info.namespace, selector)
            if new:
                for other in self._selected(info.namespace, selector):
                    table.add(other.clusters, 1)
        for term in placed.repels:
            self._repelling.use(info.namespace, term)[0].add(placed.clusters, 1)

    def drop(self, key: Key) -> None:
        self.version += 1
        for ledger in self._ledgers:
            try:
                ledger.drop(key)
            except Exception:
                LOG.exception(_FAILED, type(ledger).__name__, extra={"object": "/".join(key)})
        self._forget(key)

    def ledger(self, kind: type[L]) -> L:
        """Return the registered ledger of that type; an empty one if there is none."""
        for ledger in self._ledgers:
            if isinstance(ledger, kind):
                return ledger
        return kind()

    def _forget(self, key: Key) -> None:
        placed = self._all.pop(key, None)
        if placed is None:
            return
        namespace = key[0]
        self._count(placed, -1)
        for selector in placed.asks:
            self._asked.leave(namespace, selector)
        for term in placed.repels:
            table = self._repelling.get(namespace, term)
            if table is not None:
                table.add(placed.clusters, -1)
            self._repelling.leave(namespace, term)
        for pair in placed.labels.items():
            _remove(self._by_pair, (namespace, pair), key)
        _remove(self._by_namespace, namespace, key)

    def clusters_of(
        self, namespace: str, selector: LabelSelector, *, but: Collection[Key]
    ) -> set[str]:
        """Return the clusters with replicas of the selected Workloads, except those in `but`."""
        table = self._asked.get(namespace, selector)
        if table is None:
            chosen = (p for p in self._selected(namespace, selector) if p.key not in but)
            return {cluster for placed in chosen for cluster in placed.clusters}
        apart = [self._all[key] for key in but if key in self._all and key[0] == namespace]
        return table.without(placed for placed in apart if selector.matches(placed.labels))

    def repelling(
        self, info: WorkloadInfo, *, but: Collection[Key]
    ) -> Iterator[tuple[str, set[str]]]:
        """Yield topology keys of terms that repel this Workload, with the clusters they hold."""
        apart: list[PlacedWorkload] | None = None
        for table in self._repelling.selecting(info.namespace, info.labels):
            if apart is None:  # looked up late: mostly no Workload repels
                apart = [self._all[k] for k in but if k in self._all and k[0] == info.namespace]
            own = [p for p in apart for t in p.repels if _same(t, table)]
            held = table.without(own)
            if held:
                yield table.topology_key, held

    def overlay(self, placed: PlacedUnits) -> PlacementOverlay:
        """Return a copy-on-write index with these Workloads placed so."""
        return PlacementOverlay(self, placed)

    def _count(self, placed: PlacedWorkload, sign: int) -> None:
        if placed.clusters:
            for table in self._asked.selecting(placed.key[0], placed.labels):
                table.add(placed.clusters, sign)

    def _selected(self, namespace: str, selector: LabelSelector) -> Iterator[PlacedWorkload]:
        anchor = _anchor(selector)
        found = (
            self._by_namespace.get(namespace)
            if anchor is None
            else self._by_pair.get((namespace, anchor))
        )
        return (p for p in (found or {}).values() if selector.matches(p.labels))


class PlacementOverlay(PlacementIndex):
    """A few Workloads placed otherwise, over an index that does not change."""

    def __init__(self, base: PlacementIndex, placed: PlacedUnits) -> None:
        super().__init__()
        self._base = base
        self._hidden: set[Key] = set()
        self._placed: dict[Key, tuple[WorkloadInfo, Mapping[str, int]]] = {}
        self._over: dict[type[Any], Any] = {}
        self._growing: dict[type[Any], Any] = {}
        self._standing: set[type[Any]] = set()
        """The types of ledgers whose overlays have no `place`; looked up once."""
        for info, placements in placed.values():
            self.place(info, placements)

    def place(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        self._hidden.add(info.key)
        self._placed[info.key] = (info, placements)
        self._over = {**self._growing}
        for over in self._growing.values():
            over.place(info, placements)
        self.put(info, placements)

    def clusters_of(
        self, namespace: str, selector: LabelSelector, *, but: Collection[Key]
    ) -> set[str]:
        own = super().clusters_of(namespace, selector, but=but)
        return own | self._base.clusters_of(namespace, selector, but=self._hidden.union(but))

    def ledger(self, kind: type[L]) -> L:
        """Return the base's ledger with the overlay's Workloads placed over it."""
        if kind not in self._over:
            over = self._over[kind] = self._base.ledger(kind).overlay(self._placed)
            if kind not in self._standing:
                if hasattr(over, "place"):
                    self._growing[kind] = over
                else:
                    self._standing.add(kind)
        found: L = self._over[kind]
        return found

    def repelling(
        self, info: WorkloadInfo, *, but: Collection[Key]
    ) -> Iterator[tuple[str, set[str]]]:
        yield from super().repelling(info, but=but)
        yield from self._base.repelling(info, but=self._hidden.union(but))


def _of_term(term: WorkloadAffinityTerm) -> _Table:
    return _Table(term.label_selector, term.topology_key)


def _same(term: WorkloadAffinityTerm, table: _Table) -> bool:
    return term.topology_key == table.topology_key and term.label_selector == table.selector


def _name(about: LabelSelector | WorkloadAffinityTerm) -> bytes:
    return msgspec.json.encode(about, order="deterministic")


def _anchor(selector: LabelSelector) -> Pair | None:
    return min(selector.match_labels.items(), default=None)


def _remove(table: dict[K, dict[M, V]], entry: K, member: M) -> None:
    members = table[entry]
    del members[member]
    if not members:
        del table[entry]


def beside(
    info: WorkloadInfo, term: WorkloadAffinityTerm, snapshot: Snapshot, bound: PlacementIndex
) -> Mask:
    mask = holding(info, term, snapshot, bound)
    if term.label_selector.matches(info.labels):
        own = [cluster for cluster, replicas in info.present.items() if replicas]
        mask |= snapshot.domain(term.topology_key, own)
        if not mask.any():
            # The first Workload of a set that requires its own kind may go anywhere.
            return ~snapshot.domains_by(term.topology_key).missing()
    return mask


def holding(
    info: WorkloadInfo, term: WorkloadAffinityTerm, snapshot: Snapshot, bound: PlacementIndex
) -> Mask:
    clusters = bound.clusters_of(info.namespace, term.label_selector, but=(info.key,))
    return snapshot.domain(term.topology_key, clusters)
