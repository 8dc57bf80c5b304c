"""Work that is divided with the replicas: each part is done once, whoever does it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from controller.model.work import Work
from machinery.kinds.readiness import Judged, done_of

SHARES = {"m1": 2, "m2": 1, "m3": 1}


@pytest.mark.proves("KD18")
def test_each_gets_as_much_as_it_has_replicas_and_the_rest_by_these() -> None:
    assert Work(10).after(SHARES, (), 0).parts == {"m1": 5, "m2": 3, "m3": 2}
    assert Work(4).after(SHARES, (), 0).parts == SHARES
    pending = Work(10).after({"m1": 2, "m2": 1}, (), 1)
    assert pending.parts == {"m1": 5, "m2": 3}
    assert pending.missing == 2
    assert pending.after(SHARES, (), 0).parts == {"m1": 5, "m2": 3, "m3": 2}


@pytest.mark.proves("KD19")
def test_what_a_share_has_not_done_goes_on_elsewhere_once_it_is_known() -> None:
    before = Work(10, {"m1": 5, "m2": 3, "m3": 2}, done={"m1": 2})
    moved = {"m4": 2, "m2": 1, "m3": 1}
    on_the_way = before.after(moved, ["m1"], 0)
    assert on_the_way.parts == {"m2": 3, "m3": 2}
    assert on_the_way.leaving == {"m1": 5}
    gone = on_the_way.after(moved, (), 0)
    assert gone.parts == {"m2": 3, "m3": 2, "m4": 3}
    assert (gone.completed, gone.missing) == (2, 0)
    # What comes back before anybody has taken it over goes on with what it has left.
    back = on_the_way.after(SHARES, (), 0)
    assert back.parts == {"m1": 3, "m2": 3, "m3": 2}


@pytest.mark.proves("KD19")
def test_what_comes_back_goes_on_with_its_own_part_as_its_job_may_stand_yet() -> None:
    before = Work(10, {"m3": 2}, {"m1": 5, "m2": 3}, done={"m1": 2, "m2": 1})
    back = before.after({"m1": 1, "m3": 1, "m4": 1}, ["m2"], 0)
    assert (back.parts, back.leaving, back.completed) == ({"m1": 3, "m3": 2}, {"m2": 3}, 2)
    gone = back.after({"m1": 1, "m3": 1, "m4": 1}, (), 0)
    assert (gone.parts, gone.completed) == ({"m1": 3, "m3": 2, "m4": 2}, 3)


@pytest.mark.proves("KD18")
@pytest.mark.parametrize("total", [0, 1, 3, 17, 1000])
@pytest.mark.parametrize("pending", [0, 2])
def test_all_of_it_is_somebodys(total: int, pending: int) -> None:
    shares = {"a": 3, "b": 3, "c": 1}
    work = Work(total).after(shares, (), pending)
    assert sum(work.parts.values()) + work.missing == total
    assert pending or not work.missing


@pytest.mark.proves("KD18")
def test_what_comes_back_twice_before_its_object_has_gone_is_counted_once() -> None:
    work, a = Work(10, {"a": 6, "b": 4}), Judged(total=6)
    for done in (2, 5):
        a = msgspec.structs.replace(a, done=done)
        work = replace(work, done={"a": done_of(a, work.parts["a"])})
        work = work.after({"b": 1}, ["a"], 0)
        work = work.after({"a": 1, "b": 1}, (), 0)
        assert work.completed == done
        assert work.parts == {"a": 6 - done, "b": 4}
        assert done_of(a, work.parts["a"]) == 0  # of what is left


@pytest.mark.proves("KD23")
def test_of_a_queue_only_what_has_begun_goes_on() -> None:
    queue = Work(None, begun=frozenset({"m2"}))
    assert queue.wanted(3, {"m2": 1, "m3": 1}) == 3
    over = Work(None, begun=frozenset({"m2"}), well=True)
    assert over.wanted(3, {"m2": 1, "m3": 1}) == 1
