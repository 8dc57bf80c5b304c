"""What takes Stowage back on a real hub, in whatever order, and what a member runs all the while."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import crds
from crds.names import GROUP, GUARD_ADMISSION_POLICY
from machinery.api.client import ApiClient
from machinery.api.resources import CRDS, PODS, SECRETS, WORKLOADS, Resource
from machinery.errors import NotFound
from stowage.playground.controlplanes import Cluster
from stowage.setup import install, uninstall
from stowage.setup.uninstall import Uninstall
from tests import inforce
from tests.patience import hold_on
from tests.propagator.conftest import secret
from tests.propagator.removal.test_brake import held
from tests.propagator.stage import CONFIGMAPS, DEPLOYMENTS, Stage, configmap, staged, swept
from tests.propagator.waits import until

pytestmark = pytest.mark.long

FOLDER = Path(crds.__file__).parent
HOME = "stowage-system"


@functools.cache
def kinds() -> list[str]:
    return sorted(inforce.crd_names(crds.manifests()))


def _policy(name: str) -> tuple[str, str]:
    kind = "validatingadmissionpolicy"
    return f"{kind}binding/{name}", f"{kind}/{name}"


GUARD = _policy(GUARD_ADMISSION_POLICY)
WORDS = 'run "stowage uninstall", or annotate the CRD with stowage.dev/uninstall=true'


@pytest.fixture(scope="module")
def plain(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A hub of these tests alone: they take its kinds away."""
    return make_cluster("letting-go", controller_manager=True)


@pytest.fixture(scope="module")
def member(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A member that makes pods, although none is ever bound to a node."""
    return make_cluster("let-go", controller_manager=True)


@pytest.fixture
def hub(plain: Cluster) -> Iterator[Cluster]:
    """The hub with its kinds, guarded."""
    put(plain)
    with swept(plain):
        yield plain


def put(cluster: Cluster) -> None:
    """Apply all that `crds/` has, and wait until it is served and in force."""
    hold_on(lambda: "Terminating" not in cluster.kubectl("get", "ns", HOME, check=False))
    cluster.kubectl("create", "namespace", HOME, check=False)
    items = json.dumps(_listed(crds.manifests()))
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=items)
    cluster.kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in kinds()))
    inforce.until_judging(cluster, {*kinds()})
    hold_on(lambda: guarded(cluster))


def guarded(cluster: Cluster) -> bool:
    return WORDS in cluster.kubectl("delete", "crd", kinds()[0], "--dry-run=server", check=False)


def unguard(cluster: Cluster) -> None:
    """Take the guard away, and wait until the server goes by that."""
    cluster.kubectl("delete", *GUARD)
    hold_on(lambda: not guarded(cluster))


def _listed(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def kinds_of(cluster: Cluster) -> list[str]:
    """The kinds that are there and not about to go."""
    found = json.loads(cluster.kubectl("get", "crd", "-o", "json"))["items"]
    ours = [each["metadata"] for each in found if each["spec"]["group"] == GROUP]
    return sorted(each["name"] for each in ours if "deletionTimestamp" not in each)


async def take(cluster: Cluster, *what: str) -> None:
    """Delete that beside the loop, and wait for none of it."""
    how = ("delete", *what, "--wait=false", "--ignore-not-found")
    await asyncio.to_thread(cluster.kubectl, *how, check=False)


async def gone(hub: ApiClient, name: str = "workloads.stowage.dev") -> None:
    """Wait until the definition is gone, which its objects hold."""

    async def away() -> bool:
        try:
            await hub.get(CRDS, name)
        except NotFound:
            return True
        return False

    await until(away)


Look = dict[tuple[str, str], tuple[str, Any]]


async def look(stage: Stage) -> Look:
    """All that the member has there: UID and what it was asked to be."""
    found: Look = {}
    replicasets = Resource("apps", "v1", "replicasets", "ReplicaSet")
    for kind in (DEPLOYMENTS, replicasets, PODS, CONFIGMAPS):
        for each in (await stage.members["m1"].list(kind, namespace=stage.namespace))["items"]:
            meta = each["metadata"]
            assert "deletionTimestamp" not in meta
            found[kind.kind, meta["name"]] = (meta["uid"], each.get("spec", each.get("data")))
    return found


async def runs(stage: Stage, *names: str) -> Look:
    """Have Workloads run, and return what is there."""
    for name in names:
        await stage.push(name, manifests=[configmap(f"{name}-settings", k="v")])

    async def pods() -> bool:
        found = await look(stage)
        return sum(kind == PODS.kind for kind, _ in found) == len(names)

    await until(pods)
    return await look(stage)


async def marks(stage: Stage) -> set[str]:
    found = await stage.members["m1"].list(DEPLOYMENTS, namespace=stage.namespace)
    found["items"] += (await stage.members["m1"].list(CONFIGMAPS, namespace=stage.namespace))[
        "items"
    ]
    noted = [each["metadata"] for each in found["items"]]
    every = [{**each.get("labels", {}), **each.get("annotations", {})} for each in noted]
    return {key for each in every for key in each if GROUP in key}


@pytest.mark.proves("PK23")
async def test_kinds_that_are_deleted_let_go_of_what_runs(hub: Cluster, member: Cluster) -> None:
    """All of them at once, and the members' own kind first, as `kubectl delete -f` does."""
    async with staged(hub, {"m1": member}) as stage:
        before = await runs(stage, "first", "second")
        await asyncio.to_thread(unguard, hub)
        await take(hub, "-f", str(FOLDER))
        await gone(stage.hub)
        assert await look(stage) == before
        assert not await marks(stage)
        await asyncio.to_thread(put, hub)


@pytest.mark.proves("PK23")
async def test_nothing_happens_while_the_propagator_is_down(hub: Cluster, member: Cluster) -> None:
    async with staged(hub, {"m1": member}) as stage:
        before = await runs(stage, "first", "second")
        await stage.stop()
        await asyncio.to_thread(unguard, hub)
        await take(hub, "crd", "workloads.stowage.dev")
        # An impatient person frees one of them, which the others do not mind.
        free = {"metadata": {"finalizers": None}}
        await stage.hub.merge_patch(WORKLOADS, "first", free, namespace=stage.namespace)
        assert await look(stage) == before
        assert await marks(stage)
        stage.start()
        await gone(stage.hub)
        assert await look(stage) == before
        await asyncio.to_thread(put, hub)
        # What was freed is marked still: the next installation on this hub would hold it.
        await asyncio.to_thread(member.kubectl, "delete", "namespace", stage.namespace)


@pytest.mark.proves("PK23")
async def test_what_an_earlier_installation_left_is_not_swept(
    hub: Cluster, member: Cluster
) -> None:
    """A kind that went while nobody let go of anything, as one that its finalizers were taken from."""
    async with staged(hub, {"m1": member}) as stage:
        before = await runs(stage, "web")
        await stage.stop()
        await asyncio.to_thread(unguard, hub)
        await take(hub, "crd", "workloads.stowage.dev")
        free = {"metadata": {"finalizers": None}}
        await stage.hub.merge_patch(WORKLOADS, "web", free, namespace=stage.namespace)
        await gone(stage.hub)
        await asyncio.to_thread(put, hub)
        stage.start()
        await stage.ready()
        assert f"{stage.namespace}/web" in await held(stage, 1, "KindMadeAnew")
        assert await look(stage) == before
        await stage.push("web", manifests=[configmap("web-settings", k="v")], adoption="IfNoDiff")
        assert await look(stage) == before
        await held(stage, 0, "")


async def digest_of(hub: ApiClient, plan: Uninstall) -> str:
    said: list[str] = []
    await uninstall.show(hub, plan, say=said.append)
    return said[-1].rpartition(" ")[2]


@pytest.mark.proves("PK25")
async def test_an_uninstall_leaves_what_runs_and_an_install_takes_it_up(
    hub: Cluster, member: Cluster
) -> None:
    """Whatever `onDelete` says; and nothing of Stowage is left on the hub."""
    plan = Uninstall(namespace=HOME)
    async with staged(hub, {"m1": member}) as stage:
        await install.apply(
            stage.hub, install.manifests(namespace=HOME, image="stowage"), say=lambda _: None
        )
        before = await runs(stage, "web")
        said: list[str] = []
        await uninstall.uninstall(
            stage.hub, plan, await digest_of(stage.hub, plan), say=said.append
        )
        assert await look(stage) == before
        assert not await marks(stage)
        kinds = [line.split()[0] for line in said if line.endswith(" deleted")]
        order = ["Deployment", "ClusterRole", "ValidatingAdmissionPolicy", CRDS.kind, "Namespace"]
        assert [each for each in dict.fromkeys(kinds) if each in order] == order
        assert not kinds_of(hub)
        named = "clusterroles,clusterrolebindings,validatingadmissionpolicies,priorityclasses"
        left = await asyncio.to_thread(hub.kubectl, "get", named, "-o", "name")
        assert "stowage" not in left
        await stage.stop()

        await asyncio.to_thread(put, hub)
        registered = secret("m1", {"kubeconfig": member.admin_kubeconfig})
        await stage.hub.create(SECRETS, registered)
        stage.start()
        await stage.ready()
        await stage.push("web", manifests=[configmap("web-settings", k="v")], adoption="IfNoDiff")
        assert await look(stage) == before
        assert await marks(stage)
