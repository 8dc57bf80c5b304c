"""The one entry: what is decided of a Workload, and of those that have to be decided with it.

The live path, plan, explain and the diagnosis all ask here and nowhere else, so that none of them
can say what another one does not. A Workload that admission would have refused, or whose template
cannot be read, gets that as its decision, and is nobody's partner. One that finds no place and
requires others is decided together with those that wait for each other with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from controller.cache.builder import narrowed
from controller.cache.placements import Index
from controller.cache.seekers import Seekers
from controller.cache.snapshot import Fleet
from controller.framework import runtime
from controller.framework.calling.guard import PluginError
from controller.framework.profile import Profile
from controller.framework.status import Status
from controller.model.objects import MemberCluster
from controller.model.unit import Unit
from controller.scheduling.affinityset import decide_together, found_again
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from controller.scheduling.graph import together
from controller.scheduling.refusal import untouched
from controller.scheduling.steps import Steps, at_once
from crds.workload import ScheduledReason
from machinery.types.metadata import Key

_TRIES = 3
"""How often a set is decided anew because the world has changed meanwhile."""
_NAMED = 3
"""Members of an incomplete set that a message names."""
_MOST_CONFIRMED = 64
"""Clusters that a finished set is held against once more."""
_FEW = 16
"""Members of a set that is confirmed in one step."""
_CALM_TRIES = 2
"""How often a larger one is confirmed in steps before it is in one."""


class View(Protocol):
    """What decisions read of the world."""

    @property
    def index(self) -> Index:
        """Where everybody runs."""
        ...

    @property
    def seekers(self) -> Seekers:
        """The Workloads that require others and run nowhere yet."""
        ...

    @property
    def settled(self) -> Seekers:
        """The Workloads that require others and run somewhere."""
        ...

    def fleet(self) -> Fleet:
        """The clusters as they are now, decisions in flight counted."""
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """The decisions made together, that of the Workload asked about among them.

    `busy` are Workloads that belong to the set and are in work elsewhere, so that they could not be
    decided with it; there are no decisions at all while one of them is being decided. `moved` says
    that the world changed while a refusal was being found.
    """

    decisions: list[Decision]
    busy: frozenset[Key] = frozenset()
    moved: bool = False

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
    current: Callable[[Unit], bool] = lambda _: True


def decide_set(
    view: View,
    unit: Unit,
    profiles: Mapping[str, Profile],
    now: datetime,
    *,
    fault: str = "",
    others: Others | None = None,
) -> Steps[Batch]:
    """What becomes of a Workload now, alone or as one of a set. Changes nothing.

    One that is decided alone takes one step. A set takes many, and what it comes to is held against
    the world of the last moment: with the last step the decisions are true.

    Args:
        view: the world.
        unit: the Workload with its present shares.
        profiles: the plugins, by scheduler name.
        now: the time that the records shall carry.
        fault: why nothing may be placed of it, in the words of admission; empty where it may.
        others: what is known of Workloads that wait with it.
    """
    others = others or Others()
    fleet, profile = view.fleet(), profiles[unit.scheduler_name]
    if fault:
        status = Status(reasons=(fault,), reason=ScheduledReason.INVALID_WORKLOAD)
        return Batch([untouched(unit, fleet, now, status)])
    try:
        unit = runtime.settled(profile, unit, now, view.index)
    except PluginError as e:
        return Batch([untouched(unit, fleet, now, e.status)])
    alone = decide(fleet, unit, view.index, profile, now)
    if alone.scheduled or not unit.affinity.required:
        return Batch([alone])
    asked = _Asked(view, unit, profile, now, others)
    batch = yield from asked.decide(alone)
    return (yield from _incomplete(batch, view))


def _incomplete(batch: Batch, view: View) -> Steps[Batch]:
    """The batch, and who of its set runs without it: a controller died between their writes."""
    if not batch.decisions or batch.decisions[0].scheduled or batch.decisions[0].unit.present:
        return batch
    unit = batch.decisions[0].unit
    members = yield from together(unit, view.seekers, view.settled)  # of each of the batch alike
    running = tuple(each.key for each in members if each.present)
    if not running:
        return batch
    named = ", ".join("/".join(key) for key in running[:_NAMED])
    text = f"its set is incomplete: {named} runs, and requires it"
    told = [replace(d, message=f"{d.message}; {text}", incomplete=running) for d in batch.decisions]
    return replace(batch, decisions=told)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A Workload that finds no place alone and waits for others."""

    view: View
    unit: Unit
    profile: Profile
    now: datetime
    others: Others

    def decide(self, alone: Decision) -> Steps[Batch]:
        """With those that wait for each other with it, where there are any."""
        others, seekers = self.others, self.view.seekers
        group = yield from together(self.unit, seekers, partner=others.partner)
        if others.busy(self.unit.key):  # taken into another one's set while its own was looked for
            return Batch([], frozenset({self.unit.key}))
        busy = frozenset(u.key for u in group if u.key != self.unit.key and others.busy(u.key))
        if any(map(others.deciding, busy)):
            return Batch([], busy)
        if busy:
            group = yield from together(
                self.unit, seekers, partner=lambda k: others.partner(k) and not others.busy(k)
            )
        if len(group) < 2:
            return Batch([self._again(alone)], busy)
        self.others.begin([each.key for each in group])
        try:
            group = [runtime.settled(self.profile, u, self.now, self.view.index) for u in group]
        except PluginError:
            return Batch([self._again(alone)], busy)
        for _ in range(_TRIES):
            fleet, version = self.view.fleet(), self.view.index.version
            found = yield from decide_together(
                fleet, group, self.view.index, self.profile, self.now
            )
            still = self.view.fleet() is fleet and self.view.index.version == version
            current = all(map(self.others.current, group))
            if not current:
                break  # and never again: it comes anew with its new words
            if still or not found[0].scheduled:
                return Batch(found, busy, moved=not still)
            if (yield from self._confirmed(found)) and all(map(self.others.current, group)):
                return Batch(found, busy)
            yield
        return Batch([self._again(alone)], busy, moved=True)

    def _again(self, alone: Decision) -> Decision:
        """The decision on it alone, made anew where the world has changed since."""
        fleet = self.view.fleet()
        if fleet is alone.fleet:
            return alone
        return decide(fleet, self.unit, self.view.index, self.profile, self.now)

    def _confirmed(self, found: Sequence[Decision]) -> Steps[bool]:
        """Whether the same clusters would be found in the world as it is now.

        Made anew among the chosen clusters alone. A large set takes steps for that as long as these
        clusters and all placements stay as they are; in a world that does not rest it takes one.
        """
        chosen = {name for decision in found for name in decision.placements}
        if not 0 < len(chosen) <= _MOST_CONFIRMED:
            return False
        for _ in range(_CALM_TRIES if len(found) > _FEW else 0):
            version, clusters = self.view.index.version, self._clusters(chosen)
            anew = yield from self._found_again(found, chosen)
            if version == self.view.index.version and all(
                before is now for before, now in zip(clusters, self._clusters(chosen), strict=True)
            ):
                return anew
        return at_once(self._found_again(found, chosen))

    def _found_again(self, found: Sequence[Decision], chosen: Collection[str]) -> Steps[bool]:
        fleet = narrowed(self.view.fleet(), chosen)
        if len(fleet) < len(chosen):
            return False
        return (yield from found_again(fleet, found, self.view.index, self.profile, self.now))

    def _clusters(self, names: Iterable[str]) -> list[MemberCluster | None]:
        """Those of that name as they are; what is on its way to them is told by the index."""
        fleet = self.view.fleet()
        rows = map(fleet.row.get, sorted(names))
        return [None if row is None else fleet.clusters[row] for row in rows]
