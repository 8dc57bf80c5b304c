"""Which cluster a MemberCluster leads to, on real API servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from crds.names import ID_PROPERTY, SET_PROPERTY
from machinery.api.client import ApiClient
from machinery.api.resources import CONFIG_MAPS, CRDS, NAMESPACES, Resource
from machinery.errors import AlreadyExists, NotFound
from machinery.types.metadata import Key
from propagator.members.session import MemberSession
from stowage.playground.controlplanes import Cluster
from tests.letting_go import let_go
from tests.propagator.conftest import Rig
from tests.propagator.waits import until

Rigs = Callable[..., Any]
PROPERTIES = Resource(
    "about.k8s.io", "v1beta1", "clusterproperties", "ClusterProperty", namespaced=False
)


async def uid_of(member: Cluster) -> str:
    async with ApiClient(member.connection()) as client:
        return str((await client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])


async def older(rig: Rig, name: str) -> None:
    """Wait until that MemberCluster is older than what is made now: by a whole second at least.

    Times of creation have no parts of seconds.
    """
    made = datetime.fromisoformat((await rig.cluster(name))["metadata"]["creationTimestamp"])
    await until(lambda: datetime.now(UTC) >= made + timedelta(seconds=1))


@pytest.mark.proves("CT11")
async def test_the_second_of_two_secrets_of_one_member_gets_no_writes(
    rig_on: Rigs, m1: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """As its ClusterProperty says which cluster it is, and requests are counted as they leave."""
    request, sent = ApiClient.request, Counter[tuple[str, bool]]()

    async def counted(self: ApiClient, method: str, path: str, **how: Any) -> bytes:
        sent[self.name, method == "GET"] += 1
        return await request(self, method, path, **how)

    async def written(session: MemberSession, key: Key) -> None:
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": key[1]}}
        with suppress(AlreadyExists):
            await session.client_for("default").create(CONFIG_MAPS, made, namespace="default")

    async with ApiClient(m1.connection()) as member, rig_on() as rig, in_cluster_set(member, "c1"):
        rig.sync = written
        monkeypatch.setattr(ApiClient, "request", counted)
        await rig.connect("old", m1)
        noted = {"clusterID": "c1", "clusterSet": "prod", "clusterUID": await uid_of(m1)}
        assert noted.items() <= (await rig.cluster("old"))["status"].items()
        await older(rig, "old")
        await rig.register("young", {"kubeconfig": m1.admin_kubeconfig})
        assert "registered as old" in await rig.becomes("young", "AlreadyRegistered")
        key = ("default", "ct11")
        for name in ("young", "old"):
            session = rig.registry.get(name)
            assert session is not None
            session.queue.add(key)
        await until(lambda: sent["old", False])
        assert sent["young", True]
        assert not sent["young", False]
        await rig.marked("old")
        await let_go(rig.hub, "old")
        await rig.becomes("young", "Connected")
        await until(lambda: sent["young", False])
        await member.delete(CONFIG_MAPS, key[1], namespace=key[0])


@asynccontextmanager
async def in_cluster_set(member: ApiClient, name: str) -> AsyncIterator[None]:
    """The member is that one of the ClusterSet prod, as a tool of KEP-2149 says it."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True}
    names = {"plural": PROPERTIES.plural, "kind": PROPERTIES.kind}
    spec = {
        "group": PROPERTIES.group,
        "names": names,
        "scope": "Cluster",
        "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
    }
    group = "api-approved.kubernetes.io"
    meta = {"name": f"{PROPERTIES.plural}.{PROPERTIES.group}", "annotations": {group: "unapproved"}}
    crd = {"apiVersion": CRDS.api_version, "kind": CRDS.kind, "metadata": meta, "spec": spec}
    await member.create(CRDS, crd)
    try:
        for key, value in ((ID_PROPERTY, name), (SET_PROPERTY, "prod")):
            made = {
                "apiVersion": PROPERTIES.api_version,
                "kind": PROPERTIES.kind,
                "metadata": {"name": key},
                "spec": {"value": value},
            }
            await until(partial(_made, member, made))
        yield
    finally:
        await member.delete(CRDS, meta["name"])


async def _made(member: ApiClient, body: dict[str, Any]) -> bool:
    try:
        await member.create(PROPERTIES, body)
    except NotFound:
        return False  # the kind is not served yet
    return True
