"""The columns: what is read of a cluster, and that changing a snapshot equals making it anew."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from controller.model.load import Load
from controller.model.objects import MemberCluster
from controller.model.place import Place
from controller.snapshot import encode
from controller.snapshot.builder import (
    UNLIMITED,
    Snapshot,
    SnapshotBuilder,
    with_cluster,
    with_clusters,
)
from controller.snapshot.inflight import InFlight
from machinery.types.taints import Toleration
from tests.controller.make import CLUSTER, ZONE, builder, cluster, snapshot
from tests.controller.scheduling.test_decide_properties import NAMES, arrays, clusters, node_groups
from tests.examples import examples

UNIT = {"cpu": 500, "memory": 2**30, "pods": 1}
LOAD = Load.of(UNIT)


def fits(found: Snapshot, request: dict[str, int] = UNIT, **about: Any) -> dict[str, int]:
    """Units that fit, by name."""
    fitting = found.fitting(request, Place(**about))
    return dict(zip(found.names, fitting.tolist(), strict=True))


def group(count: int = 1, cpu: str = "4", memory: str = "16Gi", pods: str = "110", **more: Any):
    return {"count": count, "free": {"cpu": cpu, "memory": memory, "pods": pods}, **more}


def in_line(told: tuple[int, dict[str, int], dict[str, Any], Any]) -> str:
    """A place for a node group that hangs on no order within it: what was seen first may differ."""
    count, free, labels, taints = told
    return repr((count, sorted(free.items()), sorted(labels.items()), sorted(map(repr, taints))))


def facts(found: Snapshot) -> dict[str, Any]:
    """Everything a decision can read of a fleet, by name and independent of codes and row order."""

    def text(column: Any, row: int) -> str | None:
        return column.vocabulary.values[column.codes[row]]

    def number(value: Any) -> Any:
        return None if isinstance(value, float) and math.isnan(value) else value

    told: dict[str, Any] = {}
    for row, name in enumerate(found.names):
        groups = [
            (
                int(found.groups.count[i]),
                {r: int(free[i]) for r, free in found.groups.free.items() if free[i]},
                {k: text(c, i) for k, c in found.groups.labels.items() if text(c, i)},
                found.groups.taint_sets[found.groups.taints[i]],
            )
            for i in np.flatnonzero(found.groups.cluster == row)
        ]
        told[name] = {
            "object": found.clusters[row],
            "order": int(found.by_name[row]),
            "labels": {k: text(c, row) for k, c in found.labels.items() if text(c, row)},
            "taints": {t for t, mask in found.taints.items() if mask[row]},
            "groups": sorted(groups, key=in_line),
            **{
                kind: {r: int(c[row]) for r, c in getattr(found, kind).items() if c[row]}
                for kind in ("allocatable", "requested")
            },
            "flying": found.flights.on(row),
            "held": found.held(name),
            "counted": found.counted.get(name),
            **{
                kind: number(getattr(found, kind)[row].item())
                for kind in (
                    "ready", "agent_old", "cordoned", "deleting", "virtual", "cost", "latency", "reliability",
                )
            },
            **{
                kind: text(getattr(found, kind), row)
                for kind in encode.TEXTS
            },
        }  # fmt: skip
    return told


class Changing(RuleBasedStateMachine):
    """Any order of arrivals, changes, departures and decisions in flight."""

    def __init__(self) -> None:
        super().__init__()
        self.builder = SnapshotBuilder()
        self.clusters: dict[str, MemberCluster] = {}
        self.flying: dict[str, dict[Load, int]] = {}
        self.held: dict[str, dict[Load, int]] = {}
        self.counted: dict[str, int] = {}
        self.taken: list[tuple[Snapshot, list[bytes]]] = []

    @rule(
        found=clusters(),
        most=st.sampled_from([{}, {}, {"cpu": "3"}, {"cpu": "9", "memory": "2Gi"}]),
    )
    def upsert(self, found: list[MemberCluster], most: dict[str, str | int]) -> None:
        for told in found:
            spec = msgspec.structs.replace(told.spec, max_allocatable=most)
            each = msgspec.structs.replace(told, spec=spec)
            self.clusters[each.metadata.name] = each
            self.builder.upsert(each)

    @rule(name=st.sampled_from(NAMES))
    def remove(self, name: str) -> None:
        self.clusters.pop(name, None)
        self.builder.remove(name)

    @rule(name=st.sampled_from(NAMES), units=st.integers(-3, 5), gpu=st.booleans())
    def assume(self, name: str, units: int, gpu: bool) -> None:
        request = {"cpu": 100, "example.com/gpu": 1} if gpu else {"cpu": 100}
        load = Load.of(request)
        self.builder.assume(name, load, units)
        held = self.flying.setdefault(name, {})
        held[load] = held.get(load, 0) + units

    @rule(name=st.sampled_from(NAMES), units=st.integers(-3, 5), cpu=st.integers(100, 140))
    def hold(self, name: str, units: int, cpu: int) -> None:
        load = Load.of({"cpu": cpu})
        self.builder.hold(name, load, units)
        held = self.held.setdefault(name, {})
        held[load] = held.get(load, 0) + units

    @rule(name=st.sampled_from(NAMES), units=st.integers(0, 5))
    def count(self, name: str, units: int) -> None:
        self.builder.count(name, LOAD, units)
        self.counted[name] = self.counted.get(name, 0) + units

    @rule()
    def snapshot(self) -> None:
        found = self.builder.snapshot()
        anew = builder(self.clusters.values())
        for name, units in self.counted.items():
            anew.count(name, LOAD, units)
        for name, loads in self.held.items():
            for load, units in loads.items():
                anew.hold(name, load, units)
        for name, held in self.flying.items():
            for load, units in held.items():
                anew.assume(name, load, units)
        assert facts(found) == facts(anew.snapshot())
        assert found is self.builder.snapshot()
        self.taken.append((found, arrays(found)))

    @invariant()
    def snapshots_stay(self) -> None:
        for found, before in self.taken[-3:]:
            assert arrays(found) == before


@pytest.mark.proves("C7")
def test_a_changed_snapshot_equals_one_made_anew() -> None:
    run_state_machine_as_test(Changing, settings=examples(60, stateful_step_count=15))


def test_a_snapshot_costs_nothing_while_nothing_changes() -> None:
    made = builder([cluster("a"), cluster("b")])
    first = made.snapshot()
    made.assume("a", LOAD, 0)
    made.remove("unknown")
    assert made.snapshot() is first


def test_only_what_was_decided_is_copied_for_a_decision_in_flight() -> None:
    made = builder([cluster("a"), cluster("b")])
    first = made.snapshot()
    made.assume("a", LOAD, 2)
    second = made.snapshot()
    assert second.labels is first.labels
    assert second.groups is first.groups
    assert not first.coming("cpu").any()
    assert second.coming("cpu")[second.row["a"]] == 1000


def test_amounts_in_numbers_are_those_in_text() -> None:
    """The schema takes both; a cluster that cannot be decoded stays as it was last seen."""
    amounts = {"cpu": 4, "memory": 2**34, "pods": 110, "example.com/gpu": -1}

    def told(free: dict[str, Any]) -> Snapshot:
        capacity = {"nodes": 1, "allocatable": free, "requested": free}
        groups = [{"count": 1, "free": free}]
        return snapshot(cluster("a", groups=groups, status={"capacity": capacity}))

    numbers, texts = told(amounts), told({name: str(n) for name, n in amounts.items()})
    assert fits(numbers) == {"a": 8}
    assert facts(numbers)["a"] | {"object": None} == facts(texts)["a"] | {"object": None}


@pytest.mark.proves("C16")
def test_every_cluster_is_a_domain_of_its_own() -> None:
    found = snapshot(cluster("a"), cluster("b", {CLUSTER: "wrong"}))
    assert found.column(CLUSTER).equals("b").tolist() == [False, True]
    assert not found.column(CLUSTER).equals("wrong").any()


def test_a_domain_is_the_clusters_that_share_a_value() -> None:
    found = snapshot(
        cluster("a", {ZONE: "x"}), cluster("b", {ZONE: "x"}), cluster("c"), cluster("d")
    )
    assert found.domain(ZONE, ["a"]).tolist() == [True, True, False, False]
    assert not found.domain(ZONE, ["c", "unknown"]).any()


class TestRoom:
    """How many units fit."""

    def test_each_node_takes_whole_units_only(self) -> None:
        assert fits(snapshot(cluster("a", groups=[group(3, cpu="900m")]))) == {"a": 3}

    def test_the_scarcest_resource_counts(self) -> None:
        assert fits(snapshot(cluster("a", groups=[group(memory="2Gi"), group(pods="1")]))) == {
            "a": 3
        }

    def test_a_resource_that_no_node_has_is_lacking(self) -> None:
        assert fits(snapshot(cluster("a")), {"example.com/gpu": 1}) == {"a": 0}

    def test_a_cluster_that_has_not_told_its_room_has_none(self) -> None:
        assert fits(snapshot(cluster("a", groups=[]))) == {"a": 0}

    def test_a_virtual_cluster_is_not_checked(self) -> None:
        assert fits(snapshot(cluster("a", groups=[], virtual=True))) == {"a": UNLIMITED}

    def test_a_unit_that_requests_nothing_fits_anywhere(self) -> None:
        assert fits(snapshot(cluster("a", groups=[])), {}) == {"a": UNLIMITED}

    def test_a_quantity_that_is_none_counts_as_no_room(self) -> None:
        assert fits(snapshot(cluster("a", groups=[group(cpu="lots")]))) == {"a": 0}

    def test_taints_of_nodes_keep_units_out_that_do_not_tolerate_them(self) -> None:
        taints = [{"key": "gpu", "effect": "NoSchedule"}]
        found = snapshot(cluster("a", groups=[group(taints=taints), group(cpu="1")]))
        assert fits(found) == {"a": 2}
        borne = (Toleration(key="gpu", operator="Exists"),)
        assert fits(found, tolerations=borne) == {"a": 10}

    def test_a_soft_taint_of_a_node_keeps_nobody_out(self) -> None:
        taints = [{"key": "gpu", "effect": "PreferNoSchedule"}]
        assert fits(snapshot(cluster("a", groups=[group(taints=taints)]))) == {"a": 8}

    def test_a_node_selector_counts_the_nodes_that_match_or_do_not_tell(self) -> None:
        arm, x86 = {"kubernetes.io/arch": "arm64"}, {"kubernetes.io/arch": "amd64"}
        found = snapshot(
            cluster("a", groups=[group(labels=arm), group(labels=x86, cpu="1"), group(cpu="500m")])
        )
        assert fits(found, labels=tuple(x86.items())) == {"a": 3}
        assert fits(found, labels=(("disk", "ssd"),)) == {"a": 11}

    def test_units_in_flight_are_taken_off_rounded_up(self) -> None:
        made = builder([cluster("a"), cluster("b")])
        made.assume("a", Load.of({"cpu": 700, "pods": 1}), 1)
        assert fits(made.snapshot()) == {"a": 14, "b": 16}

    def test_more_in_flight_than_there_is_leaves_nothing(self) -> None:
        made = builder([cluster("a")])
        made.assume("a", LOAD, 1000)
        assert fits(made.snapshot()) == {"a": 0}

    @given(st.lists(node_groups, max_size=4), st.integers(1, 2000), st.integers(1, 2**31))
    def test_it_is_the_sum_over_nodes(self, groups: list[Any], cpu: int, memory: int) -> None:
        request = {"cpu": cpu, "memory": memory, "pods": 1}
        tainted = [g for g in groups if any(t["effect"] != "PreferNoSchedule" for t in g["taints"])]
        expected = sum(
            g["count"]
            * min(
                int(g["free"]["cpu"][:-1]) // cpu,
                int(g["free"]["memory"][:-2]) * 2**20 // memory,
                int(g["free"]["pods"]),
            )
            for g in groups
            if g not in tainted
        )
        assert fits(snapshot(cluster("a", groups=groups)), request) == {"a": expected}


@pytest.mark.proves("C33")
@pytest.mark.parametrize("text", ["free", "nan", "inf", "-inf", ""])
def test_a_price_that_is_no_finite_number_is_none(text: str) -> None:
    assert np.isnan(snapshot(cluster("a", annotations={"stowage.dev/cost": text})).cost).all()


@pytest.mark.proves("E21")
def test_a_hook_may_look_at_one_cluster_otherwise() -> None:
    made = builder([cluster("a", groups=[group(cpu="1")]), cluster("b", groups=[group(cpu="1")])])
    made.assume("a", LOAD, 1)
    before = made.snapshot()
    changed = msgspec.structs.replace(
        before.clusters[before.row["a"]],
        status=cluster("a", groups=[group(cpu="3")]).status,
    )
    assert fits(with_cluster(before, changed)) == {"a": 5, "b": 2}
    assert fits(before) == {"a": 1, "b": 2}


@pytest.mark.proves("L9")
def test_columns_go_when_no_cluster_uses_them_any_more() -> None:
    made = builder([cluster("a"), cluster("b")])
    for beat in range(3000):
        nodes = group(
            labels={f"node-{beat}": "x"}, taints=[{"key": f"t{beat}", "effect": "NoSchedule"}]
        )
        nodes["free"][f"example.com/r{beat}"] = "1"
        capacity = {"nodes": 1, "allocatable": nodes["free"], "requested": {}}
        status = {"capacity": capacity, "version": f"v{beat}"}
        made.upsert(cluster("a", {f"key-{beat}": "x"}, groups=[nodes], status=status))
        found = made.snapshot()
    assert set(found.labels) == {CLUSTER, "key-2999"}
    assert set(found.groups.labels) == {"node-2999"}
    assert {"example.com/r2999"} == {r for r in found.groups.free if r.startswith("example.com")}
    assert {"example.com/r2999"} == {r for r in found.allocatable if r.startswith("example.com")}
    assert sorted(len(taints) for taints in found.groups.taint_sets) == [0, 1]
    assert len(found.version.vocabulary.values) < 600
    borne = (Toleration(key="t2999", operator="Exists"),)
    assert fits(found) == {"a": 0, "b": 16}
    assert fits(found, tolerations=borne)["a"] > 0


@pytest.mark.proves("L7")
def test_a_hook_that_copies_every_cluster_reads_each_load_and_quantity_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = SnapshotBuilder()
    for number in range(50):
        made.upsert(cluster(f"c{number}"))
        made.assume(f"c{number}", Load.of({"cpu": number + 1}), 2)
    before = made.snapshot()
    looks, by_row = [], InFlight.by_row
    monkeypatch.setattr(InFlight, "by_row", lambda *about: (looks.append(about), by_row(*about))[1])
    parsed = encode._bounded.cache_info().misses
    after = with_clusters(before, before.clusters)
    assert len(looks) == 2, "in flight and held, once for all clusters"
    assert encode._bounded.cache_info().misses == parsed
    assert after.coming("cpu").tolist() == before.coming("cpu").tolist()
