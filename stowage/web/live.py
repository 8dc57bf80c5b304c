"""That something changed, told to open pages: names alone, at most once a second.

No object ever goes this way: a page that hears its own name asks for itself again. What a page
missed while it was away is told when it comes back, as long as the feed remembers that far.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Mapping

import msgspec

from machinery.api.resources import MEMBER_CLUSTERS, Resource
from machinery.clock import Clock, SystemClock
from machinery.types.metadata import Key
from stowage.web.snapshot import HubSnapshot

PAUSE_SECONDS = 1.0
"""Between two messages of a stream."""
HEARTBEAT_SECONDS = 15.0
"""After so much silence a comment shows that the server is there."""
STREAM_SECONDS = 590.0
"""Then the stream ends and the browser asks again, before the server's own limit."""
MOST_KEYS = 200
MOST_BYTES = 12 * 1024
"""Of the names in one message; beyond either a kind is told as `many`."""
REMEMBERED = 4096
"""Changes that a page may have missed."""
STREAMS_OF_SESSION = 4
"""A browser has six connections to a server: a tab's stream takes one for good."""
MOST_STREAMS = 100
"""Of all sessions, below the connections that the server takes."""


class LiveFeed:
    """The changes of a snapshot, and the streams that tell them."""

    def __init__(self, snapshot: HubSnapshot, *, clock: Clock | None = None) -> None:
        self._snapshot, self._clock = snapshot, clock or SystemClock()
        self._life = secrets.token_hex(4)
        self._changes: deque[tuple[int, str, str]] = deque(maxlen=REMEMBERED)
        self._news = asyncio.Event()
        self._streams: dict[str, list[asyncio.Event]] = {}
        snapshot.add_handler(self._changed)

    def _changed(self, res: Resource, key: Key) -> None:
        kind = "clusters" if res == MEMBER_CLUSTERS else res.plural
        self._changes.append((self._snapshot.revision, kind, "/".join(filter(None, key))))
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def close(self) -> None:
        """End all streams, so that the server can stop at once."""
        for each in (ended for theirs in self._streams.values() for ended in theirs):
            each.set()
        self._wake()

    @property
    def full(self) -> bool:
        """Whether there are as many streams as there may be."""
        return sum(map(len, self._streams.values())) >= MOST_STREAMS

    async def stream(self, session: str, last_id: str) -> AsyncGenerator[bytes]:
        """Yield messages of `text/event-stream`, from what comes after `last_id` on.

        The oldest stream of a session ends where it has more than STREAMS_OF_SESSION.
        """
        ended, theirs = asyncio.Event(), self._streams.setdefault(session, [])
        theirs.append(ended)
        if len(theirs) > STREAMS_OF_SESSION:
            theirs.pop(0).set()
            self._wake()
        try:
            async for piece in self._messages(last_id, ended):
                yield piece
        finally:
            if ended in theirs:
                theirs.remove(ended)
            if not theirs:
                self._streams.pop(session, None)

    async def _messages(self, last_id: str, ended: asyncio.Event) -> AsyncGenerator[bytes]:
        end = self._clock.monotonic() + STREAM_SECONDS
        seen = self._resumed(last_id)
        yield b"retry: 1000\n\n"
        if seen is None:
            seen = self._snapshot.revision
            yield _message("reset", f"{self._life}-{seen}", {"rev": seen})
        while not ended.is_set() and self._clock.monotonic() < end:
            if self._snapshot.revision == seen:
                if not await self._heard(self._news):
                    yield b": still here\n\n"
                continue
            now = self._snapshot.revision
            told = self._since(seen)
            seen = now
            name = "reset" if told is None else "changed"
            data = {"rev": now} if told is None else {"rev": now, "kinds": told}
            yield _message(name, f"{self._life}-{now}", data)
            await self._clock.sleep(PAUSE_SECONDS)

    async def _heard(self, news: asyncio.Event) -> bool:
        """Wait for news; return whether there were any before a heartbeat is due."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await news.wait()
        except TimeoutError:
            return False
        return True

    def _resumed(self, last_id: str) -> int | None:
        """Return the revision to go on from: now for a new page, None where it is not known."""
        if not last_id:
            return self._snapshot.revision
        life, _, number = last_id.rpartition("-")
        if life != self._life or not (number.isascii() and number.isdigit()):
            return None
        return min(int(number), self._snapshot.revision)

    def _since(self, revision: int) -> Mapping[str, list[str] | str] | None:
        """Return the changed keys by kind; None where too much was forgotten."""
        if self._changes and self._changes[0][0] > revision + 1:
            return None
        kinds: dict[str, dict[str, None]] = {}
        for at, kind, key in reversed(self._changes):
            if at <= revision:
                break
            kinds.setdefault(kind, {})[key] = None
        left, room = MOST_KEYS, MOST_BYTES
        told: dict[str, list[str] | str] = {}
        for kind, keys in sorted(kinds.items(), key=lambda each: len(each[1])):
            size = sum(len(key.encode()) + 3 for key in keys)
            fits = len(keys) <= left and size <= room
            told[kind] = sorted(keys) if fits else "many"
            left, room = (left - len(keys), room - size) if fits else (left, room)
        return told


def _message(name: str, id_: str, data: Mapping[str, object]) -> bytes:
    return b"event: %s\nid: %s\ndata: %s\n\n" % (
        name.encode(),
        id_.encode(),
        msgspec.json.encode(data),
    )
