"""The one entry: what is decided of a Workload, and of those that have to be decided with it.

The live path, plan, explain and the diagnosis all ask here and nowhere else, so that none of them
can say what another one does not. A Workload that admission would have refused, or whose template
cannot be read, gets that as its decision, and is nobody's partner. One that a plugin gathers with
others is decided with these. One that finds no place and requires others is decided together with
those that wait for each other with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from controller.framework.calling.guard import PluginError
from controller.framework.profile import Profile
from controller.framework.runtime import framework as runtime
from controller.framework.status import Status
from controller.model.unit import WorkloadInfo
from controller.scheduling.affinityset import decide_together, found_again
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from controller.scheduling.gathered import decide_group
from controller.scheduling.graph import together
from controller.scheduling.refusal import untouched
from controller.scheduling.sets import FEW, Batch, Others, View, confirmed
from controller.scheduling.steps import Steps
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason

_TRIES = 3
"""How often a set is decided anew because the world has changed meanwhile."""
_NAMED = 3
"""Members of an incomplete set that a message names."""
_MOST_CONFIRMED = 64
"""Clusters that a finished set is held against once more."""


def decide_set(
    view: View,
    unit: WorkloadInfo,
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
        gathered = yield from decide_group(view, unit, profiles, now, others)
    except PluginError as e:
        return Batch([untouched(unit, fleet, now, e.status)])
    if gathered is not None:
        return gathered
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
    unit: WorkloadInfo
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
        """Whether the same clusters would be found in the world as it is now."""
        chosen = {name for decision in found for name in decision.placements}
        if not 0 < len(chosen) <= _MOST_CONFIRMED:
            return False

        def again(fleet: Snapshot) -> Steps[bool]:
            return found_again(fleet, found, self.view.index, self.profile, self.now)

        return (yield from confirmed(self.view, chosen, again, large=len(found) > FEW))
