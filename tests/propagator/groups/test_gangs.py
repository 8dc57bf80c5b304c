"""Gangs on real members: nothing of one stands there but as its group's gate says.

A test plays the schedulers, the group's controller, and the kubelets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from crds.groups.gate import decision_of
from crds.names import LABEL_GROUP
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS, Resource
from propagator.groups import gates
from tests.propagator.stage import (
    CONFIGMAPS,
    DEPLOYMENTS,
    MakeStage,
    Stage,
    changes,
    configmap,
    deployment,
    settled,
)
from tests.propagator.waits import until

pytestmark = pytest.mark.long

QUORUM = "2026-01-02T03:04:05Z"
NAMES = ("driver", "worker")


async def found(stage: Stage, *, name: str = "batch") -> None:
    """A WorkloadGroup that nothing was said of yet."""
    await stage.hub.create(
        WORKLOAD_GROUPS,
        {
            "apiVersion": WORKLOAD_GROUPS.api_version,
            "kind": WORKLOAD_GROUPS.kind,
            "metadata": {"name": name, "namespace": stage.namespace},
            "spec": {"minMember": 3},
        },
    )


async def join(stage: Stage, name: str, *, group: str = "batch", **spec: Any) -> None:
    """A Workload of that group, whoever schedules it."""
    await stage.hub.create(
        WORKLOADS,
        {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "metadata": {
                "name": name,
                "namespace": stage.namespace,
                "labels": {LABEL_GROUP: group},
            },
            "spec": {"schedulerName": "the-test", "targetDeployment": deployment(name), **spec},
        },
    )


async def gate(stage: Stage, *released: str, state: str | None = "Open", **more: Any) -> None:
    """What the group's controller writes: these Workloads at their present placements."""
    decisions = dict([await entry(stage, name) for name in released])
    status = {"gate": state, "decisions": decisions or None, **more}
    await stage.hub.merge_patch(
        WORKLOAD_GROUPS,
        "batch",
        {"status": status},
        namespace=stage.namespace,
        subresource="status",
    )


async def entry(stage: Stage, name: str) -> tuple[str, str]:
    found = await stage.workload(name)
    assert found is not None
    placed = {each["cluster"]: each["replicas"] for each in found["status"]["placements"]}
    return found["metadata"]["uid"], decision_of(placed)


async def gang(stage: Stage, *, group: bool = True, **shares: Mapping[str, int]) -> None:
    """A driver on m1, workers on both, placed by somebody and released by nobody."""
    if group:
        await found(stage)
    for name, placed in (shares or {"driver": {"m1": 1}, "worker": {"m1": 1, "m2": 2}}).items():
        await join(stage, name)
        await stage.place(name, **placed)


async def held(stage: Stage, *names: str, words: str = "WorkloadGroup") -> None:
    """Wait until that is told of all of them."""
    for name in names or NAMES:
        said: dict[str, Any] = {}

        async def so(name: str = name, said: dict[str, Any] = said) -> bool:
            said.update(await stage.condition(name, "Propagated"))
            return said.get("reason") == "WaitingForGroup" and words in said["message"]

        await until(so, what=lambda said=said: said)


async def standing(stage: Stage, *, only: str = "") -> Counter[str]:
    """Objects of the tenant on each member, of the kinds that these tests write."""
    there: Counter[str] = Counter()
    for member, client in stage.members.items():
        if only not in ("", member):
            continue
        for kind in (DEPLOYMENTS, CONFIGMAPS):
            listed = await client.list(kind, namespace=stage.namespace)
            names = [each["metadata"]["name"] for each in listed["items"]]
            there[member] += len([name for name in names if name != "kube-root-ca.crt"])
    return there


async def stand(stage: Stage, **number: int) -> None:
    """Wait until exactly so many objects are on the members."""
    wanted = Counter(number)

    async def so() -> bool:
        return +(await standing(stage)) == +wanted

    await until(so)


@pytest.mark.proves("G4", "G24")
async def test_a_gang_is_on_no_member_until_its_gate_opens_and_then_on_all(stage: Stage):
    await gang(stage)
    await held(stage, words="waits for its quorum")
    for name in NAMES:
        status = await stage.status(name)
        assert status["state"] == "Scheduled"
        assert {each["state"] for each in status["clusters"]} == {"Pending"}
        assert all(each["scheduled"] == 0 for each in status["clusters"]), "in flight still"
    assert not +(await standing(stage))
    await gate(stage, *NAMES)
    for name in NAMES:
        await stage.propagated(name)
    await stand(stage, m1=2, m2=1)


@pytest.mark.proves("G24")
async def test_what_is_held_is_told_once_and_costs_the_members_nothing(stage: Stage):
    await stage.push("other")
    before = {name: await changes(client) for name, client in stage.members.items()}
    await gang(stage)
    await held(stage)
    await settled(stage)
    versions = [(await stage.workload(name))["metadata"] for name in NAMES]
    assert not any("stowage.dev/clusters" in e.get("annotations", {}) for e in versions)
    await gate(stage, state=None, running=1)
    await settled(stage)
    after = [(await stage.workload(name))["metadata"] for name in NAMES]
    assert [e["resourceVersion"] for e in after] == [e["resourceVersion"] for e in versions]
    for name, client in stage.members.items():
        assert await changes(client) == before[name]


@pytest.mark.proves("G24")
async def test_a_gate_that_closes_takes_all_of_it_away_though_placements_stand(
    stage: Stage,
):
    """Also what another one left on a member that no Workload is placed on."""
    await gang(stage)
    await gate(stage, *NAMES)
    await stand(stage, m1=2, m2=1)
    await stage.place("worker", m1=3)
    await held(stage, "worker", words="other placements")
    await stand(stage, m1=2, m2=1)
    await gate(stage, state="Closed")
    await stand(stage)
    await held(stage, words="took all of its replicas back")
    for name in NAMES:
        assert (await stage.status(name))["placements"]
    await gate(stage, *NAMES)
    await stand(stage, m1=2)


@pytest.mark.proves("N8")
async def test_a_gate_that_closes_leaves_what_ran_before_it(stage: Stage):
    """A worker ran by itself on m1; its group gave it more there, and a share on m2."""
    await join(stage, "worker")
    await stage.patch("worker", {"metadata": {"labels": {LABEL_GROUP: None}}})
    await stage.place("worker", m1=3)
    await stand(stage, m1=1)
    await found(stage)
    await stage.patch("worker", {"metadata": {"labels": {LABEL_GROUP: "batch"}}})
    await stage.place("worker", m1=4, m2=1)
    await gate(stage, "worker")
    await stand(stage, m1=1, m2=1)
    uid, decision = await entry(stage, "worker")
    status = {"decisions": {uid: decision}, "retained": {uid: {"m1": 3}}}
    await gate(stage, state="Closed", **status)
    await stand(stage, m1=1)
    await stage.place("worker", m1=3)
    await units(stage, "worker", m1=3)
    await gate(stage, state=None, **status)
    await stage.propagated("worker")
    await stand(stage, m1=1)
    await stage.place("worker", m1=3, m2=2)
    await held(stage, "worker", words="waits for its quorum")
    await stand(stage, m1=1)


async def units(stage: Stage, name: str, **wanted: int) -> None:
    """Wait until its Deployments have these replicas, by member."""

    async def so() -> bool:
        there = {}
        for member in wanted:
            client = stage.members[member]
            body = await client.get(DEPLOYMENTS, name, namespace=stage.namespace)
            there[member] = body["spec"]["replicas"]
        return there == wanted

    await until(so)


@pytest.mark.proves("G24")
async def test_another_decision_changes_nothing_on_members_until_it_is_released(
    stage: Stage,
):
    await gang(stage, worker={"m1": 2, "m2": 2})
    await gate(stage, "worker", quorumTime=QUORUM)
    await stage.propagated("worker")
    for member in ("m1", "m2"):
        await stage.make_ready(member, "worker")
    await stage.place("worker", m1=1)
    await held(stage, "worker", words="other placements")
    assert (await stage.fares("worker", "m1", "Running"))["replicas"] == 1
    await settled(stage)
    assert await stage.on("m2", "worker"), "a share that left stays, though the other is ready"
    assert (await stage.on("m1", "worker"))["spec"]["replicas"] == 2
    await stage.place("worker", m1=5)
    await settled(stage)
    assert (await stage.fares("worker", "m1", "Creating"))["replicas"] == 5
    await gate(stage, "worker", quorumTime=QUORUM)
    await stage.becomes("m1", "worker", 5, "replicas")
    await stage.make_ready("m1", "worker")
    await stage.goes("m2", "worker")


@pytest.mark.proves("G24")
async def test_an_edit_is_held_with_everything_else_of_it(stage: Stage):
    """Neither is the new one written, nor what it no longer wants taken away."""
    await found(stage)
    await join(stage, "worker", manifests=[configmap("old")])
    await stage.place("worker", m1=1)
    await gate(stage, "worker", quorumTime=QUORUM)
    await stage.propagated("worker")
    await stage.hub.delete(WORKLOAD_GROUPS, "batch", namespace=stage.namespace)
    await held(stage, "worker", words="not found")
    await stage.patch("worker", {"spec": {"manifests": [configmap("new")]}})
    await settled(stage)
    assert await stage.on("m1", "old", kind=CONFIGMAPS)
    assert await stage.on("m1", "new", kind=CONFIGMAPS) is None
    await found(stage)
    await gate(stage, "worker")
    await stage.appears("m1", "new", kind=CONFIGMAPS)
    await stage.goes("m1", "old", kind=CONFIGMAPS)


@pytest.mark.proves("G24")
async def test_a_held_workload_is_deleted_and_emptied_as_every_other(stage: Stage):
    await gang(stage)
    await held(stage)
    await stage.end("driver")
    await gate(stage, "worker", quorumTime=QUORUM)
    await stand(stage, m1=1, m2=1)
    await gate(stage, state=None)
    await held(stage, "worker")
    await stage.patch("worker", {"spec": {"replicas": 0}})
    await stage.patch("worker", {"status": {"placements": []}}, subresource="status")
    await stand(stage)
    await stage.end("worker")


@pytest.mark.proves("G24")
async def test_a_restart_changes_nothing_of_a_gang_whatever_its_gate_says(stage: Stage):
    await gang(stage)
    await held(stage)
    for turn in ("held", "open", "run", "lost", "closed"):
        if turn == "open":
            await gate(stage, *NAMES)
        if turn == "run":
            await gate(stage, *NAMES, quorumTime=QUORUM)
        if turn == "lost":
            await stage.hub.delete(WORKLOAD_GROUPS, "batch", namespace=stage.namespace)
            await held(stage, words="not found")
        if turn == "closed":
            await found(stage)
            await gate(stage, state="Closed")
            await held(stage, words="took all")
        for name in NAMES if turn in ("open", "run") else ():
            await stage.propagated(name)
        await stand(stage, **({} if turn in ("held", "closed") else {"m1": 2, "m2": 1}))
        await settled(stage)
        before = await versions(stage)
        there = await standing(stage)
        await stage.restarted()
        await settled(stage)
        assert await versions(stage) == before, turn
        assert await standing(stage) == there


async def versions(stage: Stage) -> list[str]:
    return [(await stage.workload(name))["metadata"]["resourceVersion"] for name in NAMES]


@pytest.mark.proves("G10", "G18")
async def test_on_a_hub_without_the_kind_only_who_names_a_group_waits(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch
):
    unknown = Resource("stowage.dev", "v1alpha1", "nosuchgroups", "NoSuchGroup")
    monkeypatch.setattr(gates, "WORKLOAD_GROUPS", unknown)
    async with stage_on() as stage:
        await gang(stage, group=False)
        await stage.push("alone")
        await held(stage, words="the hub serves no WorkloadGroups")
        await stage.end("driver")


JOBS = Resource("batch", "v1", "jobs", "Job")
RUNS = Resource("gangs.dev", "v1", "runs", "Run")


def job(name: str) -> dict[str, Any]:
    pods = {"containers": [{"name": "main", "image": "pause"}], "restartPolicy": "Never"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pods}},
    }


async def ends(stage: Stage, kind: Resource, name: str, **status: Any) -> None:
    """What the controllers of m1 say of it."""
    await stage.members["m1"].merge_patch(
        kind, name, {"status": status}, namespace=stage.namespace, subresource="status"
    )


async def counts(stage: Stage, name: str, **numbers: int | None) -> None:
    """Wait until its share on m1 tells so."""
    share: dict[str, Any] = {}

    async def so() -> bool:
        share.clear()
        share.update(await stage.share(name, "m1"))
        return {field: share.get(field) for field in numbers} == numbers

    await until(so, what=lambda: share)
