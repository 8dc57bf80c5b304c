"""A hub without our admission policies: the controller says what they would have said."""

from __future__ import annotations

import pytest

from crds.names import LABEL_POLICY
from crds.validation import violations
from machinery.errors import NotFound
from machinery.resources import WORKLOADS, Resource

from .live import World, condition, deciding

CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False
)
BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)


@pytest.mark.proves("C24")
async def test_what_admission_would_have_refused_is_not_placed(bare_world: World) -> None:
    await bare_world.cluster("one")
    body = bare_world.manifest("negative")
    body["spec"]["targetDeployment"]["spec"]["replicas"] = -1
    expected = "; ".join(violations(body))
    assert "spec.targetDeployment.spec.replicas" in expected
    await bare_world.client.create(WORKLOADS, body)
    async with deciding(bare_world):
        said = await bare_world.refused("negative", "InvalidWorkload")
        assert said["message"] == expected
        found = await bare_world.get("negative")
        assert found["status"]["state"] == "Failed"
        assert not found["status"].get("placements")
        mended = {"spec": {"targetDeployment": {"spec": {"replicas": 1}}}}
        await bare_world.edit("negative", mended)
        assert await bare_world.placed("negative") == {"one": 1}


@pytest.mark.proves("C24")
async def test_another_namespace_waits_for_the_right_to_use_it(bare_world: World) -> None:
    await bare_world.cluster("one")
    await bare_world.workload("guest", targetNamespace="elsewhere")
    async with deciding(bare_world):
        said = await bare_world.refused("guest", "InvalidWorkload")
        right = "use targetnamespaces.stowage.dev elsewhere"
        assert said["message"] == f"spec.targetNamespace: namespace shop may not {right}"
        await _grant(bare_world, "elsewhere")
        await bare_world.edit("guest", {"metadata": {"labels": {"looked": "again"}}})
        assert await bare_world.placed("guest") == {"one": 1}


@pytest.mark.proves("C24", "K14", "K31")
async def test_defaults_and_aliases_are_written_by_the_controller(bare_world: World) -> None:
    await bare_world.cluster("one")
    body = bare_world.manifest("old", labels={"workload-policy.kosmos.io": "demo"})
    del body["spec"]["replicas"]
    await bare_world.client.create(WORKLOADS, body)
    async with deciding(bare_world):
        found = await bare_world.until("old", lambda s: condition(s, "Scheduled"))
        assert found["metadata"]["labels"][LABEL_POLICY] == "demo"
        assert found["spec"]["schedulerName"] == "stowage"


async def _grant(world: World, namespace: str) -> None:
    """The right for everybody of the world's own namespace."""
    name = f"use-{namespace}"
    rule = {
        "apiGroups": ["stowage.dev"],
        "resources": ["targetnamespaces"],
        "resourceNames": [namespace],
        "verbs": ["use"],
    }
    for resource in (BINDINGS, CLUSTER_ROLES):
        try:
            await world.client.delete(resource, name)
        except NotFound:
            continue
    about = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    await world.client.create(CLUSTER_ROLES, {**about, "kind": "ClusterRole", "rules": [rule]})
    group = f"system:serviceaccounts:{world.namespace}"
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {**about, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]}
    await world.client.create(BINDINGS, binding)
