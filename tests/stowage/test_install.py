"""`stowage install` on a real hub: what is there afterwards, and what each process may do."""

from __future__ import annotations

import base64
import json
import sys

import pytest
import yaml

from crds.names import SYSTEM_NAMESPACE
from machinery.errors import Forbidden
from machinery.kubeconfig import Connection
from machinery.resources import NODES, SECRETS, Resource
from machinery.transport import ApiClient
from stowage import install, membership
from stowage.playground.processes import Process, wait_until

CONTROLLER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:stowage-controller"
PROPAGATOR = f"system:serviceaccount:{SYSTEM_NAMESPACE}:stowage-propagator"


@pytest.fixture(scope="module")
def installed(make_cluster, stowage):
    cluster = make_cluster("install")
    stowage.succeed("install", f"--kubeconfig={cluster.kubeconfig}", "--image=example/stowage:1")
    return cluster


def _get(cluster, *what):
    return json.loads(cluster.kubectl("get", *what, "-o", "json"))


@pytest.mark.proves("C1")
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
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}


def test_a_second_run_changes_nothing(installed, stowage):
    kinds = "deployments,clusterroles,roles,crd,validatingadmissionpolicies"

    def versions():
        items = _get(installed, kinds, "-A")["items"]
        ours = [i["metadata"] for i in items if "stowage" in i["metadata"]["name"]]
        return {(m["name"], m["uid"]): m["generation"] for m in ours if "generation" in m}

    before = versions()
    assert len(before) >= 4
    stowage.succeed("install", f"--kubeconfig={installed.kubeconfig}", "--image=example/stowage:1")
    assert versions() == before


def test_admission_is_in_force_when_it_returns(installed):
    refused = installed.kubectl(
        "create", "-f", "-", "--dry-run=server", check=False,
        input=json.dumps({
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "Workload",
            "metadata": {"name": "elsewhere", "namespace": "default"},
            "spec": {
                "targetNamespace": "kube-system",
                "template": {"apiVersion": "batch/v1", "kind": "Job", "spec": {}},
            },
        }),
    )  # fmt: skip
    assert "targetNamespace" in refused


def test_dry_run_prints_yaml_and_touches_nothing(make_cluster, stowage):
    cluster = make_cluster("untouched")
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


def test_crds_only(make_cluster, stowage):
    cluster = make_cluster("untouched")
    stowage.succeed("install", "--crds-only", f"--kubeconfig={cluster.kubeconfig}")
    assert "workloads.stowage.dev" in cluster.kubectl("get", "crd", "-o", "name")
    assert SYSTEM_NAMESPACE not in cluster.kubectl("get", "namespace", "-o", "name")


@pytest.mark.proves("C1")
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
        (CONTROLLER, "patch", "leases.coordination.k8s.io", SYSTEM_NAMESPACE, "yes"),
        (CONTROLLER, "patch", "leases.coordination.k8s.io", "kube-system", "no"),
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
        (PROPAGATOR, "patch", "leases.coordination.k8s.io", SYSTEM_NAMESPACE, "yes"),
    ],
)
def test_who_may_what(installed, who, verb, what, namespace, may):
    where = [f"--namespace={namespace}"] if namespace else ["--all-namespaces"]
    resource, _, sub = what.partition("/")
    subresource = [f"--subresource={sub}"] if sub else []
    said = installed.kubectl(
        "auth", "can-i", verb, resource, *subresource, *where, f"--as={who}", check=False
    )
    assert said.splitlines()[-1].strip() == may, said


async def _as(cluster, role) -> ApiClient:
    """A client with a real token of the service account, as its pods would have."""
    async with ApiClient(cluster.connection()) as admin:
        path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/stowage-{role}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = json.loads(await admin.request("POST", path, body=request))
    token = answer["status"]["token"]
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
    assert any("the controller checks Workloads itself" in line for line in said)


async def _token_kubeconfig(cluster, role, folder):
    client = await _as(cluster, role)
    name = f"stowage-{role}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{
            "name": name,
            "cluster": {
                "server": cluster.server,
                "certificate-authority-data": base64.b64encode(cluster.ca).decode(),
            },
        }],
        "users": [{"name": name, "user": {"token": client.connection.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }  # fmt: skip
    await client.close()
    path = folder / f"{role}.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.proves("C1", "C3", "C31")
async def test_both_processes_do_their_work_with_these_rights(installed, make_cluster, tmp_path):
    member = make_cluster("joined", controller_manager=True, scheduler=True, kwok=True, nodes=1)
    secret = membership.secret("worker", SYSTEM_NAMESPACE, member.admin_kubeconfig, {})
    installed.kubectl("create", "-f", "-", input=json.dumps(secret))
    installed.kubectl("create", "namespace", "rights")
    installed.kubectl("create", "-f", "-", input=json.dumps(_workload()))
    processes = []
    try:
        for role in ("controller", "propagator"):
            kubeconfig = await _token_kubeconfig(installed, role, tmp_path)
            arguments = [sys.executable, "-m", "stowage", role, "--http-port=0"]
            arguments += [f"--kubeconfig={kubeconfig}"]
            processes.append(Process(role, arguments, tmp_path / f"{role}.log"))
            processes[-1].start(detached=False)
        assert wait_until(lambda: _state(installed) == "Running", seconds=60, every=0.2)
        installed.kubectl("-n", "rights", "delete", "wl", "web", "--timeout=60s")
        assert "web" not in member.kubectl("-n", "rights", "get", "deployments", "-o", "name")
        events = _get(installed, "-n", "rights", "events.events.k8s.io")["items"]
        assert {"Scheduled", "Propagated"} <= {event["reason"] for event in events}
    finally:
        for process in processes:
            process.end()
    for process in processes:
        assert "orbidden" not in process.log.read_text(), process.tail()


def _state(hub):
    return _get(hub, "-n", "rights", "wl", "web").get("status", {}).get("state")


def _workload():
    labels = {"app": "web"}
    pods = {"containers": [{"name": "main", "image": "nginx"}]}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "web", "namespace": "rights"},
        "spec": {
            "template": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web"},
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": pods},
                },
            }
        },
    }
