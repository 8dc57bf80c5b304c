"""`stowage rename` on a hub without processes: what it asks, prints, refuses, and where it goes on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from crds.names import LABEL_CLUSTER, LABEL_REGISTER, SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, SECRETS, WORKLOADS
from machinery.errors import ConfigurationError, StowageError
from stowage.playground.controlplanes import Cluster
from stowage.setup import rename
from stowage.setup.rename import Rename, naming
from tests.fakeclock import FakeClock
from tests.letting_go import let_go
from tests.memoryhub import MemoryHub

pytestmark = pytest.mark.proves("N3")
PLAN = Rename(old="old", new="new", namespace=SYSTEM_NAMESPACE)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"targetCluster": {"name": "old"}}, "spec.targetCluster"),
        ({"clusterSelector": {LABEL_CLUSTER: "old"}}, f"spec.clusterSelector[{LABEL_CLUSTER}]"),
        (
            {"subsets": [{"matchExpressions": [{"key": LABEL_CLUSTER, "values": ["a", "old"]}]}]},
            "spec.subsets[0].matchExpressions[0].values",
        ),
        (
            {"topologyKey": LABEL_CLUSTER, "allocationPolicy": [{"name": "a"}, {"name": "old"}]},
            "spec.allocationPolicy[1]",
        ),
    ],
)
def test_who_names_a_cluster(spec: Any, field: str) -> None:
    assert list(naming(spec, "old")) == [field]
    assert not list(naming(spec, "other"))
    assert not list(naming({"template": spec}, "old")), "what is the member's own"


@pytest.mark.proves("A23")
@pytest.mark.parametrize(
    ("text", "status", "counts"),
    [
        ("$(stowage.cluster)", {"placements": [{"cluster": "old", "replicas": 2}]}, True),
        ("a-$(stowage.cluster).x", {"leaving": [{"cluster": "old", "replicas": 1}]}, True),
        (
            f"$(stowage.label:{LABEL_CLUSTER})",
            {"placements": [{"cluster": "old", "replicas": 2}]},
            True,
        ),
        ("$$(stowage.cluster)", {"placements": [{"cluster": "old", "replicas": 2}]}, False),
        ("$(stowage.label:region)", {"placements": [{"cluster": "old", "replicas": 2}]}, False),
        ("$(stowage.cluster)", {"placements": [{"cluster": "other", "replicas": 2}]}, False),
    ],
)
async def test_an_override_that_gives_pods_the_name_counts(
    text: str, status: dict[str, Any], counts: bool
) -> None:
    memory = MemoryHub(clock=FakeClock())
    identity = {"clusterID": "1"}
    memory.put(MEMBER_CLUSTERS, {"metadata": {"name": "old"}, "spec": {}, "status": identity})
    patch = {"spec": {"template": {"metadata": {"annotations": {"in": text}}}}}
    override = {"name": "all", "clusterSelector": {}, "patch": patch}
    meta = {"name": "web", "namespace": "shop"}
    body = {"metadata": meta, "spec": {"overrides": [override]}, "status": status}
    memory.put(WORKLOADS, body)
    found = await rename.look(memory, PLAN)
    assert [each.fills for each in found.holders if each.fills] == ["spec.overrides[0]"] * counts
    told = rename._told(PLAN, found)
    assert ("gives the name to its pods: they restart" in told) == counts
    assert ("nothing is moved or restarted" in told) != counts
    if counts:
        with pytest.raises(ConfigurationError, match=r"shop/web \(spec.overrides\[0\]\)"):
            rename._refuse(found, PLAN)
    else:
        rename._refuse(found, PLAN)
    rename._refuse(found, replace(PLAN, force=True))


@pytest.fixture
async def client(hub: Cluster) -> AsyncIterator[ApiClient]:
    """A hub with a cluster `old` that has a Workload of 3 units, as processes have left it."""
    async with ApiClient(hub.connection()) as client:
        await _clear(client)
        meta = {
            "name": "old",
            "labels": {LABEL_CLUSTER: "old", "zone": "a"},
            "annotations": {"stowage.dev/counted": "id", "stowage.dev/cost": "2"},
        }
        reference = {"namespace": SYSTEM_NAMESPACE, "name": "old"}
        taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
        spec = {"secretRef": reference, "taints": taints}
        body = {"apiVersion": MEMBER_CLUSTERS.api_version, "kind": "MemberCluster"}
        await client.create(MEMBER_CLUSTERS, body | {"metadata": meta, "spec": spec})
        await _status(client, MEMBER_CLUSTERS, "old", clusterID="id")
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "old",
                "namespace": SYSTEM_NAMESPACE,
                "labels": {LABEL_REGISTER: "true"},
                "annotations": {"stowage.dev/registered": "digest"},
            },
            "stringData": {"kubeconfig": "first"},
        }
        await client.create(SECRETS, secret, namespace=SYSTEM_NAMESPACE)
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {}}
        workload = {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"template": job},
        }
        await client.create(WORKLOADS, workload, namespace="default")
        await _place(client, old=3)
        yield client
        await _clear(client)


async def _clear(client: ApiClient) -> None:
    for kind in (WORKLOADS, SECRETS, MEMBER_CLUSTERS):
        labels = LABEL_REGISTER if kind is SECRETS else None
        for each in (await client.list(kind, label_selector=labels))["items"]:
            where = each["metadata"].get("namespace")
            if kind is MEMBER_CLUSTERS:
                await let_go(client, each["metadata"]["name"])
                continue
            await client.delete(kind, each["metadata"]["name"], namespace=where)
            if each["metadata"].get("finalizers"):
                free = {"metadata": {"finalizers": None}}
                await client.merge_patch(kind, each["metadata"]["name"], free, namespace=where)


async def _status(
    client: ApiClient, kind: Any, name: str, where: str | None = None, **status: Any
) -> None:
    patch = {"status": status}
    await client.merge_patch(kind, name, patch, namespace=where, subresource="status")


async def _place(client: ApiClient, **shares: int) -> None:
    listed = [{"cluster": c, "replicas": n} for c, n in shares.items()]
    await _status(client, WORKLOADS, "web", "default", placements=listed)


async def _finish(client: ApiClient, name: str = "new") -> None:
    """What both processes would do by then."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Connected",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await _status(client, MEMBER_CLUSTERS, name, conditions=[ready])
    await _place(client, **{name: 3})


async def _names(client: ApiClient) -> tuple[set[str], set[str]]:
    clusters = await client.list(MEMBER_CLUSTERS)
    secrets = await client.list(SECRETS, label_selector=LABEL_REGISTER)
    named = [{each["metadata"]["name"] for each in found["items"]} for found in (clusters, secrets)]
    return named[0], named[1]


class _Died(Exception):
    pass


def _dying(client: ApiClient, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends in front of the write of that number."""
    request, writes = ApiClient.request, iter(range(1000))

    async def counting(self: ApiClient, method: str, path: str, **how: Any) -> bytes:
        if self is client and method != "GET" and next(writes) == after:
            raise _Died
        return await request(self, method, path, **how)

    monkeypatch.setattr(ApiClient, "request", counting)


@pytest.mark.long
async def test_wherever_it_dies_it_goes_on(
    client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the two names is always registered, with a Secret that leads there, till it is done."""
    monkeypatch.setattr(rename, "RENAMED_SECONDS", 0.0)
    for after in range(7):
        with monkeypatch.context() as until_then:
            _dying(client, after, until_then)
            with pytest.raises((_Died, StowageError)) as ended:
                await rename.rename(client, PLAN, say=lambda _: None)
            died = ended.errisinstance(_Died)
        clusters, secrets = await _names(client)
        assert secrets, after
        assert clusters, after
        if not died:
            break
    assert (clusters, secrets) == ({"new"}, {"new"})
    await _finish(client)
    said: list[str] = []
    await rename.rename(client, PLAN, say=said.append)
    assert said == ["old is new now"], "also when it is run again"

    found = await client.get(MEMBER_CLUSTERS, "new")
    assert found["status"]["clusterID"] == "id"
    assert found["metadata"]["labels"] == {LABEL_CLUSTER: "new", "zone": "a"}
    assert found["metadata"]["annotations"] == {"stowage.dev/cost": "2"}
    assert found["spec"]["formerNames"] == ["old"]
    assert found["spec"]["secretRef"]["name"] == "new"
    assert found["spec"]["taints"][0]["key"] == "k"
    secret = await client.get(SECRETS, "new", namespace=SYSTEM_NAMESPACE)
    assert "stowage.dev/registered" not in secret["metadata"].get("annotations", {})

    with pytest.raises(StowageError, match="not Ready"):
        await rename.rename(
            client, Rename(old="new", new="old", namespace=SYSTEM_NAMESPACE), say=said.append
        )
    assert await _names(client) == ({"old"}, {"old"})
    found = await client.get(MEMBER_CLUSTERS, "old")
    assert found["spec"]["formerNames"] == ["new"]


@pytest.mark.proves("A2")
async def test_a_rename_that_goes_on_carries_what_was_said_of_the_cluster_meanwhile() -> None:
    memory = MemoryHub(clock=FakeClock())
    notes = {"stowage.dev/counted": "id", "stowage.dev/cost": "2"}
    meta = {"name": "old", "labels": {"zone": "a"}, "annotations": notes}
    spec = {"images": [], "unschedulable": True}
    old = {"metadata": meta, "spec": spec, "status": {"clusterID": "id"}}
    memory.put(MEMBER_CLUSTERS, {**old, "kind": MEMBER_CLUSTERS.kind})
    before = memory.read(MEMBER_CLUSTERS, "old")
    memory.put(MEMBER_CLUSTERS, rename._successor(before, PLAN))
    counted = {"annotations": {"stowage.dev/counted": "by another"}}
    after = memory.edit(MEMBER_CLUSTERS, "new", {"metadata": counted})
    drain = {"taints": [{"key": "stowage.dev/drain", "effect": "NoExecute"}]}
    revoked = {"stowage.dev/revoked": "2026-01-01T00:00:00Z"}
    said: dict[str, Any] = {"annotations": {"stowage.dev/cost": None, **revoked}}
    edit = {"metadata": {**said, "labels": {"zone": None}}}
    memory.edit(MEMBER_CLUSTERS, "old", {**edit, "spec": {**drain, "unschedulable": None}})
    await rename._exchange(memory, PLAN, before, after, lambda _: None)  # type: ignore[arg-type]
    (found,) = memory.all(MEMBER_CLUSTERS)
    assert found["spec"] == {"images": [], **drain, "formerNames": ["old"]}
    assert found["metadata"]["labels"] == {LABEL_CLUSTER: "new"}
    assert found["metadata"]["annotations"] == {"stowage.dev/counted": "by another", **revoked}


@pytest.mark.long
@pytest.mark.proves("Q27")
async def test_what_is_waited_for_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rename, "RENAMED_SECONDS", 2.0)
    memory = MemoryHub(clock=FakeClock())
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    memory.put(MEMBER_CLUSTERS, {"metadata": {"name": "new"}, "spec": {}, "status": ready})
    meta = {"name": "web", "namespace": "shop"}
    status = {"placements": [{"cluster": "old", "replicas": 2}]}
    memory.put(WORKLOADS, {"metadata": meta, "spec": {}, "status": status})
    said: list[str] = []
    memory.requests.clear()
    with pytest.raises(StowageError, match="shares say old: Workload shop/web"):
        await rename._renamed(memory, PLAN, said.append)  # type: ignore[arg-type]
    lists = [path for method, path, _ in memory.requests if method == "GET" and "watch" not in path]
    assert len(lists) == len(set(lists))
    memory.edit(WORKLOADS, "web", {"status": {"placements": []}}, status=True)
    await rename._renamed(memory, PLAN, said.append)  # type: ignore[arg-type]
    assert said == ["old is new now"]


async def test_a_token_that_is_renewed_meanwhile_is_carried(
    client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rename, "RENAMED_SECONDS", 0.0)
    with monkeypatch.context() as until_then:
        _dying(client, 3, until_then)
        with pytest.raises(_Died):
            await rename.rename(client, PLAN, say=lambda _: None)
    newer = {"stringData": {"kubeconfig": "second"}}
    await client.merge_patch(SECRETS, "old", newer, namespace=SYSTEM_NAMESPACE)
    with pytest.raises(StowageError, match="not Ready"):
        await rename.rename(client, PLAN, say=lambda _: None)
    old = await client.list(SECRETS, label_selector=LABEL_REGISTER)
    assert [each["data"]["kubeconfig"] for each in old["items"]] == ["c2Vjb25k"]


async def test_what_is_refused_changes_nothing(client: ApiClient) -> None:
    async def refused(match: str, **how: Any) -> None:
        plan = Rename(**{"old": "old", "new": "new", "namespace": SYSTEM_NAMESPACE} | how)
        with pytest.raises(ConfigurationError, match=match):
            await rename.rename(client, plan, say=lambda _: None)
        assert await _names(client) == ({"old"}, {"old"})

    await refused("knows no cluster nobody", old="nobody")
    await refused("has that name already", new="old")
    await refused("can be no cluster's name", new="Big")
    patch = {"spec": {"targetCluster": {"name": "old"}}}
    await client.merge_patch(WORKLOADS, "web", patch, namespace="default")
    await refused(r"Workload default/web \(spec.targetCluster\).*--force")
    patch = {"spec": {"targetCluster": None}}
    await client.merge_patch(WORKLOADS, "web", patch, namespace="default")
    await _status(client, MEMBER_CLUSTERS, "old", clusterID=None)
    await refused("`stowage join old` again")


def test_the_dry_run_tells_and_exits(hub: Cluster, client: ApiClient, stowage: Any) -> None:
    asked = ("rename", "old", "new", "--dry-run", f"--kubeconfig={hub.kubeconfig}")
    found = stowage(*asked)
    assert (found.code, found.err) == (0, "")
    assert "old would be new" in found.out
    assert [line.split() for line in found.out.splitlines()[-1:]] == [
        ["Workload", "default/web", "3"]
    ]
    told = json.loads(stowage(*asked, "-o", "json").out)
    assert told["holders"] == [{"kind": "Workload", "name": "default/web", "units": 3}]
    names = json.dumps({"spec": {"targetCluster": {"name": "old"}}})
    hub.kubectl("patch", "wl", "web", "--type=merge", "-p", names)
    refused = stowage(*asked)
    assert refused.code == 1
    assert "spec.targetCluster names old: keeps its replicas, and gets none on new" in refused.out
    assert "--force" in refused.err
    assert stowage(*asked, "--force").code == 0
    assert stowage("rename", "old").code == 2
