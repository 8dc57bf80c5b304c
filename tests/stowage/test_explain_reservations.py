"""`stowage explain` of what has to do with Reservations: who is inside, and what one holds for whom."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from machinery.clock import timestamp
from stowage.cli import cli
from stowage.report import rooms
from tests.stowage.plain_hub import PlainHub, hub_of

pytestmark = pytest.mark.proves("E26")

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Hub(PlainHub):
    """It has two objects, and shows nobody the rest of the fleet."""

    def __init__(self) -> None:
        super().__init__()
        self.secret = True
        self.reservations, self.workloads = [reservation()], [workload()]


def reservation(**status: Any) -> dict[str, Any]:
    """Three units on a and one on b, of 2 cpu each; two owners on a."""
    owner = {"kind": "Workload", "namespace": "shop", "uid": "u", "cluster": "a"}
    told = {
        "phase": "Available",
        "desired": 4,
        "assigned": 4,
        "placements": [{"cluster": "b", "replicas": 1}, {"cluster": "a", "replicas": 3}],
        "allocatable": {"cpu": "8", "memory": "6Gi"},
        "allocated": {"cpu": "2500m", "memory": "6Gi"},
        "owners": 2,
        "currentOwners": [
            {**owner, "name": "web", "replicas": 2},
            {**owner, "name": "worker", "replicas": 1},
        ],
        "conditions": [
            {"type": "Scheduled", "status": "True", "reason": "Scheduled"},
            {"type": "Ready", "status": "True", "reason": "Available"},
        ],
        **status,
    }
    metadata = {
        "name": "launch",
        "namespace": "shop",
        "creationTimestamp": timestamp(NOW - timedelta(hours=20)),
    }
    return {"metadata": metadata, "spec": {"ttl": "24h", "allocateOnce": False}, "status": told}


def workload() -> dict[str, Any]:
    inside = {"namespace": "shop", "name": "launch", "uid": "u"}
    shares = [
        {**inside, "cluster": "a", "replicas": 2},
        {**inside, "cluster": "b", "replicas": 1},
        {**inside, "cluster": "a", "namespace": "stowage-system", "name": "pool", "replicas": 1},
    ]
    status = {
        "desired": 5,
        "assigned": 5,
        "placements": [{"cluster": "a", "replicas": 4}, {"cluster": "b", "replicas": 1}],
        "reservations": shares,
    }
    return {"metadata": {"name": "web", "namespace": "shop"}, "spec": {}, "status": status}


hub = hub_of(Hub)


def run(file: Path, *args: str) -> Result:
    result = CliRunner().invoke(cli, ["explain", *args, "-n", "shop", "--kubeconfig", str(file)])
    assert result.exit_code == 0, result.output
    return result


def test_a_reservation_tells_what_it_holds_where_and_for_whom(hub: Hub) -> None:
    hub.reservations[0]["metadata"]["creationTimestamp"] = timestamp(datetime.now(UTC))
    lines = run(hub.file, "rsv/launch").stdout.splitlines()
    assert lines[0] == "shop/rsv/launch: 4 of 4 replicas placed (Scheduled)"
    assert lines[2].startswith("Available, until ")
    assert lines[2].endswith(" (23h more), held in the books, shared by its owners")
    assert lines[3] == (
        "cpu 8, memory 6Gi reserved, cpu 2.5, memory 6Gi of it used by owners,"
        " cpu 5.5 kept free for them"
    )
    assert [" ".join(line.split()) for line in lines[5:8]] == [
        "CLUSTER REPLICAS RESERVED INSIDE",
        "b 1 cpu 2, memory 1.5Gi -",
        "a 3 cpu 6, memory 4.5Gi shop/web=2,shop/worker=1",
    ]
    told = json.loads(run(hub.file, "rsv/launch", "-o", "json").stdout)["recorded"]["reservation"]
    assert told["unused"] == {"cpu": "5500m", "memory": "0"}
    assert told["clusters"][1] == {
        "name": "a",
        "replicas": 3,
        "reserved": {"cpu": "6", "memory": "4608Mi"},
        "currentOwners": [
            {"namespace": "shop", "name": "web", "replicas": 2},
            {"namespace": "shop", "name": "worker", "replicas": 1},
        ],
    }


def text(found: dict[str, Any], *, everything: bool = False) -> str:
    return rooms.text(found, NOW, everything=everything)


def test_until_when(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reservation()
    assert "(4h more)" in text(found)
    assert rooms.recorded(found)["expires"] == "2026-05-01T16:00:00Z"
    found["spec"] |= {"ttl": "19h"}
    assert text(found).startswith("Available, over since ")
    found["spec"] |= {"expires": "2026-05-03T14:00:00+02:00"}
    assert "(2d more)" in text(found)
    assert rooms.recorded(found)["expires"] == "2026-05-03T12:00:00Z"
    found["spec"] = {"ttl": "0", "hold": "Member"}
    assert text(found).startswith("Available, without an end, held by pods, for one owner\n")
    assert rooms.recorded(found)["expires"] is None


@pytest.mark.parametrize("reason", ["Short", "Expired", "ClusterLost", "Pending"])
def test_what_is_the_matter_is_told(reason: str) -> None:
    ready = {"type": "Ready", "status": "False", "reason": reason, "message": "a lacks cpu 2"}
    assert f"\n{reason}: a lacks cpu 2\n" in text(reservation(conditions=[ready]))


def test_what_is_over_keeps_nothing_free() -> None:
    lines = text(reservation(phase="Succeeded")).splitlines()
    assert lines[0] == "Succeeded"
    assert lines[1].endswith("memory 6Gi of it used by owners")


def test_what_is_not_decided_yet(hub: Hub) -> None:
    del hub.reservations[0]["status"]
    lines = run(hub.file, "rsv/launch").stdout.splitlines()
    assert lines[0] == "shop/rsv/launch: not decided yet"
    assert lines[2].startswith("Undecided, over since")
    assert len(lines) == 3
