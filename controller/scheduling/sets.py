"""Workloads decided together: the input, the output, and the passes over them.

`retried` decides a set until the cache rests, or confirms the result in the newest snapshot, among
the chosen clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Self

import msgspec

from controller.cache.placements import PlacementIndex, PlacementOverlay
from controller.eventhandlers import SchedulerCache
from controller.framework.calling import answers
from controller.framework.calling.guard import PluginError, ask, limited
from controller.framework.gathering import Gathering, GroupDecision, GroupScheduling, Trial
from controller.framework.profile import Profile
from controller.framework.status import Status
from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from controller.scheduling.steps import Steps, at_once
from controller.snapshot.builder import narrowed
from controller.snapshot.snapshot import Snapshot
from machinery import logs
from machinery.types.metadata import Key

LOG = logs.get(__name__)
_TRIES = 3
"""Decisions of a set at most, because the cache may change during each."""
_FEW = 16
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


@dataclass(slots=True)
class SetState:
    """The state that the Workloads of a set are decided on."""

    snapshot: Snapshot
    bound: PlacementIndex
    profiles: Mapping[str, Profile]
    now: datetime
    data: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def decide(self, info: WorkloadInfo) -> Decision:
        profile = self.profiles[info.scheduler_name]
        return decide(self.snapshot, info, self.bound, profile, self.now, self.data)


@dataclass(slots=True)
class SetPass(SetState):
    """Decisions one after the other, each on the room that those taken before leave."""

    bound: PlacementOverlay
    decisions: dict[Key, Decision] = field(default_factory=dict)

    @classmethod
    def over(cls, state: SetState) -> Self:
        """Return a pass that begins on this state."""
        bound = state.bound.overlay({})
        return cls(state.snapshot, bound, state.profiles, state.now, state.data)

    def take(self, found: Decision) -> None:
        info, there = found.workload, found.placements
        self.decisions[info.key] = found
        if dict(there) != dict(info.present):
            more = {name: n - info.present.get(name, 0) for name, n in there.items()}
            self.bound.place(info, there)
            self.snapshot = self.snapshot.assuming(info.load, more, info.charge)


@dataclass(frozen=True, slots=True)
class Tried:
    """A set as decided on one state of the cache.

    Args:
        batch: the answer if the cache rests.
        infos: the members.
        placed: what would be placed.
        again: decides them on another snapshot; None if nothing is placed.
    """

    batch: Batch
    infos: Sequence[WorkloadInfo]
    placed: Sequence[Decision] = ()
    again: Callable[[Snapshot], Steps[Mapping[Key, Decision]]] | None = None


def retried(
    cache: SchedulerCache,
    others: Others,
    attempt: Callable[[Snapshot], Steps[Tried | Batch | None]],
) -> Steps[Batch | None]:
    """Return the decisions of `attempt`; without any if the cache changes too often.

    An answer of `attempt` that decides nothing is returned as it is.
    """
    for _ in range(_TRIES):
        snapshot, version = cache.snapshot(), cache.index.version
        tried = yield from attempt(snapshot)
        if not isinstance(tried, Tried):
            return tried
        if not all(map(others.current, tried.infos)):
            break  # the edit itself requeues an edited member
        if cache.snapshot() is snapshot and cache.index.version == version:
            return tried.batch
        if tried.again is None:
            return replace(tried.batch, moved=True)
        if (yield from _confirmed(cache, tried, tried.again)) and all(
            map(others.current, tried.infos)
        ):
            # Pending members may have a place by now.
            return replace(tried.batch, moved=not all(each.scheduled for each in tried.placed))
        yield
    return Batch([], moved=True)


def _confirmed(
    cache: SchedulerCache,
    tried: Tried,
    again: Callable[[Snapshot], Steps[Mapping[Key, Decision]]],
) -> Steps[bool]:
    """Whether the same clusters alone give the same places by now."""
    chosen = {name for each in tried.placed for name in each.placements}

    def find_again() -> Steps[bool]:
        snapshot = narrowed(cache.snapshot(), chosen)
        if len(snapshot) != len(chosen):
            return False
        found = yield from again(snapshot)
        pairs = ((each, found.get(each.workload.key)) for each in tried.placed)
        return all(now is not None and now.placements == each.placements for each, now in pairs)

    for _ in range(_CALM_TRIES if len(tried.infos) > _FEW else 0):
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
