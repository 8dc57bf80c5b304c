"""A change of one MemberCluster costs the same in a small fleet and in a large one."""

from __future__ import annotations

import gc
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
from machinery.clock import stopwatch
from tests.fakeclock import FakeClock

FEW, MANY = 500, 5000
CHANGES = 20


def changed(each: MemberCluster, number: int) -> MemberCluster:
    """The same with another version and another capacity."""
    assert each.status.capacity is not None
    requested = {**each.status.capacity.requested, "cpu": f"{1 + number % 7}"}
    capacity = msgspec.structs.replace(each.status.capacity, requested=requested)
    meta = msgspec.structs.replace(each.metadata, resource_version=f"{100_000 + number}")
    status = msgspec.structs.replace(each.status, capacity=capacity)
    return msgspec.structs.replace(each, metadata=meta, status=status)


def change_of(fleet: int, *, snapshots: bool) -> Callable[[int], None]:
    """What changes one cluster of so many, in a term.

    With the snapshot of the next decision, which copies columns of numbers, it looks at no cluster
    either.
    """
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
        if snapshots:
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
    few, many = (calls(change_of(fleet, snapshots=True)) for fleet in (FEW // 10, MANY // 10))
    assert many <= 1.2 * few


@pytest.mark.perf
@pytest.mark.proves("SC26")
def test_a_change_of_one_cluster_takes_no_longer_among_ten_times_as_many() -> None:
    taken = {}
    for fleet in (FEW, MANY):
        change, times = change_of(fleet, snapshots=False), []
        gc.disable()
        for number in range(CHANGES):
            began = stopwatch()
            change(number)
            times.append(stopwatch() - began)
        gc.enable()
        taken[fleet] = min(times)
    assert taken[MANY] <= 2 * taken[FEW]
