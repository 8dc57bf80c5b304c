"""`stowage explain` of WorkloadGroups and of their members: from the hub's objects alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from crds.groups.gate import decision_of
from machinery.clock import timestamp
from stowage.cli import cli
from stowage.report import advice, groups
from tests.stowage.plain_hub import PlainHub, hub_of

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
DENIED = "WorkloadGroup shop/batch is denied for 3 s: resource gap: cpu 3 more"

pytestmark = pytest.mark.proves("U3", "G5")


class Hub(PlainHub):
    """A group and its Workloads; the clusters may not be read, so that nothing is decided now."""

    def __init__(self) -> None:
        super().__init__()
        self.faults = {"memberclusters": 403}
        self.groups = [group()]
        self.workloads = [
            workload("driver", 1, {"a": 1}),
            workload("worker", 5, {"a": 1, "b": 1}),
            workload("stranger", 1, {"a": 1}, group="another"),
        ]

    @property
    def group(self) -> dict[str, Any]:
        return self.groups[0]


def group(**status: Any) -> dict[str, Any]:
    told = {"phase": "Scheduling", "scheduled": 3, "waiting": 0, "desired": 6, **status}
    return {
        "metadata": {"name": "batch", "namespace": "shop", "uid": "g"},
        "spec": {"minMember": 4},
        "status": told,
    }


def workload(
    name: str, desired: int, shares: dict[str, int], *, group: str = "batch", **status: Any
) -> dict[str, Any]:
    placements = [{"cluster": c, "replicas": n} for c, n in shares.items()]
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "labels": {"stowage.dev/workload-group": group},
        },
        "spec": {},
        "status": {"desired": desired, "placements": placements, **status},
    }


def said(reason: str, message: str, status: str = "False") -> dict[str, Any]:
    since = timestamp(NOW - timedelta(seconds=90))
    known = {"reason": reason, "message": message, "lastTransitionTime": since}
    return {"conditions": [{"type": "Scheduled", "status": status, **known}]}


def released(*of: dict[str, Any]) -> dict[str, Any]:
    decisions = {
        each["metadata"]["uid"]: decision_of(
            {s["cluster"]: s["replicas"] for s in each["status"]["placements"]}
        )
        for each in of
    }
    return {"gate": "Open", "decisions": decisions}


hub = hub_of(Hub)


def run(file: Path, *args: str) -> Result:
    result = CliRunner().invoke(cli, [*args, "-n", "shop", "--kubeconfig", str(file)])
    assert result.exit_code == 0, result.output
    return result


def lines(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


@pytest.mark.proves("G11", "G13")
def test_a_group_tells_its_quorum_who_holds_what_and_what_it_lacks(hub: Hub) -> None:
    hub.group["status"] |= said("GroupDenied", DENIED)
    hub.workloads[1]["status"] |= said("GroupDenied", DENIED)
    told = lines(run(hub.file, "explain", "wg/batch"))
    assert told[0] == "shop/wg/batch: Scheduling, 3 replicas have a cluster, 4 are needed"
    assert told[1] == "6 replicas wanted by 2 Workloads; 0 running, 0 succeeded, 0 failed"
    assert told[2] == "Gate shut: nothing of it goes to a member before the quorum is placed"
    assert told[3].startswith("GroupDenied since ")
    assert told[3].endswith(DENIED)
    assert told[4] == f"What helps: {advice.GROUPS['GroupDenied'].partition(';')[0]}"
    assert told[6:] == [
        "WORKLOAD REPLICAS PLACED CLUSTERS RELEASED READY SAYS",
        "worker 5 2 a=1,b=1 no 0 GroupDenied",
        "driver 1 1 a=1 no 0",
    ]


@pytest.mark.proves("G24")
def test_the_gate_is_told_with_who_is_released(hub: Hub) -> None:
    driver, worker, _ = hub.workloads
    hub.group["status"] |= {"phase": "Scheduled", **released(driver, worker)}
    worker["status"]["placements"][0]["replicas"] = 3
    told = lines(run(hub.file, "explain", "wg/batch"))
    assert told[2] == "Gate open: 1 of 2 Workloads released"
    assert told[3] == "The quorum has not run yet: a failure before that takes all of it away again"
    assert told[-2:] == ["worker 5 4 a=3,b=1 no 0", "driver 1 1 a=1 yes 0"]
    hub.group["status"]["phase"] = "Failed"
    told = lines(run(hub.file, "explain", "wg/batch"))
    assert told[3].startswith("So many replicas failed that the quorum cannot run")
    hub.group["status"]["phase"] = "Scheduled"
    hub.group["status"] |= {"quorumTime": timestamp(NOW)}
    told = lines(run(hub.file, "explain", "wg/batch"))
    assert told[3].endswith("no failure takes the others away any more")
    data = json.loads(run(hub.file, "explain", "wg/batch", "-o", "json").stdout)["recorded"]
    assert {each["name"]: each["released"] for each in data["workloads"]} == {
        "driver": True,
        "worker": False,
    }
    assert (data["min"], data["scheduled"], data["gate"]) == (4, 3, "Open")


@pytest.mark.proves("G24")
def test_what_keeps_a_released_gang_from_running_is_told(hub: Hub) -> None:
    """Its gate is open, and that is not all there is to know."""
    driver, worker, _ = hub.workloads
    hub.group["status"] |= {"phase": "Scheduled", **released(driver, worker)}
    driver["status"] |= said("AlreadyExists", "Deployment shop/driver\nis not ours")
    driver["status"]["conditions"][0]["type"] = "Propagated"
    worker["status"]["clusters"] = [
        {"name": "a", "unschedulable": 0},
        {"name": "b", "unschedulable": 1},
    ]
    worker["status"] |= said("InsufficientCapacity", "no room")
    told = lines(run(hub.file, "explain", "wg/batch"))
    assert told[-2:] == [
        "worker 5 2 a=1,b=1 yes 0 InsufficientCapacity: no room; no node for 1 replica: b=1",
        "driver 1 1 a=1 yes 0 AlreadyExists: Deployment shop/driver is not ours",
    ]
    told = lines(run(hub.file, "explain", "wl/driver"))
    assert told[1].endswith("its replicas are released")
    assert told[2] == "AlreadyExists: Deployment shop/driver is not ours"
    assert lines(run(hub.file, "explain", "wl/worker"))[2] == "no node for 1 replica: b=1"


@pytest.mark.proves("G24")
def test_one_that_was_taken_away_says_when_it_is_tried_again(hub: Hub) -> None:
    hub.group["status"] |= {
        "gate": "Closed",
        "failures": 2,
        "retryTime": timestamp(datetime.now(UTC) + timedelta(seconds=15.5)),
    } | said("PropagationFailed", "worker is Unreachable on b")
    told = lines(run(hub.file, "explain", "wg/batch"))
    assert told[2].startswith("Gate closed after 2 failures in a row: all of it leaves the members")
    assert " (in 1" in told[2]
    hub.group["status"]["retryTime"] = timestamp(NOW)
    denied = said("GroupDenied", "0/2 clusters: WorkloadGroup shop/batch failed before")
    hub.workloads[0]["status"] |= denied
    told = lines(run(hub.file, "explain", "wg/batch"))
    assert "tried again as soon as it has" in told[2]
    assert "driver 1 1 a=1 no 0 GroupDenied" in told, "in whose words it is told above"
    hub.group["status"] |= said("Scheduled", "", "True")
    told = lines(run(hub.file, "explain", "wg/batch"))
    assert told[-1].endswith("GroupDenied: " + denied["conditions"][0]["message"])


@pytest.mark.proves("G6", "G16")
def test_what_is_held_is_told_with_its_time_out() -> None:
    found = group(waiting=3, scheduled=0, **said("WaitingForGroup", "one replica is missing"))
    found["spec"] |= {
        "scheduleTimeoutSeconds": 10,
        "topology": {"topologyKey": "topology.kubernetes.io/zone"},
    }
    told = groups.text(groups.Gang("shop", "batch", found, []), NOW, everything=False)
    assert told.splitlines() == [
        "shop/wg/batch: Scheduling, 0 replicas have a cluster, 3 held, 4 are needed",
        "0 replicas wanted by 0 Workloads; 0 running, 0 succeeded, 0 failed",
        "Gate shut: nothing of it goes to a member before the quorum is placed",
        "All of it in one domain of topology.kubernetes.io/zone (Required)",
        "WaitingForGroup since 90s: one replica is missing",
        "Held for 10 s at most: then the room is given back, and it is tried again",
        "What helps: room for the replicas that were missing, or a smaller minMember",
    ]


def test_a_member_tells_its_group_in_a_line_or_two(hub: Hub) -> None:
    driver, worker, _ = hub.workloads
    hub.group["status"] |= said("GroupDenied", DENIED)
    told = lines(run(hub.file, "explain", "wl/worker"))
    assert told[1] == (
        "in wg/batch: Scheduling, 3 replicas have a cluster, 4 are needed, its replicas are not released"
    )
    assert told[2].startswith("GroupDenied since ")
    hub.group["status"] |= released(driver, worker) | said("Scheduled", "", "True")
    told = lines(run(hub.file, "explain", "wl/worker"))
    assert told[1].endswith("its replicas are released")
    assert told[2] == ""
    data = json.loads(run(hub.file, "explain", "wl/worker", "-o", "json").stdout)["recorded"]
    assert data["group"]["names"] == ["batch"]
    assert (data["group"]["min"], data["group"]["gate"]) == (4, "Open")


def test_a_group_that_is_not_there_or_not_ours_to_read_is_said(hub: Hub) -> None:
    told = lines(run(hub.file, "explain", "wl/stranger"))
    assert told[1] == "in wg/another, which is not there: nothing of it is placed until it is"
    hub.faults["batch"] = 403
    assert lines(run(hub.file, "explain", "wl/worker"))[1] == "in wg/batch, which you may not read"
    alias = {"pod-group.scheduling.sigs.k8s.io": "second"}
    hub.workloads[0]["metadata"]["labels"] |= alias
    told = lines(run(hub.file, "explain", "wl/driver"))
    assert told[1] == "its labels name several groups, so it is in none: batch, second"
    del hub.faults["batch"]
    told = lines(run(hub.file, "explain", "wg/batch"))
    assert "In no group, as they name several: driver" in told
    del hub.workloads[0]["metadata"]["labels"]
    told = lines(run(hub.file, "explain", "wl/driver"))
    assert not any("group" in line for line in told)
    data = json.loads(run(hub.file, "explain", "wl/driver", "-o", "json").stdout)["recorded"]
    assert data["group"] is None


@pytest.mark.proves("G18")
def test_a_group_that_is_not_there_names_who_waits_for_it(hub: Hub) -> None:

    def refused() -> str:
        args = ("explain", "wg/another", "-n", "shop", "--kubeconfig", str(hub.file))
        return str(CliRunner().invoke(cli, args).exception).partition("; http")[0]

    none = "there is no WorkloadGroup shop/another"
    theirs = "make it for the 1 Workload of that label: stranger; or take the label off"
    assert refused() == f"{none}: {theirs}"
    hub.faults["workloads"] = 403
    assert refused() == none
    del hub.faults["workloads"]
    hub.workloads.pop()
    assert refused() == none


def test_history_of_a_group_names_who_has_one(hub: Hub) -> None:
    result = CliRunner().invoke(
        cli, ["history", "wg/batch", "-n", "shop", "--kubeconfig", str(hub.file)]
    )
    assert result.exit_code == 1
    assert "a WorkloadGroup has no placement of its own" in str(result.exception)


def test_what_stands_where_labels_belong_is_no_fault() -> None:
    for wrong in ("text", ["a"], None, 7, {"labels": "text"}, {"labels": {"a": 1}}):
        template = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": wrong, "spec": wrong}
        body = {"metadata": {"name": "w", "labels": {}}, "spec": {"template": template}}
        assert groups.names_of(body) == ()
    assert groups.names_of({"metadata": {"name": "w"}, "spec": {"template": "text"}}) == ()
