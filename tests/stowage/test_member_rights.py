"""What the credential of a joined member may do, asked with the real token, and tried for real."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from crds.names import LABEL_TENANT, POD_DELETION_COST, SYSTEM_NAMESPACE
from machinery.config.kubeconfig import parse_kubeconfig
from propagator.credentials.accounts import TENANT_ROLE
from propagator.credentials.tokens import life_of
from stowage.playground.processes import wait_until
from tests.patience import PATIENCE
from tests.stowage import accounts

from .conftest import FLEET
from .placing import place, served

pytestmark = [FLEET, pytest.mark.long]

MAKER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:stowage-namespaces"
POLICY = "ValidatingAdmissionPolicy 'stowage-namespaces'"

WORST = (
    "list secrets -A",
    "get secrets -n kube-system",
    "get secrets -n default",
    "list configmaps -A",
    "update configmaps -n kube-system",
    "create serviceaccounts/clusterrole-aggregation-controller --subresource=token -n kube-system",
    "create serviceaccounts/stowage-namespaces --subresource=token -n stowage-system",
    "impersonate users",
    "impersonate groups",
    "impersonate serviceaccounts -A",
    "impersonate serviceaccounts/stowage -n kube-system",
    "impersonate serviceaccounts/default -n kube-system",
    "create clusterrolebindings.rbac.authorization.k8s.io",
    "create rolebindings.rbac.authorization.k8s.io -n kube-system",
    "bind clusterroles.rbac.authorization.k8s.io/cluster-admin",
    "escalate clusterroles.rbac.authorization.k8s.io",
    "create deployments.apps -n kube-system",
    "create deployments.apps -n default",
    "create pods -n kube-system",
    "patch pods -n kube-system",
    "patch pods -n default",
    "create pods --subresource=exec -n kube-system",
    "delete poddisruptionbudgets.policy -n default",
    "patch poddisruptionbudgets.policy --subresource=status -n default",
    "get nodes --subresource=proxy",
    "get pods --subresource=log -n kube-system",
    "delete nodes",
    "patch nodes",
    "create namespaces",
    "delete namespaces",
    "patch namespaces/kube-system",
    "create customresourcedefinitions.apiextensions.k8s.io",
    "create mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "delete validatingadmissionpolicies.admissionregistration.k8s.io/stowage-namespaces",
    "create apiservices.apiregistration.k8s.io",
    "create persistentvolumes",
    "update certificatesigningrequests.certificates.k8s.io --subresource=approval",
    "create events -n kube-system",
    "list events -A",
    "list events -n default",
    "* * -A",
)
"""Verb, resource[/name], and how kubectl is told the rest. Each would be a way out."""


@pytest.fixture(scope="module")
def fleet(propagated_hub):
    return propagated_hub


@pytest.fixture(scope="module")
def member(make_cluster):
    return make_cluster("narrow", controller_manager=True)


@pytest.fixture(scope="module")
def stolen(fleet, member, stowage, tmp_path_factory):
    """The kubeconfig that lies on the hub, in a file."""
    stowage.succeed(
        "join", "narrow",
        f"--kubeconfig={fleet.kubeconfig}", f"--member-kubeconfig={member.kubeconfig}",
    )  # fmt: skip
    found = _get(fleet, "-n", SYSTEM_NAMESPACE, "secret", "narrow")
    stolen = tmp_path_factory.mktemp("stolen") / "kubeconfig"
    stolen.write_bytes(base64.b64decode(found["data"]["kubeconfig"]))
    return stolen


@pytest.fixture(scope="module")
def thief(stolen, member):
    """kubectl with nothing but that."""

    def kubectl(*arguments, **how):
        return member.kubectl(f"--kubeconfig={stolen}", *arguments, **how)

    return kubectl


def _may(stolen, what):
    return asyncio.run(accounts.may(parse_kubeconfig(stolen.read_bytes()), what))


@pytest.mark.long
@pytest.mark.proves("S8")
@pytest.mark.parametrize("what", WORST)
def test_a_stolen_kubeconfig_may_not(stolen, what):
    assert not _may(stolen, what)


NEEDED = [
    "list deployments.apps -A",
    "watch pods -A",
    "list poddisruptionbudgets.policy -A",
    "watch poddisruptionbudgets.policy -A",
    "list nodes",
    "list resourcequotas -A",
    "watch resourcequotas -A",
    "list serviceaccounts -A",
    "create serviceaccounts/stowage-member --subresource=token -n stowage-system",
    "impersonate serviceaccounts/stowage-namespaces -n stowage-system",
    "get /readyz",
]


def test_it_may_do_what_the_propagator_needs(stolen):
    assert [what for what in NEEDED if not _may(stolen, what)] == []


def _apply(thief, body, *, user=MAKER, dry=False):
    """Apply as the account that makes namespaces; what kubectl said."""
    how = ("--server-side", "--field-manager=thief", f"--as={user}")
    more = ("--dry-run=server",) if dry else ()
    return thief("apply", *how, *more, "-f", "-", input=json.dumps(body), check=False)


def _account(namespace, name="stowage"):
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}


def _binding(namespace, name="stowage", role=TENANT_ROLE, subject=None, kind="ClusterRole"):
    subject = subject or {"kind": "ServiceAccount", "name": "stowage", "namespace": namespace}
    rbac = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": rbac, "kind": kind, "name": role},
        "subjects": [subject],
    }


MEMBER_SUBJECT = {
    "kind": "ServiceAccount",
    "name": "stowage-member",
    "namespace": SYSTEM_NAMESPACE,
}


@pytest.fixture(scope="module")
def _spaces(member):
    """One that existed before, and one that was given to tenants."""
    for name, labels in (("lived-in", {}), ("given", {LABEL_TENANT: "true"})):
        meta = {"name": name, "labels": labels}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        member.kubectl("apply", "-f", "-", input=json.dumps(space))


@pytest.mark.long
@pytest.mark.proves("S8")
@pytest.mark.usefixtures("_spaces")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(_account("kube-system"), id="account-in-kube-system"),
        pytest.param(_account("default"), id="account-in-default"),
        pytest.param(_account("lived-in"), id="account-in-what-existed-before"),
        pytest.param(_account(SYSTEM_NAMESPACE), id="account-beside-our-own"),
        pytest.param(_account("given", "other"), id="account-of-another-name"),
        pytest.param(_binding("kube-system"), id="binding-in-kube-system"),
        pytest.param(_binding("lived-in"), id="binding-in-what-existed-before"),
        pytest.param(
            _binding("kube-system", "stowage-acting", "stowage-acting", MEMBER_SUBJECT),
            id="acting-in-kube-system",
        ),
        pytest.param(_binding("given", role="cluster-admin"), id="binding-of-another-role"),
        pytest.param(_binding("given", role="stowage-acting"), id="binding-of-the-other-role"),
        pytest.param(_binding("given", "other"), id="binding-of-another-name"),
        pytest.param(
            _binding("given", subject={"kind": "Group", "name": "system:authenticated"}),
            id="binding-for-everybody",
        ),
        pytest.param(_binding("given", subject=MEMBER_SUBJECT), id="binding-for-ourselves"),
        pytest.param(
            _binding(
                "given", subject={**MEMBER_SUBJECT, "name": "stowage", "namespace": "lived-in"}
            ),
            id="binding-for-the-account-of-another-namespace",
        ),
    ],
)
def test_nor_by_way_of_the_account_that_makes_namespaces(thief, member, body):
    """Tried on the server, first as a rehearsal, then for real."""
    for dry in (True, False):
        said = _apply(thief, body, dry=dry)
        assert POLICY in said or "forbidden" in said.lower(), said
    meta = body["metadata"]
    found = member.kubectl(
        "get", body["kind"], meta["name"], "-n", meta["namespace"], "--ignore-not-found"
    )
    assert not found


@pytest.mark.proves("S8")
def test_a_namespace_is_made_in_one_form_only(thief):
    for name, labels, may in (
        ("shop", {LABEL_TENANT: "true", "pod-security.kubernetes.io/enforce": "baseline"}, True),
        ("shop2", {LABEL_TENANT: "true", "pod-security.kubernetes.io/enforce": "restricted"}, True),
        (
            "shop3",
            {LABEL_TENANT: "true", "pod-security.kubernetes.io/enforce": "privileged"},
            False,
        ),
        ("shop4", {LABEL_TENANT: "true"}, False),
        ("shop5", {"pod-security.kubernetes.io/enforce": "baseline"}, False),
        (
            "kube-mine",
            {LABEL_TENANT: "true", "pod-security.kubernetes.io/enforce": "baseline"},
            False,
        ),
    ):
        metadata = {"name": name, "labels": labels}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        said = thief(
            "create", "--dry-run=server", f"--as={MAKER}", "-f", "-",
            input=json.dumps(space), check=False,
        )  # fmt: skip
        assert ("created" in said) is may, said
        assert may or POLICY in said, said


def test_a_namespace_that_exists_cannot_be_taken(thief, member):
    labels = {LABEL_TENANT: "true", "pod-security.kubernetes.io/enforce": "baseline"}
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "default", "labels": labels},
    }
    assert "forbidden" in _apply(thief, space).lower()
    assert LABEL_TENANT not in member.kubectl("get", "namespace", "default", "-o", "yaml")


def _get(cluster, *what):
    return json.loads(cluster.kubectl("get", *what, "-o", "json"))


def _until(check):
    return wait_until(check, seconds=PATIENCE * 60, every=0.5)


def _workload(name, namespace, **spec):
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    brought = {"manifests": [settings | {"data": {"colour": "red"}}], **spec}
    return served(name, namespace, **brought)


def _propagated(hub, name, namespace):
    conditions = _get(hub, "-n", namespace, "wl", name).get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == "Propagated"), {})


def _ours(member, namespace):
    kinds = "deployments,services,configmaps,secrets"
    listed = member.kubectl(
        "get", kinds, "-n", namespace, "-l", "stowage.dev/managed=true", "-o", "name"
    )
    return listed.split()


@pytest.mark.proves("S8", "KD62")
def test_a_workload_arrives_in_a_fresh_namespace_changes_and_goes(fleet, member, thief):
    fleet.kubectl("create", "namespace", "fresh")
    fleet.kubectl("-n", "fresh", "create", "secret", "generic", "db", "--from-literal=user=me")
    body = _workload("web", "fresh", resources=[{"name": "db", "secretName": "db"}])
    fleet.kubectl("apply", "-f", "-", input=json.dumps(body))
    place(fleet, "web", "fresh", "narrow")
    assert _until(lambda: _propagated(fleet, "web", "fresh").get("status") == "True"), _propagated(
        fleet, "web", "fresh"
    )
    assert len(_ours(member, "fresh")) == 4
    as_tenant = "--as=system:serviceaccount:fresh:stowage"
    assert thief("auth", "can-i", "list", "events", "-n", "fresh", as_tenant).strip() == "yes"
    labels = _get(member, "namespace", "fresh")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    fleet.kubectl(
        "-n", "fresh", "patch", "secret", "db", "-p", json.dumps({"stringData": {"user": "you"}})
    )
    assert _until(lambda: _get(member, "-n", "fresh", "secret", "db")["data"]["user"] == "eW91")
    member.kubectl("-n", "fresh", "delete", "configmap", "web")
    assert _until(lambda: "configmap/web" in _ours(member, "fresh"))
    fleet.kubectl("-n", "fresh", "delete", "wl", "web", "--timeout=240s")
    assert _ours(member, "fresh") == []


@pytest.mark.long
@pytest.mark.proves("W14", "S8")
@pytest.mark.usefixtures("thief")
def test_the_pods_of_a_namespace_get_their_deletion_costs_with_its_own_rights(fleet, member):
    def costs():
        pods = _get(member, "-n", "priced", "pods")["items"]
        return [pod["metadata"].get("annotations", {}).get(POD_DELETION_COST) for pod in pods]

    fleet.kubectl("create", "namespace", "priced")
    fleet.kubectl("apply", "-f", "-", input=json.dumps(_workload("web", "priced")))
    costly = {"name": "narrow", "deletionCosts": [{"cost": 200, "replicas": 1}]}
    place(fleet, "web", "priced", "narrow", overrides=[{"name": "normal", "clusters": [costly]}])
    assert _until(lambda: costs() == ["200"]), costs()
    fleet.kubectl("-n", "priced", "delete", "wl", "web", "--timeout=240s")


@pytest.mark.long
@pytest.mark.proves("S8", "N18")
@pytest.mark.usefixtures("thief")
def test_what_existed_before_is_not_taken_until_it_is_given(fleet, member, stowage):
    member.kubectl("create", "namespace", "settled")
    fleet.kubectl("create", "namespace", "settled")
    fleet.kubectl("apply", "-f", "-", input=json.dumps(_workload("web", "settled")))
    place(fleet, "web", "settled", "narrow")

    def said():
        return _propagated(fleet, "web", "settled")

    assert _until(lambda: said().get("reason") == "NamespaceNotAllowed"), said()
    assert "it exists there and was not given to Stowage" in said()["message"]
    assert "--target-namespace settled" in said()["message"]
    assert _ours(member, "settled") == []

    def refused():
        status = _get(fleet, "membercluster", "narrow")["status"]
        return status["namespaces"].get("refused", [])

    assert _until(lambda: "settled" in refused()), refused()
    stowage.succeed(
        "join", "narrow", f"--kubeconfig={fleet.kubeconfig}",
        f"--member-kubeconfig={member.kubeconfig}", "--target-namespace", "settled",
    )  # fmt: skip
    assert _until(lambda: said().get("status") == "True"), said()
    assert _until(lambda: "settled" not in refused()), refused()
    fleet.kubectl("-n", "settled", "delete", "wl", "web", "--timeout=240s")
    assert _ours(member, "settled") == []


@pytest.mark.long
@pytest.mark.proves("S8")
@pytest.mark.usefixtures("thief")
@pytest.mark.parametrize("finalizer", [True, False])
def test_a_process_that_begins_finds_what_lies_in_given_namespaces(propagator, member, finalizer):
    """Secrets are seen only namespace by namespace: of a Workload that goes, and of one that went."""
    fleet, process = propagator
    name = "leaves" if finalizer else "left"
    fleet.kubectl("create", "namespace", name)
    fleet.kubectl("-n", name, "create", "secret", "generic", "db", "--from-literal=user=me")
    body = _workload("web", name, resources=[{"name": "db", "secretName": "db"}])
    fleet.kubectl("apply", "-f", "-", input=json.dumps(body))
    place(fleet, "web", name, "narrow")
    assert _until(lambda: _propagated(fleet, "web", name).get("status") == "True")
    process.end()
    fleet.kubectl("-n", name, "delete", "wl", "web", "--wait=false")
    if not finalizer:
        patch = json.dumps({"metadata": {"finalizers": None}})
        fleet.kubectl("-n", name, "patch", "wl", "web", "--type=merge", "-p", patch)
    process.start(detached=False)
    assert _until(lambda: _ours(member, name) == []), _ours(member, name)
    assert _until(lambda: "web" not in fleet.kubectl("-n", name, "get", "wl", "-o", "name"))


@pytest.mark.proves("S8")
@pytest.mark.usefixtures("thief")
def test_a_tenant_cannot_take_over_the_account_of_its_namespace(fleet, member):
    fleet.kubectl("create", "namespace", "sly")
    mine = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "stowage"}}
    body = _workload("web", "sly", manifests=[mine], adoption="IfUnowned")
    fleet.kubectl("apply", "-f", "-", input=json.dumps(body))
    place(fleet, "web", "sly", "narrow")

    def said():
        return _propagated(fleet, "web", "sly")

    assert _until(lambda: said().get("reason") == "AlreadyExists"), said()
    assert "what Stowage itself needs" in said()["message"]
    fleet.kubectl("-n", "sly", "delete", "wl", "web", "--timeout=240s")
    assert member.kubectl("-n", "sly", "get", "serviceaccount", "stowage", "-o", "name")


@pytest.mark.usefixtures("thief")
def test_the_token_ends_and_the_secret_says_what_it_is(fleet):
    data = _get(fleet, "-n", SYSTEM_NAMESPACE, "secret", "narrow")["data"]
    said = {key: base64.b64decode(value).decode() for key, value in data.items()}
    life = life_of(parse_kubeconfig(said.pop("kubeconfig").encode()).token)
    assert (life.expires - life.issued).days == 30
    assert said == {
        "rights": "narrow",
        "account": f"{SYSTEM_NAMESPACE}/stowage-member",
        "podSecurity": "baseline",
    }


@pytest.mark.proves("S8")
def test_rights_of_the_whole_cluster_stop_before_kube_system(fleet, member, stolen, thief, stowage):
    """The last of this module: the member has other rights afterwards."""
    join = (
        "join", "narrow", f"--kubeconfig={fleet.kubeconfig}",
        f"--member-kubeconfig={member.kubeconfig}",
    )  # fmt: skip
    stowage.succeed(*join, "--rights", "cluster")
    assert _until(lambda: _may(stolen, "create deployments.apps -n default"))
    assert _may(stolen, "watch poddisruptionbudgets.policy -A")
    for never in (
        "impersonate serviceaccounts -A",
        "create serviceaccounts/stowage-namespaces --subresource=token -n stowage-system",
        "create clusterrolebindings.rbac.authorization.k8s.io",
        "create rolebindings.rbac.authorization.k8s.io -n default",
        "delete nodes",
        "delete namespaces",
        "patch namespaces/kube-system",
    ):
        assert not _may(stolen, never), never
    token = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": "t",
            "namespace": "default",
            "annotations": {"kubernetes.io/service-account.name": "default"},
        },
    }
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "t"}}
    for body, namespace in ((settings, "kube-system"), (settings, SYSTEM_NAMESPACE), (token, "")):
        where = [f"-n={namespace}"] if namespace else []
        said = thief("create", *where, "-f", "-", input=json.dumps(body), check=False)
        assert "ValidatingAdmissionPolicy 'stowage-member'" in said, said
    assert "created" in thief("-n=default", "create", "-f", "-", input=json.dumps(settings))

    stowage.succeed(*join)
    assert _until(lambda: not _may(stolen, "create deployments.apps -n default"))
    assert "stowage-member" not in member.kubectl("get", "validatingadmissionpolicy", "-o", "name")
