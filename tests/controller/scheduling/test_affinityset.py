"""Workloads that require each other: found, and placed all together or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cache.assumed import PendingAffinity
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.model.unit import WorkloadInfo
from controller.scheduling.affinityset import MOST_TOGETHER, decide_together, together
from controller.scheduling.decision import Decision
from controller.scheduling.sets import SetState
from controller.scheduling.steps import at_once
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason
from machinery.types.selectors import LabelSelector
from tests.controller.make import (
    CLUSTER,
    NOW,
    REQUIRED,
    ZONE,
    beside,
    builder,
    cluster,
    index,
    info,
)
from tests.examples import examples

PROFILE = default_profile()


def wants(name: str, *apps: str, key: str = CLUSTER, **spec: Any) -> WorkloadInfo:
    """A unit that requires Workloads of these apps."""
    return info(name, workloadAffinity={REQUIRED: [beside(app, key) for app in apps]}, **spec)


def decide_all(
    units: list[WorkloadInfo], *clusters: Any, bound: PlacementIndex | None = None
) -> list[Decision]:
    return decide_on(builder(clusters).snapshot(), units, bound or PlacementIndex())


def decide_on(
    snapshot: Snapshot, units: list[WorkloadInfo], bound: PlacementIndex
) -> list[Decision]:
    state = SetState(snapshot, bound, {unit.scheduler_name: PROFILE for unit in units}, NOW)
    return at_once(decide_together(state, units))


def placements(decisions: list[Decision]) -> list[dict[str, int]]:
    return [dict(decision.placements) for decision in decisions]


def node(cpu: str) -> list[dict[str, Any]]:
    return [{"count": 1, "free": {"cpu": cpu, "memory": "32Gi", "pods": "110"}}]


def set_of(name: str, units: list[WorkloadInfo]) -> list[str]:
    """The names of the set that this one is decided with."""
    seekers = PendingAffinity(each for each in units if each.affinity.required)
    asked = next(each for each in units if each.name == name)
    return [each.name for each in at_once(together(asked, seekers))]


@pytest.mark.proves("C16")
class TestSets:
    """Who has to be decided together."""

    def test_one_that_is_required_and_requires_nobody_is_alone(self) -> None:
        units = [wants("a", "b"), wants("b", "c"), info("c")]
        assert [set_of(name, units) for name in "abc"] == [["a"], ["b"], ["c"]]

    def test_those_that_require_each_other_are_one_set(self) -> None:
        units = [wants("front", "back"), wants("back", "front"), wants("log", "front"), info("x")]
        assert set_of("front", units) == set_of("back", units) == ["back", "front"]
        assert (set_of("log", units), set_of("x", units)) == (["log"], ["x"])

    def test_a_ring_is_one_set(self) -> None:
        units = [wants("a", "b"), wants("b", "c"), wants("c", "a")]
        assert set_of("b", units) == ["a", "b", "c"]

    def test_namespaces_and_schedulers_do_not_meet(self) -> None:
        units = [wants("a", "b"), wants("b", "a", namespace="bank")]
        assert (set_of("a", units), set_of("b", units)) == (["a"], ["b"])
        units = [wants("a", "b"), wants("b", "a", schedulerName="another")]
        assert (set_of("a", units), set_of("b", units)) == (["a"], ["b"])

    def test_a_set_is_found_from_each_of_its_members(self) -> None:
        units = [wants("a", "b"), wants("b", "a"), wants("c", "a"), info("d")]
        found = {name: set_of(name, units) for name in "abcd"}
        assert found == {"a": ["a", "b"], "b": ["a", "b"], "c": ["c"], "d": ["d"]}

    def test_one_that_may_not_take_part_closes_no_ring(self) -> None:
        units = [wants("a", "b"), wants("b", "a")]
        asked = together(units[0], PendingAffinity(units), partner=lambda key: key[1] != "b")
        assert [each.name for each in at_once(asked)] == ["a"]

    @pytest.mark.proves("L7")
    def test_a_set_without_end_is_decided_one_by_one(self) -> None:
        many = MOST_TOGETHER + 2
        crowd = [wants(f"w{n}", "crowd", labels={"app": "crowd"}) for n in range(many)]
        assert set_of("w7", crowd) == ["w7"]
        assert len(set_of("w7", crowd[:MOST_TOGETHER])) == MOST_TOGETHER

    @pytest.mark.proves("L14")
    def test_only_those_are_looked_at_that_a_term_can_select(self) -> None:
        seekers = PendingAffinity([wants("a", "b"), wants("b", "a"), wants("c", "a")])
        (term,) = wants("x", "b").affinity.required
        found = seekers.selected(wants("x", "b"), term.label_selector)
        assert [each.name for each in found] == ["b"]
        seekers.put(wants("b", "a", labels={"app": "other"}))
        assert list(seekers.selected(wants("x", "b"), term.label_selector)) == []
        for name in "abc":
            seekers.drop(("shop", name))
        assert list(seekers.selected(wants("x"), LabelSelector())) == []


@pytest.mark.proves("C16", "C18")
class TestTogether:
    """All on clusters where every requirement holds, or none."""

    def test_two_that_require_each_other_share_a_cluster(self) -> None:
        pair = [wants("back", "front"), wants("front", "back")]
        decisions = decide_all(pair, cluster("a"), cluster("b"))
        assert placements(decisions) == [{"a": 2}, {"a": 2}]
        assert all(decision.reason is ScheduledReason.SCHEDULED for decision in decisions)

    def test_the_answer_is_in_the_order_of_the_question(self) -> None:
        pair = [wants("front", "back"), wants("back", "front", replicas=3)]
        decisions = decide_all(pair, cluster("a"))
        assert [decision.workload.name for decision in decisions] == ["front", "back"]
        assert placements(decisions) == [{"a": 2}, {"a": 3}]

    def test_the_best_cluster_of_the_first_is_left_where_the_other_has_no_room(self) -> None:
        big = wants("zbig", "front", replicas=8)
        front = wants("front", "zbig", clusterAffinity={})
        decisions = decide_all([front, big], cluster("a", groups=node("2")), cluster("b"))
        assert placements(decisions) == [{"b": 2}, {"b": 8}]

    def test_room_is_counted_for_both(self) -> None:
        pair = [wants("back", "front", replicas=8), wants("front", "back", replicas=9)]
        held = builder([cluster("a")])
        decisions = decide_on(held.snapshot(), pair, PlacementIndex())
        assert placements(decisions) == [{}, {}]

    def test_none_is_placed_where_one_has_no_cluster(self) -> None:
        pair = [wants("back", "front"), wants("front", "back", clusterSelector={"tier": "gold"})]
        decisions = decide_all(pair, cluster("a"), cluster("b"))
        assert placements(decisions) == [{}, {}]
        assert all(decision.pending == 2 for decision in decisions)
        assert decisions[0].message == "0/2 clusters: 2 didn't match workloadAffinity"

    def test_a_ring_of_three_is_closed(self) -> None:
        """Each is bound to the one that requires it, not only to the one that it requires."""
        ring = [wants("a", "b", key=ZONE), wants("b", "c", key=ZONE), wants("c", "a", key=ZONE)]
        decisions = decide_all(
            ring,
            cluster("m1", {ZONE: "x"}, groups=node("1")),
            cluster("m2", {ZONE: "x"}, groups=node("2")),
            cluster("m3", {ZONE: "y"}),
        )
        zones = {"m1": "x", "m2": "x", "m3": "y"}
        found = {zones[name] for decision in decisions for name in decision.placements}
        assert all(decision.scheduled for decision in decisions)
        assert len(found) == 1

    @pytest.mark.proves("L7")
    @pytest.mark.parametrize("order", ["abcdef", "fbdace", "cafebd"])
    def test_a_ring_is_closed_whatever_its_names(self, order: str) -> None:
        """Each next one is whom a placed one waits for, not who comes next by name."""
        ring = [wants(n, order[(i + 1) % 6], replicas=1) for i, n in enumerate(order)]
        clusters = [cluster(f"m{n}", groups=node(str(n % 4 + 1))) for n in range(8)]
        decisions = decide_all(ring, *clusters)
        assert {tuple(each.placements) for each in decisions} <= {
            ("m3",),
            ("m7",),
            ("m2",),
            ("m6",),
        }
        assert len({tuple(each.placements) for each in decisions}) == 1

    def test_members_may_have_selectors_of_their_own(self) -> None:
        pair = [
            wants("back", "front", key=ZONE, clusterSelector={"clusterName": "m2"}),
            wants("front", "back", key=ZONE, clusterSelector={"tier": "gold"}),
        ]
        decisions = decide_all(
            pair,
            cluster("m1", {ZONE: "x", "tier": "gold"}),
            cluster("m2", {ZONE: "y"}),
            cluster("m3", {ZONE: "y", "tier": "gold"}),
        )
        assert placements(decisions) == [{"m2": 2}, {"m3": 2}]

    def test_one_that_runs_everywhere_takes_part(self) -> None:
        pair = [
            wants("agent", "front", key=ZONE, distribution="Duplicated"),
            wants("front", "agent", key=ZONE),
        ]
        decisions = decide_all(
            pair, cluster("m1", {ZONE: "x"}), cluster("m2", {ZONE: "x"}), cluster("m3", {ZONE: "y"})
        )
        assert all(decision.scheduled for decision in decisions)
        zones = {"m1": "x", "m2": "x", "m3": "y"}
        (home,) = decisions[1].placements
        assert {zones[name] for name in decisions[0].placements} == {zones[home]}

    def test_the_index_is_left_as_it_was(self) -> None:
        pair = [wants("back", "front"), wants("front", "back")]
        known = index(*((each, {}) for each in pair))
        decide_all(pair, cluster("a"), bound=known)
        selector = pair[0].affinity.required[0].label_selector
        assert known.clusters_of("shop", selector, but=()) == set()

    @examples(80)
    @given(st.data())
    def test_whatever_is_placed_satisfies_everybody(self, data: st.DataObject) -> None:
        names = ["a", "b", "c"]
        edges = st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)
        chosen = st.sampled_from([ZONE, CLUSTER])
        units = [
            wants(
                name,
                *data.draw(edges),
                key=data.draw(chosen),
                distribution=data.draw(st.sampled_from(["Single", "Single", "Duplicated"])),
            )
            for name in names
        ]
        clusters = [
            cluster(
                f"m{number}",
                {ZONE: data.draw(st.sampled_from(["x", "y"]))},
                groups=node(data.draw(st.sampled_from(["0", "1", "2", "4"]))),
            )
            for number in range(4)
        ]
        labels = {
            c.metadata.name: {**c.metadata.labels, CLUSTER: c.metadata.name} for c in clusters
        }
        sets = {tuple(set_of(name, units)) for name in names}
        for members in ([u for u in units if u.name in each] for each in sorted(sets)):
            if len(members) < 2:
                continue
            decisions = decide_all(members, *clusters)
            assert len({d.scheduled for d in decisions}) == 1
            there = {d.workload.name: d.placements for d in decisions}
            for decision in decisions:
                for term in decision.workload.affinity.required:
                    app = term.label_selector.match_labels["app"]
                    near = {labels[c][term.topology_key] for c in there.get(app, {})}
                    here = {labels[c][term.topology_key] for c in decision.placements}
                    assert here <= near
