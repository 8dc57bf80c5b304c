"""The gate and the status of a group follow from what is stored alone, without a hub."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from controller.features.workloadgroup.gate import gate as gates
from controller.features.workloadgroup.gate.gate import (
    NO_DOUBTS,
    Gate,
    Standing,
    Unconfirmed,
    failure_of,
    gate_of,
)
from controller.features.workloadgroup.gate.status import GroupFacts, differs, look, words_alone
from crds.groups.gate import GateState, decision_of
from crds.groups.workloadgroup import MOST_GATE_BYTES, MOST_WORKLOADS
from machinery.clock import timestamp
from tests.controller.features.workloadgroup.gangs import START, Gang, Stored
from tests.examples import examples

WRITING = Unconfirmed(writing=True)
FRESH = Unconfirmed(fresh=True)


@pytest.fixture
def gang() -> Gang:
    """A driver of one unit and a worker of five, of which four must run."""
    return Gang(Stored("driver", replicas=1), Stored("worker", replicas=5))


def placed(gang: Gang) -> Gang:
    return gang.place(driver={"m1": 1}, worker={"m1": 1, "m2": 2})


def opened(gang: Gang) -> Gang:
    placed(gang).look()
    return gang


def failed(gang: Gang, state: str = "Failed") -> None:
    """The worker fails before the quorum runs, so that the gate closes."""
    opened(gang).report("worker", state).look()
    assert gang.status["gate"] == "Closed"


def running(gang: Gang) -> Gang:
    opened(gang).run().look()
    assert gang.status["phase"] == "Running"
    return gang


# --- opening --------------------------------------------------------------------------------------


@pytest.mark.proves("G3", "G4")
def test_it_opens_at_the_quorum_and_not_below(gang: Gang):
    gang.place(driver={"m1": 1}, worker={"m1": 2}).look()
    assert "gate" not in gang.status
    assert not gang.open
    gang.place(worker={"m1": 1, "m2": 2}).look()
    assert gang.status["gate"] == "Open"
    assert gang.open == {
        "driver": decision_of({"m1": 1}),
        "worker": decision_of({"m1": 1, "m2": 2}),
    }
    assert gang.status["phase"] == "Scheduled"


@pytest.mark.proves("G3")
def test_one_write_releases_all_whose_placements_are_on_their_way(gang: Gang):
    gang.members["late"] = Stored("late")
    placed(gang)
    assert gang.gate(WRITING).waits
    gang.look(WRITING)
    assert "gate" not in gang.status
    gang.place(late={"m2": 2}).look()
    assert set(gang.open) == {"driver", "worker", "late"}


def test_a_member_without_placements_is_not_released(gang: Gang):
    gang.place(worker={"m1": 5}).look()
    assert set(gang.open) == {"worker"}


def test_a_share_of_no_units_is_released_as_well(gang: Gang):
    """Its objects are there, and a Workload that is scaled to nothing must reach them."""
    running(gang)
    gang.place(worker={"m1": 0}).look()
    assert gang.open["worker"] == decision_of({"m1": 0})


@pytest.mark.proves("G3")
def test_what_changes_and_who_comes_later_is_released_at_once(gang: Gang):
    opened(gang)
    gang.place(worker={"m2": 3})
    gang.members["late"] = Stored("late", placements={"m3": 2})
    gang.look(WRITING)
    assert gang.open["worker"] == decision_of({"m2": 3})
    assert gang.open["late"] == decision_of({"m3": 2})
    del gang.members["late"]
    gang.look()
    assert set(gang.open) == {"driver", "worker"}


@pytest.mark.proves("G3")
def test_fewer_units_than_the_quorum_are_not_released(gang: Gang):
    """Those that replace the ones scaled away are on their way to the hub."""
    before = dict(opened(gang).open)
    gang.place(worker={"m1": 1}).look(WRITING)
    assert gang.status["gate"] == "Open"
    assert gang.open == before
    gang.place(driver={"m1": 4}).look(WRITING)
    assert gang.open == {"driver": decision_of({"m1": 4}), "worker": decision_of({"m1": 1})}


def test_a_member_that_is_made_anew_has_an_entry_of_its_own(gang: Gang):
    running(gang)
    gang.members["driver"].uid = "another"
    gang.look()
    assert set(gang.status["decisions"]) == {"another", "uid-worker"}


@pytest.mark.proves("G3")
def test_placements_of_any_writer_count_and_are_released(gang: Gang):
    for each in gang.members.values():
        each.ours = False
    opened(gang)
    assert set(gang.open) == {"driver", "worker"}


def test_a_group_that_makes_no_sense_releases_nothing():
    gang = Gang(Stored("driver", placements={"m1": 9}), least="many")
    gang.look()
    assert "gate" not in gang.status
    assert gang.said[:2] == ("False", "InvalidGroup")
    assert "minMember" in gang.said[2]


@pytest.mark.proves("G18")
def test_a_group_that_is_made_anew_adopts_those_that_run(gang: Gang):
    running(gang)
    gang.status, gang.uid, gang.told = {}, "2", []
    gang.look(WRITING)
    assert gang.status["gate"] == "Open"
    assert gang.status["phase"] == "Running"
    assert "quorumTime" in gang.status


@pytest.mark.proves("G18")
def test_it_adopts_those_that_have_begun_though_others_are_being_written(gang: Gang):
    placed(gang)
    gang.report("worker", "Creating").look(WRITING)
    assert gang.status["gate"] == "Open"
    assert gang.status["phase"] == "Scheduled"


@pytest.mark.proves("G18", "G24")
def test_what_runs_is_adopted_though_one_cluster_does_not_answer(gang: Gang):
    running(gang)
    gang.members["worker"].clusters[1] |= {"state": "Unreachable"}
    gang.status = {}
    gang.look()
    assert gang.status["gate"] == "Open"


# --- closing --------------------------------------------------------------------------------------


@pytest.mark.proves("G24")
@pytest.mark.parametrize("state", ["Failed", "Unreachable"])
def test_a_failure_before_the_quorum_runs_closes_it(gang: Gang, state: str):
    failed(gang, state)
    assert not gang.open
    assert gang.status["failures"] == 1
    assert gang.status["retryTime"] == timestamp(START + timedelta(seconds=11))
    assert gang.status["lastFailureTime"] == timestamp(START)
    assert gang.said[:2] == ("False", "PropagationFailed")
    assert f"Workload worker is {state} on m1" in gang.said[2]
    assert gang.told[-1] == "PropagationFailed"


@pytest.mark.proves("G24")
@pytest.mark.parametrize(
    ("reason", "closes"),
    [
        ("Rejected", True),
        ("AlreadyExists", True),
        ("NamespaceNotAllowed", True),
        ("KindNotAllowed", True),
        ("InvalidWorkload", True),
        ("SecretNotFound", True),
        ("ClusterUnreachable", True),
        ("Propagating", False),
        ("HubUnavailable", False),
        ("WaitingForGroup", False),
        ("NotReviewed", False),
        ("Conflict", False),
    ],
)
def test_reasons_that_close_it_and_those_that_are_waited_out(gang: Gang, reason: str, closes: bool):
    opened(gang)
    said = {"type": "Propagated", "status": "False", "reason": reason, "observedGeneration": 1}
    gang.members["driver"].conditions = [said]
    gang.look()
    assert gang.status["gate"] == ("Closed" if closes else "Open")


@pytest.mark.proves("G24")
def test_what_the_member_says_of_a_failure_is_told_with_it(gang: Gang):
    opened(gang)
    worker = gang.members["worker"]
    worker.reports("Failed")
    said = {"type": "Propagated", "status": "False", "reason": "AlreadyExists", "message": "a Job"}
    worker.conditions = [{**said, "observedGeneration": 1}]
    gang.look()
    assert "worker is Failed on m1 and 1 more: AlreadyExists: a Job: everything" in gang.said[2]


@pytest.mark.proves("G24")
def test_what_is_said_of_another_generation_closes_nothing(gang: Gang):
    opened(gang)
    said = {"type": "Propagated", "status": "False", "reason": "Rejected"}
    gang.members["driver"].conditions = [{**said, "observedGeneration": 7}, {}, {"type": 3}]
    gang.look()
    assert gang.status["gate"] == "Open"


@pytest.mark.proves("G24", "B21")
@pytest.mark.parametrize("away", ["cluster m9 cannot be reached (no answer)", "m1 in other words"])
def test_a_cluster_that_was_left_and_does_not_answer_closes_nothing(gang: Gang, away: str):
    opened(gang)
    driver = gang.members["driver"]
    driver.clusters = [{"name": "m9", "replicas": 0, "state": "Unreachable"}]
    said = {"type": "Propagated", "status": "False", "observedGeneration": 1}
    driver.conditions = [{**said, "reason": "ClusterUnreachable", "message": away}]
    gang.look()
    assert gang.status["gate"] == "Open"
    driver.conditions = [{**said, "reason": "Rejected", "message": away}]
    gang.look()
    assert gang.status["gate"] == "Closed"


@pytest.mark.proves("G24", "B21")
@pytest.mark.parametrize(
    "message",
    [
        "m1: its API server fails, it is asked again: 503",
        "cluster m9 cannot be reached (no answer); cluster m1 cannot be reached (no answer)",
        "WorkloadGroup shop/batch starts on all of its clusters or on none: m2: not connected",
        "m90: no answer",
        "",
    ],
)
def test_a_cluster_that_was_left_hides_no_failure_of_another_one(gang: Gang, message: str):
    opened(gang)
    driver = gang.members["driver"]
    driver.clusters = [
        {"name": "m1", "replicas": 1, "state": "Pending", "reason": "ClusterUnreachable"},
        {"name": "m9", "replicas": 0, "state": "Unreachable"},
    ]
    said = {"type": "Propagated", "status": "False", "observedGeneration": 1}
    driver.conditions = [{**said, "reason": "ClusterUnreachable", "message": message}]
    gang.look()
    assert gang.status["gate"] == "Closed"


@pytest.mark.proves("G24")
def test_placements_that_fall_below_the_quorum_close_it(gang: Gang):
    opened(gang)
    gang.place(worker={"m1": 1}).look(WRITING)
    assert gang.status["gate"] == "Open", "another decision is on its way"
    gang.look()
    assert gang.status["gate"] == "Closed"
    assert "2 replicas are left, minMember is 4" in gang.said[2]


@pytest.mark.proves("G24")
def test_after_the_quorum_has_run_nothing_closes_it(gang: Gang):
    running(gang)
    since = gang.status["quorumTime"]
    gang.report("worker", "Unreachable")
    gang.report("driver", "Failed")
    gang.after(60)
    gang.place(driver={}, worker={"m2": 1})
    gang.after(60)
    assert gang.status["gate"] == "Open"
    assert gang.status["quorumTime"] == since
    assert gang.open == {"worker": decision_of({"m2": 1})}
    assert gang.status.get("failures", 0) == 0


@pytest.mark.proves("G24")
def test_a_failure_told_before_it_opens_must_last(gang: Gang):
    """It may be that of the try before, of which the report is not there yet."""
    placed(gang)
    gang.report("worker", "Unreachable").look(FRESH)
    assert "gate" not in gang.status
    assert gang.gate(FRESH).waits
    gang.look()
    assert gang.status["gate"] == "Closed", "so that the scheduler looks for other clusters"


@pytest.mark.proves("G24")
def test_it_is_taken_away_once_nothing_of_ours_has_placements(gang: Gang):
    failed(gang)
    gang.place(worker={}).look()
    assert gang.status["gate"] == "Closed"
    gang.place(driver={}).look()
    assert "gate" not in gang.status
    assert gang.said[1] == "PropagationFailed", "it stands until there is a new try"
    assert gang.status["phase"] == "Scheduling"


@pytest.mark.proves("G24")
def test_placements_of_others_hold_it_closed_until_nothing_is_there(gang: Gang):
    for each in gang.members.values():
        each.ours = False
    opened(gang)
    gang.report("worker", "Failed")
    gang.report("driver").look()
    assert gang.status["gate"] == "Closed"
    gang.members["worker"].clusters = []
    gang.look()
    assert gang.status["gate"] == "Closed", "the driver still runs"
    gang.report("driver", "Pending", ready=0)
    gang.after(5)
    assert gang.status["gate"] == "Closed", "who decides on them may be another controller"
    assert gang.look().next_look == gang.group.retry
    gang.after(6)
    assert "gate" not in gang.status
    gang.look()
    assert gang.status["gate"] == "Open"


@pytest.mark.proves("G24")
def test_the_next_try_comes_later_after_each_failure(gang: Gang):
    waits = []
    for _ in range(7):
        placed(gang)
        gang.now += timedelta(seconds=400)
        gang.look()
        assert gang.status["gate"] == "Open"
        gang.report("worker", "Failed")
        gang.look()
        waits.append(gang.group.retry - gang.now)
        gang.place(driver={}, worker={})
        gang.look()
    assert [each.total_seconds() for each in waits] == [11, 21, 41, 81, 161, 301, 301]
    placed(gang)
    gang.after(400)
    gang.run().look()
    assert gang.status["failures"] == 0, "once it runs"
    assert "retryTime" not in gang.status


def test_a_group_that_all_have_left_begins_anew(gang: Gang):
    running(gang)
    gang.members.clear()
    gang.look()
    for name in ("gate", "quorumTime", "scheduleStartTime"):
        assert name not in gang.status
    assert gang.status["phase"] == "Pending"
    assert not gang.open
    assert "PropagationFailed" not in gang.told


def test_who_closes_what_has_run_is_put_right(gang: Gang):
    running(gang)
    gang.status |= {"gate": "Closed", "decisions": {}}
    gang.look()
    assert gang.status["gate"] == "Open"
    assert set(gang.open) == {"driver", "worker"}


@pytest.mark.proves("G20")
@pytest.mark.parametrize(
    "wrong",
    [
        {"decisions": {}},
        {"decisions": {"y": "z"}},
        {"decisions": {"uid-driver": "0" * 16}, "retained": {"uid-driver": {"m9": 4}}},
        {"scheduled": 99, "running": -7, "phase": "Finished"},
        {"gate": "Ajar"},
        {"conditions": []},
        {"conditions": [{"type": "Scheduled", "status": "Unknown"}]},
        {"retryTime": "soon", "failures": 3},
        {"waiting": 2**40, "observedGeneration": 9},
    ],
)
def test_what_somebody_wrote_into_the_status_is_repaired(gang: Gang, wrong: dict[str, Any]):
    opened(gang)
    gang.run("worker").look()
    aside = ("conditions", "failures", "retained")  # whoever takes away decisions, unsays the last
    right = {k: v for k, v in gang.status.items() if k not in aside}
    gang.status |= wrong
    gang.look()
    found = {k: v for k, v in gang.status.items() if k not in aside}
    assert found == right
    assert gang.said[:2] == ("True", "Scheduled")


def test_a_message_names_a_few_failures_and_no_more_than_it_can_hold():
    many = [Standing(f"w{n:03}", f"u{n}", trouble=f"w{n:03} " + "x" * 2000) for n in range(100)]
    text = failure_of(many)
    assert text.startswith("w000")
    assert text.endswith("; and 97 more Workloads")


def test_a_gang_that_is_scaled_to_nothing_stays_released(gang: Gang):
    """Its objects stand on members, and only what is released reaches them."""
    running(gang)
    gang.place(driver={"m1": 0}, worker={"m1": 0}).look()
    assert gang.status["gate"] == "Open"
    assert set(gang.open) == {"driver", "worker"}


@pytest.mark.proves("G24")
def test_a_report_of_before_its_release_closes_nothing(gang: Gang):
    opened(gang)
    gang.members["late"] = Stored("late", placements={"m9": 2})
    gang.report("late", "Unreachable").look()
    assert gang.status["gate"] == "Open"
    assert "late" in gang.open
    gang.look()
    assert gang.status["gate"] == "Closed", "it is said of what is released now"


def test_a_group_that_makes_no_sense_any_more_keeps_what_it_has(gang: Gang):
    opened(gang)
    gang.spec["minMember"] = 0
    gang.place(worker={"m2": 1}).look()
    assert gang.status["gate"] == "Open"
    assert gang.open["worker"] == decision_of({"m2": 1})
    assert gang.said[1] == "InvalidGroup"


@pytest.mark.parametrize("gate", [{}, {"gate": "Closed"}])
def test_a_run_is_over_when_nothing_has_placements(gang: Gang, gate: dict[str, str]):
    running(gang)
    del gang.status["decisions"], gang.status["gate"]
    gang.status |= gate
    gang.place(driver={}, worker={}).look()
    assert not gang.status.get("gate")
    assert "quorumTime" not in gang.status


@pytest.mark.proves("G24")
def test_one_that_nobody_can_decide_does_not_keep_it_closed(gang: Gang):
    failed(gang)
    gang.place(driver={})
    worker = gang.members["worker"]
    worker.replicas, worker.clusters = -1, []
    assert worker.workload().fault
    gang.after(12, desired=6)
    assert "gate" not in gang.status, "as soon as it may be tried again"


# --- what stood there before, clocks, and nodes ----------------------------------------------------


@pytest.mark.proves("G24")
def test_a_group_made_anew_takes_nothing_from_those_that_run(gang: Gang):
    running(gang)
    gang.report("worker", "Failed", ready=1).look()
    assert gang.status["gate"] == "Open"
    gang.status, gang.uid = {}, "2"
    gang.look(FRESH)
    gang.look()
    assert "gate" not in gang.status
    assert "what runs of it stays" in gang.said[2]
    assert "Workload worker is Failed" in gang.said[2]
    gang.run().look()
    assert gang.status["gate"] == "Open"
    assert gang.status["phase"] == "Running"


@pytest.mark.proves("G24")
def test_no_clock_of_another_leader_makes_it_rest_longer_than_the_longest(gang: Gang):
    opened(gang)
    gang.now += timedelta(hours=2)
    gang.report("worker", "Failed").look()
    assert gang.status["gate"] == "Closed"
    gang.now -= timedelta(hours=2)
    gang.place(driver={}, worker={}).look()
    opened(gang)
    assert gang.status["gate"] == "Open"
    assert "retryTime" not in gang.status


def without_nodes(gang: Gang, **stuck: int) -> None:
    """So many units of each find no node on m2, where they have their last share."""
    since = timestamp(gang.now)
    for name, units in stuck.items():
        member = gang.members[name]
        member.reports("Creating", ready=0)
        entry = member.clusters[-1]
        entry["scheduled"] = entry["replicas"] - units
        entry |= {"unschedulable": units, "unschedulableSince": since}


@pytest.mark.proves("G24")
def test_a_gang_whose_quorum_finds_no_node_in_time_is_taken_away(gang: Gang):
    """Half of it would hold room that another half waits for."""
    opened(gang)
    without_nodes(gang, worker=1)
    assert gang.look().next_look == gang.now + timedelta(seconds=60)
    gang.after(59)
    assert gang.status["gate"] == "Open"
    gang.after(1)
    assert gang.status["gate"] == "Closed"
    assert gang.said[1] == "PropagationFailed"
    assert "(1 of worker), so that 3 can run, minMember is 4" in gang.said[2]


@pytest.mark.proves("G24")
def test_units_beyond_the_quorum_may_wait_for_a_node_for_ever(gang: Gang):
    gang.place(driver={"m1": 1}, worker={"m1": 3, "m2": 2}).look()
    without_nodes(gang, worker=2)
    gang.after(10_000)
    assert gang.status["gate"] == "Open"


@pytest.mark.proves("G24")
def test_divided_units_count_once_there_is_no_other_cluster_for_them(gang: Gang):
    worker = gang.members["worker"]
    worker.distribution = "Divided"
    opened(gang)
    without_nodes(gang, worker=2)
    gang.after(1000)
    assert gang.status["gate"] == "Open", "the plan has not seen it yet"
    worker.limits = {"m2": 2}
    gang.look()
    assert gang.status["gate"] == "Open", "a limit that holds them all is of another time"
    worker.limits = {"m2": 0}
    gang.look()
    assert gang.status["gate"] == "Closed"


def test_what_another_controller_holds_is_not_unsaid(gang: Gang):
    for each in gang.members.values():
        each.ours = False
    gang.status = {"waiting": 5}
    gang.look()
    assert gang.status["waiting"] == 5
    opened(gang)
    assert gang.status["waiting"] == 0


# --- phases, numbers, words -----------------------------------------------------------------------


@pytest.mark.proves("G25")
def test_each_phase_is_reached(gang: Gang):
    gang.members["worker"].replicas = 1
    phases = [gang.look().fields["phase"]]
    gang.members["worker"].replicas = 5
    gang.look(holders={"driver": 1}, until=START)
    phases.append(gang.status["phase"])
    opened(gang)
    phases.append(gang.status["phase"])
    gang.run().look()
    phases.append(gang.status["phase"])
    assert (gang.status["running"], gang.status["succeeded"]) == (4, 0)
    gang.report("worker", "Running", ready=1, succeeded=1)
    gang.report("driver", "Running", ready=1, succeeded=1).look()
    assert gang.status["phase"] == "Running"
    for share in gang.members["worker"].clusters:
        share |= {"ready": share["replicas"], "succeeded": share["replicas"]}
    gang.look()
    phases.append(gang.status["phase"])
    assert phases == ["Pending", "Scheduling", "Scheduled", "Running", "Finished"]
    assert (gang.status["running"], gang.status["succeeded"]) == (0, 4)
    assert gang.told == ["WaitingForGroup", "Scheduled", "Running", "Finished"]


@pytest.mark.proves("G25")
@pytest.mark.parametrize(("failed", "phase"), [(0, "Running"), (2, "Running"), (3, "Failed")])
def test_it_has_failed_when_those_left_are_too_few(gang: Gang, failed: int, phase: str):
    gang.place(driver={"m1": 1}, worker={"m1": 5}).look()
    gang.run().look()
    gang.report("worker", "Running", ready=0, failed=failed).look()
    assert gang.status["phase"] == phase, "of six units four must run"
    assert gang.status["failed"] == failed
    assert gang.status["gate"] == "Open"


@pytest.mark.proves("G25")
def test_units_that_failed_and_may_be_replaced_fail_no_group(gang: Gang):
    running(gang)
    gang.report("worker", "Running", ready=0, failed=1).look()
    assert gang.status["phase"] == "Running", "two more want a cluster, so four may run yet"


@pytest.mark.proves("G25")
def test_units_that_clusters_without_any_may_yet_run_keep_a_group_from_failing(gang: Gang):
    running(gang)
    gang.report("worker", "Running", ready=0, failed=3).look(desired=6, most=8)
    assert gang.status["phase"] == "Running", "eight are wanted where every cluster runs them"
    gang.look(desired=6, most=6)
    assert gang.status["phase"] == "Failed"


@pytest.mark.proves("G25")
def test_it_has_not_finished_while_others_run(gang: Gang):
    gang.place(driver={"m1": 1}, worker={"m1": 5}).look()
    gang.run().look()
    gang.report("worker", "Running", ready=5, succeeded=5).look()
    assert gang.status["phase"] == "Running", "the driver does"
    gang.report("driver", "Running", ready=0).look()
    assert gang.status["phase"] == "Running", "the driver may run again"
    gang.report("driver", "Running", ready=0, failed=1).look()
    assert gang.status["phase"] == "Finished"


def denied(message: str, reason: str = "GroupDenied") -> list[dict[str, str]]:
    """What a member says that is refused with its group."""
    about = {"reason": reason, "message": message}
    return [{"type": "Scheduled", "status": "False", **about}]


@pytest.mark.proves("G24")
def test_what_failed_stands_until_it_is_tried_anew(gang: Gang):
    failed(gang)
    gang.place(driver={}, worker={})
    gang.members["worker"].conditions = denied("full")
    gang.after(5)
    assert gang.said[1] == "PropagationFailed"
    gang.after(10)
    assert gang.said[1] == "GroupDenied"


@pytest.mark.proves("G24")
def test_what_members_said_while_it_rested_is_no_failure_of_the_next_try(gang: Gang):
    failed(gang)
    gang.place(driver={}, worker={})
    rests = "WorkloadGroup shop/batch failed before its quorum ran: it is tried again at "
    gang.members["worker"].conditions = denied(f"{rests}{timestamp(START)}", "GroupWithdrawn")
    gang.after(15)
    assert gang.said[1] == "PropagationFailed"
    assert "FailedScheduling" not in gang.told


def test_what_a_placed_member_says_of_its_other_units_is_no_failed_try(gang: Gang):
    gang.members["worker"].conditions = denied("full")
    gang.place(worker={"m1": 2}).look()
    assert gang.said[1] == "WaitingForGroup"


@pytest.mark.proves("G19")
def test_numbers_are_counted_anew_and_a_restart_writes_nothing(gang: Gang):
    opened(gang)
    gang.run().look()
    told = [gang.status[n] for n in ("workloads", "desired", "scheduled", "waiting", "running")]
    assert told == [2, 6, 4, 0, 4]
    writes = gang.writes
    gang.after(3600)
    gang.after(3600)
    assert gang.writes == writes
    gang.status["scheduled"] = 8
    gang.look()
    assert gang.status["scheduled"] == 4


def test_reports_beyond_what_was_asked_count_no_more_than_that(gang: Gang):
    placed(gang)
    gang.report("worker", "Running", ready=2**31 - 1, succeeded=2**31 - 1, failed=-4)
    gang.members["driver"].clusters = [{"name": "elsewhere", "ready": 50, "state": "Running"}]
    gang.look()
    assert (gang.status["running"], gang.status["succeeded"], gang.status["failed"]) == (0, 3, 0)


@pytest.mark.proves("G12")
def test_too_few_siblings_are_told_with_both_numbers(gang: Gang):
    gang.members["worker"].replicas = 2
    gang.look()
    assert gang.said == (
        "False",
        "GroupIncomplete",
        "WorkloadGroup shop/batch has 3 replicas in all its Workloads, minMember is 4",
    )
    assert gang.status["phase"] == "Pending"
    assert not gang.told, "nothing was tried"
    gang.members["driver"].conditions = denied(gang.said[2], "GroupIncomplete")
    gang.members["worker"].replicas = 5
    gang.look()
    assert gang.said[2] == "0 of 6 replicas have a cluster, minMember is 4", "that is no longer so"
    assert gang.status["phase"] == "Pending"
    gang.members["driver"].conditions = denied("full")
    gang.look()
    assert gang.said[1:] == (
        "GroupDenied",
        "0 of 6 replicas have a cluster, minMember is 4: full",
    )
    assert gang.told == ["FailedScheduling"]


@pytest.mark.proves("G12", "G17")
def test_a_refusal_after_it_had_too_few_units_is_an_event(gang: Gang):
    gang.members["worker"].replicas = 2
    gang.look()
    gang.members["worker"].replicas = 5
    gang.members["worker"].conditions = denied("full")
    gang.look()
    gang.look()
    assert gang.told == ["FailedScheduling"]


@pytest.mark.proves("G16", "G5")
def test_who_holds_what_until_when_and_what_is_short(gang: Gang):
    until = START + timedelta(seconds=60)
    gang.look(holders={"driver": 1, "worker": 2}, until=until)
    status, reason, message = gang.said
    assert (status, reason) == ("False", "WaitingForGroup")
    assert f"3 of 6 replicas are held until {timestamp(until)} (driver 1, worker 2)" in message
    assert "1 more is needed, as minMember is 4" in message
    assert gang.status["waiting"] == 3
    gang.look(holders={"driver": 1, "worker": 2}, until=until)
    assert gang.told == ["WaitingForGroup"]


@pytest.mark.proves("G6", "G17")
@pytest.mark.parametrize("reason", ["GroupDenied", "ScheduleTimeout"])
def test_why_the_last_try_was_in_vain_is_told_once(gang: Gang, reason: str):
    said = {"type": "Scheduled", "status": "False", "reason": reason, "message": "no, as …"}
    gang.members["worker"].conditions = [said]
    gang.look()
    assert gang.said[:2] == ("False", reason)
    assert gang.said[2].endswith("no, as …")
    assert gang.status["scheduleStartTime"] == timestamp(START)
    writes, told = gang.writes, list(gang.told)
    for second in range(50):
        gang.after(1, last_failure=f"2026-01-02T03:05:{second:02}Z")
    assert (gang.writes, gang.told) == (writes, told)
    assert told == ["FailedScheduling" if reason == "GroupDenied" else reason]


def test_words_that_change_alone_are_told_apart_from_all_else(gang: Gang):
    said = {"type": "Scheduled", "status": "False", "reason": "GroupDenied", "message": "one"}
    gang.members["worker"].conditions = [said]
    gang.look()
    gang.members["worker"].conditions = [{**said, "message": "two"}]
    found = gang.seen()
    assert differs(found.fields, gang.stored)
    assert words_alone(found.fields, gang.stored)
    gang.members["worker"].conditions = [{**said, "reason": "ScheduleTimeout"}]
    assert not words_alone(gang.seen().fields, gang.stored)
    placed(gang)
    assert not words_alone(gang.seen().fields, gang.stored)


def test_who_forgot_why_says_what_stands_there(gang: Gang):
    gang.members["worker"].conditions = denied("full")
    gang.look()
    gang.members["worker"].conditions = []
    writes = gang.writes
    gang.look()
    assert gang.writes == writes
    assert gang.said[1] == "GroupDenied"


@pytest.mark.proves("G2")
def test_too_many_workloads_are_a_condition(gang: Gang):
    placed(gang)
    gang.look(workloads=5000)
    assert gang.said[:2] == ("False", "TooManyWorkloads")
    assert "has 5000 Workloads, 4096 at most" in gang.said[2]
    assert gang.told == ["Scheduled", "TooManyWorkloads"]


def test_conditions_of_others_stay(gang: Gang):
    other = {"type": "Other", "status": "True", "reason": "Mine", "message": "", "x": 1}
    gang.status["conditions"] = [{k: v for k, v in other.items() if k != "x"}]
    gang.status["conditions"][0]["lastTransitionTime"] = timestamp(START)
    gang.look()
    told = [each["type"] for each in gang.status["conditions"]]
    assert told == ["Other", "Scheduled", "Ready", "Reconciling"]


# --- what ran before it -----------------------------------------------------------------------------


def joined(gang: Gang) -> Gang:
    """The worker ran with three units before there was the group; it is scaled to four with it."""
    gang.spec["minMember"] = 5
    gang.place(worker={"m1": 2, "m2": 1})
    gang.run("worker")
    gang.members["worker"].placements = {"m1": 2, "m2": 2}
    gang.members["driver"].placements = {"m1": 1}
    gang.look()
    assert gang.status["gate"] == "Open"
    return gang


@pytest.mark.proves("N8")
def test_what_ran_before_it_opened_is_noted_in_the_write_that_opens_it(gang: Gang):
    joined(gang)
    assert gang.status["retained"] == {"uid-worker": {"m1": 2, "m2": 1}}
    assert set(gang.status["decisions"]) == {"uid-driver", "uid-worker"}
    gang.run().look()
    assert gang.status["quorumTime"]
    assert "retained" not in gang.status, "nothing closes it any more"


@pytest.mark.proves("N8")
def test_it_closes_until_what_it_released_is_taken_back_and_no_longer(gang: Gang):
    joined(gang)
    gang.report("driver", "Failed").look()
    assert gang.status["gate"] == "Closed"
    assert "but what ran there before" in gang.said[2]
    gang.place(driver={}).look()
    assert gang.status["gate"] == "Closed", "the fourth unit of the worker"
    gang.members["worker"].placements = {"m1": 2, "m2": 1}
    gang.look()
    assert "gate" not in gang.status
    assert gang.status["retained"] == {"uid-worker": {"m1": 2, "m2": 1}}


@pytest.mark.proves("N8")
def test_what_a_closed_gate_left_on_a_lost_cluster_never_ran_before_it(gang: Gang):
    """The driver comes back with a pod of the last try: it is of that try when it opens again."""
    joined(gang)
    gang.report("driver", "Failed").look()
    gang.place(driver={})
    gang.members["worker"].placements = {"m1": 2, "m2": 1}
    gang.look()
    gang.members["driver"].placements = {"m1": 1}
    gang.run("driver")
    gang.members["worker"].placements = {"m1": 2, "m2": 2}
    gang.after(20)
    assert gang.status["gate"] == "Open"
    assert gang.status["retained"] == {"uid-worker": {"m1": 2, "m2": 1}}


@pytest.mark.proves("N8")
@pytest.mark.parametrize("gate", ["Open", "Closed"])
def test_who_joins_later_keeps_what_it_runs(gang: Gang, gate: str):
    opened(gang)
    if gate == "Closed":
        gang.report("worker", "Failed")
        gang.look()
    gang.members["late"] = Stored("late", placements={"m3": 2})
    gang.run("late").look()
    if gate == "Open":
        assert gang.status["retained"] == {"uid-late": {"m3": 2}}
        gang.report("worker", "Failed")
        gang.look()
    assert gang.status["gate"] == "Closed"
    gang.place(driver={}, worker={}).look()
    assert "gate" not in gang.status, "it is not waited for"


@pytest.mark.proves("N8")
def test_what_it_has_given_up_since_is_not_kept_for_it(gang: Gang):
    joined(gang)
    gang.members["worker"].placements = {"m1": 1, "m3": 3}
    gang.look()
    assert gang.status["retained"] == {"uid-worker": {"m1": 1}}
    gang.members["worker"].placements = {"m1": 4}
    gang.look()
    assert gang.status["retained"] == {"uid-worker": {"m1": 1}}


@pytest.mark.proves("N8")
def test_a_workload_of_another_scheduler_holds_it_closed_by_what_it_has_elsewhere(gang: Gang):
    gang.members["worker"].ours = False
    joined(gang)
    gang.report("driver", "Failed").look()
    gang.place(driver={})
    gang.after(20)
    assert "gate" not in gang.status, "m1 and m2 keep what ran there"


# --- how large it may be ----------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.proves("N9")
def test_a_change_of_one_workload_writes_its_decision_alone():
    gang = Gang(*(Stored(f"w{n}", 1, placements={"m1": 1}) for n in range(301)), least=300)
    gang.look()
    whole = len(json.dumps(gang.patches[-1]))
    gang.members["w7"].placements = {"m2": 1}
    gang.look()
    assert gang.patches[-1] == {"decisions": {"uid-w7": decision_of({"m2": 1})}}
    assert len(json.dumps(gang.patches[-1])) < whole / 100
    del gang.members["w7"]
    gang.look()
    assert gang.patches[-1]["decisions"] == {"uid-w7": None}


@pytest.mark.proves("N9")
def test_the_largest_group_stays_well_below_what_the_hub_stores():
    """Whatever the number of clusters; the longest names and uids that there may be."""
    many = {f"{n:>0128}": decision_of({"m": n}) for n in range(MOST_WORKLOADS)}
    assert Gate(GateState.OPEN, many).size < MOST_GATE_BYTES


@pytest.mark.proves("N9")
def test_one_that_is_too_large_says_so_and_does_not_open():
    """Twenty Workloads that ran on a hundred clusters each, where so much is too large."""
    large = Unconfirmed(most=40_000)
    wide = {f"cluster-with-a-long-name-{n:04}": 1 for n in range(100)}
    members = [Stored(f"w{n}", 100, placements=dict(wide)) for n in range(20)]
    gang = Gang(*members, Stored("new", 9, placements={"m1": 9}), least=2009)
    gang.run(*(each.name for each in members)).look(large)
    assert "gate" not in gang.status
    assert gang.said[:2] == ("False", "TooLarge")
    assert "make several groups" in gang.said[2]
    assert len(json.dumps(gang.status)) < 4096
    assert "TooLarge" in gang.told
    for each in members[10:]:
        del gang.members[each.name]
    gang.spec["minMember"] = 1009
    gang.look(large)
    assert gang.status["gate"] == "Open"


@pytest.mark.proves("N9")
def test_one_that_is_open_releases_no_more_than_fits(gang: Gang):
    opened(gang)
    before = dict(gang.status["decisions"])
    gang.members["late"] = Stored("late", placements={"m3": 2})
    gang.look(Unconfirmed(most=70))
    assert gang.status["gate"] == "Open"
    assert gang.status["decisions"] == before
    assert gang.said[1] == "TooLarge"
    gang.look()
    assert "late" in gang.open


# --- whatever happens, in whatever order ----------------------------------------------------------

NAMES = ("a", "b", "c")
SHARES = st.dictionaries(st.sampled_from(["m1", "m2", "m3"]), st.integers(0, 3), max_size=3)


class Lives(RuleBasedStateMachine):
    """Schedulers, clusters, users and leaders at one group; leaders die, and write what is old."""

    def __init__(self) -> None:
        super().__init__()
        self.gang = Gang(least=3)
        self.uids = 0
        self.version = 0
        self.views: list[tuple[int, Any, list[Standing], Gate, Any]] = []

    @initialize(ours=st.lists(st.booleans(), min_size=3, max_size=3))
    def begin(self, ours: list[bool]) -> None:
        for name, own in zip(NAMES, ours, strict=True):
            self.create(name, own)

    def create(self, name: str, ours: bool) -> None:
        self.uids += 1
        self.gang.members[name] = Stored(name, replicas=3, uid=f"u{self.uids}", ours=ours)

    @rule(name=st.sampled_from(NAMES), shares=SHARES)
    def place(self, name: str, shares: dict[str, int]) -> None:
        if name in self.gang.members:
            self.gang.place(**{name: shares})

    @rule(name=st.sampled_from(NAMES), ours=st.booleans())
    def make_anew(self, name: str, ours: bool) -> None:
        self.create(name, ours)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        self.gang.members.pop(name, None)

    @rule(
        name=st.sampled_from(NAMES),
        state=st.sampled_from(
            ["Running", "Running", "Creating", "Pending", "Failed", "Unreachable"]
        ),
    )
    def report(self, name: str, state: str) -> None:
        if name in self.gang.members:
            self.gang.members[name].reports(state)

    @rule(least=st.integers(1, 9))
    def edit(self, least: int) -> None:
        self.gang.spec["minMember"] = least
        self.version += 1

    @rule()
    def group_made_anew(self) -> None:
        self.gang.status, self.gang.uid = {}, self.gang.uid + "1"
        self.version += 1

    @rule(seconds=st.integers(0, 400))
    def wait(self, seconds: int) -> None:
        self.gang.now += timedelta(seconds=seconds)

    @rule(writing=st.booleans(), fresh=st.booleans())
    def read(self, writing: bool, fresh: bool) -> None:
        """A leader looks; whether it comes to write that, and when, is another question."""
        gang, doubts = self.gang, Unconfirmed(writing, fresh)
        members, group = gang.standings(), gang.group
        gate = gate_of(group, members, gang.now, doubts)
        found = look(gang.stored, group, gate, GroupFacts(members, len(members), 9), gang.now)
        self.views.append((self.version, group, members, gate, found))

    @rule(pick=st.integers(0, 5))
    def write(self, pick: int) -> None:
        """A leader writes what it has seen: a compare-and-swap, or nothing."""
        if not self.views:
            return
        version, group, members, gate, found = self.views.pop(min(pick, len(self.views) - 1))
        if version != self.version or not differs(found.fields, self.gang.stored):
            return
        before = dict(self.gang.status)
        self.gang.write(found.fields)
        self.version += 1
        self.check_write(before, group, members, gate)

    def check_write(
        self, before: dict[str, Any], group: Any, members: list[Standing], gate: Gate
    ) -> None:
        after = self.gang.status
        by_uid = {each.uid: each for each in members}
        units, news = 0, False
        decisions = after.get("decisions", {})
        for uid, decision in decisions.items() if after.get("gate") == "Open" else ():
            stored = by_uid.get(uid)
            if before.get("decisions", {}).get(uid) != decision:
                assert stored is not None
                assert decision == stored.decision
                assert stored.placed
                news = True
            units += stored.replicas if stored is not None and stored.decision == decision else 0
        for uid, shares in after.get("retained", {}).items():
            assert uid in decisions
            assert all(n <= by_uid[uid].shares.get(cluster, 0) for cluster, n in shares.items())
            if uid in before.get("decisions", {}):
                kept = before.get("retained", {}).get(uid, {})
                assert all(n <= kept.get(cluster, 0) for cluster, n in shares.items())
        news = news or (after.get("gate") == "Open" and before.get("gate") != "Open")
        assert not news or after.get("quorumTime") or units >= group.min_member
        if before.get("quorumTime"):
            assert after.get("gate") != "Closed" or before.get("gate") == "Closed"
            if before.get("gate") == "Open":
                assert after.get("gate") == "Open" or not any(each.placed for each in members)
        if before.get("gate") == "Closed" and "gate" not in after:
            assert not any(gives_back(before, each) for each in members if each.ours)
        assert gate.state is (GateState(after["gate"]) if "gate" in after else None)

    def teardown(self) -> None:
        """Where nothing fails any more it opens, whatever was: with an honest scheduler of ours."""
        gang = self.gang
        gang.spec["minMember"] = 3
        for name in NAMES:
            self.create(name, True)
        for _ in range(4):
            gang.now += timedelta(seconds=400)
            if gang.status.get("gate") == "Closed":
                gang.place(**{name: {} for name in NAMES})
            elif gang.status.get("gate") != "Open":
                gang.place(**{name: {"m1": 1} for name in NAMES})
            gang.look(NO_DOUBTS)
        assert gang.status["gate"] == "Open"
        gang.place(**{name: {"m1": 1} for name in NAMES})
        gang.look()
        assert set(gang.open) == set(NAMES)


def gives_back(status: dict[str, Any], member: Standing) -> bool:
    """Whether it has units that a closed gate takes back."""
    decisions, kept = status.get("decisions", {}), status.get("retained", {}).get(member.uid, {})
    if decisions and member.uid not in decisions:
        return False
    return any(n > kept.get(cluster, 0) for cluster, n in member.shares.items())


TestLives = Lives.TestCase
TestLives.settings = examples(200, stateful_step_count=40)


@pytest.mark.perf
def test_a_look_at_the_largest_group_is_no_matter_of_long(gang: Gang):
    """All its Workloads are looked at in one go."""
    many = [
        Standing(f"w{n:04}", f"u{n}", placed=True, replicas=1, decision="0" * 16, running=1)
        for n in range(4096)
    ]
    group = replace(gang.group, min_member=4096, gate="Open", ran=True)
    times = []
    for _ in range(3):
        began = time.thread_time()
        gate = gate_of(group, many, START)
        found = look(gang.stored, group, gate, GroupFacts(many, 4096, 4096), START)
        differs(found.fields, gang.stored)
        times.append(time.thread_time() - began)
        assert len(gate.released) == 4096
    assert min(times) < 0.2


@pytest.mark.proves("A12")
def test_what_ran_before_is_retained_for_as_long_as_it_stands() -> None:
    """Its rules are edited while the gang starts: it is left as any share is."""
    group: Any = SimpleNamespace(released={"u": "d"}, retained={"u": {"m1": 2, "m2": 3}})
    edited = gates.Standing("web", "u", placed=True, shares={"m2": 2, "m3": 3})
    stands = replace(edited, there=frozenset({"m1", "m2"}))
    assert gates._ran_before(group, stands) == {"m1": 2, "m2": 2}
    assert gates._ran_before(group, edited) == {"m2": 2}, "m1 has nothing of it any more"


@pytest.mark.proves("G12", "KD23")
def test_a_share_that_ended_before_the_quorum_ran_holds_no_gate_closed_and_counts():
    queue = Stored("worker", replicas=5, distribution="Divided", kind="Job")
    gang = Gang(Stored("driver", replicas=1), queue)
    gang.place(driver={"m1": 1}, worker={"m1": 1, "m2": 2}).look()
    end = {"result": "Succeeded", "time": "2026-01-02T03:04:05Z"}
    ended = {"name": "m2", "replicas": 2, "state": "Complete", "succeeded": 2, "ended": end}
    queue.clusters = [ended, {"name": "m1", "replicas": 1, "state": "Failed"}]
    info = queue.workload().info
    assert (info.replicas, info.ended_replicas) == (3, 2)  # each replica of a gang has its turn
    gang.look()
    assert gang.status["gate"] == "Closed"
    gang.place(driver={}, worker={"m2": 2})
    queue.clusters = [ended]
    gang.look()
    assert "gate" not in gang.status
    gang.now += timedelta(hours=1)
    gang.place(driver={"m1": 1}, worker={"m2": 2, "m3": 1})
    queue.clusters = [ended]
    gang.look()
    assert gang.status["gate"] == "Open"


# --- several shards -------------------------------------------------------------------------------


@pytest.mark.proves("SC16")
@pytest.mark.parametrize("then", ["closes", "changes", "runs", "stays"])
def test_what_shards_told_of_a_release_ends_with_it(gang: Gang, then: str):
    opened(gang)
    gang.status["reached"] = {"0": "ab", "2": "cd"}
    match then:
        case "closes":
            gang.report("worker", "Failed").look()
        case "changes":
            gang.place(worker={"m1": 2, "m2": 2}).look()
        case "runs":
            gang.run().look()
        case _:
            gang.report("worker", scheduled=1).look()
    assert ("reached" in gang.status) is (then == "stays")
