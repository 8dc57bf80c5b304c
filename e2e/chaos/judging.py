"""What a watchman does with a suspicion: it asks, and notes what is wrong."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

_ASK_SECONDS = 60.0
_LOOK_SECONDS = 0.1


class Judging(ABC):
    """A watchman; the results are in `findings`."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self._questions: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def run(self) -> None:
        """Look until cancelled."""

    async def judged(self) -> None:
        """Return when each suspicion is decided."""
        while self._questions:
            await asyncio.wait(self._questions)

    def _ask(
        self, question: Coroutine[Any, Any, None], *, seconds: float | None = _ASK_SECONDS
    ) -> None:
        async def asked() -> None:
            with suppress(TimeoutError):  # no server answers, so there is no finding
                async with asyncio.timeout(seconds):
                    await question

        task = asyncio.create_task(asked())
        self._questions.add(task)
        task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._questions.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.findings.append(f"the test itself: {fault!r}")

    def _expect(self, holds: Callable[[], bool], otherwise: str, *, within: float) -> None:
        """Note `otherwise` unless it holds by then: one watch may lag behind another."""

        async def wait() -> None:
            for _ in range(int(within / _LOOK_SECONDS)):
                await asyncio.sleep(_LOOK_SECONDS)
                if holds():
                    return
            self.findings.append(otherwise)

        if not holds():
            self._ask(wait())
