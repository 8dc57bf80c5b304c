"""Probes a member: the only source of its Ready condition.

The watch of a dead API server is as silent as that of a quiet one. One failed probe proves nothing
on a busy network; a second does. While a member does not answer, the pauses between probes grow up
to a limit. `ask_now` probes at once, for callers that need a newer answer.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from machinery.api.client import ApiClient
from machinery.api.lanes import FACT
from machinery.clock import Clock
from machinery.errors import TransportError, Unreachable
from machinery.runtime.backoff import delay
from machinery.tasks import within
from propagator.members.health import CONNECTED, HealthProbe, MemberHealth, unreachable, verdict_of
from propagator.settings import SessionSettings

_VERSION_EVERY = 12
"""Probes between two reads of the version, which changes at an upgrade."""
_FIRST_PAUSE = 1.0


class Probe:
    def __init__(
        self,
        client: ApiClient,
        *,
        settings: SessionSettings,
        clock: Clock,
        health: HealthProbe,
        seen: Callable[[], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._seen = seen
        self._until_version = 0
        self._hurry = asyncio.Event()
        self.version = ""
        self.answered = -math.inf
        """The monotonic time at which the last answered probe was sent; -inf without one."""
        self._health = health

    def ask_now(self) -> None:
        self._hurry.set()  # such a probe is not measured: it would measure what is done there

    async def until_answered(self, refused: Callable[[MemberHealth], None]) -> MemberHealth:
        """Probe until there is an answer; call `refused` with every failure but the first."""
        failures = 0
        self._until_version = 0
        while not (verdict := await self._ask(cold=True)).ready:
            failures += 1
            if failures == 1:
                await self._clock.sleep(self._settings.probe_confirm)
                continue
            refused(verdict)
            cap = self._settings.probe_backoff
            pause = delay(failures, base=_FIRST_PAUSE, cap=cap, jitter=random.random)
            await self._clock.sleep(pause)
        return verdict

    async def until_lost(
        self, refused: Callable[[], Awaitable[MemberHealth | None]]
    ) -> MemberHealth:
        """Probe until two probes in a row fail; return the verdict of the second.

        `refused` is called after each answer; its verdict ends the loop too.
        """
        while True:
            period = self._settings.probe_period * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
            hurried = await self._pause(period)
            if (await self._ask(measured=not hurried)).ready:
                another = await refused()
                if another is not None:
                    return another
                continue
            await self._clock.sleep(self._settings.probe_confirm)
            verdict = await self._ask()
            if not verdict.ready:
                return verdict

    async def _pause(self, seconds: float) -> bool:
        """Wait that long, or until `ask_now`; return whether it was called."""
        with suppress(Unreachable):  # the time is up
            await within(seconds, self._hurry.wait(), clock=self._clock)
        hurried = self._hurry.is_set()
        self._hurry.clear()
        return hurried

    async def _ask(self, *, cold: bool = False, measured: bool = True) -> MemberHealth:
        started = self._clock.monotonic()
        limit = self._settings.probe_timeout
        # /readyz, unlike /version, says whether the server reaches its own store.
        question = self._client.request("GET", "/readyz", timeout=limit, errand=FACT)
        verdict = await self._judge(question)
        seconds = self._clock.monotonic() - started
        if measured:
            self._health.record(answered=verdict.ready, seconds=seconds, cold=cold)
        if verdict.ready:
            self.answered = started
        if verdict.ready and self._until_version == 0:
            verdict = await self._judge(self._learn_version())
        self._until_version = max(0, self._until_version - 1)
        self._seen()
        return verdict

    async def _learn_version(self) -> None:
        self.version = await self._client.version()
        self._until_version = _VERSION_EVERY

    async def _judge(self, question: Coroutine[Any, Any, object]) -> MemberHealth:
        seconds = self._settings.probe_timeout
        try:
            async with asyncio.timeout(seconds):
                await question
        except TimeoutError:
            return unreachable(f"{self._client.connection.server}: no answer within {seconds:g} s")
        except TransportError as fault:
            return verdict_of(fault)
        return CONNECTED
