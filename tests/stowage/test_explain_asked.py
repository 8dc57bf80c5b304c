"""`stowage explain` of a hub, while the controller or part of the hub does not answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from machinery.clock import timestamp
from machinery.errors import ConfigurationError, Forbidden, ServerError, TooManyRequests
from stowage.cli import cli
from stowage.console import words
from stowage.hub import ATTEMPTS, LONGEST_WAIT_SECONDS, Reader, connection
from tests.stowage.plain_hub import PlainHub, hub_of, serving
from tests.stowage.test_plan import cluster, placed, workload

NO_WORKLOAD = "http://127.0.0.1:9"
STEP = {"units": 2, "time": "2026-01-01T00:00:00Z", "cause": "Placed"}


def as_stored(member: dict[str, Any]) -> dict[str, Any]:
    """With quantities as the propagator writes them."""
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    capacity = {"nodes": 1, "allocatable": room, "requested": {}}
    groups = [{"count": 1, "free": room}]
    return {**member, "status": {**member["status"], "nodeGroups": groups, "capacity": capacity}}


class Hub(PlainHub):
    """Two clusters, and one Workload on the first of them."""

    def __init__(self) -> None:
        super().__init__()
        kept = {"desired": 2, "assigned": 2, "reasons": [{"cluster": "a", "steps": [STEP]}]}
        there = workload("demo", schedulerName="stowage", status={**placed(a=2), **kept})
        self.workloads = [there]
        self.clusters = [as_stored(cluster(name)) for name in "ab"]


hub = hub_of(Hub)


def run(file: Path, *args: str) -> Result:
    asked = ["explain", "wl/demo", "-n", "shop", "--kubeconfig", str(file)]
    return CliRunner().invoke(cli, [*asked, *args])


def recorded(result: Result) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads(result.stdout)["recorded"]["placements"]
    return told


PLACED = [{"cluster": "a", "replicas": 2, "steps": [STEP]}]


@pytest.mark.proves("U1")
def test_a_controller_that_does_not_answer_is_told_beside_what_the_hub_knows(hub: Hub) -> None:
    result = run(hub.file, "--controller", NO_WORKLOAD, "-o", "json")
    told = json.loads(result.stdout)
    assert recorded(result) == PLACED
    assert [each["cluster"] for each in told["placements"]] == ["a"]
    note = f"no answer of a controller at {NO_WORKLOAD} ({NO_WORKLOAD}: Connection refused)"
    assert told["notes"] == [f"{note}: computed from the objects on the hub"]
    assert (result.exit_code, result.stderr) == (0, f"note: {told['notes'][0]}\n")
    table = run(hub.file, "--controller", NO_WORKLOAD)
    assert table.stdout.count(note) == 0
    assert table.stderr == result.stderr


@pytest.mark.proves("U1")
@pytest.mark.parametrize("kind", ["memberclusters", "workloads", "workloadpolicies"])
def test_what_the_hub_recorded_is_printed_whatever_becomes_of_the_rest(hub: Hub, kind: str) -> None:
    hub.faults = {kind: 403}
    for controller in ((), ("--controller", NO_WORKLOAD)):
        result = run(hub.file, *controller, "-o", "json")
        assert recorded(result) == PLACED
        (remark,) = json.loads(result.stdout)["remarks"]
        assert remark == f"what would be decided now is not told: no {kind}"
        assert result.exit_code == 0
        assert result.stderr.endswith(f"note: {remark}\n")
    assert "no answer of a controller" in result.stderr
    hub.faults = {kind: 500}
    result = run(hub.file, "--controller", NO_WORKLOAD, "-o", "json")
    assert recorded(result) == PLACED
    assert isinstance(result.exception, ServerError)


@pytest.mark.parametrize(
    "wrong",
    ["10.0.0.1:10251", "controller", "ftp://controller", "https://", "https://a:b", "http://[::1"],
)
def test_what_is_no_address_of_a_controller_is_told_at_once(hub: Hub, wrong: str) -> None:
    result = run(hub.file, "--controller", wrong)
    assert isinstance(result.exception, ConfigurationError)
    assert str(result.exception) == f"--controller {wrong}: name it as https://HOST:PORT"


@pytest.mark.parametrize("fault", [429, 503])
def test_a_busy_hub_is_asked_again_when_it_says(tmp_path: Path, fault: int) -> None:
    there = Hub()
    there.faults = {"memberclusters": fault}
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == ATTEMPTS - 1:
            there.faults = {}

    with (
        serving(there.answer, tmp_path, Retry_After="1") as file,
        Reader(connection(str(file), None), sleep=sleep) as api,
    ):
        assert len(json.loads(api.get("/memberclusters"))["items"]) == 2
        assert waits == [1.0] * (ATTEMPTS - 1)
        there.faults = {"memberclusters": fault}
        with pytest.raises((TooManyRequests, ServerError)):
            api.get("/memberclusters")
        assert len(waits) == 2 * (ATTEMPTS - 1)
        there.faults = {"memberclusters": 403}
        with pytest.raises(Forbidden):
            api.get("/memberclusters")
        assert len(waits) == 2 * (ATTEMPTS - 1)


def test_a_hub_that_wants_to_be_left_alone_for_long_is_believed(tmp_path: Path) -> None:
    there = Hub()
    there.faults = {"memberclusters": 429}
    waits: list[float] = []
    after = str(int(LONGEST_WAIT_SECONDS) + 1)
    with (
        serving(there.answer, tmp_path, Retry_After=after) as file,
        Reader(connection(str(file), None), sleep=waits.append) as api,
        pytest.raises(TooManyRequests),
    ):
        api.get("/memberclusters")
    assert waits == []


@pytest.mark.proves("Q2")
def test_a_lost_cluster_is_told_with_the_time_when_its_replicas_leave(hub: Hub) -> None:
    silent = {"type": "Ready", "status": "False", "reason": "Unreachable"}
    lost, now = hub.clusters[0], datetime.now(UTC)
    cause = {"name": "stowage.dev/not-ready:NoExecute", "since": timestamp(now)}
    lost["status"] |= {"conditions": [silent], "evacuation": {"causes": [cause]}}
    due = timestamp(now + timedelta(minutes=5))
    at = words.moment(due, now)
    line = f"a: 2 replicas leave at {at} (cluster a lost), unless it is back"
    assert line in run(hub.file).stdout.splitlines()
    (share,) = json.loads(run(hub.file, "-o", "json").stdout)["leaveLater"]
    known = {"cluster": "a", "replicas": 2, "cause": "ClusterLost", "name": cause["name"]}
    assert share == {**known, "time": due}
    hub.workloads[0]["spec"]["tolerations"] = [{"operator": "Exists"}]
    assert "leave at" not in run(hub.file).stdout
