"""`stowage upgrade` on a real hub that an older release has written."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

import crds
from crds.names import ANNOTATION_RELEASE, GROUP, SYSTEM_NAMESPACE, VERSION
from machinery.api.client import ApiClient
from machinery.api.resources import CRDS, DEPLOYMENTS
from machinery.errors import StowageError
from machinery.release import release
from propagator.credentials.accounts import MEMBER_ACCOUNT, TENANT_ACCOUNT
from stowage.playground.cluster import Cluster
from stowage.setup import install, join, lacking_rights, member_rights, member_side, upgrade
from stowage.setup.told_changes import told
from tests.patience import hold_on

from .conftest import FLEET, Stowage

pytestmark = FLEET
OURS = release()
BEFORE = "0.0.9"
Manifest = dict[str, Any]
RIGHT = "get apps/controllerrevisions"


def older() -> list[Manifest]:
    """What a release before this one has installed: it lacks one of each thing, and has another."""
    objects = copy.deepcopy(
        install.manifests(namespace=SYSTEM_NAMESPACE, image=f"example/stowage:{BEFORE}")
    )
    for each in objects:
        name = each["metadata"]["name"]
        if (each["kind"], name) == (CRDS.kind, f"reservations.{GROUP}"):
            (version,) = each["spec"]["versions"]
            properties = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            del properties["hold"]
        elif (each["kind"], name) == ("ClusterRole", "stowage-propagator"):
            each["rules"] = [r for r in each["rules"] if r["apiGroups"] != ["apps"]]
        elif (each["kind"], name) == (install.MUTATING, f"workloads.{GROUP}"):
            each["spec"]["reinvocationPolicy"] = "Never"
    return [each for each in objects if each["kind"] != "PodDisruptionBudget"]


@pytest.fixture(scope="module")
def hub(make_cluster: Callable[..., Cluster]) -> Cluster:
    return make_cluster("upgraded")


@pytest.fixture
def former(hub: Cluster) -> Cluster:
    """The hub as the older release has left it, with a Workload."""
    hub.kubectl(
        "delete", "poddisruptionbudgets", "--all", "-n", SYSTEM_NAMESPACE, "--ignore-not-found"
    )
    listed = {"apiVersion": "v1", "kind": "List", "items": older()}
    hub.kubectl(
        "apply", "--server-side", "--force-conflicts", f"--field-manager={install.MANAGER}",
        "-f", "-", input=json.dumps(listed),
    )  # fmt: skip
    note_release(hub, BEFORE)
    named = [each["metadata"]["name"] for each in crds.manifests() if each["kind"] == CRDS.kind]
    hub.kubectl("wait", "--for=condition=Established", "crd", *named)
    return hub


def note_release(hub: Cluster, release: str) -> None:
    """As the leaders of that release do."""
    note = f"{ANNOTATION_RELEASE}={release}"
    leases = ("stowage-controller", "stowage-propagator")
    hub.kubectl("annotate", "lease", *leases, "-n", SYSTEM_NAMESPACE, "--overwrite", note)


@pytest.fixture(autouse=True)
def _no_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """This hub runs none, so nothing waits for them."""

    async def at_once(*_: object, **__: object) -> None:
        """Return."""

    monkeypatch.setattr(install, "until_running", at_once)


def state(hub: Cluster, *, versions: bool = False) -> dict[tuple[str, str], Any]:
    """All objects of ours on the hub, without what the server counts unless that is asked for."""
    kinds = (
        "crd,clusterroles,clusterrolebindings,priorityclasses,validatingadmissionpolicies,"
        "validatingadmissionpolicybindings,mutatingadmissionpolicies,"
        "mutatingadmissionpolicybindings,leases,deployments,poddisruptionbudgets,networkpolicies,"
        "roles,rolebindings,serviceaccounts,flowschemas"
    )
    items = json.loads(hub.kubectl("get", kinds, "-A", "-o", "json"))["items"]
    return {
        (each["kind"], each["metadata"]["name"]): (
            each["metadata"]["resourceVersion"] if versions else upgrade._own(each)
        )
        for each in items
        if "stowage" in each["metadata"]["name"]
    }


def rows(printed: str) -> list[list[str]]:
    return [line.split(maxsplit=1) for line in printed.splitlines()[2:-1]]


def upgraded(stowage: Stowage, hub: Cluster, *more: str) -> tuple[int, str]:
    done = stowage("upgrade", f"--kubeconfig={hub.kubeconfig}", *more)
    return done.code, done.out + done.err


@pytest.mark.long
def test_a_hub_without_stowage_is_told(hub: Cluster, stowage: Stowage) -> None:
    """The first test: nothing has been installed yet."""
    code, said = upgraded(stowage, hub, "--check")
    assert (code, said) == (1, "error: this hub has no Stowage: `stowage install`\n")


@pytest.mark.proves("PK15")
def test_a_check_names_each_object_that_the_upgrade_writes_and_writes_nothing(
    former: Cluster, stowage: Stowage
) -> None:
    before = state(former, versions=True)
    code, said = upgraded(stowage, former, "--check")
    assert code == 1, said
    assert state(former, versions=True) == before
    lines = said.splitlines()
    assert lines[0].startswith("hub v1.")
    assert lines[0].endswith(f" runs {BEFORE} (controller, propagator); this is {OURS}")
    assert lines[1].split() == ["STEP", "OBJECT", "CHANGE"]
    found = [" ".join(line.split()) for line in lines[2:-1]]
    assert found == [
        f"kinds reservations.{GROUP} + spec.hold",
        f"policies MutatingAdmissionPolicy workloads.{GROUP} spec.reinvocationPolicy Never → IfNeeded",
        f"rights ClusterRole stowage-propagator + {RIGHT}",
        "rights PodDisruptionBudget stowage-controller new",
        "rights PodDisruptionBudget stowage-propagator new",
        f"processes Deployment stowage-controller image {BEFORE} → {OURS}",
        f"processes Deployment stowage-propagator image {BEFORE} → {OURS}",
    ]
    assert lines[-1] == "7 changes; no replica moves, no pod on a member restarts"

    code, said = upgraded(stowage, former)
    assert code == 0, said
    after = state(former, versions=True)
    changed = {
        f"{kind} {name}" for kind, name in after if after[kind, name] != before.get((kind, name))
    }
    assert changed == {
        line.split()[1] if line.startswith("kinds") else " ".join(line.split()[1:3])
        for line in found
    } - {f"reservations.{GROUP}"} | {f"CustomResourceDefinition reservations.{GROUP}"}  # fmt: skip
    code, said = upgraded(stowage, former, "--check")
    assert (code, said.splitlines()[-1]) == (0, "nothing to change"), said
    assert upgraded(stowage, former)[0] == 0
    assert state(former, versions=True) == after, "a second run writes nothing"


STEPS = [each for each in upgrade.Step if each is not upgrade.Step.MEMBERS]


@pytest.mark.long
@pytest.mark.proves("PK16", "PK6")
@pytest.mark.parametrize("last", STEPS)
def test_an_upgrade_that_was_killed_after_a_step_goes_on_from_there(
    former: Cluster, stowage: Stowage, monkeypatch: pytest.MonkeyPatch, last: upgrade.Step
) -> None:
    done = list[upgrade.Step]()
    applied = install.apply

    async def noting(client: ApiClient, objects: list[Manifest], **how: Any) -> None:
        if done and done[-1] is last:
            raise StowageError("killed")
        (step,) = {upgrade._step(each) for each in objects}
        await applied(client, objects, **how)
        done.append(step)

    with monkeypatch.context() as patched:
        patched.setattr(install, "apply", noting)
        upgraded(stowage, former)
    order = [upgrade.Step.KINDS, upgrade.Step.POLICIES, upgrade.Step.RIGHTS, upgrade.Step.PROCESSES]
    assert done == order[: len(done)]
    assert done[-1] is last or last is upgrade.Step.STORAGE
    code, said = upgraded(stowage, former)
    assert code == 0, said
    with_it = state(former)
    for each in install.manifests(namespace=SYSTEM_NAMESPACE, image=f"example/stowage:{OURS}"):
        if each["kind"] != "Namespace":
            assert (each["kind"], each["metadata"]["name"]) in with_it
    assert upgraded(stowage, former, "--check")[0] == 0
    for each in crds.manifests():
        if each["kind"] == CRDS.kind:
            kept = with_it[CRDS.kind, each["metadata"]["name"]]["metadata"]["annotations"]
            assert kept.items() >= each["metadata"]["annotations"].items()


@pytest.mark.proves("PK18")
@pytest.mark.parametrize(
    ("ours", "running", "says"),
    [
        ("0.2.0", ["0.1.0"], ""),
        ("0.1.4", ["0.1.9", "0.1.0"], "the hub was written by 0.1.9, and this is 0.1.4"),
        ("0.2.0", ["0.2.0", "0.3.0"], "the hub was written by 0.3.0, and this is 0.2.0"),
        (
            "0.4.0",
            ["0.2.0"],
            "0.4.0 is two minor versions ahead of 0.2.0, which runs: upgrade to 0.3.0 first",
        ),
        (
            "0.4.0",
            ["0.3.1", "0.1.0"],
            "0.4.0 is three minor versions ahead of 0.1.0, which runs: upgrade to 0.2.0 first",
        ),
        ("1.0.0", ["0.9.0"], ""),
        ("1.1.0", ["0.9.0"], "1.1.0 is ahead of 0.9.0, which runs: upgrade to 1.0.0 first"),
        ("0.4.0", [], ""),
        ("0.4.0", ["built-here"], ""),
    ],
)
def test_a_jump_and_a_way_back_are_refused_with_the_version_to_take(
    ours: str, running: list[str], says: str
) -> None:
    if not says:
        upgrade.refuse(ours, running)
        return
    with pytest.raises(StowageError) as refused:
        upgrade.refuse(ours, running)
    assert str(refused.value) == says


@pytest.mark.long
@pytest.mark.proves("PK18")
def test_nothing_is_written_where_a_newer_release_has_been(
    former: Cluster, stowage: Stowage
) -> None:
    note_release(former, "9.0.0")
    before = state(former, versions=True)
    for more in ((), ("--check",)):
        code, said = upgraded(stowage, former, *more)
        assert code == 1
        assert f"the hub was written by 9.0.0, and this is {OURS}" in said
    assert state(former, versions=True) == before


@pytest.mark.long
def test_an_image_whose_tag_tells_no_release_has_to_be_named(
    former: Cluster, stowage: Stowage
) -> None:
    for name in ("controller", "propagator"):
        image = f"{name}=example/stowage:nightly"
        former.kubectl("set", "image", "-n", SYSTEM_NAMESPACE, f"deploy/stowage-{name}", image)
    code, said = upgraded(stowage, former, "--check")
    assert code == 1
    assert "name the new image with --image" in said
    code, said = upgraded(stowage, former, "--check", "--image=example/other:2")
    assert "image example/stowage:nightly → example/other:2" in said


@pytest.mark.long
def test_options_of_the_installation_are_read_off_the_hub(
    former: Cluster, stowage: Stowage
) -> None:
    where = ("-n", SYSTEM_NAMESPACE)
    hub = f"--kubeconfig={former.kubeconfig}"
    former.kubectl("create", "namespace", "shop")
    upgraded(stowage, former)
    image = f"--image=example/stowage:{OURS}"
    stowage.succeed("install", hub, image, "--ui", "--wait=false")
    stowage.succeed("tenant", "add", "shop", hub)
    former.kubectl("set", "image", *where, "deploy/stowage-ui", f"ui=example/stowage:{BEFORE}")
    former.kubectl("delete", "rolebinding", "stowage-controller-tenant", "-n", "shop")
    note_release(former, OURS)
    _, said = upgraded(stowage, former, "--check")
    assert [" ".join(line.split()) for line in said.splitlines()[2:-1]] == [
        "rights RoleBinding stowage-controller-tenant new",
        f"processes Deployment stowage-ui image {BEFORE} → {OURS}",
    ]
    former.kubectl("delete", "deploy", "stowage-ui", *where)
    former.kubectl("delete", "namespace", "shop", "--wait=false")


# --- storage --------------------------------------------------------------------------------------


@pytest.mark.proves("PK16", "PK19")
def test_objects_that_an_older_version_has_stored_are_written_anew_once(
    former: Cluster, stowage: Stowage, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgraded(stowage, former)
    name = f"clusterdecisions.{GROUP}"
    two = copy.deepcopy(next(o for o in crds.manifests() if o["metadata"]["name"] == name))
    (ours,) = two["spec"]["versions"]
    old = {**copy.deepcopy(ours), "name": "v1alpha0", "storage": True}
    two["spec"]["versions"] = [{**ours, "storage": False}, old]
    former.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=json.dumps(two))
    for number in range(3):
        former.kubectl("create", "-f", "-", input=json.dumps({
            "apiVersion": f"{GROUP}/v1alpha0", "kind": "ClusterDecision",
            "metadata": {"name": f"d{number}", "namespace": "default"}, "spec": {},
        }))  # fmt: skip
    two["spec"]["versions"] = [ours, {**old, "storage": False}]
    former.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=json.dumps(two))

    def stored() -> list[str]:
        found = json.loads(former.kubectl("get", "crd", name, "-o", "json"))
        return found["status"]["storedVersions"]

    def versions() -> dict[str, str]:
        found = json.loads(former.kubectl("get", "clusterdecisions", "-n", "default", "-o", "json"))
        return {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in found["items"]}

    hold_on(lambda: sorted(stored()) == ["v1alpha0", VERSION])
    before = versions()
    patched = ApiClient.merge_patch
    seen = list[str]()

    async def second_fails(self: ApiClient, res: Any, named: str, *args: Any, **how: Any) -> Any:
        seen.append(named)
        if len(seen) == 2:
            raise StowageError("killed")
        return await patched(self, res, named, *args, **how)

    async def storage(client: ApiClient) -> list[str]:
        rows = []
        async for kind, change in upgrade.stored(client):
            rows.append(f"{change.object} {change.change}")
            await upgrade.store(client, kind, change.object)
        return rows

    async def run() -> list[str]:
        async with ApiClient(former.connection(), name="hub") as client:
            return await storage(client)

    with monkeypatch.context() as killed:
        killed.setattr(ApiClient, "merge_patch", second_fails)
        with pytest.raises(StowageError, match="killed"):
            asyncio.run(run())
    assert sorted(stored()) == ["v1alpha0", VERSION], "forgotten only when all are written"
    between = versions()
    assert len([n for n in before if between[n] != before[n]]) == 1
    assert asyncio.run(run()) == [f"{name} 3 objects stored as v1alpha0"]
    assert stored() == [VERSION]
    after = versions()
    for each in before:
        assert (after[each] != between[each]) is (between[each] == before[each]), "once each"
    assert asyncio.run(run()) == []
    former.kubectl("delete", "clusterdecisions", "-n", "default", "--all")
    former.kubectl("get", "crd", name)


# --- members --------------------------------------------------------------------------------------


@pytest.mark.proves("PK21")
def test_a_member_whose_account_lacks_a_right_is_named_with_its_join(
    former: Cluster, stowage: Stowage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member is the hub itself, as one server suffices for its answers."""
    upgraded(stowage, former)
    note_release(former, OURS)
    former.kubectl("create", "namespace", "given")
    plan = join.Join(
        name="paris",
        namespace=SYSTEM_NAMESPACE,
        member=former.connection(),
        targets=("given",),
    )

    async def joined() -> dict[str, Any]:
        async with ApiClient(former.connection(), name="hub") as client:
            token = await member_side.set_up(client, plan, "", lambda _: None)
            bodies = [
                join.registration(plan, token, "x"),
                join.secret("gone", SYSTEM_NAMESPACE, "none", {}),
            ]
            for body in bodies:
                await install.apply_one(client, body, manager="tests")
            return await lacking_rights.of_members(client, SYSTEM_NAMESPACE)

    found = asyncio.run(joined())
    assert found["paris"].rights == []
    assert isinstance(found["gone"], StowageError)

    # Another kind is managed from this release on: read by the account, written by those of tenants.
    managed = [*member_rights._MANAGED, ("example.com", ["widgets"])]
    monkeypatch.setattr(member_rights, "_MANAGED", managed)
    code, said = upgraded(stowage, former, "--check")
    assert code == 1
    (row,) = (line.split(maxsplit=2) for line in said.splitlines() if line.startswith("members"))
    assert row[1:] == [
        "paris",
        "stowage join paris    # + list example.com/widgets, watch example.com/widgets",
    ]
    assert "gone: what its account may do is not known" in said

    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "widgets"}}
    everything = {"apiGroups": ["example.com"], "resources": ["*"], "verbs": ["*"]}
    role = {**rbac, "kind": "ClusterRole", "rules": [everything]}
    former.kubectl("create", "-f", "-", input=json.dumps(role))
    to = ("create", "clusterrolebinding", "--clusterrole=widgets")
    former.kubectl(*to, "own", f"--serviceaccount={SYSTEM_NAMESPACE}:{MEMBER_ACCOUNT}")
    row = _row_of(upgraded(stowage, former, "--check")[1], "paris")
    assert "+ get example.com/widgets, list example.com/widgets, watch example.com/widgets and 4 more" in row  # fmt: skip
    former.kubectl(*to, "tenant", f"--serviceaccount=given:{TENANT_ACCOUNT}")
    assert _row_of(upgraded(stowage, former, "--check")[1], "paris") == ""


def _row_of(said: str, name: str) -> str:
    return "".join(line for line in said.splitlines() if line.split()[1:2] == [name])


# --- in words -------------------------------------------------------------------------------------


def _deployment(**fields: Any) -> Manifest:
    containers = [{"name": "x", "image": fields.pop("image", "r/s:1")}]
    spec = {"template": {"spec": {"containers": containers}}, **fields}
    return {"kind": DEPLOYMENTS.kind, "spec": spec}


def test_changes_are_told_in_a_few_words() -> None:
    role = {"kind": "Role", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
    more = {"kind": "Role", "rules": [
        {"apiGroups": ["apps"], "resources": ["a", "b"], "verbs": ["get", "list"], "resourceNames": ["n"]},
        {"nonResourceURLs": ["/version"], "verbs": ["get"]},
    ]}  # fmt: skip
    assert told(role, more) == "+ get apps/a n, + get apps/b n, + list apps/a n and 3 more"
    assert told(_deployment(), _deployment(image="r/s:2")) == "image 1 → 2"
    assert told(_deployment(), _deployment(image="q/s:2")) == "image r/s:1 → q/s:2"
    assert told(_deployment(replicas=3), _deployment(replicas=2)) == "spec.replicas 3 → 2"
    assert told(_deployment(a="x" * 99), _deployment(a="y")) == "spec.a"
    definition = next(o for o in crds.manifests() if o["metadata"]["name"] == f"workloads.{GROUP}")
    less = copy.deepcopy(definition)
    spec = less["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["movement"]
    assert told(less, definition) == "+ spec.movement"
    assert told(definition, less) == "- spec.movement"
    less = copy.deepcopy(definition)
    del less["metadata"]["annotations"]
    assert told(less, definition) == "other fields"
