"""What a member is not sent, whoever placed it: a real hub and member, and what tenants tried."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from crds.names import LABEL_WORKLOAD_UID
from machinery.api.resources import CRDS, MEMBER_CLUSTERS, NAMESPACES, NODES, Resource
from machinery.errors import NotFound
from propagator.access import carried_objects
from stowage.playground.controlplanes import Cluster
from tests.definitions import definition
from tests.propagator.stage import CONFIGMAPS, MakeStage, Stage, configmap
from tests.propagator.waits import until

DEEP = '{"a":' * 2000 + "1" + "}" * 2000
"""Twice what a decoder takes. Of 9,000 levels, which an API server takes as well, the policies that
compare them cost it seven seconds of its processor for each update, and on a busy machine its own
time limit."""
RBAC = "rbac.authorization.k8s.io"
BINDINGS = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ADMIN = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "gift"},
    "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "shop"}],
}
WIDGETS = Resource("gate.dev", "v1", "widgets", "Widget", namespaced=False)
WIDGET_DEFINITION = definition(WIDGETS, status=False, schema={"type": "object"})


async def allow(stage: Stage, *kinds: str) -> None:
    """Have m1 take these kinds, and wait until the propagator knows."""
    await stage.hub.merge_patch(MEMBER_CLUSTERS, "m1", {"spec": {"allowedKinds": list(kinds)}})
    await until(lambda: stage.process.term.registry.get("m1").allowed_kinds == set(kinds))


async def lies(stage: Stage, resource: Resource, name: str) -> dict[str, Any] | None:
    """The cluster-scoped object of that name on m1."""
    with suppress(NotFound):
        return await stage.members["m1"].get(resource, name)
    return None


@pytest.mark.long
@pytest.mark.proves("S1")
async def test_a_guarded_kind_needs_the_members_consent(stage: Stage):
    """The admin of this hub may write it, and a scheduler may place it: the member has its say."""
    await stage.run("demo", {"m1": 1}, manifests=[configmap("conf"), CLUSTER_ADMIN])
    message = await stage.refused("demo", "KindNotAllowed")
    kind = f"{RBAC}/ClusterRoleBinding"
    assert message == (
        f"spec.manifests[1].kind: m1 does not take {kind}: its MemberCluster has to list it in "
        "spec.allowedKinds"
    )
    assert await lies(stage, BINDINGS, "gift") is None
    assert await stage.on("m1", "conf", kind=CONFIGMAPS) is None
    await allow(stage, kind)
    await stage.propagated("demo")
    assert await lies(stage, BINDINGS, "gift")
    await stage.end("demo")
    assert await lies(stage, BINDINGS, "gift") is None


@pytest.mark.long
@pytest.mark.proves("S1")
@pytest.mark.parametrize(
    ("resource", "name"), [(NAMESPACES, "kube-system"), (NODES, "iron"), (ROLES, "view")]
)
async def test_nothing_of_a_whole_cluster_is_taken_over_or_deleted(
    stage: Stage, resource: Resource, name: str
):
    body = {"apiVersion": resource.api_version, "kind": resource.kind}
    body["metadata"] = {"name": name, "labels": {"taken": "over"}}
    member = stage.members["m1"]
    if await lies(stage, resource, name) is None:  # no controllers run there
        await member.create(resource, {**body, "metadata": {"name": name}})
    before = await lies(stage, resource, name)
    group = resource.group or "core"
    await allow(stage, f"{group}/{resource.kind}")
    await stage.run("demo", {"m1": 1}, manifests=[body], adoption="IfUnowned")
    assert "is never taken over" in await stage.refused("demo", "AlreadyExists")
    await stage.end("demo")
    after = await lies(stage, resource, name)
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "taken" not in after["metadata"].get("labels", {})


@pytest.mark.long
@pytest.mark.proves("S1")
async def test_what_the_member_takes_no_longer_is_let_go_instead_of_deleted(stage: Stage):
    """The marks of an owner prove nothing there: an earlier version set them on what it adopted."""
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "let-go"}}
    await allow(stage, f"{RBAC}/ClusterRole")
    await stage.bring("demo", {"m1": 1}, manifests=[role])
    await allow(stage)
    await stage.end("demo")
    found = await lies(stage, ROLES, "let-go")
    assert found is not None
    assert "stowage" not in json.dumps(found["metadata"].get("labels", {}))
    assert "owner" not in json.dumps(found["metadata"].get("annotations", {}))
    await stage.members["m1"].delete(ROLES, "let-go")


@pytest.mark.long
@pytest.mark.proves("S1")
async def test_a_custom_kind_without_namespace_needs_the_right_as_well(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch
):
    """Admission cannot know its scope; the member's discovery tells."""
    monkeypatch.setattr(carried_objects, "ANSWER_SECONDS", 1.0)
    async with stage_on() as stage:
        member = stage.members["m1"]
        await member.create(CRDS, WIDGET_DEFINITION)
        try:
            widget = {"apiVersion": "gate.dev/v1", "kind": "Widget", "metadata": {"name": "w"}}
            await stage.run("demo", {"m1": 1}, manifests=[widget])
            message = await stage.refused("demo", "KindNotAllowed")
            assert "m1 does not take gate.dev/Widget" in message
            await allow(stage, "gate.dev/Widget")

            async def asks() -> bool:
                said = (await stage.condition("demo", "Propagated")).get("message", "")
                right = "use clusterscopedobjects.stowage.dev gate.dev/Widget"
                return said == (
                    f"spec.manifests[0].kind: namespace {stage.namespace} may not {right}"
                )

            await until(asks)
            assert await lies(stage, WIDGETS, "w") is None
            await grant(stage, "gate.dev/Widget")
            await stage.propagated("demo")
            assert await lies(stage, WIDGETS, "w")
            await stage.end("demo")
            assert await lies(stage, WIDGETS, "w") is None
        finally:
            await member.delete(CRDS, "widgets.gate.dev")


async def grant(stage: Stage, kind: str) -> None:
    """The right to bring along that kind, for everybody of the test's namespace."""
    rule = {
        "apiGroups": ["stowage.dev"],
        "resources": ["clusterscopedobjects"],
        "resourceNames": [kind],
        "verbs": ["use"],
    }
    about = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": f"bring-{stage.namespace}"}}
    await stage.hub.create(ROLES, {**about, "kind": "ClusterRole", "rules": [rule]})
    group = f"system:serviceaccounts:{stage.namespace}"
    binding = {
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": about["metadata"]["name"]},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
    }
    await stage.hub.create(BINDINGS, {**about, "kind": "ClusterRoleBinding", **binding})


@pytest.mark.proves("S4")
async def test_our_labels_are_taken_out_where_admission_does_not_look(stage: Stage):
    """A PodTemplate keeps its pods' metadata at a place of its own."""
    marks = {LABEL_WORKLOAD_UID: "victim", "stowage.dev/workload-policy": "p", "mine": "too"}
    notes = {"owner.stowage.dev/victim": "shop/victim"}
    manifest = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "pods"},
        "template": {
            "metadata": {"labels": marks, "annotations": notes},
            "spec": {"containers": [{"name": "main", "image": "pause"}]},
        },
    }
    await stage.bring("demo", {"m1": 1}, manifests=[manifest])
    kind = Resource("", "v1", "podtemplates", "PodTemplate")
    found = (await stage.on("m1", "pods", kind=kind))["template"]["metadata"]
    assert found["labels"] == {"stowage.dev/workload-policy": "p", "mine": "too"}
    assert "annotations" not in found


@pytest.mark.long
@pytest.mark.proves("S4", "R1")
async def test_a_placed_workload_that_cannot_be_read_any_more_leaves_its_members_all_the_same(
    stage: Stage, hub: Cluster
):
    await stage.bring("once", {"m1": 1}, manifests=[configmap("conf")])
    spec = json.dumps({"spec": {"manifests": [{**configmap("conf"), "x": "DEEP"}]}})
    text = spec.replace('"DEEP"', DEEP)
    of = ("-n", stage.namespace)
    patch = (*of, "patch", "workload", "once", "--type=merge", f"-p={text}")
    await asyncio.to_thread(hub.kubectl, *patch)
    await stage.appears("m1", "conf", kind=CONFIGMAPS)
    await asyncio.to_thread(hub.kubectl, *of, "delete", "workload", "once", "--wait=false")
    await asyncio.to_thread(_ended, hub, stage.namespace, "once")
    assert await stage.on("m1", "conf", kind=CONFIGMAPS) is None


def _ended(hub: Cluster, namespace: str, name: str) -> None:
    """Wait by kubectl, which reads such an object."""
    hub.kubectl("-n", namespace, "wait", "--for=delete", f"workload/{name}", "--timeout=160s")
