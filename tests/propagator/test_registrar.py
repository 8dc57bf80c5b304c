"""Secrets become MemberClusters that tell the truth about their cluster, on real API servers."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crds.names import LABEL_CLUSTER, LABEL_PROVIDER, LABEL_VERSION, SYSTEM_NAMESPACE
from machinery.errors import KubeconfigError, NotFound
from machinery.kubeconfig import connection_from_secret, parse_kubeconfig
from machinery.resources import MEMBER_CLUSTERS, SECRETS
from propagator.hubmodel import Secret
from propagator.registrar import ANNOTATION_REGISTERED
from propagator.settings import SessionSettings
from stowage.playground.controlplanes import Cluster
from stowage.playground.pki import Authority

from .conftest import kubeconfig, secret, token_for, until

Rigs = Callable[..., Any]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.proves("D1", "C10")
async def test_a_secret_alone_registers_a_cluster(rig_on: Rigs, m1: Cluster):
    async with rig_on(settings=SessionSettings()) as rig:
        labels = {"topology.kubernetes.io/region": "eu", "tier": "gold", "x.stowage.dev/own": "y"}
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig}, labels=labels)
        await rig.becomes("m1", "Connected")
        await until(lambda: ("m1", "Connected") in {event[:2] for event in rig.recorder.events})
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


@pytest.mark.proves("D1")
async def test_a_secret_may_give_the_connection_key_by_key(rig_on: Rigs, m1: Cluster):
    parts = {"endpoint": m1.server, "clusterCA": m1.ca, "token": token_for(m1, "by-key")}
    async with rig_on() as rig:
        await rig.register("m1", parts)
        await rig.becomes("m1", "Connected")


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
            no_context = json.loads(m1.kubectl("config", "view", "--raw", "-o", "json"))
            no_context["current-context"] = ""
            cases["no-context"] = (json.dumps(no_context), "current-context")
            cases["not-yaml"] = ("\tthis: [is no YAML", "kubeconfig")
            cases["large"] = ("x: [" + "a, " * 200_000 + "]", "current-context")
            for name, (text, _) in cases.items():
                await rig.register(name, {"kubeconfig": text})
            for name, (_, key) in cases.items():
                message = await rig.becomes(name, "InvalidKubeconfig")
                assert key in message, name
                assert rig.fleet.get(name).client is None
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.proves("D1")
async def test_a_megabyte_of_yaml_holds_nothing_up(rig_on: Rigs, m1: Cluster):
    """Whoever reads it on the event loop holds that up for nearly the whole time."""
    longest = 0.0

    async def watchman() -> None:
        nonlocal longest
        while True:
            started = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - started)

    async with rig_on() as rig:
        text = "a: {" + ", ".join(f"k{n}: [v]" for n in range(50_000)) + "}"
        assert 600_000 < len(text) < 700_000
        watching = asyncio.create_task(watchman())
        started = time.monotonic()
        await rig.register("large", {"kubeconfig": text})
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("m1", "Connected")
        assert await rig.becomes("large", "InvalidKubeconfig", within=60)
        whole = time.monotonic() - started
        watching.cancel()
    assert longest < whole / 3


@pytest.mark.proves("D1")
def test_ten_megabytes_never_get_as_far_as_a_secret(hub: Cluster, tmp_path: Path):
    huge = "x" * 10_000_000
    (tmp_path / "kubeconfig").write_text(huge)
    said = hub.kubectl(
        *("create", "secret", "generic", "huge", "-n", SYSTEM_NAMESPACE),
        f"--from-file={tmp_path / 'kubeconfig'}",
        check=False,
    )
    assert "too large" in said.lower() or "too long" in said.lower()
    with pytest.raises(KubeconfigError, match="kubeconfig: is larger"):
        connection_from_secret({"kubeconfig": huge.encode()})


@pytest.mark.proves("D1")
async def test_a_wrong_authority_is_told_and_heals_when_mended(rig_on: Rigs, m1: Cluster):
    stranger = b64(Authority("stranger").certificate)
    async with rig_on(settings=SessionSettings()) as rig:
        wrong = kubeconfig(m1, certificate_authority_data=stranger)
        await rig.register("m1", {"kubeconfig": wrong})
        await rig.becomes("m1", "TLSVerificationFailed")
        await rig.change("m1", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("m1", "Connected")


@pytest.mark.proves("D1")
async def test_a_wrong_token_is_told_and_heals_when_mended(rig_on: Rigs, m1: Cluster):
    parts = {"endpoint": m1.server, "clusterCA": m1.ca}
    async with rig_on(settings=SessionSettings()) as rig:
        await rig.register("m1", parts | {"token": "not-a-token"})
        message = await rig.becomes("m1", "Unauthorized")
        assert "not-a-token" not in message
        await rig.change("m1", parts | {"token": token_for(m1, "mended")})
        await rig.becomes("m1", "Connected")


@pytest.mark.proves("D1")
async def test_a_token_that_is_revoked_is_noticed(rig_on: Rigs, m1: Cluster):
    token = token_for(m1, "revoked")
    async with rig_on() as rig:
        await rig.register("m1", {"endpoint": m1.server, "clusterCA": m1.ca, "token": token})
        await rig.becomes("m1", "Connected")
        m1.kubectl("delete", "serviceaccount", "revoked", "-n", "default")
        await rig.becomes("m1", "Unauthorized")
        assert ("m1", "Disconnected") in {event[:2] for event in rig.recorder.events}


@pytest.mark.proves("D1")
async def test_no_route_is_told_and_heals_by_itself(
    rig_on: Rigs, make_cluster: Callable[..., Cluster]
):
    member = make_cluster("restarted")
    async with rig_on(settings=SessionSettings()) as rig:
        member.kill()
        await rig.register("restarted", {"kubeconfig": member.admin_kubeconfig})
        await rig.becomes("restarted", "Unreachable")
        member.launch()
        await rig.becomes("restarted", "Connected")


@pytest.mark.proves("D1", "D2")
async def test_a_stopped_server_is_noticed_in_time_and_heals_by_itself(
    rig_on: Rigs, m1: Cluster, m2: Cluster
):
    async with rig_on(settings=SessionSettings()) as rig:
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig})
        await rig.register("m2", {"kubeconfig": m2.admin_kubeconfig})
        await rig.becomes("m1", "Connected")
        await rig.becomes("m2", "Connected")
        before = (await rig.cluster("m1"))["status"]
        m1.freeze()
        try:
            await rig.becomes("m1", "Unreachable", within=30)
            frozen = (await rig.cluster("m1"))["status"]
            assert frozen["version"] == before["version"]
            assert frozen["capacity"] == before["capacity"]
            assert (await rig.ready("m2"))[1] == "Connected"
            assert "m2" not in {
                name for name, reason, _ in rig.recorder.events if reason == "Disconnected"
            }
        finally:
            m1.thaw()
        await rig.becomes("m1", "Connected", within=30)


@pytest.mark.proves("D1")
async def test_a_removed_secret_ends_the_session_and_touches_nothing(rig_on: Rigs, m1: Cluster):
    async with rig_on() as rig:
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("m1", "Connected")
        client = rig.fleet.get("m1").client
        await rig.hub.delete(SECRETS, "m1", namespace=SYSTEM_NAMESPACE)
        message = await rig.becomes("m1", "SecretNotFound")
        assert "stowage-system/m1" in message
        assert rig.fleet.get("m1").client is None
        asked = client.requests
        await asyncio.sleep(2)
        assert client.requests == asked
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("m1", "Connected")


@pytest.mark.proves("D1", "D2")
async def test_a_rotated_secret_reconnects_and_an_unrelated_change_does_not(
    rig_on: Rigs, m1: Cluster
):
    parts = {"endpoint": m1.server, "clusterCA": m1.ca}
    async with rig_on() as rig:
        await rig.register("m1", parts | {"token": token_for(m1, "first")})
        await rig.becomes("m1", "Connected")
        session = rig.fleet.get("m1")
        client = session.client
        note = {"metadata": {"annotations": {"note": "hello"}}}
        await rig.hub.merge_patch(SECRETS, "m1", note, namespace=SYSTEM_NAMESPACE)
        await asyncio.sleep(1)
        assert session.client is client
        await rig.change("m1", parts | {"token": token_for(m1, "second")})
        await until(lambda: session.client is not client and session.ready)
        assert (await rig.ready("m1"))[1] == "Connected"
        assert [event[1] for event in rig.recorder.events] == ["Connected"]


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
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("m1", "Connected")
        await rig.hub.delete(MEMBER_CLUSTERS, "m1")
        await until(lambda: rig.fleet.get("m1") is None)
        await asyncio.sleep(1)
        assert await gone()
    async with rig_on() as rig:
        note = {"metadata": {"annotations": {"note": "hello"}}}
        await rig.hub.merge_patch(SECRETS, "m1", note, namespace=SYSTEM_NAMESPACE)
        await asyncio.sleep(1)
        assert await gone()
        parts = {"endpoint": m1.server, "clusterCA": m1.ca, "token": token_for(m1, "again")}
        await rig.change("m1", parts)
        await rig.becomes("m1", "Connected")


@pytest.mark.proves("D1")
async def test_a_membercluster_deleted_while_nobody_looked_is_not_resurrected(
    rig_on: Rigs, hub: Cluster, m1: Cluster
):
    async with rig_on() as rig:
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("m1", "Connected")

        async def marked() -> bool:
            found = await rig.hub.get(SECRETS, "m1", namespace=SYSTEM_NAMESPACE)
            return ANNOTATION_REGISTERED in found["metadata"].get("annotations", {})

        await until(marked)
    async with rig_on() as rig:
        await rig.becomes("m1", "Connected")
    hub.kubectl("delete", "membercluster", "m1")
    async with rig_on() as rig:
        await until(lambda: rig.clusters.synced)
        await asyncio.sleep(1)
        with pytest.raises(NotFound):
            await rig.cluster("m1")


@pytest.mark.proves("D1")
async def test_a_membercluster_written_by_hand_may_name_any_secret(
    rig_on: Rigs, hub: Cluster, m1: Cluster
):
    hub.kubectl("delete", "namespace", "elsewhere", "--ignore-not-found")
    hub.kubectl("create", "namespace", "elsewhere")
    async with rig_on() as rig:
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
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("m1", "Connected")
        hub.kubectl("label", "mc", "m1", "tier=gold", f"{LABEL_PROVIDER}-", "--overwrite")

        async def back() -> bool:
            labels = (await rig.cluster("m1"))["metadata"]["labels"]
            return labels.get("tier") == "gold" and labels.get(LABEL_PROVIDER) == "unknown"

        await until(back)


async def test_a_quiet_cluster_costs_no_writes(rig_on: Rigs, m1: Cluster):
    async with rig_on() as rig:
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("m1", "Connected")
        await asyncio.sleep(3)
        asked = rig.hub.requests
        await asyncio.sleep(5)  # ten probes, of which the machine may have delayed one
        assert rig.hub.requests - asked <= 1


async def test_status_survives_a_hub_that_goes_and_comes_back(
    rig_on: Rigs, hub: Cluster, m1: Cluster
):
    async with rig_on() as rig:
        await rig.register("m1", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("m1", "Connected")
        session = rig.fleet.get("m1")
        hub.kill()
        await asyncio.sleep(5)
        assert session.ready
        hub.launch()
        await asyncio.to_thread(hub.wait_ready)
        hub.kubectl("label", "mc", "m1", f"{LABEL_VERSION}-")

        async def mended() -> bool:
            return LABEL_VERSION in (await rig.cluster("m1"))["metadata"]["labels"]

        await until(mended, within=40)
        assert rig.fleet.get("m1") is session


async def test_no_secret_is_shown_by_accident(m1: Cluster):
    token = "s3cr3t-" + os.urandom(4).hex()
    parsed = parse_kubeconfig(kubeconfig(m1, token=token).encode())
    held = Secret(data={"token": token.encode()})
    assert token not in f"{held!r} {held} {parsed!r}"
