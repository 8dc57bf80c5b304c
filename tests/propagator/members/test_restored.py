"""What a restore of the hub means for one Workload on one member."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from crds.names import (
    ANNOTATION_HUB,
    ANNOTATION_HUB_VERSION,
    ANNOTATION_RESTORED,
    ANNOTATION_SINCE,
    OWNER_PREFIX,
    RESTORED,
    SYSTEM_NAMESPACE,
)
from crds.restored import RestoredMark
from machinery.api.resources import CONFIG_MAPS
from machinery.types.metadata import Meta
from propagator.members.objects import ManagedObject, Mark
from propagator.members.restored import FRESH_SECONDS, NOTHING, RestoredHub
from propagator.removal.rule import Grant, Stays, granted
from propagator.types.workload import Workload, workload_of
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub

NOTE = {"restore": "r1", "hub": "former", "resourceVersion": "200"}


def workload(mark: str = "", generation: int = 1) -> Workload:
    notes = {ANNOTATION_RESTORED: mark} if mark else {}
    meta = {"namespace": "shop", "name": "web", "uid": "u1", "annotations": notes}
    return workload_of({"metadata": {**meta, "generation": generation}, "spec": {}})


def lying(version: int, *, hub: str = "former", owner: str = "u0", **notes: str) -> ManagedObject:
    said = {ANNOTATION_HUB: hub, ANNOTATION_HUB_VERSION: str(version), **notes}
    meta = Meta(name="web", uid="o1", annotations={**said, OWNER_PREFIX + owner: "shop/web"})
    return ManagedObject(metadata=meta, kind="Deployment", api_version="apps/v1")


@pytest.fixture
def hub() -> MemoryHub:
    return MemoryHub(clock=FakeClock(), admission=False)


def restored(hub: MemoryHub, *, went_back_to: int | None = None) -> RestoredHub:
    async def uid() -> str:
        return "own-uid"

    told: Any = {"clock": hub.clock, "went_back_to": lambda: went_back_to}
    return RestoredHub(hub, uid=uid, namespace=SYSTEM_NAMESPACE, **told)


def noted(hub: MemoryHub, **data: str) -> None:
    meta = {"name": RESTORED, "namespace": SYSTEM_NAMESPACE}
    hub.put(CONFIG_MAPS, {"metadata": meta, "data": {**NOTE, **data}})


@pytest.mark.proves("PK32")
async def test_a_hub_that_was_never_restored_is_asked_nothing(hub: MemoryHub) -> None:
    assert await restored(hub).of(workload(), None) is NOTHING
    assert not hub.requests


@pytest.mark.proves("PK32")
@pytest.mark.parametrize(
    ("mark", "generation", "younger"),
    [("r1/1", 1, True), ("r1/1", 2, False), ("r1/accepted", 1, False), ("r0/1", 1, False)],
    ids=["as restored", "edited", "accepted", "of another restore"],
)
async def test_an_object_is_younger_until_the_workload_is_edited_or_accepted(
    hub: MemoryHub, mark: str, generation: int, *, younger: bool
) -> None:
    noted(hub)
    found = await restored(hub).of(workload(mark, generation), None)
    assert found.younger(lying(201), "u1") is younger
    assert not found.younger(lying(200), "u1"), "the backup has it"
    assert not found.younger(lying(201, hub="own-uid"), "u1")
    assert not found.younger(lying(201, **{ANNOTATION_SINCE: "r1"}), "u1")


@pytest.mark.proves("PK32")
async def test_a_restore_that_is_over_is_asked_for_once_and_its_end_is_seen(
    hub: MemoryHub,
) -> None:
    noted(hub)
    one = restored(hub)
    assert (await one.of(workload("r1/1"), None)).since == "r1"
    hub.edit(CONFIG_MAPS, RESTORED, {"data": {"restore": None}}, namespace=SYSTEM_NAMESPACE)
    await hub.clock.advance(FRESH_SECONDS)  # type: ignore[attr-defined] # a FakeClock
    assert await one.of(workload("r1/1"), None) == NOTHING
    asked = len(hub.requests)
    assert await one.of(workload("r1/1"), None) == NOTHING
    assert len(hub.requests) == asked


@pytest.mark.proves("PK33")
async def test_a_set_back_counts_for_the_workload_s_own_objects_until_an_edit_that_follows(
    hub: MemoryHub,
) -> None:
    one = restored(hub)
    found = await one.of(workload(), 200)
    mine = lying(201, hub="own-uid", owner="u1")
    assert found.note([mine], "u1").endswith("/1")
    assert not found.note([lying(200, hub="own-uid", owner="u1")], "u1"), "nothing is younger"
    assert found.younger(mine, "u1")
    assert not found.younger(lying(201, hub="own-uid", owner="u0"), "u1"), "it was made since"
    one.workload_changed(workload(generation=5), workload(generation=4))
    assert (await one.of(workload(), 200)).younger(mine, "u1"), "the set-back is no edit"
    one.workload_changed(workload(generation=4), workload(generation=5))
    edited = await one.of(workload(generation=5), 200)
    assert not edited.younger(mine, "u1")
    note = edited.note([], "u1")
    assert RestoredMark.of({ANNOTATION_RESTORED: note}).state == "accepted"
    one.begin()
    again = await one.of(workload(note, generation=5), 200)
    assert not again.younger(mine, "u1"), "the next process knows it by the mark"
    assert again.since


@pytest.mark.proves("PK33", "SC14")
async def test_processes_that_found_one_set_back_at_two_versions_agree_on_its_name(
    hub: MemoryHub,
) -> None:
    mark, written, processes = "", 0, [(restored(hub), 210), (restored(hub), 205)]
    for _ in range(3):
        for process, version in processes:
            told = await process.of(workload(mark), version)
            note = told.note([lying(400, hub="own-uid", owner="u1")], "u1")
            mark, written = note or mark, written + bool(note)
    assert written <= 2
    mark = mark.replace("/1", "/accepted")
    for process, version in processes:
        told = await process.of(workload(mark), version)
        assert not told.younger(lying(400, hub="own-uid", owner="u1"), "u1")
    processes[1][0].workload_changed(workload(generation=1), workload(generation=2))
    told = await processes[1][0].of(workload("own-210/2", generation=2), 205)
    assert not told.younger(lying(400, hub="own-uid", owner="u1"), "u1"), "it has seen an edit"
    later = await processes[0][0].of(workload(mark), 300)
    assert later.younger(lying(400, hub="own-uid", owner="u1"), "u1"), "the next set-back"


@pytest.mark.proves("PK31")
def test_what_is_younger_is_removed_for_the_end_of_its_workload_alone() -> None:
    said: dict[str, Any] = {
        "mark": Mark("r", "c"),
        "decided": float("inf"),
        "registered": lambda _: False,
        "younger": lambda _: True,
    }
    found = msgspec.structs.replace(lying(201))
    assert granted(found, "u0", ended=False, **said) is Stays.YOUNGER
    assert isinstance(granted(found, "u0", ended=True, **said), Grant)


@pytest.mark.proves("PK33")
async def test_what_the_leases_of_shards_tell_of_a_set_back_needs_no_member_to_tell_it(
    hub: MemoryHub,
) -> None:
    """Sessions go on, and write before they look at the Leases on members."""
    one = restored(hub, went_back_to=200)
    mine = lying(201, hub="own-uid", owner="u1")
    assert (await one.of(workload(), None)).younger(mine, "u1")
    assert (await one.of(workload(), 200)).since.count(",") == 0, "the Lease there says the same"


@pytest.mark.proves("PK33")
@pytest.mark.parametrize(
    ("mark", "generation", "goes"),
    [("own-200/1", 1, False), ("own-200/1", 2, True), ("own-200/accepted", 1, True)],
    ids=["as it was then", "edited", "accepted"],
)
async def test_an_edit_decides_also_for_a_process_that_has_not_seen_it(
    hub: MemoryHub, mark: str, generation: int, *, goes: bool
) -> None:
    told = await restored(hub, went_back_to=200).of(workload(mark, generation), None)
    rule: dict[str, Any] = {
        "mark": Mark("r", "c"),
        "ended": False,
        "decided": 300,
        "registered": lambda _: False,
        "younger": lambda found: told.younger(found, "u1"),
        "former": lambda found: told.former(found, "u1"),
    }
    mine: dict[str, Any] = {"hub": "own-uid", "owner": "u1"}
    assert isinstance(granted(lying(400, **mine), "u1", **rule), Grant) is goes
    since = lying(400, **mine, **{ANNOTATION_SINCE: "own-200"})
    assert granted(since, "u1", **rule) is Stays.YOUNGER, "it is younger in the same history"


@pytest.mark.proves("PK33")
async def test_a_later_set_back_is_noted_where_an_earlier_one_was(hub: MemoryHub) -> None:
    one = restored(hub, went_back_to=200)
    mine = lying(400, hub="own-uid", owner="u1", **{ANNOTATION_SINCE: "own-200"})
    told = await one.of(workload("own-200/accepted"), None)
    assert not told.note([mine], "u1")
    told = await one.of(workload("own-200/accepted"), 300)
    assert told.note([mine], "u1") == "own-300/1"
