"""TCP to a port of a pod through the API server, like `kubectl port-forward`.

One websocket to `pods/portforward` carries one connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import aiohttp

from machinery.api.connections import FAULTS, Connector, fault_of, route
from machinery.api.credentials import client_context, current_token, identity
from machinery.api.resources import PODS
from machinery.api.status_errors import refusal
from machinery.config.kubeconfig import Connection
from machinery.errors import TransportError, Unreachable
from machinery.types import bounds

PROTOCOL = "v4.channel.k8s.io"
CONNECT_SECONDS = 10.0
_DATA, _ERROR = 0, 1
_HEADS = 2
"""Messages that hold the port alone."""


class PortForwarder:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ssl = client_context(connection)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=Connector(self._ssl), cookie_jar=aiohttp.DummyCookieJar()
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def stream(self, namespace: str, pod: str, port: int) -> AsyncIterator[PodStream]:
        """Yield a connection to that port. Raises TransportError, Forbidden and NotFound."""
        assert self._session is not None  # noqa: S101 - it was entered
        server = self._connection.server.rstrip("/")
        url = f"{server}{PODS.path(namespace, pod, 'portforward')}?ports={port}"
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                opened = await self._session.ws_connect(
                    url,
                    protocols=(PROTOCOL,),
                    headers=await self._headers(),
                    timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
                    max_msg_size=bounds.PAGE_BYTES,
                    **route(self._connection),
                )
        except aiohttp.WSServerHandshakeError as e:
            raise refusal(e.status, dict(e.headers or {}), b"") from e
        except FAULTS as e:
            raise fault_of(server, e) from e
        try:
            yield PodStream(opened, server)
        finally:
            await opened.close()

    async def _headers(self) -> list[tuple[str, str]]:
        source = self._connection.token_source
        token = [("Authorization", f"Bearer {await current_token(source)}")] if source else []
        return [*identity(self._connection, "stowage"), *token]


class PodStream:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse, server: str) -> None:
        self._socket, self._server = socket, server

    async def send(self, data: bytes) -> None:
        try:
            await self._socket.send_bytes(bytes((_DATA,)) + data)
        except FAULTS as e:
            raise fault_of(self._server, e) from e

    async def received(self) -> AsyncIterator[bytes]:
        """Yield the bytes that the pod sends, until it hangs up. Raises TransportError."""
        heads = 0
        async for message in self._socket:
            if message.type != aiohttp.WSMsgType.BINARY or not message.data:
                raise TransportError(f"{self._server}: this is no {PROTOCOL}")
            channel, data = message.data[0], message.data[1:]
            if heads < _HEADS and len(data) == 2:
                heads += 1
            elif channel == _ERROR and data:
                raise Unreachable(bounds.clean(data.decode(errors="replace"), 256))
            elif data:
                yield data
