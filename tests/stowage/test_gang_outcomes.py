"""What a plan says becomes of a gang: what the controller would, whoever decides its members."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from controller.eventhandlers import known
from controller.features.workloadgroup.objects import WorkloadGroup
from controller.model.objects import Workload
from crds.groups.gate import decision_of
from stowage.simulation import plan as planning
from stowage.simulation.gangs import judged
from stowage.simulation.rehearsal import Rehearsal
from tests.controller import make as made
from tests.stowage.test_plan import Write, cluster, placed, run, write
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
def test_a_gang_that_is_being_taken_away_is_not_placed(write: Write) -> None:
    a = runs("a", 4, {"c1": 4})
    closed = group(status={**ran(a), "gate": "Closed", "quorumTime": None, "failures": 1})
    fleet = write("fleet.yaml", cluster("c1", cpu=20), closed, a)
    told = explained("--fleet", fleet)
    assert (told["outcome"], told["reason"]) == ("refused", "GroupWithdrawn")
    assert "is taken away from all clusters" in told["message"]
    assert ["condition is mended" in each for each in told["helps"]] == [True]


def test_a_group_that_nobody_names_says_so_and_not_one_whose_units_are_gone(write: Write) -> None:
    fleet = write("fleet.yaml", cluster("c1"))
    told = groups(write("alone.yaml", group()), fleet)["batch"]
    assert (told["outcome"], told["message"]) == ("waits", "no Workload names it")
    assert told["helps"] == ["4 more units in its Workloads, or one more Workload"]
    told = groups(write("none.yaml", group(), member("a", 0)), fleet)["batch"]
    words = "WorkloadGroup shop/batch has 0 units in all its Workloads, minMember is 4"
    assert (told["outcome"], told["message"]) == ("waits", words)


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
