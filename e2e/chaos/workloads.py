"""Sixty Workloads of all kinds, churned while everything under them breaks."""

from __future__ import annotations

import asyncio
from typing import Any

from e2e.chaos import promises, wishes
from e2e.chaos.churn import Churn
from e2e.chaos.engine import SETTLE_SECONDS, Say, Wishes
from e2e.chaos.faults import Faults
from e2e.chaos.stage import ChaosStage
from e2e.chaos.watchman import Watchman
from e2e.chaos.writers import interleaved

_BACK_SECONDS = 120.0


class Workloads(Wishes):
    """Faults are made for `seconds`, and until there were at least `least` faults and edits.

    The hub is set back by two minutes, or less in a short run.
    """

    watchman: Watchman

    def __init__(
        self, stage: ChaosStage, say: Say, *, seed: int, seconds: float, least: int = 0
    ) -> None:
        super().__init__(stage)
        self._seconds, self._least = seconds, least
        self.churn = Churn(stage, seed=seed)
        self.wanted = self.churn.wanted
        back = min(0.8 * seconds, _BACK_SECONDS)
        self.faults = Faults(stage, self.churn, seed=seed, say=say, back=back)
        self.watchman = Watchman(stage, self.churn, self.faults)
        self._touched: list[str] = []
        self._in_the_end = 0

    async def prepare(self) -> None:
        await self.churn.prepare()
        await self.watchman.prepare()
        await self.churn.want(wishes.FOREIGN, wishes.TAKEN)

    async def disturbed(self) -> None:
        loops = [asyncio.create_task(each) for each in (self.churn.run(), self.faults.run())]
        await asyncio.wait(loops, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        while min(self.churn.edits, self.faults.made) < self._least and not any(
            loop.done() for loop in loops
        ):
            await asyncio.wait(loops, timeout=1, return_when=asyncio.FIRST_COMPLETED)
        await _end(loops)
        await asyncio.to_thread(self.stage.end_controller_managers)
        await self.churn.finished(seconds=SETTLE_SECONDS)

    async def whole(self) -> None:
        await promises.whole(self.stage, self.churn)
        await self.watchman.once.whole()

    async def rested(self) -> None:
        """Nothing is written, also while both processes start anew."""
        await promises.quiet(self.stage)
        await promises.restarted(self.stage, self.churn, seconds=SETTLE_SECONDS)
        self._in_the_end = len(self.wanted)
        self._touched = await self.watchman.left_alone()

    async def end(self) -> None:
        await self.churn.end()

    async def judged(self) -> list[str]:
        self._touched += await self.watchman.left_alone()
        await self.watchman.end()
        written = interleaved(self.stage.log_of_writes.read(), self.stage.log_of_writes.changes)
        return [*await super().judged(), *self._touched, *written]

    def made(self) -> dict[str, Any]:
        look = self.watchman
        return {
            "edits": self.churn.edits,
            "faults": self.faults.made,
            "Workloads at the end": self._in_the_end,
            "looks at all statuses": look.looks,
            "states of Workloads": look.states,
            "claims of what runs where": look.claims,
            "removals on members": look.removals,
            "PersistentVolumeClaims": len(look.volumes),
            "ends of Jobs": look.once.book.ended,
            "pods of what runs once": look.once.pods,
            "times that the hub was set back": self.faults.backs,
            "writes on members": len(self.stage.log_of_writes.read()),
        }


async def _end(loops: list[asyncio.Task[None]]) -> None:
    """Cancel these loops; wait until they have mended their faults; raise a loop's own fault."""
    for loop in loops:
        loop.cancel()
    async with asyncio.timeout(SETTLE_SECONDS):  # mending needs running clusters and nothing else
        done = await asyncio.gather(*loops, return_exceptions=True)
    for ended in done:
        if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
            raise ended  # a fault of the mending as well
