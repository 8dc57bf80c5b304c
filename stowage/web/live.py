"""That something changed, told to open pages: names alone, at most once a second.

A page that hears its own name asks for itself again. The feed remembers what a page missed, up to a
bound. Each stream looks again and again at what its reader may see, and ends when that is nothing.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

import msgspec

from machinery.api.resources import MEMBER_CLUSTERS, Resource
from machinery.clock import Clock, SystemClock
from machinery.errors import TransportError
from machinery.types.metadata import Key
from stowage.web.narrowing import NarrowedSnapshot
from stowage.web.snapshot import HubSnapshot

Look: TypeAlias = Callable[[], Awaitable[NarrowedSnapshot | None]]
"""Returns what a reader may see now; None where that is nothing. Raises TransportError."""

PAUSE_SECONDS = 1.0
"""Between two messages of a stream."""
HEARTBEAT_SECONDS = 15.0
"""After so much silence a comment shows that the server is there."""
LOOK_SECONDS = 1.0
"""So often a silent stream looks at what its reader may see."""
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
        self._changes: deque[tuple[int, Resource, Key]] = deque(maxlen=REMEMBERED)
        self._news = asyncio.Event()
        self._streams: dict[str, list[asyncio.Event]] = {}
        snapshot.add_handler(self._changed)

    def _changed(self, res: Resource, key: Key) -> None:
        self._changes.append((self._snapshot.revision, res, key))
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def close(self) -> None:
        """End all streams, so that the server can stop at once."""
        for each in (ended for theirs in self._streams.values() for ended in theirs):
            each.set()
        self._wake()

    def makes_room(self, session: str) -> bool:
        """Whether one more stream of that session may begin.

        Where there are as many as there may be, the oldest one of who has most ends for it: nobody
        takes the share of others.
        """
        if sum(map(len, self._streams.values())) < MOST_STREAMS:
            return True
        most = max(self._streams, key=lambda each: len(self._streams[each]))
        theirs = self._streams[most]
        if len(theirs) <= len(self._streams.get(session, ())) + 1:
            return False
        theirs.pop(0).set()
        self._wake()
        return True

    async def stream(self, session: str, last_id: str, look: Look) -> AsyncGenerator[bytes]:
        """Yield messages of `text/event-stream`, from what comes after `last_id` on.

        The oldest stream of a session ends where it has more than STREAMS_OF_SESSION.
        """
        ended, theirs = asyncio.Event(), self._streams.setdefault(session, [])
        theirs.append(ended)
        if len(theirs) > STREAMS_OF_SESSION:
            theirs.pop(0).set()
            self._wake()
        try:
            async for piece in self._messages(last_id, ended, look):
                yield piece
        finally:
            if ended in theirs:
                theirs.remove(ended)
            if not theirs:
                self._streams.pop(session, None)

    async def _messages(
        self, last_id: str, ended: asyncio.Event, look: Look
    ) -> AsyncGenerator[bytes]:
        end = self._clock.monotonic() + STREAM_SECONDS
        seen, sight = self._resumed(last_id), await _looked(look)
        spoke = self._clock.monotonic()
        yield b"retry: 1000\n\n"
        if seen is None:
            seen = self._snapshot.revision
            yield _message("reset", f"{self._life}-{seen}", {"rev": seen})
        while sight is not None and not ended.is_set() and self._clock.monotonic() < end:
            await self._heard(seen)
            before, sight = sight, await _looked(look)
            if sight is None:
                return
            now, silent = self._snapshot.revision, self._clock.monotonic() - spoke
            told = self._since(seen, sight) if sight.scope == before.scope else None
            seen = now
            if told == {}:  # nothing that this reader may see
                if silent >= HEARTBEAT_SECONDS:
                    spoke = self._clock.monotonic()
                    yield b": still here\n\n"
                continue
            name = "reset" if told is None else "changed"
            data = {"rev": now} if told is None else {"rev": now, "kinds": told}
            spoke = self._clock.monotonic()
            yield _message(name, f"{self._life}-{now}", data)
            await self._clock.sleep(PAUSE_SECONDS)

    async def _heard(self, seen: int) -> None:
        """Wait for changes after a revision, but not for long."""
        news = self._news
        if self._snapshot.revision == seen:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await news.wait()

    def _resumed(self, last_id: str) -> int | None:
        """Return the revision to go on from: now for a new page, None where it is not known."""
        if not last_id:
            return self._snapshot.revision
        life, _, number = last_id.rpartition("-")
        if life != self._life or not (number.isascii() and number.isdigit()):
            return None
        return min(int(number), self._snapshot.revision)

    def _since(
        self, revision: int, sight: NarrowedSnapshot
    ) -> Mapping[str, list[str] | str] | None:
        """Return the changed keys by kind that a reader may see; None if too much was forgotten."""
        if self._changes and self._changes[0][0] > revision + 1:
            return None
        kinds: dict[str, dict[str, None]] = {}
        for at, res, key in reversed(self._changes):
            if at <= revision:
                break
            if sight.shows(res, key):
                kind = "clusters" if res == MEMBER_CLUSTERS else res.plural
                kinds.setdefault(kind, {})["/".join(filter(None, key))] = None
        left, room = MOST_KEYS, MOST_BYTES
        told: dict[str, list[str] | str] = {}
        for kind, keys in sorted(kinds.items(), key=lambda each: len(each[1])):
            size = sum(len(key.encode()) + 3 for key in keys)
            fits = len(keys) <= left and size <= room
            told[kind] = sorted(keys) if fits else "many"
            left, room = (left - len(keys), room - size) if fits else (left, room)
        return told


async def _looked(look: Look) -> NarrowedSnapshot | None:
    """Return what may be seen; None also where the hub does not say so."""
    try:
        return await look()
    except TransportError:
        return None


def _message(name: str, id_: str, data: Mapping[str, object]) -> bytes:
    return b"event: %s\nid: %s\ndata: %s\n\n" % (
        name.encode(),
        id_.encode(),
        msgspec.json.encode(data),
    )
