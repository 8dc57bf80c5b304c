"""Well-known kinds on real members, by CRDs that keep unknown fields: their ends and their pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest

from machinery.api.client import ApiClient
from machinery.api.resources import CRDS, EVENTS, Resource
from machinery.errors import Forbidden, Invalid, NotFound
from tests.definitions import definition

from .stage import MakeStage, Stage, settled
from .waits import until

TRAINS = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
SPARKS = Resource("sparkoperator.k8s.io", "v1beta2", "sparkapplications", "SparkApplication")
RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters", "RayCluster")
WHEN = "2026-01-01T00:00:00Z"


@asynccontextmanager
async def serving(*members: ApiClient, kinds: list[Resource]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for member in members:
            for each in kinds:
                made = definition(each)
                await member.create(CRDS, made)
                stack.push_async_callback(member.delete, CRDS, made["metadata"]["name"])
                await until(partial(_served, member, each))
        yield


async def _served(member: ApiClient, kind: Resource) -> bool:
    with suppress(NotFound):
        await member.list(kind)
        return True
    return False


def main(of: Resource, name: str, **spec: Any) -> dict[str, Any]:
    version = f"{of.group}/{of.version}"
    return {"apiVersion": version, "kind": of.kind, "metadata": {"name": name}, "spec": spec}


async def says(stage: Stage, of: Resource, name: str, **status: Any) -> None:
    where: Any = {"namespace": stage.namespace, "subresource": "status"}
    await stage.members["m1"].merge_patch(of, name, {"status": status}, **where)


async def placed(stage: Stage, name: str, template: dict[str, Any]) -> None:
    await stage.bring(name, {"m1": 1}, template=template)


@pytest.mark.long
@pytest.mark.proves("KD33")
async def test_what_ends_in_its_own_way(stage_on: MakeStage):
    async with stage_on() as stage, serving(stage.members["m1"], kinds=[TRAINS, SPARKS]):
        await _failed_again(stage)
        await _written_no_more(stage)


def _ray(image: str, replicas: int = 1) -> dict[str, Any]:
    pods = {"spec": {"containers": [{"name": "w", "image": image}]}}
    group = {"groupName": "cpu", "replicas": replicas, "template": pods}
    head = {"headGroupSpec": {"template": pods}}
    return main(RAY_CLUSTERS, "ray", **head, workerGroupSpecs=[group])


@pytest.mark.proves("KD82")
async def test_a_take_over_says_what_its_kind_does_not_survive(stage: Stage):
    m1 = stage.members["m1"]
    async with serving(m1, kinds=[RAY_CLUSTERS]):
        await stage.space_on("m1")
        before = await m1.create(RAY_CLUSTERS, _ray("a"), namespace=stage.namespace)
        await stage.bring("ray", {"m1": 1}, template=_ray("a"), adoption="IfUnowned")
        await settled(stage, told=True)
        listed = await stage.hub.list(EVENTS, namespace=stage.namespace)
        (note,) = [e["note"] for e in listed["items"] if e["reason"] == "Adopted"]
        assert note == (
            f"m1: RayCluster {stage.namespace}/ray is taken over as it runs; let go and made "
            "anew it is not as before: the new one says that it is ready and owns nothing, "
            "and the pods outlive it"
        )
        found = await stage.appears("m1", "ray", kind=RAY_CLUSTERS)
        assert found["metadata"]["uid"] == before["metadata"]["uid"]
        assert found["spec"] == before["spec"]
        await stage.restarted()
        await settled(stage, told=True)
        listed = await stage.hub.list(EVENTS, namespace=stage.namespace)
        assert sum(e["reason"] == "Adopted" for e in listed["items"]) == 1


async def _failed_again(stage: Stage) -> None:
    """Its controller would run it again: it goes, once its end is stored, and comes no more."""
    await placed(stage, "fit", main(TRAINS, "fit", trainer={"numNodes": 2}))
    failed = {"type": "Failed", "status": "True", "reason": "Boom", "lastTransitionTime": WHEN}
    await says(stage, TRAINS, "fit", conditions=[{**failed, "message": "a node broke"}])
    await stage.goes("m1", "fit", kind=TRAINS)
    share = await stage.fares("fit", "m1", "Failed")
    assert (share["ended"]["result"], share["ended"]["message"]) == ("Failed", "a node broke")
    await stage.patch("fit", {"spec": {"template": main(TRAINS, "fit", trainer={"numNodes": 3})}})
    await settled(stage)
    assert await stage.on("m1", "fit", kind=TRAINS) is None


async def _written_no_more(stage: Stage) -> None:
    """An edit would run it once more; its TTL is there from the beginning."""
    spec = {"driver": {"memory": "512m"}, "executor": {}, "timeToLiveSeconds": 60}
    await placed(stage, "pi", main(SPARKS, "pi", **spec))
    made = await stage.appears("m1", "pi", kind=SPARKS)
    assert made["spec"]["timeToLiveSeconds"] == 60
    await says(stage, SPARKS, "pi", applicationState={"state": "COMPLETED"})
    await stage.fares("pi", "m1", "Complete")
    edited = main(SPARKS, "pi", **{**spec, "driver": {"memory": "1g"}})
    await stage.patch("pi", {"spec": {"template": edited}})
    await settled(stage)
    found = await stage.appears("m1", "pi", kind=SPARKS)
    assert found["metadata"]["generation"] == made["metadata"]["generation"]
    assert found["spec"] == made["spec"]


QUEUE = "a StatefulSet in a queue takes another number only from and to 0"
POLICIES = [
    Resource("admissionregistration.k8s.io", "v1", f"validatingadmission{each}", "")
    for each in ("policies", "policybindings")
]
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")


def queued(namespace: str) -> list[dict[str, Any]]:
    """What a queue's webhook refuses, and what no webhook sees: its scale subresource."""
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["statefulsets", "statefulsets/scale"],
    }
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    same = "request.subResource == '' && object.spec.replicas == oldObject.spec.replicas"
    about = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "a-queue"}}
    policy = {
        "matchConstraints": {"resourceRules": [rule], **where},
        "validations": [{"expression": same, "message": QUEUE}],
    }
    binding = {"policyName": "a-queue", "validationActions": ["Deny"]}
    return [
        {**about, "kind": "ValidatingAdmissionPolicy", "spec": policy},
        {**about, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    ]


@pytest.mark.proves("KD83")
async def test_a_number_that_a_queue_refuses_is_told_in_its_words(stage_on: MakeStage):
    labels = {"app": "db"}
    template = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "m", "image": "m"}]},
            },
        },
    }
    async with stage_on() as stage:
        await stage.bring("db", {"m1": 2}, targetDeployment=None, template=template)
        member = stage.members["m1"]
        parts = queued(stage.namespace)
        try:
            for resource, each in zip(POLICIES, parts, strict=True):
                await member.create(resource, each)

            kind = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}}
            by: Any = {"field_manager": "somebody"}
            seven = {**kind, "spec": {"replicas": 7}}

            async def refuses() -> bool:
                try:
                    about: Any = {"name": "db", "namespace": stage.namespace, "force": True}
                    await member.apply(STATEFUL_SETS, seven, **about, **by, dry_run=True)
                except (Forbidden, Invalid) as e:
                    return QUEUE in str(e)
                return False

            await until(refuses)
            made = await stage.appears("m1", "db", kind=STATEFUL_SETS)
            await stage.place("db", m1=3)
            await stage.refused("db", "Rejected", QUEUE)
            await settled(stage)
            found = await stage.appears("m1", "db", kind=STATEFUL_SETS)
            assert found["metadata"]["generation"] == made["metadata"]["generation"]
            assert found["spec"]["replicas"] == 2
        finally:
            for resource in POLICIES:
                await member.delete(resource, "a-queue")
