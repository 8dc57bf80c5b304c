"""Workloads onto real members and their state back: what is written, left alone, and taken away."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from crds.names import ANNOTATION_UNJOIN, FINALIZER, GIVEN_UP
from crds.workload import PropagatedReason
from machinery.api.resources import MEMBER_CLUSTERS, NAMESPACES, SECRETS, WORKLOADS, Resource
from machinery.api.verbs import Verbs
from machinery.errors import ApiError, Unreachable
from propagator.members.objects import managed
from propagator.outcome import DesiredShare, outcome_of
from propagator.removal.rule import keep_of
from stowage.playground.controlplanes import Cluster
from tests.definitions import definition
from tests.letting_go import let_go

from .conftest import QUICK
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
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
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


@pytest.mark.long
@pytest.mark.proves("C31")
async def test_the_other_writers_conditions_stay(stage: Stage):
    await stage.create("demo")
    theirs = {
        "type": "Scheduled",
        "status": "True",
        "reason": "Scheduled",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"placements": [{"cluster": "m1", "replicas": 1}], "conditions": [theirs]}
    await stage.patch("demo", {"status": status}, subresource="status")
    await stage.propagated("demo")
    assert (await stage.condition("demo", "Scheduled")).items() >= theirs.items()
    await stage.patch("demo", {"status": {"serviceExternalIP": "1.2.3.4"}}, subresource="status")

    async def corrected() -> bool:
        return "serviceExternalIP" not in await stage.status("demo")

    await until(corrected)


@pytest.mark.long
@pytest.mark.proves("C31")
async def test_a_load_balancer_is_told(stage: Stage):
    service = {**SERVICE, "spec": {**SERVICE["spec"], "type": "LoadBalancer"}}
    await stage.run("demo", {"m1": 1}, targetService=service)
    await stage.appears("m1", "demo", kind=SERVICES)
    balancer = {"ingress": [{"ip": "192.0.2.7"}]}
    await stage.members["m1"].merge_patch(
        SERVICES,
        "demo",
        {"status": {"loadBalancer": balancer}},
        namespace=stage.namespace,
        subresource="status",
    )

    async def told() -> bool:
        return (await stage.status("demo")).get("serviceExternalIP") == "192.0.2.7"

    await until(told)
    ingress = (await stage.share("demo", "m1"))["loadBalancer"]["ingress"]
    assert ingress[0]["ip"] == "192.0.2.7"


@pytest.mark.proves("C32")
@pytest.mark.long
async def test_drift_is_repaired_and_edits_arrive(stage: Stage):
    template = deployment()
    template["metadata"]["annotations"] = {"team": "blue"}
    await stage.bring("demo", {"m1": 2}, targetDeployment=template)
    member = stage.members["m1"]

    async def spoil(patch: dict[str, Any], mended: Callable[[dict[str, Any]], bool]) -> None:
        await member.merge_patch(DEPLOYMENTS, "web", patch, namespace=stage.namespace)

        async def as_before() -> bool:
            return mended(await stage.appears("m1"))

        await until(as_before)

    await spoil({"spec": {"replicas": 7}}, lambda d: d["spec"]["replicas"] == 2)
    await spoil(
        {"metadata": {"annotations": {"team": "red"}}},
        lambda d: d["metadata"]["annotations"]["team"] == "blue",
    )
    await spoil(
        {"metadata": {"labels": {"stowage.dev/managed": None}}},
        lambda d: d["metadata"].get("labels", {}).get("stowage.dev/managed") == "true",
    )
    uid = (await stage.appears("m1"))["metadata"]["uid"]
    await member.delete(DEPLOYMENTS, "web", namespace=stage.namespace)

    async def another() -> bool:
        found = await stage.on("m1")
        return found is not None and found["metadata"]["uid"] != uid

    await until(another)
    template["spec"]["template"]["spec"]["containers"][0]["image"] = "newer"
    await stage.patch("demo", {"spec": {"targetDeployment": template}})

    async def newer() -> bool:
        pods = (await stage.appears("m1"))["spec"]["template"]["spec"]
        return pods["containers"][0]["image"] == "newer"

    await until(newer)


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
async def test_the_object_of_another_workload_is_untouched(stage: Stage):
    await stage.bring("first", {"m1": 2})
    await stage.run("second", {"m1": 9})
    message = await stage.refused("second", "AlreadyExists")
    assert f"Workload {stage.namespace}/first" in message
    assert (await stage.on("m1"))["spec"]["replicas"] == 2
    await stage.delete("first")
    await stage.propagated("second")
    assert (await stage.on("m1"))["spec"]["replicas"] == 9


@pytest.mark.long
@pytest.mark.proves("C29")
async def test_another_hubs_objects_are_neither_taken_nor_removed(stage: Stage):
    await stage.space_on("m1")
    for name, owner in (("web", "demo"), ("lonely", "never-heard-of")):
        theirs = deployment(name, replicas=5)
        theirs["metadata"]["labels"] = {"stowage.dev/managed": "true"}
        theirs["metadata"]["annotations"] = {
            "owner.stowage.dev/another-hub": f"{stage.namespace}/{owner}"
        }
        await stage.members["m1"].create(DEPLOYMENTS, theirs, namespace=stage.namespace)
    await stage.run("demo", {"m1": 1})
    message = await stage.refused("demo", "AlreadyExists")
    assert "another-hub" in message
    await stage.end("demo")
    await settled(stage)
    for name in ("web", "lonely"):
        assert (await stage.on("m1", name))["spec"]["replicas"] == 5


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


@pytest.mark.long
async def test_what_is_no_longer_rendered_goes(stage: Stage):
    await stage.bring("demo", {"m1": 1}, manifests=[configmap("one"), configmap("two")])
    await stage.restart()
    await stage.patch("demo", {"spec": {"manifests": [configmap("two")]}})
    await stage.goes("m1", "one", kind=CONFIGMAPS)
    assert await stage.on("m1", "two", kind=CONFIGMAPS)
    await stage.patch("demo", {"spec": {"targetDeployment": deployment("renamed")}})
    await stage.appears("m1", "renamed")
    await stage.goes("m1", "web")


@pytest.mark.long
@pytest.mark.proves("C27", "C28")
async def test_secrets_travel_and_are_shared(stage: Stage):
    for name in ("first", "second"):
        await stage.create(
            name,
            targetDeployment=deployment(name),
            resources=[{"name": "db", "secretName": "creds"}],
        )
        await stage.place(name, m1=1)
    message = await stage.refused("first", "SecretNotFound")
    assert f"{stage.namespace}/creds" in message
    assert await stage.on("m1", "first") is None

    def body(value: str) -> dict[str, Any]:
        data = {"password": base64.b64encode(value.encode()).decode()}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "creds", "namespace": stage.namespace},
            "data": data,
        }

    await stage.hub.create(SECRETS, body("one"))
    await stage.propagated("first")
    await stage.propagated("second")
    await stage.hub.apply(SECRETS, body("two"), name="creds", force=True)

    async def rotated() -> bool:
        copy = await stage.appears("m1", "creds", kind=SECRETS)
        return base64.b64decode(copy["data"]["password"]) == b"two"

    await until(rotated)
    await stage.end("first")
    copy = await stage.on("m1", "creds", kind=SECRETS)
    owners = [a for a in copy["metadata"]["annotations"] if a.startswith("owner.stowage.dev/")]
    assert len(owners) == 1
    await stage.delete("second")
    await stage.goes("m1", "creds", kind=SECRETS)


@pytest.mark.long
@pytest.mark.proves("C29")
async def test_a_target_namespace_is_made_and_stays(stage: Stage):
    target = f"{stage.namespace}-there"
    await stage.run("demo", {"m1": 1}, targetNamespace=target)
    await stage.appears("m1", namespace=target)
    await stage.delete("demo")
    await stage.goes("m1", namespace=target)
    assert await stage.members["m1"].get(NAMESPACES, target)


@pytest.mark.long
async def test_what_a_member_refuses_stops_nothing_else(stage: Stage):
    strange = {"apiVersion": "strange.dev/v1", "kind": "Odd", "metadata": {"name": "odd"}}
    wrong = {**SERVICE, "spec": {"ports": [{"port": 99999}]}}
    await stage.run("demo", {"m1": 1}, manifests=[strange, configmap("conf")], targetService=wrong)
    await stage.refused("demo", "Rejected", "no kind Odd", "99999")
    assert await stage.on("m1", "conf", kind=CONFIGMAPS)
    await stage.appears("m1")
    assert (await stage.share("demo", "m1"))["state"] == "Failed"
    await stage.patch("demo", {"spec": {"manifests": [], "targetService": SERVICE}})
    await stage.propagated("demo")
    await stage.goes("m1", "conf", kind=CONFIGMAPS)


@pytest.mark.long
async def test_a_moved_share_leaves_when_the_others_are_ready(stage: Stage):
    await stage.run("demo", {"m1": 2})
    await stage.make_ready("m1")
    await stage.place("demo", m2=2)
    await stage.appears("m2")

    async def leaving() -> bool:
        return (await stage.share("demo", "m1")).get("state") == "Leaving"

    await until(leaving)
    await settled(stage)
    assert (await stage.on("m1"))["spec"]["replicas"] == 2
    await stage.make_ready("m2")
    await stage.goes("m1")

    async def forgotten() -> bool:
        return [s["name"] for s in (await stage.status("demo")).get("clusters", [])] == ["m2"]

    await until(forgotten)
    await stage.patch("demo", {"spec": {"replicas": 0}})
    await stage.place("demo")
    await stage.goes("m2")


@pytest.mark.long
@pytest.mark.proves("N1")
async def test_what_is_placed_nowhere_and_wants_units_stays_and_is_taken_up(stage: Stage):
    await stage.run("demo", {"m1": 2})
    await stage.make_ready("m1")
    before = await stage.on("m1")
    assert before is not None
    await stage.place("demo")

    async def told() -> bool:
        return "placed nowhere" in (await stage.share("demo", "m1")).get("message", "")

    await until(told)
    found = await stage.on("m1")
    assert found is not None
    assert found["metadata"]["uid"] == before["metadata"]["uid"]
    await stage.place("demo", m1=2)
    await stage.propagated("demo")
    found = await stage.on("m1")
    assert found is not None
    assert found["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.long
@pytest.mark.proves("N1")
async def test_what_a_cluster_runs_is_taken_up_when_it_is_registered_anew(stage: Stage):
    await stage.run("demo", {"m1": 2})
    await stage.make_ready("m1")
    before = await stage.on("m1")
    assert before is not None
    secret = await stage.unregister("m1")
    await stage.place("demo")
    await stage.hub.create(SECRETS, secret)

    async def told() -> bool:
        return "placed nowhere" in (await stage.share("demo", "m1")).get("message", "")

    await until(told)
    cluster = await stage.hub.get(MEMBER_CLUSTERS, "m1")
    await stage.place("demo", m1=2)

    async def taken_up() -> bool:
        found = await stage.on("m1")
        assert found is not None
        assert found["metadata"]["uid"] == before["metadata"]["uid"]
        mark = found["metadata"]["annotations"]["stowage.dev/member"]
        return bool(mark.startswith(f"{cluster['metadata']['uid']}/"))

    await until(taken_up)


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


@pytest.mark.proves("C30")
@pytest.mark.long
async def test_a_member_that_does_not_answer_blocks_and_a_removed_one_releases(
    stage_on: MakeStage, m1: Cluster
):
    async with stage_on(sessions=QUICK) as stage:
        await stage.bring("demo", {"m1": 1, "m2": 1})
        async with stage.away("m1"):
            await stage.delete("demo")
            assert "m1" in await stage.refused("demo", "ClusterUnreachable")
            await stage.goes("m2")
            secret = await stage.hub.get(SECRETS, "m1", namespace="stowage-system")
            await stage.hub.delete(SECRETS, "m1", namespace="stowage-system")
            await let_go(stage.hub, "m1")  # it is named no more, and not given up
            await until(lambda: stage.process.term.registry.get("m1") is None)
            await stage.refused("demo", "ClusterUnreachable", "no MemberCluster")
            kind = {"apiVersion": MEMBER_CLUSTERS.api_version, "kind": MEMBER_CLUSTERS.kind}
            mark = {"name": "m1", "annotations": {ANNOTATION_UNJOIN: GIVEN_UP}}
            await stage.hub.create(MEMBER_CLUSTERS, {**kind, "metadata": mark, "spec": {}})
            await stage.gone("demo")
            await stage.hub.delete(MEMBER_CLUSTERS, "m1")
        assert await stage.on("m1")
        for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "annotations"):
            secret["metadata"].pop(key, None)
        await stage.hub.create(SECRETS, secret)
        await stage.goes("m1")


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


@pytest.mark.long
@pytest.mark.proves("C30")
async def test_a_finalizer_that_somebody_took_away_leaves_nothing_either(stage: Stage):
    await stage.bring("demo", {"m1": 1})
    await stage.patch("demo", {"metadata": {"finalizers": []}})
    await stage.hub.delete(WORKLOADS, "demo", namespace=stage.namespace)
    await stage.goes("m1")


ROLLOUTS = Resource("placements.dev", "v1", "rollouts", "Rollout")
CRD = definition(ROLLOUTS, status=False)


@pytest.mark.long
@pytest.mark.proves("D4", "C30")
async def test_a_custom_kind_is_found_again_after_a_restart_and_may_vanish(stage: Stage):
    definitions = await stage.members["m1"].resource(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition"
    )
    member = stage.members["m1"]
    await member.create(definitions, CRD)
    template = {"apiVersion": "placements.dev/v1", "kind": "Rollout", "spec": {"size": 0}}
    await stage.bring("demo", {"m1": 3}, template=template, replicasPath="spec.size")
    rollouts = await member.resource("placements.dev/v1", "Rollout")
    found = await stage.on("m1", "demo", kind=rollouts)
    assert found["spec"] == {"size": 3}
    await stage.stop()
    await stage.delete("demo")
    stage.start()
    await stage.gone("demo")
    assert await stage.on("m1", "demo", kind=rollouts) is None

    await stage.bring("other", {"m1": 1}, template=template, replicasPath="spec.size")
    await stage.bring("plain", {"m1": 1})
    await member.delete(definitions, CRD["metadata"]["name"])
    await stage.restart()
    await stage.refused("other", "Rejected")
    await stage.end("plain")
    await stage.end("other")
