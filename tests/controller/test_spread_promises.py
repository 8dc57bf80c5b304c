"""Each decision keeps order, caps and shares while a spread and a fleet change at random."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from controller.features.workloadspread.compiled import compile_spread
from controller.features.workloadspread.objects import WorkloadSpread
from controller.features.workloadspread.subsets import subsets_of, units_of
from controller.model.observedlimits import Shown
from controller.model.unit import WorkloadInfo
from controller.planner.subsets import Subsets
from controller.scheduling.decision import Decision
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason
from tests.examples import examples

from .make import NOW, adds_up
from .spreads import adaptive, decided, roomy, spread, subset, unit, world

KINDS = ("k0", "k1", "k2")
NAMES = st.sampled_from([f"c{n}" for n in range(6)])
CAPS = st.none() | st.integers(0, 8)
STRATEGIES = {
    "Fixed": {},
    "Adaptive": {"scheduleStrategy": adaptive()},
    "Blind": {"scheduleStrategy": adaptive(disableSimulationSchedule=True)},
}


class Spreads(RuleBasedStateMachine):
    """One Workload, three subsets and the rest, six clusters at most."""

    def __init__(self) -> None:
        super().__init__()
        self.clusters: dict[str, dict[str, Any]] = {}
        self.spread: WorkloadSpread | None = None
        self.replicas = 3
        self.present: dict[str, int] = {}
        self.hash = ""
        self.waits: dict[str, int] = {}
        self.last: Decision | None = None

    @rule(
        name=NAMES,
        kind=st.sampled_from((*KINDS, "none")),
        room=st.integers(0, 9),
        cordon=st.booleans(),
    )
    def register_or_change(self, name: str, kind: str, room: int, cordon: bool) -> None:
        self.clusters[name] = {"kind": kind, "room": room, "cordon": cordon}

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.clusters.pop(name, None)

    @rule(
        caps=st.lists(CAPS, min_size=3, max_size=3),
        percents=st.booleans(),
        refuge=st.sampled_from(["", "k2"]),
        strategy=st.sampled_from(sorted(STRATEGIES)),
        marked=st.sets(st.sampled_from(["s0", "s1"])),
    )
    def edit_the_spread(
        self, caps: list[int | None], percents: bool, refuge: str, strategy: str, marked: set[str]
    ) -> None:
        told = [None if cap is None else f"{4 * cap}%" if percents else cap for cap in caps]
        listed = [subset(f"s{n}", cap, kind=KINDS[n]) for n, cap in enumerate(told)]
        rules = (*listed, subset("rest", kind=refuge))
        self.spread = spread(*rules, marked=sorted(marked), **STRATEGIES[strategy])
        assert not compile_spread(self.spread).fault

    @rule()
    def delete_the_spread(self) -> None:
        self.spread = None

    @rule(replicas=st.integers(0, 20))
    def scale(self, replicas: int) -> None:
        self.replicas = replicas

    @rule(name=NAMES, units=st.integers(1, 4))
    def a_member_finds_no_node(self, name: str, units: int) -> None:
        if self.present.get(name):
            self.waits[name] = min(units, self.present[name])

    @precondition(lambda self: self.spread is not None)
    @rule()
    def decide(self) -> None:
        assert self.spread is not None
        old, asked = dict(self.present), self._unit()
        known, members = world(self.spread), self._members()
        found = decided(asked, known, *members)
        assert found.reason is not ScheduledReason.PLUGIN_ERROR, found.message
        self.last = found
        self.present, self.hash = dict(found.placements), asked.hash
        if self.present != old:
            self.waits = {}
        self._keeps_promises(old, asked, found)
        again = decided(self._unit(), known, *members)
        if found.scheduled:
            assert dict(again.placements) == self.present, "what stands is decided again"
        if dict(again.placements) == self.present:
            assert again.fields == found.fields, "and told again"

    @invariant()
    def every_unit_is_counted_once(self) -> None:
        if self.last is not None:
            adds_up(self.last)

    def _keeps_promises(self, old: dict[str, int], asked: WorkloadInfo, found: Decision) -> None:
        assert self.spread is not None
        fleet, rules = found.fleet, compile_spread(self.spread)
        subsets = subsets_of(rules, fleet, self.replicas)
        before, after = units_of(old, fleet), units_of(found.placements, fleet)
        loose = self._loose(subsets, fleet, before, asked)
        if int(before.sum()) - int(loose.sum()) >= self.replicas:
            self._lowest_cost_first(subsets, before, after, loose)
            return
        assert (after >= before - loose).all(), "nothing that runs moves"
        counted, excess, outside = subsets.classified(after)
        held = subsets.classified(before)
        assert int(excess.sum()) <= int(held[1].sum()), "no new unit is above a cap"
        assert int(outside.sum()) <= int(held[2].sum()), "nor in no subset"
        grown = after > before
        assert not (grown & ~self._able(fleet)).any(), "nor on a cluster that takes none"
        closed = [] if subsets.overlaps else np.flatnonzero(subsets.closed).tolist()
        for at in closed:  # on a cluster of a later subset as well there may be new ones
            assert int(counted[at].sum()) <= int(held[0][at].sum()), "nor in a marked subset"
        self._in_order(subsets, fleet, found, before, after)

    def _in_order(
        self, subsets: Subsets, fleet: Snapshot, found: Decision, before: Any, after: Any
    ) -> None:
        """Where a later subset has got units, or units wait, an earlier one could take no more."""
        if subsets.overlaps or not (found.pending or (after > before).any()):
            return
        gained = [int((after - before)[inside].sum()) for inside in subsets.inside]
        last = max((at for at, more in enumerate(gained) if more > 0), default=0)
        last = len(gained) if found.pending else last
        free = np.array([self.clusters[name]["room"] for name in fleet.names], dtype=np.int64)
        spare = self._able(fleet) & (free > np.maximum(after - before, 0))
        spare &= ~np.array([name in self.waits for name in fleet.names], dtype=np.bool_)
        for at in range(last):
            inside = subsets.inside[at]
            room = inside & (self._able(fleet) if subsets.overflow[at] else spare)
            full = int(after[inside].sum()) >= int(subsets.cap[at])
            assert full or subsets.closed[at] or not room.any(), f"subset {at} was passed over"

    def _lowest_cost_first(self, subsets: Subsets, before: Any, after: Any, loose: Any) -> None:
        """Of units that nobody can tell apart by their cost, the sums; the others as they come."""
        assert (after <= before).all(), "none comes where some leave"
        assert int(after.sum()) == self.replicas
        if subsets.overlaps or loose.any():
            return
        classes = np.vstack(subsets.classified(before))  # from the highest cost to the lowest
        size, left = len(subsets.names), self.replicas
        want = np.zeros(size + 1, dtype=np.int64)
        homes = [*range(size), *range(size), size]
        for home, units in zip(homes, classes.sum(axis=1).tolist(), strict=True):
            kept = min(units, left)
            want[home] += kept
            left -= kept
        held = [int(after[subsets.home == home].sum()) for home in range(size + 1)]
        assert held == want.tolist(), "the lowest cost leaves first"

    def _loose(self, subsets: Subsets, fleet: Snapshot, before: Any, asked: WorkloadInfo) -> Any:
        """Units without a node in marked subsets."""
        closed = np.append(subsets.closed, False)[subsets.home]
        waits = [
            asked.shown[n].asked - asked.shown[n].runs if n in asked.shown else 0
            for n in fleet.names
        ]
        return np.where(closed, np.minimum(waits, before), 0)

    def _able(self, fleet: Snapshot) -> Any:
        return np.array([not self.clusters[n]["cordon"] for n in fleet.names], dtype=np.bool_)

    def _members(self) -> list[Any]:
        return [
            roomy(name, str(each["room"]), kind=each["kind"], unschedulable=each["cordon"])
            for name, each in self.clusters.items()
        ]

    def _unit(self) -> WorkloadInfo:
        shown = {
            name: Shown(self.present[name], self.present[name] - units, NOW)
            for name, units in self.waits.items()
            if self.present.get(name)
        }
        return replace(unit(replicas=self.replicas, present=self.present), shown=shown)


Spreads.TestCase.settings = examples(120, stateful_step_count=40, derandomize=True)


@pytest.mark.proves("W4", "W6", "W8", "W10", "W14", "W15", "W28", "W32")
class TestSpreads(Spreads.TestCase):  # type: ignore[name-defined,misc] # made by hypothesis
    """Run by pytest."""
