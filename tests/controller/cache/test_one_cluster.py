"""A change of one MemberCluster costs the same in a small fleet and in a large one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest

from benchmarks.fleets import clusters
from controller.eventhandlers import SchedulerCache
from controller.model.objects import MemberCluster
from controller.plugins.defaults import PrioritySort
from controller.queue.scheduling_queue import SchedulingQueue
from tests.fakeclock import FakeClock

FEW, MANY = 50, 500


def changed(each: MemberCluster, number: int) -> MemberCluster:
    """The same with another version and another capacity."""
    assert each.status.capacity is not None
    requested = {**each.status.capacity.requested, "cpu": f"{1 + number % 7}"}
    capacity = msgspec.structs.replace(each.status.capacity, requested=requested)
    meta = msgspec.structs.replace(each.metadata, resource_version=f"{100_000 + number}")
    status = msgspec.structs.replace(each.status, capacity=capacity)
    return msgspec.structs.replace(each, metadata=meta, status=status)


def change_of(fleet: int) -> Callable[[int], None]:
    """What changes one cluster of so many in a term, with the snapshot of the next decision."""
    world = SchedulerCache({"stowage"}, sort=PrioritySort(), reviewed=lambda _: True)
    stored = clusters(fleet)
    for each in stored:
        world.cluster_changed(None, each)
    world.lead(SchedulingQueue(clock=FakeClock()))
    world.snapshot()

    def change(number: int) -> None:
        row = number * 37 % fleet
        before, stored[row] = stored[row], changed(stored[row], number)
        world.cluster_changed(before, stored[row])
        world.snapshot()

    return change


def calls(change: Callable[[int], None]) -> int:
    """Count the calls of functions, those of C included."""
    number = 0

    def count(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    change(0)
    sys.setprofile(count)
    try:
        change(1)
    finally:
        sys.setprofile(None)
    return number


@pytest.mark.proves("SC26")
def test_a_change_of_one_cluster_looks_at_no_other() -> None:
    few, many = (calls(change_of(fleet)) for fleet in (FEW, MANY))
    assert many <= 1.2 * few
