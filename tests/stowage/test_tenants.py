"""Both processes on a hub that has no tenant at first, with their own accounts: the narrow form."""

from __future__ import annotations

import base64
import json
import sys

import pytest

from crds.names import SYSTEM_NAMESPACE
from e2e.harness import deployment, workload
from machinery.api.client import ApiClient
from machinery.api.resources import SECRETS, WORKLOADS
from machinery.config.kubeconfig import Connection
from machinery.errors import Forbidden
from stowage.playground.processes import Process
from stowage.setup import join, member_rights
from tests.patience import hold_on
from tests.stowage import accounts

from .conftest import FLEET

pytestmark = FLEET
OURS = ("stowage-controller-tenant", "stowage-propagator-tenant")


@pytest.fixture
def hub(make_cluster, stowage):
    cluster = make_cluster("tenants")
    stowage.succeed("install", "--wait=false", f"--kubeconfig={cluster.kubeconfig}")
    accounts.rights_in_force(cluster)
    return cluster


@pytest.mark.long
@pytest.mark.proves("C27", "N15", "S12")
async def test_secrets_are_read_and_workloads_made_in_tenants_alone(
    hub, full_cluster, stowage, tmp_path
):
    """What needs no wide right works without one; what does, says so, and works in a tenant."""
    member = full_cluster
    _create(
        hub,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "narrow"}},
        join.secret("worker", SYSTEM_NAMESPACE, member.admin_kubeconfig, {}),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "db", "namespace": "narrow"},
            "stringData": {"password": "one"},
        },
        _workload("plain"),
        _workload("with-secret", resources=[{"name": "db"}]),
        _reservation("kept"),
    )
    member.kubectl("apply", "-f", "-", input=json.dumps(member_rights.placeholder_class()))
    at_hub = f"--kubeconfig={hub.kubeconfig}"
    processes = []
    try:
        for role in accounts.ROLES:
            kubeconfig = await accounts.kubeconfig(hub, role, tmp_path)
            arguments = [sys.executable, "-m", "stowage", role, "--http-port=0"]
            arguments += [f"--kubeconfig={kubeconfig}"]
            processes.append(Process(role, arguments, tmp_path / f"{role}.log"))
            processes[-1].start(detached=False)
        _until(lambda: _runs(hub, "plain"))
        _create(hub, *_registered_elsewhere(member))
        told = _until(lambda: _condition(hub, "wl", "with-secret", "Propagated", "SecretNotFound"))
        assert "`stowage tenant add narrow`" in told["message"]
        told = _until(lambda: _condition(hub, "rsv", "kept", "Ready", "NotHeld"))
        assert "`stowage tenant add narrow`" in told["message"]
        told = _until(lambda: _condition(hub, "mc", "by-hand", "Ready", "SecretNotFound"))
        assert "`stowage tenant add narrow`" in told["message"]
        assert "with-secret" not in member.kubectl("-n", "narrow", "get", "deploy", "-o", "name")
        async with await _as(hub, "propagator") as propagator:
            with pytest.raises(Forbidden):
                await propagator.get(SECRETS, "db", namespace="narrow")
            with pytest.raises(Forbidden):
                await propagator.list(SECRETS)
        async with await _as(hub, "controller") as controller:
            patch = {"spec": {"replicas": 7}}
            with pytest.raises(Forbidden):
                await controller.merge_patch(WORKLOADS, "plain", patch, namespace="narrow")
            with pytest.raises(Forbidden):
                await controller.delete(WORKLOADS, "plain", namespace="narrow")
        listed = json.loads(stowage.succeed("tenant", "list", at_hub, "-o", "json"))
        assert listed["namespaces"] == [
            {
                "namespace": "narrow",
                "tenant": False,
                "workloads": 1,
                "reservations": 1,
                "clusters": 1,
            }
        ]

        stowage.succeed("tenant", "add", "narrow", at_hub)
        _until(lambda: _runs(hub, "with-secret"))
        # Two names for one cluster: the younger one's Secret is read, and nothing else done with it.
        _until(lambda: _condition(hub, "mc", "by-hand", "Ready", "AlreadyRegistered"))
        _until(lambda: _runs(hub, "kept-hold"))
        _until(lambda: _condition(hub, "rsv", "kept", "Ready", "Available"))
        _rotate(hub, "two")
        _until(lambda: _password(member) == "two")
        async with await _as(hub, "propagator") as propagator:
            assert await propagator.get(SECRETS, "db", namespace="narrow")
            with pytest.raises(Forbidden):
                await propagator.list(SECRETS, namespace="default")

        stowage.succeed("tenant", "remove", "narrow", at_hub)
        assert not set(OURS) & _bindings(hub)
        async with await _as(hub, "propagator") as propagator:
            with pytest.raises(Forbidden):
                await propagator.list(SECRETS, namespace="narrow")
        assert _password(member) == "two"  # what lies on members stays
        hub.kubectl("-n", "narrow", "delete", "rsv,wl", "--all", "--timeout=240s")
        _until(lambda: not member.kubectl("-n", "narrow", "get", "deploy,secret", "-o", "name"))
    finally:
        for process in processes:
            process.end()


async def _as(cluster, role):
    token = await accounts.token(cluster, role)
    return ApiClient(Connection(server=cluster.server, ca=cluster.ca, token=token))


def _create(hub, *objects):
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    hub.kubectl("create", "-f", "-", input=json.dumps(listed))


def _until(check):
    return hold_on(check, seconds=90, every=1.0)


def _registered_elsewhere(member):
    """The same cluster under another name, by a Secret of the namespace."""
    secret = join.secret("way-in", "narrow", member.admin_kubeconfig, {})
    del secret["metadata"]["labels"]
    cluster = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": "by-hand"},
        "spec": {"secretRef": {"namespace": "narrow", "name": "way-in"}},
    }
    return secret, cluster


def _get(cluster, *what):
    return json.loads(cluster.kubectl("-n", "narrow", "get", *what, "-o", "json"))


def _runs(hub, name):
    items = _get(hub, "wl")["items"]
    states = {each["metadata"]["name"]: each.get("status", {}).get("state") for each in items}
    return states.get(name) == "Running"


def _condition(hub, kind, name, type_, reason):
    found = _get(hub, kind, name).get("status", {}).get("conditions", [])
    return next((c for c in found if (c["type"], c["reason"]) == (type_, reason)), None)


def _rotate(hub, value):
    patch = json.dumps({"stringData": {"password": value}})
    hub.kubectl("-n", "narrow", "patch", "secret", "db", "-p", patch)


def _password(member):
    return base64.b64decode(_get(member, "secret", "db")["data"]["password"]).decode()


def _bindings(hub):
    return {each["metadata"]["name"] for each in _get(hub, "rolebindings")["items"]}


def _reservation(name):
    asks = {"name": "main", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "namespace": "narrow"},
        "spec": {
            "template": {"spec": {"containers": [asks]}},
            "owners": [{"object": {"name": "nobody"}}],
            "hold": "Member",
        },
    }


def _workload(name, **spec):
    return workload(name, "narrow", template=deployment(name), **spec)
