"""The placements index: where other Workloads run, for affinity between Workloads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from controller.cache.ledger import Ledger
from controller.cache.ledger import PlacementsByWorkload as PlacedUnits
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot
from machinery import logs
from machinery.tasks import Gradually
from machinery.types.api import WorkloadAffinityTerm
from machinery.types.metadata import Key
from machinery.types.selectors import LabelSelector

LOG = logs.get(__name__)
_FAILED = "the ledger %s failed: what it counts of this Workload is not known"
Pair: TypeAlias = tuple[str, str]
L = TypeVar("L", bound=Ledger)
_Take: TypeAlias = Callable[[WorkloadInfo, Mapping[str, int]], None]


@dataclass(frozen=True, slots=True)
class PlacedWorkload:
    """A Workload with its shares, which never change.

    `assumed` means that a decision with these shares is being written.
    """

    info: WorkloadInfo
    placements: Mapping[str, int]
    assumed: bool = False

    @property
    def counting(self) -> Mapping[str, int]:
        """The shares that ledgers count: none of a Workload that is being deleted."""
        return {} if self.info.deleting and not self.assumed else self.placements

    @property
    def clusters(self) -> frozenset[str]:
        return frozenset(name for name, replicas in self.placements.items() if replicas > 0)

    @property
    def asks(self) -> list[LabelSelector]:
        sides = (self.info.affinity, self.info.anti_affinity)
        terms = [term for side in sides for term in side.required]
        terms += [each.workload_affinity_term for side in sides for each in side.preferred]
        return [term.label_selector for term in terms]

    @property
    def repels(self) -> list[WorkloadAffinityTerm]:
        return self.info.anti_affinity.required

    def alike(self, other: PlacedWorkload) -> bool:
        """Whether affinity finds no difference."""
        return (
            self.info.labels == other.info.labels
            and self.clusters == other.clusters
            and self.info.affinity == other.info.affinity
            and self.info.anti_affinity == other.info.anti_affinity
        )


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
        self._tables: dict[bytes, _Table] = {}
        self._by_pair: dict[Pair | None, dict[bytes, _Table]] = {}

    def get(self, about: LabelSelector | WorkloadAffinityTerm) -> _Table | None:
        return self._tables.get(_name(about))

    def use(self, about: LabelSelector | WorkloadAffinityTerm) -> tuple[_Table, bool]:
        name = _name(about)
        table = self._tables.get(name)
        new = table is None
        if table is None:
            table = _Table(about) if isinstance(about, LabelSelector) else _of_term(about)
            self._tables[name] = table
            self._by_pair.setdefault(_anchor(table.selector), {})[name] = table
        table.users += 1
        return table, new

    def leave(self, about: LabelSelector | WorkloadAffinityTerm) -> None:
        name = _name(about)
        table = self._tables[name]
        table.users -= 1
        if not table.users:
            del self._tables[name]
            anchor = _anchor(table.selector)
            del self._by_pair[anchor][name]
            if not self._by_pair[anchor]:
                del self._by_pair[anchor]

    def selecting(self, labels: Mapping[str, str]) -> Iterator[_Table]:
        for pair in (None, *labels.items()):
            for table in self._by_pair.get(pair, {}).values():
                if table.selector.matches(labels):
                    yield table


class _Namespace:
    def __init__(self) -> None:
        self.placed: dict[Key, PlacedWorkload] = {}
        self._by_pair: dict[Pair, set[Key]] = {}
        self._asked = _Tables()
        self._repelling = _Tables()

    def put(self, placed: PlacedWorkload) -> None:
        key = placed.info.key
        before = self.placed.get(key)
        if before is not None and before.alike(placed):
            self.placed[key] = placed
            return
        self.drop(key)
        self.placed[key] = placed
        for pair in placed.info.labels.items():
            self._by_pair.setdefault(pair, set()).add(key)
        self._count(placed, 1)
        for selector in placed.asks:
            table, new = self._asked.use(selector)
            if new:
                for other in self._selected(selector):
                    table.add(other.clusters, 1)
        for term in placed.repels:
            self._repelling.use(term)[0].add(placed.clusters, 1)

    def drop(self, key: Key) -> None:
        placed = self.placed.pop(key, None)
        if placed is None:
            return
        self._count(placed, -1)
        for selector in placed.asks:
            self._asked.leave(selector)
        for term in placed.repels:
            table = self._repelling.get(term)
            if table is not None:
                table.add(placed.clusters, -1)
            self._repelling.leave(term)
        for pair in placed.info.labels.items():
            self._by_pair[pair].discard(key)
            if not self._by_pair[pair]:
                del self._by_pair[pair]

    def clusters_of(self, selector: LabelSelector, *, but: Collection[Key]) -> set[str]:
        table = self._asked.get(selector)
        if table is None:
            chosen = (p for p in self._selected(selector) if p.info.key not in but)
            return {cluster for placed in chosen for cluster in placed.clusters}
        apart = [self.placed[key] for key in but if key in self.placed]
        return table.without(each for each in apart if selector.matches(each.info.labels))

    def repelling(
        self, labels: Mapping[str, str], *, but: Collection[Key]
    ) -> Iterator[tuple[str, set[str]]]:
        apart: list[PlacedWorkload] | None = None
        for table in self._repelling.selecting(labels):
            if apart is None:  # looked up late: mostly no Workload repels
                apart = [self.placed[key] for key in but if key in self.placed]
            own = [each for each in apart for term in each.repels if _same(term, table)]
            held = table.without(own)
            if held:
                yield table.topology_key, held

    def _count(self, placed: PlacedWorkload, sign: int) -> None:
        if clusters := placed.clusters:
            for table in self._asked.selecting(placed.info.labels):
                table.add(clusters, sign)

    def _selected(self, selector: LabelSelector) -> Iterator[PlacedWorkload]:
        anchor = _anchor(selector)
        keys = self.placed if anchor is None else self._by_pair.get(anchor, ())
        return (p for key in keys if selector.matches((p := self.placed[key]).info.labels))


class _Fed(NamedTuple):
    """A ledger with its methods, looked up once."""

    ledger: Ledger
    put: _Take
    assume: _Take

    @staticmethod
    def of(ledger: Ledger) -> _Fed:
        return _Fed(ledger, ledger.put, getattr(ledger, "assume", ledger.put))

    @property
    def name(self) -> str:
        return type(self.ledger).__name__


class PlacementIndex:
    """Every Workload, placed or not; feeds the ledgers of features.

    While `run` runs, a ledger that begins to count a namespace gets its Workloads in slices.
    """

    def __init__(self, ledgers: Iterable[Ledger] = ()) -> None:
        self._namespaces: dict[str, _Namespace] = {}
        self._ledgers = [_Fed.of(each) for each in ledgers]
        self._reading: list[_Fed] = []
        self._late: Gradually[Key] | None = None
        self.version = 0
        """Grows with each change: a decision in steps detects changes of the index."""
        for each in self._ledgers:
            if (reads := getattr(each.ledger, "reads", None)) is not None:
                self._reading.append(each)
                reads(self._feed_namespace)

    def put(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Store a Workload with its shares; one that is being deleted counts in no ledger."""
        self._put_placed(PlacedWorkload(info, placements))

    def assume(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        self._put_placed(PlacedWorkload(info, placements, assumed=True))

    def _put_placed(self, placed: PlacedWorkload) -> None:
        # Before the ledgers: one that begins to count a namespace meanwhile misses none of it.
        self._namespaces.setdefault(placed.info.namespace, _Namespace()).put(placed)
        self.version += 1
        self._feed(self._ledgers, placed)

    def _feed(self, ledgers: Iterable[_Fed], placed: PlacedWorkload) -> None:
        info, shares = placed.info, placed.counting
        for each in ledgers:
            try:
                (each.assume if placed.assumed else each.put)(info, shares)
            except Exception:  # one ledger's fault must not stop the others
                LOG.exception(_FAILED, each.name, extra={"object": "/".join(info.key)})

    def _feed_namespace(self, namespace: str) -> None:
        there = self._namespaces.get(namespace)
        if there is None:
            return
        if self._late is not None:
            self._late.add(namespace, tuple(there.placed))
        else:
            for placed in there.placed.values():
                self._feed(self._reading, placed)

    def _feed_late(self, key: Key) -> None:
        there = self._namespaces.get(key[0])
        if there is not None and (placed := there.placed.get(key)) is not None:
            self.version += 1
            self._feed(self._reading, placed)

    def counting(self, namespace: str) -> bool:
        """Whether a ledger has not got all Workloads of the namespace yet."""
        return self._late is not None and namespace in self._late.waiting

    async def run(self) -> None:
        self._late = Gradually(self._feed_late)
        await self._late.run()

    def drop(self, key: Key) -> None:
        self.version += 1
        there = self._namespaces.get(key[0])
        if there is not None:
            there.drop(key)
            if not there.placed:
                del self._namespaces[key[0]]
        for each in self._ledgers:
            try:
                each.ledger.drop(key)
            except Exception:
                LOG.exception(_FAILED, each.name, extra={"object": "/".join(key)})

    def ledger(self, kind: type[L]) -> L:
        """Return the registered ledger of that type; an empty one if there is none."""
        for each in self._ledgers:
            if isinstance(each.ledger, kind):
                return each.ledger
        return kind()

    def clusters_of(
        self, namespace: str, selector: LabelSelector, *, but: Collection[Key]
    ) -> set[str]:
        """Return the clusters with replicas of the selected Workloads, except those in `but`."""
        there = self._namespaces.get(namespace)
        return there.clusters_of(selector, but=but) if there is not None else set()

    def repelling(
        self, info: WorkloadInfo, *, but: Collection[Key]
    ) -> Iterator[tuple[str, set[str]]]:
        """Yield topology keys of terms that repel this Workload, with the clusters they hold."""
        there = self._namespaces.get(info.namespace)
        return there.repelling(info.labels, but=but) if there is not None else iter(())

    def overlay(self, placed: PlacedUnits) -> PlacementOverlay:
        """Return a copy-on-write index with these Workloads placed so."""
        return PlacementOverlay(self, placed)


class PlacementOverlay(PlacementIndex):
    """A few Workloads placed otherwise, over an index that does not change."""

    def __init__(self, base: PlacementIndex, placed: PlacedUnits) -> None:
        super().__init__()
        self._base = base
        self._placed: dict[Key, tuple[WorkloadInfo, Mapping[str, int]]] = {}
        self._over: dict[type[Any], Any] = {}
        self._growing: dict[type[Any], Any] = {}
        self._standing: set[type[Any]] = set()
        """The types of ledgers whose overlays have no `place`; looked up once."""
        for info, placements in placed.values():
            self.place(info, placements)

    def place(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        self._placed[info.key] = (info, placements)
        self._over = {**self._growing}
        for over in self._growing.values():
            over.place(info, placements)
        self.put(info, placements)

    def clusters_of(
        self, namespace: str, selector: LabelSelector, *, but: Collection[Key]
    ) -> set[str]:
        own = super().clusters_of(namespace, selector, but=but)
        return own | self._base.clusters_of(namespace, selector, but={*self._placed, *but})

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
        yield from self._base.repelling(info, but={*self._placed, *but})


def _of_term(term: WorkloadAffinityTerm) -> _Table:
    return _Table(term.label_selector, term.topology_key)


def _same(term: WorkloadAffinityTerm, table: _Table) -> bool:
    return term.topology_key == table.topology_key and term.label_selector == table.selector


def _name(about: LabelSelector | WorkloadAffinityTerm) -> bytes:
    return msgspec.json.encode(about, order="deterministic")


def _anchor(selector: LabelSelector) -> Pair | None:
    return min(selector.match_labels.items(), default=None)


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
