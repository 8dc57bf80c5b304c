"""What a plan says becomes of a gang: what the controller would, whoever decides its members."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from controller.eventhandlers import known
from controller.features.workloadgroup.objects import WorkloadGroup
from controller.model.objects import Workload
from crds.groups.gate import decision_of
from machinery.clock import timestamp
from stowage.simulation import plan as planning
from stowage.simulation.gangs import judged
from stowage.simulation.rehearsal import Rehearsal
from tests.controller import make as made
from tests.stowage.test_plan import Write, cluster, placed, plan, run, shares, write
from tests.stowage.test_plan_groups import group, groups, member, table

__all__ = ["write"]

RAN = {"phase": "Running", "gate": "Open", "quorumTime": "2026-01-01T00:00:00Z"}


def runs(name: str, replicas: int, at: dict[str, int], **how: Any) -> dict[str, Any]:
    """A member whose units stand on these clusters; without any, one that waits."""
    status = {**placed(**at), "desired": replicas} if at else None
    made: dict[str, Any] = member(name, replicas, "1", status=status, **how)
    made["metadata"]["uid"] = f"uid-{name}"
    return made


def ran(*of: dict[str, Any], **status: Any) -> dict[str, Any]:
    """The status of a group whose quorum has run."""
    decisions = {
        each["metadata"]["uid"]: decision_of(
            {s["cluster"]: s["replicas"] for s in each["status"]["placements"]}
        )
        for each in of
    }
    return {**RAN, "decisions": decisions, **status}


def explained(*about: str) -> dict[str, Any]:
    result = run("explain", "wg/batch", "-n", "shop", *about, "-o", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.proves("G3")
def test_units_that_another_scheduler_placed_count_for_the_quorum(write: Write) -> None:
    other = runs("other", 4, {"c1": 4}, schedulerName="mine")
    fleet = write("fleet.yaml", cluster("c1", cpu=20), group(least=6), other)
    files = write("mine.yaml", runs("mine", 2, {}))
    assert shares(plan(files, fleet)["mine"]) == {"c1": 2}
    told = groups(files, fleet)["batch"]
    assert (told["outcome"], told["reason"], told["message"]) == ("placed", "", "")
    assert (told["assigned"], told["desired"]) == (6, 6)
    assert [each["name"] for each in told["workloads"]] == ["mine", "other"]
    both = write("both.yaml", cluster("c1", cpu=20), group(least=6), other, runs("own", 2, {}))
    assert explained("--fleet", both)["outcome"] == "placed"


@pytest.mark.proves("G4")
def test_what_is_left_to_another_scheduler_is_said(write: Write) -> None:
    theirs = runs("theirs", 4, {}, schedulerName="mine")
    fleet = write("f.yaml", cluster("c1", cpu=40), group(least=8), runs("own", 4, {}), theirs)
    told = explained("--fleet", fleet)
    assert (told["outcome"], told["assigned"], told["desired"]) == ("refused", 0, 8)
    assert told["helps"] == [
        "minMember: 4, as many as find a cluster now",
        "4 more units of theirs, which is left to scheduler mine",
    ]
    why = {each["name"]: each["message"] for each in told["workloads"]}
    assert why == {"own": "", "theirs": "left to scheduler mine"}


def test_a_group_of_which_others_decide_all_says_how_much_is_placed(write: Write) -> None:
    theirs = runs("theirs", 4, {"c1": 1}, schedulerName="mine")
    fleet = write("f.yaml", cluster("c1"), group(), theirs)
    told = explained("--fleet", fleet)
    assert (told["outcome"], told["reason"]) == ("waits", "WaitingForGroup")
    assert told["message"] == "1 of 4 units have a cluster, minMember is 4"
    assert told["helps"] == ["3 more units of theirs, which is left to scheduler mine"]
    alone = write("alone.yaml", cluster("c1"), theirs)
    told = explained("--fleet", alone)
    assert (told["outcome"], told["reason"], told["min"]) == ("refused", "GroupNotFound", None)


@pytest.mark.proves("G24")
@pytest.mark.parametrize("left", [0, 1])
def test_a_gang_whose_quorum_has_run_stays_when_it_is_scaled_down(left: int, write: Write) -> None:
    a, b = runs("a", 3, {"c1": 3}), runs("b", 2, {"c1": 2})
    there = group(least=5, status=ran(a, b))
    fleet = write("fleet.yaml", cluster("c1", cpu=20), there, a, b)
    files = write("w.yaml", member("b", left, "1"))
    told = groups(files, fleet)["batch"]
    assert (told["outcome"], told["reason"], told["assigned"]) == ("placed", "", 3 + left)
    before = group(least=5, status={**ran(a, b), "quorumTime": None})
    told = groups(files, write("before.yaml", cluster("c1", cpu=20), before, a, b))["batch"]
    words = f"WorkloadGroup shop/batch has {3 + left} units in all its Workloads, minMember is 5"
    assert (told["outcome"], told["message"]) == ("waits", words)


@pytest.mark.proves("G15")
def test_units_that_a_running_gang_lost_are_its_members_own_matter(write: Write) -> None:
    a, b = runs("a", 2, {}), runs("b", 2, {"c2": 2})
    there = group(least=4, status=ran(b))
    fleet = write("fleet.yaml", cluster("c2", cpu=0), there, a, b)
    told = explained("--fleet", fleet)
    assert (told["outcome"], told["reason"], told["assigned"]) == ("placed", "", 2)
    why = {each["name"]: each["message"] for each in told["workloads"]}
    assert why["a"].startswith("0/1 clusters: 1 insufficient cpu")
    assert why["b"] == ""
    assert [each.startswith("a: ") for each in told["helps"]] == [True]
    files = write("a.yaml", member("a", 2, "1"))
    assert groups(files, fleet)["batch"]["outcome"] == "placed"


@pytest.mark.proves("G24")
def test_a_gang_that_is_being_taken_away_is_not_placed(write: Write) -> None:
    a = runs("a", 4, {"c1": 4})
    closed = group(status={**ran(a), "gate": "Closed", "quorumTime": None, "failures": 1})
    fleet = write("fleet.yaml", cluster("c1", cpu=20), closed, a)
    told = explained("--fleet", fleet)
    assert (told["outcome"], told["reason"]) == ("refused", "GroupWithdrawn")
    assert "is taken away from all clusters" in told["message"]
    assert ["condition is mended" in each for each in told["helps"]] == [True]


@pytest.mark.proves("G24")
def test_a_gang_that_rests_after_a_failure_says_what_would_help(write: Write) -> None:
    again = timestamp(datetime.now(UTC) + timedelta(seconds=200))
    rests = group(status={"phase": "Scheduling", "failures": 1, "retryTime": again})
    told = explained("--fleet", write("f.yaml", cluster("c1", cpu=20), rests, runs("a", 4, {})))
    assert (told["outcome"], told["reason"]) == ("refused", "GroupWithdrawn")
    assert "it is tried again at" in told["message"]
    assert ["condition is mended" in each for each in told["helps"]] == [True]


@pytest.mark.proves("G12")
def test_too_few_units_are_said_before_what_a_member_lacks_itself(write: Write) -> None:
    a = runs("a", 2, {}, labels={"stowage.dev/workload-policy": "none"})
    fleet = write("fleet.yaml", cluster("c1", cpu=40), group(least=10), a, runs("b", 2, {}))
    told = groups(write("c.yaml", runs("c", 1, {})), fleet)["batch"]
    words = "WorkloadGroup shop/batch has 5 units in all its Workloads, minMember is 10"
    assert (told["outcome"], told["reason"], told["message"]) == (
        "waits",
        "GroupIncomplete",
        words,
    )
    told = explained("--fleet", fleet)
    assert (told["outcome"], told["reason"]) == ("waits", "GroupIncomplete")


def test_a_group_that_nobody_names_says_so_and_not_one_whose_units_are_gone(write: Write) -> None:
    fleet = write("fleet.yaml", cluster("c1"))
    told = groups(write("alone.yaml", group()), fleet)["batch"]
    assert (told["outcome"], told["message"]) == ("waits", "no Workload names it")
    assert told["helps"] == ["4 more units in its Workloads, or one more Workload"]
    told = groups(write("none.yaml", group(), member("a", 0)), fleet)["batch"]
    words = "WorkloadGroup shop/batch has 0 units in all its Workloads, minMember is 4"
    assert (told["outcome"], told["message"]) == ("waits", words)


def test_a_member_on_its_way_out_is_none_any_more(write: Write) -> None:
    going = runs("going", 4, {"c1": 4})
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    fleet = write("fleet.yaml", cluster("c1", cpu=20), group(), going, runs("a", 1, {}))
    told = explained("--fleet", fleet)
    assert [each["name"] for each in told["workloads"]] == ["a"]
    assert (told["outcome"], told["assigned"]) == ("refused", 0)


def test_a_group_that_cannot_be_followed_is_refused_with_its_fault() -> None:
    a, where = runs("a", 4, {"c1": 4}), planning.Where("shop")
    stored = msgspec.convert(group(status=ran(a), minResources={"cpu": "many"}), WorkloadGroup)
    rehearsal = Rehearsal(  # a hub may hold one from before it was looked at; no file may
        where.profiles(),
        clusters=[made.cluster("c1")],
        workloads=[known(msgspec.convert(a, Workload))],
        objects=[stored],
        now=made.NOW,
        handle=where.handle,
    )
    rehearsal.run([("shop", "a")])
    told = judged(rehearsal, ("shop", "batch"), stored, rehearsal.decisions)
    assert (told.outcome, told.reason) == ("refused", "InvalidGroup")
    assert "spec.minResources.cpu" in told.message
    told = judged(rehearsal, ("shop", "batch"), stored, {})
    assert (told.outcome, told.reason) == ("refused", "InvalidGroup")


def test_a_name_of_several_lines_is_told_in_one(write: Write) -> None:
    odd = runs("a", 1, {})
    del odd["metadata"]["labels"]
    meta = odd["spec"]["targetDeployment"]["metadata"]
    meta["labels"] = {"stowage.dev/workload-group": "two\nlines"}
    files, fleet = write("odd.yaml", odd), write("fleet.yaml", cluster("c1"))
    lines = table("plan", "-f", files, "--fleet", fleet)
    assert "shop/wg/two lines ? 0 1 1 refused" in lines
    assert not any(line.startswith("lines") for line in lines)
