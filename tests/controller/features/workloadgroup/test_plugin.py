"""Coscheduling decides gangs: by the pass of every Workload, without a hub."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from controller.eventhandlers import known
from controller.features.workloadgroup.estimate import gap, keeps_waiting
from controller.features.workloadgroup.feature import WorkloadGroups
from controller.features.workloadgroup.plugin import Coscheduling, CoschedulingArgs
from controller.features.workloadspread.compiled import Spreads, compile_spread
from controller.framework.gathering import Attempt, TrialResult
from controller.framework.interface import CycleState
from controller.framework.runtime.handle import DryRunHandle
from controller.framework.status import SUCCESS, Code
from controller.framework.waiting import PermitAnswer
from controller.model.objects import MemberCluster
from controller.plugins.defaults import PrioritySort
from controller.scheduling.sets import Others
from crds.groups.gate import decision_of
from crds.names import GROUP_ALIASES, LABEL_GROUP
from crds.workload import ScheduledReason
from machinery.metrics import REGISTRY
from tests.controller import make
from tests.controller.features.workloadgroup.ganging import NS, Yard, group, member, pod, room
from tests.controller.features.workloadspread.spreads import spread, subset

BATCH = (NS, "batch")
DENIED = "WorkloadGroup shop/batch is denied for 3 s: "
GAP = f"{DENIED}resource gap: cpu 3 more (3 of 4 replicas have room)"
PULLED = (
    "WorkloadGroup shop/batch gets rejected due to Pod {} is unschedulable even after PostFilter"
)


def yard(*cpu: str, **how: Any) -> Yard:
    """Clusters a, b, c … of one node with that much cpu, and the group batch of minMember 4."""
    made = Yard(*(room(name, each) for name, each in zip("abcdefgh", cpu, strict=False)), **how)
    made.group(group())
    return made


def said(decision: Any) -> tuple[str, str]:
    return decision.reason.value, decision.message


def plain(name: str = "alone", **how: Any) -> Any:
    """A Workload of no group."""
    return member(name, how.pop("replicas", 1), labels={}, **how)


def torn(**how: Any) -> Yard:
    """A gang that no estimate refuses: two of its units each want a cluster for themselves."""
    made = yard("30", **how).having(member("driver", 1))
    apart = {"labelSelector": {"matchLabels": {"app": "driver"}}, "topologyKey": make.CLUSTER}
    made.store(member("worker", 3, workloadAntiAffinity={make.REQUIRED: [apart]}))
    return made


# --- who is placed --------------------------------------------------------------------------------


@pytest.mark.proves("G3", "G5", "G15")
def test_what_fits_is_placed_once_the_quorum_is_there_and_the_rest_waits() -> None:
    made = yard("6", "6").having(member())
    found = made.decide()["worker"]
    assert found.placements == {"a": 2, "b": 2}
    assert (found.pending, found.reason) == (2, ScheduledReason.INSUFFICIENT_CAPACITY)
    assert made.groups.assigned(BATCH) == 4


@pytest.mark.proves("G4", "G13")
def test_too_little_room_places_nothing_and_names_what_is_short() -> None:
    made = yard("6", "3").having(member())
    assert said(made.decide()["worker"]) == ("GroupDenied", GAP)
    assert made.groups.assigned(BATCH) == 0


@pytest.mark.proves("KD64")
def test_a_gang_of_three_that_refuse_each_others_node_waits_for_a_third() -> None:
    host = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    apart = pod(cpu="1") | {"affinity": {"podAntiAffinity": {make.REQUIRED: [host]}}}
    made = Yard(room("a", "9", nodes=2)).having(member(replicas=3, pod=apart))
    made.group(group(min_member=3))
    assert not made.decide()["worker"].placements
    made.world.cluster_changed(made.world.snapshot().clusters[0], room("a", "9", nodes=3))
    made.time.at += timedelta(seconds=60)
    assert made.decide()["worker"].placements == {"a": 3}


@pytest.mark.proves("KD59", "KD61")
def test_a_gang_goes_where_members_serve_it_and_their_quotas_leave_enough() -> None:
    """Its Workloads are decided in one pass: what one takes of a quota the next one lacks."""

    def left(pods: str) -> Any:
        quota = {"namespace": NS, "name": "team", "free": {"pods": pods}}
        return room("a", "30", status={"quotas": [quota]})

    made = Yard(left("3")).having(member("driver", 2), member("worker", 2))
    made.group(group())
    assert not any(each.placements for each in made.decide("driver").values())
    made.world.cluster_changed(left("3"), left("4"))
    made.time.at += timedelta(seconds=60)
    assert {n: dict(d.placements) for n, d in made.decide("driver").items()} == {
        "driver": {"a": 2},
        "worker": {"a": 2},
    }
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    unserved = room("a", "30", status={"kinds": []})
    made = Yard(unserved, room("b", "12")).having(member(replicas=4, manifests=[rollout]))
    made.group(group())
    assert made.decide()["worker"].placements == {"b": 4}


@pytest.mark.proves("G2", "G5")
def test_units_are_counted_over_workloads_and_clusters_of_one_namespace() -> None:
    made = yard("6", "6").having(member("driver", 1), member("worker", 3))
    made.store(member("worker", 9, namespace="other"))
    found = made.decide("driver")
    assert sum(each.assigned for each in found.values()) == 4
    assert set(found) == {"driver", "worker"}
    assert made.groups.desired(("other", "batch")) == 9
    assert made.groups.assigned(("other", "batch")) == 0


@pytest.mark.proves("G2")
@pytest.mark.parametrize("key", [LABEL_GROUP, *GROUP_ALIASES])
def test_every_label_makes_a_member(key: str) -> None:
    made = yard("12").having(member(labels={key: "batch"}, replicas=4))
    assert made.groups.desired(BATCH) == 4
    assert made.decide()["worker"].assigned == 4


@pytest.mark.proves("G15")
def test_a_unit_beyond_the_quorum_waits_alone_and_leaves_the_others_as_they_are() -> None:
    made = yard("12").having(member(replicas=4))
    made.decide()
    made.store(member("late", 1))
    batch = made.batch("late")
    [found] = batch.decisions
    assert batch.conclusion is None
    assert (found.workload.name, found.assigned) == ("late", 0)
    assert "WorkloadGroup shop/batch has its minMember of 4 without them" in found.message
    assert made.placed("worker") == 4


@pytest.mark.proves("G15")
def test_a_unit_beyond_the_quorum_that_fits_is_placed_alone() -> None:
    made = yard("15").having(member(replicas=4))
    made.decide()
    made.store(member("late", 1))
    assert made.decide("late")["late"].assigned == 1
    assert made.batch("late").conclusion is None


@pytest.mark.proves("G17")
def test_where_others_are_to_decide_the_rest_no_pod_is_blamed() -> None:
    made = yard("30").having(member("ours", 2), member("theirs", 2, schedulerName="mine"))
    reason, message = said(made.decide("ours")["ours"])
    assert reason == "GroupDenied"
    assert message.startswith("WorkloadGroup shop/batch gets rejected, as what is missing others ")
    assert "2 of 4 replicas (minMember) have a cluster" in message


@pytest.mark.proves("G5")
def test_units_that_another_scheduler_has_placed_count() -> None:
    made = yard("6").having(member("other", 2, schedulerName="theirs", present={"z": 2}))
    made.store(member("worker", 2))
    found = made.decide()
    assert set(found) == {"worker"}
    assert found["worker"].assigned == 2


# --- the queue ------------------------------------------------------------------------------------


@pytest.mark.proves("G7", "G8", "G9", "G10")
def test_the_order_of_the_queue() -> None:
    made = yard()
    made.group(group("old", created="2026-01-01T00:00:01Z"))
    made.group(group("young", created="2026-01-01T00:00:09Z"))
    failed = {"lastFailureTime": "2026-01-01T00:00:07Z"}
    made.group(group("failed", created="2026-01-01T00:00:00Z", status=failed))
    at = "2026-01-01T00:00:0{}Z"
    expected = [
        member("last", of="young", created=at.format(0), priority=7),
        plain("first", created=at.format(0)),
        member("z", of="old", created=at.format(9)),  # its group's time counts, not its own
        plain("a", created=at.format(2)),
        plain("b", created=at.format(2)),
        plain("zz", created=at.format(5), namespace="alpha"),
        member("a", of="none", created=at.format(5)),  # without a group its own
        plain("failed-not", created=at.format(6)),
        member("a", of="failed", created=at.format(0)),
        member("x", of="young", created=at.format(0)),
        member("y", of="young", created=at.format(0)),
        plain("low", created=at.format(0), priority=-1),
    ]
    units = [each.info for each in expected]
    shuffled = units[::-1]
    assert sorted(shuffled, key=made.plugin.rank) == units
    ungrouped = [each.info for each in expected if not each.info.groups]
    assert sorted(ungrouped, key=PrioritySort().rank) == ungrouped


@pytest.mark.proves("G9")
def test_equal_times_are_told_apart_by_the_group_and_then_by_name() -> None:
    made = yard()
    made.group(group("m", created="2026-01-01T00:00:00Z"))
    units = [
        each.info
        for each in (plain("a"), member("z", of="m"), member("zz", of="m"), plain("n"), plain("o"))
    ]
    shuffled = units[::-1]
    assert sorted(shuffled, key=made.plugin.rank) == units


@pytest.mark.proves("G8")
def test_a_gang_that_could_not_be_placed_goes_behind_who_came_before_its_failure() -> None:
    made = yard("6", "3")
    mine = made.store(member(created="2026-01-01T00:00:00Z")).info
    other = plain(created="2026-01-02T03:04:05Z").info  # when the attempt fails
    later = plain(created="2026-01-02T03:04:06Z").info
    assert made.plugin.rank(mine) < made.plugin.rank(other)
    made.later(0.25)
    made.decide()
    assert made.plugin.rank(other) < made.plugin.rank(mine) < made.plugin.rank(later)


# --- who is not touched ---------------------------------------------------------------------------


@pytest.mark.proves("G10", "G18")
def test_who_has_no_group_is_not_touched() -> None:
    made = yard("6").having(member())
    made.decide()  # the group is denied
    made.store(plain())
    assert made.batch("alone").conclusion is None
    assert made.decide("alone")["alone"].assigned == 1


@pytest.mark.proves("G10", "G18")
def test_nothing_is_read_for_who_has_no_group() -> None:
    made = yard()
    info, state, nothing = plain().info, CycleState(), Any
    assert made.plugin.gathering(info, nothing, nothing, made.time.at) is None
    assert made.plugin.pre_filter(state, info, nothing, nothing) is SUCCESS
    assert not made.plugin.filter(state, info, nothing, nothing).reasons
    assert made.plugin.permit(state, info, {"a": 1}) is SUCCESS
    assert made.plugin.next_look(info, made.time.at) is None


@pytest.mark.proves("G10")
def test_a_unit_whose_room_a_ledger_holds_is_in_no_group() -> None:
    made = yard("3")
    info = replace(member().info, booked=True)
    assert (
        made.plugin.gathering(info, made.world.snapshot(), made.world.index, made.time.at) is None
    )
    assert made.plugin.pre_filter(CycleState(), info, made.world.snapshot(), made.world.index).ok


# --- denied ---------------------------------------------------------------------------------------


@pytest.mark.proves("G11")
@pytest.mark.parametrize("seconds", [3, 7])
def test_who_is_denied_says_for_how_long_and_says_the_same_until_then(seconds: int) -> None:
    made = yard("6", "3", denied_seconds=seconds).having(member())
    first = said(made.decide()["worker"])
    assert first[1].startswith(f"WorkloadGroup shop/batch is denied for {seconds} s: resource gap")
    for _ in range(2):
        made.later(seconds / 2 - 0.01)
        assert said(made.decide()["worker"]) == first
        assert made.batch().conclusion.tried == ()


@pytest.mark.proves("G11")
def test_a_clock_that_is_set_back_denies_nobody_for_longer() -> None:
    made = yard("6", "3").having(member())
    made.decide()
    assert made.plugin.memory.denied(BATCH, made.time.at)
    made.later(-3600)
    assert made.plugin.memory.denied(BATCH, made.time.at) is None
    assert made.batch().conclusion.gathering.about.tries


@pytest.mark.proves("G11")
def test_the_seconds_come_from_the_configuration() -> None:
    made = Coscheduling(CoschedulingArgs.model_validate({"deniedSeconds": 5}), DryRunHandle())
    assert made.denied_seconds == 5
    for wrong in (0, -1, 901, "3", True, 1.5):
        with pytest.raises(ValidationError):
            CoschedulingArgs.model_validate({"deniedSeconds": wrong})
    with pytest.raises(ValidationError):
        CoschedulingArgs.model_validate({"denied": 3})


def denied() -> Yard:
    """A gang that lacks one unit of room, whose clusters do not tell of more yet."""
    made = yard("6", "3").having(member())
    made.decide()
    made.later(1)
    assert said(made.batch().of((NS, "worker"))) == ("GroupDenied", GAP)
    return made


@pytest.mark.proves("G11")
def test_a_denial_ends_by_itself() -> None:
    made = denied()
    before = estimates()
    made.later(1.9)
    made.batch()
    assert estimates() == before
    made.later(0.2)
    made.batch()
    assert estimates() == before + 1


@pytest.mark.proves("G11")
@pytest.mark.parametrize(
    ("edit", "units"),
    [
        pytest.param(lambda made: made.store(member("small", 4, cpu="1")), 4, id="a new member"),
        pytest.param(lambda made: made.store(member(cpu="2")), 4, id="an edited member"),
        pytest.param(lambda made: made.group(group(min_member=3, generation=2)), 3, id="an edit"),
        pytest.param(lambda made: made.group(group(min_member=3, uid="another")), 3, id="another"),
    ],
)
def test_an_edit_clears_a_denial(edit: Callable[[Yard], object], units: int) -> None:
    made = denied()
    edit(made)
    assert sum(each.assigned for each in made.decide().values()) >= units


@pytest.mark.proves("G11")
def test_a_cluster_that_changed_clears_a_denial() -> None:
    made = denied()
    made.world.cluster_changed(None, room("c", "3"))
    made.plugin.memory.cluster_changed()
    assert made.plugin.memory.denied(BATCH, made.time.at) is None  # and nobody says that it is
    assert made.decide()["worker"].assigned == 4


@pytest.mark.proves("G11", "KD61")
def test_a_quota_that_leaves_more_clears_a_denial() -> None:
    made, feature = denied(), WorkloadGroups()
    feature.memory = made.plugin.memory

    def left(pods: str) -> MemberCluster:
        quota = {"namespace": NS, "name": "team", "free": {"pods": pods}}
        return room("a", "9", status={"quotas": [quota]})

    feature.cluster_changed(left("3"), left("2"))
    assert made.plugin.memory.denied(BATCH, made.time.at)
    feature.cluster_changed(left("2"), left("3"))
    assert made.plugin.memory.denied(BATCH, made.time.at) is None


@pytest.mark.proves("G11")
def test_what_comes_by_while_it_is_denied_is_looked_at_when_that_is_over() -> None:
    made = yard("6", "3")
    info = made.store(member("a", 3)).info
    other = made.store(member("b", 3)).info
    made.decide("a")
    assert made.plugin.next_look(info, made.time.at) is None  # nobody came: nobody looks
    made.later(1)
    made.decide("b")
    assert made.plugin.next_look(other, made.time.at) == pytest.approx(2)
    made.decide("a")
    assert made.plugin.next_look(info, made.time.at) is None  # one comes for all
    made.later(1)
    made.decide("b")  # woken by something else, which was his turn to come
    assert made.plugin.next_look(other, made.time.at) == pytest.approx(1)


# --- too few --------------------------------------------------------------------------------------


@pytest.mark.proves("G12")
def test_the_missing_workload_wakes_the_others_and_all_are_placed() -> None:
    made = yard("99")
    first = made.store(member("a", 2))
    made.decide("a")
    hint = sibling_hint(made)
    second = made.store(member("b", 1))
    assert not hint(first.info, None, second)  # still too few
    third = made.store(member("c", 1))
    assert hint(first.info, None, third)
    assert not hint(first.info, None, known(make.workload("stranger", namespace=NS)))
    assert {n: d.assigned for n, d in made.decide("a").items()} == {"a": 2, "b": 1, "c": 1}


def sibling_hint(made: Yard) -> Any:
    [hint] = [e.hint for e in made.plugin.events_to_register() if e.event.resource == "Workload"]
    return hint


@pytest.mark.proves("G12")
def test_a_workload_that_every_cluster_runs_counts_for_each_of_them() -> None:
    made = yard("9", "9").having(member("every", 2, distribution="Duplicated"))
    assert made.decide("every")["every"].placements == {"a": 2, "b": 2}


# --- the estimate ---------------------------------------------------------------------------------


def estimates() -> float:
    return REGISTRY.get_sample_value("stowage_group_estimates_total") or 0.0


@pytest.mark.proves("G14")
def test_one_estimate_for_an_attempt_of_the_whole_group() -> None:
    made = yard("99")
    for name in ("a", "b", "c", "d", "e"):
        made.store(member(name, 1))
    before = estimates()
    assert len(made.decide("c")) == 5
    assert estimates() == before + 1
    for name in ("a", "b", "c", "d", "e"):  # the quorum has its clusters: none any more
        made.decide(name)
    assert estimates() == before + 1


@pytest.mark.proves("G14")
def test_an_attempt_that_is_made_again_is_estimated_once() -> None:
    made = yard("99")
    info = made.store(member(replicas=4)).info
    before = estimates()
    for _ in range(3):  # the world changes while it is made
        made.world.cluster_changed(None, room("b", "1"))
        snapshot, bound = made.world.snapshot(), made.world.index
        assert made.plugin.gathering(info, snapshot, bound, made.time.at).refusal is None
    assert estimates() == before + 1
    made.later(1)
    made.plugin.gathering(info, snapshot, bound, made.time.at)
    assert estimates() == before + 2


@pytest.mark.proves("G13")
@pytest.mark.parametrize(
    ("clusters", "short"),
    [
        pytest.param(["12"], "", id="exactly enough"),
        pytest.param(["4", "4", "4", "4"], "", id="enough, with a rest everywhere"),
        pytest.param(["11999m"], "cpu 1m more", id="a thousandth short"),
        pytest.param(["6", "3"], "cpu 3 more", id="one unit short"),
        pytest.param(["5", "5", "2"], "cpu 6 more", id="enough in sum, and nowhere at once"),
        pytest.param([], "cpu 12 more", id="no cluster"),
    ],
)
def test_the_room_that_is_missing(clusters: list[str], short: str) -> None:
    made = yard(*clusters).having(member(replicas=4))
    found = made.decide()["worker"]
    assert ("resource gap" in found.message) == bool(short)
    assert short in found.message
    assert found.assigned == (0 if short else 4)


@pytest.mark.proves("G13")
def test_what_no_cluster_may_take_is_no_resource_gap() -> None:
    made = yard("99", "99").having(member("a", 2), member("b", 2, clusterSelector={"disk": "fast"}))
    found = made.decide("a")
    for each in found.values():
        assert "resource gap" not in each.message
        assert "b: 0/2 clusters: 2 didn't match clusterSelector" in each.message
    made.store(member("b", 2, clusterSelector={}))
    assert sum(each.assigned for each in made.decide("b").values()) == 4


@pytest.mark.proves("G13", "G24")
def test_where_one_of_a_placed_gang_goes_before_its_quorum_ran_nothing_is_estimated() -> None:
    """The others want no more units than they have."""
    made = yard("99")
    for name in ("a", "b", "c", "d"):
        made.store(member(name, 1, present={"a": 1}))
    info = made.world.info((NS, "a"))
    assert info is not None
    made.groups.put(info, {})  # it is on its way out
    members, snapshot = made.groups.members(BATCH).values(), made.world.snapshot()
    asked = made.groups.get(BATCH)
    assert asked is not None
    assert gap(asked, members, snapshot) == ""
    for each in made.decide("b").values():
        assert each.reason != "PluginError"


@pytest.mark.proves("G13")
def test_what_goes_whole_to_one_cluster_lacks_all_of_it_there() -> None:
    made = yard("18", "18")
    made.group(group(min_member=12))
    made.store(member(replicas=12, distribution="Single"))
    assert (
        "resource gap: cpu 18 more (6 of 12 replicas have room)" in made.decide()["worker"].message
    )


@pytest.mark.proves("G13")
def test_every_resource_that_is_short_is_named() -> None:
    made = Yard(make.cluster("a", groups=[{"count": 1, "free": {"cpu": "8", "memory": "4Gi"}}]))
    made.group(group())
    made.store(member(pod=pod(cpu="3", memory="2Gi", **{"example.com/gpu": "1"})))
    text = made.decide()["worker"].message
    assert "resource gap: cpu 4 more, example.com/gpu 4 more, memory 4Gi more, pods 4 more" in text


@pytest.mark.proves("G13")
def test_what_is_short_only_together_is_named_together() -> None:
    made = Yard(
        make.cluster(
            "a", groups=[{"count": 1, "free": {"cpu": "12", "memory": "1Gi", "pods": "9"}}]
        ),
        make.cluster(
            "b", groups=[{"count": 1, "free": {"cpu": "1", "memory": "8Gi", "pods": "9"}}]
        ),
    )
    made.group(group(min_member=2))
    made.store(member(replicas=2, pod=pod(cpu="2", memory="2Gi")))
    text = made.decide()["worker"].message
    assert "resource gap: cpu 2 more, memory 2Gi more (0 of 2 replicas have room)" in text


@pytest.mark.proves("G13")
def test_only_usable_clusters_count() -> None:
    made = Yard(
        room("a", "9"),
        room("down", "99", ready=False),
        room("cordoned", "99", unschedulable=True),
        room("going", "99", deleting=True),
        room("tainted", "99", taints=[{"key": "k", "effect": "NoSchedule"}]),
    )
    made.group(group())
    made.store(member(replicas=4))
    assert said(made.decide()["worker"]) == ("GroupDenied", GAP)
    made.store(member(replicas=4, tolerations=[{"key": "k", "operator": "Exists"}]))
    assert made.decide()["worker"].assigned == 4


@pytest.mark.proves("G13")
def test_workloads_with_different_requests_are_added_up_from_the_smallest() -> None:
    made = yard("13").having(member("small", 2, cpu="3"), member("large", 2, cpu="5"))
    assert f"{DENIED}resource gap: cpu 3 more" in made.decide("large")["large"].message
    made.store(member("large", 2, cpu="2"))
    assert sum(each.assigned for each in made.decide("large").values()) == 4


@pytest.mark.proves("G13")
def test_units_that_are_placed_need_no_room() -> None:
    made = yard("3").having(member("other", 3, schedulerName="theirs", present={"z": 3}))
    made.store(member("worker", 1))
    assert made.decide()["worker"].assigned == 1


@pytest.mark.proves("G13")
def test_a_virtual_cluster_has_all_room() -> None:
    made = Yard(room("a", "1", virtual=True))
    made.group(group(minResources={"cpu": "999"}))
    made.store(member(replicas=4))
    assert made.decide()["worker"].assigned == 4


@pytest.mark.proves("G13")
def test_a_patch_that_makes_units_smaller_is_no_resource_gap() -> None:
    smaller = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}
    spreads = Spreads()
    made = Yard(room("a", "6"), ledgers=[spreads])
    made.group(group())
    made.store(member(replicas=4))
    assert "resource gap: cpu 6 more" in made.batch().of((NS, "worker")).message
    spreads.put_spread(
        compile_spread(spread(subset("all", kind="", patch=smaller), target="worker"))
    )
    assert made.decide()["worker"].assigned == 4


@pytest.mark.proves("G23")
@pytest.mark.parametrize(
    ("cpu", "short"),
    [
        pytest.param("13", "", id="enough"),
        pytest.param("12", "", id="exactly enough"),
        pytest.param("11999m", "cpu 1m more", id="one unit short"),
        pytest.param("9", "cpu 3 more", id="three short"),
    ],
)
def test_min_resources_are_looked_for_instead_of_requests(cpu: str, short: str) -> None:
    made = Yard(room("a", cpu))
    made.group(group(minResources={"cpu": "12"}))
    made.store(member(replicas=4, cpu="1"))
    found = made.decide()["worker"]
    assert found.assigned == (0 if short else 4)
    assert (f"resource gap: {short} (for spec.minResources" in found.message) == bool(short)


@pytest.mark.proves("G23")
def test_what_members_have_is_taken_off_min_resources() -> None:
    made = Yard(room("a", "9"))
    made.group(group(minResources={"cpu": "12", "memory": "0"}))
    made.store(member("other", 1, schedulerName="theirs", present={"z": 1}))
    made.store(member("worker", 3))
    assert made.decide()["worker"].assigned == 3


# --- judged ---------------------------------------------------------------------------------------


@pytest.mark.proves("G16")
@pytest.mark.parametrize(
    ("minimum", "found", "keeps"),
    [
        (10, 9, True),
        (10, 8, False),
        (9, 8, False),
        (11, 10, True),
        (19, 18, True),
        (20, 18, True),
        (20, 17, False),
        (100, 90, True),
        (100, 89, False),
        (1, 0, False),
        (4, 3, False),
        (10, 10, False),  # nothing is missing
        (2**31 - 1, 2**31 - 2, True),
    ],
)
def test_at_most_a_tenth_keeps_waiting(minimum: int, found: int, keeps: bool) -> None:
    stored = group(min_member=minimum)
    assert keeps_waiting(yard().group(stored), found) is keeps


@pytest.mark.proves("G5", "G16", "G18")
def test_what_misses_a_tenth_is_held_in_the_books_alone() -> None:
    made = yard("27")
    made.group(group(min_member=10, scheduleTimeoutSeconds=10))
    made.store(member(replicas=12))
    batch = made.batch()
    assert batch.conclusion.verdict.outcome is TrialResult.WAIT
    status = batch.conclusion.verdict.status
    assert (status.code, status.seconds) == (Code.WAIT, 10)
    found = made.decide()["worker"]
    assert found.placements == {}  # nothing of it is written
    assert found.reason is ScheduledReason.WAITING_FOR_GROUP
    assert found.message == (
        "WorkloadGroup shop/batch has a cluster for 9 of 10 replicas (minMember): they are held "
        "until 2026-01-02T03:04:15Z for 1 more"
    )
    assert made.groups.assigned(BATCH) == 9  # and all of it counts
    assert len(made.room) == 1


def holding(**how: Any) -> Yard:
    """Nine of ten units are held for ten seconds."""
    made = yard("27", **how)
    made.group(group(min_member=10, scheduleTimeoutSeconds=10))
    made.store(member(replicas=10))
    made.decide()
    return made


@pytest.mark.proves("G18")
def test_the_sibling_that_completes_the_quorum_lets_everybody_go() -> None:
    made = holding()
    made.world.cluster_changed(None, room("b", "3"))
    made.store(member("late", 1))
    found = made.decide("late")
    assert {name: each.assigned for name, each in found.items()} == {"late": 1}
    assert made.room.get((NS, "worker")).answer(made.time.monotonic()) is PermitAnswer.ALLOWED
    assert made.woken == [(NS, "worker")]


@pytest.mark.proves("G5", "G18")
def test_units_that_others_place_let_everybody_go() -> None:
    made = holding()
    made.plugin.complete(BATCH)
    assert made.woken == []
    made.store(member("other", 1, schedulerName="theirs", present={"z": 1}))
    made.plugin.complete(BATCH)
    assert made.woken == [(NS, "worker")]
    assert made.room.get((NS, "worker")).answer(made.time.monotonic()) is PermitAnswer.ALLOWED


@pytest.mark.proves("G16")
def test_a_sibling_that_finds_nothing_leaves_the_others_waiting() -> None:
    made = holding().having(member("late", 1))
    made.later(4)
    assert made.batch("late").conclusion.verdict.outcome is TrialResult.REFUSE  # it holds nothing
    reason, message = said(made.decide("late")["late"])
    assert (reason, "held until 2026-01-02T03:04:15Z" in message) == ("WaitingForGroup", True)
    assert made.room.get((NS, "worker")).answer(made.time.monotonic()) is PermitAnswer.WAITING


@pytest.mark.proves("G6")
def test_a_wait_that_an_event_interrupts_goes_on_with_what_is_left_of_it() -> None:
    made = holding()
    first = made.room.get((NS, "worker")).said
    made.later(4)
    made.give_back("worker")
    status = made.batch().conclusion.verdict.status
    assert (status.seconds, status.reasons) == (pytest.approx(6), first)
    made.decide()
    made.later(6)
    made.give_back("worker")
    assert made.groups.assigned(BATCH) == 0
    reason, message = said(made.decide()["worker"])
    assert reason == "ScheduleTimeout"
    assert "was held for 10 s (scheduleTimeoutSeconds)" in message


@pytest.mark.proves("G6")
def test_a_wait_that_has_ended_is_not_the_beginning_of_the_next_one() -> None:
    made = holding()
    made.later(4)
    made.give_back("worker")
    made.later(60)
    assert made.batch().conclusion.verdict.status.seconds == 10


@pytest.mark.proves("G6")
def test_where_the_clock_is_set_back_a_wait_is_over_after_one_from_then_on() -> None:
    made = holding()
    made.give_back("worker")
    made.later(-3600)
    made.decide()
    made.give_back("worker")
    made.later(4)
    assert made.batch().conclusion.verdict.status.seconds == pytest.approx(6)


@pytest.mark.proves("G6", "G11")
def test_who_was_held_for_too_long_is_denied_and_fails() -> None:
    made = holding()
    made.later(10)
    made.give_back("worker")
    assert (
        made.plugin.memory.denied(BATCH, made.time.at).status.reason
        is ScheduledReason.SCHEDULE_TIMEOUT
    )
    assert made.plugin.memory.last_failure(BATCH) == "2026-01-02T03:04:15.000000Z"
    made.later(4)
    again = made.batch().conclusion.verdict
    assert (again.outcome, again.status.reason) == (
        TrialResult.REFUSE,
        ScheduledReason.SCHEDULE_TIMEOUT,
    ), "so many units are not held once more"


@pytest.mark.proves("G6")
def test_a_sibling_that_comes_when_the_time_is_over_sets_the_others_free() -> None:
    made = holding()
    made.later(10)
    made.store(member("late", 1))
    assert made.decide("late")["late"].reason is ScheduledReason.SCHEDULE_TIMEOUT
    waiting = made.room.get((NS, "worker"))
    assert waiting.answer(made.time.monotonic()) is PermitAnswer.REJECTED


@pytest.mark.proves("G17")
def test_more_than_a_tenth_missing_rejects_the_gang_and_says_who_why_and_how_much() -> None:
    made = torn()
    found = made.decide("worker")
    assert {each.assigned for each in found.values()} == {0}
    for each in found.values():
        reason, message = said(each)
        assert reason == "GroupDenied"
        assert message.startswith(PULLED.format("worker"))
        assert "1 of 4 replicas (minMember) have a cluster" in message
        assert "worker: 0/1 clusters: " in message
        assert DENIED in message
    assert made.groups.assigned(BATCH) == 0
    first = said(found["worker"])
    made.later(1)
    assert said(made.decide("worker")["worker"]) == first  # so that no status is written twice
    assert made.plugin.memory.why(BATCH).startswith("1 of 4 replicas (minMember) have a cluster; ")


@pytest.mark.proves("G17")
def test_a_rejection_gives_back_what_siblings_hold() -> None:
    made = holding()
    made.group(group(min_member=20, generation=2))
    made.store(member("late", 10))
    found = made.decide("late")["late"]
    assert found.assigned == 0
    waiting = made.room.get((NS, "worker"))
    assert waiting.answer(made.time.monotonic()) is PermitAnswer.REJECTED
    assert waiting.objection == found.message
    assert made.plugin.memory.denied(BATCH, made.time.at) is not None


@pytest.mark.proves("G17")
def test_members_that_are_refused_themselves_count_as_not_placed_and_are_named() -> None:
    made = yard("30").having(member("worker", 3), member("broken", 3))
    others = Others(partner=lambda key: key != (NS, "broken"))
    found = made.decide("worker", others=others)
    assert set(found) == {"worker"}
    assert "3 of 4 replicas (minMember) have a cluster" in found["worker"].message
    assert "without broken: see why in their own conditions" in found["worker"].message


# --- what cannot be tried -------------------------------------------------------------------------


@pytest.mark.proves("G18")
def test_a_label_without_a_group_is_told_and_creating_the_group_mends_it() -> None:
    made = Yard(room("a", "12")).having(member(replicas=4))
    reason, message = said(made.decide()["worker"])
    assert reason == "GroupNotFound"
    assert "WorkloadGroup not found: create shop/batch, or take the label away" in message
    made.group(group())
    assert made.decide()["worker"].assigned == 4


@pytest.mark.proves("G18")
def test_permit_knows_who_has_no_group_and_whose_group_is_not_there() -> None:
    made = Yard(room("a", "12"))
    info = made.store(member(replicas=4, present={"a": 2})).info
    more = made.plugin.permit(CycleState(), info, {"a": 3})
    assert (more.code, more.reason) == (Code.UNSCHEDULABLE, ScheduledReason.GROUP_NOT_FOUND)
    assert made.plugin.permit(CycleState(), info, {"a": 1}) is SUCCESS  # fewer are always granted
    made.group(group())
    assert made.plugin.permit(CycleState(), info, {"a": 4}) is SUCCESS
    assert made.plugin.permit(CycleState(), plain().info, {"a": 4}) is SUCCESS


@pytest.mark.proves("G2")
def test_two_labels_that_differ_are_a_condition() -> None:
    made = yard("12").having(member(labels={LABEL_GROUP: "batch", GROUP_ALIASES[0]: "other"}))
    reason, message = said(made.decide()["worker"])
    assert reason == "AmbiguousGroup"
    assert "WorkloadGroups batch and other" in message
    assert made.groups.desired(BATCH) == 0


@pytest.mark.proves("G1")
@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"minMember": 0}, "spec.minMember: Input should be greater than or equal to 1, not 0"),
        ({"minMember": 2**31}, "spec.minMember: Input should be less than or equal to 2147483647"),
        ({"minMember": "many"}, "spec.minMember"),
        ({"minMember": 1, "scheduleTimeoutSeconds": 901}, "spec.scheduleTimeoutSeconds: "),
        ({"minMember": 1, "minResources": {"cpu": "lots"}}, "spec.minResources.cpu"),
        ({"minMember": 1, "minResources": {"cpu": "-1"}}, "spec.minResources.cpu"),
        ({"minMember": 1, "minResources": {"cpu": ["1"]}}, "spec.minResources.cpu"),
        ({"minMember": 1, "minResources": {"memory": "9e40"}}, "spec.minResources.memory"),
        ({"minMember": 1, "minResources": {"memory": "999E"}}, "spec.minResources.memory"),
        ({"minMember": 1, "topology": {"topologyKey": "a b"}}, "spec.topology.topologyKey"),
        ({"minMember": 1, "topology": {"topologyKey": "a", "mode": "Maybe"}}, "spec.topology.mode"),
        ({"minMember": 1, "topology": 3}, "spec.topology"),
    ],
)
def test_a_group_that_makes_no_sense_is_told_and_places_nothing(
    spec: dict[str, Any], wrong: str
) -> None:
    made = Yard(room("a", "12"))
    made.group(group(min_member=spec.pop("minMember"), **spec))
    made.store(member(replicas=4))
    reason, message = said(made.decide()["worker"])
    assert reason == "InvalidGroup"
    assert wrong in message


@pytest.mark.proves("G21")
def test_no_gang_is_placed_where_nobody_would_open_its_gate() -> None:
    made = yard("99").having(member(replicas=4))
    made.handle.choose(lambda plugin: plugin != "Coscheduling")
    reason, message = said(made.decide()["worker"])
    assert reason == "GroupDenied"
    assert "the controller of plugin Coscheduling is switched off" in message
    assert made.plugin.next_look(made.workloads[NS, "worker"].info, made.time.at) is None


# --- the gate -------------------------------------------------------------------------------------


@pytest.mark.proves("G24")
def test_a_closed_gate_takes_the_placements_of_ours_back() -> None:
    made, told = yard("99"), {"uid-a": decision_of({"a": 2})}
    made.group(group(status={"gate": "Closed", "decisions": told}))
    made.store(member("a", 2, present={"a": 2}, shown=[{"name": "a", "replicas": 2, "ready": 2}]))
    made.store(member("b", 2, present={"a": 2}))
    made.store(member("c", 2, schedulerName="theirs", present={"a": 2}))
    found = made.decide("a")
    assert {name: dict(each.placements) for name, each in found.items()} == {"a": {}, "b": {}}
    assert found["a"].reason is ScheduledReason.GROUP_WITHDRAWN
    assert made.plugin.memory.denied(BATCH, made.time.at) is None  # the group says when it is tried
    assert made.batch("a").conclusion is None


@pytest.mark.proves("G24")
def test_a_closed_gate_takes_back_what_a_denied_gang_has_as_well() -> None:
    made = yard("6", "3")
    made.store(member("a", 2, present={"a": 2}, shown=[{"name": "a", "replicas": 2, "ready": 2}]))
    made.store(member("b", 3))
    assert sum(each.assigned for each in made.decide("b").values()) == 2  # what runs stays
    told = {"uid-a": decision_of({"a": 2})}
    made.group(group(status={"gate": "Closed", "decisions": told}))
    assert made.decide("a")["a"].placements == {}


@pytest.mark.proves("G24")
def test_nothing_is_tried_before_the_time_that_the_group_says() -> None:
    made = yard("99")
    at = made.time.at + timedelta(seconds=20)
    made.group(group(status={"retryTime": at.isoformat()}))
    info = made.store(member(replicas=4)).info
    reason, message = said(made.decide()["worker"])
    assert (reason, "it is tried again at 2026-01-02T03:04:25Z" in message) == (
        "GroupWithdrawn",
        True,
    )
    assert made.plugin.next_look(info, made.time.at) == 20
    made.later(20)
    assert made.decide()["worker"].assigned == 4


def test_half_a_gang_that_was_written_and_never_released_is_taken_back() -> None:
    """The process died between the writes, and the rest does not fit any more."""
    made = yard("3").having(member("a", 2, present={"z": 2}))
    made.world.cluster_changed(None, room("z", "0"))
    made.store(member("b", 2))
    found = made.decide("b")
    assert {name: each.assigned for name, each in found.items()} == {"a": 0, "b": 0}


def test_what_was_released_or_runs_is_never_taken_back() -> None:
    made = yard("1")
    told = {"uid-a": decision_of({"z": 1})}
    made.group(group(status={"gate": "Open", "decisions": told}))
    made.world.cluster_changed(None, room("z", "0"))
    made.store(member("a", 1, present={"z": 1}))
    made.store(member("b", 1, present={"z": 1}, shown=[{"name": "z", "replicas": 1, "current": 1}]))
    made.store(member("c", 2))
    found = made.decide("c")
    assert {name: each.assigned for name, each in found.items()} == {"a": 1, "b": 1, "c": 0}


@pytest.mark.proves("G12")
def test_too_few_siblings_take_back_what_was_never_released() -> None:
    made = yard("99").having(member("a", 2, present={"a": 2}))
    found = made.decide("a")["a"]
    assert (dict(found.placements), found.reason) == ({}, ScheduledReason.GROUP_INCOMPLETE)
    assert "has 2 replicas in all its Workloads, minMember is 4" in found.message


# --- where ----------------------------------------------------------------------------------------


def test_no_member_is_decided_without_its_group() -> None:
    made = yard("99")
    info = made.store(member(replicas=4)).info
    snapshot, bound = made.world.snapshot(), made.world.index
    alone = made.plugin.pre_filter(CycleState(), info, snapshot, bound)
    assert (alone.code, alone.reason) == (Code.UNSCHEDULABLE, ScheduledReason.GROUP_DENIED)
    assert made.plugin.next_look(info, made.time.at) == 1  # it comes again
    state = CycleState(data={made.plugin.name: Attempt()})
    assert made.plugin.pre_filter(state, info, snapshot, bound).ok
