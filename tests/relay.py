"""A TCP relay that a test can cut, stall and close, between a client and an API server.

TLS goes through untouched, so that both sides see just what a broken network shows them. The one
relay of all tests: in the test's loop, or (`cutting`) in a loop of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Self

from machinery.config.kubeconfig import Connection


class Relay:
    """Listens on a port of its own from `start` to `stop`, or inside of `async with`.

    `accepted` counts connections. While `refusing`, a new connection ends at once.
    """

    def __init__(self, target: int) -> None:
        self.port = 0
        self.accepted = 0
        self.refusing = False
        self._target = target
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def through(self, connection: Connection) -> Connection:
        """The same connection by way of this relay."""
        return replace(connection, server=f"https://127.0.0.1:{self.port}")

    async def start(self) -> None:
        """Listen, on the port of the last time if there was one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """End everything; new connections are refused."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    def cut(self) -> None:
        """End every connection in the middle of whatever it was doing."""
        for pipe in self._pipes:
            pipe.cancel()

    def stall(self) -> None:
        """Let nothing through any more; connections stay open and are silent."""
        self._flowing.clear()

    def flow(self) -> None:
        """Let everything through again, what was held back first."""
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.refusing:
            writer.transport.abort()
            return
        pipe = asyncio.current_task()
        assert pipe is not None
        self._pipes.add(pipe)
        try:
            with suppress(OSError, asyncio.CancelledError):
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
                try:
                    async with asyncio.TaskGroup() as ways:
                        ways.create_task(self._pump(reader, far_writer))
                        ways.create_task(self._pump(far_reader, writer))
                finally:
                    far_writer.transport.abort()
        finally:
            self._pipes.discard(pipe)
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@contextmanager
def cutting(target: int, *, every: float) -> Iterator[int]:
    """The port of a relay in a thread of its own, which ends all connections every so many seconds.

    For tests that block.
    """
    relay, listening, over = Relay(target), threading.Event(), threading.Event()

    async def serve() -> None:
        async with relay:
            listening.set()
            while not over.is_set():
                await asyncio.sleep(every)
                relay.cut()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        assert listening.wait(60)
        yield relay.port
    finally:
        over.set()
        thread.join(10 + every)
