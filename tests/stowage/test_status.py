"""`stowage status`: what it counts, what it lists, and when it says that a person is needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from crds.fields.movement import MovingReason
from crds.fields.rollout import RolledOutReason
from crds.groups.workloadgroup import GroupScheduledReason
from crds.membercluster import EvacuatingReason, ReadyReason, SweepHeldReason
from crds.reservation import ReservationReadyReason
from crds.workload import PropagatedReason, ScheduledReason
from crds.workloadspread import SpreadReadyReason
from machinery.api.resources import LEASES
from machinery.clock import microtime, timestamp
from machinery.errors import ApiError
from stowage.cli import cli
from stowage.report import advice, fleet, status
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub
from tests.stowage.plain_hub import Answer, PlainHub, hub_of, kubeconfig

EXAMPLE = Path(__file__).parents[2] / "examples/02-target-cluster.yaml"
LONG_AGO = timestamp(datetime.now(UTC) - timedelta(days=3, hours=1))
TOMORROW = timestamp(datetime.now(UTC) + timedelta(days=1))
"""Of what began less than a minute ago, however long these tests take."""

pytestmark = pytest.mark.proves("U4")


class Hub(PlainHub):
    """Two processes that lead, and what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.leases = [lease("stowage-controller"), lease("stowage-propagator")]

    def answer(self, path: str, query: dict[str, list[str]]) -> Answer:
        code, body = super().answer(path, query)
        if code == 200 and path.endswith("/leases"):
            body = {**body, "items": [renewed(each) for each in body["items"]]}
        return code, body


hub = hub_of(Hub)


def lease(name: str, *, silent: float = 1.0, holder: str = "vm_1") -> dict[str, Any]:
    """The Lease of a process whose last sign, whenever one looks, is so many seconds old."""
    return {
        "metadata": {"name": name, "annotations": {"stowage.dev/release": "9.9.9"}},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 10, "silent": silent},
    }


def renewed(told: dict[str, Any]) -> dict[str, Any]:
    """The same as it is now: a parameter of a test is made long before the test runs."""
    spec = dict(told["spec"])
    ago = timedelta(seconds=spec.pop("silent"))
    return {**told, "spec": {**spec, "renewTime": microtime(datetime.now(UTC) - ago)}}


def cluster(name: str, reason: str = "Connected", **spec: Any) -> dict[str, Any]:
    ready = {
        "type": "Ready",
        "status": "True" if reason == "Connected" else "False",
        "reason": reason,
        "message": "no route",
        "lastTransitionTime": LONG_AGO,
    }
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [ready]}}


def workload(name: str, state: str = "Running", **status: Any) -> dict[str, Any]:
    fields = {"state": state, "desired": 4, "assigned": 4, "pending": 0, "ready": 4, **status}
    meta = {"name": name, "namespace": "shop", "creationTimestamp": LONG_AGO}
    return {"metadata": meta, "spec": {"schedulerName": "stowage"}, "status": fields}


def condition(
    kind: str, reason: str, message: str = "", since: str = LONG_AGO
) -> list[dict[str, Any]]:
    return [
        {
            "type": kind,
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
        }
    ]


def says(kind: str, reason: str, *, since: str = LONG_AGO) -> dict[str, Any]:
    """A fleet of one Workload with that condition."""
    return {"workloads": [workload("x", conditions=condition(kind, reason, since=since))]}


def run(file: Path, *args: str) -> Result:
    return CliRunner().invoke(cli, ["status", "--kubeconfig", str(file), *args])


def test_a_good_fleet_takes_five_lines(hub: Hub) -> None:
    hub.clusters = [cluster("a"), cluster("b", unschedulable=True)]
    hub.workloads = [workload("demo")]
    result = run(hub.file)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "2 of 2 clusters ready, 1 of 1 Workload running; nothing needs a person"
    assert lines[2].split() == ["PROCESS", "RELEASE", "RENEWED", "LEADER"]
    assert lines[3].split()[:2] == ["controller", "9.9.9"]
    assert lines[6:] == [
        "Clusters: 1 Ready (a), 1 Cordoned (b)",
        "Workloads: 1 Running; 4 of 4 replicas have a cluster, 4 are ready",
    ]


@pytest.mark.proves("Q20")
def test_a_cluster_that_is_drained_is_not_only_cordoned(hub: Hub) -> None:
    drain = {"unschedulable": True, "taints": [{"key": "stowage.dev/drain", "effect": "NoExecute"}]}
    made = [evacuating("a", "Draining", "1 replica still here"), evacuating("b", "Drained", "")]
    for each in made:
        each["spec"] = drain
    hub.clusters = [*made, cluster("c", unschedulable=True), cluster("d", "Unreachable", **drain)]
    result = run(hub.file)
    assert "3 of 4 clusters ready" in result.output
    assert "Clusters: 1 Cordoned (c), 1 Draining (a), 1 Drained (b), 1 Unreachable (d)" in (
        result.output
    )


@pytest.mark.proves("SC10")
@pytest.mark.parametrize(
    ("shards", "said", "told"),
    [
        ("3", None, "the ConfigMap stowage-system/stowage-propagator is gone: the last N stands"),
        ("3", "x", "says shards: 'x', which is no number of 1 to 64: the last N stands"),
        ("", "65", "says shards: '65', which is no number of 1 to 64: the last N stands"),
        ("3", "3", ""),
        ("", None, ""),
    ],
)
def test_a_config_map_of_shards_that_says_no_number_needs_a_person(
    hub: Hub, shards: str, said: str | None, told: str
) -> None:
    hub.leases += [lease(f"stowage-propagator-{n}") for n in range(1, int(shards or 1))]
    if shards:
        hub.leases[1]["metadata"]["annotations"]["stowage.dev/shards"] = shards
    if said is not None:
        meta = {"name": "stowage-propagator", "namespace": "stowage-system"}
        hub.configmaps = [{"metadata": meta, "data": {"shards": said}}]
    result = run(hub.file)
    assert result.exit_code == int(bool(told))
    assert told in result.output
    found = json.loads(run(hub.file, "-o", "json").output)
    assert (found["shards"], bool(found["shardsFault"])) == (int(shards or 1), bool(told))
    assert found["needsAPerson"] == int(bool(told))


@pytest.mark.proves("PK20")
@pytest.mark.parametrize(
    ("propagator", "apart"),
    [("0.3.0", False), ("0.2.7", False), ("0.4.1.dev3", False), ("0.1.9", True), ("0.5.0", True), ("", False)],
)  # fmt: skip
def test_releases_that_are_too_far_apart_are_both_named(
    hub: Hub, propagator: str, apart: bool
) -> None:
    for each, release in zip(hub.leases, ("0.3.0", propagator), strict=True):
        each["metadata"]["annotations"]["stowage.dev/release"] = release
    result = run(hub.file)
    assert result.exit_code == int(apart)
    told = [line for line in result.output.splitlines() if "minor version apart" in line]
    assert bool(told) is apart
    for line in told:
        assert "controller 0.3.0" in line
        assert f"propagator {propagator}" in line
        assert "`stowage upgrade`" in line
    assert bool(json.loads(run(hub.file, "-o", "json").output)["releasesApart"]) is apart


def test_the_bound_of_detection_is_told_where_the_fleet_delays_it(hub: Hub) -> None:
    hub.clusters = [cluster(f"c{n}") for n in range(250)]
    assert "is noticed" not in run(hub.file).output
    hub.clusters = [cluster(f"c{n}") for n in range(1000)]
    assert "; one that stops answering is noticed within 35s\n" in run(hub.file).output


@pytest.mark.proves("RB23")
@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("m-2", "m-1"), "2 Ready (m-1, m-2)"),
        ([f"m-{n}" for n in range(1, 8)], "7 Ready (m-1, m-2, m-3, m-4, m-5 and 2 more)"),
    ],
)
def test_a_few_clusters_are_named_beside_their_number(
    hub: Hub, names: Sequence[str], told: str
) -> None:
    hub.clusters = [*map(cluster, names), cluster("dead", "Unreachable")]
    assert f"\nClusters: {told}, 1 Unreachable (dead)\n" in run(hub.file).output
    counts = json.loads(run(hub.file, "-o", "json").stdout)["clusters"]
    assert counts == {"Ready": len(names), "Unreachable": 1}


@pytest.mark.proves("Q3")
@pytest.mark.parametrize(
    ("leases", "where", "silent"),
    [
        ({"stowage-controller": 1, "stowage-propagator": 1}, "stowage-system", []),
        ({"stowage-controller": 1, "stowage-propagator": 99}, "elsewhere", ["propagator"]),
        ({"stowage-controller": 1}, "stowage-system", ["propagator"]),
        ({"stowage-controller-gold": 99, "stowage-propagator": 1}, "here", ["controller-gold"]),
        ({}, "", ["controller", "propagator"]),
    ],
)
async def test_a_command_that_moves_says_when_nobody_sees_to_it(
    leases: dict[str, float], where: str, silent: list[str]
) -> None:
    memory = MemoryHub(clock=FakeClock())
    for name, seconds in leases.items():
        told = renewed(lease(name, silent=seconds))
        memory.put(LEASES, {**told, "metadata": {**told["metadata"], "namespace": where}})
    notes = [*(await fleet.unled(memory, datetime.now(UTC))).values()]  # type: ignore[arg-type]
    assert [note.split()[1] for note in notes] == silent
    if "propagator" in silent:
        assert notes[-1] == (
            "no propagator leads: nothing will move until one runs; `stowage status` says who led "
            "last, and `stowage install` starts both processes"
        )


async def test_who_may_read_no_lease_is_told_nothing() -> None:
    memory = MemoryHub(clock=FakeClock())

    async def refuse(*_: Any) -> None:
        raise ApiError.of(code=403, reason="Forbidden", message="no")

    memory.faults.append(refuse)
    assert not await fleet.unled(memory, datetime.now(UTC))  # type: ignore[arg-type]


@pytest.mark.proves("Q16")
@pytest.mark.parametrize(
    "args",
    [
        ["status"],
        ["history", "wl/web"],
        ["explain", "wl/web"],
        ["drift"],
        ["plan", "-f", str(EXAMPLE)],
        ["rollout", "status", "wl/web"],
        ["rollout", "pause", "wl/web"],
        ["drain", "m1"],
        ["taint", "m1", "a:NoSchedule"],
        ["unjoin", "m1"],
        ["rename", "m1", "m2"],
    ],
)
def test_a_cluster_that_is_no_hub_is_named(hub: Hub, args: list[str]) -> None:
    hub.foreign = True
    server = yaml.safe_load(hub.file.read_text())["clusters"][0]["cluster"]["server"]
    done = CliRunner().invoke(cli, [*args, "--kubeconfig", str(hub.file)])
    said = done.stderr if done.exit_code == 2 else str(done.exception)
    assert done.exit_code
    assert said.strip().removeprefix("error: ") == (
        f"{server} (context hub) does not know the kinds of stowage.dev: name the hub by --context "
        "or --kubeconfig, or run `stowage install` there"
    )


@pytest.mark.proves("Q16")
def test_what_is_not_there_is_told_with_the_hub_that_was_asked(hub: Hub) -> None:
    server = yaml.safe_load(hub.file.read_text())["clusters"][0]["cluster"]["server"]
    done = CliRunner().invoke(
        cli, ["history", "wl/web", "-n", "shop", "--kubeconfig", str(hub.file)]
    )
    asked = f"{server} (context hub) was asked"
    assert str(done.exception) == f"there is no Workload shop/web; {asked}"


def test_what_is_wrong_is_listed_with_what_helps(hub: Hub) -> None:
    hub.clusters = [cluster("a"), cluster("dead", "Unreachable")]
    waits = condition("Scheduled", "ReplicasReached", "domain z is at its quota of 2")
    refused = condition("Propagated", "AlreadyExists", "Deployment demo exists")
    hub.workloads = [
        workload("good"),
        workload("full", "Scheduled", pending=2, assigned=2, conditions=waits),
        workload("taken", "Creating", conditions=refused),
        workload("moves", clusters=[{"name": "dead", "state": "Leaving", "replicas": 3}]),
    ]
    result = run(hub.file)
    assert result.exit_code == 1
    assert result.output.splitlines()[0].endswith("; 2 things need a person")
    for words in (
        "dead   Unreachable   3d      no route",
        "shop/full   2 of 4     ReplicasReached   3d      domain z is at its quota of 2",
        "what helps: more in its WorkloadPolicy or WorkloadSpread",
        "shop/taken   AlreadyExists   3d      Deployment demo exists",
        "shop/moves   3          Leaving   leaves dead",
    ):
        assert words in result.output, result.output


@pytest.mark.proves("N11")
def test_a_held_sweep_needs_a_person(hub: Hub) -> None:
    hub.clusters = [cluster("a"), cluster("b")]
    said = {"type": "SweepHeld", "status": "True", "reason": "HubWentBack"}
    told = {"message": "the hub was set back", "lastTransitionTime": LONG_AGO}
    hub.clusters[0]["status"]["conditions"].append({**said, **told})
    result = run(hub.file)
    assert result.exit_code == 1
    assert "2 of 2 clusters ready" in result.output
    assert "a      HubWentBack   3d      the hub was set back" in result.output
    assert (
        "what helps: restore what was made since the backup, then see stowage sweep a"
        in result.output
    )
    assert json.loads(run(hub.file, "-o", "json").output)["sweepsHeld"][0]["name"] == "a"


@pytest.mark.proves("Q23")
@pytest.mark.parametrize(
    ("change", "urgent"),
    [
        ({"leases": [lease("stowage-controller", silent=90), lease("stowage-propagator")]}, 1),
        ({"leases": [lease("stowage-controller", holder=""), lease("stowage-propagator")]}, 1),
        ({"leases": []}, 2),
        ({"clusters": [cluster("a", "Unauthorized")]}, 1),
        ({"workloads": [workload("x", "")]}, 1),
        ({"workloads": [{**workload("x", ""), "spec": {"schedulerName": "other"}}]}, 0),
        (says("Propagated", "Propagating"), 0),
        (says("Propagated", "HubUnavailable"), 1),
        (says("Propagated", "HubUnavailable", since=TOMORROW), 0),
        (says("Propagated", "NotReviewed"), 1),
        (says("Propagated", "NotReviewed", since=TOMORROW), 0),
        (says("Propagated", "Suspended"), 0),
        (says("Moving", "Suspended"), 1),
        (says("Scheduled", "QuotaExceeded"), 0),
        (says("Scheduled", "ReplicasReached"), 0),
        (
            {
                "workloads": [
                    workload(
                        "x",
                        clusters=[
                            {"name": "a", "unschedulable": 2, "unschedulableSince": LONG_AGO}
                        ],
                    )
                ]
            },
            1,
        ),
    ],
)
def test_when_a_person_is_needed(hub: Hub, change: dict[str, Any], urgent: int) -> None:
    for name, value in change.items():
        setattr(hub, name, value)
    result = run(hub.file, "-o", "json")
    assert json.loads(result.output)["needsAPerson"] == urgent
    assert result.exit_code == (1 if urgent else 0)


def test_a_dead_cluster_is_one_thing_however_many_workloads_it_runs(hub: Hub) -> None:
    hub.clusters = [cluster("dead", "Unreachable")]
    away = condition("Propagated", "ClusterUnreachable", "a long story")
    shares = [{"name": "dead", "state": "Unreachable", "replicas": 4}]
    hub.workloads = [workload(f"w{n}", conditions=away, clusters=shares) for n in range(5)]
    result = run(hub.file)
    assert "; 1 thing needs a person" in result.output
    assert "dead cannot be reached" in result.output
    assert "above" not in result.output
    assert "a long story" not in result.output


@pytest.mark.proves("A29")
def test_a_cluster_with_units_and_without_a_membercluster_needs_a_person(hub: Hub) -> None:
    hub.clusters = [cluster("m1"), cluster("new", formerNames=["old"])]
    placements = [{"cluster": c, "replicas": 2} for c in ("m1", "m2", "old")]
    hub.workloads = [workload("a", placements=placements), workload("b", placements=placements)]
    over = [{"name": "m2", "ended": {"result": "Succeeded"}}]
    hub.workloads.append(workload("c", placements=placements, clusters=over))
    result = run(hub.file)
    assert result.exit_code == 1
    assert "there is no MemberCluster of this name: 4 replicas of 2 Workloads" in result.output
    assert "stowage unjoin" in result.output
    assert "1 thing needs a person" in result.output
    hub.faults = {"memberclusters": 403}
    assert "Away" not in run(hub.file).output


def test_every_reason_has_its_advice() -> None:
    assert {*advice.SCHEDULED} == {r.value for r in ScheduledReason} - {"Scheduled", "Imported"}
    assert {*advice.PROPAGATED} == {r.value for r in PropagatedReason} - {
        "Propagated",
        "Propagating",
    }
    assert {*advice.SWEEPS} == {r.value for r in SweepHeldReason}
    assert {*advice.CLUSTERS} == {r.value for r in ReadyReason} - {"Connected"} | {"Away"}
    assert {*advice.RESERVATIONS} == {r.value for r in ReservationReadyReason} - {
        "Available",
        "Pending",  # the condition Scheduled says why
        "Expired",
        "ClusterLost",
        "Succeeded",
    }
    assert {*advice.GROUPS} == {r.value for r in GroupScheduledReason} - {"Scheduled"} | {"Failed"}
    assert {*advice.SPREADS} == {r.value for r in SpreadReadyReason} - {"Valid"}


def spread(
    name: str, conditions: list[dict[str, Any]], **subsets: list[dict[str, Any]]
) -> dict[str, Any]:
    statuses = [
        {"name": subset, "replicas": 7, "conditions": marks} for subset, marks in subsets.items()
    ]
    status = {"conditions": conditions, "subsetStatuses": statuses}
    return {"metadata": {"name": name, "namespace": "shop"}, "status": status}


def good(kind: str) -> list[dict[str, Any]]:
    return [{"type": kind, "status": "True", "reason": "Good"}]


@pytest.mark.proves("W35")
def test_a_spread_that_is_not_followed_needs_a_person(hub: Hub) -> None:
    taken = condition("Ready", "TargetTaken", "demo is the target of the older spread first")
    hub.spreads = [
        spread("first", good("Ready"), normal=good("Schedulable"), elastic=[]),
        spread("second", taken),
        {"metadata": {"name": "new", "namespace": "shop"}},
        spread("leaves", taken),
    ]
    hub.spreads[-1]["metadata"]["deletionTimestamp"] = LONG_AGO
    result = run(hub.file)
    assert result.exit_code == 1
    assert "; 1 thing needs a person" in result.output
    said = result.output[result.output.index("Spreads that are not followed") :].splitlines()
    assert said[1].split() == ["NAME", "STATE", "SINCE", "WHY"]
    assert said[2].split()[:3] == ["shop/second", "TargetTaken", "3d"]
    assert said[2].endswith("demo is the target of the older spread first")
    assert said[3].endswith("what helps: delete it, or the older one that is named")
    assert len(said) == 4


def reservation(
    name: str, phase: str, *conditions: list[dict[str, Any]], made: float = 1.0, **spec: Any
) -> dict[str, Any]:
    """One that was made so many hours ago."""
    created = timestamp(datetime.now(UTC) - timedelta(hours=made))
    status = {"phase": phase, "desired": 4, "pending": 0, "conditions": [*chain(*conditions)]}
    meta = {"name": name, "namespace": "shop", "creationTimestamp": created}
    return {"metadata": meta, "spec": {"ttl": "24h", **spec}, "status": status}


def rows(result: Result) -> list[str]:
    listed = result.output[result.output.index("Reservations that wait") :].split("\n\n")[0]
    return [" ".join(line.split()) for line in listed.splitlines()[1:]]


REFUSED = condition("Scheduled", "InsufficientCapacity", "no room for 3 replicas")
PENDING = condition("Ready", "Pending", "no replica of it has a cluster")
SHORT = condition("Ready", "Short", "a lacks cpu 1500m")
NOT_HELD = condition("Ready", "NotHeld", "a Workload bare-hold is somebody else's")


@pytest.mark.proves("U4", "E26")
def test_reservations_that_wait_or_lack_room_need_a_person(hub: Hub) -> None:
    hub.reservations = [
        reservation("good", "Available", good("Scheduled"), good("Ready")),
        reservation("waits", "Pending", REFUSED, PENDING),
        reservation("thin", "Available", good("Scheduled"), SHORT),
        reservation("bare", "Available", good("Scheduled"), NOT_HELD),
        reservation("new", "", made=0.0),
        reservation("lost", "Failed", REFUSED, condition("Ready", "ClusterLost")),
        reservation("unseen", "", made=2.0),
        reservation("unplaced", "Pending", PENDING, made=2.0),
        reservation("theirs", "", made=2.0, schedulerName="other"),
        reservation("leaves", "Pending", REFUSED),
    ]
    hub.reservations[1]["status"]["pending"] = 3
    hub.reservations[-1]["metadata"]["deletionTimestamp"] = LONG_AGO
    result = run(hub.file)
    assert result.exit_code == 1
    assert "; 5 things need a person" in result.output
    assert (
        "Reservations: 3 Available, 3 Pending, 2 Undecided, 1 Failed, 1 LeftToOthers"
        in result.output
    )
    assert rows(result) == [
        "NAME REPLICAS STATE SINCE WHY",
        "shop/bare NotHeld 3d a Workload bare-hold is somebody else's",
        f"what helps: {advice.named(advice.RESERVATIONS['NotHeld'], 'shop/bare')}",
        "shop/thin Short 3d a lacks cpu 1500m",
        f"what helps: {advice.RESERVATIONS['Short']}",
        "shop/waits 3 of 4 InsufficientCapacity 3d no room for 3 replicas",
        f"what helps: {advice.SCHEDULED['InsufficientCapacity']}",
        "shop/unplaced Undecided 2h is the controller running?",
        f"what helps: {advice.UNKNOWN}",
        "shop/unseen Undecided 2h is the controller running?",
        f"what helps: {advice.UNKNOWN}",
    ]


@pytest.mark.proves("U4", "E29")
def test_reservations_that_end_within_the_hour_are_told_and_need_nobody(hub: Hub) -> None:
    soon = timestamp(datetime.now(UTC) + timedelta(minutes=30, seconds=30))
    held = good("Scheduled"), good("Ready")
    hub.reservations = [
        reservation("by-its-ttl", "Available", *held, made=23.5),
        reservation("by-its-time", "Available", *held, made=1.0, expires=soon),
        reservation(
            "time-before-ttl", "Available", *held, made=23.5, expires="2999-01-01T00:00:00Z"
        ),
        reservation("for-ever", "Available", *held, made=10_000.0, ttl="0"),
        reservation("over", "Failed", made=25.0),
        reservation("late", "Available", *held, made=27.0),
        reservation("odd", "Available", *held, made=27.0, ttl="one day"),
        reservation("endless", "Available", *held, made=27.0, ttl="999999h" * 40),
    ]
    result = run(hub.file)
    assert result.exit_code == 0
    assert "nothing needs a person" in result.output
    assert rows(result) == [
        "NAME STATE WHY",
        "shop/by-its-time Expiring holds its room for 30m more",
        "shop/by-its-ttl Expiring holds its room for 29m more",
        "shop/late Expiring is over since 3h",
    ]
    told = json.loads(run(hub.file, "-o", "json").output)
    assert [each["state"] for each in told["reserved"]] == ["Expiring"] * 3
    assert told["reservations"] == {"Available": 7, "Failed": 1}


@pytest.mark.proves("W29")
def test_a_marked_subset_is_told_and_needs_nobody(hub: Hub) -> None:
    mark = condition("Schedulable", "PodUnschedulable", "until 12:05:00")
    hub.spreads = [
        spread("demo", good("Ready"), normal=mark, elastic=good("Schedulable")),
        spread("odd", good("Ready"), normal=condition("Schedulable", "PodUnschedulable")),
    ]
    result = run(hub.file)
    assert result.exit_code == 0
    assert "nothing needs a person" in result.output
    rows = [" ".join(line.split()) for line in result.output.splitlines() if "shop/" in line]
    assert rows == [
        "shop/demo 7 PodUnschedulable 3d subset normal takes no replica for now: until 12:05:00",
        "shop/odd 7 PodUnschedulable 3d subset normal takes no replica for now",
    ]
    told = json.loads(run(hub.file, "-o", "json").output)["spreads"]
    assert [each["name"] for each in told] == ["shop/demo", "shop/odd"]


def test_a_removal_needs_somebody_only_when_it_takes_long(hub: Hub) -> None:
    for since, code in ((timestamp(datetime.now(UTC)), 0), (LONG_AGO, 1)):
        gone = workload("gone", clusters=[{"name": "dead", "replicas": 4}])
        gone["metadata"]["deletionTimestamp"] = since
        hub.workloads = [gone]
        result = run(hub.file)
        assert result.exit_code == code
        assert "still on dead" in result.output


@pytest.mark.proves("Q4")
def test_a_removal_says_what_it_stands_still_for(hub: Hub) -> None:
    why = 'm1: deployments.apps "web" is forbidden: User "stowage" cannot delete them'
    gone = workload("gone", clusters=[{"name": "m1", "replicas": 4}])
    gone["status"]["conditions"] = condition("Propagated", "Rejected", why)
    gone["metadata"]["deletionTimestamp"] = LONG_AGO
    hub.workloads = [gone]
    result = run(hub.file)
    assert f"still on m1: {why}" in result.output
    assert advice.PROPAGATED["Rejected"] in result.output


@pytest.mark.proves("Q7")
@pytest.mark.parametrize(
    ("cause", "helps"),
    [
        ("pod has unbound immediate PersistentVolumeClaims", "volumes for its claims there"),
        ("node(s) had volume node affinity conflict", "volumes for its claims there"),
        ("node(s) had untolerated taint {sla: gold}", "a toleration of the taint"),
        ("Insufficient cpu", "a larger node there, or smaller requests"),
        ("", "see its pods there"),
    ],
)
def test_replicas_that_no_node_takes_are_told_in_the_members_words(
    hub: Hub, cause: str, helps: str
) -> None:
    told = f"pods are not ready: no node: {cause}" if cause else ""
    share = {"name": "a", "unschedulable": 2, "unschedulableSince": LONG_AGO, "message": told}
    hub.workloads = [workload("x", clusters=[share])]
    result = run(hub.file)
    assert f"a: no node takes them{': ' if cause else ''}{cause}" in result.output
    assert helps in result.output
    assert ("larger node" in result.output) == ("Insufficient" in cause)


def test_a_large_fleet_is_read_in_pages_and_shown_in_part(hub: Hub) -> None:
    hub.clusters = [
        cluster(f"c{n:04}", "Unreachable" if n % 2 else "Connected") for n in range(1000)
    ]
    waits = condition("Scheduled", "InsufficientCapacity", "no room for more")
    hub.workloads = [
        workload(f"w{n}", conditions=waits if n % 10 == 0 else []) for n in range(10_000)
    ]
    result = run(hub.file)
    assert result.exit_code == 1
    assert "… 490 more (--all shows them)" in result.output
    assert "… 990 more (--all shows them)" in result.output
    assert len(result.output.splitlines()) < 60
    assert len([path for path in hub.asked if path.endswith("/workloads")]) >= 20
    assert len(run(hub.file, "--all").output.splitlines()) > 3000


def test_one_namespace_is_enough_for_who_may_see_no_other(hub: Hub) -> None:
    run(hub.file, "-n", "shop")
    assert "/apis/stowage.dev/v1alpha1/namespaces/shop/workloads" in hub.asked
    hub.workloads = [workload("demo")]
    hub.faults = {"memberclusters": 403}
    result = run(hub.file, "-n", "shop")
    assert result.exit_code == 0
    assert result.output.startswith("1 of 1 Workload running; nothing needs a person\n")
    assert result.output.endswith("Not shown, as you may not read them: MemberClusters\n")
    kinds = ("WorkloadSpreads", "Reservations", "WorkloadGroups", "WorkloadQuotas")
    for kind in kinds:
        hub.faults = {kind.lower(): 403}
        result = run(hub.file, "-n", "shop")
        assert result.exit_code == 0
        assert result.output.endswith(f"Not shown, as you may not read them: {kind}\n")
    hub.faults = {"workloads": 403}
    result = run(hub.file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "with -n it asks for those of one namespace" in result.stderr


def test_a_look_that_failed_is_told_apart_from_a_person_who_is_needed(
    tmp_path: Path,
) -> None:
    away = kubeconfig(tmp_path, "http://127.0.0.1:9")
    result = run(away, "-o", "json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: http://127.0.0.1:9: Connection refused\n"
    result = run(tmp_path / "nowhere")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: no hub to talk to: there is no file ")


def test_it_stays_on_the_screen_until_interrupted(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            hub.clusters = [cluster("a", "Unreachable")]
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(status.time, "sleep", sleep)
    result = run(hub.file, "-w")
    assert result.exit_code == 1
    assert "nothing needs a person" in result.output
    assert "0 of 1 cluster ready" in result.output
    assert min(pauses) >= status.PAUSE_SECONDS


def test_a_watch_that_saw_nothing_at_last_ends_as_a_look_that_failed(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.clusters = [cluster("a", "Unreachable")]
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        hub.faults = {"": 500}
        if len(pauses) > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(status.time, "sleep", sleep)
    result = run(hub.file, "-w")
    assert result.exit_code == 2
    assert "0 of 1 cluster ready" in result.stdout
    assert "the hub does not answer: no leases" in result.stdout
    assert result.stderr == "error: no leases\n"


def test_an_empty_hub_is_told_in_few_words(hub: Hub) -> None:
    result = run(hub.file)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == (
        "0 of 0 clusters ready, 0 of 0 Workloads running; nothing needs a person"
    )
    assert result.stdout.endswith("\nClusters: none\nWorkloads: none\n")


def evacuating(
    name: str, reason: str, message: str, *, left: int = 0, since: str = LONG_AGO
) -> dict[str, Any]:
    made = cluster(name)
    said = condition("Evacuating", reason, message)
    causes = [{"name": "stowage.dev/drain:NoExecute", "since": since}]
    made["status"]["conditions"] += said
    made["status"]["evacuation"] = {"causes": causes, "units": 5, "left": left}
    return made


@pytest.mark.proves("M35")
def test_clusters_that_are_left_are_listed_and_a_brake_takes_one_line(hub: Hub) -> None:
    brake = "3 of 4 clusters are lost, 2 at most"
    hub.clusters = [
        evacuating("a", "Draining", "2 replicas of 1 Workload still here", left=2),
        evacuating("b", "None", "nothing has to leave"),
        *(evacuating(name, "Braked", brake) for name in ("l3", "l1", "l2")),
        evacuating("z", "Dwelling", "the cluster was lost and is back"),
    ]
    result = run(hub.file)
    assert result.exit_code == 1, "a brake needs a person"
    lines = [line.split("   ") for line in result.output.splitlines()]
    told = {each[0].strip(): [cell.strip() for cell in each[1:] if cell] for each in lines}
    assert told["a"][:2] == ["2 of 5", "Draining"]
    assert told["l1, l2, l3"][1] == "Braked"
    assert result.output.count(brake) == 1
    assert "stowage.dev/out-of-service:NoExecute" in result.output
    assert told["z"][1] == "Dwelling"
    assert "b" not in told
    hub.clusters = hub.clusters[:2]
    assert run(hub.file).exit_code == 0, "a drain needs nobody"


@pytest.mark.proves("Q2")
def test_a_cluster_is_left_for_no_longer_than_its_cause_is_there(hub: Hub) -> None:
    """Evacuating was False before, of an earlier drain, and is False of the loss."""
    now = timestamp(datetime.now(UTC))
    hub.clusters = [evacuating("lost", "Tolerating", "does not answer", left=5, since=now)]
    [row] = [line.split() for line in run(hub.file).output.splitlines() if line.startswith("lost ")]
    assert row[1:5] == ["5", "of", "5", "Tolerating"]
    assert row[5].endswith("s")


@pytest.mark.proves("M29", "M52")
@pytest.mark.parametrize("reason", [*advice.MOVING, "FleetBudget", "Settled"])
def test_a_move_that_is_blocked_for_a_minute_needs_a_person(hub: Hub, reason: str) -> None:
    said = condition("Moving", reason, "2 of 4 replicas leave a (drain): all of it")
    hub.workloads = [workload("demo", conditions=said)]
    result = run(hub.file)
    assert result.exit_code == int(reason in advice.MOVING)
    assert ("Moves that are blocked" in result.output) == (reason != "Settled")
    assert advice.MOVING.get(reason, "") in result.output
    said[0]["lastTransitionTime"] = timestamp(datetime.now(UTC))
    assert run(hub.file).exit_code == 0, "it has just begun"
    said[0] |= {"status": "True", "reason": "Moving", "lastTransitionTime": LONG_AGO}
    moving = run(hub.file)
    assert moving.exit_code == 0
    assert "Being moved:" in moving.output
    assert "2 of 4 replicas leave a (drain): all of it" in moving.output


@pytest.mark.proves("M29")
def test_a_share_that_leaves_has_its_pods_counted_and_says_what_holds_it(hub: Hub) -> None:
    held = {"message": "disruption budget shop/web allows 0"}
    share = {"name": "a", "replicas": 0, "scheduled": 2, "ready": 2, "state": "Leaving", **held}
    hub.workloads = [workload("web")]
    hub.workloads[0]["status"]["clusters"] = [share]
    lines = run(hub.file).output.splitlines()
    [row] = [line.split("   ") for line in lines if "Leaving" in line]
    assert [cell.strip() for cell in row if cell.strip()] == [
        *("shop/web", "2", "Leaving"),
        "leaves a: disruption budget shop/web allows 0",
    ]


@pytest.mark.proves("T30")
@pytest.mark.parametrize("reason", [each.value for each in RolledOutReason])
def test_a_rollout_that_goes_no_further_needs_a_person(hub: Hub, reason: str) -> None:
    said = condition("RolledOut", reason, "member-7: 2 of 4 replicas are Ready")
    said[0]["status"] = str(reason == "Complete")
    hub.workloads = [workload("web", conditions=said)]
    result = run(hub.file)
    assert result.exit_code == int(reason in advice.ROLLED_OUT)
    assert ("Being rolled out:" in result.output) == (reason != "Complete")
    assert ("member-7: 2 of 4 replicas are Ready" in result.output) == (reason != "Complete")
    assert advice.ROLLED_OUT.get(reason, "") in result.output
    [*found] = json.loads(run(hub.file, "-o", "json").output)["rollouts"]
    assert [each["state"] for each in found] == [reason] * (reason != "Complete")


def test_each_reason_of_rollouts_moving_and_evacuating_is_known() -> None:
    needless = {"Complete", "Progressing", "Soaking", "Paused"}
    assert advice.ROLLED_OUT.keys() == {each.value for each in RolledOutReason} - needless
    needless = {"Moving", "Settled", "FleetBudget", "Braked"}
    assert advice.MOVING.keys() == {each.value for each in MovingReason} - needless
    assert advice.EVACUATING.keys() < {each.value for each in EvacuatingReason}
