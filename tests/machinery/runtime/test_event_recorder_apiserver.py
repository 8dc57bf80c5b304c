"""Events as a real API server takes them, and as kubectl shows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES, Resource
from machinery.clock import SystemClock
from machinery.runtime.event_recorder import EventRecorder, ObjectRef, one_cluster
from machinery.tasks import end
from tests.patience import until


@pytest.fixture
async def client(apiserver) -> AsyncIterator[ApiClient]:
    async with ApiClient(apiserver.connection(), name="events") as client:
        yield client


@pytest.fixture
async def namespace(client) -> str:
    made = await client.create(NAMESPACES, {"metadata": {"generateName": "events-"}})
    return str(made["metadata"]["name"])


@pytest.fixture
async def recorder(client, monkeypatch) -> AsyncIterator[EventRecorder]:
    monkeypatch.setattr("machinery.runtime.event_recorder.INTERVAL_SECONDS", 0.5)
    recorder = EventRecorder(
        client, controller="stowage.dev/controller", instance="controller-1", clock=SystemClock()
    )
    running = asyncio.create_task(recorder.run())
    yield recorder
    await end([running])


CORE_EVENTS = Resource("", "v1", "events", "Event")


async def listed(client: ApiClient, namespace: str, name: str) -> list[dict]:
    """What core/v1, and so kubectl, shows of one object's events."""
    selector = f"involvedObject.name={name}"
    found = await client.list(CORE_EVENTS, namespace=namespace, field_selector=selector)
    return found["items"]


@pytest.mark.proves("CT21", "K26")
async def test_repeated_with_a_changing_note_is_one_event(apiserver, client, recorder, namespace):
    ref = ObjectRef("stowage.dev/v1alpha1", "Workload", namespace, "web", "uid-1")
    for number in range(12):
        recorder.event(
            ref,
            type="Warning",
            reason="FailedScheduling",
            note=f"attempt {number}: {'no room ' * 200}",
            action="Scheduling",
            related=one_cluster(["m1"]),
        )
        await asyncio.sleep(0.1)

    async def all_told() -> bool:
        found = await listed(client, namespace, "web")
        return any((event.get("series") or {}).get("count") == 12 for event in found)

    await until(all_told, every=0.1)
    (event,) = await listed(client, namespace, "web")
    assert event["message"].startswith("attempt 11: no room")
    assert event["type"] == "Warning"
    assert event["reason"] == "FailedScheduling"
    assert event["reportingComponent"] == "stowage.dev/controller"
    assert event["involvedObject"]["uid"] == "uid-1"
    assert (event["related"]["kind"], event["related"]["name"]) == ("MemberCluster", "m1")
    shown = await asyncio.to_thread(apiserver.kubectl, "events", "-n", namespace)
    assert "x12" in shown


async def test_about_a_cluster_scoped_object(client, recorder):
    recorder.event(
        ObjectRef("stowage.dev/v1alpha1", "MemberCluster", "", "member-events", "uid-2"),
        type="Normal",
        reason="Connected",
        note="",
        action="Probe",
    )
    await until(lambda: listed(client, "default", "member-events"), every=0.1)
    (event,) = await listed(client, "default", "member-events")
    assert event["reason"] == "Connected"


async def test_a_namespace_that_is_not_there_harms_nobody(client, recorder, namespace, caplog):
    for number in range(5):
        for where in ("nowhere", namespace):
            ref = ObjectRef("v1", "Secret", where, f"s{number}", "")
            recorder.event(ref, type="Normal", reason="Seen", note="hello", action="Looking")
    await until(lambda: not recorder._waiting)
    for number in range(5):
        assert len(await listed(client, namespace, f"s{number}")) == 1
    assert len([r for r in caplog.records if r.name == "machinery.runtime.event_recorder"]) == 1
