"""What conditions say holds at every moment that a reader could look, on real API servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from crds.names import SYSTEM_NAMESPACE
from crds.workload import PropagatedReason
from machinery.api.client import ApiClient
from machinery.api.resources import EVENTS, MEMBER_CLUSTERS, SECRETS, WORKLOADS, Resource
from machinery.errors import ApiError, Forbidden
from propagator.errors import says_no
from propagator.hub.named_objects import NamedObjects
from propagator.outcome import DesiredShare, outcome_of
from stowage.playground.controlplanes import Cluster
from tests.propagator.conftest import QUICK, secret, token_for
from tests.propagator.stage import DEPLOYMENTS, MakeStage, Stage, deployment, settled
from tests.propagator.waits import until

HOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
Condition = dict[str, Any]


@asynccontextmanager
async def watched(client: ApiClient, kind: Resource) -> AsyncIterator[list[dict[str, Any]]]:
    """Every state of every object of a kind that a reader could have seen meanwhile."""
    listed = await client.list(kind)
    states: list[dict[str, Any]] = []

    async def follow() -> None:
        version = listed["metadata"]["resourceVersion"]
        async with client.watch(kind, resource_version=version) as lines:
            async for line in lines:
                event = msgspec.json.decode(line)
                if event["type"] != "BOOKMARK":
                    states.append(event["object"])

    following = asyncio.create_task(follow())
    try:
        yield states
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


def conditions(state: dict[str, Any], kind: str) -> list[Condition]:
    return [c for c in state.get("status", {}).get("conditions", []) if c["type"] == kind]


async def running(stage: Stage, *members: str, **spec: Any) -> None:
    """One Workload, ready on these members."""
    await stage.create("demo", **spec)
    await stage.place("demo", **dict.fromkeys(members, 1))
    for member in members:
        await stage.make_ready(member)

    async def ready() -> bool:
        return (await stage.condition("demo", "Ready")).get("status") == "True"

    await until(ready)


@pytest.mark.long
@pytest.mark.proves("R5")
async def test_neither_a_restart_nor_a_new_token_says_anything(stage: Stage, m1: Cluster):
    await running(stage, "m1", "m2")
    token = await asyncio.to_thread(token_for, m1, "turn")
    await settled(stage, told=True)
    stands = (await stage.status("demo"))["clusters"]
    async with (
        watched(stage.hub, MEMBER_CLUSTERS) as clusters,
        watched(stage.hub, WORKLOADS) as workloads,
        watched(stage.hub, EVENTS) as events,
    ):
        await stage.restarted()
        await settled(stage)
        before = stage.process.term.registry.get("m1").link
        kubeconfig = {"endpoint": m1.server, "clusterCA": m1.ca, "token": token}
        data = {"data": {"kubeconfig": None, **secret("m1", kubeconfig)["data"]}}
        await stage.hub.merge_patch(SECRETS, "m1", data, namespace=SYSTEM_NAMESPACE)

        def connected() -> bool:
            session = stage.process.term.registry.get("m1")
            return session.ready and session.link is not before

        await until(connected)
        await settled(stage, told=True)
    told = [each for state in clusters for each in conditions(state, "Ready")]
    assert {each["reason"] for each in told} <= {"Connected"}
    mine = [state for state in workloads if state["metadata"]["namespace"] == stage.namespace]
    assert mine == []
    assert [e for e in events if e["regarding"]["kind"] in ("Workload", "MemberCluster")] == []
    assert (await stage.status("demo"))["clusters"] == stands


@pytest.mark.long
@pytest.mark.proves("R5")
async def test_a_member_that_does_not_answer_a_new_process_is_told_with_its_reason(
    stage_on: MakeStage, m1: Cluster
):
    async with stage_on(sessions=QUICK) as stage:
        await running(stage, "m1", "m2")
        await stage.stop()
        m1.freeze()
        try:
            async with watched(stage.hub, WORKLOADS) as states:
                stage.start()
                message = await stage.refused("demo", "ClusterUnreachable")
                share = await stage.share("demo", "m1")
        finally:
            m1.thaw()
        assert "cluster m1 cannot be reached" in message
        said = [each["reason"] for state in states for each in conditions(state, "Propagated")]
        assert set(said) == {"ClusterUnreachable"}, "from what stood to what is known, in one step"
        assert (share["state"], share["ready"], share["observedGeneration"]) == (
            "Unreachable",
            1,
            1,
        )
        await stage.propagated("demo")


@pytest.mark.long
@pytest.mark.proves("R6")
async def test_no_condition_is_true_of_a_generation_that_is_not_on_the_members(
    stage_on: MakeStage, m1: Cluster
):
    async with stage_on(sessions=QUICK) as stage:
        await running(stage, "m1", "m2")
        m1.freeze()
        try:
            async with watched(stage.hub, WORKLOADS) as states:
                edit = {"spec": {"targetDeployment": deployment(minReadySeconds=7)}}
                edited = await stage.patch("demo", edit)
                await stage.becomes("m2", "web", 7, "minReadySeconds")
                await stage.make_ready("m2")
                await stage.refused("demo", "ClusterUnreachable")
                await settled(stage)
        finally:
            m1.thaw()
        generation = edited["metadata"]["generation"]
        mine = [s for s in states if s["metadata"]["namespace"] == stage.namespace]
        for kind in ("Propagated", "Ready"):
            said = [each for state in mine for each in conditions(state, kind)]
            assert said
            assert not [
                each
                for each in said
                if (each["status"], each["observedGeneration"]) == ("True", generation)
            ]
        await stage.propagated("demo")
        await stage.becomes("m1", "web", 7, "minReadySeconds")
        await stage.make_ready("m1")

        async def ready() -> bool:
            there = await stage.condition("demo", "Ready")
            return (there.get("status"), there.get("observedGeneration")) == ("True", generation)

        await until(ready)


@pytest.mark.long
@pytest.mark.proves("R8")
async def test_a_field_that_the_member_does_not_know_is_its_refusal(stage: Stage):
    template = deployment()
    template["spec"]["template"]["spec"]["colour"] = "red"
    await stage.run("demo", {"m1": 1}, template=template)
    message = await stage.refused("demo", "Rejected")
    assert "colour" in message
    assert (await stage.share("demo", "m1"))["state"] == "Failed"


@pytest.mark.long
@pytest.mark.proves("R8")
async def test_a_webhook_of_the_member_that_is_down_is_its_refusal(stage_on: MakeStage):
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
    hook = {
        "name": "down.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule | {"operations": ["CREATE", "UPDATE"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    body = {
        "apiVersion": HOOKS.api_version,
        "kind": HOOKS.kind,
        "metadata": {"name": "down"},
        "webhooks": [hook],
    }
    async with stage_on() as stage:
        member = stage.members["m1"]
        await stage.space_on("m1")
        await member.create(HOOKS, body)

        async def in_force() -> bool:
            try:
                await member.create(
                    DEPLOYMENTS, deployment(), namespace=stage.namespace, dry_run=True
                )
            except ApiError as fault:
                return "failed calling webhook" in str(fault)
            return False

        try:
            await until(in_force)
            await stage.run("demo", {"m1": 1})
            assert "failed calling webhook" in await stage.refused("demo", "Rejected")
        finally:
            await member.delete(HOOKS, "down")
        await stage.propagated("demo")


@pytest.mark.long
@pytest.mark.proves("R8")
async def test_a_fault_of_the_hub_is_told_as_one(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch
):
    """The hub of a test refuses its administrator nothing, so its refusal is put in."""
    read, closed = NamedObjects.get, True

    async def refuses(*about: Any) -> Any:
        if closed:
            raise Forbidden(code=403, reason="Forbidden", message="secrets are not for you")
        return await read(*about)

    monkeypatch.setattr(NamedObjects, "get", refuses)
    async with stage_on() as stage:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}}
        await stage.hub.create(SECRETS, body, namespace=stage.namespace)
        await stage.run("demo", {"m1": 1}, resources=[{"name": "db"}])
        message = await stage.refused("demo", "HubUnavailable")
        assert message.startswith("the hub: Secret ")
        assert "secrets are not for you" in message
        closed = False
        await stage.propagated("demo")


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
        told = outcome_of("m1", fault, DesiredShare("u", 1, 1))
        assert told.reason is PropagatedReason.CLUSTER_UNREACHABLE
        assert message in told.message
        assert "cannot be reached" not in told.message, "it was"


@pytest.mark.long
@pytest.mark.proves("R11")
async def test_a_rule_of_a_member_that_changes_is_applied_at_once(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("propagator.share_writer.FIRST_PAUSE", 600.0)
    async with stage_on() as stage:

        async def allow(glob: str) -> Callable[[], bool]:
            rule = {"spec": {"namespaces": {"allow": [glob]}}}
            await stage.hub.merge_patch(MEMBER_CLUSTERS, "m1", rule)
            return lambda: stage.process.term.registry.get("m1").namespaces == (glob,)

        await until(await allow("team-*"))
        await stage.run("demo", {"m1": 1})
        await stage.refused("demo", "NamespaceNotAllowed")
        await until(await allow("*"))
        await stage.propagated("demo")
