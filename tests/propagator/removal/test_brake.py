"""The brake on the sweep, on a real hub and a real member."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from unittest import mock
from weakref import WeakKeyDictionary

import pytest

from crds.names import (
    ANNOTATION_HUB,
    ANNOTATION_HUB_VERSION,
    ANNOTATION_SWEEP,
    OWNER_PREFIX,
)
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.types.metadata import Meta
from propagator.members.held_sweep import HeldSweep, HeldWorkload
from propagator.members.objects import ManagedObject
from propagator.removal.brake import SweepBrake, _Count, holds_data, left_behind
from tests.fakeclock import FakeClock
from tests.propagator.stage import Stage
from tests.propagator.waits import until


async def held(stage: Stage, count: int, reason: str) -> str:
    """Wait until so many are held for that reason; the message."""
    told: dict[str, Any] = {}

    async def said() -> bool:
        status = (await stage.hub.get(MEMBER_CLUSTERS, "m1"))["status"]
        found = [each for each in status["conditions"] if each["type"] == "SweepHeld"]
        told.clear()
        told.update(found[0] if found else {}, count=status.get("sweepHeld", {}).get("count", 0))
        return told["count"] == count and (count == 0 or told.get("reason") == reason)

    await until(said, what=lambda: told)
    return str(told.get("message", ""))


@pytest.mark.proves("A14")
@pytest.mark.parametrize(
    ("kind", "api_version", "data"),
    [
        ("StatefulSet", "apps/v1", True),
        ("PersistentVolumeClaim", "v1", True),
        ("Deployment", "apps/v1", False),
        ("StatefulSet", "apps.kruise.io/v1", False),
    ],
)
def test_what_claims_go_with_holds_data(kind: str, api_version: str, data: bool) -> None:
    found = ManagedObject(metadata=Meta(name="a"), kind=kind, api_version=api_version)
    assert holds_data(found) is data


@pytest.mark.proves("A14")
@pytest.mark.parametrize(
    ("members", "left", "present", "much"),
    [(1, 10, 10, False), (4, 3, 3, True), (4, 3, 40, False), (3, 3, 3, False)],
)
def test_the_workloads_of_all_members_count_together(
    members: int, left: int, present: int, much: bool
) -> None:
    brake = object.__new__(SweepBrake)
    brake._clock = FakeClock()
    brake._clusters = cast("Any", {})
    sessions = [cast("Any", _Session()) for _ in range(members)]
    brake._sweeps = WeakKeyDictionary()
    for at, session in enumerate(sessions):
        gone = {f"{at}-{n}": HeldWorkload("shop", f"w{n}", f"{at}-{n}", 1, 0) for n in range(left)}
        brake._sweep(session).count = _Count(f"m{at}", 0.0, gone, {}, present)
    assert brake._fleet_loses_much() is much


class _Session(SimpleNamespace):
    """A session, of which only the identity counts."""

    __hash__ = object.__hash__


@pytest.mark.proves("N11")
@pytest.mark.parametrize(
    ("uid", "owner", "ours"),
    [
        ("1-a", "shop/web", True),
        ("1-a,2-b", "shop/web", False),
        ("1" * 129, "shop/web", False),
        ("1-a", f"shop/{'x' * 254}", False),
        ("1-a", "shop/we\x1bb", False),
        ("1-a", "shop/web/x", False),
        ("1-a", "Shop/web", False),
    ],
)
def test_what_can_be_the_name_of_no_workload_is_not_told_and_not_swept(
    uid: str, owner: str, ours: bool
) -> None:
    annotations = {f"{OWNER_PREFIX}{uid}": owner, ANNOTATION_HUB: "hub"}
    found = ManagedObject(metadata=Meta(name="a", annotations=annotations))
    assert left_behind(found, uid, "hub") is ours
    assert not left_behind(found, uid, "another")


class GrowingHub:
    """A hub whose Workloads go on changing while it is asked for its version."""

    def __init__(self, objects: list[ManagedObject]) -> None:
        self.newest, self.objects = 100, objects

    async def uid(self) -> str:
        return "hub"

    async def version(self) -> int:
        now, self.newest = self.newest, self.newest + 10
        self.objects.append(written(self.newest))
        return now


def written(version: int) -> ManagedObject:
    annotations = {ANNOTATION_HUB: "hub", ANNOTATION_HUB_VERSION: str(version)}
    return ManagedObject(metadata=Meta(name=f"w-{version}", annotations=annotations))


@pytest.mark.proves("N11")
@pytest.mark.parametrize(
    ("seen", "lies", "back"),
    [(100, 90, False), (100, 101, True), (101, 90, True)],
    ids=["while it is asked", "an object is younger", "a Workload was younger"],
)
async def test_a_hub_that_goes_on_while_it_is_asked_was_not_set_back(
    seen: int, lies: int, back: bool
):
    objects = [written(lies)]
    hub = GrowingHub(objects)
    brake, _ = _brake(hub)
    link = _connection(SimpleNamespace(values=lambda: objects))
    hub.newest = seen
    if seen > 100:
        hub.version = _set_back  # type: ignore[method-assign]
    assert await brake._hub_went_back(_session("m1", link)) is back


def _brake(hub: Any) -> tuple[SweepBrake, list[str]]:
    """A brake that knows the hub alone, and the members that it calls for a count."""
    brake, called = object.__new__(SweepBrake), list[str]()
    brake._behind, brake._set_back, brake._sweeps = False, False, WeakKeyDictionary()
    brake._identity = brake._workloads = hub
    brake._registry = cast("Any", SimpleNamespace(names=lambda: ["m1", "m2"]))
    brake._queue = cast("Any", SimpleNamespace(add=called.append))
    return brake, called


@pytest.mark.proves("B14")
async def test_a_restore_is_over_when_versions_have_passed_it_and_each_member_was_counted():
    hub = GrowingHub([])
    brake, called = _brake(hub)
    m1, m2 = (_session(name, _connection()) for name in ("m1", "m2"))
    now = 100

    async def version() -> int:
        return now

    hub.version, hub.newest = version, 200  # type: ignore[method-assign]
    assert await brake._hub_went_back(m1)
    assert called == ["m1", "m2"], "the rest is counted as well"
    now = 200
    assert not await brake._hub_went_back(m1)
    assert await brake._hub_went_back(m2), "what it has of lost Workloads is not swept"
    assert not await brake._hub_went_back(m2)
    now = 150
    assert await brake._hub_went_back(m1), "set back once more"
    hub.newest = now = 300
    assert not await brake._hub_went_back(m1)
    assert await brake._hub_went_back(m2)


@pytest.mark.proves("N11")
async def test_a_process_that_has_not_seen_the_hub_go_back_holds_what_it_finds_first():
    """The hub has passed the versions of before, but not the Lease on the member."""
    brake, _ = _brake(GrowingHub([]))
    m1 = _session("m1", _connection(hub_went_back=True))
    assert await brake._hub_went_back(m1)
    assert not await brake._hub_went_back(m1)
    assert not await brake._hub_went_back(_session("m2", _connection()))


@pytest.mark.proves("N11")
@pytest.mark.parametrize(
    ("made", "reason"),
    [("2026-11-30T11:59:59Z", "HubWentBack"), ("2026-11-30T12:00:00Z", None)],
)
async def test_what_was_made_before_another_shard_has_seen_the_hub_go_back_is_held(
    made: str, reason: str | None
) -> None:
    """This process has begun since, and the hub has passed all versions of before."""
    brake, _ = _brake(GrowingHub([]))
    left = {"u": HeldWorkload("shop", "web", "u", 1, 0)}
    found = _Count("m1", 0.0, left, {"u": made}, 1)
    brake._membership = cast("Any", SimpleNamespace(set_back="2026-11-30T12:00:00Z"))
    brake._clusters, brake._clock = cast("Any", {}), FakeClock()
    brake._restored = cast("Any", SimpleNamespace(noted=_nothing))
    brake._workloads.kind_since = _never  # type: ignore[method-assign]
    session = _Counted(found)
    with mock.patch.object(SweepBrake, "_left_behind", _Counted.left_behind):
        await brake._count(cast("Any", session))
    assert session.held is not None
    assert session.held.reason == reason


@pytest.mark.proves("N11", "SC15")
async def test_a_permission_lasts_until_what_it_lets_go_is_gone() -> None:
    """No event tells of the end: what leaves slowly is looked at again."""
    brake, _ = _brake(GrowingHub([]))
    left = {"u": HeldWorkload("shop", "web", "u", 1, 0)}
    session = _Counted(_Count("m1", 0.0, left, {"u": "2026-11-30T12:00:00Z"}, 1))
    meta = SimpleNamespace(uid="c", resource_version="7", annotations={ANNOTATION_SWEEP: "u"})
    written: list[Any] = []

    async def merge_patch(_resource: Any, name: str, body: Any) -> None:
        written.append((name, body["metadata"]["annotations"]))

    brake._registry = cast("Any", SimpleNamespace(get=lambda _: session))
    brake._clusters = cast("Any", {("", "m1"): SimpleNamespace(metadata=meta)})
    brake._hub = cast("Any", SimpleNamespace(merge_patch=merge_patch))
    brake._fresh, brake._clock = lambda: True, FakeClock()
    seen = mock.patch.object(SweepBrake, "_sees_all", return_value=True)
    with seen, mock.patch.object(SweepBrake, "_left_behind", _Counted.left_behind):
        assert await brake._recount("m1") is not None
        assert written == []
        session.count = _Count("m1", 0.0, {}, {}, 1)
        assert await brake._recount("m1") is None
    assert written == [("m1", {ANNOTATION_SWEEP: None})]


class _Counted:
    """A session without objects, of which a count is given."""

    name, link, went_back_to, ready = "m1", None, None, True

    def __init__(self, count: _Count) -> None:
        self.count = count
        self.held: HeldSweep | None = None

    def hold_sweep(self, held: HeldSweep) -> None:
        self.held = held

    @staticmethod
    async def left_behind(_brake: SweepBrake, session: Any, _hub: str) -> _Count:
        return cast("_Count", session.count)


async def _nothing() -> None:
    return None


async def _never() -> str:
    return ""


def _session(name: str, link: Any) -> Any:
    return _Session(name=name, link=link)


def _connection(*watches: Any, hub_went_back: bool = False) -> Any:
    return SimpleNamespace(watches=watches, hub_went_back=hub_went_back)


async def _set_back() -> int:
    return 100
