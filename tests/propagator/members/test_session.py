"""One session per member, on real API servers: nobody waits for another, nothing is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from crds.names import LABEL_MANAGED, LABEL_WORKLOAD_UID, OWNER_PREFIX
from machinery.api.client import ApiClient
from machinery.api.resources import NODES, PODS, SERVICE_ACCOUNTS, Resource
from machinery.errors import AlreadyExists, NotFound, Unreachable
from machinery.types.metadata import Key, Meta
from propagator.members.objects import owners
from propagator.members.pods import Main
from propagator.members.session import MemberSession
from stowage.playground.controlplanes import Cluster
from tests.propagator.conftest import QUICK, Rig, beside
from tests.propagator.stage import DEPLOYMENTS, deployment
from tests.propagator.waits import until

Rigs = Callable[..., Any]
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


def config_map(name: str, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", **meta},
    }


def managed(name: str, **owned_by: str) -> dict[str, Any]:
    """A ConfigMap as the propagator writes one; owned_by: uid=namespace/name."""
    annotations = {f"{OWNER_PREFIX}{uid}": key for uid, key in owned_by.items()}
    return config_map(name, labels={LABEL_MANAGED: "true"}, annotations=annotations)


async def connected(rig: Rig, *members: Cluster) -> list[MemberSession]:
    for member in members:
        await rig.register(member.name, {"kubeconfig": member.admin_kubeconfig})

    def sessions() -> list[MemberSession | None]:
        return [rig.registry.get(member.name) for member in members]

    await until(lambda: all(session and session.ready for session in sessions()))
    return sessions()


async def forget(client: ApiClient, *names: str) -> None:
    for name in names:
        with suppress(NotFound):
            await client.delete(CONFIG_MAPS, name, namespace="default")


@pytest.mark.proves("D2")
async def test_a_stopped_member_delays_no_other(rig_on: Rigs, m1: Cluster, m2: Cluster):
    keys = [("default", f"unit-{number}") for number in range(20)]
    done: set[tuple[str, Key]] = set()

    async def sync(session: MemberSession, key: Key) -> float | None:
        await session.client_for("default").apply(
            CONFIG_MAPS, config_map(key[1]), name=key[1], namespace="default"
        )
        done.add((session.name, key))
        return None

    def of(member: str) -> set[Key]:
        return {key for name, key in done if name == member}

    async with rig_on() as rig:
        first, second = await connected(rig, m1, m2)
        rig.sync = sync
        m1.freeze()
        try:
            for session in (first, second):
                for key in keys:
                    session.queue.add(key)
            await until(lambda: of("m2") == set(keys))
            assert not of("m1")
            assert first.ready, "nobody waited until it was taken for lost"
        finally:
            m1.thaw()
        await until(lambda: of("m1") == set(keys))
        await forget(first.client, *(name for _, name in keys))
        await forget(second.client, *(name for _, name in keys))


@pytest.mark.proves("D2")
async def test_work_for_a_member_that_is_away_waits_for_it(rig_on: Rigs, m1: Cluster):
    async with rig_on() as rig:
        await rig.register("m1", {"kubeconfig": "not a kubeconfig"})
        await rig.becomes("m1", "InvalidKubeconfig")
        session = rig.registry.get("m1")
        session.queue.add(("demo", "a"))
        await until(lambda: len(session.queue) == 0)
        assert rig.synced == []
        with pytest.raises(Unreachable):
            session.client_for("demo")
        with pytest.raises(Unreachable):
            session.track(CONFIG_MAPS)
        await rig.change("m1", {"kubeconfig": m1.admin_kubeconfig})
        await until(lambda: rig.synced == [("m1", ("demo", "a"))])
        await until(lambda: session.tracked(CONFIG_MAPS) is not None)


async def test_our_objects_on_a_member_call_for_their_workloads(rig_on: Rigs, m1: Cluster):
    both = {"uid-1": "shop/web", "uid-2": "shop/api"}
    async with ApiClient(m1.connection()) as client:
        await forget(client, "left-behind", "later", "stranger")
        await client.create(CONFIG_MAPS, managed("left-behind", **both))
        await client.create(CONFIG_MAPS, config_map("stranger"))
        async with rig_on(resources=(CONFIG_MAPS,)) as rig:
            (session,) = await connected(rig, m1)
            await until(
                lambda: {key for _, key in rig.synced} == {("shop", "web"), ("shop", "api")}
            )
            informer = session.tracked(CONFIG_MAPS)
            assert session.track(CONFIG_MAPS) is informer
            assert informer.get(("default", "stranger")) is None
            rig.synced.clear()
            rig.changes.clear()
            await client.create(CONFIG_MAPS, managed("later", **{"uid-3": "shop/new"}))
            await until(lambda: ("m1", ("shop", "new")) in rig.synced)
            assert ("m1", ("shop", "new")) in rig.changes
            rig.synced.clear()
            await client.delete(CONFIG_MAPS, "later", namespace="default")
            await until(lambda: ("m1", ("shop", "new")) in rig.synced)
        await forget(client, "left-behind", "stranger")


async def test_what_only_the_status_of_an_object_tells_calls_no_worker(rig_on: Rigs, m1: Cluster):
    async with ApiClient(m1.connection()) as client, rig_on(resources=(DEPLOYMENTS,)) as rig:
        await connected(rig, m1)
        ours = deployment("noisy")
        marks = managed("noisy", **{"uid-9": "shop/noisy"})["metadata"]
        where = {"name": "noisy", "namespace": "default"}
        await client.apply(DEPLOYMENTS, {**ours, "metadata": marks}, **where)
        key = ("shop", "noisy")
        await until(lambda: ("m1", key) in rig.synced)
        rig.synced.clear()
        rig.changes.clear()
        status = {"status": {"observedGeneration": 1, "replicas": 1}}
        at = {"namespace": "default"}
        await client.merge_patch(DEPLOYMENTS, "noisy", status, subresource="status", **at)
        await until(lambda: ("m1", key) in rig.changes)
        await rig.handled(m1=client)
        assert ("m1", key) not in rig.synced
        await client.merge_patch(DEPLOYMENTS, "noisy", {"spec": {"replicas": 3}}, **at)
        await until(lambda: ("m1", key) in rig.synced)
        await client.delete(DEPLOYMENTS, "noisy", **at)


OWNER = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "name": "web",
    "uid": "1",
    "controller": True,
}
U1 = Main("u1", "default", "apps", "StatefulSet", "web")


def pod(name: str, uid: str, **spec: Any) -> dict[str, Any]:
    main = {
        "name": "main",
        "image": "none",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {LABEL_WORKLOAD_UID: uid},
            "ownerReferences": [OWNER],
        },
        "spec": {"containers": [main], "automountServiceAccountToken": False, **spec},
    }


@pytest.fixture
def empty_member(m2: Cluster) -> Iterator[Cluster]:
    """A member without nodes and pods, before and after."""
    beside(_without_nodes(m2))
    yield m2
    beside(_without_nodes(m2))


async def _without_nodes(member: Cluster) -> None:
    """Nor pods; with the account that pods are made of, as no controllers run there."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    async with ApiClient(member.connection()) as client:
        with suppress(AlreadyExists):
            await client.create(SERVICE_ACCOUNTS, account, namespace="default")
        for each in (await client.list(PODS, namespace="default"))["items"]:
            path = PODS.path("default", each["metadata"]["name"])
            await client.request("DELETE", path, params={"gracePeriodSeconds": "0"})
        for each in (await client.list(NODES))["items"]:
            await client.delete(NODES, each["metadata"]["name"])


READY_NODE = {"conditions": [{"type": "Ready", "status": "True"}]}


async def add_node(client: ApiClient, name: str, **room: str) -> None:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110", **room}
    labels = {"topology.kubernetes.io/zone": "z1", "kubernetes.io/hostname": name}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"kind://docker/m/{name}"},
    }
    await client.create(NODES, node)
    status = {"allocatable": allocatable, "capacity": allocatable, **READY_NODE}
    await client.merge_patch(NODES, name, {"status": status}, subresource="status")
    await client.merge_patch(NODES, name, {"spec": {"taints": None}})


@pytest.mark.proves("Z2")
async def test_a_pod_counts_until_it_has_ended_and_not_until_it_is_gone(
    rig_on: Rigs, empty_member: Cluster
):
    """A kubelet ends a pod that is deleted; then a finalizer may hold it, but it holds no room."""
    path = PODS.path("default", "held")

    async def free() -> list[str]:
        groups = (await rig.cluster("m2")).get("status", {}).get("nodeGroups", [])
        return [group["free"]["cpu"] for group in groups]

    async def shows(*cpu: str) -> None:
        async def so() -> bool:
            return await free() == list(cpu)

        await until(so)

    async with ApiClient(empty_member.connection()) as client, rig_on() as rig:
        (session,) = await connected(rig, empty_member)
        await add_node(client, "n1")
        await client.create(CONFIG_MAPS, managed("owner-of-u1", u1="shop/web"))
        session.track(CONFIG_MAPS)
        held = pod("held", "u1", nodeName="n1")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await client.create(PODS, held)
        try:
            await shows("3")
            await client.request("DELETE", path, params={"gracePeriodSeconds": "0"})
            await until(lambda: session.pod_counts(U1).current == 1)
            assert await free() == ["3"], "its containers may still run"
            ended = {"status": {"phase": "Failed"}}
            await client.merge_patch(PODS, "held", ended, namespace="default", subresource="status")
            await shows("4")
            await until(lambda: session.pod_counts(U1).current == 0)
            await until(lambda: not session.pod_counts(U1).scheduled)
            assert await client.get(PODS, "held", namespace="default"), "its finalizer holds it"
        finally:
            gone = {"metadata": {"finalizers": None}}
            await client.merge_patch(PODS, "held", gone, namespace="default")
            await forget(client, "owner-of-u1")


async def test_units_are_unknown_until_the_pods_were_listed(rig_on: Rigs, m1: Cluster):
    async with rig_on() as rig:
        await rig.register("m1", {"kubeconfig": "no"})
        await rig.becomes("m1", "InvalidKubeconfig")
        assert rig.registry.get("m1").pod_counts(U1) is None


async def test_rights_that_are_missing_are_told_and_the_member_is_ready(rig_on: Rigs, m1: Cluster):
    """A member that hides nodes and pods can be written to; its capacity is not known."""
    m1.kubectl("create", "serviceaccount", "narrow", "-n", "default")
    token = m1.kubectl("create", "token", "narrow", "-n", "default").strip()
    async with rig_on() as rig:
        await rig.register("m1", {"endpoint": m1.server, "clusterCA": m1.ca, "token": token})
        message = await rig.becomes("m1", "Connected")
        assert "capacity is not known" in message
        assert "forbidden" in message
        cluster = await rig.cluster("m1")
        assert "nodeGroups" not in cluster["status"]
        assert cluster["status"]["provider"] == "unknown"
    m1.kubectl("delete", "serviceaccount", "narrow", "-n", "default")


async def test_a_secret_that_says_nothing_of_rights_has_one_client_for_all(
    rig_on: Rigs, m1: Cluster
):
    async with rig_on() as rig:
        (session,) = await connected(rig, m1)
        assert session.client_for("tenant") is session.client


async def test_rights_of_no_known_kind_are_refused(rig_on: Rigs, m1: Cluster):
    async with rig_on() as rig:
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig, "rights": "all"})
        assert "rights: is none of narrow, cluster" in await rig.becomes("m1", "InvalidKubeconfig")


async def test_the_allow_list_is_a_list_of_globs(rig_on: Rigs, hub: Cluster, m1: Cluster):
    async with rig_on() as rig:
        (session,) = await connected(rig, m1)
        assert session.allows("shop")
        for never in ("kube-system", "kube-public", "stowage-system"):
            assert not session.allows(never)
        rules = '{"spec": {"namespaces": {"allow": ["team-*", "shop"]}}}'
        hub.kubectl("patch", "mc", "m1", "--type=merge", "-p", rules)
        await until(lambda: not session.allows("other"))
        assert session.allows("shop")
        assert session.allows("team-a")
        assert not session.allows("shop2")


async def test_a_fault_in_the_work_on_one_member_is_retried(rig_on: Rigs, m1: Cluster):
    async def sync(session: MemberSession, key: Key) -> float | None:
        if len(rig.synced) < 3:
            raise RuntimeError("a bug")
        return None

    async with rig_on() as rig:
        (session,) = await connected(rig, m1)
        rig.sync = sync
        session.queue.add(("demo", "a"))
        await until(lambda: len(rig.synced) == 3)
        assert session.ready, "it has not ended"


def test_owners_are_read_from_annotations_of_ours_only():
    meta = Meta(
        annotations={
            f"{OWNER_PREFIX}uid-1": "shop/web",
            f"{OWNER_PREFIX}uid-2": "no-slash",
            "owner.example.com/uid-3": "shop/other",
        }
    )
    assert owners(meta) == {"uid-1": ("shop", "web")}


async def answered(session: MemberSession) -> None:
    """It is asked at once, and answers."""
    before = session.answered
    session.ask_now()
    await until(lambda: session.answered > before)


async def test_questions_out_of_turn_are_not_measured(rig_on: Rigs, m1: Cluster, monkeypatch: Any):
    async with rig_on(settings=replace(QUICK, probe_period=600.0)) as rig:
        (session,) = await connected(rig, m1)
        records: list[bool] = []
        monkeypatch.setattr(session.health, "record", lambda **what: records.append(True))
        await answered(session)
        assert not records
