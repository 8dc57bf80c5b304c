"""Well-known kinds on real members, by CRDs that keep unknown fields: their ends and their pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from crds.names import LABEL_WORKLOAD_UID
from machinery.api.client import ApiClient
from machinery.api.resources import CRDS, PODS, Resource
from machinery.errors import Forbidden, Invalid

from .stage import MakeStage, Stage, settled
from .waits import until

TRAINS = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
SPARKS = Resource("sparkoperator.k8s.io", "v1beta2", "sparkapplications", "SparkApplication")
RAYS = Resource("ray.io", "v1", "rayjobs", "RayJob")
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
WHEN = "2026-01-01T00:00:00Z"


def crd(of: Resource) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": of.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": of.plural, "singular": of.kind.lower(), "kind": of.kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{of.plural}.{of.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {"group": of.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@asynccontextmanager
async def serving(*members: ApiClient, kinds: list[Resource]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for member in members:
            for each in kinds:
                made = crd(each)
                await member.create(CRDS, made)
                stack.push_async_callback(member.delete, CRDS, made["metadata"]["name"])
        yield


def main(of: Resource, name: str, **spec: Any) -> dict[str, Any]:
    version = f"{of.group}/{of.version}"
    return {"apiVersion": version, "kind": of.kind, "metadata": {"name": name}, "spec": spec}


async def says(stage: Stage, of: Resource, name: str, **status: Any) -> None:
    where: Any = {"namespace": stage.namespace, "subresource": "status"}
    await stage.members["m1"].merge_patch(of, name, {"status": status}, **where)


async def placed(stage: Stage, name: str, template: dict[str, Any]) -> None:
    await stage.create(name, template=template)
    await stage.place(name, m1=1)
    await stage.propagated(name)


@pytest.mark.long
@pytest.mark.proves("KD33", "KD43", "KD57")
async def test_how_kinds_of_others_end_and_leave(stage_on: MakeStage):
    async with stage_on() as stage:
        m1, m2 = stage.members["m1"], stage.members["m2"]
        async with serving(m1, kinds=[TRAINS, SPARKS]), serving(m1, m2, kinds=[RAYS]):
            await _failed_again(stage)
            await _written_no_more(stage)
            await _once(stage)


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


async def _once(stage: Stage) -> None:
    """Its object is gone at once, and its pod is not: that is what the next cluster waits for."""
    workers: dict[str, Any] = {"template": {"spec": {"containers": [{"name": "w"}]}}}
    template = main(RAYS, "ray", rayClusterSpec={"headGroupSpec": workers})
    await placed(stage, "ray", template)
    made = await stage.appears("m1", "ray", kind=RAYS)
    labels = made["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["metadata"]["labels"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "ray-head", "namespace": stage.namespace, "labels": labels},
        "spec": {
            "containers": [{"name": "w", "image": "w"}],
            "automountServiceAccountToken": False,
        },
    }
    assert labels[LABEL_WORKLOAD_UID]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await stage.members["m1"].create(ACCOUNTS, account, namespace=stage.namespace)
    await stage.members["m1"].create(PODS, pod)

    async def seen() -> bool:
        return bool((await stage.share("ray", "m1")).get("current"))

    await until(seen)

    # An edit arrives in the object, and its pods keep the template of before.
    other = {"template": {"spec": {"containers": [{"name": "w", "image": "w:2"}]}}}
    edited = main(RAYS, "ray", rayClusterSpec={"headGroupSpec": other})
    await stage.patch("ray", {"spec": {"template": edited}})

    async def told() -> bool:
        message = (await stage.condition("ray", "Ready")).get("message", "")
        return "m1: RayJob ray: template not rolled out, 1 pod keeps that of before" in message

    await until(told)
    leaving = {"cluster": "m1", "replicas": 1, "since": WHEN, "cause": "Drained"}
    moved = {"placements": [{"cluster": "m2", "replicas": 1}], "leaving": [leaving]}
    await stage.patch("ray", {"status": moved}, subresource="status")
    await stage.goes("m1", "ray", kind=RAYS)
    await settled(stage)
    assert await stage.on("m2", "ray", kind=RAYS) is None
    await stage.members["m1"].delete(PODS, "ray-head", namespace=stage.namespace)
    await stage.appears("m2", "ray", kind=RAYS)


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
        await stage.create("db", targetDeployment=None, template=template)
        await stage.place("db", m1=2)
        await stage.propagated("db")
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
