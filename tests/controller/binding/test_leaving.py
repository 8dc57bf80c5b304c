"""status.leaving: what still stands where a Workload is placed no more, until others are ready."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.binding.moving import MOST_LEAVING, leaving_of
from controller.cache.asread import Renames
from controller.eventhandlers import known
from controller.explain.history import Occasion
from controller.model.objects import Workload
from controller.model.unit import workload_info
from controller.scheduling.moving import NO_MOVES, Moves
from controller.snapshot.snapshot import Snapshot
from machinery.api.resources import WORKLOADS
from machinery.types.workload_api import LeavingShare
from tests.controller import make
from tests.controller.memory import Stage

AT = "2026-01-01T00:00:00Z"
NAMES = ("m1", "m2", "m3")


def stored(
    placements: Mapping[str, int],
    *,
    ready: Mapping[str, int],
    leaving: Mapping[str, int] | None = None,
    stands: Mapping[str, int] | None = None,
    **spec: Any,
) -> Workload:
    """A Workload as the hub has it."""
    spec.setdefault("distribution", "Divided")
    bare = make.workload(present=placements, **spec)
    status = {
        **msgspec.to_builtins(bare.status),
        "leaving": [
            {"cluster": name, "replicas": n, "cause": "Edited", "since": AT}
            for name, n in (leaving or {}).items()
        ],
        "clusters": [
            {
                "name": name,
                "replicas": n,
                "ready": ready.get(name, 0),
                "scheduled": (stands or {}).get(name, 0),
            }
            for name, n in {**ready, **(stands or {}), **placements}.items()
        ],
    }
    status.pop("why", None)
    status.pop("reservations", None)
    document = msgspec.to_builtins(bare)
    for field in ("info", "fault"):
        document.pop(field, None)
    return msgspec.convert({**document, "status": status}, Workload)


@cache
def fleet(names: tuple[str, ...], *, lost: tuple[str, ...] = ()) -> Snapshot:
    return make.snapshot(*(make.cluster(name, ready=name not in lost) for name in names))


def left(
    workload: Workload,
    placements: Mapping[str, int],
    *,
    clusters: tuple[str, ...] = NAMES,
    moves: Moves = NO_MOVES,
) -> list[LeavingShare]:
    return leaving_of(
        workload,
        workload_info(workload),
        placements,
        moves=moves,
        snapshot=fleet(clusters),
        occasion=lambda: Occasion("2026-01-02T00:00:00Z", "Scaled"),
    )


def leaves(
    workload: Workload,
    placements: Mapping[str, int],
    *,
    clusters: tuple[str, ...] = NAMES,
    moves: Moves = NO_MOVES,
) -> dict[str, int]:
    found = left(workload, placements, clusters=clusters, moves=moves)
    return {each.cluster: each.replicas for each in found}


@pytest.mark.proves("M8")
@pytest.mark.parametrize(
    ("ready", "stay"),
    [
        ({"m1": 4, "m2": 2}, {"m1": 2}),
        ({"m1": 4, "m2": 3}, {"m1": 1}),
        ({"m1": 4, "m2": 4}, {}),
        ({"m1": 4}, {"m1": 2}),
    ],
)
def test_a_share_that_shrinks_leaves_as_the_other_becomes_ready(
    ready: Mapping[str, int], stay: Mapping[str, int]
) -> None:
    moved = {"m1": 2, "m2": 4}
    assert leaves(stored({"m1": 4, "m2": 2}, ready=ready), moved) == stay
    again = stored(moved, leaving={"m1": 2}, ready=ready)
    assert leaves(again, moved) == stay, "the decision after that says the same"


@pytest.mark.proves("M8")
def test_a_smaller_number_moves_nothing() -> None:
    before = stored({"m1": 3, "m2": 3}, ready={"m1": 3})
    assert leaves(before, {"m1": 2, "m2": 2}) == {}
    assert leaves(before, {}) == {}


def test_what_comes_back_before_it_has_left_leaves_no_more() -> None:
    before = stored({"m2": 4}, leaving={"m1": 4}, ready={"m1": 4, "m2": 1})
    assert leaves(before, {"m1": 2, "m2": 2}) == {"m1": 1}
    assert leaves(before, {"m1": 4}) == {}


@pytest.mark.proves("M14")
def test_a_single_copy_goes_when_all_of_the_other_is_ready() -> None:
    for ready, stay in ((0, {"m1": 3}), (2, {"m1": 3}), (3, {})):
        before = stored({"m1": 3}, ready={"m1": 3, "m2": ready}, distribution="Single")
        assert leaves(before, {"m2": 3}) == stay


def test_a_cluster_that_is_gone_holds_nothing() -> None:
    before = stored({"m1": 4}, ready={"m1": 4})
    assert leaves(before, {"m2": 4}, clusters=("m2", "m3")) == {}


def test_a_status_names_so_many_at_the_most() -> None:
    names = [f"c{number:04}" for number in range(3 * MOST_LEAVING)]
    half = len(names) // 2
    before = stored(dict.fromkeys(names[:half], 2), ready=dict.fromkeys(names[:half], 2))
    after = dict.fromkeys(names[half:], 2)
    stay = leaves(before, after, clusters=tuple(names))
    assert list(stay) == names[:MOST_LEAVING]


def test_neither_copies_nor_gangs_leave_by_replicas() -> None:
    copies = stored({"m1": 2, "m2": 2}, ready={"m1": 2}, distribution="Duplicated")
    assert leaves(copies, {"m2": 2, "m3": 2}) == {}
    gang = make.workload(present={"m1": 4}, distribution="Divided")
    labels = {"stowage.dev/workload-group": "g"}
    meta = msgspec.structs.replace(gang.metadata, labels=labels)
    assert leaves(msgspec.structs.replace(gang, metadata=meta), {"m2": 4}) == {}


def test_an_entry_says_since_when_and_why_and_keeps_it() -> None:
    workload = stored({"m1": 1, "m2": 5}, leaving={"m1": 2}, ready={"m1": 3, "m2": 1, "m3": 0})
    found = leaving_of(
        workload,
        workload_info(workload),
        {"m1": 1, "m3": 5},
        moves=NO_MOVES,
        snapshot=fleet(NAMES),
        occasion=lambda: Occasion("2026-01-02T00:00:00Z", "ClusterGone", "m2"),
    )
    assert found == [
        LeavingShare("m1", 2, since=AT, cause="Edited"),
        LeavingShare("m2", 3, since="2026-01-02T00:00:00Z", cause="ClusterGone", name="m2"),
    ]


counts = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9))


@pytest.mark.proves("M8")
@given(counts, counts, counts, counts)
def test_what_is_ready_stays_at_least_what_it_was_or_is_wanted(
    before: dict[str, int], leaving: dict[str, int], after: dict[str, int], ready: dict[str, int]
) -> None:
    """Of a move: as many replicas as before, and each cluster's ready ones stand there."""
    for name in NAMES:
        standing = before.get(name, 0) + leaving.get(name, 0)
        ready[name] = min(ready.get(name, 0), standing)
    leaving = {name: n for name, n in leaving.items() if n}
    workload = stored(before, leaving=leaving, ready=ready)
    stay = leaves(workload, after)
    standing = {name: before.get(name, 0) + leaving.get(name, 0) for name in NAMES}
    for name, replicas in stay.items():
        assert 0 < replicas <= standing[name] - after.get(name, 0)
    if not after or sum(after.values()) != sum(before.values()) + sum(leaving.values()):
        return
    left = sum(after.get(name, 0) + stay.get(name, 0) for name in NAMES)
    missing = sum(max(n - ready.get(name, 0), 0) for name, n in after.items())
    assert left - missing >= min(sum(after.values()), sum(standing.values()) - missing)


@pytest.mark.proves("M14", "M8")
async def test_a_controller_writes_it_with_the_placements_and_ends_it_as_pods_are_ready() -> None:
    stage = Stage()
    for name in ("a", "b"):
        stage.cluster(name, zone=name)

    def leaving() -> list[dict[str, Any]]:
        return list(stage.hub.read(WORKLOADS, "demo")["status"].get("leaving", ()))

    def report(**ready: int) -> None:
        clusters = [{"name": name, "replicas": n, "ready": n} for name, n in ready.items()]
        stage.hub.edit(WORKLOADS, "demo", {"status": {"clusters": clusters}}, status=True)

    async with stage.leading():
        rules = {"distribution": "Divided", "clusterSelector": {"zone": "a"}}
        stage.workload("demo", replicas=3, **rules)
        await stage.until(lambda: stage.placed("demo") == {"a": 3})
        report(a=3)
        stage.hub.edit(WORKLOADS, "demo", {"spec": {"clusterSelector": {"zone": "b"}}})
        await stage.until(lambda: stage.placed("demo") == {"b": 3})
        (share,) = leaving()
        assert (share["cluster"], share["replicas"], share["cause"]) == ("a", 3, "Edited")
        since = share["since"]
        report(a=3, b=1)
        await stage.until(lambda: [each["replicas"] for each in leaving()] == [2])
        assert leaving()[0]["since"] == since
        report(a=2, b=3)
        await stage.until(lambda: not leaving())
        assert stage.placed("demo") == {"b": 3}


@pytest.mark.proves("A33")
@pytest.mark.parametrize(
    ("stands", "ready", "told"),
    [
        ({"m1": 4}, {"m2": 4}, {"m1": (4, 4)}),
        ({"m1": 1}, {"m2": 4}, {"m1": (1, 1)}),
        ({"m1": 4}, {"m2": 1}, {"m1": (4, 1)}),
        ({}, {"m2": 4}, {}),
    ],
)
def test_what_is_replaced_is_named_until_it_is_gone(
    stands: Mapping[str, int], ready: Mapping[str, int], told: Mapping[str, tuple[int, int]]
) -> None:
    moved = {"m2": 4}
    workload = stored(moved, leaving={"m1": 4}, ready=ready, stands=stands)
    found = left(workload, moved)
    assert {each.cluster: (each.replicas, each.replaced) for each in found} == told


@pytest.mark.proves("A33")
def test_what_is_replaced_is_named_beside_what_begins_to_leave() -> None:
    """A budget holds the first of two steps back; the second has a successor that is not ready."""
    before, after = {"m1": 3, "m2": 2, "m3": 1}, {"m1": 3, "m2": 3}
    workload = stored(
        before, leaving={"m3": 1}, ready={"m1": 3, "m2": 2, "m3": 2}, stands={"m3": 2}
    )
    found = left(workload, after)
    assert [(each.cluster, each.replicas, each.replaced) for each in found] == [("m3", 2, 1)]


@pytest.mark.proves("A8")
def test_what_leaves_a_cluster_leaves_it_by_its_new_name() -> None:
    workload = stored({"m1": 2, "m2": 2}, leaving={"m1": 2}, ready={"m2": 2})
    paris = make.cluster("paris", formerNames=["m1"])
    found = leaving_of(
        workload,
        workload_info(workload),
        {"paris": 2, "m2": 2},
        moves=NO_MOVES,
        snapshot=make.snapshot(paris, make.cluster("m2")),
        occasion=lambda: Occasion("2026-01-02T00:00:00Z", "Renamed"),
    )
    assert {each.cluster: (each.replicas, each.cause) for each in found} == {"paris": (2, "Edited")}


@pytest.mark.proves("A8", "A32")
@pytest.mark.parametrize("state", ["Leaving", "Unreachable"])
def test_what_may_stand_on_a_renamed_cluster_is_not_taken_for_gone(state: str) -> None:
    """The reports have the former name until the placements have the new one."""
    moved = {"m2": 2}
    once = {"movement": {"maxSurge": 0}}
    workload = stored(moved, leaving={"m1": 2}, ready={}, stands={"m1": 2}, **once)
    told = {each.name: each for each in workload.status.clusters}
    msgspec.structs.force_setattr(told["m1"], "state", state)
    paris, names = make.cluster("paris", formerNames=["m1"]), Renames()
    names.saw(None, paris)
    found = leaving_of(
        workload,
        names.of(known(workload)).info,
        moved,
        moves=NO_MOVES,
        snapshot=make.snapshot(paris, make.cluster("m2")),
        occasion=lambda: Occasion("2026-01-02T00:00:00Z", "Renamed"),
    )
    assert {each.cluster: each.replicas for each in found} == {"paris": 2}


@pytest.mark.proves("A33", "A21")
@pytest.mark.parametrize("surge", [None, "10%", 1])
def test_a_scale_to_nothing_in_the_middle_of_a_move_replaces_all_that_leaves(surge: Any) -> None:
    """A part of no replicas is no surge of none: it is not taken for what runs once."""
    movement = {} if surge is None else {"movement": {"maxSurge": surge}}
    now = {"m2": 0}
    workload = stored(now, leaving={"m1": 1}, ready={}, stands={"m1": 1}, replicas=0, **movement)
    found = left(workload, now)
    assert [(each.cluster, each.replicas, each.replaced) for each in found] == [("m1", 1, 1)]
