"""A fleet that changes at random: whatever happened before, every decision keeps the promises."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.features.workloadpolicy.counts import WorkloadPolicy
from controller.model.unit import WorkloadInfo, workload_info
from controller.planner.reasons import RuleKind
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from tests.controller.make import CLUSTER, NOW, ZONE, adds_up, builder, cluster, counting, workload
from tests.examples import examples

PROFILE = default_profile()
ZONES = ("x", "y", "z")
NAMES = st.sampled_from([f"c{n}" for n in range(6)])
POLICY = ("shop", "demo")
LABEL = {"stowage.dev/workload-policy": "demo"}
POD = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}


class Fleet(RuleBasedStateMachine):
    """Clusters, policies and Workloads come, change and go; Workloads are decided in between."""

    workloads = Bundle("workloads")

    def __init__(self) -> None:
        super().__init__()
        self.clusters: dict[str, dict[str, Any]] = {}
        self.specs: dict[str, dict[str, Any]] = {}
        self.present: dict[str, dict[str, int]] = {}
        self.hashes: dict[str, str] = {}
        self.policy: dict[str, Any] | None = None
        self.last: Decision | None = None

    @rule(name=NAMES, zone=st.sampled_from(ZONES), room=st.integers(0, 9), cordon=st.booleans())
    def register_or_change(self, name: str, zone: str, room: int, cordon: bool) -> None:
        self.clusters[name] = {"zone": zone, "room": room, "cordon": cordon}

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.clusters.pop(name, None)

    @rule(
        numbers=st.dictionaries(st.sampled_from(ZONES), st.integers(0, 9), min_size=1),
        kind=st.sampled_from(["Required", "Preferred"]),
        method=st.sampled_from(["Fill", "Balance"]),
    )
    def edit_the_policy(self, numbers: dict[str, int], kind: str, method: str) -> None:
        self.policy = {
            "topologyKey": ZONE,
            "labelSelector": {"matchLabels": {"app": "demo"}},
            "allocationPolicy": [{"name": n, "replicas": r} for n, r in numbers.items()],
            "allocationType": kind,
            "allocationMethod": method,
        }

    @rule()
    def delete_the_policy(self) -> None:
        self.policy = None

    @rule(
        target=workloads,
        number=st.integers(0, 4),
        replicas=st.integers(0, 12),
        distribution=st.sampled_from(["Single", "Divided", "Duplicated"]),
        bound=st.booleans(),
        packing=st.sampled_from(["Proportional", "Fewest"]),
    )
    def create_or_edit(
        self, number: int, replicas: int, distribution: str, bound: bool, packing: str
    ) -> str:
        name = f"w{number}"
        self.specs[name] = {
            "replicas": replicas,
            "distribution": distribution,
            "packing": packing,
            "labels": LABEL if bound else {},
        }
        return name

    @rule(name=workloads, replicas=st.integers(0, 20))
    def scale(self, name: str, replicas: int) -> None:
        if name in self.specs:
            self.specs[name] = {**self.specs[name], "replicas": replicas}

    @rule(name=workloads)
    def delete(self, name: str) -> None:
        self.specs.pop(name, None)
        self.present.pop(name, None)
        self.hashes.pop(name, None)

    @rule(name=workloads)
    def decide(self, name: str) -> None:
        if name not in self.specs:
            return
        snapshot, index, info = self._snapshot(), self._index(), self._info(name)
        before = self._domains()
        decision = decide(snapshot, info, index, PROFILE, NOW)
        old = self.present.get(name, {})
        self.present[name] = dict(decision.placements)
        if decision.scheduled or dict(decision.placements) != old:
            self.hashes[name] = info.hash
        self.last = decision
        self._keeps_quota(info, before)
        self._moves_nothing_without_need(info, old, decision)
        if decision.scheduled:  # what is pending might find room that the fleet counts only later
            again = decide(snapshot, self._info(name), self._index(), PROFILE, NOW)
            assert dict(again.placements) == self.present[name], "what stands is decided again"

    @invariant()
    def every_unit_is_counted_once(self) -> None:
        if self.last is not None:
            decision = self.last
            adds_up(decision)
            assert set(decision.placements) <= set(decision.snapshot.names)
            as_a_whole = decision.refusals and not decision.masks
            settled = as_a_whole or not decision.placements
            assert settled or decision.scheduled == (decision.pending == 0)
            for row, name in enumerate(decision.snapshot.names):
                kept = [r.number for r in decision.why(row) if r.kind is RuleKind.KEPT]
                assert sum(kept) <= decision.placements.get(name, 0), "no more stays than is there"

    def _keeps_quota(self, info: WorkloadInfo, before: dict[str, int]) -> None:
        if self.policy is None or not info.bound or self.policy["allocationType"] != "Required":
            return
        after = self._domains()
        for each in self.policy["allocationPolicy"]:
            zone = each["name"]
            assert after.get(zone, 0) <= max(each["replicas"], before.get(zone, 0))

    def _moves_nothing_without_need(
        self, info: WorkloadInfo, old: dict[str, int], decision: Decision
    ) -> None:
        """Without an edit of its rules, a present share shrinks only when fewer units are wanted."""
        if info.edited or info.everywhere or set(old) - set(self.clusters):
            return
        shrunk = {c for c, n in old.items() if decision.placements.get(c, 0) < n}
        grown = {c for c, n in decision.placements.items() if n > old.get(c, 0)}
        moved_whole = info.whole and len(decision.placements) == 1
        assert not (shrunk and grown) or moved_whole
        if sum(old.values()) <= info.replicas and not moved_whole:
            assert not shrunk

    def _domains(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for shares in self.present.values():
            for name, units in shares.items():
                zone = self.clusters.get(name, {}).get("zone", "")
                found[zone] = found.get(zone, 0) + units
        return found

    def _snapshot(self) -> Any:
        return builder(
            cluster(
                name,
                {CLUSTER: name, ZONE: each["zone"]},
                groups=[{"count": 1, "free": {"cpu": str(each["room"]), "pods": "99"}}],
                unschedulable=each["cordon"],
            )
            for name, each in self.clusters.items()
        ).snapshot()

    def _info(self, name: str) -> WorkloadInfo:
        fields = dict(self.specs[name])
        labels = fields.pop("labels")
        body = workload(
            name,
            labels={"app": "demo"},
            pod=POD,
            present=self.present.get(name),
            decided=self.hashes.get(name, ""),
            **fields,
        )
        meta = msgspec.structs.replace(body.metadata, labels=labels)
        return workload_info(msgspec.structs.replace(body, metadata=meta))

    def _index(self) -> PlacementIndex:
        index = counting()
        if self.policy is not None:
            meta = {"namespace": POLICY[0], "name": POLICY[1], "uid": "p", "generation": 1}
            stored = msgspec.convert({"metadata": meta, "spec": self.policy}, WorkloadPolicy)
            index = counting(stored)
        for name in self.specs:
            index.put(self._info(name), self.present.get(name, {}))
        return index


Fleet.TestCase.settings = examples(120, stateful_step_count=40, derandomize=True)


@pytest.mark.proves("D3", "K8", "K29", "L16")
class TestFleet(Fleet.TestCase):  # type: ignore[name-defined,misc] # made by hypothesis
    """Run by pytest."""
