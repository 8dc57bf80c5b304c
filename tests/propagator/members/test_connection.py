"""The link to a member that misbehaves, by itself: it goes on, and gives its memory back."""

from __future__ import annotations

import asyncio
import gc

import pytest

from machinery.api.resources import USUAL
from machinery.clock import SystemClock
from machinery.types.memory_budget import MEMBERS
from propagator.credentials.credentials import credentials_of
from propagator.members.connection import Link, LinkListener
from propagator.members.health import HealthProbe, MemberHealth
from propagator.settings import SessionSettings
from tests.propagator.conftest import unregistered
from tests.propagator.members.hostile import Hostile, Mode, hostile
from tests.propagator.waits import until

pytestmark = pytest.mark.filterwarnings(
    # asyncio leaves the socket of a handshake that is cancelled to the collector
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


@pytest.fixture(scope="module")
def villain():
    with hostile() as running:
        yield running


async def linked(villain: Hostile, mode: Mode) -> Link:
    """A link to a member of that kind, once it has a verdict."""
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
    running = asyncio.create_task(link.run())
    await until(lambda: verdicts)
    running.cancel()
    (ended,) = await asyncio.gather(running, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError), ended
    return link


@pytest.mark.long
@pytest.mark.proves("S5", "S10")
@pytest.mark.parametrize("mode", list(Mode))
async def test_whatever_it_answers_the_link_goes_on_and_gives_its_memory_back(
    villain: Hostile, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    link = await linked(villain, mode)
    assert not [r for r in caplog.records if r.exc_info and "cannot be read" not in r.getMessage()]
    assert len(caplog.records) < 60
    del link
    gc.collect()
    assert MEMBERS.total == 0
