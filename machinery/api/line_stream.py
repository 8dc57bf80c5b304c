"""Splits a stream into lines, bounded in length and time.

A stream reader's own `readline` gives up at the size of its buffer; a watch event may be megabytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from machinery.errors import Unreachable
from machinery.pace import TimeSlice
from machinery.types import bounds
from machinery.types.bounds import TooMuch


async def split_lines(
    chunks: AsyncIterator[bytes],
    *,
    stint: TimeSlice,
    large: asyncio.Lock,
    seconds: float,
    most: int = bounds.LINE_BYTES,
) -> AsyncGenerator[bytes, None]:
    r"""Yield every non-empty line, without its `\n`.

    The work on a line counts for `stint`. A line above MODEST_BYTES waits for `large`, and has to
    end within `seconds` from then on. Raises TooMuch for a line above `most` bytes, and Unreachable
    when the stream ends within a line, or a large line does not end in time.
    """
    pieces: list[bytes] = []
    size = 0
    long = _Long(large, seconds)
    try:
        while chunk := await long.next(chunks):
            stint.begin()
            head, *lines = chunk.split(b"\n")
            pieces.append(head)
            size += len(head)
            await long.grow(size, most)
            if not lines:
                continue
            if size:
                yield b"".join(pieces)
            long.end()
            tail = lines.pop()
            for line in filter(None, lines):
                if stint.due():
                    await stint.pause()
                yield line
            await stint.pause()
            pieces, size = [tail], len(tail)
    finally:
        long.end()
    if size:
        raise Unreachable("the stream ended in the middle of a line")


class _Long:
    def __init__(self, large: asyncio.Lock, seconds: float) -> None:
        self._large = large
        self._seconds = seconds
        self._deadline: float | None = None  # set while the lock is held

    async def grow(self, size: int, most: int) -> None:
        if size > most:
            raise TooMuch(f"a line is longer than {most} bytes")
        if size > bounds.MODEST_BYTES and self._deadline is None:
            await self._large.acquire()
            self._deadline = asyncio.get_running_loop().time() + self._seconds

    def end(self) -> None:
        if self._deadline is not None:
            self._deadline = None
            self._large.release()

    async def next(self, chunks: AsyncIterator[bytes]) -> bytes:
        """Return the next chunk, empty at the end. Raises Unreachable when it comes too late."""
        try:
            async with asyncio.timeout_at(self._deadline):
                return await anext(chunks, b"")
        except TimeoutError as e:
            raise Unreachable("a long line did not end in time") from e
