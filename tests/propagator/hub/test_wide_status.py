"""What is written of a status with many shares, and when what is known is written at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import asdict

from crds.names import ANNOTATION_CLUSTERS, ANNOTATION_KINDS
from machinery.clock import SystemClock
from machinery.errors import Unreachable
from propagator.hub.workload_metadata import WIDE, entries_patch
from propagator.status.controller import GATHER_SECONDS, SPACING_SECONDS, Reporter
from propagator.types.kept import kept
from propagator.types.workload import workload_of
from tests.propagator.contexts import Context


def entry(number: int, *, ready: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": f"c{number}", "replicas": 2, "ready": ready, "state": "Creating"} | more


def conditions(propagated: str, reason: str, ready: str) -> list[dict[str, Any]]:
    return [
        {"type": "Propagated", "status": propagated, "reason": reason, "message": ""},
        {"type": "Ready", "status": ready, "reason": "", "message": ""},
    ]


def workload(clusters: list[dict[str, Any]], **status: Any) -> Any:
    meta = {"name": "wide", "namespace": "shop", "uid": "u", "resourceVersion": "7"}
    return workload_of({"metadata": meta, "spec": {}, "status": {"clusters": clusters, **status}})


def applied(patch: list[dict[str, Any]], status: dict[str, Any]) -> dict[str, Any]:
    """What the API server makes of it."""
    status = msgspec.json.decode(msgspec.json.encode(status))
    for step in patch[1:]:
        _, _, field, *index = step["path"].split("/")
        if index:
            status[field][int(index[0])] = step["value"]
        elif step["op"] == "remove":
            del status[field]
        else:
            status[field] = step["value"]
    return status


def test_one_change_of_many_is_one_entry_on_the_version_that_was_read():
    old = [entry(n) for n in range(1000)]
    new = [*old[:500], entry(500, ready=1), *old[501:]]
    status = {"clusters": new, "ready": 1, "serviceExternalIP": None}
    patch = entries_patch(workload(old, serviceExternalIP="10.0.0.1"), status)
    assert patch is not None
    assert patch[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    assert len(msgspec.json.encode(patch)) < 512
    assert applied(patch, {"clusters": old, "serviceExternalIP": "10.0.0.1"}) == {
        "clusters": new,
        "ready": 1,
    }


def test_what_came_or_went_or_changed_mostly_is_written_whole():
    old = [entry(n) for n in range(WIDE)]
    rest = {"ready": 0, "serviceExternalIP": None}
    for new in (
        [*old, entry(WIDE)],
        old[1:],
        [*old[1:], entry(99)],
        [entry(n, ready=1) for n in range(WIDE)],
    ):
        assert entries_patch(workload(old), {"clusters": new, **rest}) is None
    few = old[: WIDE - 1]
    assert entries_patch(workload(few), {"clusters": few, **rest}) is None


DECIDED = {"observedGeneration": 1, "observed": {"controller": 1, "propagator": 1}}


def patience(known: Any, status: dict[str, Any]) -> float:
    """Where a write to the hub takes no time."""
    quick = cast("Reporter", SimpleNamespace(_write_seconds=0.0))
    return Reporter._patience(quick, known, {**DECIDED, **status})


GOING_WELL = conditions("True", "Propagated", "False")
WAITS = [
    pytest.param([], conditions("False", "Propagating", "False"), 1, SPACING_SECONDS, id="begun"),
    pytest.param([], GOING_WELL, 1, GATHER_SECONDS, id="written"),
    pytest.param(GOING_WELL, GOING_WELL, 1000, 4.0, id="a long list"),
    pytest.param(GOING_WELL, conditions("True", "Propagated", "True"), 1, 0.0, id="all runs"),
    pytest.param(GOING_WELL, conditions("False", "Rejected", "False"), 1, 0.0, id="refused"),
    pytest.param(conditions("True", "Propagated", "True"), GOING_WELL, 1, 0.0, id="not any more"),
]


@pytest.mark.parametrize(("before", "now", "shares", "seconds"), WAITS)
def test_progress_is_gathered_and_trouble_told_at_once(before, now, shares, seconds):
    clusters = [entry(n) for n in range(shares)]
    known = workload(clusters, conditions=before)
    assert patience(known, {"clusters": clusters, "conditions": now}) == seconds


def test_units_without_a_node_are_told_at_once():
    stuck = {"clusters": [entry(1, unschedulable=1)], "conditions": GOING_WELL}
    assert patience(workload([entry(1)], conditions=GOING_WELL), stuck) == 0.0
    assert patience(workload(stuck["clusters"], conditions=GOING_WELL), stuck) == GATHER_SECONDS


@pytest.mark.parametrize("state", ["Failed", "Unreachable"])
@pytest.mark.parametrize("now", [GOING_WELL, conditions("False", "NotReviewed", "False")])
def test_a_share_that_fails_among_a_thousand_is_told_at_once(state: str, now: Any):
    going_well = [entry(n) for n in range(1000)]
    failed = [entry(0) | {"state": state}, *going_well[1:]]
    status = {"clusters": failed, "conditions": now}
    assert patience(workload(going_well, conditions=now), status) == 0.0
    assert patience(workload(failed, conditions=now), status) > 0.0, "it was told"


class Hub:
    """Takes no status for a while."""

    def __init__(self, known: Any, times: int) -> None:
        self.informer = {known.metadata.key: known}
        self.refuses, self.told = times, 0

    async def write_status(self, known: Any, status: Any) -> bool:
        self.told += 1
        if self.told <= self.refuses:
            raise Unreachable("the hub is away")
        return False


class StillClock(SystemClock):
    at = 100.0

    def monotonic(self) -> float:
        return self.at


async def test_a_status_that_the_hub_did_not_take_waits_for_no_further_news(monkeypatch: Any):
    clusters = [entry(n) for n in range(1000)]
    known = workload(clusters, conditions=GOING_WELL, placements=[{"cluster": "c1", "replicas": 2}])
    status = {
        **DECIDED,
        "clusters": [entry(n, ready=1) for n in range(1000)],
        "conditions": GOING_WELL,
        "ready": 1000,
        "readySummary": "",
        "serviceExternalIP": None,
    }

    async def _status(reporter: Reporter, known: Any) -> Any:
        return status

    monkeypatch.setattr(Reporter, "_status", _status)
    clock, hub = StillClock(), Hub(known, times=2)
    context: Any = Context(clock=clock, recorder=None, fresh=lambda: True)
    quiet = SimpleNamespace(due=False)
    others: Any = SimpleNamespace(
        workloads=hub, survey=None, finalizer=None, drift=None, dependencies=None, rereading=quiet
    )
    reporter = Reporter(context, **vars(others))
    begun = clock.at
    while (again := await reporter._report(known.metadata.key)) is not None:
        clock.at += again + 0.001
    assert hub.told == 3
    assert clock.at - begun < 3 * 4.0, "it is gathered once, and only then refused twice"
    reporter.queue.add(known.metadata.key)
    again = await reporter._report(known.metadata.key)
    assert again is not None, "what was taken is followed by a pause"
    assert again > SPACING_SECONDS / 2


def test_what_all_workloads_say_is_kept_once():
    """A thousand Workloads on a few clusters repeat each other's words."""
    meta = {"name": "web", "namespace": "shop", "uid": "u"}
    template = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    body = {
        "metadata": meta,
        "spec": {"template": template, "manifests": [template]},
        "status": {"clusters": [entry(1)], "conditions": GOING_WELL},
    }
    read = [workload_of(body) for _ in range(2)]
    one, other = (kept(each) for each in read)
    assert (one, other) == (read[0], read[1])
    assert one.template == other.manifests[0] == template
    assert one.conditions == GOING_WELL, "a field that is missing stays missing"
    for mine, theirs in (
        (one.status.clusters[0], other.status.clusters[0]),
        (asdict(one.status.conditions[0]), asdict(other.status.conditions[0])),
    ):
        assert all(mine[key] is theirs[key] for key in mine)


def test_metadata_that_is_not_read_is_not_kept() -> None:
    noted = {ANNOTATION_CLUSTERS: "m1", ANNOTATION_KINDS: "apps/v1/Deployment"}
    meta = {"name": "web", "namespace": "shop", "uid": "u", "labels": {"a": "b"}}
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    found = kept(workload_of({"metadata": {**meta, "annotations": {**noted, **applied}}}))
    assert found.metadata.annotations == noted
    assert found.metadata.labels == meta["labels"]
