"""Events against a hub in memory: what is written, how often, and what is not."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from machinery import metrics
from machinery.errors import AlreadyExists, Forbidden, NotFound, Unreachable
from machinery.runtime.event_recorder import EventRecorder, ObjectRef, one_cluster, shortened
from tests.fakeclock import FakeClock, settle

WEB = ObjectRef("stowage.dev/v1alpha1", "Workload", "shop", "web", "uid-1")


class Hub:
    """Events by name; `calls` is what was asked, in order."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.fault: Exception | None = None
        self.losing_answers = False

    async def create(self, res: Any, body: dict[str, Any]) -> dict[str, Any]:
        self.calls.append("create")
        await asyncio.sleep(0)
        if self.fault:
            raise self.fault
        name = body["metadata"]["name"]
        if name in self.events:
            raise AlreadyExists(code=409, reason="AlreadyExists", message="taken")
        self.events[name] = body
        if self.losing_answers:
            raise Unreachable("the answer was lost")
        return body

    async def merge_patch(self, res: Any, name: str, patch: dict[str, Any], *, namespace: str):
        self.calls.append("patch")
        await asyncio.sleep(0)
        if self.fault:
            raise self.fault
        if name not in self.events:
            raise NotFound(code=404, reason="NotFound", message="expired")
        event = self.events[name]
        assert namespace == event["metadata"]["namespace"]
        event["note"] = patch["message"]
        event["series"] = patch["series"]

    @property
    def only(self) -> dict[str, Any]:
        (event,) = self.events.values()
        return event


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def recorder(hub, clock):
    recorder = recorder_of(hub, clock)
    running = asyncio.create_task(recorder.run())
    yield recorder
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def recorder_of(hub: Hub, clock: FakeClock, **how: Any) -> EventRecorder:
    return EventRecorder(
        hub, controller="stowage.dev/controller", instance="controller-1", clock=clock, **how
    )


def failed(recorder: EventRecorder, note: str = "no room", ref: Any = WEB) -> None:
    recorder.event(ref, type="Warning", reason="FailedScheduling", note=note, action="Scheduling")


def dropped(cause: str) -> float:
    value = metrics.REGISTRY.get_sample_value("stowage_events_dropped_total", {"cause": cause})
    assert value is not None
    return value


async def test_the_first_is_written_at_once(recorder, hub):
    failed(recorder)
    await settle()
    event = hub.only
    name = event["metadata"].pop("name")
    assert name.startswith("web.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "shop"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "stowage.dev/controller",
        "reportingInstance": "controller-1",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "type": "Warning",
        "note": "no room",
        "regarding": {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "Workload",
            "namespace": "shop",
            "name": "web",
            "uid": "uid-1",
        },
    }


@pytest.mark.proves("CT21")
async def test_repeated_ones_are_one_event_written_once_a_minute(recorder, hub, clock):
    for second in range(361):
        failed(recorder, note=f"no room at {second}")
        await clock.advance(1)
    assert hub.calls == ["create"] + ["patch"] * 6
    assert hub.only["series"]["count"] >= 358
    assert hub.only["eventTime"] == "2026-01-01T00:00:00.000000Z"
    await clock.advance(60)
    assert hub.calls == ["create"] + ["patch"] * 7
    assert hub.only["note"] == "no room at 360"
    assert hub.only["series"] == {"count": 361, "lastObservedTime": "2026-01-01T00:06:00.000000Z"}


@pytest.mark.proves("CT21")
async def test_an_event_about_one_cluster_is_related_to_it_and_another_one_for_each(recorder, hub):
    about = {"type": "Normal", "reason": "Moving", "note": "", "action": "Moving"}
    for names in (["m1"], ["m2"], ["m1", "m2"], [], ["m1"]):
        recorder.event(WEB, **about, related=one_cluster(names))
    await settle()
    kind = {"apiVersion": "stowage.dev/v1alpha1", "kind": "MemberCluster"}
    related = [event.get("related") for event in hub.events.values()]
    assert related == [{**kind, "name": "m1"}, {**kind, "name": "m2"}, None]


async def test_a_repeat_after_a_long_silence_is_written_at_once(recorder, hub, clock):
    failed(recorder)
    await clock.advance(60)
    failed(recorder)
    await settle()
    assert hub.calls == ["create", "patch"]


async def test_what_differs_is_another_event(recorder, hub, clock):
    failed(recorder)
    recorder.event(WEB, type="Normal", reason="FailedScheduling", note="", action="Scheduling")
    recorder.event(WEB, type="Warning", reason="Rejected", note="", action="Scheduling")
    recorder.event(WEB, type="Warning", reason="FailedScheduling", note="", action="Binding")
    reborn = ObjectRef(WEB.api_version, WEB.kind, WEB.namespace, WEB.name, "uid-2")
    failed(recorder, ref=reborn)
    await clock.advance(1)
    assert len(hub.events) == 5


async def test_an_object_may_be_given_as_it_is(recorder, hub, clock):
    obj = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"namespace": "shop", "name": "web", "uid": "uid-1"},
    }
    failed(recorder)
    failed(recorder, ref=obj)
    await clock.advance(61)
    assert hub.only["series"]["count"] == 2


async def test_events_of_cluster_scoped_objects_live_in_default(recorder, hub):
    failed(recorder, ref=ObjectRef("stowage.dev/v1alpha1", "MemberCluster", "", "m1", "uid-9"))
    await settle()
    assert hub.only["metadata"]["namespace"] == "default"
    assert "namespace" not in hub.only["regarding"]


async def test_an_expired_event_begins_anew(recorder, hub, clock):
    failed(recorder)
    await clock.advance(70)
    hub.events.clear()
    failed(recorder, note="again")
    await clock.advance(1)
    assert hub.only["note"] == "again"
    assert hub.only["eventTime"] == "2026-01-01T00:01:10.000000Z"
    assert hub.calls == ["create", "patch", "create"]


async def test_a_lost_answer_doubles_nothing(recorder, hub, clock):
    hub.losing_answers = True
    failed(recorder)
    await settle()
    hub.losing_answers = False
    await clock.advance(11)
    assert hub.calls == ["create", "create"]
    failed(recorder)
    await clock.advance(61)
    assert hub.only["series"]["count"] == 2


async def test_a_hub_that_is_away_gets_them_later(recorder, hub, clock, caplog):
    hub.fault = Unreachable("down")
    failed(recorder)
    await clock.advance(35)
    failed(recorder)
    assert 3 <= len(hub.calls) <= 5
    assert [r.levelname for r in caplog.records if "down" in r.message] == ["WARNING"]
    hub.fault = None
    await clock.advance(10)
    assert hub.only["series"]["count"] == 2


async def test_the_next_outage_is_news_again(recorder, hub, clock, caplog):
    for _ in range(2):
        hub.fault = Unreachable("down")
        failed(recorder)
        await clock.advance(70)
        hub.fault = None
        await clock.advance(70)
    assert len(caplog.records) == 2


@pytest.mark.parametrize("fault", [NotFound, Forbidden])
async def test_what_the_hub_refuses_is_dropped_and_said_once(recorder, hub, clock, caplog, fault):
    hub.fault = fault(code=403, reason="", message="not in this namespace")
    before = dropped("refused")
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            failed(recorder, ref=ObjectRef("v1", "Secret", "gone", f"s{number}"))
            await clock.advance(1)
            hub.fault, kept = None, hub.fault
            failed(recorder, ref=ObjectRef("v1", "Secret", "there", f"s{number}"))
            await clock.advance(1)
            hub.fault = kept
    await clock.advance(60)
    assert hub.calls == ["create"] * 10
    assert dropped("refused") == before + 5
    assert len(caplog.records) == 1


async def test_too_many_are_dropped_and_counted(hub, clock):
    recorder = recorder_of(hub, clock, backlog=10, memory=20)
    before = dropped("backlog")
    for number in range(15):
        failed(recorder, ref=ObjectRef("v1", "Secret", "ns", f"s{number}"))
    for _ in range(100):
        failed(recorder, ref=ObjectRef("v1", "Secret", "ns", "s3"))  # waits already: gathered
    assert dropped("backlog") == before + 5
    running = asyncio.create_task(recorder.run())
    await clock.advance(5)
    assert len(hub.events) == 10
    failed(recorder, ref=ObjectRef("v1", "Secret", "ns", "s14"))
    await clock.advance(1)
    assert len(hub.events) == 11
    running.cancel()


async def test_memory_is_bounded_and_the_least_recently_seen_goes(hub, clock):
    recorder = recorder_of(hub, clock, backlog=10, memory=20)
    running = asyncio.create_task(recorder.run())
    for number in range(50):
        failed(recorder, ref=ObjectRef("v1", "Secret", "ns", f"s{number}"))
        failed(recorder, ref=WEB)
        await clock.advance(1)
    await clock.advance(20)
    assert len(recorder._series) == 20
    assert sum(event["regarding"]["name"] == "web" for event in hub.events.values()) == 1
    assert recorder._waiting == 0
    running.cancel()


async def test_what_waits_is_never_forgotten(hub, clock):
    recorder = recorder_of(hub, clock, backlog=4, memory=5)
    running = asyncio.create_task(recorder.run())
    failed(recorder)
    await clock.advance(0.1)
    failed(recorder)
    for number in range(8):
        failed(recorder, ref=ObjectRef("v1", "Secret", "ns", f"s{number}"))
        await clock.advance(0.1)
    await clock.advance(61)
    assert next(iter(hub.events.values()))["series"]["count"] == 2
    assert len(recorder._series) == 5
    running.cancel()


async def test_the_pace_is_bounded_and_warnings_go_first(hub, clock):
    recorder = recorder_of(hub, clock, burst=1, per_second=10)
    for number in range(30):
        ref = ObjectRef("v1", "Secret", "ns", f"s{number}")
        recorder.event(ref, type="Normal", reason="Scheduled", note="", action="Scheduling")
    failed(recorder)
    running = asyncio.create_task(recorder.run())
    await clock.advance(0.95)
    assert len(hub.events) == 10
    assert next(iter(hub.events.values()))["type"] == "Warning"
    running.cancel()


async def test_long_names_and_instances_are_cut_to_what_the_hub_takes(hub, clock):
    recorder = EventRecorder(hub, controller="stowage.dev/x", instance="i" * 500, clock=clock)
    running = asyncio.create_task(recorder.run())
    failed(recorder, ref=ObjectRef("v1", "Secret", "ns", "a" * 218 + "-.b" + "c" * 30))
    await settle()
    assert len(hub.only["reportingInstance"]) == 128
    name = hub.only["metadata"]["name"]
    assert len(name) <= 253
    assert name.startswith("a" * 218 + ".")
    running.cancel()


@pytest.mark.parametrize("letter", ["a", "ä", "€", "😀"])
def test_a_note_is_cut_between_letters(letter):
    note = shortened(letter * 2000)
    assert 1020 <= len(note.encode()) <= 1024
    assert set(note) == {letter, "…"}
    assert shortened("short " + letter) == "short " + letter


def test_a_memory_that_cannot_hold_what_waits_is_refused(hub, clock):
    with pytest.raises(ValueError, match="memory"):
        recorder_of(hub, clock, backlog=10, memory=10)


async def test_a_few_are_written_at_once_and_the_others_slowly_behind_what_matters(hub, clock):
    recorder = recorder_of(hub, clock, burst=5, per_second=2)
    running = asyncio.create_task(recorder.run())
    for number in range(12):
        ref = ObjectRef("v1", "Secret", "ns", f"s{number}")
        recorder.event(ref, type="Normal", reason="Scheduled", note="", action="Scheduling")
    await settle()
    written = [len(hub.events)]
    for _ in range(4):
        await clock.advance(1)
        written.append(len(hub.events))
    assert written == [5, 7, 9, 11, 12]
    await clock.advance(60)
    for number in range(12, 20):
        ref = ObjectRef("v1", "Secret", "ns", f"s{number}")
        recorder.event(ref, type="Normal", reason="Scheduled", note="", action="Scheduling")
    await settle()
    assert len(hub.events) == 17, "a long rest earns no more than the first few"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
