"""One chaos run, from empty clusters to empty clusters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2e.chaos import promises, wishes
from e2e.chaos.churn import MOST, Churn, NotTaken
from e2e.chaos.faults import Faults
from e2e.chaos.stage import ChaosStage, at_work
from e2e.chaos.watchman import Watchman
from e2e.chaos.writers import interleaved

_SETTLE_SECONDS = 300.0
"""Long, which costs nothing: a state that comes at all comes sooner."""
_BACK_SECONDS = 120.0


class Found(AssertionError):
    """A broken promise, in a few lines."""


@dataclass(frozen=True)
class Made:
    """The size of a run, for its last line."""

    edits: int
    faults: int
    workloads: int
    looks: int
    states: int
    claims: int
    removals: int
    volumes: int
    jobs: int
    pods: int
    backs: int
    written: int

    def __str__(self) -> str:
        return (
            f"{self.edits} edits, {self.faults} faults, {self.workloads} Workloads at the end, "
            f"checked: {self.looks} looks at all statuses, {self.states} states of Workloads, "
            f"{self.claims} claims of what runs where, {self.removals} removals on members, "
            f"{self.volumes} PersistentVolumeClaims, {self.jobs} ends of Jobs, {self.pods} pods of "
            f"what runs once; the hub was set back {self.backs} times, {self.written} writes on "
            "members by one process at a time"
        )


async def run(
    clusters: Path,
    logs: Path,
    *,
    seed: int,
    seconds: float,
    say: Callable[[str], object],
    least: int = 0,
    most: int = MOST,
    back: float | None = None,
    shards: int = 1,
    pulled: str = "",
) -> Made:
    """Break, settle, rest, clear, on the clusters of that folder. Raises Found.

    `shards` and `pulled` are those of the stage.

    Faults are made for `seconds`, and until there were at least `least` faults and edits; there are
    at most `most` Workloads. The hub is set back by `back` seconds; by default two minutes, or less
    in a short run.
    """
    started = time.monotonic()

    def tell(text: str) -> None:
        say(f"{time.monotonic() - started:6.1f} {text}")

    async with at_work(clusters, logs, shards=shards, pulled=pulled) as stage:
        tell(f"{', '.join(stage.instances)} are at work")
        churn = Churn(stage, seed=seed, most=most)
        back = min(0.8 * seconds, _BACK_SECONDS) if back is None else back
        faults = Faults(stage, churn, seed=seed, say=tell, back=back)
        return await _run(stage, churn, faults, seconds=seconds, tell=tell, least=least)


async def _run(
    stage: ChaosStage,
    churn: Churn,
    faults: Faults,
    *,
    seconds: float,
    tell: Callable[[str], None],
    least: int,
) -> Made:
    watchman = Watchman(stage, churn, faults)
    await churn.prepare()
    await watchman.prepare()
    await churn.want(wishes.FOREIGN, wishes.TAKEN)
    looking = [asyncio.create_task(each) for each in (watchman.run(), stage.play_kubelets())]
    try:
        loops = [asyncio.create_task(churn.run()), asyncio.create_task(faults.run())]
        await asyncio.wait(loops, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        while min(churn.edits, faults.made) < least and not any(loop.done() for loop in loops):
            await asyncio.wait(loops, timeout=1, return_when=asyncio.FIRST_COMPLETED)
        await _end(loops)
        await asyncio.to_thread(stage.end_controller_managers)
        await churn.finished(seconds=_SETTLE_SECONDS)
        tell(f"all is whole again; {len(churn.wanted)} Workloads are wanted")
        await promises.settled(stage, churn, seconds=_SETTLE_SECONDS)
        await promises.until_held(watchman.once.whole, _SETTLE_SECONDS)
        tell("all is as wanted")
        await promises.quiet(stage)
        tell("and rests")
        await promises.restarted(stage, churn, seconds=_SETTLE_SECONDS)
        tell("also while both processes start anew")
        workloads = len(churn.wanted)
        touched = await watchman.left_alone()
        await churn.end()
        await promises.cleared(stage, seconds=_SETTLE_SECONDS)
        touched += await watchman.left_alone()
        await watchman.end()
        tell("all is gone")
        await watchman.judged()
    except (promises.Broken, NotTaken) as broken:
        await stage.record()
        said = [str(broken), *watchman.findings[:5], *stage.ended(), *_logged(stage)[:5]]
        raise Found("; ".join(said)) from broken
    finally:
        ended = [repr(task.exception()) for task in looking if task.done()]
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)
    wrong = [f"the test itself looked no more: {fault}" for fault in ended]
    wrong += [*watchman.findings, *touched, *stage.ended(), *_logged(stage)]
    written = stage.log_of_writes.read()
    wrong += interleaved(written, stage.log_of_writes.changes)
    if wrong:
        raise Found(f"{len(wrong)} findings: " + "; ".join(wrong[:5]))
    return Made(
        edits=churn.edits,
        faults=faults.made,
        workloads=workloads,
        looks=watchman.looks,
        states=watchman.states,
        claims=watchman.claims,
        removals=watchman.removals,
        volumes=len(watchman.volumes),
        jobs=watchman.once.book.ended,
        pods=watchman.once.pods,
        backs=faults.backs,
        written=len(written),
    )


async def _end(loops: list[asyncio.Task[None]]) -> None:
    """Cancel these loops; wait until they have mended their faults; raise a loop's own fault."""
    for loop in loops:
        loop.cancel()
    async with asyncio.timeout(_SETTLE_SECONDS):  # mending needs running clusters and nothing else
        done = await asyncio.gather(*loops, return_exceptions=True)
    for ended in done:
        if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
            raise ended  # a fault of the mending as well


def _logged(stage: ChaosStage) -> list[str]:
    return [
        f"{instance} logged: {line}"
        for instance in stage.processes
        for line in promises.log_faults(stage.log(instance))
    ]
