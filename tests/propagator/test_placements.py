"""Workloads onto real members and their state back: what is written, left alone, and taken away."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from crds.names import FINALIZER, LABEL_CLUSTER
from crds.workload import PropagatedReason
from machinery.api.resources import WORKLOADS, Resource
from machinery.api.verbs import Verbs
from machinery.errors import ApiError, Unreachable
from propagator.errors import says_no
from propagator.members.objects import managed
from propagator.outcome import DesiredShare, outcome_of
from propagator.removal.rule import keep_of
from tests.patience import PATIENCE

from .stage import (
    CONFIGMAPS,
    DEPLOYMENTS,
    SERVICES,
    MakeStage,
    Stage,
    configmap,
    deployment,
    settled,
)
from .waits import until

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], "type": "LoadBalancer"},
}


@pytest.mark.proves("C3", "C22", "C31")
async def test_a_placed_workload_is_written_and_its_state_comes_back(stage: Stage):
    carried = {"targetService": SERVICE, "manifests": [configmap("conf", k="v")]}
    made = await stage.create("demo", **carried)
    assert FINALIZER in made["metadata"]["finalizers"], "by admission"
    await stage.place("demo", m1=2, m2=1)
    await stage.propagated("demo")
    for member, units in (("m1", 2), ("m2", 1)):
        assert (await stage.on(member))["spec"]["replicas"] == units
        assert await stage.on(member, "demo", kind=SERVICES)
        assert (await stage.on(member, "conf", kind=CONFIGMAPS))["data"] == {"k": "v"}
    assert FINALIZER in (await stage.workload("demo"))["metadata"]["finalizers"]
    status = await stage.status("demo")
    assert status["clusterSummary"] == "m1=2,m2=1"
    assert status["readySummary"] == "0/3"
    assert status["state"] == "Creating"

    await stage.make_ready("m1")

    async def counted() -> bool:
        return (await stage.status("demo")).get("ready") == 2

    await until(counted)
    assert (await stage.share("demo", "m1"))["state"] == "Running"
    assert (await stage.condition("demo", "Ready"))["status"] == "False"
    await stage.make_ready("m2")

    async def running() -> bool:
        return (await stage.status("demo")).get("state") == "Running"

    await until(running)
    assert (await stage.status("demo"))["readySummary"] == "3/3"
    assert (await stage.condition("demo", "Ready"))["status"] == "True"

    told: dict[str, Any] = {"namespace": stage.namespace, "subresource": "status"}
    status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}
    await stage.members["m1"].merge_patch(SERVICES, "demo", {"status": status}, **told)

    async def balanced() -> bool:
        return (await stage.status("demo")).get("serviceExternalIP") == "192.0.2.7"

    await until(balanced)
    ingress = (await stage.share("demo", "m1"))["loadBalancer"]["ingress"]
    assert ingress[0]["ip"] == "192.0.2.7"


@pytest.mark.proves("C29")
async def test_foreign_objects_are_untouched(stage: Stage):
    await stage.space_on("m1")
    member = stage.members["m1"]
    foreign = deployment(replicas=5)
    before = await member.create(DEPLOYMENTS, foreign, namespace=stage.namespace)
    await stage.run("demo", {"m1": 1, "m2": 1})
    message = await stage.refused("demo", "AlreadyExists")
    assert f"Deployment {stage.namespace}/web" in message
    assert await stage.on("m1") == before
    assert (await stage.share("demo", "m1"))["state"] == "Failed"
    assert (await stage.status("demo"))["state"] == "Failed"
    await stage.appears("m2")
    await member.delete(DEPLOYMENTS, "web", namespace=stage.namespace)
    await stage.propagated("demo")


@pytest.mark.long
@pytest.mark.proves("C29")
async def test_an_object_made_in_the_same_moment_is_left_as_it_is(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch
):
    apply, made = Verbs.apply, []

    async def a_moment_later(self: Verbs, res: Resource, obj: Any, **how: Any) -> Any:
        if res == CONFIGMAPS and not made:
            theirs = configmap("conf", mine="yes")
            member = stage.members["m1"]
            made.append(await member.create(CONFIGMAPS, theirs, namespace=stage.namespace))
        return await apply(self, res, obj, **how)

    monkeypatch.setattr(Verbs, "apply", a_moment_later)
    async with stage_on() as stage:
        await stage.space_on("m1")
        await stage.run("demo", {"m1": 1}, manifests=[configmap("conf", other="no")])
        message = await stage.refused("demo", "AlreadyExists")
        assert "ConfigMap" in message
        assert await stage.on("m1", "conf", kind=CONFIGMAPS) == made[0], "not touched at all"
        assert await stage.on("m1") is None, "pods wait for what they need"


CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


@pytest.mark.long
@pytest.mark.proves("N2")
async def test_a_claim_stays_when_its_workload_moves_and_goes_with_it(stage_on: MakeStage):
    marked = {"Never": configmap("never"), "Move": configmap("move"), "Always": configmap("always")}
    for value, each in marked.items():
        each["metadata"]["annotations"] = {"stowage.dev/keep": value}
    async with stage_on() as stage:
        await stage.run("demo", {"m1": 1}, manifests=[CLAIM, *marked.values()])
        await stage.make_ready("m1")
        claims = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
        claim = await stage.on("m1", "data", kind=claims)
        assert claim is not None
        await stage.place("demo", m2=1)
        await stage.appears("m2")
        await stage.make_ready("m2")
        await stage.goes("m1")

        async def kept() -> bool:
            told = (await stage.status("demo")).get("kept", [])
            return [(each["cluster"], each["name"]) for each in told] == [
                ("m1", "always"),
                ("m1", "move"),
                ("m1", "data"),
            ]

        await until(kept)
        assert await stage.on("m1", "never", kind=CONFIGMAPS) is None

        async def gone() -> bool:
            return [s["name"] for s in (await stage.status("demo"))["clusters"]] == ["m2"]

        await until(gone)
        await settled(stage, told=True)
        stored = await stage.hub.get(WORKLOADS, "demo", namespace=stage.namespace)
        await stage.restart()  # an object of a list tells no kind of its own
        await stage.ready()
        await settled(stage, told=True)
        await until(kept)
        assert await stage.hub.get(WORKLOADS, "demo", namespace=stage.namespace) == stored
        await stage.place("demo", m1=1)
        await stage.appears("m1")
        found = await stage.on("m1", "data", kind=claims)
        assert found is not None
        assert found["metadata"]["uid"] == claim["metadata"]["uid"]
        assert "deletionTimestamp" not in found["metadata"], "a finalizer would hold it"
        await stage.delete("demo")

        async def ends() -> bool:
            left = [await stage.on(member, "data", kind=claims) for member in ("m1", "m2")]
            return all(each is None or "deletionTimestamp" in each["metadata"] for each in left)

        await until(ends)
        # No controller is there to see that no pod uses it.
        free = {"metadata": {"finalizers": None}}
        for name in ("m1", "m2"):
            where = {"namespace": stage.namespace}
            await stage.members[name].merge_patch(claims, "data", free, **where)
        await stage.gone("demo")
        assert await stage.on("m1", "move", kind=CONFIGMAPS) is None
        always = await stage.on("m1", "always", kind=CONFIGMAPS)
        assert always is not None
        ours = {*always["metadata"].get("annotations", {}), *always["metadata"].get("labels", {})}
        assert not [each for each in ours if each.startswith(("owner.", "stowage.dev/managed"))]


@pytest.mark.proves("N2")
def test_a_claim_that_was_listed_is_one() -> None:
    """The objects of a list do not tell their kind: what lists them knows it."""
    claims = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
    listed = managed(claims, {"metadata": {"name": "data", "uid": "u1"}})
    assert keep_of(listed) == "Move"


@pytest.mark.proves("C30", "Y11")
async def test_a_deleted_workload_leaves_nothing(
    stage_on: MakeStage, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", logger="propagator.status.controller")
    async with stage_on() as stage:
        await stage.bring(
            "demo", {"m1": 1, "m2": 1}, targetService=SERVICE, manifests=[configmap("conf")]
        )
        await stage.stop()
        await stage.delete("demo")
        assert await stage.on("m1")
        stage.start()
        await stage.gone("demo")
        for member in ("m1", "m2"):
            assert await stage.on(member) is None
            assert await stage.on(member, "demo", kind=SERVICES) is None
            assert await stage.on(member, "conf", kind=CONFIGMAPS) is None

        def ends() -> list[str]:
            return [each.message for each in caplog.records if each.message.startswith("ended")]

        await until(ends)  # it is said after the hub has taken it
        assert ends() == ["ended: seen to be gone by m1, m2"]


WISH = DesiredShare("u1", 1, 1)


def test_a_fault_in_the_middle_of_a_write_names_the_cluster_too():
    refused = outcome_of("m1", Unreachable("https://10.0.0.1:6443: Connection refused"), WISH)
    assert refused.reason is PropagatedReason.CLUSTER_UNREACHABLE
    assert refused.message.startswith("cluster m1 cannot be reached (https://10.0.0.1:6443: ")
    slow = outcome_of("m1", ApiError.of(code=429, reason="", message="too many requests"), WISH)
    assert (slow.reason, slow.message) == (
        PropagatedReason.CLUSTER_UNREACHABLE,
        "m1: too many requests",
    )
    forbidden = outcome_of("m1", ApiError.of(code=403, reason="Forbidden", message="may not"), WISH)
    assert (forbidden.reason, forbidden.message) == (PropagatedReason.REJECTED, "may not")


@pytest.mark.proves("R8")
@pytest.mark.parametrize(
    ("code", "message", "no"),
    [
        (500, "failed to create typed patch object: .spec.colour: field not declared", True),
        (500, 'Internal error occurred: failed calling webhook "x": connection refused', True),
        (500, "conversion webhook for example.com/v1, Kind=A failed: Post: EOF", True),
        (500, "etcdserver: request timed out", False),
        (500, "rpc error: code = Unavailable desc = transport is closing", False),
        (500, "etcdserver: request is too large", True),
        (
            500,
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max",
            True,
        ),
        (413, "Request entity too large: limit is 3145728", True),
        (503, "the server is currently unable to handle the request", False),
        (504, "Timeout: request did not complete", False),
        (422, "spec.x: Invalid value", True),
        (409, "the object has been modified", False),
    ],
)
def test_what_is_about_an_object_is_told_from_what_is_about_the_member(
    code: int, message: str, no: bool
):
    fault = ApiError.of(code=code, reason="", message=message)
    assert says_no(fault) is no
    if code >= 500 and not no:
        told = outcome_of("m1", fault, WISH)
        assert told.reason is PropagatedReason.CLUSTER_UNREACHABLE
        assert message in told.message
        assert "cannot be reached" not in told.message, "it was"


@pytest.mark.proves("O10")
async def test_no_state_of_an_object_lacks_its_overrides_while_they_change_and_the_process_ends(
    stage_on: MakeStage,
):
    """A watch on the member sees each state."""

    def edit(number: int) -> dict[str, Any]:
        container = {"name": "main", "args": [str(number)]}
        override = {
            "name": "one",
            "clusterSelector": {"matchLabels": {LABEL_CLUSTER: "m1"}},
            "patch": {"spec": {"template": {"spec": {"containers": [container]}}}},
        }
        body = deployment()
        body["metadata"]["labels"] = {"edit": str(number)}
        return {"overrides": [override], "targetDeployment": body}

    def args(found: Any) -> list[str]:
        [container] = found["spec"]["template"]["spec"]["containers"]
        return list(container.get("args", []))

    async with stage_on() as stage:
        await stage.run("demo", {"m1": 1}, **edit(0))
        found = await stage.appears("m1")
        seen = [args(found)]
        watching = stage.members["m1"].watch(
            DEPLOYMENTS,
            resource_version=found["metadata"]["resourceVersion"],
            namespace=stage.namespace,
        )
        async with asyncio.timeout(60 * PATIENCE), watching as lines:
            for number in (1, 2, 3):
                await stage.patch("demo", {"spec": edit(number)})
                await stage.restart()
            while seen[-1] != ["3"]:
                seen.append(args(json.loads(await anext(lines))["object"]))
    assert all(seen), "an object without its override"
