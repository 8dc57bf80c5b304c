"""Which members were ever sent something: ten thousand of them, and none forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.names import ANNOTATION_CLUSTERS, ANNOTATION_KINDS
from machinery.api.verbs import ServerHistory
from machinery.clock import SystemClock
from machinery.types.api import Placement
from machinery.types.memory_budget import BudgetShare
from machinery.types.written_clusters import MOST, MemberRecord, digest
from propagator.hub.workload_metadata import (
    footprint_without,
    missing,
    record_of,
    without_member,
)
from propagator.hub.workloads import HubWorkloads
from propagator.members.kinds import USUAL_KINDS
from propagator.members.noted_kinds import first_kinds, needed_kinds, writable_kinds
from propagator.removal.finalizer import Finalizer
from propagator.types.workload import Workload, workload_of
from tests.propagator.contexts import Context

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,60}[a-z0-9])?", fullmatch=True)


def workload(*clusters: str, **annotations: str) -> Workload:
    noted = {key.replace("_", "."): value for key, value in annotations.items()}
    body = {
        "metadata": {"namespace": "shop", "name": "demo", "uid": "u", "annotations": noted},
        "status": {"placements": [{"cluster": name, "replicas": 1} for name in clusters]},
    }
    return workload_of(body)


@pytest.mark.proves("R1")
@given(st.sets(NAMES, max_size=30), st.sets(NAMES, max_size=30))
def test_what_is_noted_is_read_again(names: set[str], taken: set[str]):
    record = MemberRecord().adding(names)
    for name in taken:
        record = record.without(name)
    again = MemberRecord.read(record.text())
    assert again == record
    assert again.names(lambda: names) == names - taken
    assert all((name in again) == (name not in taken) for name in names)


@pytest.mark.proves("R1")
def test_ten_thousand_long_names_fit_into_an_object():
    names = [f"{number:05d}-{'x' * 57}" for number in range(MOST)]
    record = MemberRecord().adding(names)
    text = record.text()
    assert len(text) < 128 * 1024, "half of what annotations may have together"
    again = MemberRecord.read(text)
    assert all(name in again for name in names)
    assert again.names(lambda: [*names, "another"]) == set(names)
    assert "another" not in again
    for name in (names[0], names[-1]):
        assert name not in again.without(name)


def test_one_by_one_it_is_no_larger_than_at_once():
    names = [f"{number:05d}-{'x' * 57}" for number in range(400)]
    record = MemberRecord()
    for name in names:
        record = record.adding([name])
    assert record == MemberRecord().adding(names)


@pytest.mark.proves("R1")
@pytest.mark.parametrize(
    "text",
    [
        ",".join(map(str, range(MOST + 1))),
        ",".join(["m1"] * (MOST + 1) + ["m2"]),
        "*",
        "m1,*",
    ],
)
def test_of_more_than_can_be_told_apart_every_member_is_meant(text: str):
    record = MemberRecord.read(text)
    assert record == MemberRecord.read(record.text())
    assert record.names(lambda: ["m1", "m2"]) == {"m1", "m2"}
    assert "m7" in record
    assert "m7" in record.without("m7"), "it cannot be told that only the others are left"
    assert record.adding(["m8"]) == record
    assert record | MemberRecord.read("m1") == MemberRecord.read("m1") | record == record


@pytest.mark.proves("R1")
def test_after_ten_thousand_moves_without_an_answer_nobody_is_forgotten():
    names = [f"m{number}" for number in range(MOST)]
    record = MemberRecord().adding(names)
    assert not record.everybody
    assert record.adding(names) == record
    more = MemberRecord.read(record.adding(["another"]).text())
    assert {"another", *names} <= more.names(lambda: [*names, "another", "later"])
    halves = MemberRecord().adding(names[:6000]) | MemberRecord().adding(["x", *names[3000:]])
    assert "another" in halves


def test_what_is_no_name_tells_nothing():
    assert MemberRecord.read(",,,") == MemberRecord()
    assert "m1" not in MemberRecord.read("#zzzz,M1, m1 ")
    assert "m1" in MemberRecord.read(digest("m1"))


@pytest.mark.proves("R1", "C30")
def test_a_workload_that_may_be_anywhere_ends_when_each_member_has_said_so():
    names = {f"m{number}" for number in range(3)}
    clusters = {("", name): SimpleNamespace(name=name, given_up=False) for name in names}
    registry: Any = SimpleNamespace(names=list, get=lambda _: None, holders=lambda _: set())
    inventory: Any = SimpleNamespace(holders=lambda uid: set())
    context: Any = Context(registry=registry, clusters=clusters)
    many = ",".join(map(str, range(MOST + 1)))
    ended = workload(**{"stowage_dev/clusters": many})
    deleting = msgspec.structs.replace(ended.metadata, deletion_timestamp="2026-11-21T10:00:00Z")
    ended = msgspec.structs.replace(ended, metadata=deleting)
    finalizer = Finalizer(context, inventory=inventory)
    assert finalizer.awaited(ended) == names
    assert without_member(ended, "m1") == {}
    for name in sorted(names):
        assert name in finalizer.awaited(ended)
        finalizer.acknowledge(ended, name)
    assert finalizer.awaited(ended) == set()
    assert (
        missing(workload("m1", **{"stowage_dev/clusters": many}), set(), there=anywhere)
        .get("annotations", {})
        .get(ANNOTATION_CLUSTERS)
        is None
    ), "nothing is written over it"


@pytest.mark.proves("R1", "C30")
def test_members_are_noted_with_the_finalizer_and_only_those_that_exist():
    patch = missing(workload("m1", "m2", "nowhere"), {("v1", "Secret")}, there="nowhere".__ne__)
    assert patch["finalizers"] == ["stowage.dev/propagation"]
    assert patch["annotations"][ANNOTATION_CLUSTERS] == "m1,m2"
    assert patch["annotations"]["stowage.dev/kinds"] == "v1/Secret"


@pytest.mark.proves("C30")
def test_a_member_is_taken_off_only_when_nothing_is_wanted_there():
    noted = {ANNOTATION_CLUSTERS: "m1,m2"}
    body = msgspec.structs.replace(workload("m2").metadata, annotations=noted)
    placed = msgspec.structs.replace(workload("m2"), metadata=body)
    assert without_member(placed, "m2") == {}
    assert without_member(placed, "m3") == {}
    assert without_member(placed, "m1") == {"annotations": {ANNOTATION_CLUSTERS: "m2"}}
    assert record_of(placed).names(list) == {"m1", "m2"}


def placed_by_us(*clusters: str, kinds: str = "", generation: int = 1) -> Workload:
    """A Workload with a Deployment and a Service, of which our controller wrote the footprint."""
    body = {
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "u",
            "generation": generation,
            "finalizers": ["stowage.dev/propagation"],
        },
        "spec": {
            "targetDeployment": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "targetService": {"apiVersion": "v1", "kind": "Service"},
        },
        "status": {
            "placements": [{"cluster": name, "replicas": 1} for name in clusters],
            "footprint": {"clusters": ",".join(clusters), "kinds": kinds},
        },
    }
    return workload_of(body)


BOTH = {("apps/v1", "Deployment"), ("v1", "Service")}
ONE = {("apps/v1", "Deployment")}


def anywhere(_: str) -> bool:
    return True


@pytest.mark.proves("R1", "C30")
def test_what_was_noted_with_the_placements_needs_no_write():
    assert missing(placed_by_us("m1", "m2"), BOTH, there=anywhere) == {}
    assert needed_kinds(placed_by_us("m1")) == writable_kinds(placed_by_us("m1")) == BOTH
    assert record_of(placed_by_us("m1", "m2")).names(list) == {"m1", "m2"}
    kinds = first_kinds(placed_by_us("m1"))["footprint"]["kinds"]
    assert needed_kinds(placed_by_us("m1", kinds=kinds, generation=5)) == BOTH
    assert first_kinds(placed_by_us("m1", kinds=kinds)) == {}


@pytest.mark.proves("R1", "C30")
def test_an_edit_before_any_kind_was_noted_may_have_left_any_usual_one():
    edited = placed_by_us("m1", generation=2)
    assert needed_kinds(edited) >= USUAL_KINDS
    noted = missing(edited, ONE, there=anywhere)["annotations"]["stowage.dev/kinds"]
    assert needed_kinds(placed_by_us("m1", generation=2, kinds=noted)) >= USUAL_KINDS


@pytest.mark.proves("C30")
def test_a_kind_that_the_only_member_does_not_show_is_not_waited_for():
    patch = missing(placed_by_us("m1"), ONE, there=anywhere)
    assert patch == {"annotations": {"stowage.dev/kinds": "apps/v1/Deployment"}}
    nothing = missing(placed_by_us("m1"), set(), there=anywhere)
    assert nothing == {"annotations": {"stowage.dev/kinds": ""}}
    several = missing(placed_by_us("m1", "m2"), ONE, there=anywhere)["annotations"]
    assert several["stowage.dev/kinds"] == "apps/v1/Deployment,v1/Service"


@pytest.mark.proves("R1")
def test_what_another_scheduler_placed_beside_the_footprint_is_noted_as_ever():
    status = msgspec.structs.replace(placed_by_us("m1").status, placements=[Placement("m2", 1)])
    moved = msgspec.structs.replace(placed_by_us("m1"), status=status)
    patch = missing(moved, BOTH, there=anywhere)["annotations"]
    assert patch["stowage.dev/clusters"] == "m2"
    assert set(patch["stowage.dev/kinds"].split(",")) >= {"apps/v1/Deployment", "v1/Service"}
    assert record_of(moved).names(list) == {"m1"}
    assert footprint_without(moved, "m1") == {"footprint": {"clusters": None}}
    assert footprint_without(placed_by_us("m1"), "m1") == {}


@pytest.mark.proves("R1")
@pytest.mark.parametrize("entry", ["m1", digest("m1")])
def test_a_member_without_a_session_yet_is_awaited_by_its_digest_too(entry: str):
    clusters = {("", "m1"): SimpleNamespace(name="m1", given_up=False)}
    given_up = False
    registry: Any = SimpleNamespace(
        names=list, get=lambda name: None, gave_up=lambda name: given_up
    )
    inventory: Any = SimpleNamespace(holders=lambda uid: set())
    context: Any = Context(registry=registry, clusters=clusters)
    ended = workload(**{"stowage_dev/clusters": entry})
    finalizer = Finalizer(context, inventory=inventory)
    assert finalizer.awaited(ended) == {"m1"}
    clusters.clear()
    given_up = True
    assert finalizer.awaited(ended) == set(), "it left the fleet"


@pytest.mark.proves("A1")
@pytest.mark.parametrize("ended", [False, True])
def test_the_end_of_a_share_on_a_cluster_that_is_named_no_more_holds_no_deletion(*, ended: bool):
    """A cluster that was given up keeps such a share, and a new process has not seen that."""
    clusters: dict[Any, Any] = {}
    registry: Any = SimpleNamespace(names=list, get=lambda name: None, gave_up=lambda name: False)
    inventory: Any = SimpleNamespace(holders=lambda uid: set())
    context: Any = Context(registry=registry, clusters=clusters)
    end = {"ended": {"result": "Succeeded", "object": "Job shop/bill"}} if ended else {}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "bill"}, "spec": {}}
    status = {
        "placements": [{"cluster": "m1", "replicas": 1}],
        "clusters": [{"name": "m1", **end}],
        "footprint": {"clusters": "m1"},
    }
    meta = {"name": "bill", "namespace": "shop", "uid": "u1"}
    meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    bill = workload_of({"metadata": meta, "spec": {"template": job}, "status": status})
    awaited = Finalizer(context, inventory=inventory).awaited(bill)
    assert awaited == (set() if ended else {"m1"})


@pytest.mark.proves("R1")
def test_what_one_member_was_sent_by_the_spec_is_noted_when_another_scheduler_adds_one():
    """The first may have a Secret; the second does not show any, so that none is written there."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}}
    body = {
        "metadata": {"namespace": "shop", "name": "demo", "uid": "u", "generation": 1},
        "spec": {
            "template": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "manifests": [secret],
        },
        "status": {
            "placements": [{"cluster": name, "replicas": 1} for name in ("m1", "m2")],
            "footprint": {"clusters": "m1"},
        },
    }
    patch = missing(workload_of(body), {("apps/v1", "Deployment")}, there=lambda _: True)
    assert patch["annotations"][ANNOTATION_CLUSTERS] == "m2"
    assert patch["annotations"][ANNOTATION_KINDS] == "apps/v1/Deployment,v1/Secret"


def hub_of(sessions: Mapping[str, Any]) -> HubWorkloads:
    """The Workloads of a hub, for a process with these sessions by member."""
    context: Any = Context(
        hub=SimpleNamespace(holding=BudgetShare(), history=ServerHistory()),
        registry=SimpleNamespace(names=list, get=sessions.get, holders=lambda _: set()),
        clock=SystemClock(),
        clusters={},
    )
    return HubWorkloads(context)


@pytest.mark.proves("M51", "SC13")
def test_a_workload_touches_a_member_that_shows_something_of_it_though_the_hub_has_forgotten():
    """A shard has compared its members once it has told of that as well."""
    shown = SimpleNamespace(owners={"u": ("shop", "demo"), "gone": ("shop", "gone")})
    hub = hub_of({"m9": shown})
    hub.informer.upsert(workload(**{"stowage_dev/clusters": "m1"}))
    assert [each.metadata.name for each in hub.touching("m9")] == ["demo"]
    assert not hub.touching("m8")


@pytest.mark.proves("R1")
def test_a_member_that_comes_later_is_asked_about_one_that_may_be_anywhere():
    hub = hub_of({})
    hub.informer.upsert(workload(**{"stowage_dev/clusters": "*"}))
    assert [each.metadata.name for each in hub.touching("later")] == ["demo"]
