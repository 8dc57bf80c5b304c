"""Order, caps and sums hold for a Workload under a WorkloadSpread while all changes at random.

Scale, caps, order and strategy are edited, clusters come, fill, are cordoned and go, units find no
node, subsets are marked, and every decision starts from what the status says alone, as after a
restart. What must hold is reckoned here, by pools that do not overlap, with none of the product's
own sorting of units into subsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.features.workloadspread.compiled import Spreads, WorkloadSpread, compile_spread
from controller.framework.runtime import framework as runtime
from controller.model.unit import WorkloadInfo, workload_info
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from tests.controller.make import NOW, adds_up, builder, cluster, workload
from tests.examples import examples

PROFILE = default_profile()
POOL = "pool"
POOLS = ("x", "y", "z")
OUTSIDE = "elsewhere"
NAMES = st.sampled_from([f"c{n}" for n in range(6)])
POD = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
CAPS = st.one_of(st.none(), st.integers(0, 8))


class Spread(RuleBasedStateMachine):
    """One Workload, one spread over three pools of clusters, and clusters of no pool."""

    def __init__(self) -> None:
        super().__init__()
        self.clusters: dict[str, dict[str, Any]] = {}
        self.replicas = 4
        self.present: dict[str, int] = {}
        self.decided = ""
        self.subsets: list[tuple[str, int | None]] | None = None
        self.adaptive = self.simulate = False
        self.marked: set[str] = set()
        self.waiting: dict[str, int] = {}
        self.counted: dict[str, int] = {}

    # --- what happens -----------------------------------------------------------------------------

    @rule(
        name=NAMES,
        pool=st.sampled_from([*POOLS, OUTSIDE]),
        room=st.integers(0, 6),
        cordon=st.booleans(),
    )
    def register_or_change(self, name: str, pool: str, room: int, cordon: bool) -> None:
        self.clusters[name] = {"pool": pool, "room": room, "cordon": cordon}

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.clusters.pop(name, None)

    @rule(replicas=st.integers(0, 14))
    def scale(self, replicas: int) -> None:
        self.replicas = replicas

    @rule(order=st.permutations(POOLS), caps=st.tuples(CAPS, CAPS, CAPS), simulate=st.booleans())
    def spread_fixed(self, order: list[str], caps: tuple[int | None, ...], simulate: bool) -> None:
        self.subsets, self.adaptive = list(zip(order, caps, strict=True)), False
        self.simulate, self.marked = simulate, set()

    @rule(order=st.permutations(POOLS), caps=st.tuples(CAPS, CAPS), simulate=st.booleans())
    def spread_adaptive(
        self, order: list[str], caps: tuple[int | None, ...], simulate: bool
    ) -> None:
        self.subsets, self.adaptive = list(zip(order, (*caps, None), strict=True)), True
        self.simulate, self.marked = simulate, set()

    @rule()
    def delete_the_spread(self) -> None:
        self.subsets = None

    @rule(pool=st.sampled_from(POOLS), share=st.integers(1, 6))
    def units_find_no_node(self, pool: str, share: int) -> None:
        """So many of each cluster of the pool wait, and the leader has marked the subset."""
        for name, units in self.present.items():
            if self.clusters.get(name, {}).get("pool") == pool:
                self.waiting[name] = min(units, share)
        self.marked.add(pool)

    @rule()
    def all_runs_again(self) -> None:
        self.waiting, self.marked = {}, set()

    @rule()
    def decide(self) -> None:
        snapshot, index = self._snapshot(), self._index()
        info = runtime.settled(PROFILE, self._info(), NOW, index)
        decision = decide(snapshot, info, index, PROFILE, NOW)
        before, self.present = self.present, dict(decision.placements)
        if decision.scheduled or self.present != before:
            self.decided = info.hash
        waiting = {c: n for c, n in self.waiting.items() if before.get(c) == self.present.get(c)}
        adds_up(decision)
        if self.subsets is not None and snapshot.names:
            self._keeps_the_caps(before)
            self._keeps_the_order(before)
            self._leaves_in_order(before)
            self._moves_what_waits_alone(before)
            self._leaves_nothing_without_need(decision, before)
        self.waiting = waiting
        if decision.scheduled:
            self._is_decided_again(decision)

    # --- what must hold ---------------------------------------------------------------------------

    def _keeps_the_caps(self, before: Mapping[str, int]) -> None:
        old, new = self._by_pool(before), self._by_pool(self.present)
        assert new.get(OUTSIDE, 0) <= old.get(OUTSIDE, 0), "new units went to no subset"
        for pool, cap in self._subsets:
            if cap is not None:
                assert new.get(pool, 0) <= max(cap, old.get(pool, 0)), f"{pool} passed its cap"
        for pool, _ in self._subsets[:-1]:
            if self.adaptive and pool in self.marked:
                assert new.get(pool, 0) <= old.get(pool, 0), f"{pool} is marked"
        if self.adaptive and self.simulate:
            for name, each in self.clusters.items():
                grown = self.present.get(name, 0) - before.get(name, 0)
                assert grown <= each["room"], f"{name} has no room"

    def _keeps_the_order(self, before: Mapping[str, int]) -> None:
        """A subset that got a unit comes after subsets that could take no more."""
        old, new = self._by_pool(before), self._by_pool(self.present)
        grown = [
            at for at, (pool, _) in enumerate(self._subsets) if new.get(pool, 0) > old.get(pool, 0)
        ]
        for at in range(max(grown, default=0)):
            assert not self._open(at), f"{self._subsets[at][0]} had room: {before} {self.present}"

    def _leaves_in_order(self, before: Mapping[str, int]) -> None:
        """What leaves in all leaves outside first, then the excess, then the last subset."""
        left = {c: n for c, n in before.items() if c in self.clusters}
        if self.waiting or sum(left.values()) <= self.replicas:
            return
        old, new = self._by_pool(left), self._by_pool(self.present)
        shrunk = {pool for pool in old if new.get(pool, 0) < old[pool]}
        if shrunk - {OUTSIDE}:
            assert not new.get(OUTSIDE, 0), "outside goes first"
        within = [
            p for p, cap in self._subsets if p in shrunk and (cap is None or new.get(p, 0) < cap)
        ]
        places = [pool for pool, _ in self._subsets]
        for pool in within:
            for later in places[places.index(pool) + 1 :]:
                assert not new.get(later, 0), f"{pool} gave before {later}: {before} {self.present}"
            for other, cap in self._subsets:
                assert cap is None or new.get(other, 0) <= cap, f"{pool} gave before an excess"

    def _moves_what_waits_alone(self, before: Mapping[str, int]) -> None:
        """Where as many are wanted as were placed, only units that wait in a marked subset go."""
        left = {c: n for c, n in before.items() if c in self.clusters}
        if sum(left.values()) > self.replicas:
            return
        free = {p for p, _ in self._subsets[:-1]} & self.marked if self.adaptive else set()
        for name, units in left.items():
            waits = self.waiting.get(name, 0) if self.clusters[name]["pool"] in free else 0
            assert self.present.get(name, 0) >= units - waits, "a unit that runs was moved"
        placed = sum(self.present.values())
        assert placed >= sum(left.values()), "a unit was removed before it had another place"

    def _leaves_nothing_without_need(self, decision: Decision, before: Mapping[str, int]) -> None:
        if not decision.pending:
            return
        for at in range(len(self._subsets)):
            assert not self._open(at), f"{self._subsets[at][0]} has room: {before} {self.present}"

    def _is_decided_again(self, decision: Decision) -> None:
        index = self._index()
        info = runtime.settled(PROFILE, self._info(), NOW, index)
        again = decide(self._snapshot(), info, index, PROFILE, NOW)
        assert dict(again.placements) == self.present, "what stands is decided again"
        assert again.fields == decision.fields, "and told again"

    # --- what it is seen with ---------------------------------------------------------------------

    @property
    def _subsets(self) -> list[tuple[str, int | None]]:
        return self.subsets or []

    def _open(self, at: int) -> bool:
        """Whether a subset could take one more unit."""
        pool, cap = self._subsets[at]
        last = at == len(self._subsets) - 1
        if self.adaptive and not last and pool in self.marked:
            return False
        if cap is not None and self._by_pool(self.present).get(pool, 0) >= cap:
            return False
        looks = self.adaptive and self.simulate
        return any(
            not each["cordon"]
            and (not looks or (each["room"] > 0 and self._grew(name) < each["room"]))
            for name, each in self.clusters.items()
            if each["pool"] == pool
        )

    def _grew(self, name: str) -> int:
        """Units beyond those that the cluster's room has counted."""
        return self.present.get(name, 0) - self.counted.get(name, 0)

    def _by_pool(self, shares: Mapping[str, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, units in shares.items():
            pool = self.clusters.get(name, {}).get("pool")
            if pool is not None:
                found[pool] = found.get(pool, 0) + units
        return found

    def _snapshot(self) -> Any:
        """Free room beside what is there: the units that were present are counted already."""
        self.counted = dict(self.present)
        return builder(
            cluster(
                name,
                {POOL: each["pool"]},
                groups=[{"count": 1, "free": {"cpu": str(each["room"]), "pods": "99"}}],
                unschedulable=each["cordon"],
            )
            for name, each in self.clusters.items()
        ).snapshot()

    def _info(self) -> WorkloadInfo:
        body = workload(replicas=self.replicas, pod=POD, present=self.present, decided=self.decided)
        clusters = [
            {
                "name": name,
                "replicas": units,
                "scheduled": units - self.waiting.get(name, 0),
                "unschedulable": self.waiting.get(name, 0),
                **(
                    {"unschedulableSince": "2026-01-02T03:00:00Z"} if self.waiting.get(name) else {}
                ),
            }
            for name, units in self.present.items()
        ]
        status = msgspec.to_builtins(body.status) | {"clusters": clusters}
        told = msgspec.convert(status, type(body.status))
        return workload_info(msgspec.structs.replace(body, status=told))

    def _index(self) -> PlacementIndex:
        spreads = Spreads()
        index = PlacementIndex([spreads])
        if self.subsets is not None:
            spreads.put_spread(compile_spread(self._stored()))
        return index

    def _stored(self) -> WorkloadSpread:
        subsets = [
            {
                "name": pool,
                "requiredNodeSelectorTerm": {
                    "matchExpressions": [{"key": POOL, "operator": "In", "values": [pool]}]
                },
                **({} if cap is None else {"maxReplicas": cap}),
            }
            for pool, cap in self._subsets
        ]
        marked = {"type": "Schedulable", "status": "False", "reason": "PodUnschedulable"}
        told = [
            {"name": p, "conditions": [marked] if p in self.marked else []}
            for p, _ in self._subsets
        ]
        adaptive = {"disableSimulationSchedule": not self.simulate}
        strategy = (
            {"type": "Adaptive", "adaptive": adaptive} if self.adaptive else {"type": "Fixed"}
        )
        return msgspec.convert(
            {
                "metadata": {"namespace": "shop", "name": "demo", "uid": "s", "generation": 1},
                "spec": {
                    "targetRef": {
                        "apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": "demo",
                    },
                    "subsets": subsets,
                    "scheduleStrategy": strategy,
                },
                "status": {"subsetStatuses": told},
            },
            WorkloadSpread,
        )  # fmt: skip


Spread.TestCase.settings = examples(200, stateful_step_count=30, derandomize=True)


@pytest.mark.proves("W4", "W6", "W10", "W15", "W30", "W32")
class TestSpread(Spread.TestCase):  # type: ignore[name-defined,misc] # made by hypothesis
    """Run by pytest."""
