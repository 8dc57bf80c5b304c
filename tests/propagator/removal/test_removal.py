"""What is taken away from members, on real ones: all of it, nothing else, and whoever dies between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from crds.names import ANNOTATION_HUB, LABEL_MANAGED, OWNER_PREFIX
from machinery.api.resources import NAMESPACES, SECRETS, Resource
from machinery.api.verbs import Verbs
from machinery.errors import Unreachable
from propagator.apply import apply_records
from stowage.playground.controlplanes import Cluster
from tests.propagator.conftest import QUICK
from tests.propagator.stage import (
    AUTOSCALERS,
    CONFIGMAPS,
    DEPLOYMENTS,
    MakeStage,
    Stage,
    autoscaler,
    configmap,
    deployment,
    settled,
)
from tests.propagator.waits import until


@pytest.mark.long
@pytest.mark.proves("R3")
async def test_an_object_is_one_in_whatever_version_it_is_asked_for(stage: Stage):
    await stage.bring("demo", {"m1": 1}, manifests=[autoscaler("v1")])
    made = await stage.appears("m1", "scaler", kind=AUTOSCALERS)
    for most, version in enumerate(("v2", "v1", "v2"), start=4):
        await stage.patch("demo", {"spec": {"manifests": [autoscaler(version, most)]}})
        found = await stage.becomes("m1", "scaler", most, "maxReplicas", kind=AUTOSCALERS)
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
    await stage.place("demo", m1=2)
    await stage.becomes("m1", "web", 2, "replicas")
    assert (await stage.on("m1", "scaler", kind=AUTOSCALERS))["metadata"]["uid"] == made[
        "metadata"
    ]["uid"], "it was removed and made anew meanwhile"


@pytest.mark.long
@pytest.mark.proves("R3")
async def test_two_wishes_for_one_object_are_told_and_not_fought_out(stage: Stage):
    both = [autoscaler("v2", 3), autoscaler("v1", 7)]
    await stage.run("demo", {"m1": 1}, manifests=both)
    message = await stage.refused("demo", "Rejected")
    assert "asked for twice" in message
    assert "autoscaling/v1 and autoscaling/v2" in message
    found = await stage.appears("m1", "scaler", kind=AUTOSCALERS)
    assert found["spec"]["maxReplicas"] == 3
    await stage.place("demo", m1=2)
    await stage.becomes("m1", "web", 2, "replicas")
    again = await stage.on("m1", "scaler", kind=AUTOSCALERS)
    assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]


class Applies:
    """Stands before every apply of a Deployment that a propagator sends."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stage = stage
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self._apply = Verbs.apply
        self._monkeypatch = monkeypatch
        self._late: set[asyncio.Task[Any]] = set()

    def wait(self) -> None:
        """Have them stay under way until `go_on`."""

        async def held(client: Verbs, res: Resource, obj: Mapping[str, Any], **how: Any) -> Any:
            if res.kind == "Deployment" and how["namespace"] == self._stage.namespace:
                self.begun.set()
                await self.go_on.wait()
            return await self._apply(client, res, obj, **how)

        self._monkeypatch.setattr(Verbs, "apply", held)

    def lose(self) -> None:
        """Have the connection break; the server gets them all the same, after `go_on`."""

        async def lost(client: Verbs, res: Resource, obj: Mapping[str, Any], **how: Any) -> Any:
            ours = res.kind == "Deployment" and how["namespace"] == self._stage.namespace
            if not ours or self.begun.is_set():
                return await self._apply(client, res, obj, **how)
            self.begun.set()
            self._late.add(asyncio.create_task(self._arrive(res, obj, how)))
            raise Unreachable("the connection broke in the middle of the request")

        self._monkeypatch.setattr(Verbs, "apply", lost)

    async def arrived(self) -> None:
        """Let what was lost arrive, and wait for that."""
        self.go_on.set()
        await asyncio.gather(*self._late)

    async def _arrive(self, res: Resource, obj: Any, how: Any) -> None:
        """As if the bytes had been on their way, whatever became of who sent them."""
        await self.go_on.wait()
        await self._apply(self._stage.members["m1"], res, obj, **how)


@pytest.mark.proves("R1", "C30")
async def test_a_workload_waits_for_its_first_apply_before_it_goes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    applies = Applies(stage, monkeypatch)
    applies.wait()
    await stage.run("demo", {"m1": 1})
    await until(applies.begun.is_set)
    noted = (await stage.workload("demo"))["metadata"]
    assert noted["annotations"]["stowage.dev/clusters"] == "m1", "noted before the request"
    await stage.delete("demo")
    await until(lambda: stage.queued("m1", "demo"))
    assert await stage.workload("demo"), "let go while its apply was under way"
    applies.go_on.set()
    await stage.gone("demo")
    assert await stage.on("m1") is None


@pytest.mark.long
@pytest.mark.proves("R1")
@pytest.mark.parametrize("late", [False, True])
async def test_a_write_without_an_answer_is_not_taken_for_nothing(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch, late: bool
):
    if late:
        monkeypatch.setattr(apply_records, "RIPE_SECONDS", 0.5)
    async with stage_on() as stage:
        await stage.space_on("m1")
        applies = Applies(stage, monkeypatch)
        applies.lose()
        await stage.run("demo", {"m1": 1}, manifests=[configmap("conf")])
        await until(applies.begun.is_set)
        await stage.delete("demo")
        if late:  # beyond the time that an answer is waited for: nobody expects it any more
            await stage.gone("demo")
            await applies.arrived()
        else:
            await applies.arrived()
            await stage.gone("demo")
            assert await stage.on("m1") is None
        await stage.goes("m1")


@pytest.mark.long
@pytest.mark.proves("R1", "R2")
async def test_what_a_dead_process_had_sent_is_taken_away_when_it_arrives(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    await stage.space_on("m1")
    applies = Applies(stage, monkeypatch)
    applies.lose()
    await stage.run("demo", {"m1": 1})
    await until(applies.begun.is_set)
    await stage.stop()
    await stage.delete("demo")
    assert await stage.workload("demo"), "the finalizer was there before the apply"
    stage.start()
    await stage.gone("demo")
    await applies.arrived()
    await stage.goes("m1")


@pytest.mark.long
@pytest.mark.proves("R2", "C30")
async def test_what_was_left_of_a_kind_that_nobody_uses_is_found_by_the_next_process(
    stage: Stage,
):
    await stage.push("demo")
    await stage.stop()
    await stage.patch("demo", {"metadata": {"finalizers": []}})
    await stage.end("demo")
    assert await stage.on("m1", "demo")
    stage.start()
    await stage.goes("m1", "demo")


async def put(stage: Stage, name: str, annotations: Mapping[str, str]) -> None:
    """A ConfigMap on m1 that some propagator made."""
    meta = {"name": name, "namespace": stage.namespace, "labels": {LABEL_MANAGED: "true"}}
    body = {**configmap(name), "metadata": {**meta, "annotations": dict(annotations)}}
    await stage.members["m1"].create(CONFIGMAPS, body)


async def count(stage: Stage, kind: Resource) -> set[str]:
    listed = await stage.members["m1"].list(kind, namespace=stage.namespace)
    return {item["metadata"]["name"] for item in listed["items"]}


@pytest.mark.long
@pytest.mark.proves("R2", "C30")
async def test_a_member_that_comes_back_is_swept(stage: Stage):
    for name in ("demo", "other"):
        manifests = [configmap(f"{name}-conf"), autoscaler("v2", name=f"{name}-scaler")]
        await stage.bring(name, {"m1": 1}, manifests=manifests, targetDeployment=deployment(name))
    before = await stage.on("m1", "demo")
    secret = await stage.unregister("m1")
    for name in ("demo", "other"):
        await stage.end(name)
    await stage.restart()  # whatever was seen of them is forgotten
    assert await count(stage, DEPLOYMENTS) == {"demo", "other"}
    await stage.run("demo", {"m1": 2}, targetDeployment=deployment("demo"))
    await stage.hub.create(SECRETS, secret)
    await stage.propagated("demo")
    after = await stage.becomes("m1", "demo", 2, "replicas")
    owner = f"{OWNER_PREFIX}{(await stage.workload('demo'))['metadata']['uid']}"
    owners = {key for key in after["metadata"]["annotations"] if key.startswith(OWNER_PREFIX)}
    assert owners == {owner}
    assert after["metadata"]["uid"] == before["metadata"]["uid"], "taken over, not made anew"
    await stage.goes("m1", "other")
    for name in ("demo-scaler", "other-scaler"):
        await stage.goes("m1", name, kind=AUTOSCALERS)
    for name in ("demo-conf", "other-conf"):
        await stage.goes("m1", name, kind=CONFIGMAPS)


@pytest.mark.long
@pytest.mark.proves("R2")
async def test_only_what_this_hub_wrote_for_a_workload_that_is_gone_is_swept(stage: Stage):
    lives = (await stage.create("lives", manifests=[configmap("conf")]))["metadata"]["uid"]
    await stage.place("lives", m1=1)
    await stage.propagated("lives")
    hub = (await stage.on("m1"))["metadata"]["annotations"][ANNOTATION_HUB]
    system = await stage.hub.get(NAMESPACES, "kube-system")
    assert hub == system["metadata"]["uid"]
    gone = {f"{OWNER_PREFIX}gone": f"{stage.namespace}/gone"}
    also = {f"{OWNER_PREFIX}{lives}": f"{stage.namespace}/lives"}
    forged = {f"{OWNER_PREFIX}{lives}": f"{stage.namespace}/gone"}
    await put(stage, "unmarked", gone)
    await put(stage, "of-another-hub", {**gone, ANNOTATION_HUB: "another"})
    await put(stage, "forged", {**forged, ANNOTATION_HUB: hub})
    await put(stage, "shared", {**gone, **also, ANNOTATION_HUB: hub})
    await put(stage, "left", {**gone, ANNOTATION_HUB: hub})
    await stage.goes("m1", "left", kind=CONFIGMAPS)

    async def parted() -> bool:
        found = await stage.on("m1", "shared", kind=CONFIGMAPS)
        return found is None or not gone.keys() & found["metadata"]["annotations"].keys()

    await until(parted)
    await stage.restarted()
    await put(stage, "last", {**gone, ANNOTATION_HUB: hub})
    await stage.goes("m1", "last", kind=CONFIGMAPS)
    assert {"conf", "unmarked", "of-another-hub"} <= await count(stage, CONFIGMAPS)
    for name, words in (("of-another-hub", "another hub"), ("unmarked", "remove the object")):
        await stage.run(
            name, {"m1": 1}, manifests=[configmap(name)], targetDeployment=deployment(name)
        )
        assert words in await stage.refused(name, "AlreadyExists")
    for name in ("unmarked", "of-another-hub"):
        await stage.members["m1"].delete(CONFIGMAPS, name, namespace=stage.namespace)


@pytest.mark.proves("M50")
async def test_what_is_deleted_while_its_member_is_lost_waits_for_it_and_comes_not_back(
    stage_on: MakeStage, m1: Cluster
):
    async with stage_on(sessions=QUICK) as stage:
        await stage.run("demo", {"m1": 2})
        await stage.make_ready("m1")
        m1.freeze()
        try:
            await stage.fares("demo", "m1", "Unreachable")
            leaving = {"cluster": "m1", "replicas": 2, "cause": "ClusterLost", "since": SINCE}
            await stage.patch("demo", {"status": {"leaving": [leaving]}}, subresource="status")
            await stage.place("demo", m2=2)
            await stage.make_ready("m2")
            await stage.delete("demo")
            await stage.goes("m2")
            await settled(stage)
            assert await stage.workload("demo"), "m1 has not said that nothing is left there"
        finally:
            m1.thaw()
        await stage.gone("demo")
        await settled(stage)
        for member in ("m1", "m2"):
            assert await stage.on(member) is None


SINCE = "2026-11-26T03:00:00Z"
