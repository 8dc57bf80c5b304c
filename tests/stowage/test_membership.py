"""`stowage join` and `unjoin` between a real hub, a real member and a running propagator."""

from __future__ import annotations

import base64
import json

import pytest

from crds.names import LABEL_TENANT, SYSTEM_NAMESPACE
from e2e.harness import deployment
from machinery.api.client import ApiClient
from machinery.config.kubeconfig import parse_kubeconfig
from machinery.errors import ConfigurationError, StowageError
from stowage.playground.processes import wait_until
from stowage.setup import join
from tests.patience import PATIENCE, hold_on

from .conftest import FLEET
from .placing import place, served

pytestmark = FLEET


@pytest.fixture(scope="module")
def fleet(propagated_hub):
    return propagated_hub


@pytest.fixture(scope="module")
def member(full_cluster):
    return full_cluster


@pytest.fixture(scope="module")
def before(member):
    """What has to do with us on the member before it joins."""
    return _ours(member)


@pytest.fixture(scope="module")
def joined(fleet, member, before, stowage):
    """What join printed."""
    return stowage.succeed(
        "join", "alpha",
        f"--kubeconfig={fleet.kubeconfig}", f"--member-kubeconfig={member.kubeconfig}",
        "--label", "tier=gold", "--allow", "networking.k8s.io/ingresses",
        "--allow", "scheduling.k8s.io/priorityclasses",
    )  # fmt: skip


def _get(cluster, *what):
    return json.loads(cluster.kubectl("get", *what, "-o", "json"))


def _marker():
    """A MemberCluster without a Secret."""
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": "marker"},
        "spec": {"secretRef": {"namespace": SYSTEM_NAMESPACE, "name": "marker"}},
    }


@pytest.mark.proves("D1")
def test_join_registers_and_waits_until_ready(fleet, joined):
    assert joined.splitlines()[-1] == "alpha is Ready: v1.36.3, kwok"
    assert "alpha: ClusterRole stowage-member is there" in joined
    assert f"hub: Secret {SYSTEM_NAMESPACE}/alpha is there, it registers the cluster" in joined
    cluster = _get(fleet, "mc", "alpha")
    assert cluster["metadata"]["labels"]["tier"] == "gold"
    assert cluster["spec"]["secretRef"] == {"namespace": SYSTEM_NAMESPACE, "name": "alpha"}


@pytest.mark.proves("C3", "C27")
@pytest.mark.usefixtures("joined")
def test_a_workload_runs_with_the_rights_that_join_gave(fleet, member):
    fleet.kubectl("create", "namespace", "shop")
    fleet.kubectl("-n", "shop", "create", "secret", "generic", "db", "--from-literal=user=me")
    secret = [{"name": "db", "secretName": "db"}]
    body = served("web", "shop", resources=secret, targetDeployment=deployment("web", replicas=2))
    fleet.kubectl("apply", "-f", "-", input=json.dumps(body))
    place(fleet, "web", "shop", "alpha", replicas=2)
    assert _until(
        lambda: _get(fleet, "-n", "shop", "wl", "web")["status"].get("state") == "Running"
    )
    assert _get(member, "-n", "shop", "deployment", "web")["status"]["readyReplicas"] == 2
    assert _get(member, "-n", "shop", "service", "web")
    assert _get(member, "-n", "shop", "secret", "db")["data"] == {"user": "bWU="}


@pytest.mark.usefixtures("joined")
def test_joining_again_changes_nothing(fleet, member, stowage):
    before = _get(fleet, "-n", SYSTEM_NAMESPACE, "secret", "alpha")["data"]
    stowage.succeed(
        "join", "alpha", f"--kubeconfig={fleet.kubeconfig}",
        f"--member-kubeconfig={member.kubeconfig}", "--label", "tier=gold",
        "--allow", "networking.k8s.io/ingresses", "--allow", "scheduling.k8s.io/priorityclasses",
    )  # fmt: skip
    assert _get(fleet, "-n", SYSTEM_NAMESPACE, "secret", "alpha")["data"] == before


@pytest.mark.proves("Y8", "Z3")
@pytest.mark.usefixtures("joined")
def test_the_hub_may_reach_the_member_by_another_address(fleet, member, stowage):
    """`join` talks to the address in the kubeconfig, the Secret names the other one."""
    join = (
        "join", "alpha", f"--kubeconfig={fleet.kubeconfig}",
        f"--member-kubeconfig={member.kubeconfig}", "--label", "tier=gold",
        "--allow", "networking.k8s.io/ingresses", "--allow", "scheduling.k8s.io/priorityclasses",
    )  # fmt: skip
    other = member.server.replace("127.0.0.1", "localhost")
    assert other != member.server
    said = stowage.succeed(
        *join, "--member-server", other, "--member-tls-server-name", "kubernetes"
    )
    assert "warning" not in said  # the propagator is a process of this machine
    found = _get(fleet, "-n", SYSTEM_NAMESPACE, "secret", "alpha")["data"]["kubeconfig"]
    connection = parse_kubeconfig(base64.b64decode(found))
    assert (connection.server, connection.tls_server_name) == (other, "kubernetes")

    fleet.kubectl("-n", SYSTEM_NAMESPACE, "create", "deployment", "stowage-propagator", "--image=i")
    try:
        there = _ours(member)
        refused = stowage(*join)
        warned = stowage.succeed(*join, "--member-server", member.server)
    finally:
        fleet.kubectl("-n", SYSTEM_NAMESPACE, "delete", "deployment", "stowage-propagator")
    assert refused.code == 1
    assert "\nerror: alpha is 127.0.0.1 to this machine" in refused.err
    assert "--member-server" in refused.err
    assert "is there" not in refused.out  # nothing was made anywhere
    assert _ours(member) == there
    assert "warning: alpha is 127.0.0.1 to this machine" in warned

    outcome = stowage(*join, "--member-server", "http://paris:6443")
    assert outcome.code == 1
    assert "the hub could not use that address of alpha" in outcome.err


@pytest.mark.usefixtures("joined")
def test_the_name_of_another_cluster_is_refused(fleet, stowage):
    """The hub itself is the other one."""
    there = _ours(fleet)
    outcome = stowage(
        "join", "alpha", f"--kubeconfig={fleet.kubeconfig}",
        f"--member-kubeconfig={fleet.kubeconfig}",
    )  # fmt: skip
    assert outcome.code == 1
    assert "alpha is the name of another cluster" in outcome.err
    assert "stowage unjoin alpha" in outcome.err
    assert _ours(fleet) == there, "nothing was made on the other cluster"


@pytest.mark.proves("N3")
@pytest.mark.usefixtures("joined")
def test_a_cluster_is_not_joined_under_a_second_name(fleet, member, stowage):
    """Also with the narrow rights that `join` gives by default, its identity is noted."""
    identity = _get(member, "ns", "kube-system")["metadata"]["uid"]
    assert _get(fleet, "mc", "alpha")["status"]["clusterID"] == identity
    there = _ours(member)
    outcome = stowage(
        "join", "beta", f"--kubeconfig={fleet.kubeconfig}",
        f"--member-kubeconfig={member.kubeconfig}",
    )  # fmt: skip
    assert outcome.code == 1
    assert "registered as alpha already" in outcome.err
    assert "`stowage rename alpha beta`" in outcome.err
    assert _ours(member) == there
    assert "beta" not in fleet.kubectl("get", "mc,secret", "-A", "-o", "name")


@pytest.mark.usefixtures("joined")
def test_the_name_stays_the_clusters_while_its_secret_is_away(fleet, stowage):
    kept = _get(fleet, "-n", SYSTEM_NAMESPACE, "secret", "alpha")
    fleet.kubectl("-n", SYSTEM_NAMESPACE, "delete", "secret", "alpha")
    try:
        outcome = stowage(
            "join", "alpha", f"--kubeconfig={fleet.kubeconfig}",
            f"--member-kubeconfig={fleet.kubeconfig}",
        )  # fmt: skip
        assert outcome.code == 1
        assert "MemberCluster alpha on the hub" in outcome.err
    finally:
        for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
            kept["metadata"].pop(key, None)
        fleet.kubectl("create", "-f", "-", input=json.dumps(kept))


async def test_unjoining_what_is_not_there_is_a_fault(fleet):
    async with ApiClient(fleet.connection()) as client:
        plan = join.Unjoin(name="nobody", namespace=SYSTEM_NAMESPACE)
        with pytest.raises(ConfigurationError, match="knows no cluster nobody"):
            await join.unjoin(client, plan, say=lambda _: None)


@pytest.mark.proves("C30", "N17")
@pytest.mark.usefixtures("joined")
def test_unjoin_waits_for_an_empty_cluster_and_cleans_up(fleet, member, before, stowage):
    """Alpha is gone afterwards."""
    hub = f"--kubeconfig={fleet.kubeconfig}"
    refused = stowage("unjoin", "alpha", hub)
    assert refused.code == 1
    assert "alpha still runs shop/web" in refused.err
    assert "--force" in refused.err

    fleet.kubectl("-n", "shop", "delete", "wl", "web", "--timeout=240s")
    assert "web" not in member.kubectl("-n", "shop", "get", "deploy,svc", "-o", "name")
    said = stowage.succeed("unjoin", "alpha", hub, f"--member-kubeconfig={member.kubeconfig}")
    assert f"hub: Secret {SYSTEM_NAMESPACE}/alpha removed" in said
    assert "hub: MemberCluster alpha removed" in said
    assert "alpha: ClusterRole stowage-member removed" in said
    assert "a watch that is open now goes on delivering for up to about half an hour" in said
    assert _ours(member) == before
    assert not member.kubectl("get", "namespaces", "-l", LABEL_TENANT, "-o", "name").strip()
    fleet.kubectl("create", "-f", "-", input=json.dumps(_marker()))
    try:  # a propagator that would bring alpha back has, once it tells of a cluster that came later
        told = hold_on(lambda: _get(fleet, "mc", "marker").get("status", {}).get("conditions"))
        assert told[0]["status"] == "False"
    finally:
        fleet.kubectl("delete", "mc", "marker", "--wait=false")
        patch = json.dumps({"metadata": {"finalizers": None}})
        fleet.kubectl("patch", "mc", "marker", "--type=merge", "-p", patch, check=False)
    assert "alpha" not in fleet.kubectl("get", "mc", "-o", "name")


@pytest.mark.long
async def test_a_hub_without_propagator_is_named(propagator, member, before, monkeypatch):
    """After all others: nothing may be joined that this one could take away."""
    fleet, process = propagator
    monkeypatch.setattr(join, "READY_SECONDS", 1.0)
    plan = join.Join(name="lonely", namespace=SYSTEM_NAMESPACE, member=member.connection())
    process.end()
    try:
        async with ApiClient(fleet.connection()) as client:
            with pytest.raises(StowageError, match="the propagator has not looked at it"):
                await join.join(client, plan, say=lambda _: None)
            unjoin = join.Unjoin(
                name="lonely", namespace=SYSTEM_NAMESPACE, member=member.connection()
            )
            await join.unjoin(client, unjoin, say=lambda _: None)
    finally:
        process.start(detached=False)
    assert _ours(member) == before


def _ours(cluster):
    """What gives or bounds rights there, and has to do with us by its name."""
    kinds = (
        "clusterrole,clusterrolebinding,validatingadmissionpolicy,"
        "validatingadmissionpolicybinding,role,rolebinding,serviceaccount"
    )
    listed = json.loads(cluster.kubectl("get", kinds, "-A", "-o", "json"))["items"]
    named = (
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in listed
    )
    return {each for each in named if "stowage" in each[2]}


def _until(check):
    return wait_until(check, seconds=PATIENCE * 60, every=0.5)
