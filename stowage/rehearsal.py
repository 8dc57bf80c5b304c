"""The controller's decisions without a controller: the same world, queue order and `decide`.

Whatever the live one does because something changed (a back-end that arrives lets its front-end in,
a smaller Workload leaves room) is done here by going round until nothing moves any more. Nothing is
read or written; what would be written is counted as if it were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from controller.claims import Ledger
from controller.cycle import decide
from controller.decision import Decision
from controller.framework.profile import Profile
from controller.graph import decide_together, together
from controller.model import MemberCluster, Workload, WorkloadPolicy
from controller.unit import Unit
from controller.world import World
from machinery.objects import Key


class Rehearsal:
    """Clusters, Workloads and policies in, decisions out; `now` is the time that they carry."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        *,
        clusters: Collection[MemberCluster],
        workloads: Collection[Workload],
        policies: Collection[WorkloadPolicy],
        now: datetime,
    ) -> None:
        sort = next(iter(profiles.values())).queue_sort
        self._world = World(profiles.keys(), sort=sort, reviewed=lambda _: True)
        self._profiles = profiles
        self._now = now
        self._units: dict[Key, Unit] = {}
        self.decisions: dict[Key, Decision] = {}
        """The last decision of each Workload that changed anything, or the last one at all."""
        for cluster in clusters:
            self._world.cluster_changed(None, cluster)
        for policy in policies:
            self._world.policy_changed(None, policy)
        for workload in workloads:
            self._world.workload_changed(None, workload)
            if self._world.ours(workload) and not workload.fault:
                self._units[workload.metadata.key] = workload.unit
        self._shows = {(w.metadata.key, w.metadata.uid): w.placements for w in workloads}
        for policy in policies:
            self._haunt(policy)
        self._unsettled = {w.metadata.key for w in workloads if self._world.unsettled(w)}

    def _haunt(self, policy: WorkloadPolicy) -> None:
        """Count what has been claimed for Workloads that do not show it yet."""
        ledger = Ledger(holder="")
        ledger.learn(policy, now=0.0)
        ghosts = ledger.ghosts(lambda key, uid: self._shows.get((key, uid)), now=0.0)
        self._world.haunt(policy.metadata.key, ghosts)

    def run(self, asked: Iterable[Key]) -> None:
        """Decide these, and whoever waits for a decision anyway, until nothing moves."""
        turns = self._in_order({*asked, *self._unsettled} & self._units.keys())
        for _ in range(len(self._units) + 1):
            if not self._round(turns):
                return
            turns = self._in_order(self._open())

    def once(self, key: Key) -> Decision | None:
        """What would be decided of one Workload now; None where it is not ours to decide."""
        if key not in self._units:
            return None
        decisions = self._decide(self._units[key])
        return next(each for each in decisions if each.unit.key == key)

    def _in_order(self, keys: Iterable[Key]) -> list[Key]:
        return sorted(keys, key=lambda key: self._world.rank(self._units[key]))

    def _open(self) -> list[Key]:
        """Those whom a change could help: refused, or at home wherever there is room."""
        return [k for k, d in self.decisions.items() if not d.scheduled or d.unit.everywhere]

    def _round(self, turns: Iterable[Key]) -> bool:
        """One turn for each; whether any share changed."""
        moved, placed = False, set[Key]()
        for key in turns:
            if key in placed:
                continue
            for decision in self._decide(self._units[key]):
                moved |= dict(decision.placements) != dict(decision.unit.present)
                placed.add(decision.unit.key)
                self._count(decision)
        return moved

    def _decide(self, unit: Unit) -> list[Decision]:
        """As the reconciler does: alone, or with those that it waits for and that wait for it."""
        fleet, profile = self._world.fleet(), self._profiles[unit.scheduler_name]
        about = (self._world.index, profile, self._now)
        unit = profile.settled(unit, self._now)
        decision = decide(fleet, unit, *about)
        if not decision.scheduled and unit.affinity.required:
            waiting = {k: u for k, u in self._world.waiting(unit).items() if k in self._units}
            group = together(unit.key, {**waiting, unit.key: unit})
            if len(group) > 1:
                return decide_together(fleet, group, *about)
        return [decision]

    def _count(self, decision: Decision) -> None:
        """As if it were written and read back."""
        unit, key = decision.unit, decision.unit.key
        before = self.decisions.get(key)
        same = dict(decision.placements) == dict(unit.present)
        if before is None or not same or not decision.placements:
            self.decisions[key] = decision
        decided = unit.decided
        if decision.scheduled or not (same and decision.placements):
            decided = (unit.constraints, unit.demand, unit.shape)
        after = replace(unit, present=dict(decision.placements), decided=decided)
        self._units[key] = after if same else replace(after, shown={})  # told of other shares
        self._world.assume(self._units[key], decision.placements)
