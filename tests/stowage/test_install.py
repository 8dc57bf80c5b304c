"""`stowage install` on a real hub: what is there afterwards, and what each process may do."""

from __future__ import annotations

import json

import pytest
import yaml

from crds.names import SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import NODES, SECRETS, Resource
from machinery.config.member_kubeconfig import Connection
from machinery.errors import Forbidden
from stowage.setup import install
from tests.stowage import accounts

from .conftest import assert_guarded

CONTROLLER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:stowage-controller"
PROPAGATOR = f"system:serviceaccount:{SYSTEM_NAMESPACE}:stowage-propagator"


@pytest.fixture(scope="module")
def cluster(make_cluster):
    """Nothing of ours is there at first; each test finds what those above it have installed."""
    return make_cluster("install")


@pytest.fixture(scope="module")
def installed(cluster, stowage):
    _install(stowage, cluster)
    accounts.rights_in_force(cluster)
    return cluster


def _install(stowage, cluster):
    """All but the waiting: this hub runs no pods."""
    hub = f"--kubeconfig={cluster.kubeconfig}"
    return stowage.succeed("install", hub, "--image=example/stowage:1", "--wait=false")


def _get(cluster, *what):
    return json.loads(cluster.kubectl("get", *what, "-o", "json"))


def test_dry_run_prints_yaml_and_touches_nothing(cluster, stowage):
    printed = stowage.succeed(
        "install", "--dry-run", f"--kubeconfig={cluster.kubeconfig}", "-n", "x"
    )
    objects = list(yaml.safe_load_all(printed))
    kinds = [each["kind"] for each in objects]
    assert kinds[0] == "CustomResourceDefinition"
    assert kinds.count("Deployment") == 2
    assert {o["metadata"].get("namespace", "x") for o in objects} == {"x"}
    assert "stowage" not in cluster.kubectl("get", "crd", "-o", "name")
    cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-",
                    input=yaml.safe_dump_all(o for o in objects if o["kind"] == "ClusterRole"))  # fmt: skip


def test_crds_only_and_admission_is_in_force_when_it_returns(cluster, stowage):
    stowage.succeed("install", "--crds-only", f"--kubeconfig={cluster.kubeconfig}")
    assert_guarded(cluster)
    assert "workloads.stowage.dev" in cluster.kubectl("get", "crd", "-o", "name")
    assert SYSTEM_NAMESPACE not in cluster.kubectl("get", "namespace", "-o", "name")


@pytest.mark.proves("C1", "Y7", "Y9", "S13")
def test_both_processes_are_there(installed):
    for role in ("controller", "propagator"):
        found = _get(installed, "-n", SYSTEM_NAMESPACE, "deployment", f"stowage-{role}")["spec"]
        pod = found["template"]["spec"]
        (container,) = pod["containers"]
        assert found["replicas"] == 2
        assert pod["serviceAccountName"] == f"stowage-{role}"
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["image"] == "example/stowage:1"
        assert container["args"][0] == role
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert container["imagePullPolicy"] == "IfNotPresent"
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert set(container["resources"]["limits"]) == {"memory"}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe]["timeoutSeconds"] == 5


def test_a_second_run_changes_nothing(installed, stowage):
    kinds = "deployments,clusterroles,roles,crd,validatingadmissionpolicies"

    def versions():
        items = _get(installed, kinds, "-A")["items"]
        ours = [i["metadata"] for i in items if "stowage" in i["metadata"]["name"]]
        return {(m["name"], m["uid"]): m["generation"] for m in ours if "generation" in m}

    before = versions()
    assert len(before) >= 4
    _install(stowage, installed)
    assert versions() == before


@pytest.mark.proves("C1", "S12", "S13")
@pytest.mark.parametrize(
    ("who", "verb", "what", "namespace", "may"),
    [
        (CONTROLLER, "get", "secrets", SYSTEM_NAMESPACE, "no"),
        (CONTROLLER, "list", "secrets", "", "no"),
        (CONTROLLER, "create", "secrets", SYSTEM_NAMESPACE, "no"),
        (CONTROLLER, "create", "serviceaccounts/token", SYSTEM_NAMESPACE, "no"),
        (CONTROLLER, "create", "pods", SYSTEM_NAMESPACE, "no"),
        (CONTROLLER, "patch", "workloads.stowage.dev/status", "shop", "yes"),
        (CONTROLLER, "patch", "memberclusters.stowage.dev/status", "", "no"),
        (
            CONTROLLER,
            "patch",
            "leases.coordination.k8s.io/stowage-controller",
            SYSTEM_NAMESPACE,
            "yes",
        ),
        (
            CONTROLLER,
            "patch",
            "leases.coordination.k8s.io/stowage-propagator",
            SYSTEM_NAMESPACE,
            "no",
        ),
        (CONTROLLER, "create", "leases.coordination.k8s.io", SYSTEM_NAMESPACE, "no"),
        (
            CONTROLLER,
            "delete",
            "leases.coordination.k8s.io/stowage-controller",
            SYSTEM_NAMESPACE,
            "no",
        ),
        (CONTROLLER, "patch", "leases.coordination.k8s.io/stowage-controller", "kube-system", "no"),
        (CONTROLLER, "create", "events.events.k8s.io", "shop", "yes"),
        (CONTROLLER, "create", "subjectaccessreviews.authorization.k8s.io", "", "yes"),
        (PROPAGATOR, "get", "secrets", SYSTEM_NAMESPACE, "yes"),
        (PROPAGATOR, "list", "secrets", "shop", "yes"),
        (PROPAGATOR, "patch", "secrets", SYSTEM_NAMESPACE, "yes"),
        (PROPAGATOR, "patch", "secrets", "shop", "no"),
        (PROPAGATOR, "delete", "secrets", SYSTEM_NAMESPACE, "no"),
        (PROPAGATOR, "create", "memberclusters.stowage.dev", "", "yes"),
        (PROPAGATOR, "patch", "memberclusters.stowage.dev", "", "yes"),
        (PROPAGATOR, "patch", "workloads.stowage.dev/status", "shop", "yes"),
        (PROPAGATOR, "delete", "workloads.stowage.dev", "shop", "no"),
        (PROPAGATOR, "create", "deployments.apps", "shop", "no"),
        (
            PROPAGATOR,
            "patch",
            "leases.coordination.k8s.io/stowage-propagator",
            SYSTEM_NAMESPACE,
            "yes",
        ),
        (
            PROPAGATOR,
            "patch",
            "leases.coordination.k8s.io/stowage-controller",
            SYSTEM_NAMESPACE,
            "no",
        ),
        (PROPAGATOR, "create", "leases.coordination.k8s.io", SYSTEM_NAMESPACE, "no"),
        (PROPAGATOR, "update", "workloads.stowage.dev/finalizers", "shop", "no"),
    ],
)
async def test_who_may_what(installed, who, verb, what, namespace, may):
    where = f"-n {namespace}" if namespace else "-A"
    resource, _, rest = what.partition("/")
    if rest and not resource.startswith("leases"):
        what = f"{resource} --subresource={rest}"
    allowed = await accounts.other_may(installed.connection(), who, f"{verb} {what} {where}")
    assert allowed is (may == "yes")


async def _as(cluster, role) -> ApiClient:
    token = await accounts.token(cluster, role)
    return ApiClient(Connection(server=cluster.server, ca=cluster.ca, token=token))


@pytest.mark.proves("C1")
async def test_a_real_attempt_of_the_controller_to_read_a_secret(installed):
    installed.kubectl(
        "-n", SYSTEM_NAMESPACE, "create", "secret", "generic", "credential", "--from-literal=a=b"
    )
    async with await _as(installed, "controller") as controller:
        with pytest.raises(Forbidden):
            await controller.get(SECRETS, "credential", namespace=SYSTEM_NAMESPACE)
        with pytest.raises(Forbidden):
            await controller.list(SECRETS)
        assert (await controller.list(install.WORKLOADS))["items"] == []
    async with await _as(installed, "propagator") as propagator:
        found = await propagator.get(SECRETS, "credential", namespace=SYSTEM_NAMESPACE)
        assert found["data"] == {"a": "Yg=="}
        with pytest.raises(Forbidden):
            await propagator.list(NODES)


class _OldHub:
    """Says that it serves no admission policies, and notes what is applied."""

    def __init__(self):
        self.applied = []

    async def discover(self, api_version):
        return [
            Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "V")
        ]

    async def resource(self, api_version, kind):
        return Resource("", "v1", kind.lower(), kind)

    async def apply(self, resource, manifest, **_):
        self.applied.append(manifest["kind"])

    async def get(self, resource, name):
        return {"status": {"conditions": [{"type": "Established", "status": "True"}]}}


@pytest.mark.proves("C24")
async def test_a_hub_without_admission_policies_is_installed_without_them():
    hub, said = _OldHub(), []
    await install.apply(hub, install.manifests(namespace="x", image="i"), say=said.append)
    assert "Deployment" in hub.applied
    assert not [kind for kind in hub.applied if "Admission" in kind]
    assert [line for line in said if "serves no" in line] == [
        (
            "This hub serves no ValidatingAdmissionPolicy v1: "
            "the controller refuses wrong Workloads itself, after they are stored"
        ),
        (
            "This hub serves no MutatingAdmissionPolicy v1: "
            "the controller fills in labels and defaults itself"
        ),
    ]
