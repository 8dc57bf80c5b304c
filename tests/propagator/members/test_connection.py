"""The link to a member that misbehaves, by itself: how long it holds the loop, and what it says."""

from __future__ import annotations

import asyncio
import gc
import os
import time

import pytest

from machinery.api.resources import USUAL
from machinery.clock import SystemClock
from machinery.types.memory_budget import MEMBERS
from propagator.credentials.credentials import credentials_of
from propagator.members.connection import Link, LinkListener
from propagator.members.health import HealthProbe, MemberHealth
from propagator.settings import SessionSettings
from tests.examples import window
from tests.propagator.conftest import unregistered
from tests.propagator.members.hostile import Hostile, Mode, hostile

pytestmark = pytest.mark.filterwarnings(
    # asyncio leaves the socket of a handshake that is cancelled to the collector
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
SECONDS = float(os.environ.get("SECONDS_EACH", window(3, short=0.8)))


@pytest.fixture(scope="module")
def villain():
    with hostile() as running:
        yield running


class Watchman:
    """How long the loop was held, in wall time and in its thread's own time."""

    def __init__(self) -> None:
        self.steps: list[float] = []

    async def watch(self) -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            self.steps.append(time.thread_time() - began)
            await asyncio.sleep(0.002)


async def linked(
    villain: Hostile, mode: Mode, seconds: float
) -> tuple[Link, Watchman, list[MemberHealth]]:
    """A link to a member of that kind, for so long."""
    verdicts: list[MemberHealth] = []
    link = Link(
        credentials_of(
            {
                key: value.encode() if isinstance(value, str) else value
                for key, value in villain.secret_data(mode).items()
            }
        ),
        name=mode.value,
        settings=SessionSettings(request_timeout=2, probe_timeout=2),
        clock=SystemClock(),
        resources=USUAL,
        health=HealthProbe(),
        before_write=lambda: None,
        identities=unregistered(),
        listener=LinkListener(
            verdict=verdicts.append,
            managed=lambda old, new: None,
            pods=lambda uids: None,
            facts=lambda: None,
            counted=lambda: None,
        ),
    )
    watchman = Watchman()
    tasks = [asyncio.create_task(link.run()), asyncio.create_task(watchman.watch())]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended
    return link, watchman, verdicts


@pytest.mark.long
@pytest.mark.proves("S5", "S10")
@pytest.mark.parametrize("mode", list(Mode))
async def test_it_holds_the_loop_for_no_time_and_never_ends_the_link(
    villain: Hostile, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    cpu = time.process_time()
    link, watchman, verdicts = await linked(villain, mode, SECONDS)
    cpu = time.process_time() - cpu
    steps = sorted(watchman.steps)
    print(
        f"\n{mode:14} longest {steps[-1] * 1000:5.1f} ms, median {steps[len(steps) // 2] * 1000:5.2f} ms,"
        f" cpu {cpu:4.2f} s, kept {MEMBERS.total >> 10} KiB, {[v.reason.value for v in verdicts]} {link.obstacle[:80]}"
    )
    assert not [r for r in caplog.records if r.exc_info and "cannot be read" not in r.getMessage()]
    assert len(caplog.records) < 60
    del link
    gc.collect()
    assert MEMBERS.total == 0
