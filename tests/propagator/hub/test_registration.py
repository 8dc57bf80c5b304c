"""Secrets become MemberClusters that tell the truth about their cluster, on real API servers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from crds.names import LABEL_CLUSTER, LABEL_PROVIDER, LABEL_VERSION, SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import (
    MEMBER_CLUSTERS,
    SECRETS,
    Resource,
)
from machinery.config.kubeconfig import parse_kubeconfig
from propagator.credentials.credentials import credentials_of
from propagator.hub import registration
from propagator.hub.registration import Registrar
from propagator.settings import SessionSettings
from propagator.types.cluster import Secret
from stowage.playground.controlplanes import Cluster
from tests.letting_go import let_go
from tests.propagator.conftest import kubeconfig, token_for
from tests.propagator.waits import handled, until

Rigs = Callable[..., Any]


@pytest.mark.proves("D1", "C10")
async def test_a_secret_alone_registers_a_cluster(rig_on: Rigs, m1: Cluster):
    async with rig_on(settings=SessionSettings()) as rig:
        labels = {"topology.kubernetes.io/region": "eu", "tier": "gold", "x.stowage.dev/own": "y"}
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig}, labels=labels)
        await rig.becomes("m1", "Connected")
        await until(lambda: rig.told("m1", "Connected"))
        cluster = await rig.cluster("m1")
    assert cluster["spec"]["secretRef"] == {"namespace": SYSTEM_NAMESPACE, "name": "m1"}
    status = cluster["status"]
    assert status["version"].startswith("v1.")
    assert status["provider"] == "unknown"
    assert status["observedGeneration"] == cluster["metadata"]["generation"]
    assert status["latencyMilliseconds"] >= 1
    assert status["reliability"] == {"readyPercent": 100}
    assert cluster["metadata"]["labels"] == {
        "topology.kubernetes.io/region": "eu",
        "tier": "gold",
        LABEL_CLUSTER: "m1",
        LABEL_PROVIDER: "unknown",
        LABEL_VERSION: status["version"],
    }


@pytest.mark.long
@pytest.mark.proves("D1")
async def test_a_megabyte_of_yaml_is_not_read_on_the_loop(
    rig_on: Rigs, m1: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """It would hold that up for seconds."""
    readers: set[int] = set()

    def read(data: Any) -> Any:
        readers.add(threading.get_ident())
        return credentials_of(data)

    monkeypatch.setattr(registration, "credentials_of", read)
    text = "a: {" + ", ".join(f"k{n}: [v]" for n in range(50_000)) + "}"
    assert 600_000 < len(text) < 700_000
    async with rig_on() as rig:
        await rig.register("large", {"kubeconfig": text})
        await rig.connect("m1", m1)
        assert await rig.becomes("large", "InvalidKubeconfig", within=60)
    assert readers
    assert threading.get_ident() not in readers


@pytest.mark.proves("D1")
async def test_a_removed_secret_ends_the_session_and_touches_nothing(rig_on: Rigs, m1: Cluster):
    async with rig_on() as rig:
        await rig.connect("m1", m1)
        client = rig.registry.get("m1").client
        await rig.hub.delete(SECRETS, "m1", namespace=SYSTEM_NAMESPACE)
        message = await rig.becomes("m1", "SecretNotFound")
        assert "stowage-system/m1" in message
        assert rig.registry.get("m1").client is None
        asked = client.requests
        await rig.handled()
        assert client.requests == asked
        await rig.connect("m1", m1)


REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)


async def told(client: ApiClient, name: str) -> bool:
    """Whether the member takes us for that account."""
    review = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind}
    who = await client.create(REVIEWS, review)
    return who["status"]["userInfo"]["username"] == f"system:serviceaccount:default:{name}"


@pytest.mark.proves("D1", "D2", "S8")
async def test_another_token_interrupts_nothing_and_another_credential_reconnects(
    rig_on: Rigs, m1: Cluster
):
    """A token is a header: no watch ends, no connection is made, nobody is told of anything."""
    parts = {"endpoint": m1.server, "clusterCA": m1.ca}
    async with rig_on() as rig:
        await rig.register("m1", parts | {"token": token_for(m1, "first")})
        await rig.becomes("m1", "Connected")
        session = rig.registry.get("m1")
        client = session.client
        note = {"metadata": {"annotations": {"note": "hello"}}}
        await rig.hub.merge_patch(SECRETS, "m1", note, namespace=SYSTEM_NAMESPACE)
        await rig.handled()
        assert session.client is client
        await rig.change("m1", parts | {"token": token_for(m1, "second")})
        await until(lambda: told(client, "second"))
        assert session.client is client
        assert session.ready
        assert [event[:2] for event in rig.recorder.events] == [("m1", "Connected")]
        await rig.change("m1", {"kubeconfig": m1.admin_kubeconfig})
        await until(lambda: session.client is not client and session.ready)
        assert (await rig.ready("m1"))[1] == "Connected"


@pytest.mark.long
@pytest.mark.proves("D1")
async def test_a_secret_made_again_registers_though_the_end_of_its_membercluster_is_heard_late(
    rig_on: Rigs, m1: Cluster, monkeypatch: pytest.MonkeyPatch
):
    async with rig_on() as rig:
        await rig.connect("m1", m1)
        unheard: list[Any] = []
        with monkeypatch.context() as late:
            late.setattr(rig.clusters, "_follow", unheard.append)
            await rig.hub.delete(SECRETS, "m1", namespace=SYSTEM_NAMESPACE)
            await let_go(rig.hub, "m1")
            session = rig.registry.get("m1")
            await until(lambda: not session.ready)
            await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig})
            await until(lambda: session.ready and unheard)
            await handled(lambda: [(rig.hub, [rig.secrets])], lambda: [rig.registrar._queue])
        for event in unheard:
            rig.clusters._follow(event)
        await rig.becomes("m1", "Connected")


@pytest.mark.long
@pytest.mark.proves("D1")
async def test_a_secret_that_is_gone_when_it_is_heard_of_registers_nothing(
    rig_on: Rigs, m1: Cluster, monkeypatch: pytest.MonkeyPatch
):
    seen = asyncio.Event()
    register = Registrar._register

    async def late(self: Registrar, heard: Secret) -> None:
        await rig.hub.delete(SECRETS, "m1", namespace=SYSTEM_NAMESPACE)
        await register(self, heard)
        seen.set()

    monkeypatch.setattr(Registrar, "_register", late)
    async with rig_on() as rig:
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig})
        await seen.wait()
        listed = await rig.hub.list(MEMBER_CLUSTERS, field_selector="metadata.name=m1")
        assert listed["items"] == []


@pytest.mark.proves("C10", "C12")
async def test_users_labels_stay_and_ours_come_back(rig_on: Rigs, hub: Cluster, m1: Cluster):
    async with rig_on() as rig:
        await rig.connect("m1", m1)
        labels = {"metadata": {"labels": {"tier": "gold", LABEL_PROVIDER: None}}}
        await rig.hub.merge_patch(MEMBER_CLUSTERS, "m1", labels)

        async def back() -> bool:
            labels = (await rig.cluster("m1"))["metadata"]["labels"]
            return labels.get("tier") == "gold" and labels.get(LABEL_PROVIDER) == "unknown"

        await until(back)


async def test_no_secret_is_shown_by_accident(m1: Cluster):
    token = "s3cr3t-" + os.urandom(4).hex()
    parsed = parse_kubeconfig(kubeconfig(m1, token=token).encode())
    held = Secret(data={"token": token.encode()})
    assert token not in f"{held!r} {held} {parsed!r}"
