"""Faults made for real: members that hang, processes that die, a hub that goes away.

These tests end and freeze processes, so they run controller and propagator themselves: `e2e.stage`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from e2e.harness import deployment, pod_template, wait, workload
from e2e.stage import MEMBERS, Stage
from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS
from machinery.config.kubeconfig import parse_kubeconfig

pytestmark = pytest.mark.long


@pytest.mark.proves("D2")
def test_a_frozen_member_delays_nobody(running: Stage, space: str) -> None:
    template = deployment("web", replicas=2)
    running.hub.apply(workload("web", space, targetDeployment=template, distribution="Duplicated"))
    running.until_running(space, "web")

    def image(member: str) -> str:
        landed = running.seen(member, space, "web") or {}
        return str(landed["spec"]["template"]["spec"]["containers"][0]["image"])

    def roll(tag: str) -> None:
        new = f"registry.k8s.io/pause:{tag}"
        template["spec"]["template"]["spec"]["containers"][0]["image"] = new
        running.hub.apply(
            workload("web", space, targetDeployment=template, distribution="Duplicated")
        )

    roll("3.8")
    for member in MEMBERS:
        wait(f"3.8 on {member}", lambda m=member: image(m).endswith("3.8"))

    running.signal("member-1", "freeze")
    try:
        roll("3.9")
        for member in MEMBERS[1:]:
            wait(f"3.9 on {member}", lambda m=member: image(m).endswith("3.9"))
        wait(
            "member-1 to be called Unreachable",
            lambda: running.ready("member-1").get("reason") == "Unreachable",
            timeout=30,
        )
        assert "member-1" in running.placements(space, "web")
    finally:
        running.signal("member-1", "thaw")
    wait("3.9 on member-1", lambda: image("member-1").endswith("3.9"), timeout=60)
    running.until_running(space, "web")


@pytest.mark.proves("C23")
def test_the_standby_takes_over(running: Stage, space: str) -> None:
    running.process("controller", "standby")
    try:
        wait("the standby to answer", lambda: running.metric("standby", "process_") > 0)
        running.hub.apply(workload("before", space))
        running.until_running(space, "before")

        def decided() -> list[str]:
            events = running.hub.items("events", space)
            names = [e["involvedObject"]["name"] for e in events if e["reason"] == "Scheduled"]
            return sorted(names)

        wait("what it decided to be told", lambda: decided() == ["before"])
        running.processes["controller"].kill()
        running.hub.apply(workload("after", space))
        wait("a decision of the standby", lambda: running.placements(space, "after"), timeout=15)
        running.process("controller")
        running.hub.apply(workload("later", space))
        running.until_running(space, "later")
        wait("each decision to be told", lambda: len(decided()) >= 3)
        assert decided() == ["after", "before", "later"]
    finally:
        running.processes["standby"].kill(signal.SIGTERM)


@pytest.mark.proves("A1", "KD30")
def test_a_job_that_ends_while_both_processes_are_dead_runs_once(
    running: Stage, space: str
) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "bill"},
        "spec": {
            "suspend": True,
            "ttlSecondsAfterFinished": 1,
            "template": pod_template("bill", restartPolicy="Never"),
        },
    }
    running.hub.apply(workload("bill", space, template=job, targetCluster={"name": "member-1"}))
    member = running.members["member-1"]
    (made,) = wait("the Job", lambda: member.items("jobs", space))
    for role in ("controller", "propagator"):
        running.processes[role].kill()
    lifted = json.dumps({"spec": {"suspend": False}})
    member("-n", space, "patch", "job", "bill", "--type=merge", "-p", lifted)
    wait("its end", lambda: member.items("jobs", space)[0]["status"].get("completionTime"))
    for role in ("controller", "propagator"):
        running.process(role)
    running.until_state(space, "bill", "Complete", timeout=90)
    wait("the Job to be forgotten", lambda: not member.items("jobs", space))
    running.hub.apply(workload("after", space, targetCluster={"name": "member-1"}))
    running.until_running(space, "after")
    uids = {
        event["involvedObject"]["uid"]
        for event in member.items("events", space)
        if event["involvedObject"]["kind"] == "Job"
    }
    assert uids == {made["metadata"]["uid"]}
    assert not member.items("jobs", space)


def test_the_hub_goes_away_and_comes_back(running: Stage, space: str) -> None:
    running.hub.apply(workload("kept", space, distribution="Duplicated"))
    running.until_running(space, "kept")

    def versions() -> list[str]:
        return [
            (running.seen(member, space, "kept") or {})["metadata"]["uid"] for member in MEMBERS
        ] + [str(running.managed(member)) for member in MEMBERS]

    before = versions()
    pids = {name: p.running.pid for name, p in running.processes.items() if p.running}
    running.signal("hub", "kill")
    try:
        _unchanged(versions, before, seconds=5)
    finally:
        running.signal("hub", "restart")
    wait("the hub to take objects", lambda: running.hub.apply(workload("after-kill", space)))
    running.until_running(space, "after-kill", timeout=90)

    before = versions()
    running.signal("hub", "freeze")
    try:
        _unchanged(versions, before, seconds=15)
    finally:
        running.signal("hub", "thaw")
    wait("the hub to take objects", lambda: running.hub.apply(workload("after-freeze", space)))
    running.until_running(space, "after-freeze", timeout=90)
    for member in MEMBERS:
        assert f"{space}/kept" in running.managed(member)
    for name, pid in pids.items():
        process = running.processes[name].running
        assert process is not None
        assert process.pid == pid
        assert process.poll() is None, f"{name} ended"


def test_a_large_workload(running: Stage, space: str) -> None:
    big = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "big"},
        "data": {"text": "x" * 300_000},
    }
    running.hub.apply(workload("large", space, manifests=[big]), server_side=True)
    status = running.until_running(space, "large")
    member = status["placements"][0]["cluster"]
    landed = running.seen(member, space, "big", version="v1", kind="ConfigMap")
    assert landed is not None
    assert len(landed["data"]["text"]) == 300_000


def test_a_crowd_at_once(running: Stage, space: str) -> None:
    size = 300
    before = {role: _requests(running, role) for role in ("controller", "propagator")}
    crowd = [
        workload(f"w{n}", space, targetDeployment=deployment(f"w{n}", replicas=0))
        for n in range(size)
    ]
    asyncio.run(_create(running, space, crowd))

    def states() -> Counter[str]:
        items = running.hub.items("wl", space)
        return Counter(item.get("status", {}).get("state", "") for item in items)

    wait("all to be Running", lambda: states() == {"Running": size}, timeout=240, every=2)
    there = sum(
        key.startswith(f"{space}/") for member in MEMBERS for key in running.managed(member)
    )
    assert there == size
    for role, limit in (("controller", 4), ("propagator", 20)):
        asked = _requests(running, role) - before[role]
        assert asked < limit * size, f"{role} made {asked:.0f} requests"
        assert running.metric(role, "process_resident_memory_bytes") < 600e6
    running.hub("-n", space, "delete", "wl", "--all", "--wait=false", timeout=240)
    wait("all to be gone", lambda: not states(), timeout=240, every=2)
    for member in MEMBERS:
        assert not [key for key in running.managed(member) if key.startswith(f"{space}/")]


def _requests(running: Stage, role: str) -> float:
    return running.metric(role, r"stowage_api_requests_total\{")


def _unchanged(look: Callable[[], object], before: object, *, seconds: float) -> None:
    """Assert that it stays so for that long: a hub that is away tells of no process's work."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert look() == before
        time.sleep(1)


async def _create(running: Stage, space: str, crowd: list[dict[str, Any]]) -> None:
    connection = parse_kubeconfig(running.hub.kubeconfig.read_bytes())
    async with ApiClient(connection, name="crowd", timeout=60) as hub:
        await asyncio.gather(*(hub.create(WORKLOADS, each, namespace=space) for each in crowd))
