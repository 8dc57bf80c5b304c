"""Lines out of the chunks of a stream, whatever their length.

A stream reader's own `readline` gives up at the size of its buffer; a watch event may be megabytes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable

from machinery.errors import TransportError, Unreachable


async def split_lines(chunks: AsyncIterable[bytes], *, limit: int) -> AsyncGenerator[bytes, None]:
    r"""Every non-empty line, without its `\n`.

    Raises TransportError for a line above `limit` bytes, and Unreachable when the stream ends in
    the middle of one. The pieces of a long line are joined once, not at every chunk.
    """
    pieces: list[bytes] = []
    size = 0
    async for chunk in chunks:
        head, *lines = chunk.split(b"\n")
        pieces.append(head)
        size += len(head)
        if size > limit:
            raise TransportError(f"a line is longer than {limit} bytes")
        if not lines:
            continue
        if size:
            yield b"".join(pieces)
        tail = lines.pop()
        for line in lines:
            if line:
                yield line
        pieces, size = [tail], len(tail)
    if size:
        raise Unreachable("the stream ended in the middle of a line")
