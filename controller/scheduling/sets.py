"""The input and output of a decision on several Workloads.

`confirmed` checks the result in the newest snapshot, among the chosen clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

import msgspec

from controller.eventhandlers import SchedulerCache
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
_CALM_TRIES = 2
"""Attempts to confirm a set in steps before it is confirmed in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    plugin: GroupScheduling
    gathering: Gathering
    verdict: GroupDecision
    tried: Sequence[Trial]
    time: datetime
    seconds: float
    """The time limit of the plugin's `concluded`."""

    def note(self) -> None:
        """Report the decision to the plugin. A fault is only logged."""
        arguments = (self.gathering, self.verdict, self.tried, self.time)
        try:
            with limited(self.seconds):
                ask(self.plugin, "Concluded", answers.anything, self.plugin.concluded, *arguments)
        except PluginError:
            about = {"object": "/".join(self.gathering.key)}
            LOG.exception("not told what was decided", extra=about)


@dataclass(frozen=True, slots=True)
class Batch:
    """Decisions made together, including that of the Workload asked about."""

    decisions: list[Decision]
    busy: frozenset[Key] = frozenset()
    """Members in flight elsewhere. `decisions` is empty while one is being decided."""
    moved: bool = False
    """The cache changed, and pending members were not decided on its newest state. Without
    decisions: retry."""
    conclusion: Conclusion | None = None
    held: Sequence[Decision] = ()
    """Decisions that count but wait for the plugin. A caller that cannot hold them reports
    `decisions`."""
    waits: Mapping[str, Status] = field(default_factory=lambda: MappingProxyType({}))
    """The plugin's Status on `held`, by its name."""

    @property
    def late(self) -> str:
        """The message if `held` waits too long."""
        return self.conclusion.verdict.late if self.conclusion is not None else ""

    def of(self, key: Key) -> Decision:
        return next(each for each in self.decisions if each.workload.key == key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """The caller's knowledge of other Workloads.

    Args:
        partner: whether it may be decided with this one.
        busy: whether it is in flight elsewhere; its write may take long.
        deciding: whether it is being decided; the result is known soon.
        begin: called with the keys before the first is decided.
        current: whether `info` still matches its object.
    """

    partner: Callable[[Key], bool] = lambda _: True
    busy: Callable[[Key], bool] = lambda _: False
    deciding: Callable[[Key], bool] = lambda _: False
    begin: Callable[[Iterable[Key]], None] = lambda _: None
    current: Callable[[WorkloadInfo], bool] = lambda _: True


def confirmed(
    cache: SchedulerCache,
    chosen: Collection[str],
    again: Callable[[Snapshot], Steps[bool]],
    *,
    large: bool,
) -> Steps[bool]:
    def find_again() -> Steps[bool]:
        snapshot = narrowed(cache.snapshot(), chosen)
        return (yield from again(snapshot)) if len(snapshot) == len(chosen) else False

    for _ in range(_CALM_TRIES if large else 0):
        version, clusters = cache.index.version, _clusters(cache, chosen)
        same = yield from find_again()
        if version == cache.index.version and all(map(_alike, clusters, _clusters(cache, chosen))):
            return same
    return at_once(find_again())


def _clusters(cache: SchedulerCache, names: Iterable[str]) -> list[MemberCluster | None]:
    snapshot = cache.snapshot()
    rows = map(snapshot.row.get, sorted(names))
    # The index's version covers placements on their way to these clusters.
    return [None if row is None else snapshot.clusters[row] for row in rows]


def _alike(before: MemberCluster | None, now: MemberCluster | None) -> bool:
    """Whether decisions read the same of both. Most reports change nothing."""
    if before is now or before is None or now is None:
        return before is now
    meta = msgspec.structs.replace(now.metadata, resource_version=before.metadata.resource_version)
    return before == msgspec.structs.replace(now, metadata=meta)
