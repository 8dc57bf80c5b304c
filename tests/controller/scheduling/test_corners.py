"""Corners of a decision: nothing wanted, far too much, zero shares, and whose fault a shortage is."""

from __future__ import annotations

from typing import Any

import pytest

from controller.cache.placements import PlacementIndex
from controller.planner.webster import MAX_REPLICAS
from crds.workload import ScheduledReason, WorkloadState
from tests.controller.features.workloadpolicy.test_messages import (
    HOST,
    MEMBER,
    bound,
    remedies,
    rules,
    says,
    spec,
    told,
)
from tests.controller.make import ZONE, cluster, info

FULL = cluster("a", groups=[{"count": 1, "free": {"cpu": "0", "pods": "9"}}])
CORDONED = cluster("a", unschedulable=True)
EVERYWHERE = [{"clusterSelector": {}, "weight": 1}]


class TestNumbers:
    """None, and more than can be."""

    @pytest.mark.proves("D3")
    @pytest.mark.parametrize("packing", ["Proportional", "Fewest"])
    def test_the_most_that_a_workload_can_ask_for_is_divided_to_the_unit(
        self, packing: str
    ) -> None:
        rules = [{"clusterSelector": {}, "weight": 1}]
        who = info(
            replicas=MAX_REPLICAS,
            distribution="Divided",
            packing=packing,
            distributionWeights=rules,
        )
        free = [cluster(name, groups=[], virtual=True) for name in "abc"]
        found = told(who, PlacementIndex(), *free)
        assert found.assigned == MAX_REPLICAS
        assert found.scheduled

    def test_to_none_at_a_full_quota(self) -> None:
        held = {"m1": 1, "h1": 3}
        assert told(bound(0, present=held), rules(spec(member=1, host=3)), MEMBER, HOST).scheduled

    @pytest.mark.parametrize(("distribution", "held"), [("Divided", 3), ("Duplicated", 0)])
    def test_to_none_on_a_cordoned_cluster(self, distribution: str, held: int) -> None:
        found = told(
            info(replicas=0, distribution=distribution, present={"a": held}),
            PlacementIndex(),
            CORDONED,
        )
        assert (found.scheduled, found.state) == (True, WorkloadState.SCHEDULED)

    def test_a_share_of_none_holds_nothing(self) -> None:
        waiting = told(info(replicas=9, present={"a": 0}), PlacementIndex(), FULL)
        assert waiting.reason is ScheduledReason.INSUFFICIENT_CAPACITY
        assert waiting.state is WorkloadState.PENDING
        refused = told(info(replicas=9, present={"a": 0}), PlacementIndex(), CORDONED)
        assert refused.reason is ScheduledReason.FAILED_TO_SCHEDULE

    def test_no_empty_share_is_left_while_the_policy_is_missing(self) -> None:
        found = told(bound(2, present={"m1": 1, "h1": 3}), PlacementIndex(), MEMBER, HOST)
        assert found.placements == {"h1": 2}


class TestWhoseFault:
    """Room, a quota, or a predicate: the reason and the remedy name what it is."""

    @pytest.mark.parametrize("packing", ["Proportional", "Fewest"])
    @pytest.mark.parametrize("weights", [[], EVERYWHERE])
    def test_only_room_is_lacking(self, packing: str, weights: list[Any]) -> None:
        who = info(replicas=5, distribution="Divided", packing=packing, distributionWeights=weights)
        lacking = ScheduledReason.INSUFFICIENT_CAPACITY
        says(told(who, PlacementIndex(), FULL), lacking, "0/1 clusters: 1 insufficient cpu")

    @pytest.mark.proves("K21")
    def test_units_that_are_not_counted_have_reached_no_quota(self) -> None:
        who = bound(6, app="else", present={"h1": 2})
        found = told(who, rules(spec(member=9, host=9)), MEMBER, HOST)
        assert found.reason is ScheduledReason.FAILED_TO_SCHEDULE
        assert found.state is WorkloadState.SCHEDULED
        assert not any("quota" in note.text for note in remedies(found))

    def test_a_cordon_is_no_quota(self) -> None:
        host = cluster("h1", {ZONE: "host"}, unschedulable=True)
        found = told(bound(6, present={"h1": 2}), rules(spec(host=6)), host)
        assert found.message == "2 of 6 replicas have a cluster; 0/1 clusters: 1 unschedulable"
        assert found.reason is ScheduledReason.FAILED_TO_SCHEDULE

    @pytest.mark.proves("E30")
    @pytest.mark.parametrize(("present", "numbers"), [({"m1": 1, "h1": 3}, (1, 1)), ({}, (0, 0))])
    def test_the_remedy_names_every_full_domain(
        self, present: dict[str, int], numbers: tuple[int, int]
    ) -> None:
        member, host = numbers
        found = told(bound(6, present=present), rules(spec(member=member, host=host)), MEMBER, HOST)
        (note,) = remedies(found)
        assert note.text == "a larger quota in WorkloadPolicy demo for host or member"

    @pytest.mark.proves("E30")
    def test_the_remedy_for_a_cluster_outside_all_domains(self) -> None:
        racks = {**spec(host=3), "topologyKey": "example.com/rack"}
        (note,) = remedies(told(bound(6), rules(racks), MEMBER, HOST))
        assert note.text.startswith(
            "its domain in spec.allocationPolicy of WorkloadPolicy demo, "
            "or a label that puts it into one"
        )

    @pytest.mark.proves("E30")
    def test_the_number_of_a_domain_holds_only_what_is_counted(self) -> None:
        index = rules(spec(host=3))
        index.put(info("other", replicas=3, labels={"app": "demo"}), {"h1": 3})
        found = told(bound(1, app="else", present={"h1": 3}), index, HOST)
        assert found.placements == {"h1": 1}
        assert "domain host is at its quota of 3" in [str(reason) for reason in found.why(0)]
