"""`stowage install` on a real hub: what is there afterwards, and what each process may do."""

from __future__ import annotations

import asyncio
import base64
import json

import aiohttp
import pytest
import yaml
from click.testing import CliRunner

from controller.app import Controller, ControllerSettings
from crds.names import SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import NODES, SECRETS, Resource
from machinery.config.kubeconfig import Connection
from machinery.discovery import enforcement
from machinery.discovery.schema import lacking
from machinery.errors import Forbidden, Invalid
from machinery.tasks import end
from propagator.app import Propagator
from propagator.settings import PropagatorSettings
from stowage.cli import cli
from stowage.setup import install, tenants
from tests.patience import until
from tests.stowage import accounts

from .conftest import FLEET, assert_guarded

pytestmark = FLEET

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


@pytest.mark.long
def test_dry_run_prints_yaml_and_touches_nothing(cluster, stowage):
    printed = stowage.succeed(
        "install", "--dry-run", f"--kubeconfig={cluster.kubeconfig}", "--system-namespace=x"
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


@pytest.mark.long
@pytest.mark.proves("N4", "N15")
@pytest.mark.parametrize(
    ("role", "may", "may_not"),
    [
        (
            "view",
            ["get workloads", "list reservations", "watch workloadquotas"],
            ["create workloads", "patch workloads/status", "patch workloads/scale"],
        ),
        (
            "edit",
            ["create workloads", "patch workloads/scale", "delete workloadspreads"],
            [
                "create workloadquotas",
                "create reservations",
                "patch workloads/status",
                "approve workloads",
            ],
        ),
        (
            "admin",
            [
                "create reservations",
                "update workloadpolicies",
                "create workloads",
                "approve workloads",
            ],
            ["create workloadquotas", "patch workloadquotas", "patch workloadgroups/status"],
        ),
    ],
)
def test_a_tenants_role_reaches_our_kinds_in_its_namespace(installed, role, may, may_not):
    """As `kubectl create rolebinding --clusterrole=edit` gives them everything else."""
    space = f"people-{role}"
    whose = f"system:serviceaccount:{space}:someone"
    kubectl = installed.kubectl
    kubectl("create", "namespace", space)

    def can(verb: str, what: str, namespace: str = space) -> bool:
        resource, _, subresource = what.partition("/")
        asked = [f"--subresource={subresource}"] if subresource else []
        answer = kubectl("auth", "can-i", verb, f"{resource}.stowage.dev", *asked,
                         f"--as={whose}", f"--namespace={namespace}", check=False)  # fmt: skip
        return answer.split()[0] == "yes"

    # The roles are put together by the hub's controller-manager, which this hub lacks.
    rules = [
        rule
        for part in _get(installed, "clusterroles")["items"]
        if part["metadata"].get("labels", {}).get(f"rbac.authorization.k8s.io/aggregate-to-{role}")
        for rule in part["rules"] or ()
        if rule["apiGroups"] == ["stowage.dev"]
    ]
    kubectl("apply", "-f", "-", input=yaml.safe_dump(
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
         "metadata": {"name": role, "namespace": space}, "rules": rules}
    ))  # fmt: skip
    kubectl("create", "rolebinding", role, f"--role={role}", f"--namespace={space}",
            f"--serviceaccount={space}:someone")  # fmt: skip
    assert [each for each in may if not can(*each.split())] == []
    assert [each for each in may_not if can(*each.split())] == []
    assert not can("get", "workloads", "kube-system")


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


@pytest.mark.long
@pytest.mark.proves("V18")
def test_the_web_page_comes_where_it_is_asked_for(installed, stowage):
    hub = f"--kubeconfig={installed.kubeconfig}"
    assert "stowage-ui" not in installed.kubectl("get", "deploy", "-n", SYSTEM_NAMESPACE)
    install_ui = ("install", hub, "--image=example/stowage:1", "--wait=false", "--ui")
    assert "Secret stowage-ui-session created" in stowage.succeed(*install_ui)
    where = ("-n", SYSTEM_NAMESPACE)
    secret = _get(installed, "secret", "stowage-ui-session", *where)
    assert len(base64.b64decode(secret["data"]["current"])) >= 32
    assert "stowage-ui-session" not in stowage.succeed(*install_ui)
    assert _get(installed, "secret", "stowage-ui-session", *where) == secret, "sessions go on"
    pod = _get(installed, "deploy", "stowage-ui", *where)["spec"]["template"]["spec"]
    keys = next(each for each in pod["volumes"] if each["name"] == "session")
    assert keys["secret"]["secretName"] == "stowage-ui-session"
    run = CliRunner().invoke(cli, [*pod["containers"][0]["args"], "--kubeconfig=/none", "--help"])
    assert run.exit_code == 0, run.output
    for kind in ("service", "networkpolicy", "poddisruptionbudget", "serviceaccount"):
        assert _get(installed, kind, "stowage-ui", *where)
    kinds = "deploy,service,sa,role,rolebinding,pdb,networkpolicy"
    installed.kubectl("delete", kinds, "-l", "app=stowage-ui", *where)
    installed.kubectl("delete", "clusterrole,clusterrolebinding", "-l", "app=stowage-ui")
    installed.kubectl("delete", "secret", "stowage-ui-session", *where)


MAY = {
    (CONTROLLER, False): """
        get secrets -n stowage-system
        list secrets -A
        create secrets -n stowage-system
        create serviceaccounts --subresource=token -n stowage-system
        create pods -n stowage-system
        update memberclusters.stowage.dev --subresource=status -A
        patch memberclusters.stowage.dev -A
        patch leases.coordination.k8s.io/stowage-propagator -n stowage-system
        create leases.coordination.k8s.io -n stowage-system
        delete leases.coordination.k8s.io/stowage-controller -n stowage-system
        patch leases.coordination.k8s.io/stowage-controller -n kube-system
        patch workloads.stowage.dev -n shop
        patch workloadpolicies.stowage.dev -n shop
        create workloads.stowage.dev -n shop
        delete workloads.stowage.dev -n shop
        patch clusterprofiles.multicluster.x-k8s.io -n shop
    """,
    (CONTROLLER, True): """
        patch workloads.stowage.dev --subresource=status -n shop
        patch memberclusters.stowage.dev --subresource=status -A
        get leases.coordination.k8s.io/stowage-propagator -n stowage-system
        patch leases.coordination.k8s.io/stowage-controller -n stowage-system
        create events.events.k8s.io -n shop
        create clusterdecisions.stowage.dev -n shop
        patch clusterdecisions.stowage.dev --subresource=status -n shop
        patch placementdecisions.multicluster.x-k8s.io -n shop
        create subjectaccessreviews.authorization.k8s.io -A
    """,
    (PROPAGATOR, True): """
        get secrets -n stowage-system
        watch secrets -n stowage-system
        patch secrets -n stowage-system
        create memberclusters.stowage.dev -A
        patch memberclusters.stowage.dev -A
        patch workloads.stowage.dev --subresource=status -n shop
        patch leases.coordination.k8s.io/stowage-propagator -n stowage-system
    """,
    (PROPAGATOR, False): """
        list secrets -n shop
        list secrets -A
        patch secrets -n shop
        delete secrets -n stowage-system
        delete workloads.stowage.dev -n shop
        create deployments.apps -n shop
        patch leases.coordination.k8s.io/stowage-controller -n stowage-system
        create leases.coordination.k8s.io -n stowage-system
        update workloads.stowage.dev --subresource=finalizers -n shop
    """,
}
"""By who it is, and whether they may."""


@pytest.mark.long
@pytest.mark.proves("C1", "N15", "S12", "S13")
async def test_who_may_what(installed):
    hub = installed.connection()
    wrong = [
        (who, right.strip())
        for (who, may), rights in MAY.items()
        for right in rights.strip().splitlines()
        if await accounts.other_may(hub, who, right.strip()) is not may
    ]
    assert wrong == []


@pytest.mark.long
@pytest.mark.proves("CT5")
async def test_argo_may_list_decisions_in_its_own_namespace_and_nothing_else(installed, stowage):
    hub = f"--kubeconfig={installed.kubeconfig}"
    named = ("install", hub, "--crds-only", "--wait=false", "--argocd")
    assert "not found" in stowage(*named, "gitops").err  # a namespace that nobody has made
    installed.kubectl("create", "namespace", "argocd")
    assert "ConfigMap stowage-clusterdecisions applied" in stowage.succeed(*named)
    found = _get(installed, "-n", "argocd", "configmap", "stowage-clusterdecisions")["data"]
    assert found["kind"] in installed.kubectl("api-resources", "--api-group=stowage.dev")
    generator = "system:serviceaccount:argocd:argocd-applicationset-controller"
    for asked, may in (
        ("list clusterdecisions.stowage.dev -n argocd", True),
        ("watch clusterdecisions.stowage.dev -n argocd", True),
        ("patch clusterdecisions.stowage.dev -n argocd", False),
        ("list clusterdecisions.stowage.dev -n default", False),
        ("list workloads.stowage.dev -n argocd", False),
    ):
        assert await accounts.other_may(installed.connection(), generator, asked) is may, asked


@pytest.mark.long
@pytest.mark.proves("N15")
async def test_the_wide_bindings_come_and_go_with_their_option(installed, stowage):
    """What an install of an older version had given is named, where something needs it."""
    hub = f"--kubeconfig={installed.kubeconfig}"
    waits = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "waits", "namespace": "default"},
        "spec": {
            "template": {"apiVersion": "batch/v1", "kind": "Job", "spec": {}},
            "resources": [{"name": "db"}],
        },
    }
    installed.kubectl("create", "-f", "-", input=json.dumps(waits))
    defaults = (
        "create", "clusterrolebinding", "stowage-controller-defaults",
        "--clusterrole=stowage-controller-defaults",
    )  # fmt: skip
    installed.kubectl(*defaults)  # as on this hub before it was one of Kubernetes 1.36
    try:
        said = _install(stowage, installed)
        assert "stowage tenant add default" in said
        assert "ClusterRoleBinding stowage-controller-defaults deleted" in said
        assert not _wide(installed)
        assert not await _settled(installed, all_namespaces=True)
        assert _wide(installed) == {"stowage-controller-tenant", "stowage-propagator-tenant"}
        assert not await _settled(installed, all_namespaces=None)  # left as it is
        assert len(_wide(installed)) == 2
        listed = json.loads(stowage.succeed("tenant", "list", hub, "-o", "json"))
        assert listed["allNamespaces"] is True
        assert listed["namespaces"] == [
            {
                "namespace": "default",
                "tenant": True,
                "workloads": 1,
                "reservations": 0,
                "clusters": 0,
            }
        ]
        *deleted, waits_again = await _settled(installed, all_namespaces=False)
        assert len(deleted) == 2
        assert "stowage tenant add default" in waits_again
        assert not _wide(installed)
    finally:
        installed.kubectl("delete", "wl", "waits", "--wait=false")
        none = '{"metadata": {"finalizers": null}}'  # there is no propagator here to take it away
        installed.kubectl("patch", "wl", "waits", "--type=merge", "-p", none)


async def _settled(cluster, *, all_namespaces):
    """What `install` says of rights with that option."""
    said = []
    async with ApiClient(cluster.connection()) as hub:
        whole = {"namespace": SYSTEM_NAMESPACE, "image": "any"}
        narrow = install.manifests(**whole)
        for each in install.manifests(**whole, all_namespaces=bool(all_namespaces)):
            if each not in narrow:
                await install.apply_one(hub, each, manager="stowage-install")
        how = {"home": SYSTEM_NAMESPACE, "all_namespaces": all_namespaces}
        await tenants.settle(hub, **how, say=said.append)
    return said


def _wide(cluster):
    """The bindings that are made only where they are needed."""
    names = {each["metadata"]["name"] for each in _get(cluster, "clusterrolebindings")["items"]}
    return names & {each["metadata"]["name"] for each in install.wide(SYSTEM_NAMESPACE)}


@pytest.mark.proves("N15")
def test_what_cannot_be_a_tenant_is_refused_before_anything_is_written(installed, stowage):
    hub = f"--kubeconfig={installed.kubeconfig}"
    unknown = stowage("tenant", "add", "default", "nowhere", hub)
    assert unknown.code == 1
    assert "the hub has no namespace nowhere" in unknown.err
    for never in (SYSTEM_NAMESPACE, "kube-system"):
        assert f"{never} is never a tenant" in stowage("tenant", "add", never, hub).err
    assert "is never a tenant" in stowage("tenant", "add", "kube-system", "--dry-run").err
    assert _get(installed, "-n", "default", "rolebindings")["items"] == []
    assert "namespace default was no tenant" in stowage.succeed("tenant", "remove", "default", hub)
    printed = list(yaml.safe_load_all(stowage.succeed("tenant", "add", "default", "--dry-run")))
    assert [each["metadata"] for each in printed] == [
        {"name": f"stowage-{role}-tenant", "namespace": "default"} for role in accounts.ROLES
    ]
    assert _get(installed, "-n", "default", "rolebindings")["items"] == []


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

    async def get(self, resource, name, **_):
        return {"status": {"conditions": [{"type": "Established", "status": "True"}]}}

    find = get


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


@pytest.mark.proves("N14")
@pytest.mark.parametrize("role", ["controller", "propagator"])
async def test_each_process_may_try_admission_and_make_nothing_by_that_right(installed, role):
    async with await _as(installed, role) as client:
        assert await enforcement.validating(client, clock=client.clock)._canary()
        if role == "controller":
            assert await enforcement.mutating(client, clock=client.clock)._canary()
        body = enforcement._canary(replicas=1)
        del body["spec"]["targetNamespace"]
        with pytest.raises(Invalid, match="never a target"):
            await client.create(install.WORKLOADS, body, namespace=SYSTEM_NAMESPACE)
    assert _get(installed, "-A", "workloads")["items"] == []


@pytest.mark.proves("N16")
def test_both_replicas_outlive_a_drain_and_keep_off_the_metadata_service(installed):
    pdbs = {
        p["metadata"]["name"]: p["spec"]
        for p in _get(installed, "-n", SYSTEM_NAMESPACE, "pdb")["items"]
    }
    for role in ("controller", "propagator"):
        app = {"matchLabels": {"app": f"stowage-{role}"}}
        assert pdbs[f"stowage-{role}"] == {"minAvailable": 1, "selector": app}
        found = _get(installed, "-n", SYSTEM_NAMESPACE, "deployment", f"stowage-{role}")["spec"]
        pod = found["template"]["spec"]
        spread = pod["topologySpreadConstraints"]
        assert [each["topologyKey"] for each in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]  # fmt: skip
        assert all(each["labelSelector"] == app for each in spread)
        classed = _get(installed, "priorityclass", pod["priorityClassName"])
        assert 0 < classed["value"] <= 1_000_000_000  # what lies above is the cluster's own
    egress = _get(installed, "-n", SYSTEM_NAMESPACE, "networkpolicy", "stowage-egress")["spec"]
    assert egress["policyTypes"] == ["Egress"]
    blocks = [to["ipBlock"] for rule in egress["egress"] for to in rule["to"] if "ipBlock" in to]
    assert {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]} in blocks
    assert egress["podSelector"]["matchExpressions"][0]["values"] == ["stowage-controller", "stowage-propagator"]  # fmt: skip


@pytest.mark.proves("N16")
def test_each_process_may_read_the_definitions_that_it_compares(installed):
    rules = _get(installed, "clusterrole", "stowage-controller")["rules"]
    (rule,) = [r for r in rules if r["resources"] == ["customresourcedefinitions"]]
    assert sorted(rule["resourceNames"]) == sorted(
        each["metadata"]["name"]
        for each in install.manifests(namespace="x", crds_only=True)
        if each["kind"] == "CustomResourceDefinition"
        # Those of propagator and agents alone.
        and each["spec"]["names"]["plural"] not in ("assignments", "memberreports")
    )


@pytest.mark.long
@pytest.mark.proves("N16")
@pytest.mark.parametrize("role", ["controller", "propagator"])
async def test_a_process_does_nothing_on_kinds_that_are_too_old(installed, role):
    """With its own rights: it says so on /readyz, takes no Lease, and begins once they are mended."""
    lease = ("-n", SYSTEM_NAMESPACE, "lease", f"stowage-{role}")
    crd = "workloads.stowage.dev"
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/desired"
    old = _get(installed, "crd", crd)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    kept = old["properties"]["status"]["properties"]["desired"]
    installed.kubectl("patch", "crd", crd, "--type=json", "-p", json.dumps([{"op": "remove", "path": path}]))  # fmt: skip
    try:
        async with await _as(installed, role) as client:
            process = _process(role, client)
            running = asyncio.create_task(process.run())
            try:
                await until(lambda: "SchemaTooOld" in process.unready())
                status, said = await _readyz(process.port)
                assert status == 503
                assert f"SchemaTooOld: {crd} on the hub lacks status.desired" in said
                assert "stowage install" in said
                assert not _get(installed, *lease)["spec"].get("holderIdentity")

                added = [{"op": "add", "path": path, "value": kept}]
                installed.kubectl("patch", "crd", crd, "--type=json", "-p", json.dumps(added))
                await until(lambda: not process.unready())
                assert (await _readyz(process.port))[0] == 200
                await until(lambda: bool(_get(installed, *lease)["spec"].get("holderIdentity")))
            finally:
                await end([running])
    finally:
        added = [{"op": "add", "path": path, "value": kept}]
        installed.kubectl("patch", "crd", crd, "--type=json", "-p", json.dumps(added))


def _process(role, client):
    if role == "controller":
        return Controller(ControllerSettings(connection=client.connection, http_port=0), client)
    return Propagator(client, settings=PropagatorSettings(http_port=0))


async def _readyz(port):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/readyz") as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.proves("N16")
@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ({"properties": {"a": {}}}, {"properties": {}}, "a"),
        ({"properties": {"a": {}}}, {"properties": {"a": {}, "b": {}}}, ""),
        ({"properties": {"a": {"items": {"properties": {"b": {}}}}}}, {"properties": {"a": {"items": {}}}}, "a[].b"),
        ({"properties": {"a": {"additionalProperties": {"properties": {"b": {}}}}}}, {"properties": {"a": {}}}, "a.*"),
        ({"properties": {"a": {"enum": ["x", "y"]}}}, {"properties": {"a": {"enum": ["x"]}}}, "the value y of a"),
        ({"properties": {"a": {"enum": ["x"]}}}, {"properties": {"a": {"enum": ["x", "y"]}}}, ""),
        ({"properties": {"a": {}}}, {"x-kubernetes-preserve-unknown-fields": True}, ""),
        (
            {"properties": {"a": {"x-kubernetes-preserve-unknown-fields": True}}},
            {"properties": {"a": {"properties": {"b": {}}}}},
            "the unknown fields of a",
        ),
    ],
)  # fmt: skip
def test_what_an_older_definition_lacks(ours, theirs, said):
    assert lacking(ours, theirs) == said
