"""What a decision on several Workloads is given, and what comes of it.

A set is decided in steps while the world goes on. What was found is therefore held against the
world of the last moment, among the clusters that were chosen: `confirmed`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Protocol

from controller.cache.placements import PlacementIndex
from controller.cache.seekers import PendingAffinity
from controller.framework.calling import answers
from controller.framework.calling.deadline import limited
from controller.framework.calling.guard import PluginError, ask
from controller.framework.gathering import Gathering, GroupDecision, GroupScheduling, Trial
from controller.framework.status import Status
from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo
from controller.scheduling.decision import Decision
from controller.scheduling.steps import Steps, at_once
from controller.snapshot.builder import narrowed
from controller.snapshot.snapshot import Snapshot
from machinery import logs
from machinery.types.metadata import Key

LOG = logs.get(__name__)
FEW = 16
"""Members of a set that is confirmed in one step."""
_CALM_TRIES = 2
"""How often a larger one is confirmed in steps before it is in one."""


class View(Protocol):
    """What decisions read of the world."""

    @property
    def index(self) -> PlacementIndex:
        """Where everybody runs."""
        ...

    @property
    def seekers(self) -> PendingAffinity:
        """The Workloads that require others and run nowhere yet."""
        ...

    @property
    def settled(self) -> PendingAffinity:
        """The Workloads that require others and run somewhere."""
        ...

    def fleet(self) -> Snapshot:
        """The clusters as they are now, decisions in flight counted."""
        ...

    def unit(self, key: Key) -> WorkloadInfo | None:
        """A Workload as it is known now; None for one that does not exist."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What a plugin has made of the Workloads that it wants decided together."""

    plugin: GroupScheduling
    gathering: Gathering
    verdict: GroupDecision
    tried: Sequence[Trial]
    time: datetime
    seconds: float
    """The plugin may take so long to note it."""

    def note(self) -> None:
        """Tell the plugin that it is decided so. A fault of it is logged, and changes nothing."""
        told = (self.gathering, self.verdict, self.tried, self.time)
        try:
            with limited(self.seconds):
                ask(self.plugin, "Concluded", answers.anything, self.plugin.concluded, *told)
        except PluginError:
            about = {"object": "/".join(self.gathering.key)}
            LOG.exception("not told what was decided", extra=about)


@dataclass(frozen=True, slots=True)
class Batch:
    """The decisions made together, that of the Workload asked about among them.

    `busy` are Workloads that belong to the set and are in work elsewhere, so that they could not be
    decided with it; there are no decisions at all while one of them is being decided. `moved` says
    that the world changed meanwhile, and what lacks units was not asked about the world as it is
    now; without decisions, that it is to be tried again.
    Where a plugin has judged them, `conclusion` is what it is to be told by who leads. `held` are
    decisions that are counted and not written until it allows that, and `waits` what it says of
    them, by its name; who holds nothing tells the `decisions` instead.
    """

    decisions: list[Decision]
    busy: frozenset[Key] = frozenset()
    moved: bool = False
    conclusion: Conclusion | None = None
    held: Sequence[Decision] = ()
    waits: Mapping[str, Status] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def late(self) -> str:
        """What is said when that takes too long, in the plugin's words if it has any."""
        return self.conclusion.verdict.late if self.conclusion is not None else ""

    def of(self, key: Key) -> Decision:
        """The decision of one of them."""
        return next(each for each in self.decisions if each.unit.key == key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """What the caller knows of Workloads that could be decided with the one asked about.

    Args:
        partner: whether one may be: it is ours, and nothing speaks against placing it.
        busy: whether one is in work elsewhere just now; its write may take long.
        deciding: whether it is being decided: in a moment it is known what becomes of it.
        begin: told whose decisions are being made from now on, before the first step of them.
        current: whether a unit is still what its object says.
    """

    partner: Callable[[Key], bool] = lambda _: True
    busy: Callable[[Key], bool] = lambda _: False
    deciding: Callable[[Key], bool] = lambda _: False
    begin: Callable[[Iterable[Key]], None] = lambda _: None
    current: Callable[[WorkloadInfo], bool] = lambda _: True


def confirmed(
    view: View,
    chosen: Collection[str],
    again: Callable[[Snapshot], Steps[bool]],
    *,
    large: bool,
) -> Steps[bool]:
    """Whether the same clusters would be found in the world as it is now.

    Made anew by `again` among the chosen clusters alone. A large set takes steps for that as long
    as these clusters and all placements stay as they are; in a world that does not rest it takes
    one.
    """

    def anew() -> Steps[bool]:
        fleet = narrowed(view.fleet(), chosen)
        return (yield from again(fleet)) if len(fleet) == len(chosen) else False

    for _ in range(_CALM_TRIES if large else 0):
        version, clusters = view.index.version, _clusters(view, chosen)
        same = yield from anew()
        if version == view.index.version and all(
            before is now for before, now in zip(clusters, _clusters(view, chosen), strict=True)
        ):
            return same
    return at_once(anew())


def _clusters(view: View, names: Iterable[str]) -> list[MemberCluster | None]:
    """Those of that name as they are; what is on its way to them is told by the index."""
    fleet = view.fleet()
    rows = map(fleet.row.get, sorted(names))
    return [None if row is None else fleet.clusters[row] for row in rows]
