"""Requests of a term of leadership: no write is begun after it, and the server ends each with it.

The client's own connections serve, as with `machinery.api.acting`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from machinery.api.resources import Resource
from machinery.api.verbs import BeforeWrite, Verbs


class Fenced(Verbs):
    """The API of `client`'s server; `before_write` is as in `machinery.api.client.ApiClient`."""

    def __init__(self, client: Verbs, before_write: BeforeWrite) -> None:
        super().__init__(client.clock, client.pace, client.holding, client.history)
        self.server_time = client.server_time
        self.shares_kinds_with(client)
        self._client = client
        self._before_write = before_write

    async def request(self, method: str, path: str, **how: Any) -> bytes:
        """Do what `ApiClient.request` does, in the term."""
        return await self._client.request(method, path, before_write=self._before_write, **how)

    def refuse(self, what: str) -> None:
        self._client.refuse(what)

    def watch(self, res: Resource, **how: Any) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._client.watch(res, **how)
