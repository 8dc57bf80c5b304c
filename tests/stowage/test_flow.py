"""Our Leases and agents on a hub whose queues a tenant, or one of the agents, fills."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import urllib.request
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from crds.names import (
    API_VERSION,
    LABEL_MEMBER_NAMESPACE,
    MEMBER_REPORT,
    PROPAGATOR_LEASE,
    SYSTEM_NAMESPACE,
)
from machinery.api.client import ApiClient
from machinery.api.resources import CONFIG_MAPS, LEASES, MEMBER_REPORTS
from machinery.clock import SystemClock, microtime
from machinery.config.kubeconfig import parse_kubeconfig
from machinery.errors import TooManyRequests, TransportError
from machinery.tasks import end
from stowage.playground.cluster import Cluster
from stowage.setup import install
from tests.machinery.api.test_writes_apiserver import HELD, admission
from tests.stowage import accounts
from tests.stowage.conftest import Stowage

CLOCK = SystemClock()
FLOODERS = 40
RENEWALS = 10
RENEWED_SECONDS = 2.0
"""The pause of a holder after a renewal; a renewal that takes longer delays the next."""
_QUEUED = re.compile(
    r"^apiserver_flowcontrol_current_inqueue_requests\{.*service-accounts.*\} (\d+)", re.MULTILINE
)
FEW = ("--max-requests-inflight=10", "--max-mutating-requests-inflight=5")


def _flow_schema(server: str, lease: str, token: str, authority: bytes) -> str:
    """The UID of the FlowSchema that the server matched to a GET of the Lease."""
    context = ssl.create_default_context(cadata=authority.decode())
    headers = {"Authorization": f"Bearer {token}"}
    asked = urllib.request.Request(f"{server}{lease}", headers=headers)
    with urllib.request.urlopen(asked, context=context, timeout=30) as answer:
        return str(answer.headers["X-Kubernetes-PF-FlowSchema-UID"])


@pytest.mark.proves("SC30")
def test_the_leases_of_both_processes_go_with_the_leaders() -> None:
    objects = install.manifests(namespace="elsewhere", image="stowage:9")
    (schema,) = [
        each["spec"]
        for each in objects
        if each["kind"] == "FlowSchema" and each["metadata"]["name"] == "stowage"
    ]
    assert schema["priorityLevelConfiguration"] == {"name": "leader-election"}
    assert schema["matchingPrecedence"] < 9000, "the server's own for all accounts"
    (rule,) = schema["rules"]
    accounts = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    named = [each["serviceAccount"] for each in rule["subjects"]]
    assert {each["namespace"] for each in named} == {"elsewhere"}
    assert {each["name"] for each in named} == {"stowage-controller", "stowage-propagator"}
    assert {each["name"] for each in named} <= accounts
    (what,) = rule["resourceRules"]
    assert (what["resources"], what["namespaces"]) == (["leases"], ["elsewhere"])


@pytest.mark.proves("PL18")
def test_an_agent_has_a_queue_of_its_own_and_no_seat_of_others() -> None:
    (schema,) = [
        each["spec"]
        for each in install.manifests(namespace="elsewhere", image="stowage:9")
        if each["kind"] == "FlowSchema" and each["metadata"]["name"] == "stowage-agents"
    ]
    assert schema["priorityLevelConfiguration"] == {"name": "workload-low"}
    assert schema["distinguisherMethod"] == {"type": "ByUser"}
    assert schema["matchingPrecedence"] < 9000, "the server's own for all accounts"
    (rule,) = schema["rules"]
    assert rule["subjects"] == [{"kind": "Group", "group": {"name": "system:serviceaccounts"}}]
    (what,) = rule["resourceRules"]
    assert (what["apiGroups"], what["resources"], what["verbs"]) == (["stowage.dev"], ["*"], ["*"])


@pytest.mark.long
@pytest.mark.proves("SC30")
async def test_our_leases_renew_while_a_tenant_floods_the_hub(
    make_cluster: Callable[..., Cluster], stowage: Stowage, tmp_path: Path
) -> None:
    hub = make_cluster("flooded", server_flags=FEW)
    stowage.succeed("install", "--wait=false", f"--kubeconfig={hub.kubeconfig}")
    accounts.rights_in_force(hub)
    hub.kubectl("create", "serviceaccount", "tenant", "-n", "default")
    named = ("-n", "default", "tenant")
    hub.kubectl("create", "role", *named, "--verb=create", "--resource=configmaps")
    hub.kubectl("create", "rolebinding", *named, "--role=tenant", "--serviceaccount=default:tenant")
    flooder = hub.kubectl("create", "token", "tenant", "-n", "default").strip()
    theirs = accounts.written(hub, "tenant", flooder, tmp_path)
    ours = await accounts.kubeconfig(hub, "propagator", tmp_path)
    token = await accounts.token(hub, "propagator")
    faults = list[TransportError]()
    refused, queued, taken = 0, 0, list[float]()

    async def flood(client: ApiClient) -> None:
        """Each of its writes is held by a webhook, and has a seat of the server until it ends."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": HELD}}
        while True:
            try:
                await client.create(CONFIG_MAPS, body, namespace="default")
            except TransportError as e:
                faults.append(e)

    async with (
        ApiClient(parse_kubeconfig(theirs.read_bytes()), limit=FLOODERS) as tenant,
        ApiClient(parse_kubeconfig(ours.read_bytes())) as holder,
        ApiClient(hub.connection()) as admin,
        AsyncExitStack() as stack,
    ):
        lease = {"apiVersion": LEASES.api_version, "kind": "Lease"}
        lease |= {"metadata": {"name": PROPAGATOR_LEASE}}
        where = {"namespace": SYSTEM_NAMESPACE}
        await holder.apply(LEASES, lease, name=PROPAGATOR_LEASE, force=True, **where)
        path = LEASES.path(SYSTEM_NAMESPACE, PROPAGATOR_LEASE)
        matched = _flow_schema(hub.server, path, token, hub.ca)
        await stack.enter_async_context(admission(admin, tmp_path))
        running = [asyncio.create_task(flood(tenant)) for _ in range(FLOODERS)]
        await asyncio.sleep(5)
        for _ in range(RENEWALS):
            began = CLOCK.monotonic()
            spec = {"holderIdentity": "us", "renewTime": microtime(CLOCK.now())}
            try:
                await holder.merge_patch(LEASES, PROPAGATOR_LEASE, {"spec": spec}, **where)
            except TooManyRequests:
                refused += 1
            taken.append(CLOCK.monotonic() - began)
            answer = (await admin.request("GET", "/metrics", accept="text/plain")).decode()
            queued = max(queued, *map(int, _QUEUED.findall(answer)))
        await end(running)
    schema = json.loads(hub.kubectl("get", "flowschema", "stowage", "-o", "json"))
    assert matched == schema["metadata"]["uid"]
    assert queued, f"the tenant fills its queue: {faults[-1:]}"
    assert not refused
    assert sorted(taken)[-2] < RENEWED_SECONDS


REPORTS, AT_ONCE = 1000, 100
"""Patches that one agent sends, and how many of them at a time."""


@pytest.mark.long
@pytest.mark.proves("PL18")
async def test_an_agent_that_floods_waits_behind_itself(
    make_cluster: Callable[..., Cluster], stowage: Stowage, tmp_path: Path
) -> None:
    """Counted, and by no clock: how many of its patches are answered while another's one waits."""
    hub = make_cluster("floodedbyagent", server_flags=FEW)
    stowage.succeed("install", "--wait=false", f"--kubeconfig={hub.kubeconfig}")
    accounts.rights_in_force(hub)
    flooder, other = (_agent(hub, name, tmp_path) for name in ("flooder", "other"))
    answered, waited, refused = 0, list[int](), 0

    async with (
        ApiClient(parse_kubeconfig(flooder.read_bytes()), limit=AT_ONCE) as floods,
        ApiClient(parse_kubeconfig(other.read_bytes())) as tells,
        ApiClient(parse_kubeconfig((await _ours(hub, tmp_path)).read_bytes())) as holder,
    ):
        left = iter(range(REPORTS))

        async def flood() -> None:
            nonlocal answered
            for number in left:
                with suppress(TransportError):  # its own queue is full, or takes too long
                    await _report(floods, "flooder", number)
                answered += 1

        lease = {"apiVersion": LEASES.api_version, "kind": "Lease"}
        lease |= {"metadata": {"name": PROPAGATOR_LEASE}}
        where = {"namespace": SYSTEM_NAMESPACE}
        await holder.apply(LEASES, lease, name=PROPAGATOR_LEASE, force=True, **where)
        running = [asyncio.create_task(flood()) for _ in range(AT_ONCE)]
        number = 0
        while answered < REPORTS - AT_ONCE:
            before, number = answered, number + 1
            try:
                await _report(tells, "other", number)
                renewed = {"spec": {"holderIdentity": f"us-{number}"}}
                await holder.merge_patch(LEASES, PROPAGATOR_LEASE, renewed, **where)
            except TooManyRequests:
                refused += 1
            waited.append(answered - before)
        await asyncio.gather(*running)
    schema = json.loads(hub.kubectl("get", "flowschema", "stowage-agents", "-o", "json"))
    path = MEMBER_REPORTS.path("stowage-member-other", MEMBER_REPORT)
    token = hub.kubectl("create", "token", "agent", "-n", "stowage-member-other").strip()
    assert _flow_schema(hub.server, path, token, hub.ca) == schema["metadata"]["uid"]
    assert not refused
    assert len(waited) >= 5
    assert sorted(waited)[len(waited) // 2] < AT_ONCE / 2, waited


def _agent(hub: Cluster, name: str, folder: Path) -> Path:
    """The kubeconfig of the agent of a member, with its right to report."""
    namespace = f"stowage-member-{name}"
    labels = {LABEL_MEMBER_NAMESPACE: name}
    meta = {"name": namespace, "labels": labels}
    report = {"apiVersion": API_VERSION, "kind": "MemberReport"}
    report |= {"metadata": {"name": MEMBER_REPORT, "namespace": namespace}}
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    for body in (made, report):
        hub.kubectl("apply", "-f", "-", input=json.dumps(body))
    named = ("-n", namespace, "agent")
    hub.kubectl("create", "serviceaccount", *named)
    what = "--resource=memberreports.stowage.dev,memberreports.stowage.dev/status"
    hub.kubectl("create", "role", *named, "--verb=get,patch", what)
    account = f"--serviceaccount={namespace}:agent"
    hub.kubectl("create", "rolebinding", *named, "--role=agent", account)
    token = hub.kubectl("create", "token", "agent", "-n", namespace).strip()
    return accounts.written(hub, name, token, folder)


async def _ours(hub: Cluster, folder: Path) -> Path:
    return await accounts.kubeconfig(hub, "propagator", folder)


async def _report(client: ApiClient, member: str, number: int) -> None:
    patch = {"status": {"release": f"0.1.{number}"}}
    namespace = f"stowage-member-{member}"
    await client.merge_patch(
        MEMBER_REPORTS, MEMBER_REPORT, patch, namespace=namespace, subresource="status"
    )
