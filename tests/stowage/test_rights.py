"""Both processes at work with the rights of `deploy/rbac.yaml`, and with no more than they use.

The hub is one before Kubernetes 1.36, where the controller does most; it keeps an audit log, which
says what each account asked for and whether it was refused.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from crds.names import SYSTEM_NAMESPACE
from e2e.harness import deployment, workload
from machinery.release import user_agent
from stowage.playground import flags
from stowage.playground.processes import Process
from stowage.setup import install, join, member_rights
from tests.patience import hold_on
from tests.stowage import accounts

from .conftest import FLEET, assert_guarded, listening

pytestmark = FLEET

ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:stowage-"
OBJECTS = Path(__file__).parent / "testdata" / "rights.yaml"
STATES = {"web", "bounded", "ganged", "kept-hold", "follows"}
_RARE = """
controller admissionregistration.k8s.io mutatingadmissionpolicies watch: from Kubernetes 1.36 on
controller admissionregistration.k8s.io mutatingadmissionpolicybindings watch: the same
controller stowage.dev targetnamespaces use: the mutating policy's canary: the same
controller apps controllerrevisions get: before a rollback
controller apps controllerrevisions delete: at the end of a rollout
propagator coordination.k8s.io leases create: for a shard that had no Lease
propagator coordination.k8s.io leases list: of more than eight shards
controller stowage.dev workloadpolicies get: after a lost race
controller stowage.dev workloadquotas get: after a lost race
controller stowage.dev workloadspreads get: after a lost race
controller stowage.dev workloadgroups get: after a lost race
controller stowage.dev reservations get: after a lost race
controller stowage.dev workloadkinds get: after a lost race
controller stowage.dev memberclusters get: after a lost race
controller stowage.dev memberclusters/status patch: a cluster that replicas leave
controller stowage.dev clusterdecisions get,patch,delete: other labels, or none any more
controller multicluster.x-k8s.io placementdecisions get,list,watch,create,patch,delete: where it is switched on
controller - events patch: an event that comes again
propagator - events patch: an event that comes again
propagator stowage.dev workloads get: before orphans are removed
propagator stowage.dev workloadgroups/status patch: where several shards start a group
propagator authorization.k8s.io subjectaccessreviews create: a kind that only the member knows to be cluster-scoped
propagator stowage.dev memberclusters patch: labels that a member's answers change
"""
"""What a run of half a minute need not come to; each is held by the test of what it is for."""
RARE = {
    (role, group.strip("-"), resource, verb)
    for line in _RARE.strip().splitlines()
    for role, group, resource, verbs in [line.partition(":")[0].split()]
    for verb in verbs.split(",")
}
STATUS_WRITE = ("controller", "stowage.dev", "workloads/status", "patch")
AGENT = user_agent("stowage-controller")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("audit") / "log"


@pytest.fixture(scope="module")
def installed(make_cluster, stowage, log):
    """The hub, and what `install` said."""
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Metadata", "users": [f"{ACCOUNT}{role}" for role in accounts.ROLES]},
            {"level": "None"},
        ],
    }
    rules = log.with_name("policy.json")
    rules.write_text(json.dumps(policy))
    audit = (f"--audit-policy-file={rules}", f"--audit-log-path={log}")
    cluster = make_cluster("rights", server_flags=(*flags.BEFORE_1_36, *audit))
    return cluster, stowage.succeed("install", "--wait=false", f"--kubeconfig={cluster.kubeconfig}")


@pytest.fixture(scope="module")
def hub(installed):
    return installed[0]


@pytest.mark.proves("S7", "Y2")
def test_a_hub_before_1_36_gets_the_policies_that_it_serves(installed):
    hub, said = installed
    assert_guarded(hub)
    assert "This hub serves no MutatingAdmissionPolicy v1" in said
    assert "ValidatingAdmissionPolicy v1" not in said
    found = hub.kubectl("get", "validatingadmissionpolicybindings", "-o", "name")
    assert "workload" in found


@pytest.mark.long
@pytest.mark.proves("C1", "C3", "C31", "CT19", "DP2", "N15", "S12", "S13")
async def test_both_do_their_work_with_these_rights_and_use_them_all(
    hub, full_cluster, stowage, tmp_path, log
):
    member = full_cluster
    # Others that share this member may have made it.
    member.kubectl("apply", "-f", "-", input=json.dumps(member_rights.placeholder_class()))
    secret = join.secret("worker", SYSTEM_NAMESPACE, member.admin_kubeconfig, {})
    _create(hub, secret, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rights"}})
    stowage.succeed("tenant", "add", "rights", f"--kubeconfig={hub.kubeconfig}")
    _create(hub, *_objects())
    accounts.rights_in_force(hub)
    processes = []
    try:
        for role in accounts.ROLES:
            kubeconfig = await accounts.kubeconfig(hub, role, tmp_path)
            arguments = [sys.executable, "-m", "stowage", role, f"--kubeconfig={kubeconfig}"]
            arguments += (
                ["--http-port=0", "--http-host=0.0.0.0"]
                if role == "controller"
                else ["--http-port=0"]
            )
            processes.append(Process(role, arguments, tmp_path / f"{role}.log"))
            processes[-1].start(detached=False)
        _until(lambda: _states(hub) == dict.fromkeys(STATES, "Running"))
        _ask_a_guarded_page(listening(processes[0].log), await accounts.token(hub, "propagator"))
        # Events stand behind what they tell of.
        _until(lambda: {"Scheduled", "Propagated"} <= _events(hub))
        _until(lambda: _decided(hub) == ["worker"])
        valid = "jsonpath={.status.conditions[?(@.type=='Valid')].status}"
        _until(lambda: hub.kubectl("get", "wk", "gadget.example.com", "-o", valid) == "True")
        _hold_an_edit_back(hub, "ganged")
        hub.kubectl("-n", "rights", "delete", "rsv", "kept")
        _until(lambda: "kept-hold" not in _states(hub))
        decided = _changes(hub)
        hub.kubectl("-n", "rights", "delete", "wl", "--all", "--timeout=240s")
        assert "web" not in member.kubectl("-n", "rights", "get", "deployments", "-o", "name")
    finally:
        for process in processes:
            process.end()
    for process in processes:
        assert "orbidden" not in process.log.read_text(), process.tail()
    whole = log.read_text().rpartition("\n")[0]  # the last line may be in the making
    asked = [_Asked(json.loads(line)) for line in whole.splitlines()]
    refused = {each.right for each in asked if each.code == 403}
    assert refused == set()
    used = {each.right for each in asked if each.right[2]}
    written = {(each.name, each.agent) for each in asked if each.right == STATUS_WRITE}
    assert decided
    assert {(name, f"{AGENT} decision/{change}") for name, change in decided} <= written
    granted = _granted()
    assert used <= granted  # else somebody else gave them that, such as the group of all accounts
    assert granted >= RARE
    unneeded = granted - used - RARE
    assert not unneeded, f"rights that nobody needs: {sorted(unneeded)}"


def _hold_an_edit_back(hub, name):
    """Edit a template in a paused rollout: the member keeps the revision that it has."""
    template = deployment(name, image="nginx:2")
    patch = json.dumps({"spec": {"template": template, "rollout": {"paused": True}}})
    wl = ("-n", "rights", f"--patch={patch}", "--type=merge")
    hub.kubectl("patch", "wl", name, *wl)

    def held():
        found = json.loads(hub.kubectl("-n", "rights", "get", "wl", name, "-o", "json"))
        status, now = found["status"], found["metadata"]["generation"]
        wrote = [each.get("observedGeneration") for each in status["clusters"]]
        return bool(status.get("revisions")) and wrote == [now]

    _until(held)


def _changes(hub):
    """Each change of placement: the Workload, and the id of the decision."""
    found = json.loads(hub.kubectl("-n", "rights", "get", "wl", "-o", "json"))["items"]
    return {
        (each["metadata"]["name"], change["id"])
        for each in found
        for change in each["status"].get("history", [])
    }


class _Asked:
    """One line of the audit log."""

    def __init__(self, line):
        about = line.get("objectRef", {})
        resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
        role = line["user"]["username"].removeprefix(ACCOUNT)
        self.right = (role, about.get("apiGroup", ""), resource, line["verb"])
        self.code = line["responseStatus"]["code"]
        self.name, self.agent = about.get("name", ""), line.get("userAgent", "")


def _granted():
    """Role, group, resource, verb: everything that the manifests give, and a tenant on this hub."""
    objects = install.manifests(namespace=SYSTEM_NAMESPACE, image="any")
    objects += install.wide(SYSTEM_NAMESPACE)
    named = {(o["kind"], o["metadata"]["name"]): o for o in objects}
    rights = set()
    for each in objects:
        if not each["kind"].endswith("RoleBinding"):
            continue
        rules = named[each["roleRef"]["kind"], each["roleRef"]["name"]]["rules"]
        for subject in each["subjects"]:
            role = subject["name"].removeprefix("stowage-")
            rights |= {
                (role, group, resource, verb)
                for rule in rules
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            }
    return rights


def _create(hub, *objects):
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    hub.kubectl("create", "-f", "-", input=json.dumps(listed))


def _until(check):
    hold_on(check, seconds=60, every=0.5)


def _states(hub):
    items = json.loads(hub.kubectl("-n", "rights", "get", "wl", "-o", "json"))["items"]
    return {each["metadata"]["name"]: each.get("status", {}).get("state") for each in items}


def _decided(hub):
    found = json.loads(hub.kubectl("-n", "rights", "get", "cd", "web", "-o", "json"))
    return [each["clusterName"] for each in found["status"]["decisions"]]


def _events(hub):
    listed = hub.kubectl("-n", "rights", "get", "events.events.k8s.io", "-o", "json")
    return {event["reason"] for event in json.loads(listed)["items"]}


def _ask_a_guarded_page(port, token):
    """The controller asks who that is, and whether they may; the answer is no."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/apis/v1/__services__",
        headers={"Authorization": f"Bearer {token}"},
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    with refused.value:
        assert refused.value.code == 403


def _objects():
    found = list(yaml.safe_load_all(OBJECTS.read_text()))
    wave = {"name": "all", "clusterSelector": {}}
    return [
        *found,
        _workload("web", {}, resources=[{"name": "db"}], publish={"clusterDecision": True}),
        _workload("ganged", {"stowage.dev/workload-group": "gang"}, rollout={"waves": [wave]}),
        _workload("bounded", {"workload-policy.kosmos.io": "one", "app": "bounded"}),
    ]


def _workload(name, labels, **spec):
    made = workload(name, "rights", template=deployment(name), **spec)
    made["metadata"]["labels"] = labels
    return made
