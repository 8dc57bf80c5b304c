"""A hub without some of our admission policies: the controller does the work of what is missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest

from controller.admission import Admission, Reviewer
from controller.model.objects import Workload
from crds.admission.validation import violations
from crds.definition import UNOBSERVED
from crds.names import ADMISSION_POLICY, LABEL_POLICY
from machinery.api.resources import VALIDATING_ADMISSION_POLICY_BINDINGS, WORKLOADS, Resource
from machinery.clock import SystemClock
from machinery.discovery.access_reviews import namespace_may_use
from machinery.errors import Conflict, Forbidden, Invalid, NotFound
from machinery.runtime.informer import Informer
from machinery.types.metadata import Meta
from tests.patience import until

from .live import World, condition, deciding

CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False
)
BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.proves("C24", "N15")
async def test_where_it_may_not_write_workloads_it_says_so() -> None:
    """The policy was taken off a hub that serves it: the right is not given there."""
    body = {
        "metadata": {"name": "old", "namespace": "shop", "uid": "u", "generation": 1, "resourceVersion": "7"},
        "spec": {"schedulerName": ""},
    }  # fmt: skip
    answers = [msgspec.json.encode(body), Forbidden(code=403, reason="Forbidden", message="no")]
    client = SimpleNamespace(request=AsyncMock(side_effect=answers))
    admission = Admission(
        client,  # type: ignore[arg-type]  # a fake
        normalises=lambda: False,
        refuses=lambda: True,
        learn=lambda _: None,
    )
    objection = await admission.review(msgspec.convert(body["metadata"], Meta))
    assert objection is not None
    assert not objection.lasting
    assert "run `stowage install`" in objection.message


@pytest.mark.long
@pytest.mark.proves("S7", "Y2")
async def test_where_only_validating_is_served_the_hub_refuses_and_the_controller_normalises(
    older_world: World,
) -> None:
    await older_world.cluster("one")
    wrong = older_world.manifest("wrong")
    wrong["spec"]["targetDeployment"]["spec"]["replicas"] = -1
    with pytest.raises(Invalid, match=r"spec\.targetDeployment\.spec\.replicas"):
        await older_world.client.create(WORKLOADS, wrong)
    body = older_world.manifest("old", labels={"workload-policy.kosmos.io": "demo"})
    await older_world.client.create(WORKLOADS, body)
    async with deciding(older_world):
        found = await older_world.until("old", lambda s: condition(s, "Scheduled"))
        assert found["metadata"]["labels"][LABEL_POLICY] == "demo"


@pytest.mark.long
@pytest.mark.proves("N14", "S7")
async def test_a_binding_that_only_warns_is_no_admission(older_world: World) -> None:
    """Annotation and name are those of a policy in force; the controller tries it, and judges."""
    await older_world.cluster("one")
    actions: dict[str, Any] = {"spec": {"validationActions": ["Warn"]}}
    bindings = VALIDATING_ADMISSION_POLICY_BINDINGS
    await older_world.client.merge_patch(bindings, ADMISSION_POLICY, actions)
    try:
        body = older_world.manifest("negative")
        body["spec"]["targetDeployment"]["spec"]["replicas"] = -1

        async def let_in() -> bool:
            try:
                await older_world.client.create(WORKLOADS, body)
            except Invalid:
                return False
            return True

        await until(let_in)
        async with deciding(older_world) as controller:
            said = await older_world.refused("negative", "InvalidWorkload")
            assert said["message"] == "; ".join(violations(body))
            actions["spec"]["validationActions"] = ["Deny"]
            await older_world.client.merge_patch(bindings, ADMISSION_POLICY, actions)
            await until(controller._refuses)
    finally:
        actions["spec"]["validationActions"] = ["Deny"]
        await older_world.client.merge_patch(bindings, ADMISSION_POLICY, actions)


@pytest.mark.long
@pytest.mark.proves("S7")
async def test_what_the_hub_let_in_is_not_asked_about_again(older_world: World) -> None:
    """The author had the right; the namespace that would be asked for instead has it not."""
    await older_world.cluster("one")
    await older_world.workload("guest", targetNamespace="elsewhere")
    async with deciding(older_world):
        assert await older_world.placed("guest") == {"one": 1}


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
    # The hub's authorizer hears of it a moment later.
    about_it = (world.client, world.namespace, "targetnamespaces", namespace)
    await until(lambda: namespace_may_use(*about_it))


@pytest.mark.long
@pytest.mark.proves("DP12")
async def test_secrets_go_into_another_namespace_for_who_may_read_them(bare_world: World) -> None:
    await bare_world.cluster("one")
    await _grant(bare_world, "elsewhere")
    await bare_world.workload("guest", targetNamespace="elsewhere", dependencies="Follow")
    await bare_world.workload("plain", targetNamespace="elsewhere")
    async with deciding(bare_world):
        said = await bare_world.refused("guest", "InvalidWorkload")
        home = bare_world.namespace
        assert said["message"] == f"spec.dependencies: namespace {home} may not get secrets"
        # By this word the propagator keeps it from members.
        await bare_world.until(
            "guest", lambda s: s.get("review", {}).get("refusal") == said["message"]
        )
        assert await bare_world.placed("plain") == {"one": 1}
        await bare_world.edit("guest", {"spec": {"dependencies": "None"}})
        assert await bare_world.placed("guest") == {"one": 1}


@pytest.mark.long
@pytest.mark.proves("S7", "C22")
async def test_every_edit_is_reviewed_whoever_schedules(bare_world: World) -> None:
    async def says(name: str, generation: int) -> dict[str, Any]:
        found = await bare_world.until(
            name, lambda s: s.get("review", {}).get("generation") == generation
        )
        return dict(found["status"]["review"])

    await bare_world.workload("theirs", schedulerName="another")
    await bare_world.workload("ours")
    async with deciding(bare_world):
        assert await says("theirs", 1) == {"generation": 1}
        assert await says("ours", 1) == {"generation": 1}
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
        await bare_world.edit(
            "theirs", {"spec": {"manifests": [role | {"metadata": {"name": "r"}}]}}
        )
        right = "use clusterscopedobjects.stowage.dev rbac.authorization.k8s.io/Role"
        refusal = f"spec.manifests[0].kind: namespace shop may not {right}"
        assert await says("theirs", 2) == {"generation": 2, "refusal": refusal}
        await bare_world.edit("theirs", {"spec": {"manifests": []}})
        assert await says("theirs", 3) == {"generation": 3}
        found = await bare_world.get("theirs")
        assert set(found["status"]) == {"observedGeneration", "review"}, (
            "all else is its own scheduler's"
        )


@pytest.mark.long
@pytest.mark.proves("S7")
async def test_a_workload_made_anew_is_reviewed_anew(bare_world: World) -> None:
    """It begins at the same generation; a verdict written late must not speak of it."""
    await bare_world.workload("phoenix", schedulerName="another")
    first = await bare_world.client.get(WORKLOADS, "phoenix", namespace=bare_world.namespace)
    known = Informer(bare_world.client, WORKLOADS, Workload)
    known.upsert(msgspec.convert(first, Workload))
    await bare_world.delete("phoenix")
    await bare_world.workload("phoenix", schedulerName="another")
    passing = SimpleNamespace(review=AsyncMock(return_value=None), reviewed=lambda meta: True)
    late = Reviewer(
        bare_world.client,
        workloads=known,
        admission=passing,  # type: ignore[arg-type] # what it says is all that matters
        needed=lambda: True,
        clock=SystemClock(),
        check=lambda: None,
    )
    with pytest.raises(Conflict):
        await late.review((bare_world.namespace, "phoenix"))
    assert (await bare_world.get("phoenix"))["status"] == UNOBSERVED
