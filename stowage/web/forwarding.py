"""`stowage ui --hosted`: the hosted page on this machine, through the API server alone.

A listener on loopback hands each request to a pod of `stowage-ui` by `pods/portforward`, with the
token of the reader's kubeconfig: no ingress is needed, and no token is pasted. A one-time key opens
the listener, so that nobody else on this machine uses that token.
"""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from http.client import parse_headers
from io import BytesIO
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from machinery.api.client import ApiClient
from machinery.api.port_forward import PodStream, PortForwarder
from machinery.api.resources import PODS, SERVICE_ACCOUNTS
from machinery.clock import Clock, SystemClock
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, TransportError
from machinery.http_messages import Request, Response
from machinery.http_server import HttpServer
from machinery.types import conditions
from stowage.console.terminal import say
from stowage.web.pages import HEADERS
from stowage.web.render import fault
from stowage.web.session import OPEN, Sessions, secret_of_user

PODS_OF_PAGE = "app=stowage-ui"
LONGEST_HEAD = 64 * 1024
TOKEN_SECONDS = 1800.0
"""A service account's token is asked for again after so long, half of its life."""
_OURS = frozenset(
    {"authorization", "cookie", "connection", "content-length", "keep-alive", "transfer-encoding"}
)
"""Headers that are not handed on, in either direction but for Content-Length of an answer."""
TOKENLESS = (
    "the kubeconfig has no token, as with a client certificate, and the hosted page knows its "
    "readers by one: give --service-account NAMESPACE/NAME, whose token is then asked of the hub"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingSettings:
    """Which hub's page, as whom, and where to listen.

    Args:
        hub: with the reader's own credential.
        namespace: where Stowage lives.
        service_account: namespace and name of whose token is sent in place of the reader's.
    """

    hub: Connection
    namespace: str = "stowage-system"
    service_account: tuple[str, str] | None = None
    port: int = 0
    browser: bool = True


async def run(
    settings: ForwardingSettings, *, opened: Callable[[str], None] = lambda _: None
) -> None:
    """Forward until cancelled; print the address, and call `opened` with it.

    Raises ConfigurationError, TransportError, OSError for a port that is taken.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(ApiClient(settings.hub, name="hub"))
        ports = await stack.enter_async_context(PortForwarder(settings.hub))
        tokens = ReaderToken(client, settings, SystemClock())
        await tokens.current()  # what is lacking is said before a browser opens
        page = HostedPage(client, ports, settings.namespace)
        await page.pod()
        sessions, server = Sessions(secret_of_user()), HttpServer(HEADERS)
        server.otherwise("/", _Forwarder(sessions, page, tokens).answer)
        port = await server.start("127.0.0.1", settings.port)
        stack.push_async_callback(server.stop)
        address = f"http://127.0.0.1:{port}/?key={sessions.key}"
        say(f"{settings.hub.server}: {address}")
        opened(address)
        if settings.browser:
            await asyncio.to_thread(webbrowser.open, address)
        await asyncio.Event().wait()


class ReaderToken:
    """The token that says who the reader is: the kubeconfig's, or that of a service account."""

    def __init__(self, hub: ApiClient, settings: ForwardingSettings, clock: Clock) -> None:
        self._hub, self._settings, self._clock = hub, settings, clock
        self._requested, self._until = "", 0.0

    async def current(self) -> str:
        """Return the token to send now. Raises ConfigurationError, TransportError."""
        if self._settings.service_account is not None:
            return await self._of_account(*self._settings.service_account)
        connection = self._settings.hub
        source = connection.token_source
        found = await source() if source is not None else connection.token
        if not found:
            raise ConfigurationError(TOKENLESS)
        return found

    async def _of_account(self, namespace: str, name: str) -> str:
        if self._clock.monotonic() >= self._until:
            spec = {"expirationSeconds": int(2 * TOKEN_SECONDS)}
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            path = SERVICE_ACCOUNTS.path(namespace, name, "token")
            answer = msgspec.json.decode(await self._hub.request("POST", path, body=body))
            self._requested = str(answer["status"]["token"])
            self._until = self._clock.monotonic() + TOKEN_SECONDS
        return self._requested


class HostedPage:
    """The pods of the hosted page."""

    def __init__(self, hub: ApiClient, ports: PortForwarder, namespace: str) -> None:
        self._hub, self._ports, self._namespace = hub, ports, namespace
        self._pod: tuple[str, int] | None = None

    async def pod(self) -> tuple[str, int]:
        """Return name and port of a pod that is ready. Raises ConfigurationError for none."""
        if self._pod is None:
            listed = await self._hub.list(
                PODS, namespace=self._namespace, label_selector=PODS_OF_PAGE
            )
            ready = [each for each in listed["items"] if _ready(each)]
            if not ready:
                told = f"no pod of stowage-ui is ready in {self._namespace}: stowage install --ui"
                raise ConfigurationError(told)
            self._pod = (ready[0]["metadata"]["name"], _port(ready[0]))
        return self._pod

    async def asked(self, request: bytes) -> AsyncGenerator[bytes]:
        """Yield the answer to a request, head and all. Raises TransportError."""
        try:
            name, port = await self.pod()
            async with self._ports.stream(self._namespace, name, port) as stream:
                async for piece in _exchanged(stream, request):
                    yield piece
        except TransportError:
            self._pod = None  # another one may do better
            raise


async def _exchanged(stream: PodStream, request: bytes) -> AsyncGenerator[bytes]:
    await stream.send(request)
    async for piece in stream.received():
        yield piece


def _ready(pod: Mapping[str, Any]) -> bool:
    going = bool(pod["metadata"].get("deletionTimestamp"))
    return not going and conditions.holds(pod.get("status") or {}, "Ready")


def _port(pod: Mapping[str, Any]) -> int:
    ports = [each for c in pod["spec"]["containers"] for each in c.get("ports") or ()]
    named = (each["containerPort"] for each in ports if each.get("name") == "http")
    return int(next(named, 8080))


class _Forwarder:
    """Answers requests of this machine with what the hosted page answers."""

    def __init__(self, sessions: Sessions, page: HostedPage, tokens: ReaderToken) -> None:
        self._sessions, self._page, self._tokens = sessions, page, tokens

    async def answer(self, request: Request) -> Response:
        headers: dict[str, str] = {}
        if not self._sessions.opened(request):
            cookie = self._sessions.redeem(request)
            if not cookie:
                message = "The key in that address is good for one use."
                return fault(request, 401, message, heading=OPEN)
            headers["Set-Cookie"] = cookie
        try:
            pieces = self._page.asked(_written(request, await self._tokens.current()))
            found = await _read_head(pieces)
            if request.method == "HEAD":
                await pieces.aclose()
                found = replace(found, headers=_without_length(found.headers), stream=None)
        except (TransportError, ConfigurationError) as e:
            return fault(request, 503, str(e), heading="The hosted page is not reached")
        return replace(found, headers={**found.headers, **headers})


def _written(request: Request, token: str) -> bytes:
    """Return the request as HTTP/1.0, whose answer ends with the connection."""
    query = {key: value for key, value in request.query.items() if key != "key"}
    target = quote(request.path, safe="/") + (f"?{urlencode(query)}" if query else "")
    kept = [(k, v) for k, v in request.headers.items() if k.lower() not in _OURS]
    given = [*kept, ("Authorization", f"Bearer {token}"), ("Content-Length", len(request.body))]
    lines = [f"{request.method} {target} HTTP/1.0", *(f"{key}: {value}" for key, value in given)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + request.body


async def _read_head(pieces: AsyncGenerator[bytes]) -> Response:
    """Return the answer, its body still to come. Raises TransportError."""
    begun = b""
    async for piece in pieces:
        begun += piece
        if b"\r\n\r\n" in begun or len(begun) > LONGEST_HEAD:
            break
    head, end, rest = begun.partition(b"\r\n\r\n")
    line, _, fields = head.partition(b"\r\n")
    words = line.split(b" ", 2)
    if not end or len(words) < 2 or not words[1].isdigit():
        await pieces.aclose()
        raise TransportError("the pod answers with no HTTP")
    given = parse_headers(BytesIO(fields + b"\r\n\r\n"))
    kept = {k: v for k, v in given.items() if k.lower() not in _OURS - {"content-length"}}
    kind = kept.pop("Content-Type", "application/octet-stream")
    return Response(int(words[1]), b"", kind, kept, _joined(rest, pieces))


def _without_length(headers: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in headers.items() if key.lower() != "content-length"}


async def _joined(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(rest):
        if first:
            yield first
        async for piece in rest:
            yield piece
