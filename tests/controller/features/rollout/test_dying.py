"""The controller dies at each of its writes in turn: before it lands, or before its answer comes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.controller.features.rollout.fleet import NAME, RolloutFleet

LEAST_WRITES = 7
"""Of one rollout: its ControllerRevision, the decision, three starts, the end, and a removal."""


def _ours(method: str, path: str) -> bool:
    return method != "GET" and ("controllerrevisions" in path or path.endswith(f"{NAME}/status"))


class Reaper:
    """Lets the write of that number hang for ever; `dead` once it does."""

    def __init__(self, number: int) -> None:
        self.dead = asyncio.Event()
        self._left = number

    async def __call__(self, method: str, path: str, _body: Any) -> None:
        if not _ours(method, path):
            return
        if self._left == 0:
            self.dead.set()
            await asyncio.Event().wait()
        self._left -= 1


def many(fleet: RolloutFleet, new: str) -> int:
    """How many clusters have been given the revision and do not run it yet."""
    running = {name for name, given in fleet.given.items() if given[-1] == new}
    return len(fleet.with_revision(new) - running)


async def dies(fleet: RolloutFleet, number: int, *, landed: bool) -> bool:
    """A rollout whose first controller dies at that write; False where it had no such write."""
    reaper, most = Reaper(number), list[int]()
    async with fleet.at_rest():
        old, new = fleet.revision, fleet.image("v2")

        async def look(method: str, path: str, _body: Any) -> None:
            if _ours(method, path):
                most.append(many(fleet, new))

        fleet.hub.after.append(look)
        (fleet.hub.after if landed else fleet.hub.faults).append(reaper)
        while not (reaper.dead.is_set() or (fleet.phase == "Complete" and fleet.kept() == {new})):
            await fleet.goes_on(1)
    if not reaper.dead.is_set():
        return False
    (fleet.hub.after if landed else fleet.hub.faults).remove(reaper)
    async with fleet.leading(identity="two"):
        await fleet.until(lambda: fleet.rollout["revision"] == new)
        await fleet.comes_to("Complete")
        await fleet.goes_on(2)
        assert fleet.given == {name: [old, new] for name in (*fleet.canaries, *fleet.others)}
        assert max(most) <= 1, "one at once"
        assert fleet.kept() == {new}
    return True


@pytest.mark.long
@pytest.mark.proves("T21")
@pytest.mark.parametrize("landed", [False, True], ids=["before", "after"])
async def test_at_whichever_write_it_dies_the_next_one_goes_on(landed: bool) -> None:
    number = 0
    while await dies(RolloutFleet(canaries=2, others=1), number, landed=landed):
        number += 1
    assert number >= LEAST_WRITES
