"""`stowage clean --hub UID` on a real member: one hub's objects go, another's and claims stay."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from crds.names import (
    ANNOTATION_HUB,
    ANNOTATION_KEEP,
    LABEL_MANAGED,
    ORPHAN_PREFIX,
    OWNER_PREFIX,
    SYSTEM_NAMESPACE,
)
from machinery.api.client import ApiClient
from machinery.api.resources import DEPLOYMENTS, LEASES, NAMESPACES, SERVICES, Resource
from machinery.clock import SystemClock, microtime
from machinery.errors import ConfigurationError, NotFound, StowageError
from propagator.members.hub_lease import HUB_LEASE
from propagator.removal.left_claims import CLAIMS
from stowage.setup import clean, hub_traces, member_side
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub

NOW = SystemClock().now
SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")


class Left:
    """A namespace of the member, in which two hubs have left objects."""

    def __init__(self, client, cluster) -> None:
        self.client, self.cluster = client, cluster
        self.ours, self.other = str(uuid.uuid4()), str(uuid.uuid4())
        self.namespace = f"left-{self.ours[:8]}"

    async def make(self, resource, name, hub, *, namespace=None, notes=None, **body):
        meta = {"name": name}
        if hub:
            meta["labels"] = {LABEL_MANAGED: "true"}
            meta["annotations"] = {
                ANNOTATION_HUB: hub,
                f"{OWNER_PREFIX}u-1": "shop/demo",
                **(notes or {}),
            }
        made = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **body}
        where = (namespace or self.namespace) if resource.namespaced else None
        await self.client.create(resource, made, namespace=where)

    async def stands(self, resource, name):
        try:
            return await self.client.get(resource, name, namespace=self.namespace)
        except NotFound:
            return None

    async def clean(self, stowage, *more):
        args = ("clean", f"--member-kubeconfig={self.cluster.kubeconfig}", "--hub", self.ours)
        return await asyncio.to_thread(stowage, *args, *more)


TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "web"}]},
}
SPEC = {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
PORTS = {"spec": {"ports": [{"port": 80}]}}


@pytest.fixture
async def left(apiserver):
    async with ApiClient(apiserver.connection()) as client:
        found = Left(client, apiserver)
        named = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": found.namespace}}
        await client.create(NAMESPACES, named)
        yield found


@pytest.mark.proves("PL33")
async def test_what_one_hub_left_goes_and_claims_are_listed_and_kept(left, stowage):
    db = {
        **SPEC,
        "serviceName": "db",
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}],
    }
    await left.make(DEPLOYMENTS, "web", left.ours, spec=SPEC)
    await left.make(SETS, "db", left.ours, spec=db)
    await left.make(CLAIMS, "cache", left.ours, spec=CLAIM)
    await left.make(CLAIMS, "data-db-0", "", spec=CLAIM)
    await left.make(CLAIMS, "data-db-x", "", spec=CLAIM)
    await left.make(SETS, "staying", left.ours, notes={ANNOTATION_KEEP: "Always"}, spec=db)
    await left.make(CLAIMS, "data-staying-0", "", spec=CLAIM)
    await left.make(SERVICES, "kept", left.ours, notes={ANNOTATION_KEEP: "Always"}, **PORTS)
    await left.make(SERVICES, "orphan", left.ours, notes={f"{ORPHAN_PREFIX}u-1": "true"}, **PORTS)
    await left.make(NAMESPACES, f"{left.namespace}-ns", left.ours)
    await left.make(DEPLOYMENTS, "theirs", left.other, spec=SPEC)
    await left.make(DEPLOYMENTS, "nobodys", "", spec=SPEC)

    shown = await left.clean(stowage, "--yes")
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    claims = [f"{left.namespace}/cache", f"{left.namespace}/data-db-0"]
    assert [line for line in lines if line in claims] == claims
    assert not any("theirs" in line or "nobodys" in line or "data-db-x" in line for line in lines)
    for resource, name in ((DEPLOYMENTS, "web"), (SETS, "db")):
        assert await left.stands(resource, name) is None
    for resource, name in (
        *((CLAIMS, each) for each in ("cache", "data-db-0", "data-db-x")),
        *((DEPLOYMENTS, each) for each in ("theirs", "nobodys")),
    ):
        assert await left.stands(resource, name), name
    for name in ("kept", "orphan"):
        meta = (await left.stands(SERVICES, name))["metadata"]
        assert LABEL_MANAGED not in meta.get("labels", {})
        assert set(meta.get("annotations", {})) <= {ANNOTATION_KEEP}
    released = await left.client.get(NAMESPACES, f"{left.namespace}-ns")
    assert LABEL_MANAGED not in released["metadata"].get("labels", {})

    again = await left.clean(stowage, "--yes", "--claims")
    assert again.code == 0, again.err
    cache = await left.stands(CLAIMS, "cache")
    # A claim waits for the controller that protects it.
    assert cache is None or cache["metadata"]["deletionTimestamp"]
    assert await left.stands(DEPLOYMENTS, "theirs")
    staying = await left.stands(CLAIMS, "data-staying-0")
    assert staying is not None
    assert "deletionTimestamp" not in staying["metadata"], "its set stays as well"


@pytest.mark.proves("PL33")
async def test_nothing_is_taken_from_a_hub_that_still_serves(left, stowage):
    await left.make(DEPLOYMENTS, "web", left.ours, spec=SPEC)
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
    await left.client.apply(NAMESPACES, home, name=SYSTEM_NAMESPACE, force=True)
    spec = {
        "holderIdentity": f"{left.ours} https://hub one",
        "renewTime": microtime(SystemClock().now()),
    }
    lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind}
    meta = {"name": HUB_LEASE, "namespace": SYSTEM_NAMESPACE}
    await left.client.apply(
        LEASES, {**lease, "metadata": meta, "spec": spec}, name=HUB_LEASE,
        namespace=SYSTEM_NAMESPACE, force=True,
    )  # fmt: skip
    try:
        served = await left.clean(stowage, "--yes")
        assert served.code == 1
        assert "serves this cluster" in served.err
        assert await left.stands(DEPLOYMENTS, "web")
        mistaken = await asyncio.to_thread(
            stowage, "clean", f"--member-kubeconfig={left.cluster.kubeconfig}", "--hub", "paris"
        )
        assert "no UID" in mistaken.err
    finally:
        await left.client.delete(LEASES, HUB_LEASE, namespace=SYSTEM_NAMESPACE)
    assert (await left.clean(stowage, "--yes")).code == 0
    assert await left.stands(DEPLOYMENTS, "web") is None


@pytest.mark.proves("PL33")
@pytest.mark.parametrize("resource", [DEPLOYMENTS, SETS])
@pytest.mark.parametrize("note", [ANNOTATION_HUB, ANNOTATION_KEEP])
async def test_what_is_another_hubs_by_the_time_of_the_answer_stays(monkeypatch, resource, note):
    """Whoever is asked may take an hour, and a restored hub take the object over meanwhile."""

    async def kinds(_):
        return [resource]

    def confirmed():
        value = {ANNOTATION_HUB: str(uuid.uuid4()), ANNOTATION_KEEP: "Always"}[note]
        member.edit(resource, "web", {"metadata": {"annotations": {note: value}}})
        return True

    monkeypatch.setattr(hub_traces, "_kinds", kinds)
    member, ours = MemoryHub(clock=FakeClock(), admission=False), str(uuid.uuid4())
    marks = {"labels": {LABEL_MANAGED: "true"}, "annotations": {ANNOTATION_HUB: ours}}
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}
    member.put(
        resource, {"metadata": {"name": "web", "namespace": "shop", **marks}, "spec": policy}
    )
    with pytest.raises(StowageError, match="web: it changed meanwhile"):
        await hub_traces.clean(
            member, SYSTEM_NAMESPACE, ours, claims=False, now=NOW, confirmed=confirmed
        )
    assert member.read(resource, "web")["spec"] == policy


@pytest.mark.proves("PL33")
@pytest.mark.parametrize("of_hub", [True, False])
async def test_nothing_is_taken_from_a_hub_that_comes_back_before_the_answer(monkeypatch, of_hub):
    async def kinds(_):
        return [DEPLOYMENTS]

    async def made(*_):
        return [member_side.Made(DEPLOYMENTS, "web", "shop")]

    def confirmed():
        spec = {"holderIdentity": f"{ours} https://hub", "renewTime": microtime(NOW())}
        meta = {"name": HUB_LEASE, "namespace": SYSTEM_NAMESPACE}
        member.put(LEASES, {"metadata": meta, "spec": spec})
        return True

    monkeypatch.setattr(hub_traces, "_kinds", kinds)
    monkeypatch.setattr(member_side, "made_there", made)
    member, ours = MemoryHub(clock=FakeClock(), admission=False), str(uuid.uuid4())
    marks = {"labels": {LABEL_MANAGED: "true"}, "annotations": {ANNOTATION_HUB: ours}}
    member.put(DEPLOYMENTS, {"metadata": {"name": "web", "namespace": "shop", **marks}})
    how = {"now": NOW, "confirmed": confirmed}
    if of_hub:
        cleaning = hub_traces.clean(member, SYSTEM_NAMESPACE, ours, claims=False, **how)
    else:
        cleaning = clean.clean(member, SYSTEM_NAMESPACE, **how)
    with pytest.raises(ConfigurationError, match="serves this cluster"):
        await cleaning
    assert member.read(DEPLOYMENTS, "web")


@pytest.mark.proves("Q15")
async def test_a_namespace_that_is_gone_by_the_time_of_the_answer_keeps_nothing_else():
    member = MemoryHub(clock=FakeClock(), admission=False)
    member.put(DEPLOYMENTS, {"metadata": {"name": "web", "namespace": "shop"}})
    made = [member_side.Made(NAMESPACES, "gone"), member_side.Made(DEPLOYMENTS, "web", "shop")]
    await member_side.remove_made(member, made, len)
    assert not member.all(DEPLOYMENTS)
