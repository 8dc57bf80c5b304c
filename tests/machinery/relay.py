"""A TCP relay between a client and an API server, which cuts what passes through it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Self

from machinery.kubeconfig import Connection
from machinery.tasks import end


class Relay:
    """Listens on a port of its own; TLS goes through untouched. Use it as `async with`.

    `accepted` counts connections.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self.accepted = 0
        self.closed_road = False  # a new connection ends at once

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self.cut()
        await self._server.wait_closed()

    def through(self, connection: Connection) -> Connection:
        """The same connection by way of this relay."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return replace(connection, server=f"https://127.0.0.1:{port}")

    async def cut(self) -> None:
        """End every connection in the middle of whatever it was doing."""
        if self._pipes:
            await end(list(self._pipes))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.closed_road:
            writer.transport.abort()
            return
        pipe = asyncio.current_task()
        assert pipe is not None
        self._pipes.add(pipe)
        try:
            with suppress(OSError, asyncio.CancelledError):
                there = await asyncio.open_connection("127.0.0.1", self._target)
                await self._both_ways(reader, writer, *there)
        finally:
            self._pipes.discard(pipe)
            writer.transport.abort()

    async def _both_ways(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        ways = [
            asyncio.create_task(_pump(reader, far_writer)),
            asyncio.create_task(_pump(far_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            far_writer.transport.abort()
            await end(ways)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
