"""What the controller's gauges say of the fleet, and that Workloads cost no series."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import fleet_metrics
from controller.model.objects import Workload
from controller.snapshot.builder import SnapshotBuilder
from machinery import metrics

from .make import cluster
from .memory import Stage


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    fleet_metrics.end()


def series() -> list[str]:
    lines = metrics.exposition().decode().splitlines()
    return [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]


def told(name: str, *, zero: bool = False) -> dict[str, float]:
    """The values of a gauge by its labels, those at zero left out."""
    lines = metrics.exposition().decode().splitlines()
    found = (line.rpartition(" ") for line in lines if line.startswith(f"{name}{{"))
    values = {labels.removeprefix(name): float(value) for labels, _, value in found}
    return {labels: value for labels, value in values.items() if value or zero}


def workload(name: str = "web", **status: Any) -> Workload:
    metadata = {"name": name, "namespace": "shop", "uid": "1"}
    return msgspec.convert({"metadata": metadata, "spec": {}, "status": status}, Workload)


def ours(workload: Workload) -> bool:
    return workload.spec.scheduler_name != "another"


def begin(*workloads: Workload, clusters: Any = ()) -> fleet_metrics.WorkloadCounts:
    builder = SnapshotBuilder()
    for each in clusters:
        builder.upsert(each)
    counts = fleet_metrics.WorkloadCounts(ours)
    for each in workloads:
        counts.workload_changed(None, each)
    fleet_metrics.begin(counts=counts, snapshot=builder.snapshot)
    return counts


def scheduled(reason: Any) -> list[dict[str, Any]]:
    return [{"type": "Scheduled", "status": "False", "reason": reason}]


def test_workloads_are_counted_by_words_of_ours_whatever_their_status_says() -> None:
    running = {"state": "Running", "conditions": scheduled("Scheduled")}
    begin(
        workload(**running),
        workload(**running),
        workload(state="Failed", conditions=scheduled("QuotaExceeded")),
        workload(),
        workload(state="Owned", conditions=scheduled("by a tenant")),
        workload(conditions=scheduled(["no", "text"])),
    )
    assert told("stowage_workloads") == {
        '{reason="Scheduled",state="Running"}': 2,
        '{reason="QuotaExceeded",state="Failed"}': 1,
        '{reason="Unknown",state="Pending"}': 3,
    }


def test_units_are_summed_up() -> None:
    shares = [{"name": "a", "ready": 2}, {"name": "b", "ready": 1}]
    begin(workload(desired=5, assigned=4, pending=1, clusters=shares), workload(desired=2))
    assert told("stowage_units") == {
        '{state="desired"}': 7,
        '{state="assigned"}': 4,
        '{state="pending"}': 1,
        '{state="ready"}': 3,
    }


def test_what_changes_is_counted_anew_and_what_goes_no_more() -> None:
    waits = workload(state="Pending", desired=5, pending=5, conditions=scheduled("QuotaExceeded"))
    runs = workload(state="Running", desired=3, assigned=3, conditions=scheduled("Scheduled"))
    counts = begin(waits, runs)
    counts.workload_changed(waits, runs)
    assert told("stowage_workloads") == {'{reason="Scheduled",state="Running"}': 2}
    assert told("stowage_units") == {'{state="desired"}': 6, '{state="assigned"}': 6}
    counts.workload_changed(runs, None)
    spec = msgspec.structs.replace(runs.spec, scheduler_name="another")
    left = msgspec.structs.replace(runs, spec=spec)
    counts.workload_changed(runs, left)
    counts.workload_changed(None, left)
    assert told("stowage_workloads") == told("stowage_units") == {}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=30))
def test_the_counts_are_those_of_the_workloads_that_are_there(changes) -> None:
    """Of each pair the first is the key, the second its new state; 0: it is gone."""
    states = ("", "Pending", "Running", "Failed", "Owned")
    counts, there = begin(), dict[int, Workload]()
    for key, state in changes:
        new = workload(state=states[state], desired=state) if state else None
        counts.workload_changed(there.pop(key, None), new)
        if new is not None:
            there[key] = new
    found = told("stowage_workloads"), told("stowage_units")
    begin(*there.values())
    assert found == (told("stowage_workloads"), told("stowage_units"))


def test_clusters_are_told_one_by_one_and_their_room_as_a_whole() -> None:
    room = {"allocatable": {"cpu": "1500m", "memory": "1Gi", "acme.com/gpu": "4"}}
    asked = {"requested": {"cpu": "500m"}}
    begin(
        clusters=[
            cluster("a", status={"capacity": {"nodes": 1, **room, **asked}}),
            cluster("b", ready=False, status={"capacity": {"nodes": 1, **room}}),
        ]
    )
    ready = told("stowage_cluster_ready", zero=True)
    assert ready == {'{member_cluster="a"}': 1, '{member_cluster="b"}': 0}
    capacity = told("stowage_cluster_capacity")
    assert capacity == {'{resource="cpu"}': 3, '{resource="memory"}': 2 * 1024**3}
    assert told("stowage_cluster_requested") == {'{resource="cpu"}': 0.5}


@pytest.mark.proves("CT16")
def test_two_thousand_workloads_have_the_series_of_one() -> None:
    states = ("", "Pending", "Running", "Owned")
    begin(workload(state="Running"))
    before = series()
    begin(
        *(
            workload(
                f"w{number}", state=states[number % 4], conditions=scheduled(f"Reason{number}")
            )
            for number in range(2000)
        )
    )
    assert sum(told("stowage_workloads").values()) == 2000
    assert series() == before


@pytest.mark.proves("CT16")
async def test_decisions_on_more_workloads_bring_no_series() -> None:
    stage = Stage("c1", cpu="30")
    async with stage.leading():
        for name in ("fits", "large"):
            stage.workload(name, replicas=1, cpu="1" if name == "fits" else "64")
        await stage.until(lambda: stage.placed("fits") and stage.says("large")[0] == "False")
        before = series()
        names = [f"w{number}" for number in range(40)]
        for name in names:
            stage.workload(name, replicas=1)
        await stage.until(lambda: all(stage.says(name)[0] for name in names))
        assert sum(told("stowage_workloads").values()) == 42
        assert sorted(series()) == sorted(before)
    assert told("stowage_workloads") == {}, "a standby tells of none"
