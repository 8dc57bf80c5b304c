"""What runs of chaos have in common: users who edit, copies that are watched, and the judgement."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from crds.names import LABEL_MANAGED
from e2e.chaos.judgement import Whole
from e2e.chaos.promises import Broken, log_faults
from e2e.chaos.run import Found
from e2e.chaos.stage import ChaosStage
from e2e.chaos.watchman import KINDS
from machinery.runtime.informer import Informer

T = TypeVar("T")


class Judging(Protocol):
    """A watchman: it looks until it is cancelled, and notes what is wrong."""

    findings: list[str]

    async def run(self) -> None: ...


class Editors:
    """Users who edit one thing after the other, each after a pause of so many seconds."""

    def __init__(self, chance: random.Random, *, least: float, most: float) -> None:
        self._chance = chance
        self._pause = least, most
        self._begun: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Edit until cancelled."""
        while True:
            await asyncio.sleep(self._chance.uniform(*self._pause))
            edit = asyncio.create_task(self._edit())
            self._begun.add(edit)
            await asyncio.shield(edit)  # cancelled half-way, the wanted state would be unknown
            self._begun.discard(edit)

    async def ended(self) -> None:
        """Return when each edit that was begun is done."""
        await asyncio.gather(*self._begun)

    async def _edit(self) -> None:
        raise NotImplementedError


def copies_on(stage: ChaosStage) -> dict[str, Informer[Whole]]:
    """Return an informer of the Deployments of ours on each member."""
    ours = f"{LABEL_MANAGED}=true"
    return {
        member: Informer(client, KINDS["Deployment"], Whole, label_selector=ours)
        for member, client in stage.members.items()
    }


async def watched(stage: ChaosStage, watchman: Judging, phases: Awaitable[T]) -> T:
    """Return what the phases do, while the watchman looks. Raises Found for what is wrong."""
    looking = [asyncio.create_task(each) for each in (watchman.run(), stage.play_kubelets())]
    try:
        done = await phases
    except (Broken, TimeoutError, ExceptionGroup) as broken:
        await stage.record()
        raise Found("; ".join([str(broken), *_wrong(stage, watchman, looking)])) from broken
    finally:
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)
    if wrong := _wrong(stage, watchman, []):
        await stage.record()
        raise Found(f"{len(wrong)} findings: " + "; ".join(wrong[:5]))
    return done


def _wrong(stage: ChaosStage, watchman: Judging, looking: list[asyncio.Task[None]]) -> list[str]:
    ended = [f"the test looked no more: {task.exception()!r}" for task in looking if task.done()]
    logged = [
        f"{instance} logged: {line}"
        for instance in stage.processes
        for line in log_faults(stage.log(instance))
    ]
    return [*ended, *watchman.findings[:5], *stage.ended(), *logged[:5]]
