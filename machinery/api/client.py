"""The verbs of `machinery.api.verbs` over HTTP (aiohttp).

- Every request ends within its time limit, and every fault is one of `machinery.errors`.
- A retry does no harm: a GET without an answer or with a 5xx, any verb after 429 (never sooner than
  requested) or a refused connection. A change without an answer is never sent again.
- `before_write` is called right before each attempt of a change: a lease may end in the queue or
  between attempts. The change carries a `timeout` within that right, or a request behind a cut
  network could take effect long after the client gave up.
- Requests queue in `machinery.api.lanes` outside of their time limit: our own burst is never taken
  for a silent server. Watches do not queue.
"""

from __future__ import annotations

import asyncio
import functools
import io
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, Unpack
from urllib.parse import urlencode

import aiohttp
import msgspec
import tenacity
from multidict import CIMultiDict
from prometheus_client import Counter
from yarl import URL

from machinery import metrics
from machinery.api.connections import (
    FAULTS,
    Chunks,
    body_of,
    check_head,
    connecting,
    fault_of,
    open_pool,
    route,
    silent_for,
    split_lines,
)
from machinery.api.credentials import acting, client_context, current_token, identity, telling
from machinery.api.lanes import OBJECT, FairQueue, PriorityLevel, RequestClass
from machinery.api.resources import Resource
from machinery.api.status_errors import refusal
from machinery.api.verbs import (
    JSON,
    METADATA,
    BeforeWrite,
    Selection,
    ServerHistory,
    Verbs,
    query_of,
)
from machinery.clock import Clock, SystemClock
from machinery.config.kubeconfig import Connection
from machinery.errors import (
    ApiError,
    NotSent,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
    Unreachable,
)
from machinery.pace import ServerBudget, TimeSlice
from machinery.types import bounds
from machinery.types.bounds import TooMuch
from machinery.types.memory_budget import BudgetShare

WATCH_SLACK = 10.0
"""Seconds of silence beyond a watch's requested time, until its connection counts as dead."""
STREAMED_BODY = 1024 * 1024
"""Bytes. Larger bodies are sent in pieces."""
NOT_MODIFIED = 304
FAREWELL_SECONDS = 0.05
ATTEMPTS = 5
MOST_UNANSWERED = 256
"""The most changes noted without an answer; those are forgotten whose time is over."""
FIRST_WAIT = 0.1
"""Seconds before the second attempt, plus as much jitter; each next wait is double."""


@dataclass(slots=True)
class Seen:
    """The version that the caller has, empty without one; a request renews it."""

    etag: str = ""


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    url: URL
    body: bytes | None
    content_type: str | None
    accept: str
    timeout: aiohttp.ClientTimeout
    seconds: float
    errand: RequestClass
    acting_as: str | None = None
    agent: str = ""
    before_write: BeforeWrite | None = None
    seen: Seen | None = None


class ApiClient(Verbs):
    """A client of one API server, as one identity; `machinery.api.acting` impersonates others.

    `limit` bounds the requests in flight in the lane of work, watches excluded. `timeout` bounds
    one attempt, in seconds; retries start within as much again. `requests` counts sent requests. If
    `before_write` raises, nothing is sent. Clients of one server share its `history`. `mark` ends
    the User-Agent of each request. `writes` notes which changes may still take effect; without it
    the client notes none. Raises KubeconfigError if the connection's certificates cannot be used.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Clock | None = None,
        name: str = "hub",
        limit: int = 32,
        timeout: float = 10.0,
        user_agent: str = "stowage",
        before_write: BeforeWrite | None = None,
        pace: ServerBudget | None = None,
        holding: BudgetShare | None = None,
        history: ServerHistory | None = None,
        mark: Callable[[], str] = str,
        writes: WritesInFlight | None = None,
    ) -> None:
        clock = clock or SystemClock()
        super().__init__(clock, pace or ServerBudget(clock), holding or BudgetShare(), history)
        self.connection = connection
        self.name = name
        self.requests = 0
        self._base = connection.server.rstrip("/")
        self._ssl = client_context(connection)
        self._lines = {
            PriorityLevel.LEADER_ELECTION: FairQueue(bounds.LEASES),
            PriorityLevel.WORK: FairQueue(limit),
            PriorityLevel.PROBE: FairQueue(bounds.PROBES),
            PriorityLevel.DISCOVERY: FairQueue(bounds.DISCOVERIES, each=1),
        }
        self._large = asyncio.Lock()
        self._timeout = timeout
        self._before_write = before_write
        self._mark = mark
        self._writes = writes
        self._identity = identity(connection, user_agent)
        self._headers: dict[tuple[str | None, str, str | None], CIMultiDict[str]] = {}
        self._route = route(connection)
        self._pool: aiohttp.ClientSession | None = None
        self._closed = False
        self._meter = Meter.of(name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; requests in flight fail as Unreachable. May be called again."""
        if self._closed:
            return
        self._closed = True
        self._meter.release()
        if self._pool is not None:
            await asyncio.shield(self._end(self._pool))

    async def _end(self, pool: aiohttp.ClientSession) -> None:
        await pool.close()
        # Cancelled requests end their connections in the next turns of the loop.
        await asyncio.sleep(FAREWELL_SECONDS)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | Mapping[str, Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds each attempt, not the call
        acting_as: str | None = None,
        agent: str = "",
        errand: RequestClass = OBJECT,
        before_write: BeforeWrite | None = None,
        seen: Seen | None = None,
    ) -> bytes:
        """Send one request, return the body of a 2xx answer.

        `path` is absolute and quoted. A body that is not bytes is sent as JSON. `timeout` bounds
        one attempt, in seconds. `acting_as` is the user to impersonate. `agent` ends the
        User-Agent, for the server's audit log. `errand` is the lane and the largest answer.
        `before_write` is called in addition to the client's own. The answer is empty while it would
        be the one that was `seen`. Raises the tree of `machinery.errors`, including TooMuch.
        """
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        call = _Call(
            method=method,
            url=self._url(path, params),
            body=body,
            content_type=None if body is None else content_type,
            accept=accept,
            timeout=connecting(timeout or self._timeout),
            seconds=timeout or self._timeout,
            errand=errand,
            acting_as=acting_as,
            agent=agent,
            before_write=before_write,
            seen=seen,
        )
        try:
            return await self._send(call)
        except TransportError as fault:
            if not self._worthwhile(method, fault):
                raise
            return await self._persist(call, fault)

    @asynccontextmanager
    async def watch(
        self,
        res: Resource,
        *,
        resource_version: str,
        timeout_seconds: int = 300,
        acting_as: str | None = None,
        **chosen: Unpack[Selection],
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the events after `resource_version`, one line of JSON each, including bookmarks.

        Ends with the server's stream, within `timeout_seconds`. Raises the errors of `request`,
        also between two lines. An event of type ERROR, such as 410, is a line.
        """
        params = query_of(
            chosen,
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(timeout_seconds),
        )
        call = _Call(
            method="GET",
            url=self._url(res.path(chosen.get("namespace")), params),
            body=None,
            content_type=None,
            accept=METADATA if chosen.get("metadata_only") else JSON,
            timeout=silent_for(self._timeout, timeout_seconds + WATCH_SLACK),
            seconds=self._timeout,
            errand=OBJECT,
            acting_as=acting_as,
        )
        response = await self._open(call)
        lines = split_lines(
            Chunks(response, functools.partial(fault_of, self._base)),
            stint=TimeSlice(self.pace),
            large=self._large,
            seconds=self._timeout,
        )
        try:
            yield lines
        except TooMuch:
            self.refuse("watch")
            raise
        finally:
            await lines.aclose()
            response.close()

    def refuse(self, what: str) -> None:
        self._meter.refused(what)

    async def _persist(self, call: _Call, first: TransportError) -> bytes:
        failed = [first]  # only a failed call pays for this
        over = self.clock.monotonic() + call.seconds
        backoff = tenacity.wait_exponential_jitter(
            multiplier=FIRST_WAIT, max=call.seconds, jitter=FIRST_WAIT
        )

        async def attempt() -> bytes:
            if failed:
                raise failed.pop()
            return await self._send(call)

        def stop(state: tenacity.RetryCallState) -> bool:
            late = self.clock.monotonic() + state.upcoming_sleep > over
            return late or state.attempt_number >= ATTEMPTS

        retrying = tenacity.AsyncRetrying(
            stop=stop,
            wait=lambda state: max(_asked_for(state), backoff(state)),
            retry=tenacity.retry_if_exception(functools.partial(self._worthwhile, call.method)),
            sleep=self.clock.sleep,
            reraise=True,
        )
        return await retrying(attempt)

    def _worthwhile(self, method: str, fault: BaseException) -> bool:
        if self._closed:
            return False
        if isinstance(fault, TooManyRequests | NotSent):
            return True
        return method == "GET" and isinstance(fault, Unreachable | ServerError)

    async def _send(self, call: _Call) -> bytes:
        source = self.connection.token_source
        if source is None:
            return await self._attempt(call, None)
        token = await current_token(source)
        try:
            return await self._attempt(call, token)
        except Unauthorized:
            renewed = await current_token(source, rejected=token)
            if renewed == token:
                raise
            return await self._attempt(call, renewed)

    async def _attempt(self, call: _Call, token: str | None) -> bytes:
        async with self._lines[call.errand.lane].turn():
            url = call.url if call.method == "GET" else self._ending(call)
            started = self.clock.monotonic()
            write = None
            if call.method != "GET" and self._writes is not None:
                write = self._writes.sent(call.seconds)
            status = NO_ANSWER
            self.requests += 1
            try:
                async with asyncio.timeout(call.seconds), self._start(call, token, url) as response:
                    most = call.errand.most if response.status < 300 else bounds.REFUSAL_BYTES
                    answer = await self._read(response, most)
                    status = response.status
                    if write is not None and self._writes is not None:
                        self._writes.answered(write)
                    self.server_time.saw(response.headers.get("Date"))
                    if call.seen is not None and status == 200:
                        call.seen.etag = response.headers.get("ETag", "")[: bounds.TOKEN]
            except FAULTS as e:
                raise fault_of(self._base, e) from e
            finally:
                self._meter.count(call.method, status)
                self._meter.took(self.clock.monotonic() - started)
        if status == NOT_MODIFIED and call.seen is not None and call.seen.etag:
            return b""
        if status >= 300:
            raise refusal(status, response.headers, answer)
        return answer

    def _ending(self, call: _Call) -> URL:
        seconds = call.seconds
        for check in (self._before_write, call.before_write):
            left = None if check is None else check()
            seconds = seconds if left is None else min(seconds, left)
        joint = "&" if call.url.raw_query_string else "?"
        # A server takes 0 for no limit at all.
        return URL(f"{call.url}{joint}timeout={max(1, int(seconds * 1000))}ms", encoded=True)

    async def _read(self, response: aiohttp.ClientResponse, most: int) -> bytes:
        try:
            check_head(response, most)
            return await body_of(response, most, self._large, TimeSlice(self.pace))
        except TooMuch as e:
            self.refuse("answer")
            response.close()
            raise TooMuch(f"{self._base}: {e}") from e

    async def _open(self, call: _Call) -> aiohttp.ClientResponse:
        source = self.connection.token_source
        token = await current_token(source) if source else None
        status = NO_ANSWER
        self.requests += 1
        try:
            async with asyncio.timeout(call.seconds):
                response = await self._start(call, token, call.url)
                status = response.status
                async with AsyncExitStack() as unless_taken:
                    unless_taken.push_async_exit(response)
                    if status >= 300:
                        said = await self._read(response, bounds.REFUSAL_BYTES)
                        raise refusal(status, response.headers, said)
                    check_head(response, None)
                    unless_taken.pop_all()
                return response
        except FAULTS as e:
            raise fault_of(self._base, e) from e
        finally:
            self._meter.count("WATCH", status)

    def _start(
        self, call: _Call, token: str | None, url: URL
    ) -> aiohttp.client._RequestContextManager:
        body = call.body
        return self._connections().request(
            call.method,
            url,
            data=body if body is None or len(body) < STREAMED_BODY else io.BytesIO(body),
            headers=self._headers_for(call, token),
            timeout=call.timeout,
            allow_redirects=False,
            **self._route,
        )

    def _headers_for(self, call: _Call, token: str | None) -> CIMultiDict[str]:
        key = (call.content_type, call.accept, token)
        known = self._headers.get(key)
        if known is None:
            if any(held != token for _, _, held in self._headers):
                self._headers.clear()  # keep only the last of changing tokens
            known = self._headers[key] = CIMultiDict(self._identity)
            known["Accept"] = call.accept
            if call.content_type:
                known["Content-Type"] = call.content_type
            if token:
                known["Authorization"] = f"Bearer {token}"
        agent = " ".join(filter(None, (self._mark(), call.agent)))
        named = telling(known, agent) if agent else known
        if call.seen is not None and call.seen.etag:
            named = CIMultiDict(named)
            named["If-None-Match"] = call.seen.etag
        return acting(named, call.acting_as) if call.acting_as else named

    def _url(self, path: str, params: Mapping[str, str] | None) -> URL:
        query = f"?{urlencode(params)}" if params else ""
        return URL(f"{self._base}{path}{query}", encoded=True)

    def _connections(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unreachable(f"{self._base}: the client is closed")
        if self._pool is None:
            self._pool = open_pool(self._ssl, self._once, self.pace)
        return self._pool

    async def _once(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request, and hide from aiohttp that the server hung up."""
        try:
            return await send(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as e:
            raise fault_of(self._base, e) from e


class WritesInFlight:
    """Until when a change that was sent may still take effect: until its answer, or its time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[object, float] = {}

    @property
    def seconds(self) -> float:
        """Seconds until the last one is over, if no answer comes; 0 if none is in flight."""
        return max((*self._until.values(), now := self._clock.monotonic())) - now

    def sent(self, seconds: float) -> object:
        """The server was given so many seconds for it, at most."""
        now, write = self._clock.monotonic(), object()
        if len(self._until) > MOST_UNANSWERED:
            self._until = {each: at for each, at in self._until.items() if at > now}
        self._until[write] = now + seconds
        return write

    def answered(self, write: object) -> None:
        self._until.pop(write, None)


def _asked_for(state: tenacity.RetryCallState) -> float:
    fault = state.outcome.exception() if state.outcome else None
    return (fault.retry_after or 0.0) if isinstance(fault, ApiError) else 0.0


REQUESTS = metrics.counter(
    "stowage_api_requests",
    "Requests to API servers by client, verb and HTTP code (0: no answer)",
    ("client", "verb", "code"),
)
SECONDS = metrics.histogram(
    "stowage_api_request_seconds", "Time until an API server's answer was read", ("client",)
)

REFUSED = metrics.counter(
    "stowage_refused_input",
    "What API servers sent and we did not take, as it exceeded a bound, by client and kind",
    ("client", "what"),
)
INPUT = ("answer", "watch", "list", "object")

NO_ANSWER = 0

_meters: dict[str, Meter] = {}


class Meter:
    """The metrics of one client name. Make it by `of`, end it by `release`."""

    def __init__(self, client: str) -> None:
        self._client = client
        self.users = 0
        self._outcomes: dict[tuple[str, int], Counter] = {}
        self._observe = SECONDS.labels(client).observe
        self._refused = {what: REFUSED.labels(client, what) for what in INPUT}
        self._outcome("GET", 200)
        self._outcome("GET", NO_ANSWER)

    @classmethod
    def of(cls, client: str) -> Meter:
        meter = _meters.setdefault(client, cls(client))
        meter.users += 1
        return meter

    def count(self, verb: str, code: int) -> None:
        (self._outcomes.get((verb, code)) or self._outcome(verb, code)).inc()

    def took(self, seconds: float) -> None:
        self._observe(seconds)

    def refused(self, what: str) -> None:
        self._refused[what].inc()

    def release(self) -> None:
        self.users -= 1
        if self.users:
            return
        del _meters[self._client]
        SECONDS.remove(self._client)
        for what in INPUT:
            REFUSED.remove(self._client, what)
        for verb, code in self._outcomes:
            REQUESTS.remove(self._client, verb, str(code))

    def _outcome(self, verb: str, code: int) -> Counter:
        child = REQUESTS.labels(self._client, verb, str(code))
        self._outcomes[verb, code] = child
        return child
