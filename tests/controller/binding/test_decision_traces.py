"""One trace of each decision: what it tells, and that its parts add up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from controller.binding.statuspatch import decision_id
from controller.framework.interface import CycleState
from controller.framework.status import SUCCESS, Status
from controller.model.objects import Workload
from machinery import metrics, tracing
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.errors import Conflict, Unreachable
from machinery.tracing import TraceIds, Tracer, TraceSpan
from machinery.types.metadata import Meta
from tests.controller.make import REQUIRED, beside
from tests.controller.memory import Stage


class Kept:
    """An exporter that keeps all: `whole` by the trace."""

    def __init__(self) -> None:
        self.roots: dict[int, TraceSpan] = {}
        self.failed: list[TraceSpan] = []

    def export(self, trace: int, whole: TraceSpan, own: int | None, parent: int | None) -> None:
        assert parent is None
        if own is None:
            self.failed.append(whole)
            return
        assert trace not in self.roots, "a decision has one trace"
        self.roots[trace] = whole

    def of(self, stored: dict[str, Any]) -> TraceSpan:
        """The trace of the last change of placement of an object."""
        ids = TraceIds.of(stored["metadata"]["uid"], stored["status"]["history"][-1]["id"])
        return self.roots[ids.trace]


@pytest.fixture
def kept() -> Iterator[Kept]:
    kept = Kept()
    with tracing.using(Tracer(kept.export, ratio=1.0)):
        yield kept


async def answers_slowly(method: str, path: str, _: Any) -> None:
    """Long enough that what no part has is no tenth of it."""
    if method == "PATCH" and "/workloads/" in path and path.endswith("/status"):
        time.sleep(0.2)  # noqa: ASYNC251 - the test's clock goes on while the loop does


def names(span: TraceSpan) -> list[str]:
    return [each.name for each in span.parts()]


@pytest.mark.proves("CT17")
async def test_a_decision_is_one_trace_from_the_queue_to_the_write(kept) -> None:
    stage = Stage("m1")
    stage.workload("web")
    async with stage.leading():
        await stage.until(lambda: stage.placed("web"))
    stored = stage.hub.read(WORKLOADS, "web")
    whole = kept.of(stored)
    assert whole.name == "place"
    version = stage.hub.read(MEMBER_CLUSTERS, "m1", "")["metadata"]["resourceVersion"]
    (decide,) = (each for each in whole.children if each.name == "decide")
    assert decide.attributes == {"stowage.snapshot": version}
    assert whole.attributes == {
        "stowage.workload": "shop/web",
        "stowage.uid": stored["metadata"]["uid"],
        "stowage.decision": stored["status"]["decision"]["id"],
        "stowage.result": "Scheduled",
        "stowage.trigger": "Placed",
        "stowage.attempt": 1,
    }
    assert [n for n in names(whole) if n[0].islower()] == [
        "queue",
        "review",
        "turn",
        "decide",
        "patch",
        "write",
        "record",
    ]
    points = {each.name: names(each) for each in decide.parts()}
    assert {"Filter", "Score", "Assign"} <= points.keys()
    assert "ClusterReady" in points["Filter"] or len(points["Filter"]) > 3


@pytest.mark.proves("CT17")
async def test_the_parts_of_a_decision_add_up_to_its_whole(kept) -> None:
    """The best of some is looked at: between two parts a busy machine may take the processor away."""
    stage = Stage()
    stage.hub.faults.append(answers_slowly)
    stage.cluster("m1")
    found = []
    async with stage.leading():
        for number in range(5):
            stage.workload(f"web-{number}", replicas=1)
            await stage.until(lambda n=number: stage.placed(f"web-{n}"))
            whole = kept.of(stage.hub.read(WORKLOADS, f"web-{number}"))
            found.append(sum(each.seconds for each in whole.parts()) / whole.seconds)
    assert all(part < 1.001 for part in found), "none counts twice"
    assert max(found) > 0.9, found


async def test_a_change_has_an_id_of_its_own_that_stays_with_the_placements(kept) -> None:
    stage = Stage("m1")
    stage.workload("web", distribution="Divided")
    async with stage.leading():
        await stage.until(lambda: stage.placed("web"))
        first = stage.hub.read(WORKLOADS, "web")["status"]
        stage.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 500}})  # more than there is room for
        await stage.until(lambda: stage.says("web")[1] == "InsufficientCapacity")
        await stage.calm(2.0)
        status = stage.hub.read(WORKLOADS, "web")["status"]
        changes = [each["id"] for each in status["history"]]
        assert changes[0] == first["decision"]["id"]
        assert len(set(changes)) == len(changes) >= 2
        assert status["decision"]["id"] == changes[-1]
        # A verdict alone moves nothing, and is another decision.
        stage.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 600}})
        await stage.until(lambda: stage.hub.read(WORKLOADS, "web")["status"]["desired"] == 600)
        after = stage.hub.read(WORKLOADS, "web")["status"]
        assert after["decision"]["id"] == status["decision"]["id"]
        assert [each["id"] for each in after["history"]] == changes
    assert len(kept.roots) > len(changes)


def test_the_id_is_that_of_the_version_that_is_written_on() -> None:
    def of(uid: str, version: str) -> str:
        meta = Meta(name="web", namespace="shop", uid=uid, resource_version=version)
        return decision_id(Workload(metadata=meta))

    assert of("a", "1") == of("a", "1")
    assert len({of("a", "1"), of("a", "2"), of("b", "1")}) == 3


@pytest.mark.proves("CT17")
async def test_a_write_that_fails_is_told_beside_the_one_that_lands(kept) -> None:
    stage = Stage("m1")
    left = [Unreachable("no route")]

    async def fault(method: str, path: str, _: Any) -> None:
        if method == "PATCH" and path.endswith("/web/status") and left:
            raise left.pop()

    stage.hub.faults.append(fault)
    stage.workload("web")
    async with stage.leading():
        await stage.until(lambda: stage.placed("web"))
    (failed,) = kept.failed
    assert failed.error == "Unreachable: no route"
    assert failed.attributes["stowage.attempt"] == 1
    assert not kept.of(stage.hub.read(WORKLOADS, "web")).error


async def test_a_conflict_is_no_failure(kept) -> None:
    stage = Stage("m1")
    left = [Conflict(code=409, reason="Conflict", message="somebody wrote first")]

    async def fault(method: str, path: str, _: Any) -> None:
        if method == "PATCH" and path.endswith("/web/status") and left:
            stage.hub.edit(WORKLOADS, "web", {"metadata": {"annotations": {"a": "b"}}})
            raise left.pop()

    stage.hub.faults.append(fault)
    stage.workload("web")
    async with stage.leading():
        await stage.until(lambda: stage.placed("web"))
    assert not kept.failed
    (lost,) = (each for each in kept.roots.values() if "stowage.conflict" in each.attributes)
    assert "somebody wrote first" in str(lost.attributes["stowage.conflict"])
    assert not lost.error
    assert kept.of(stage.hub.read(WORKLOADS, "web")) is not lost


class Failing:
    """A PreBind plugin that raises."""

    name = "Failing"

    async def pre_bind(self, *_: Any) -> Status:
        raise RuntimeError("broken")


class Silent:
    """A PreBind plugin that lets all through."""

    name = "Silent"

    async def pre_bind(self, _: CycleState, *__: Any) -> Status:
        return SUCCESS


@pytest.mark.proves("CT17")
async def test_points_around_the_write_are_parts_and_a_fault_there_a_failure(kept) -> None:
    stage = Stage("m1")
    stage.workload("web")
    async with stage.leading(pre_bind=(Silent(), Failing())):
        await stage.until(lambda: stage.says("web")[1] == "PluginError")
    (failed,) = kept.failed
    assert failed.error == failed.attributes["stowage.result"] == "PluginError"
    points = {each.name: names(each) for each in failed.parts()}
    assert points["PreBind"] == ["Silent", "Failing"]


@pytest.mark.proves("CT17")
async def test_of_a_set_each_has_a_trace_and_names_the_one_that_tells_more(kept) -> None:
    stage = Stage("m1")
    together = {REQUIRED: [beside("one"), beside("two")]}
    for name in ("one", "two"):
        labels = {"set": "a", "app": name}
        stage.workload(name, labels=labels, workloadAffinity=together)
    async with stage.leading():
        await stage.until(lambda: stage.placed("one") and stage.placed("two"))
    traces = [kept.of(stage.hub.read(WORKLOADS, name)) for name in ("one", "two")]
    (lead,) = (each for each in traces if "decide" in names(each))
    (other,) = (each for each in traces if each is not lead)
    assert names(other) == ["set", "write"]
    ids = TraceIds.of(lead.attributes["stowage.uid"], lead.attributes["stowage.decision"])
    assert other.attributes["stowage.set"] == f"{ids.trace:032x}"
    assert names(lead).count("write") == 1


async def test_histograms_name_a_trace_that_is_kept(kept) -> None:
    stage = Stage("m1")
    stage.workload("web")
    async with stage.leading():
        await stage.until(lambda: stage.placed("web"))
        await stage.calm(1.0)
    (trace,) = kept.roots
    text, _ = await metrics.Scrape().text("application/openmetrics-text")
    told = [line for line in text.decode().splitlines() if f'trace_id="{trace:032x}"' in line]
    found = {line.partition("_bucket")[0] for line in told}
    assert found == {"stowage_decision_seconds", "stowage_decision_write_seconds"}


@pytest.mark.proves("CT19")
async def test_the_status_patch_of_each_change_has_its_id_in_the_user_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage, agents = Stage(), set[str]()
    asked = stage.hub.request

    async def noting(method: str, path: str, **how: Any) -> bytes:
        if method == "PATCH" and path.endswith("/web/status"):
            agents.add(how.get("agent", ""))
        return await asked(method, path, **how)

    monkeypatch.setattr(stage.hub, "request", noting)
    stage.cluster("a")
    async with stage.leading():
        stage.workload("web", replicas=2)
        await stage.until(lambda: stage.placed("web") == {"a": 2})
        stage.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 3}})
        await stage.until(lambda: stage.placed("web") == {"a": 3})
    history = stage.hub.read(WORKLOADS, "web")["status"]["history"]
    assert len(history) == 2
    assert {f"decision/{each['id']}" for each in history} <= agents
