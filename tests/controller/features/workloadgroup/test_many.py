"""A refusal of a group of very many Workloads costs no more than one of few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from controller.features.workloadgroup.ledger import Member
from crds.groups.workloadgroup import MOST_WORKLOADS
from crds.workload import ScheduledReason
from machinery.types.metadata import Key
from tests.controller.features.workloadgroup.ganging import NS, Yard, group, member, room

BATCH = (NS, "batch")


class Counted(dict[Key, Member]):
    """The members of a group, which counts how many of them are read."""

    read = 0

    def __iter__(self) -> Iterator[Key]:
        return self._counted(super().__iter__())

    def keys(self) -> Any:
        return self._counted(super().keys())

    def values(self) -> Any:
        return self._counted(super().values())

    def items(self) -> Any:
        return self._counted(super().items())

    def get(self, key: Key, default: Any = None) -> Any:
        self.read += 1
        return super().get(key, default)

    def __getitem__(self, key: Key) -> Member:
        self.read += 1
        return super().__getitem__(key)

    def _counted(self, those: Any) -> Any:
        for each in those:
            self.read += 1
            yield each


def crowd(size: int, *, least: int, present: int = 0, **how: Any) -> tuple[Yard, Counted]:
    """A group of so many Workloads of one unit, the first ones with a place."""
    made = Yard(room("a", "0"))
    made.group(group(min_member=least, **how))
    made.store(member("w0", 1, present={"a": 1} if present else None))
    first = made.world.info((NS, "w0"))
    for n in range(1, size):
        there = {"a": 1} if n < present else {}
        info = replace(first, name=f"w{n}", uid=f"uid-w{n}", present=there)
        made.groups.put(info, there)
    roll = made.groups._rolls[BATCH]
    counted = Counted(roll.members)
    roll.members = counted
    counted.read = 0
    return made, counted


def reads(size: int, **how: Any) -> int:
    made, counted = crowd(size, **how)
    snapshot, now = made.world.snapshot(), made.time.at
    last = made.groups._rolls[BATCH].members[NS, f"w{size - 1}"].workload
    before = counted.read
    found = made.plugin.gathering(last, snapshot, made.world.index, now)
    assert found is None
    return counted.read - before


@pytest.mark.proves("G23")
@pytest.mark.parametrize("present", [0, 20])
def test_a_refusal_reads_no_more_of_the_members_where_there_are_more(present: int) -> None:
    """Among them those with a place that were released: nothing is to be taken back of them."""
    released = {f"uid-w{n}": "0" for n in range(present)}
    how = {"least": 10**6, "present": present, "status": {"gate": "Open", "decisions": released}}
    few, many = reads(100, **how), reads(1000, **how)
    assert many <= few <= present + 10
    assert reads(MOST_WORKLOADS + 1, **(how | {"least": 1 + present})) <= few


@pytest.mark.proves("G23")
def test_what_a_refusal_takes_back_is_found_all_the_same() -> None:
    made, _ = crowd(100, least=1000, present=3)
    last = made.groups.members(BATCH)[NS, "w99"].workload
    found = made.plugin.gathering(last, made.world.snapshot(), made.world.index, made.time.at)
    assert found is not None
    assert found.refusal is not None
    assert found.withdrawn == {(NS, f"w{n}"): {} for n in range(3)}
    assert len(found.members) == 100


@pytest.mark.proves("G23")
def test_one_that_no_book_knows_gives_back_what_it_has() -> None:
    made, _ = crowd(2, least=9)
    stranger = replace(made.groups.members(BATCH)[NS, "w1"].workload, name="x", present={"a": 1})
    found = made.plugin.gathering(stranger, made.world.snapshot(), made.world.index, made.time.at)
    assert found is not None
    assert found.withdrawn == {(NS, "x"): {}}


@pytest.mark.proves("G18", "G23")
def test_too_many_are_told_what_to_do_about_it() -> None:
    made, _ = crowd(MOST_WORKLOADS + 1, least=1)
    [found] = made.batch("w0").decisions
    assert found.reason is ScheduledReason.INVALID_GROUP
    assert "has 4097 Workloads, 4096 at most: make several groups" in found.message
    [refusal] = found.refusals
    said = made.plugin.cure(_shortage(found), refusal, None)
    assert said == (
        "several groups instead of WorkloadGroup shop/batch, or its label taken off some of its"
        " Workloads"
    )


def _shortage(found: Any) -> Any:
    class Shortage:
        workload, reason = found.workload, found.reason

    return Shortage()


@pytest.mark.proves("G23")
def test_of_too_many_none_is_woken_by_one_more() -> None:
    made, _ = crowd(MOST_WORKLOADS, least=1)
    waiting = made.groups.members(BATCH)[NS, "w1"].workload
    new = member("new", 1)
    assert made.plugin._sibling(waiting, None, new)
    made.groups.put(new.info, {})
    assert not made.plugin._sibling(waiting, None, new)
    assert made.plugin._sibling(waiting, new, None), "they are few enough again without it"
    assert made.plugin._sibling(waiting, new, member("new", 1, of="other"))
    for name in ("more", "most"):
        made.groups.put(member(name, 1).info, {})
    assert not made.plugin._sibling(waiting, new, None)
