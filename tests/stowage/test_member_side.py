"""What joining makes on a member whose server is bare, step by step, and what of it goes again."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from unittest.mock import create_autospec

import pytest

from crds.names import ANNOTATION_GIVEN, LABEL_TENANT, SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import CONFIG_MAPS, NAMESPACES
from machinery.clock import SystemClock, microtime
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, Invalid, NotFound, StowageError
from machinery.tasks import end
from propagator.credentials.credentials import PodSecurity, Rights
from propagator.members.tenants import MOST_REFUSED, Tenants
from propagator.members.watches import Watches
from stowage.setup import member_rights, member_side
from tests.patience import until


@pytest.fixture
async def bare(apiserver):
    """A client of a member on which nothing was done, with its way there."""
    async with ApiClient(apiserver.connection()) as client:
        yield client, apiserver
        await member_side.remove_all(client, SYSTEM_NAMESPACE, lambda _: None)
        with suppress(NotFound):  # the note of what it was given outlives that
            note = {"metadata": {"annotations": {ANNOTATION_GIVEN: None}}}
            await client.merge_patch(NAMESPACES, SYSTEM_NAMESPACE, note)


@pytest.mark.proves("S8")
async def test_without_policies_namespaces_are_given_by_name_alone(bare, monkeypatch):
    client, cluster = bare

    async def unserved(_):
        return False

    monkeypatch.setattr(member_side, "_serves_policies", unserved)
    said = []
    side = member_side.Side(namespace=SYSTEM_NAMESPACE, member=cluster.connection())
    with pytest.raises(ConfigurationError, match="name them by --target-namespace"):
        await member_side.set_up(client, side, "", said.append)
    with pytest.raises(ConfigurationError, match=r"Kubernetes 1\.30"):
        await member_side.set_up(client, replace(side, new_namespaces=True), "", said.append)
    named = replace(side, targets=("named",))
    assert await member_side.set_up(client, named, "", said.append)
    assert said[-1] == "takes the namespaces that were named, and no others"
    accounts = cluster.kubectl("get", "serviceaccounts", "-A", "-l", LABEL_TENANT, "-o", "name")
    assert sorted(accounts.split()) == ["serviceaccount/stowage", "serviceaccount/stowage-member"]


@pytest.mark.proves("S8")
async def test_what_takes_namespaces_by_name_goes_on_doing_so(bare):
    client, cluster = bare
    side = member_side.Side(
        namespace=SYSTEM_NAMESPACE,
        member=cluster.connection(),
        targets=("one",),
        new_namespaces=False,
    )
    token = await member_side.set_up(client, side, "", lambda _: None)
    later = replace(side, targets=("two",), new_namespaces=None)
    assert await member_side.set_up(client, later, token, lambda _: None) == token
    accounts = cluster.kubectl("get", "serviceaccounts", "-A", "-l", LABEL_TENANT)
    assert "one " in accounts
    assert "two " in accounts
    assert "stowage-namespaces" not in accounts
    wider = replace(side, targets=(), new_namespaces=True)
    assert await member_side.set_up(client, wider, "", lambda _: None) != token
    assert "stowage-namespaces" in cluster.kubectl("get", "serviceaccounts", "-A")


@pytest.fixture
async def looking(bare):
    """What a propagator knows of the namespaces of that member, with the token of `set_up`."""
    _, cluster = bare
    admin, heard = cluster.connection(), []
    async with AsyncExitStack() as stack:

        async def begin(token):
            connection = Connection(server=admin.server, ca=admin.ca, token=token)
            client = await stack.enter_async_context(ApiClient(connection))
            watches = create_autospec(Watches, instance=True)
            known = Tenants(
                client,
                member="m1",
                home=SYSTEM_NAMESPACE,
                watches=watches,
                clock=SystemClock(),
                notify=lambda: heard.append(known.facts()),
            )
            watching = asyncio.create_task(known.informer.run())
            stack.push_async_callback(end, [watching])
            await until(lambda: known.listed)
            return known, heard

        yield begin


@pytest.mark.proves("N18")
async def test_where_namespaces_are_given_by_name_the_propagator_knows_which(bare, looking):
    client, cluster = bare
    side = member_side.Side(
        namespace=SYSTEM_NAMESPACE,
        member=cluster.connection(),
        targets=("one",),
        new_namespaces=False,
    )
    token = await member_side.set_up(client, side, "", lambda _: None)
    known, heard = await looking(token)
    assert known.facts() is None, "not known yet"

    async def says(facts):
        """The API server learns by and by what `set_up` has just given or taken."""
        await known.check()
        return known.facts() == facts

    await until(lambda: says({"given": ["one"]}))
    await member_side.set_up(client, replace(side, targets=("two",)), token, lambda _: None)
    await until(lambda: heard[-1] == {"given": ["one", "two"]})
    wider = replace(side, targets=(), new_namespaces=True)
    await member_side.set_up(client, wider, token, lambda _: None)
    await until(lambda: says({}))


@pytest.mark.proves("N18")
async def test_what_was_refused_is_known_until_it_is_given_or_gone(bare, looking):
    client, cluster = bare
    side = member_side.Side(namespace=SYSTEM_NAMESPACE, member=cluster.connection())
    token = await member_side.set_up(client, side, "", lambda _: None)
    known, heard = await looking(token)
    for name in ("settled", "labelled"):
        cluster.kubectl("create", "namespace", name)
    known.recall(["settled", "labelled", "gone"])

    async def says(*refused):
        await known.check()
        return known.facts() == {"refused": [*refused]}

    await until(lambda: says("labelled", "settled"))
    known.recall(["never-again"])
    cluster.kubectl("label", "namespace", "labelled", f"{LABEL_TENANT}=true")
    await until(lambda: says("settled"))
    assert heard[-1] == {"refused": ["settled"]}
    for number in range(2 * MOST_REFUSED):
        known.refuse(f"n{number}")
    assert len(known.facts()["refused"]) == MOST_REFUSED


@pytest.mark.proves("S8")
async def test_the_account_that_makes_namespaces_is_not_left_unbounded(bare, monkeypatch):
    """A policy without binding is never in force. In a namespace of its own: no other test's is."""
    client, cluster = bare
    monkeypatch.setattr(member_side, "FORCE_SECONDS", 2.0)
    policy, _ = member_rights.maker_policy("elsewhere", PodSecurity.BASELINE)
    monkeypatch.setattr(member_rights, "maker_policy", lambda *_: [policy])
    side = member_side.Side(namespace="elsewhere", member=cluster.connection())
    with pytest.raises(StowageError, match="is not in force after 2 s"):
        await member_side.set_up(client, side, "", lambda _: None)
    left = cluster.kubectl("get", "serviceaccounts,rolebindings", "-A", "-o", "name")
    assert "stowage-namespaces" not in left
    await member_side.remove_all(client, "elsewhere", lambda _: None)


@pytest.mark.long
@pytest.mark.proves("S8")
async def test_no_account_writes_everywhere_before_its_policy_is_in_force(bare, monkeypatch):
    """A policy without binding is never in force. In a namespace of its own: no other test's is."""
    client, cluster = bare
    whole = member_rights.cluster_policy("elsewhere")
    side = member_side.Side(
        namespace="elsewhere", member=cluster.connection(), rights=Rights.CLUSTER
    )
    with monkeypatch.context() as patched:
        patched.setattr(member_side, "FORCE_SECONDS", 2.0)
        patched.setattr(member_rights, "cluster_policy", lambda _: whole[:1])
        with pytest.raises(StowageError, match="so the account was given no further right"):
            await member_side.set_up(client, side, "", lambda _: None)
    assert "stowage-member" not in cluster.kubectl("get", "clusterrolebindings", "-o", "name")
    token = await member_side.set_up(client, side, "", lambda _: None)
    async with ApiClient(member_side.as_account(side.member, token)) as itself:
        settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "t"}}
        with pytest.raises(Invalid, match="never a target"):
            await itself.create(CONFIG_MAPS, settings, namespace="kube-system")
    await member_side.remove_all(client, "elsewhere", lambda _: None)


CLASS = "stowage-placeholder"


def _class_of(cluster):
    found = cluster.kubectl("get", "priorityclass", "--ignore-not-found", CLASS, "-o", "json")
    return json.loads(found) if found.strip() else None


@pytest.mark.long
async def test_the_class_of_placeholders_comes_and_goes_with_the_member(bare):
    client, cluster = bare
    side = member_side.Side(
        namespace=SYSTEM_NAMESPACE, member=cluster.connection(), targets=["placeheld"]
    )
    said: list[str] = []
    cluster.kubectl("create", "namespace", "placeheld")
    await member_side.set_up(client, side, "", said.append)
    found = _class_of(cluster)
    assert (found["value"], found["preemptionPolicy"]) == (-1_000_000_000, "Never")
    assert not found.get("globalDefault")
    version = found["metadata"]["resourceVersion"]
    await member_side.set_up(client, side, "", said.append)
    assert _class_of(cluster)["metadata"]["resourceVersion"] == version
    await member_side.remove_all(client, SYSTEM_NAMESPACE, said.append)
    assert _class_of(cluster) is None

    cluster.kubectl("create", "priorityclass", CLASS, "--value=7")
    await member_side.set_up(client, side, "", said.append)
    assert said.count(
        f"warning: its PriorityClass {CLASS} is somebody else's, and another one: "
        "Reservations with `hold: Member` keep no room there"
    )
    assert _class_of(cluster)["value"] == 7
    await member_side.remove_all(client, SYSTEM_NAMESPACE, said.append)
    assert _class_of(cluster)["value"] == 7, "it was not ours"
    cluster.kubectl("delete", "priorityclass", CLASS)


@pytest.mark.proves("Q15")
async def test_what_a_hub_left_on_a_member_is_shown_and_removed_on_a_word(bare, stowage):
    client, cluster = bare
    cluster.kubectl("create", "namespace", "given")
    side = member_side.Side(
        namespace=SYSTEM_NAMESPACE,
        member=cluster.connection(),
        targets=["given"],
        new_namespaces=False,
    )
    await member_side.set_up(client, side, "", lambda _: None)
    asked = ["clean", f"--member-kubeconfig={cluster.kubeconfig}"]
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "stowage-hub", "namespace": SYSTEM_NAMESPACE},
        "spec": {"holderIdentity": "u-1 https://hub.example p-1"},
    }
    for ago, code in ((20, 1), (400, 0)):
        lease["spec"]["renewTime"] = microtime(SystemClock().now() - timedelta(seconds=ago))
        cluster.kubectl("apply", "-f", "-", input=json.dumps(lease))
        done = await asyncio.to_thread(stowage, *asked, *(["--yes"] if code else []))
        assert done.code == 1, "it is served, or nobody confirms"
        assert ("These go:" in done.out) is not code
        assert _account(cluster), "nothing is removed yet"
        if code:
            assert "a hub at https://hub.example serves this cluster: it renewed Lease" in done.err
            assert "Run `stowage unjoin` against that hub; 300 s after" in done.err
    done = await asyncio.to_thread(stowage, *asked, "--yes")
    assert done.code == 0
    shown, _, told = done.out.partition("\nRoleBinding")
    assert shown.splitlines() == [
        "These go:",
        "  RoleBinding given/stowage",
        "  RoleBinding given/stowage-acting",
        "  ServiceAccount given/stowage",
        "  Namespace given: the label stowage.dev/tenant",
        "  PriorityClass stowage-placeholder",
        f"  Lease {SYSTEM_NAMESPACE}/stowage-hub",
        "  ClusterRoleBinding stowage-member",
        f"  RoleBinding {SYSTEM_NAMESPACE}/stowage-member",
        f"  Role {SYSTEM_NAMESPACE}/stowage-member",
        f"  ServiceAccount {SYSTEM_NAMESPACE}/stowage-member",
        "  ClusterRole stowage-member",
        "  ClusterRole stowage-acting",
        "  ClusterRole stowage-tenant",
    ]
    assert told.splitlines()[-1].startswith(f"done; namespaces stay, {SYSTEM_NAMESPACE} among them")
    assert not _account(cluster)
    cleaned = await asyncio.to_thread(stowage.succeed, *asked)
    assert cleaned == "nothing that `stowage join` makes is there\n"


def _account(cluster):
    named = ("-n", SYSTEM_NAMESPACE, "stowage-member", "--ignore-not-found", "-o", "name")
    return cluster.kubectl("get", "serviceaccount", *named).strip()


@pytest.mark.proves("Q5", "Q6")
async def test_what_a_member_was_given_is_taken_up_by_the_next_join_of_it(bare):
    client, cluster = bare
    side = member_side.Side(namespace=SYSTEM_NAMESPACE, member=cluster.connection())
    first = replace(side, allow=("ing", "leases.coordination.k8s.io"), targets=("shop",))
    await member_side.set_up(client, first, "", lambda _: None)
    for _ in range(2):  # while it is joined, and after it was not any more
        said = []
        await member_side.set_up(client, replace(side, allow=("configmaps",)), "", said.append)
        assert said[1] == (
            "takes up what it was joined with before: --allow networking.k8s.io/ingresses "
            "--allow coordination.k8s.io/leases --target-namespace shop (--anew leaves that out)"
        )
        assert _given(cluster, "ingresses")
        assert _given(cluster, "leases")
        assert cluster.kubectl("get", "ns", "shop", "-o", "jsonpath={.metadata.labels}")
        await member_side.remove_all(client, SYSTEM_NAMESPACE, lambda _: None)
        # So that the second round begins as the first one did.
        await member_side.set_up(client, replace(first, anew=True), "", lambda _: None)
    said = []
    await member_side.set_up(client, replace(side, anew=True), "", said.append)
    assert not [line for line in said if "takes up" in line]
    assert not _given(cluster, "leases")


@pytest.mark.proves("Q6")
async def test_a_kind_that_nobody_knows_is_refused_before_anything_is_made(bare):
    client, cluster = bare
    side = member_side.Side(namespace=SYSTEM_NAMESPACE, member=cluster.connection())
    said = []
    with pytest.raises(ConfigurationError, match="--allow widgits: the member knows no such kind"):
        await member_side.set_up(client, replace(side, allow=("widgits",)), "", said.append)
    assert said == []


def _given(cluster, resource):
    role = json.loads(cluster.kubectl("get", "clusterrole", "stowage-tenant", "-o", "json"))
    return any(resource in rule["resources"] for rule in role["rules"])
