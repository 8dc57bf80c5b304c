"""`stowage join` and `unjoin` between a real hub, a real member and a running propagator."""

from __future__ import annotations

import json
import sys
import time

import pytest

from crds.names import SYSTEM_NAMESPACE
from machinery.errors import ConfigurationError, StowageError
from machinery.transport import ApiClient
from stowage import membership
from stowage.playground.processes import Process, wait_until

ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{membership.ACCOUNT}"


@pytest.fixture(scope="module")
def fleet(make_cluster, stowage, tmp_path_factory):
    """A hub whose propagator runs."""
    hub = make_cluster("join-hub")
    stowage.succeed("install", "--crds-only", f"--kubeconfig={hub.kubeconfig}")
    hub.kubectl("create", "namespace", SYSTEM_NAMESPACE)
    log = tmp_path_factory.mktemp("propagator") / "propagator.log"
    arguments = [sys.executable, "-m", "stowage", "propagator", "--http-port=0"]
    process = Process("propagator", [*arguments, f"--kubeconfig={hub.kubeconfig}"], log)
    process.start(detached=False)
    try:
        yield hub
    finally:
        process.end()


@pytest.fixture(scope="module")
def member(make_cluster):
    return make_cluster("joined", controller_manager=True, scheduler=True, kwok=True, nodes=1)


@pytest.fixture(scope="module")
def joined(fleet, member, stowage):
    """What join printed."""
    return stowage.succeed(
        "join", "alpha",
        f"--kubeconfig={fleet.kubeconfig}", f"--member-kubeconfig={member.kubeconfig}",
        "--label", "tier=gold", "--allow", "networking.k8s.io/ingresses", "--allow", "endpoints",
    )  # fmt: skip


def _get(cluster, *what):
    return json.loads(cluster.kubectl("get", *what, "-o", "json"))


@pytest.mark.proves("D1")
def test_join_registers_and_waits_until_ready(fleet, joined):
    assert joined.splitlines()[-1] == "alpha is Ready: v1.36.3, kwok"
    assert "alpha: ClusterRole stowage-propagator is there" in joined
    assert f"hub: Secret {SYSTEM_NAMESPACE}/alpha is there, it registers the cluster" in joined
    cluster = _get(fleet, "mc", "alpha")
    assert cluster["metadata"]["labels"]["tier"] == "gold"
    assert cluster["spec"]["secretRef"] == {"namespace": SYSTEM_NAMESPACE, "name": "alpha"}


@pytest.mark.usefixtures("joined")
@pytest.mark.parametrize(
    ("verb", "what", "may"),
    [
        ("create", "deployments.apps", "yes"),
        ("delete", "statefulsets.apps", "yes"),
        ("patch", "cronjobs.batch", "yes"),
        ("patch", "secrets", "yes"),
        ("create", "namespaces", "yes"),
        ("delete", "namespaces", "no"),
        ("list", "nodes", "yes"),
        ("patch", "nodes", "no"),
        ("list", "pods", "yes"),
        ("create", "pods", "no"),
        ("create", "clusterroles.rbac.authorization.k8s.io", "no"),
        ("escalate", "roles.rbac.authorization.k8s.io", "no"),
        ("impersonate", "serviceaccounts", "no"),
        ("create", "customresourcedefinitions.apiextensions.k8s.io", "no"),
        ("create", "ingresses.networking.k8s.io", "yes"),
        ("create", "networkpolicies.networking.k8s.io", "no"),
        ("update", "endpoints", "yes"),
    ],
)
def test_rights_on_the_member_are_narrow(member, verb, what, may):
    said = member.kubectl("auth", "can-i", verb, what, "-A", f"--as={ACCOUNT}", check=False)
    assert said.splitlines()[-1].strip() == may, said


def test_impersonation_is_a_right_by_itself():
    role = membership.account("x", impersonate=True)[1]
    assert {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]} in role[
        "rules"
    ]


@pytest.mark.proves("C3", "C27")
@pytest.mark.usefixtures("joined")
def test_a_workload_runs_with_the_rights_that_join_gave(fleet, member):
    fleet.kubectl("create", "namespace", "shop")
    fleet.kubectl("-n", "shop", "create", "secret", "generic", "db", "--from-literal=user=me")
    fleet.kubectl("apply", "-f", "-", input=json.dumps(_workload()))
    _place(fleet, "alpha")
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
        "--allow", "networking.k8s.io/ingresses", "--allow", "endpoints",
    )  # fmt: skip
    assert _get(fleet, "-n", SYSTEM_NAMESPACE, "secret", "alpha")["data"] == before


@pytest.mark.usefixtures("joined")
def test_the_name_of_another_cluster_is_refused(fleet, make_cluster, stowage):
    other = make_cluster("other", controller_manager=True)
    outcome = stowage(
        "join", "alpha", f"--kubeconfig={fleet.kubeconfig}",
        f"--member-kubeconfig={other.kubeconfig}",
    )  # fmt: skip
    assert outcome.code == 1
    assert "alpha is the name of another cluster" in outcome.err
    assert "stowage unjoin alpha" in outcome.err
    assert SYSTEM_NAMESPACE not in other.kubectl("get", "namespaces", "-o", "name")


@pytest.mark.usefixtures("joined")
def test_the_name_stays_the_clusters_while_its_secret_is_away(fleet, make_cluster, stowage):
    other = make_cluster("other", controller_manager=True)
    kept = _get(fleet, "-n", SYSTEM_NAMESPACE, "secret", "alpha")
    fleet.kubectl("-n", SYSTEM_NAMESPACE, "delete", "secret", "alpha")
    try:
        outcome = stowage(
            "join", "alpha", f"--kubeconfig={fleet.kubeconfig}",
            f"--member-kubeconfig={other.kubeconfig}",
        )  # fmt: skip
        assert outcome.code == 1
        assert "MemberCluster alpha on the hub" in outcome.err
    finally:
        for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
            kept["metadata"].pop(key, None)
        fleet.kubectl("create", "-f", "-", input=json.dumps(kept))


async def test_a_member_that_gives_no_token_is_named(fleet, make_cluster, monkeypatch):
    monkeypatch.setattr(membership, "TOKEN_SECONDS", 1.0)
    bare = make_cluster("plain")
    plan = membership.Join(name="bare", namespace=SYSTEM_NAMESPACE, member=bare.connection())
    async with ApiClient(fleet.connection()) as hub:
        with pytest.raises(StowageError, match="kube-controller-manager running"):
            await membership.join(hub, plan, say=lambda _: None)
    assert "bare" not in fleet.kubectl("get", "mc", "-o", "name")


async def test_a_hub_without_propagator_is_named(hub, member, monkeypatch):
    monkeypatch.setattr(membership, "READY_SECONDS", 1.0)
    plan = membership.Join(name="lonely", namespace=SYSTEM_NAMESPACE, member=member.connection())
    async with ApiClient(hub.connection()) as client:
        with pytest.raises(StowageError, match="the propagator has not looked at it"):
            await membership.join(client, plan, say=lambda _: None)
        unjoin = membership.Unjoin(name="lonely", namespace=SYSTEM_NAMESPACE)
        await membership.unjoin(client, unjoin, say=lambda _: None)


async def test_unjoining_what_is_not_there_is_a_fault(hub):
    async with ApiClient(hub.connection()) as client:
        plan = membership.Unjoin(name="nobody", namespace=SYSTEM_NAMESPACE)
        with pytest.raises(ConfigurationError, match="knows no cluster nobody"):
            await membership.unjoin(client, plan, say=lambda _: None)


@pytest.mark.proves("C30")
@pytest.mark.usefixtures("joined")
def test_unjoin_waits_for_an_empty_cluster_and_cleans_up(fleet, member, stowage):
    """The last of this module: alpha is gone afterwards."""
    hub = f"--kubeconfig={fleet.kubeconfig}"
    refused = stowage("unjoin", "alpha", hub)
    assert refused.code == 1
    assert "alpha still runs shop/web" in refused.err
    assert "--force" in refused.err

    fleet.kubectl("-n", "shop", "delete", "wl", "web", "--timeout=60s")
    assert "web" not in member.kubectl("-n", "shop", "get", "deploy,svc", "-o", "name")
    said = stowage.succeed("unjoin", "alpha", hub, f"--member-kubeconfig={member.kubeconfig}")
    assert "hub: Secret alpha removed" in said
    assert "hub: MemberCluster alpha removed" in said
    assert "alpha: ClusterRole stowage-propagator removed" in said
    left = member.kubectl("get", "clusterrole,clusterrolebinding", "-o", "name")
    assert "stowage" not in left
    assert "stowage" not in member.kubectl("-n", SYSTEM_NAMESPACE, "get", "sa,secret", "-o", "name")
    time.sleep(1)  # long enough for a propagator that would bring it back
    assert "alpha" not in fleet.kubectl("get", "mc", "-o", "name")


def _workload():
    labels = {"app": "web"}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "schedulerName": "by-hand",
            "resources": [{"name": "db", "secretName": "db"}],
            "targetDeployment": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web"},
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
                    },
                },
            },
            "targetService": {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web"},
                "spec": {"selector": labels, "ports": [{"port": 80}]},
            },
        },
    }


def _place(hub, cluster):
    patch = json.dumps({"status": {"placements": [{"cluster": cluster, "replicas": 2}]}})
    hub.kubectl(
        "-n", "shop", "patch", "wl", "web", "--subresource=status", "--type=merge", "-p", patch
    )


def _until(check):
    return wait_until(check, seconds=60, every=0.2)
