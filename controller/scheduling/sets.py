"""The input and output of a decision on several Workloads.

A set is decided in steps while the cache changes. So the result is checked against the newest
snapshot at the end, among the chosen clusters: `confirmed`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Protocol

import msgspec

from controller.cache.assumed import PendingAffinity
from controller.cache.placements import PlacementIndex
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
"""A set of up to this many members is confirmed in one step."""
_CALM_TRIES = 2
"""How often a larger set is confirmed in steps before it is in one."""


class View(Protocol):
    """The cache as decisions read it."""

    @property
    def index(self) -> PlacementIndex:
        """Where every Workload runs."""
        ...

    @property
    def pending_affinity(self) -> PendingAffinity:
        """The Workloads that require others and run nowhere yet."""
        ...

    @property
    def placed_affinity(self) -> PendingAffinity:
        """The Workloads that require others and run somewhere."""
        ...

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the clusters, with assumed placements counted."""
        ...

    def info(self, key: Key) -> WorkloadInfo | None:
        """Return a Workload as it is known now; None if it does not exist."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The verdict of a plugin on the Workloads that it wants decided together."""

    plugin: GroupScheduling
    gathering: Gathering
    verdict: GroupDecision
    tried: Sequence[Trial]
    time: datetime
    seconds: float
    """The time limit of the plugin's `concluded`."""

    def note(self) -> None:
        """Tell the plugin what was decided. A fault of the plugin is logged and changes nothing."""
        arguments = (self.gathering, self.verdict, self.tried, self.time)
        try:
            with limited(self.seconds):
                ask(self.plugin, "Concluded", answers.anything, self.plugin.concluded, *arguments)
        except PluginError:
            about = {"object": "/".join(self.gathering.key)}
            LOG.exception("not told what was decided", extra=about)


@dataclass(frozen=True, slots=True)
class Batch:
    """The decisions made together, that of the Workload asked about among them."""

    decisions: list[Decision]
    busy: frozenset[Key] = frozenset()
    """Members in flight elsewhere, so that they were not decided here. `decisions` is empty while
    one of them is being decided."""
    moved: bool = False
    """The cache changed meanwhile, and members that lack replicas were not decided on its newest
    state. Without decisions: try again."""
    conclusion: Conclusion | None = None
    """Where a plugin has judged them, what the leader tells that plugin."""
    held: Sequence[Decision] = ()
    """Decisions that are counted but not written until the plugin allows it. A caller that cannot
    hold decisions tells `decisions` instead."""
    waits: Mapping[str, Status] = field(default_factory=lambda: MappingProxyType({}))
    """The plugin's Status on `held`, by the plugin's name."""

    @property
    def late(self) -> str:
        """The message when `held` waits for too long, if the plugin has one."""
        return self.conclusion.verdict.late if self.conclusion is not None else ""

    def of(self, key: Key) -> Decision:
        return next(each for each in self.decisions if each.workload.key == key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """The caller's knowledge of Workloads that could be decided with the one asked about.

    Args:
        partner: whether a Workload may be: it is ours, and nothing speaks against placing it.
        busy: whether a Workload is in flight elsewhere; its write may take long.
        deciding: whether a Workload is being decided: the result is known in a moment.
        begin: told whose decisions are being made from now on, before the first step of them.
        current: whether `info` is still what its object says.
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
    """Whether `again`, in the newest snapshot, finds the same among the chosen clusters.

    A large set is confirmed in steps as long as these clusters and all placements stay as they are;
    if they keep changing, in one step.
    """

    def find_again() -> Steps[bool]:
        snapshot = narrowed(view.snapshot(), chosen)
        return (yield from again(snapshot)) if len(snapshot) == len(chosen) else False

    for _ in range(_CALM_TRIES if large else 0):
        version, clusters = view.index.version, _clusters(view, chosen)
        same = yield from find_again()
        if version == view.index.version and all(map(_alike, clusters, _clusters(view, chosen))):
            return same
    return at_once(find_again())


def _clusters(view: View, names: Iterable[str]) -> list[MemberCluster | None]:
    snapshot = view.snapshot()
    rows = map(snapshot.row.get, sorted(names))
    # Placements on their way to these clusters show in the index's version.
    return [None if row is None else snapshot.clusters[row] for row in rows]


def _alike(before: MemberCluster | None, now: MemberCluster | None) -> bool:
    """Whether decisions read the same of both: most reports of a member say nothing new."""
    if before is now or before is None or now is None:
        return before is now
    meta = msgspec.structs.replace(now.metadata, resource_version=before.metadata.resource_version)
    return before == msgspec.structs.replace(now, metadata=meta)
