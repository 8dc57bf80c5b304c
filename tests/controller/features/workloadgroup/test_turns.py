"""Gangs that want the same room: the later yields, the older has its turn, and none starves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from controller.features.workloadgroup.compiled import WorkloadGroup
from controller.features.workloadgroup.fairness import TURN, Findings, turn
from controller.features.workloadgroup.feature import WorkloadGroups
from controller.features.workloadgroup.memory import Denial, GroupMemory
from controller.scheduling.batch import decide_set
from controller.scheduling.decision import Decision
from controller.scheduling.sets import Batch
from controller.scheduling.steps import at_once
from crds.workload import ScheduledReason
from tests.controller import make
from tests.controller.features.workloadgroup.gang_traffic import (
    Arrival,
    Figures,
    InModel,
    InYard,
    run,
    traffic,
)
from tests.controller.features.workloadgroup.ganging import NS, Yard, group, member, room

pytestmark = pytest.mark.proves("G8", "G16")


def at(seconds: float) -> str:
    """A time of creation, so long before now."""
    return (make.NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def gang(yard: Yard, name: str, units: int, quorum: int, cpu: str = "1", **how: Any) -> None:
    """A group of one Workload of that name."""
    about = {k: how.pop(k) for k in ("topology", "minResources", "status") if k in how}
    created = how.pop("created", at(10))
    yard.group(group(name, quorum, created=created, **about))
    yard.store(member(name, units, of=name, cpu=cpu, created=created, **how))


def held(yard: Yard, name: str) -> Any:
    return yard.room.get((NS, name))


def rejected(yard: Yard, name: str) -> bool:
    return held(yard, name).rejected


def told(yard: Yard, name: str) -> Decision:
    return yard.decide(name)[name]


def come(yard: Yard, name: str, units: int, quorum: int, *cpu: str, **how: Any) -> Decision:
    """A group of one Workload comes and is decided."""
    gang(yard, name, units, quorum, *cpu, **how)
    return told(yard, name)


# --- who gives way --------------------------------------------------------------------------------


def resized(yard: Yard, name: str, cpu: str | None) -> None:
    """The cluster has so much room by now; None for one that is gone."""
    old = next(each for each in yard.world.snapshot().clusters if each.metadata.name == name)
    yard.world.cluster_changed(old, None if cpu is None else room(name, cpu))
    yard.plugin.memory.cluster_changed()


def two_that_hold() -> Yard:
    """Each holds nine of ten, `b` where there is room by now for what `a`, the earlier, lacks."""
    yard = Yard(room("c", "45"), room("d", "4900m"))
    gang(yard, "a", 10, 10, cpu="5", created=at(60))
    gang(yard, "b", 10, 10, cpu="540m", created=at(30))
    assert told(yard, "a").reason is ScheduledReason.WAITING_FOR_GROUP
    assert told(yard, "b").reason is ScheduledReason.WAITING_FOR_GROUP
    assert held(yard, "a")
    assert held(yard, "b")
    resized(yard, "d", "5")
    return yard


def test_of_two_that_hold_against_each_other_the_later_gives_way_at_once():
    yard = two_that_hold()
    yard.give_back("a")  # the new room has woken it
    told(yard, "a")
    found = held(yard, "b")
    assert found is not None
    assert (found.rejected, found.objection) == (True, "gives way to WorkloadGroup shop/a")
    assert (NS, "b") in yard.woken
    yard.give_back("b")
    yard.give_back("a")
    assert told(yard, "a").assigned == 10
    assert told(yard, "b").assigned == 0


def elsewhere(yard: Yard, name: str, units: int, created: str) -> Batch:
    """What is decided of a gang of another namespace, as who leads notes it."""
    yard.group(group(name, units, namespace="secret", created=created))
    yard.store(member(name, units, of=name, cpu="1", namespace="secret", created=created))
    info = yard.world.info(("secret", name))
    assert info is not None
    batch = at_once(decide_set(yard.world, info, yard.profiles, yard.time.at))
    assert batch.conclusion is not None
    batch.conclusion.note()
    return batch


def test_who_gives_way_is_not_told_the_name_of_a_gang_of_another_namespace():
    yard = Yard(room("c", "9"))
    come(yard, "late", 10, 10, created=at(30))
    elsewhere(yard, "early", 9, at(60))
    assert held(yard, "late").objection == "gives way to a gang of another namespace"
    yard.give_back("late")
    said = told(yard, "late").message
    assert "WorkloadGroup shop/late gives way to a gang of another namespace" in said
    assert "early" not in said
    assert "secret" not in said


def test_the_earlier_does_not_give_way_for_the_later():
    yard = two_that_hold()
    yard.give_back("b")
    told(yard, "b")
    assert not rejected(yard, "a")


def test_who_gave_way_holds_nothing_until_the_other_is_decided():
    yard = two_that_hold()
    yard.give_back("a")
    told(yard, "a")
    yard.give_back("b")
    said = told(yard, "b").message  # it comes first
    assert "WorkloadGroup shop/b gives way to WorkloadGroup shop/a" in said
    assert held(yard, "b") is None
    yard.give_back("a")
    assert told(yard, "a").assigned == 10


def test_who_gave_way_for_one_that_is_gone_may_hold_again():
    yard = two_that_hold()
    yard.give_back("a")
    told(yard, "a")
    assert rejected(yard, "b")
    yard.give_back("a")
    yard.delete("a")
    yard.groups.drop_group((NS, "a"))
    yard.plugin.memory.forget((NS, "a"))
    yard.give_back("b")
    resized(yard, "c", None)
    resized(yard, "d", "4900m")
    assert told(yard, "b").reason is ScheduledReason.WAITING_FOR_GROUP
    assert held(yard, "b")


def test_a_member_that_finds_nothing_beside_those_that_hold_hides_not_what_they_hold():
    yard = Yard(room("c", "9"))
    come(yard, "b", 8, 10, created=at(30))
    assert held(yard, "b") is None, "it is not complete"
    yard.store(member("c", 1, of="b", cpu="1", created=at(30)))
    yard.store(member("d", 1, of="b", cpu="1", created=at(30)))
    yard.later(4)
    told(yard, "b")
    assert held(yard, "b")
    yard.later(4)
    assert told(yard, "d").reason is ScheduledReason.WAITING_FOR_GROUP
    come(yard, "a", 9, 9, created=at(60))
    assert rejected(yard, "b")


def test_an_earlier_one_that_is_refused_gets_what_a_later_one_merely_holds():
    yard = Yard(room("c", "9"))
    gang(yard, "a", 9, 9, created=at(60))
    come(yard, "b", 10, 10, created=at(30))
    assert "resource gap" in told(yard, "a").message
    assert held(yard, "b").objection == "gives way to WorkloadGroup shop/a"
    yard.give_back("b")
    assert told(yard, "a").assigned == 9, "it is denied no longer"


@pytest.mark.parametrize(
    ("units", "how"),
    [
        (30, {}),
        (4, {"clusterSelector": {"stowage.dev/cluster": "d"}}),
        (4, {"created": at(20)}),
    ],
    ids=["would not fit even so", "may not go there", "is later"],
)
def test_holds_that_do_not_matter_are_left_alone(units, how):
    yard = Yard(room("c", "9"), room("d", "1"))
    come(yard, "b", 11, 11, created=at(30))
    assert come(yard, "a", units, units, **{"created": at(60), **how}).assigned == 0
    assert not rejected(yard, "b")


def test_no_more_give_way_than_are_needed_and_the_latest_first():
    yard = Yard(room("c", "18"), room("d", "1800m"))
    come(yard, "b", 10, 10, "2", created=at(30))
    come(yard, "z", 10, 10, "200m", created=at(20))
    assert held(yard, "z")
    come(yard, "a", 5, 5, "300m", created=at(60))
    assert (rejected(yard, "b"), rejected(yard, "z")) == (False, True)


def test_nobody_begins_to_hold_where_an_earlier_one_would_find_what_it_lacks():
    yard = Yard(room("c", "45"))
    gang(yard, "a", 10, 10, cpu="5", created=at(60))
    gang(yard, "b", 10, 10, created=at(30))
    told(yard, "a")
    assert held(yard, "a")
    yard.world.cluster_changed(None, room("d", "9"))
    assert "gives way to WorkloadGroup shop/a" in told(yard, "b").message
    assert held(yard, "b") is None
    yard.give_back("a")
    assert told(yard, "a").assigned == 10
    assert (NS, "b") in yard.handle.looked


def test_nobody_holds_again_where_an_earlier_one_would_fit_by_columns():
    """On the nodes it does not fit. Those that come hold nothing there, and are placed in full."""
    yard = Yard(room("c", "1", nodes=9))
    come(yard, "b", 10, 10, created=at(30))
    come(yard, "a", 2, 2, cpu="3", created=at(60))
    assert rejected(yard, "b")
    yard.give_back("b")
    yard.later(4)
    assert told(yard, "a").assigned == 0
    yard.later(4)
    assert "gives way to WorkloadGroup shop/a" in told(yard, "b").message
    assert held(yard, "b") is None
    yard.world.cluster_changed(None, room("d", "1"))
    yard.plugin.memory.cluster_changed()
    assert told(yard, "b").assigned == 10


def test_who_gave_way_is_decided_again_once_and_not_at_each_refusal_of_the_other():
    yard = Yard(room("c", "1", nodes=9))
    come(yard, "a", 2, 2, cpu="3", created=at(400))
    assert "gives way to WorkloadGroup shop/a" in come(yard, "b", 10, 10, created=at(30)).message
    yard.handle.looked.clear()
    yard.later(4)
    assert told(yard, "a").assigned == 0
    assert not yard.handle.looked
    gang(yard, "a", 2, 2, cpu="3", created=at(400), clusterSelector={"tier": "gold"})
    yard.later(4)
    assert told(yard, "a").assigned == 0
    assert list(yard.handle.looked) == [(NS, "b")], "it no longer lacks room"


def late_in_two_sets() -> Yard:
    """`late` holds 18 units of `a`, and one of `n` in a set that came later; `x` finds nothing."""
    yard = Yard(room("c", "19"))
    yard.group(group("late", 20, created=at(30)))
    yard.store(member("a", 18, of="late", cpu="1", created=at(30)))
    yard.store(member("x", 2, of="late", cpu="50", created=at(30)))
    told(yard, "a")
    yard.store(member("n", 1, of="late", cpu="1", created=at(30)))
    told(yard, "n")
    assert held(yard, "a")
    assert held(yard, "n")
    return yard


@pytest.mark.parametrize("how", ["in several", "one is decided anew", "held on"])
def test_all_sets_of_one_that_holds_in_several_give_way(how: str):
    yard = late_in_two_sets()
    if how == "one is decided anew":
        yard.give_back("a")
        told(yard, "x")
    elif how == "held on":  # it came to no decision
        for each in [yard.give_back("a"), yard.give_back("n")]:
            yard.hold_on(each)
    come(yard, "early", 19, 19, created=at(60))
    assert rejected(yard, "a")
    assert rejected(yard, "n")
    yard.give_back("a")
    told(yard, "early")
    assert held(yard, "early"), "it holds what was given back"
    yard.later(4)
    yard.give_back("n")
    yard.give_back("early")
    assert told(yard, "early").assigned == 19


def test_a_set_that_is_given_back_leaves_what_the_others_hold_known():
    yard = late_in_two_sets()
    gang(yard, "tiny", 1, 1, created=at(60))
    yard.give_back("a")
    assert come(yard, "early", 18, 18, created=at(61)).assigned == 18
    told(yard, "tiny")
    assert rejected(yard, "n")


def test_what_a_gang_holds_is_known_when_a_member_joins_it():
    yard = Yard(room("c", "9"))
    come(yard, "late", 10, 10, created=at(30))
    yard.plugin.memory.clear_denied((NS, "late"))
    come(yard, "early", 9, 9, created=at(60))
    assert rejected(yard, "late")
    yard.plugin.memory.clear_denied((NS, "late"))
    yard.woken.clear()
    yard.handle.looked.clear()
    yard.give_back("late")
    assert list(yard.handle.looked) == [(NS, "early")]


# --- whose turn it is -----------------------------------------------------------------------------


def crowded(waited: float = 400, **args: Any) -> Yard:
    """A gang runs on half of the fleet; a big one waits for all but two cpu of it."""
    yard = Yard(room("c", "10"), **args)
    assert come(yard, "runs", 4, 4, created=at(waited + 100)).assigned == 4
    assert come(yard, "big", 8, 8, created=at(waited)).assigned == 0
    return yard


def test_a_small_gang_passes_a_big_one_that_cannot_be_placed():
    yard = crowded(waited=100)
    assert come(yard, "small", 2, 2, created=at(0)).assigned == 2


def test_later_gangs_stand_behind_one_that_has_waited_for_long():
    yard = crowded()
    said = come(yard, "small", 2, 2, created=at(0)).message
    since = at(400)
    assert f"kept for WorkloadGroup shop/big, which waits since {since}" in said
    assert not yard.groups.assigned((NS, "small"))
    yard.delete("runs")
    yard.later(4)
    assert told(yard, "big").assigned == 8
    assert told(yard, "small").assigned == 2


def test_who_stands_behind_is_not_told_the_name_of_a_gang_of_another_namespace():
    [said] = elsewhere(crowded(), "small", 2, at(0)).decisions
    assert f"kept for a gang of another namespace, which waits since {at(400)}" in said.message
    assert "shop" not in said.message


@pytest.mark.parametrize(
    ("patience", "waited", "starts"),
    [(300, 299, 2), (300, 301, 0), (0, 10**6, 2), (30, 31, 0), (10**6, 10**5, 2)],
)
def test_the_patience_is_configured(patience, waited, starts):
    yard = crowded(waited, patience_seconds=patience)
    assert come(yard, "small", 2, 2, created=at(0)).assigned == starts


def test_earlier_ones_and_more_important_ones_go_ahead():
    yard = crowded()
    gang(yard, "old", 2, 2, created=at(401))
    gang(yard, "urgent", 2, 2, created=at(0), priority=10)
    assert told(yard, "old").assigned == 2
    assert told(yard, "urgent").assigned == 2


@pytest.mark.proves("G10")
def test_workloads_without_a_group_and_gangs_that_run_go_on():
    yard = crowded()
    yard.store(member("alone", 1, labels={}, cpu="1"))
    assert told(yard, "alone").assigned == 1
    yard.store(member("more", 2, of="runs", cpu="1", created=at(0)))
    assert told(yard, "more").assigned == 2


def test_clusters_that_it_cannot_use_are_free_for_everybody():
    yard = Yard(room("c", "10", labels={"tier": "gold"}), room("d", "10"))
    gold = {"clusterSelector": {"tier": "gold"}}
    come(yard, "runs", 4, 4, created=at(500), **gold)
    come(yard, "big", 8, 8, created=at(400), **gold)
    gang(yard, "small", 2, 2, created=at(0))
    assert dict(told(yard, "small").placements) == {"d": 2}


def test_of_domains_only_those_where_it_could_fit_are_kept():
    zones = [room(n, cpu, labels={make.ZONE: n}) for n, cpu in (("x", "10"), ("y", "5"))]
    yard = Yard(*zones)
    come(yard, "runs", 4, 4, created=at(500), clusterSelector={make.ZONE: "x"})
    come(yard, "big", 8, 8, created=at(400), topology={"topologyKey": make.ZONE})
    gang(yard, "small", 2, 2, created=at(0))
    assert dict(told(yard, "small").placements) == {"y": 2}


def test_one_that_would_not_fit_even_so_keeps_nobody_out():
    yard = Yard(room("c", "10"))
    come(yard, "runs", 4, 4, created=at(500))
    come(yard, "huge", 11, 11, created=at(400))
    come(yard, "dear", 2, 2, created=at(400), minResources={"cpu": "11"})
    assert come(yard, "small", 2, 2, created=at(0)).assigned == 2


def test_one_that_no_node_is_large_enough_for_keeps_nobody_out_where_no_gang_is():
    yard = Yard(room("c", "1", nodes=10))
    come(yard, "runs", 4, 4, created=at(500))
    come(yard, "big", 4, 4, cpu="2", created=at(400))
    assert come(yard, "small", 2, 2, created=at(0)).assigned == 0
    yard.delete("runs")
    yard.later(6)
    assert told(yard, "big").assigned == 0
    assert told(yard, "small").assigned == 2


def test_room_that_others_than_gangs_take_is_nobodys_turn():
    yard = Yard(room("c", "10"))
    yard.store(member("alone", 4, labels={}, cpu="1"))
    told(yard, "alone")
    come(yard, "big", 8, 8, created=at(400))
    assert come(yard, "small", 2, 2, created=at(0)).assigned == 2


def test_room_of_gangs_that_have_ended_is_free_already():
    yard = crowded()
    yard.group(group("runs", 4, created=at(500), status={"phase": "Finished"}))
    yard.later(6)
    told(yard, "big")
    assert come(yard, "small", 2, 2, created=at(0)).assigned == 2


def test_one_that_failed_on_members_keeps_nobody_out_until_it_is_tried_again():
    yard = crowded()
    retry = (yard.time.at + timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    yard.group(group("big", 8, created=at(400), status={"failures": 1, "retryTime": retry}))
    yard.plugin.memory.clear_denied((NS, "big"))
    yard.later(6)
    assert come(yard, "small", 2, 2, created=at(0)).assigned == 2


def test_a_restart_forgets_nobody_though_the_later_one_comes_first():
    yard = crowded()
    yard.plugin.memory.clear()
    assert come(yard, "small", 2, 2, created=at(0)).assigned == 0


def test_a_gang_waits_since_its_quorum_was_there():
    yard = crowded(waited=400)
    yard.delete("big")
    yard.plugin.memory.clear_denied((NS, "big"))
    yard.store(member("big", 4, of="big", cpu="1", created=at(400)))
    yard.store(member("rest", 4, of="big", cpu="1", created=at(5)))
    told(yard, "big")
    assert come(yard, "small", 2, 2, created=at(0)).assigned == 2


def test_who_stands_behind_is_looked_at_when_the_turn_is_over():
    yard = crowded()
    come(yard, "small", 2, 2, created=at(0))
    info = yard.world.info((NS, "small"))
    seconds = yard.plugin.memory.turns.again((NS, "small"), yard.time.at)
    assert seconds == pytest.approx(300 + TURN * 300 - 400)
    assert yard.plugin.next_look(info, yard.time.at) is not None


def test_no_member_is_relied_on_to_come_for_the_others():
    """The first may be another scheduler's, or one that cannot be decided."""
    yard = crowded()
    yard.group(group("small", 2, created=at(0)))
    for name in ("first", "second"):
        yard.store(member(name, 1, of="small"))
    yard.decide("second")
    for name in ("first", "second"):
        assert yard.plugin.next_look(yard.world.info((NS, name)), yard.time.at) is not None
    looked: list[Any] = []
    yard.plugin._handle.look = looked.extend
    yard.delete("runs")
    yard.later(4)
    told(yard, "big")
    assert sorted(looked) == [(NS, "first"), (NS, "second")]


@pytest.mark.parametrize(
    ("waited", "left"),
    [(299, 0), (300, 3600), (3899, 1), (3900, 0), (7499, 0), (7500, 3600), (11099, 1), (11100, 0)],
)
def test_a_rest_follows_each_turn(waited, left):
    assert turn(waited, 300) == pytest.approx(left)


def test_one_has_the_turn_at_a_time_and_the_older_first():
    yard = crowded()
    said = come(yard, "second", 9, 9, created=at(390)).message
    assert "kept for WorkloadGroup shop/big" in said or "resource gap" in said
    assert "kept for WorkloadGroup shop/big" in come(yard, "small", 2, 2, created=at(0)).message
    yard.delete("runs")
    yard.later(6)
    assert told(yard, "big").assigned == 8
    assert "kept for WorkloadGroup shop/second" in told(yard, "small").message


def test_of_two_gangs_that_each_need_more_than_half_one_runs_after_the_other():
    yard = Yard(room("c", "8"), room("d", "8"))
    gang(yard, "a", 9, 9, created=at(60))
    gang(yard, "b", 9, 9, created=at(30))
    assert told(yard, "a").assigned == 9
    assert told(yard, "b").assigned == 0
    assert held(yard, "b") is None, "nothing of it is held meanwhile"
    yard.delete("a")
    yard.later(4)
    assert told(yard, "b").assigned == 9


# --- ten thousand arrivals ------------------------------------------------------------------------

CAPACITY = 64
PATIENCE = 300
LONGEST = 400
"""Seconds that the longest gang runs."""


def late(arrivals: Sequence[Arrival], started: Mapping[str, int], patience: int) -> list[Arrival]:
    """Those that start after the bound which `turns` tells.

    S is what those that run when it is old take to end, and those before it in line.
    """
    found = []
    for number, each in enumerate(arrivals):
        old = each.at + patience
        if started[each.name] <= old:
            continue
        near = arrivals[max(number - 2000, 0) : number]  # nobody older still waits
        needed = LONGEST * (1 + sum(started[other.name] > old for other in near))
        most = needed if needed <= TURN * patience else 5 * needed
        if started[each.name] > old + most:
            found.append(each)
    return found


ARRIVALS = traffic(10_000, capacity=CAPACITY, every=11, large=0.01)


@pytest.mark.long
@pytest.mark.proves("G7", "G8")
def test_in_ten_thousand_arrivals_nobody_starves_and_small_ones_pass():
    world = InModel(CAPACITY, PATIENCE)
    assert not late(ARRIVALS, run(world, ARRIVALS), PATIENCE)
    large = {each.name for each in ARRIVALS if each.units > CAPACITY // 2}
    assert len(large) > 50
    passed = {big for big, _ in world.passed}
    assert len(passed & large) > 0.9 * len(large), "the others stood behind another large one"


@pytest.mark.long
def test_turns_use_more_room_than_other_rules(capsys):
    worlds = {
        "with turns": InModel(CAPACITY, PATIENCE),
        "first come, first served": InModel(CAPACITY, PATIENCE, fifo=True),
        "no rule": InModel(CAPACITY, 0),
    }
    found = {
        name: Figures.of(ARRIVALS, run(world, ARRIVALS), CAPACITY) for name, world in worlds.items()
    }
    with capsys.disabled():
        print()
        for name, figures in found.items():
            print(f"{name:>26}: {figures}")
    ours, fifo, none = found.values()
    assert none.worst_large > 20 * ours.worst_large, "without the rule they starve"
    assert ours.mean < fifo.mean, "small ones need not wait for large ones"
    assert ours.use > 0.99 * fifo.use
    assert ours.use > none.use


@pytest.mark.long
@pytest.mark.parametrize("number", [60, pytest.param(150, marks=pytest.mark.long)])
def test_the_model_of_the_traffic_starts_everybody_when_the_controller_does(number):
    """Gangs of eight units at most, which never hold room: nine of ten is another number of ten."""
    arrivals = traffic(number, capacity=8, every=35, large=0.05)
    assert run(InModel(8, PATIENCE), arrivals) == run(InYard(8, PATIENCE), arrivals)


def small_behind_big() -> tuple[Yard, Callable[[], float | None]]:
    """`big` has the turn and `small` stands behind it; when that is looked at again."""
    yard = crowded()
    assert "kept for WorkloadGroup shop/big" in come(yard, "small", 2, 2, created=at(0)).message
    info = yard.world.info((NS, "small"))
    assert info is not None
    return yard, lambda: yard.plugin.next_look(info, yard.time.at)


# --- the turn is over -----------------------------------------------------------------------------


def test_one_that_wants_too_few_units_meanwhile_is_not_looked_at_without_end() -> None:
    yard, look = small_behind_big()
    left = look()
    assert left is not None
    yard.store(member("small", 1, of="small", cpu="1", created=at(0)))
    yard.later(left + 1)
    told(yard, "small")
    assert look() is None


def test_one_that_is_denied_when_the_turn_is_over_is_not_looked_at_without_pause() -> None:
    yard, look = small_behind_big()
    left = look()
    assert left is not None
    yard.later(left - 1)
    told(yard, "small")
    yard.later(1.001)
    told(yard, "small")
    yard.handle.looked.clear()
    again = look()
    assert again is not None
    assert again > 0
    assert list(yard.handle.looked) == [(NS, "small")]
    assert told(yard, "small").assigned == 2, "what it was denied for has ended"


def test_a_look_is_given_though_the_turn_ends_while_the_decision_is_written() -> None:
    yard, look = small_behind_big()
    left = look()
    assert left is not None
    yard.later(left - 0.01)
    told(yard, "small")
    yard.later(5)
    yard.handle.looked.clear()
    assert look() is None
    assert list(yard.handle.looked) == [(NS, "small")]
    assert look() is None
    assert len(yard.handle.looked) == 1, "one look, whoever asks"
    assert told(yard, "small").assigned == 2


def test_the_look_at_the_end_of_the_turn_finds_it_ended() -> None:
    """It is kept on another clock than the turn, which may go a little faster."""
    yard, look = small_behind_big()
    left = look()
    assert left is not None
    yard.later(left - 0.0005)
    assert told(yard, "small").assigned == 2


def test_who_is_edited_stands_behind_nobody() -> None:
    yard, look = small_behind_big()
    yard.plugin.memory.turns.over((NS, "small"))
    assert look() is None


# --- it waits no longer itself --------------------------------------------------------------------


def feature_of(yard: Yard) -> WorkloadGroups:
    """The feature that hears what is stored in the yard."""
    feature = WorkloadGroups()
    feature.ledger, feature.memory = yard.groups, yard.plugin.memory
    feature.attach(yard.handle)
    return feature


def stored(yard: Yard, feature: WorkloadGroups, name: str, units: int, **how: Any) -> None:
    """The Workload of that name, now of so many units, as the informer tells it."""
    old = yard.workloads[NS, name]
    given = {"of": name, "cpu": "1", "created": old.metadata.creation_timestamp, **how}
    feature.workload_changed(old, yard.store(member(name, units, **given)))


def made_way() -> Yard:
    """`b` gave way for `a`, and neither holds anything; there is room for nine units of `b`."""
    yard = two_that_hold()
    yard.give_back("a")
    told(yard, "a")
    yard.give_back("b")
    assert "gives way to WorkloadGroup shop/a" in told(yard, "b").message
    yard.give_back("a")
    resized(yard, "c", None)
    resized(yard, "d", "4900m")
    return yard


@pytest.mark.parametrize(
    ("units", "how"),
    [(5, {}), (10, {"present": {"far": 10}})],
    ids=["wants too few units", "was placed by hand"],
)
def test_who_gave_way_for_one_that_waits_no_more_may_hold_again(units, how) -> None:
    yard = made_way()
    feature = feature_of(yard)
    yard.handle.looked.clear()
    stored(yard, feature, "a", units, **how)
    assert list(yard.handle.looked) == [(NS, "b")]
    assert told(yard, "b").reason is ScheduledReason.WAITING_FOR_GROUP
    assert held(yard, "b")


@pytest.mark.parametrize("how", ["fewer units", "placed by hand", "minMember", "fault", "deleted"])
def test_those_behind_one_that_waits_no_more_start_at_once(how: str) -> None:
    yard, _ = small_behind_big()
    feature = feature_of(yard)
    yard.handle.looked.clear()

    def edited(**spec: Any) -> WorkloadGroup:
        return group("big", spec.pop("least", 8), created=at(400), generation=2, **spec)

    before = group("big", 8, created=at(400))
    if how == "fewer units":
        stored(yard, feature, "big", 7)
    elif how == "placed by hand":
        stored(yard, feature, "big", 8, present={"far": 8})
    elif how == "deleted":
        feature.watches[0].handler(before, None)
    else:
        spec = {"least": 9} if how == "minMember" else {"scheduleTimeoutSeconds": 10**6}
        feature.group_changed(before, edited(**spec))
    assert (NS, "small") in yard.handle.looked
    assert told(yard, "small").assigned == 2, "it is denied no longer"


def test_one_that_wants_fewer_units_and_enough_keeps_its_turn() -> None:
    yard = crowded()
    yard.group(group("big", 7, created=at(400)))
    gang(yard, "small", 2, 2, created=at(0))
    told(yard, "big")
    told(yard, "small")
    feature = feature_of(yard)
    yard.handle.looked.clear()
    stored(yard, feature, "big", 7)
    assert not yard.handle.looked
    yard.later(4)
    assert told(yard, "small").assigned == 0


def test_who_comes_back_for_a_short_denial_is_told_though_a_longer_one_went_before() -> None:
    """Two profiles may deny for different times, and the clock may be set."""
    memory, key = GroupMemory(), (NS, "small")

    def due(seconds: int, who: str) -> bool:
        memory.deny(key, Denial(make.NOW, seconds, Findings(0, "uid", 1, 1)))
        memory.ask(key)
        until = memory.denied(key, make.NOW)
        assert until is not None
        return memory.due(key, until.until, (NS, who))

    assert due(900, "one")
    assert due(3, "another")
