"""Bounds the connections to our own HTTP endpoints, in number and in time.

Beyond CONNECTIONS the longest idle connection is closed: half-open ones keep neither a probe nor an
operator out.

Browsers let a site's page request any address that the site's name resolves to. A loopback address
requires no token, and therefore answers only a Host that is an IP address or localhost. Other
addresses accept any name and require a token.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable
from typing import cast

from machinery.clock import Clock, SystemClock

CONNECTIONS = 128
"""The most open connections. Probes, scrapes and a few operators need a dozen."""
HEAD_SECONDS = 10.0
"""From the connection, or the end of the last answer, to the end of the next request's head. A
longer time would keep idle connections of scrapers and probes.
"""
EXCHANGE_SECONDS = 60.0
"""From a request's head to the end of its answer."""
STREAM_SECONDS = 600.0
"""The same for a stream: clients reconnect for more."""
LOG_SECONDS = 60.0


class ConnectionLimiter:
    """All connections of one listener. `protocol` makes the HTTP protocol of a connection."""

    def __init__(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._protocol = protocol
        self._open: dict[asyncio.BaseTransport, _LimitedConnection] = {}  # the longest idle first

    def __call__(self) -> asyncio.Protocol:
        return _LimitedConnection(self, self._protocol())

    def admit(self, connection: _LimitedConnection, transport: asyncio.Transport) -> bool:
        if len(self._open) >= CONNECTIONS:
            idle = next((each for each in self._open.values() if not each.busy), None)
            if idle is None:
                return False
            idle.abort()
        self._open[transport] = connection
        return True

    def closed(self, transport: asyncio.BaseTransport) -> None:
        self._open.pop(transport, None)

    def request_began(self, transport: asyncio.BaseTransport | None) -> None:
        """Start the time limit of an exchange: the head of a request has arrived."""
        if transport is not None and (connection := self._open.get(transport)):
            connection.restart_timer(busy=True)

    def stream_began(self, transport: asyncio.BaseTransport | None) -> None:
        """Start the time limit of a stream: its first piece is about to be sent."""
        if transport is not None and (connection := self._open.get(transport)):
            connection.restart_timer(busy=True, seconds=STREAM_SECONDS)

    def request_ended(self, transport: asyncio.BaseTransport | None) -> None:
        """Start the time limit of the next head: the request was answered."""
        if transport is not None and (connection := self._open.pop(transport, None)):
            self._open[transport] = connection  # the last to idle
            connection.restart_timer(busy=False)


class _LimitedConnection(asyncio.Protocol):
    def __init__(self, limiter: ConnectionLimiter, inner: asyncio.Protocol) -> None:
        self._limiter = limiter
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._admitted = False
        self.busy = False

    def restart_timer(self, *, busy: bool, seconds: float | None = None) -> None:
        self.busy = busy
        if self._timer is not None:
            self._timer.cancel()
        most = seconds or (EXCHANGE_SECONDS if busy else HEAD_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(most, self.abort)

    def abort(self) -> None:
        if self._transport is not None:
            self._limiter.closed(self._transport)
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._admitted = self._limiter.admit(self, self._transport)
        if not self._admitted:
            self._transport.abort()
            return
        self.restart_timer(busy=False)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._limiter.closed(self._transport)
        if self._admitted:
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._admitted:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._admitted else None

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


def names_this_machine(host: str) -> bool:
    """Whether a Host header is an IP address or localhost, with or without a port; or empty."""
    name = host.strip()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") <= 1:
        name = name.partition(":")[0]
    if name.lower() in ("", "localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class MalformedRequestFilter(logging.Filter):
    """Logs malformed requests in one line a minute, without a traceback.

    `is_malformed` tells them from faults of our own, which are logged unchanged.
    """

    def __init__(
        self, is_malformed: Callable[[BaseException], bool], *, clock: Clock | None = None
    ) -> None:
        super().__init__()
        self._is_malformed = is_malformed
        self._clock = clock or SystemClock()
        self._logged_at = -LOG_SECONDS
        self._unlogged = 0

    def filter(self, record: logging.LogRecord) -> bool:
        fault = record.exc_info[1] if record.exc_info else None
        if fault is None or not self._is_malformed(fault):
            return True
        self._unlogged += 1
        if self._clock.monotonic() - self._logged_at < LOG_SECONDS:
            return False
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = (
            "requests that were no HTTP since the last line: %d",
            (self._unlogged,),
        )
        record.exc_info = record.exc_text = None
        self._logged_at, self._unlogged = self._clock.monotonic(), 0
        return True
