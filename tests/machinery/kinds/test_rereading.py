"""Workloads that are read anew after the profile of a kind has changed: in slices, all of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from machinery.kinds.workloadkinds import Follower, Rereading, WorkloadKind, use_stored
from machinery.tasks import SLICE
from machinery.types.metadata import Meta, Object
from tests.fakeclock import settle

GADGET = ("example.com", "Gadget")
WIDGET = ("example.com", "Widget")


class Reading:
    """What was read, and by which changed kinds."""

    def __init__(self, number: int) -> None:
        self.stored = [Object(metadata=Meta(name=f"w{n}", namespace="shop")) for n in range(number)]
        self.read: list[tuple[str, frozenset[tuple[str, str]]]] = []
        self.rereading = Rereading(lambda: self.stored, self._read)

    def _read(self, key: Any, kinds: Any) -> None:
        self.read.append((key[1], frozenset(kinds)))

    async def slices(self) -> list[int]:
        """Run until nothing is due, and count what each turn of the loop has read."""
        running, found = asyncio.create_task(self.rereading.run()), []
        try:
            while self.rereading.due:
                before = len(self.read)
                await asyncio.sleep(0)
                found.append(len(self.read) - before)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
        return [number for number in found if number]


@pytest.mark.proves("S2")
async def test_all_are_read_in_slices_once_for_all_kinds_that_changed() -> None:
    reading = Reading(5 * SLICE + 1)
    reading.rereading.changed(*GADGET)
    reading.rereading.changed(*WIDGET)
    assert not reading.read, "not in the step that sees the change"
    assert reading.rereading.due
    assert await reading.slices() == [SLICE] * 5 + [1]
    assert {kinds for _, kinds in reading.read} == {frozenset({GADGET, WIDGET})}


async def test_a_fault_of_one_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    reading = Reading(3)

    def faulty(key: Any, kinds: Any) -> None:
        if key[1] == "w1":
            raise KeyError("spec")
        reading._read(key, kinds)

    reading.rereading = Rereading(lambda: reading.stored, faulty)
    reading.rereading.changed(*GADGET)
    await reading.slices()
    assert [name for name, _ in reading.read] == ["w0", "w2"]
    assert [each.object for each in caplog.records] == ["shop/w1"]


async def test_a_kind_that_changes_meanwhile_is_read_once_more() -> None:
    reading = Reading(2 * SLICE)
    reading.rereading.changed(*GADGET)
    reading.rereading.changed(*WIDGET)
    running = asyncio.create_task(reading.rereading.run())
    while not reading.read:  # noqa: ASYNC110 - each pause is a slice
        await asyncio.sleep(0)
    reading.rereading.changed(*GADGET)
    await settle()
    running.cancel()
    assert not reading.rereading.due
    again = reading.read[2 * SLICE :]
    assert len(again) == 2 * SLICE
    assert {kinds for _, kinds in again} == {frozenset({GADGET})}


async def test_what_was_interrupted_stays_due_and_begins_again() -> None:
    reading = Reading(3 * SLICE)
    reading.rereading.changed(*GADGET)
    running = asyncio.create_task(reading.rereading.run())
    while not reading.read:  # noqa: ASYNC110 - each pause is a slice
        await asyncio.sleep(0)
    running.cancel()
    await settle()
    assert len(reading.read) < 3 * SLICE
    assert reading.rereading.due
    assert sum(await reading.slices()) == 3 * SLICE
    assert not reading.rereading.due


@pytest.mark.proves("KD4")
def test_a_kind_of_which_the_spelling_is_mended_is_read_anew_under_both() -> None:
    """Two spellings have one name."""

    def spelt(kind: str) -> WorkloadKind:
        spec = {"group": "example.com", "kind": kind, "versions": ["v1"]}
        return WorkloadKind(metadata=Meta(name="gadgetset.example.com"), spec=spec)

    stored, changed = [spelt("Gadgetset")], set[tuple[str, str]]()
    follower = Follower(lambda: stored, lambda group, kind: changed.add((group, kind)))
    before, stored[0] = stored[0], spelt("GadgetSet")
    follower.kind_changed(before, stored[0])
    use_stored(())
    assert changed == {("example.com", "Gadgetset"), ("example.com", "GadgetSet")}
