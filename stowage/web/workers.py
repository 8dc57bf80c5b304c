"""The processes that decide for the page: begun when needed, kept, and killed when they take long.

A killed worker is replaced at the next request. A changed snapshot is sent to each worker again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from machinery.errors import StowageError
from stowage.web.snapshot import HubSnapshot
from stowage.web.worker import LENGTH, DecisionAnswer, DecisionRequest


class WorkersBusy(StowageError):
    """As many requests as may be are under way."""


class TookTooLong(StowageError):
    """A request was not answered in time, and its worker was ended."""


class NotDecided(StowageError):
    """The request cannot be answered; the message says why."""


class Workers:
    """At most `most` worker processes over one snapshot; each request may take `seconds`.

    Where all are at work, a request waits up to `patience` seconds for one. One request of each
    caller waits or is computed at a time, so that those of others have their turns between.
    """

    def __init__(
        self,
        snapshot: HubSnapshot,
        *,
        most: int,
        seconds: float,
        patience: float = 0.0,
        command: tuple[str, ...] = (sys.executable, "-P", "-m", "stowage.web.worker"),
    ) -> None:
        self._snapshot, self.seconds, self._patience = snapshot, seconds, patience
        self._command = command
        self._free = asyncio.Semaphore(most)
        self._own = WeakValueDictionary[str, asyncio.Lock]()
        self._idle: list[_Worker] = []
        self._working: set[_Worker] = set()
        self._killed: list[_Worker] = []
        """Those whose end is not seen yet."""
        self._decoder = msgspec.json.Decoder(DecisionAnswer)

    async def ask(self, request: DecisionRequest, caller: str = "") -> tuple[dict[str, Any], int]:
        """Return the result, and the revision of the snapshot that it was computed from.

        Raises WorkersBusy, TookTooLong, NotDecided.
        """
        async with self._turn(caller):
            return await self._computed(request)

    @asynccontextmanager
    async def _turn(self, caller: str) -> AsyncIterator[None]:
        busy = WorkersBusy("others are being computed: try again in a few seconds")
        own = self._own.setdefault(caller, asyncio.Lock()) if caller else asyncio.Lock()
        if not self._patience and (self._free.locked() or own.locked()):
            raise busy
        async with AsyncExitStack() as turn:
            try:
                async with asyncio.timeout(self._patience or None):
                    await turn.enter_async_context(own)
                    await turn.enter_async_context(self._free)
            except TimeoutError as e:
                raise busy from e
            yield

    async def _computed(self, request: DecisionRequest) -> tuple[dict[str, Any], int]:
        worker = self._idle.pop() if self._idle else _Worker()
        self._working.add(worker)
        try:
            async with asyncio.timeout(self.seconds):
                answer = await self._asked(worker, request)
        except TimeoutError as e:
            self._kill(worker)
            raise TookTooLong(f"it takes longer than {self.seconds:g} s") from e
        except (OSError, asyncio.IncompleteReadError) as e:
            self._kill(worker)
            raise TookTooLong("the process that computes it ended") from e
        except BaseException:
            self._kill(worker)  # in the middle of an answer
            raise
        else:
            self._idle.append(worker)
        finally:
            self._working.discard(worker)
        if answer.fault:
            raise NotDecided(answer.fault)
        return answer.result, worker.revision

    async def _asked(self, worker: _Worker, request: DecisionRequest) -> DecisionAnswer:
        await worker.start(self._command)
        request.snapshot = msgspec.Raw(b"null")
        if not request.namespaces_only and worker.revision != self._snapshot.revision:
            request.snapshot = msgspec.Raw(self._snapshot.packed())
            worker.revision = self._snapshot.revision
        return self._decoder.decode(await worker.exchange(msgspec.json.encode(request)))

    async def warm(self) -> None:
        """Begin one process, so that the first request need not wait for its imports."""
        worker = _Worker()
        try:
            await worker.start(self._command)
        except OSError:
            return
        except BaseException:
            self._kill(worker)
            raise
        self._idle.append(worker)

    def _kill(self, worker: _Worker) -> None:
        worker.kill()
        self._killed = [each for each in (*self._killed, worker) if each.running]

    async def close(self) -> None:
        for each in (*self._idle, *self._working, *self._killed):
            each.kill()
            await each.gone()


class _Worker:
    """One process. `revision` is that of the snapshot that it has."""

    def __init__(self) -> None:
        self.revision = -1
        self._beginning: asyncio.Task[asyncio.subprocess.Process] | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, command: tuple[str, ...]) -> None:
        if self._process is None or self._process.returncode is not None:
            self.revision, self._process = -1, None
            pipe = asyncio.subprocess.PIPE
            begins = asyncio.create_subprocess_exec(
                *command,
                stdin=pipe,
                stdout=pipe,
                start_new_session=True,  # an interrupt of the terminal is for the page alone
            )
            self._beginning = asyncio.create_task(begins)
            # Who is cancelled meanwhile leaves a process that `gone` ends as any other.
            self._process = await asyncio.shield(self._beginning)

    async def exchange(self, data: bytes) -> bytes:
        """Send a request and return the answer. Raises OSError, IncompleteReadError."""
        process = self._process
        assert process is not None  # noqa: S101 - `start` has made it
        assert process.stdin is not None  # noqa: S101 - it was asked for
        assert process.stdout is not None  # noqa: S101 - as above
        process.stdin.write(len(data).to_bytes(LENGTH, "big"))
        process.stdin.write(data)
        await process.stdin.drain()
        head = await process.stdout.readexactly(LENGTH)
        return await process.stdout.readexactly(int.from_bytes(head, "big"))

    @property
    def running(self) -> bool:
        begun = self._process
        return self._beginning is not None if begun is None else begun.returncode is None

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def gone(self) -> None:
        """Return once the process has ended, and end one that has begun meanwhile."""
        if self._beginning is not None:
            with suppress(OSError):
                self._process = await self._beginning
                self.kill()
                await self._process.wait()
