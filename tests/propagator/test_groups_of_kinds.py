"""An object of another API group with the kind and name of one of Kubernetes' own is another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from crds.names import OWNER_PREFIX
from crds.workload import PropagatedReason
from machinery.api.resources import CONFIG_MAPS, SERVICES, Resource
from machinery.errors import ApiError
from machinery.types.metadata import Meta
from propagator.apply.applier import apply
from propagator.apply.object_writer import PieceWriter
from propagator.apply.refusals import Unchangeable, rejected
from propagator.apply.render import ANNOTATION_HASH, Piece, render
from propagator.dependencies.follower import Follower
from propagator.drift.fields import FieldDrift
from propagator.drift.records import Drifted, DriftRecords
from propagator.errors import Refused
from propagator.members.objects import ManagedObject
from propagator.pull.bundle import packed, unpacked
from propagator.shares import ShareTable
from propagator.status.observation import balancer
from propagator.types.hub_objects import HubConfigMap
from propagator.types.workload import Workload, workload_of
from tests.fakeclock import FakeClock
from tests.propagator.apply.memberfacts import member_facts
from tests.propagator.contexts import Context

UID = "u-1"
OTHERS = "example.com/v1"
CUSTOM_MAPS = Resource("example.com", "v1", "configmaps", "ConfigMap")
CUSTOM_SERVICES = Resource("example.com", "v1", "services", "Service")
PODS = {
    "containers": [{"name": "main", "image": "pause"}],
    "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
}


def workload(*manifests: tuple[str, str, str]) -> Workload:
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": PODS}},
    }
    carried = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "data": {"a": "b"}}
        for version, kind, name in manifests
    ]
    return workload_of(
        {
            "metadata": {"name": "web", "namespace": "shop", "uid": UID, "finalizers": ["f"]},
            "spec": {"template": web, "manifests": carried, "dependencies": "Follow"},
            "status": {"placements": [{"cluster": "m1", "replicas": 1}]},
        }
    )


def pieces(of: Workload) -> list[Piece]:
    return render(of, replicas=1, first_ordinal=None, secrets=(), member=member_facts())


def live(resource: Resource, name: str, digest: str = "", **more: Any) -> Any:
    annotations = {OWNER_PREFIX + UID: "shop/web", ANNOTATION_HASH: digest}
    meta = Meta(
        name=name, namespace="shop", uid=f"{resource.group}-{name}", annotations=annotations
    )
    found = ManagedObject(
        metadata=meta, kind=resource.kind, api_version=resource.api_version, **more
    )
    return resource, found


def session(*objects: Any) -> Any:
    watches = SimpleNamespace(owned=lambda _: [*objects])
    tracked = SimpleNamespace(get=lambda _: None)
    return SimpleNamespace(
        name="m1",
        allowed_kinds=(),
        link=SimpleNamespace(watches=watches),
        track=lambda *_: tracked,
    )


class _Watch:
    def __init__(self, *there: Any) -> None:
        self._there = {each.metadata.name: each for each in there}

    def need(self, *_: Any) -> None: ...
    def drop(self, *_: Any) -> None: ...
    async def get(self, key: Any, **_: Any) -> Any:
        return self._there.get(key[1])


def follower(*there: Any) -> Follower:
    workloads = SimpleNamespace(by_uid=workload)
    recorder = SimpleNamespace(event=lambda *_, **__: None)
    return Follower(
        cast("Any", Context(recorder=recorder)),
        workloads=cast("Any", workloads),
        watches=cast("Any", {"ConfigMap": _Watch(*there), "ServiceAccount": _Watch()}),
        report=lambda _: None,
    )


@pytest.mark.proves("X13")
async def test_a_manifest_of_another_group_stands_in_for_nothing_that_pods_name() -> None:
    of = workload((OTHERS, "ConfigMap", "settings"))
    there = HubConfigMap(metadata=Meta(name="settings", namespace="shop"), data={"a": "b"})
    [copy] = await follower(there).follow(session(), of, pieces(of), member_facts())
    assert (copy.id, copy.shared) == (("", "ConfigMap", "shop", "settings"), True)


@pytest.mark.proves("X13")
async def test_only_the_copy_itself_is_synced_withdrawn_or_held() -> None:
    of = workload((OTHERS, "ConfigMap", "settings"))
    there = HubConfigMap(metadata=Meta(name="settings", namespace="shop"), data={"a": "b"})
    following = follower(there)
    rendered = pieces(of)
    [copy] = await following.follow(session(), of, rendered, member_facts())
    core, custom = live(CONFIG_MAPS, "settings", copy.digest), live(CUSTOM_MAPS, "settings")
    for order in ((core, custom), (custom, core)):
        following.applied(session(*order), of)
        assert [each["state"] for each in following.reported(of)] == ["Synced"]

    secret = HubConfigMap(
        metadata=Meta(name="settings", namespace="shop", labels={"stowage.dev/follow": "false"})
    )
    following = follower(secret)
    await following.follow(session(), of, rendered, member_facts())
    found = following.withdrawn(session(core, custom), of)
    assert found == {("", "ConfigMap", "shop", "settings")}


@pytest.mark.proves("X13")
def test_a_copy_that_is_made_again_is_named_with_its_group() -> None:
    of = workload(("v1", "ConfigMap", "settings"))
    copy = Piece("v1", "ConfigMap", "shop", "settings", {}, "d", shared=True)
    fault = ApiError.of(code=422, reason="Invalid", message="field is immutable", details=None)
    refused = rejected("m1", copy, fault)
    assert isinstance(refused, Unchangeable)
    assert refused.id == next(iter(pieces(of))).id


@pytest.mark.proves("X13")
def test_a_secret_of_another_group_travels_in_the_bundle() -> None:
    of = workload((OTHERS, "Secret", "settings"), ("v1", "Secret", "settings"))
    rendered = pieces(of)
    text, copies = packed(UID, rendered, [])
    assert [copy.as_ for copy in copies] == ["settings"]
    bodies = [each.body for each in unpacked(text).objects]
    told = {(each["apiVersion"], "data" in each) for each in bodies if each["kind"] == "Secret"}
    assert told == {(OTHERS, True), ("v1", False)}


class Refusing:
    """A PieceWriter of which a member refuses each Role."""

    def __init__(self) -> None:
        self.written: list[str] = []

    async def write(self, _session: object, _workload: Workload, piece: Piece) -> None:
        self.written.append(f"{piece.api_version} {piece.kind}")
        if piece.kind == "Role":
            raise Refused(PropagatedReason.REJECTED, f"m1: Role {piece.name} is refused")


@pytest.mark.proves("X13")
@pytest.mark.parametrize(
    ("group", "starts"), [("rbac.authorization.k8s.io/v1", False), (OTHERS, True)]
)
async def test_pods_wait_for_a_role_that_is_kubernetes_own(group: str, starts: bool) -> None:
    writer = Refusing()
    of = workload((OTHERS, "Service", "a"), ("v1", "Service", "front"), (group, "Role", "reader"))
    done = await apply(
        cast("PieceWriter", writer), cast("Any", None), of, pieces(of), may_apply=lambda _: True
    )
    assert len(done.refusals) == 1
    assert ("apps/v1 Deployment" in writer.written) is starts
    order = [each for each in writer.written if each.endswith("Service")]
    assert order == [f"{OTHERS} Service", "v1 Service"], "another kind goes with all others"


@pytest.mark.proves("X13")
def test_an_address_is_told_of_a_service_alone() -> None:
    of = workload(("v1", "Service", "front"))
    address = {"ingress": [{"ip": "192.0.2.1"}]}
    custom = live(CUSTOM_SERVICES, "front", load_balancer={"ingress": [{"ip": "192.0.2.9"}]})
    assert balancer(of, [custom]) == {}
    assert balancer(of, [custom, live(SERVICES, "front", load_balancer=address)]) == address


@pytest.mark.proves("X13")
def test_drift_of_two_groups_is_told_apart() -> None:
    shares = ShareTable()
    records = DriftRecords(
        shares,
        clock=FakeClock(),
        recorder=cast("Any", SimpleNamespace(event=lambda *_, **__: None)),
        changed=lambda _: None,
    )
    of = workload((OTHERS, "ConfigMap", "settings"), ("v1", "ConfigMap", "settings"))
    for group in ("", "example.com"):
        at = Drifted("m1", "ConfigMap", "shop", "settings", group)
        records.repaired(of, at, [FieldDrift(("data", "a"), "b", "c", "kubectl-edit")])
    assert [each.get("group", "") for each in records.told(of)] == ["", "example.com"]
    context = Context(clock=FakeClock(), recorder=None, identity=None, restored=None)
    writer = PieceWriter(
        cast("Any", context),
        cast("Any", None),
        unconfirmed=cast("Any", None),
        workloads=cast("Any", None),
        namespaces=cast("Any", None),
        drift=records,
    )
    left = workload((OTHERS, "ConfigMap", "settings"))
    writer.rendered("m1", left, pieces(left))
    [entry] = records.told(left)
    assert entry["group"] == "example.com", "the other one is rendered no more"
