"""Secrets become MemberClusters that tell the truth about their cluster, on real API servers."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from crds.names import LABEL_CLUSTER, LABEL_PROVIDER, LABEL_VERSION, SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import (
    MEMBER_CLUSTERS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from machinery.config.kubeconfig import parse_kubeconfig
from machinery.errors import NotFound
from propagator.credentials.credentials import credentials_of
from propagator.hub import registration
from propagator.hub.registration import Registrar
from propagator.members import registry
from propagator.settings import SessionSettings
from propagator.types.cluster import Secret
from stowage.playground.controlplanes import Cluster
from stowage.playground.pki import Authority
from tests.letting_go import let_go
from tests.propagator.conftest import Rig, kubeconfig, secret, token_for
from tests.propagator.waits import handled, until

Rigs = Callable[..., Any]


async def measured(rig: Rig, name: str) -> bool:
    """Whether its room has been told."""
    return "capacity" in (await rig.cluster(name)).get("status", {})


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


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


REFUSED = {
    "exec": (
        {"exec": {"command": "/bin/true", "apiVersion": "client.authentication.k8s.io/v1"}},
        "users[0].user.exec",
    ),
    "auth-provider": ({"auth_provider": {"name": "gcp"}}, "users[0].user.auth-provider"),
    "token file": ({"tokenFile": "/etc/passwd"}, "users[0].user.tokenFile"),
    "client key file": ({"client_key": "/etc/passwd"}, "users[0].user.client-key"),
    "CA file": (
        {"certificate_authority": "/etc/passwd"},
        "clusters[0].cluster.certificate-authority",
    ),
    "no verification": (
        {"insecure_skip_tls_verify": True},
        "clusters[0].cluster.insecure-skip-tls-verify",
    ),
    "not https": ({"server": "http://127.0.0.1:1"}, "clusters[0].cluster.server"),
}


@pytest.mark.long
@pytest.mark.proves("D1")
async def test_a_kubeconfig_that_asks_for_more_is_refused_and_nothing_is_sent(
    rig_on: Rigs, m1: Cluster
):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        server = f"https://127.0.0.1:{listener.getsockname()[1]}"
        async with rig_on() as rig:
            cases = {
                f"refused-{number}": (kubeconfig(m1, **{"server": server} | changes), key)
                for number, (changes, key) in enumerate(REFUSED.values())
            }
            no_context = yaml.safe_load(m1.admin_kubeconfig)
            no_context["current-context"] = ""
            cases["no-context"] = (json.dumps(no_context), "current-context")
            cases["not-yaml"] = ("\tthis: [is no YAML", "kubeconfig")
            cases["large"] = ("x: [" + "a, " * 200_000 + "]", "data")
            for name, (text, _) in cases.items():
                await rig.register(name, {"kubeconfig": text})
            for name, (_, key) in cases.items():
                message = await rig.becomes(name, "InvalidKubeconfig")
                assert key in message, name
                assert rig.registry.get(name).client is None
                assert "reliability" not in (await rig.cluster(name))["status"], "nobody asked it"
        with pytest.raises(BlockingIOError):
            listener.accept()


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


NASTY: dict[str, dict[str, str | bytes]] = {
    "bracket": {"endpoint": "https://[::1", "token": "t"},
    "port": {"endpoint": "https://h:99999", "token": "t"},
    "password": {"endpoint": "https://:pw@h", "token": "t"},
    "zone": {"endpoint": "https://[fe80::1%25lo]", "token": "t"},
    "name": {"endpoint": "https://h", "token": "t", "tlsServerName": ".h"},
    "proxy": {"endpoint": "https://h", "token": "t", "proxyURL": "http://[::1"},
    "token": {"endpoint": "https://h", "token": "t\x00"},
    "deep": {"kubeconfig": "a: " + "[" * 60_000},
    "deeper": {"kubeconfig": '{"a":' * 12_000},
    "wide": {"kubeconfig": "a: [" + "x," * 30_000 + "x]"},
    "large": {"kubeconfig": b"x" * 900_000},
    "binary": {"kubeconfig": bytes(range(256)) * 100},
}


@pytest.mark.long
@pytest.mark.proves("S6")
@pytest.mark.usefixtures("unknown_members")
async def test_whatever_a_secret_turns_into_is_told_and_heals(rig_on: Rigs, m1: Cluster):
    """Each breaks a cluster that was ready: one that ended its session stayed Ready before."""
    good = {"kubeconfig": m1.admin_kubeconfig}
    parts = ("endpoint", "token", "tlsServerName", "proxyURL")
    async with rig_on() as rig:
        for name in NASTY:
            await rig.register(name, good)
        for name in NASTY:
            await rig.becomes(name, "Connected")
        for name, data in NASTY.items():
            await rig.change(name, data)
        for name in NASTY:
            assert await rig.becomes(name, "InvalidKubeconfig")
            session = rig.registry.get(name)
            assert session is not None
            assert session.client is None
        for name in NASTY:
            empty = dict.fromkeys(parts)
            patch = {"data": empty}
            await rig.hub.merge_patch(SECRETS, name, patch, namespace=SYSTEM_NAMESPACE)
            await rig.change(name, good)
        for name in NASTY:
            await rig.becomes(name, "Connected")


@pytest.mark.long
@pytest.mark.proves("S6")
async def test_a_session_that_ends_by_a_fault_of_ours_is_not_ready_meanwhile(
    rig_on: Rigs, m1: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(registry, "_RESTART_PAUSE", 1.0)
    async with rig_on() as rig:
        await rig.connect("m1", m1)
        session = rig.registry.get("m1")
        assert session is not None
        assert session.link is not None

        async def fault() -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setattr(session.link.probe, "until_lost", fault)
            patch.setattr(session.link.probe, "_ask", fault)
            assert "its log says how" in await rig.becomes("m1", "Unreachable")
        await rig.becomes("m1", "Connected")


@pytest.mark.long
@pytest.mark.proves("D1")
async def test_a_wrong_authority_is_told_and_heals_when_mended(rig_on: Rigs, m1: Cluster):
    stranger = b64(Authority("stranger").certificate)
    async with rig_on(settings=SessionSettings()) as rig:
        wrong = kubeconfig(m1, certificate_authority_data=stranger)
        await rig.register("m1", {"kubeconfig": wrong})
        await rig.becomes("m1", "TLSVerificationFailed")
        await rig.change("m1", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("m1", "Connected")


@pytest.mark.long
@pytest.mark.proves("D1")
async def test_a_wrong_token_is_told_and_heals_when_mended(rig_on: Rigs, m1: Cluster):
    parts = {"endpoint": m1.server, "clusterCA": m1.ca}
    async with rig_on(settings=SessionSettings()) as rig:
        await rig.register("m1", parts | {"token": "not-a-token"})
        message = await rig.becomes("m1", "Unauthorized")
        assert "not-a-token" not in message
        await rig.change("m1", parts | {"token": token_for(m1, "mended")})
        await rig.becomes("m1", "Connected")


@pytest.mark.long
@pytest.mark.proves("D1")
async def test_a_token_that_is_revoked_is_noticed(rig_on: Rigs, m1: Cluster):
    token = token_for(m1, "revoked")
    async with rig_on() as rig:
        await rig.register("m1", {"endpoint": m1.server, "clusterCA": m1.ca, "token": token})
        await rig.becomes("m1", "Connected")
        async with ApiClient(m1.connection()) as client:
            await client.delete(SERVICE_ACCOUNTS, "revoked", namespace="default")
        await rig.becomes("m1", "Unauthorized")
        await until(lambda: rig.told("m1", "Disconnected"))


@pytest.mark.long
@pytest.mark.proves("D1", "D2")
async def test_a_stopped_server_is_noticed_in_time_and_heals_by_itself(
    rig_on: Rigs, m1: Cluster, m2: Cluster
):
    settings = SessionSettings(
        probe_period=0.5, probe_timeout=4.0, probe_confirm=0.2, probe_backoff=1.0
    )
    async with rig_on(settings=settings) as rig:
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig})
        await rig.register("m2", {"kubeconfig": m2.admin_kubeconfig})
        await rig.becomes("m1", "Connected")
        await rig.becomes("m2", "Connected")
        await until(lambda: measured(rig, "m1"))
        before = (await rig.cluster("m1"))["status"]
        m1.freeze()
        try:
            await rig.becomes("m1", "Unreachable")
            frozen = (await rig.cluster("m1"))["status"]
            assert frozen["version"] == before["version"]
            assert frozen["capacity"] == before["capacity"]
            assert (await rig.ready("m2"))[1] == "Connected"
            assert not rig.told("m2", "Disconnected")
        finally:
            m1.thaw()
        await rig.becomes("m1", "Connected")


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
async def test_a_deleted_membercluster_stays_deleted_until_its_secret_changes(
    rig_on: Rigs, m1: Cluster
):
    async def gone() -> bool:
        try:
            await rig.cluster("m1")
        except NotFound:
            return True
        return False

    async with rig_on() as rig:
        await rig.connect("m1", m1)
        await rig.marked("m1")
        await let_go(rig.hub, "m1")
        await until(lambda: rig.registry.get("m1") is None)
        await rig.handled()
        assert await gone()
    async with rig_on() as rig:
        note = {"metadata": {"annotations": {"note": "hello"}}}
        await rig.hub.merge_patch(SECRETS, "m1", note, namespace=SYSTEM_NAMESPACE)
        await rig.handled()
        assert await gone()
        parts = {"endpoint": m1.server, "clusterCA": m1.ca, "token": token_for(m1, "again")}
        await rig.change("m1", parts)
        await rig.becomes("m1", "Connected")


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


@pytest.mark.long
@pytest.mark.proves("D1")
async def test_a_membercluster_deleted_while_nobody_looked_is_not_resurrected(
    rig_on: Rigs, hub: Cluster, m1: Cluster
):
    async with rig_on() as rig:
        await rig.connect("m1", m1)
        await rig.marked("m1")
    async with rig_on() as rig:
        await rig.becomes("m1", "Connected")
    async with ApiClient(hub.connection()) as client:
        await let_go(client, "m1")
    async with rig_on() as rig:
        await rig.handled()
        with pytest.raises(NotFound):
            await rig.cluster("m1")


@pytest.mark.long
@pytest.mark.proves("D1")
async def test_a_membercluster_written_by_hand_may_name_any_secret(
    rig_on: Rigs, hub: Cluster, m1: Cluster
):
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}}
    async with rig_on() as rig:
        await rig.hub.create(NAMESPACES, body)
        by_hand = {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "MemberCluster",
            "metadata": {"name": "by-hand"},
            "spec": {"secretRef": {"namespace": "elsewhere", "name": "way-in"}},
        }
        await rig.hub.create(MEMBER_CLUSTERS, by_hand)
        await rig.becomes("by-hand", "SecretNotFound")
        way_in = secret("way-in", {"kubeconfig": m1.admin_kubeconfig}, namespace="elsewhere")
        del way_in["metadata"]["labels"]
        await rig.hub.create(SECRETS, way_in)
        await rig.becomes("by-hand", "Connected")
        with pytest.raises(NotFound):
            await rig.cluster("way-in")
        await rig.hub.delete(SECRETS, "way-in", namespace="elsewhere")
        await rig.becomes("by-hand", "SecretNotFound")


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


@pytest.mark.long
@pytest.mark.proves("N19")
async def test_labels_say_what_the_spec_pins_and_nothing_else_that_a_member_reports(
    rig_on: Rigs, hub: Cluster, m1: Cluster
):
    async with rig_on() as rig:
        await rig.connect("m1", m1)
        keys = {LABEL_CLUSTER, LABEL_PROVIDER, LABEL_VERSION}
        assert (await rig.cluster("m1"))["metadata"]["labels"].keys() == keys
        pinned = {"spec": {"provider": "aws", "version": "v1.2.3+x"}}
        await rig.hub.merge_patch(MEMBER_CLUSTERS, "m1", pinned)

        async def labelled() -> bool:
            labels = (await rig.cluster("m1"))["metadata"]["labels"]
            return (labels[LABEL_PROVIDER], labels[LABEL_VERSION]) == ("aws", "v1.2.3-x")

        await until(labelled)
        status = (await rig.cluster("m1"))["status"]
        assert status["provider"] == "unknown"
        assert status["version"] != "v1.2.3+x"


async def test_no_secret_is_shown_by_accident(m1: Cluster):
    token = "s3cr3t-" + os.urandom(4).hex()
    parsed = parse_kubeconfig(kubeconfig(m1, token=token).encode())
    held = Secret(data={"token": token.encode()})
    assert token not in f"{held!r} {held} {parsed!r}"
