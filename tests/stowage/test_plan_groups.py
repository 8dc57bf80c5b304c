"""Plans with WorkloadGroups: who would start, wait or be refused, why, and what would help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.eventhandlers import known
from controller.features.workloadgroup.compiled import WorkloadGroup
from controller.model.objects import Workload
from crds.groups.gate import decision_of
from stowage.simulation import plan as planning
from stowage.simulation.gangs import judged
from stowage.simulation.rehearsal import Rehearsal
from tests.controller import make as made
from tests.stowage.test_plan import Write, cluster, placed, plan, run, shares, workload, write

__all__ = ["write"]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FLEET = EXAMPLES / "fleet" / "three-zones.yaml"
LABEL = "stowage.dev/workload-group"


def group(name: str = "batch", least: int = 4, **spec: Any) -> dict[str, Any]:
    status = spec.pop("status", None)
    metadata = {"name": name, "namespace": "shop", **spec.pop("metadata", {})}
    body = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadGroup",
        "metadata": metadata,
        "spec": {"minMember": least, **spec},
    }
    return {**body, "status": status} if status else body


def member(name: str, replicas: int, cpu: str = "3", of: str = "batch", **how: Any) -> Any:
    made = workload(name, replicas=replicas, cpu=cpu, distribution="Divided", **how)
    made["metadata"].setdefault("labels", {})[LABEL] = of
    return made


def groups(files: str, fleet: str) -> dict[str, Any]:
    result = run("plan", "-f", files, "--fleet", fleet, "-o", "json")
    assert result.exit_code == 0, result.output
    return {each["name"]: each for each in json.loads(result.stdout)["groups"]}


def table(*args: str) -> list[str]:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


@pytest.mark.proves("G3")
def test_with_room_for_the_quorum_everything_that_fits_is_placed(write: Write) -> None:
    fleet = write("fleet.yaml", cluster("a", cpu=6), cluster("b", cpu=6))
    files = write("w.yaml", group(), member("worker", 6))
    made = plan(files, fleet)
    assert sum(shares(made["worker"]).values()) == 4
    told = groups(files, fleet)["batch"]
    assert (told["min"], told["assigned"], told["desired"]) == (4, 4, 6)
    assert (told["outcome"], told["reason"], told["helps"]) == ("placed", "", [])
    lines = table("plan", "-f", files, "--fleet", fleet)
    assert lines[-2:] == [
        "GROUP NEEDS PLACED WANTED WORKLOADS OUTCOME",
        "shop/wg/batch 4 4 6 1 placed",
    ]


@pytest.mark.proves("G4", "G13")
def test_without_it_nothing_is_and_the_plan_says_what_is_short(write: Write) -> None:
    fleet = write("fleet.yaml", cluster("a", cpu=6), cluster("b", cpu=3))
    files = write("w.yaml", group(), member("driver", 1), member("worker", 5))
    made = plan(files, fleet)
    assert shares(made["driver"]) == shares(made["worker"]) == {}
    told = groups(files, fleet)["batch"]
    assert (told["outcome"], told["assigned"], told["held"]) == ("refused", 0, 0)
    assert told["reason"] == "GroupDenied"
    assert "resource gap: cpu 3 more" in told["message"]
    assert told["helps"]
    lines = table("plan", "-f", files, "--fleet", fleet)
    assert lines.count("GroupDenied: as shop/wg/batch says below") == 2
    [said] = [line for line in lines if "resource gap" in line]
    assert said.startswith("GroupDenied: WorkloadGroup shop/batch is denied for 3 s: ")
    assert lines[-1].startswith("what helps: ")


@pytest.mark.proves("G16", "G17")
def test_what_would_be_held_and_what_would_not_are_told_with_what_helps(write: Write) -> None:
    files = write("w.yaml", group(least=10, minResources={"cpu": "1"}), member("worker", 10, "1"))
    held = groups(files, write("nine.yaml", cluster("a", cpu=4), cluster("b", cpu=5)))["batch"]
    assert (held["outcome"], held["held"], held["assigned"]) == ("waits", 9, 0)
    assert held["helps"] == [
        "1 more replica of worker needs cpu 1 on a or b",
        "minMember: 9, as many as find a cluster now",
    ]
    [of] = held["workloads"]
    assert sum(each["replicas"] for each in of["found"]) == 9
    assert of["placements"] == []
    eight = write("eight.yaml", cluster("a", cpu=4), cluster("b", cpu=4))
    refused = groups(files, eight)["batch"]
    assert (refused["outcome"], refused["held"]) == ("refused", 0)
    assert refused["message"].startswith(
        "WorkloadGroup shop/batch gets rejected due to Pod worker is unschedulable even after"
        " PostFilter"
    )
    assert refused["helps"][0] == "2 more replicas of worker need cpu 1 each on a or b"
    told = table("explain", "wg/batch", "-n", "shop", "-f", files, "--fleet", eight)
    assert told[0] == "shop/wg/batch: 0 of 10 replicas placed, 10 needed (refused)"
    assert told[1] == "This is a plan: nothing is applied."
    assert "worker 10 - a=4,b=4" in told[4]
    assert told[-3:] == ["What would help:", *refused["helps"]]


def test_a_group_of_the_fleet_counts_and_its_other_members_with_it(write: Write) -> None:
    there = member("driver", 1, "1", status={"desired": 1})
    fleet = write("fleet.yaml", cluster("a", cpu=4), group(), there)
    files = write("w.yaml", member("worker", 3, "1"))
    made = plan(files, fleet)
    assert shares(made["driver"]) == {"a": 1}, "the member that waits is placed with the new one"
    assert shares(made["worker"]) == {"a": 3}
    told = groups(files, fleet)["batch"]
    assert [each["name"] for each in told["workloads"]] == ["driver", "worker"]
    assert told["outcome"] == "placed"
    explained = table("explain", "wg/batch", "-n", "shop", "--fleet", fleet)
    assert explained[0] == "shop/wg/batch: 0 of 1 replica placed, 4 needed (waits)"


@pytest.mark.long
def test_of_a_gang_of_very_many_workloads_the_first_are_shown(write: Write) -> None:
    fleet = write("fleet.yaml", cluster("a", cpu=500))
    many = [member(f"w{n:03}", 1, "1") for n in range(60)]
    files = write("w.yaml", group(least=60), *many)
    about = ("explain", "wg/batch", "-n", "shop", "-f", files, "--fleet", fleet)
    told = table(*about)
    assert told[-1] == "… 40 more (--all shows them)"
    assert len(told) == 25
    assert len(table(*about, "--all")) == 64
    alone = write("alone.yaml", cluster("a", cpu=500), group(least=60), *many)
    found = json.loads(
        run("explain", "wg/batch", "-n", "shop", "--fleet", alone, "-o", "json").stdout
    )
    assert len(found["workloads"]) == found["assigned"] == 60


def test_what_is_not_part_of_a_plan_is_said(write: Write) -> None:
    fleet = write("fleet.yaml", cluster("a"))
    files = write("w.yaml", group(), member("worker", 4, "1"))
    result = run("explain", "wg/none", "-n", "shop", "-f", files, "--fleet", fleet)
    assert str(result.exception) == "the plan of these files decides nothing of shop/wg/none"
    result = run("explain", "wg/none", "-n", "shop", "--fleet", fleet)
    assert str(result.exception) == "there is no WorkloadGroup shop/none"


def test_the_examples_are_planned_as_their_pages_say() -> None:
    told = groups(str(EXAMPLES / "21-workload-group.yaml"), str(FLEET))["training"]
    assert (told["outcome"], told["assigned"], told["desired"]) == ("placed", 7, 7)
    made = plan(str(EXAMPLES / "22-workload-group-zone.yaml"), str(FLEET))
    assert shares(made["coordinator"]).keys() == shares(made["shards"]).keys()
    assert len(shares(made["shards"])) == 1


@pytest.mark.proves("G12", "K8")
def test_where_only_a_quota_binds_no_room_is_asked_for(write: Write) -> None:
    quota = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadPolicy",
        "metadata": {"name": "zones", "namespace": "shop"},
        "spec": {
            "topologyKey": "zone",
            "labelSelector": {},
            "allocationType": "Required",
            "allocationPolicy": [{"name": "x", "replicas": 1}, {"name": "y", "replicas": 3}],
        },
    }
    clusters = [cluster(f"in-{zone}", cpu=99, labels={"zone": zone}) for zone in ("x", "y")]
    worker = member("worker", 5, labels={"stowage.dev/workload-policy": "zones"})
    told = groups(write("w.yaml", group(least=5), quota, worker), write("f.yaml", *clusters))
    helps = told["batch"]["helps"]
    assert helps[0].startswith("a quota for 1 more replica of worker: ")
    assert "needs cpu" not in str(helps)
    assert helps[1] == "minMember: 4, as many as find a cluster now"


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
        "4 more replicas of theirs, which is left to scheduler mine",
    ]
    why = {each["name"]: each["message"] for each in told["workloads"]}
    assert why == {"own": "", "theirs": "left to scheduler mine"}


def test_a_group_of_which_others_decide_all_says_how_much_is_placed(write: Write) -> None:
    theirs = runs("theirs", 4, {"c1": 1}, schedulerName="mine")
    fleet = write("f.yaml", cluster("c1"), group(), theirs)
    told = explained("--fleet", fleet)
    assert (told["outcome"], told["reason"]) == ("waits", "WaitingForGroup")
    assert told["message"] == "1 of 4 replicas have a cluster, minMember is 4"
    assert told["helps"] == ["3 more replicas of theirs, which is left to scheduler mine"]
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
    assert told["helps"] == ["4 more replicas in its Workloads, or one more Workload"]
    told = groups(write("none.yaml", group(), member("a", 0)), fleet)["batch"]
    words = "WorkloadGroup shop/batch has 0 replicas in all its Workloads, minMember is 4"
    assert (told["outcome"], told["message"]) == ("waits", words)


def test_a_group_that_cannot_be_followed_is_refused_with_its_fault() -> None:
    a, where = runs("a", 4, {"c1": 4}), planning.Where("shop")
    stored = msgspec.convert(group(status=ran(a), minResources={"cpu": "many"}), WorkloadGroup)
    rehearsal = Rehearsal(  # a hub may hold one from before it was looked at; no file may
        where.configuration().profiles,
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
