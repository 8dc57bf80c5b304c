"""One chaos run, from empty clusters to empty clusters, with one of the lists of wishes.

A list of wishes (`Wishes`) says what users make, what breaks under them, and what must hold. The
engine breaks, settles, rests and clears, while the list's watchman looks.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from crds.names import LABEL_MANAGED
from e2e.chaos import promises
from e2e.chaos.churn import NotTaken
from e2e.chaos.judgement import Whole
from e2e.chaos.judging import Judging
from e2e.chaos.promises import Broken, log_faults, until_held
from e2e.chaos.stage import ChaosStage, at_work
from e2e.chaos.watchman import KINDS
from machinery.runtime.informer import Informer
from propagator.members.hub_lease import HELD_SECONDS

Say = Callable[[str], object]
SETTLE_SECONDS = HELD_SECONDS + 400.0
"""Long, which costs nothing: a state that comes at all comes sooner.

The Lease of a history that the hub has lost holds a member at first.
"""


class Found(AssertionError):
    """A broken promise, in a few lines."""


class Wishes(ABC):
    """What users wish in a run, what breaks meanwhile, and what must hold."""

    watchman: Judging
    wanted: Collection[Any]

    def __init__(self, stage: ChaosStage) -> None:
        self.stage = stage

    @abstractmethod
    async def prepare(self) -> None:
        """Make what is there before the watchman looks."""

    @abstractmethod
    async def disturbed(self) -> None:
        """Have users edit while things break; return when all is mended and each edit accepted."""

    @abstractmethod
    async def whole(self) -> None:
        """Raise Broken with what is not as wanted."""

    async def rested(self) -> None:  # noqa: B027 - not every list has more to check
        """Raise Broken with what does not hold once all is as wanted."""

    @abstractmethod
    async def end(self) -> None:
        """Delete all that users made."""

    async def empty(self) -> None:
        """Raise Broken with what is left."""
        await promises.empty(self.stage)

    async def judged(self) -> list[str]:
        """Return all findings, when each suspicion is decided."""
        await self.watchman.judged()
        return self.watchman.findings

    @abstractmethod
    def made(self) -> dict[str, Any]:
        """Return the acts and checks of the run, by name."""


async def run(
    clusters: Path,
    logs: Path,
    wishes: Callable[[ChaosStage, Say], Wishes],
    *,
    say: Say,
    shards: int = 1,
    pulled: str = "",
) -> dict[str, Any]:
    """Make a run on the clusters of that folder; return what was made and checked. Raises Found.

    `shards` and `pulled` are those of the stage.
    """
    started = time.monotonic()

    def tell(text: str) -> None:
        say(f"{time.monotonic() - started:6.1f} {text}")

    async with at_work(clusters, logs, shards=shards, pulled=pulled) as stage:
        tell(f"{', '.join(stage.instances)} are at work")
        given = wishes(stage, tell)
        await given.prepare()
        loops = given.watchman.run(), stage.play_kubelets()
        looking = [asyncio.create_task(each) for each in loops]
        try:
            found = await _phases(given, tell)
        except (Broken, NotTaken, TimeoutError, ExceptionGroup) as broken:
            found = [str(broken), *given.watchman.findings]
        finally:
            ended = [repr(task.exception()) for task in looking if task.done()]
            for task in looking:
                task.cancel()
            await asyncio.gather(*looking, return_exceptions=True)
        found += [f"the test looked no more: {fault}" for fault in ended]
        if found := [*found, *stage.ended(), *_logged(stage)]:
            await stage.record()
            raise Found(f"{len(found)} findings: " + "; ".join(found[:8]))
        return given.made()


async def _phases(given: Wishes, tell: Say) -> list[str]:
    await given.disturbed()
    tell(f"all is whole again; {len(given.wanted)} are wanted")
    await until_held(given.whole, SETTLE_SECONDS)
    tell("all is as wanted")
    await given.rested()
    tell("and rests")
    await given.end()
    await until_held(given.empty, SETTLE_SECONDS)
    tell("all is gone")
    return await given.judged()


def _logged(stage: ChaosStage) -> list[str]:
    return [
        f"{instance} logged: {line}"
        for instance in stage.processes
        for line in log_faults(stage.log(instance))
    ]


# --- what lists of wishes share -------------------------------------------------------------------


class Editors:
    """Users who edit one thing after the other, each after a pause of so many seconds."""

    def __init__(self, chance: random.Random, *, least: float, most: float) -> None:
        self._chance = chance
        self._pause = least, most
        self._begun: set[asyncio.Task[None]] = set()

    async def beside(self, faults: Awaitable[object]) -> None:
        """Edit until these faults are over; return when each edit that was begun is done."""
        editing = asyncio.create_task(self._run())
        try:
            await faults
        finally:
            editing.cancel()
            await asyncio.gather(editing, return_exceptions=True)
        await asyncio.gather(*self._begun)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(*self._pause))
            edit = asyncio.create_task(self._edit())
            self._begun.add(edit)
            await asyncio.shield(edit)  # cancelled half-way, the wanted state would be unknown
            self._begun.discard(edit)

    async def _edit(self) -> None:
        raise NotImplementedError


def copies_on(stage: ChaosStage) -> Mapping[str, Informer[Whole]]:
    """Return an informer of the Deployments of ours on each member."""
    ours = f"{LABEL_MANAGED}=true"
    return {
        member: Informer(client, KINDS["Deployment"], Whole, label_selector=ours)
        for member, client in stage.members.items()
    }
