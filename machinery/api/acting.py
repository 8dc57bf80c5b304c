"""Views of a client: as another user, and within a term of leadership.

No write begins after a term, and the server ends each with it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from machinery.api.client import ApiClient
from machinery.api.resources import Resource
from machinery.api.verbs import BeforeWrite, Verbs, View
from machinery.errors import TransportError


def account(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


class Acting(View):
    """The API of `client`'s server as `user` sees it.

    Raises TransportError for a name that cannot be part of a header: members choose namespaces.
    """

    def __init__(self, client: ApiClient, user: str) -> None:
        super().__init__(client)
        if not (user.isascii() and user.isprintable()):
            raise TransportError("the name of an account to act as has characters that none has")
        self.user = user

    async def request(self, method: str, path: str, **how: Any) -> bytes:
        return await super().request(method, path, acting_as=self.user, **how)

    def watch(self, res: Resource, **how: Any) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return super().watch(res, acting_as=self.user, **how)


class Fenced(View):
    """The API of `client`'s server; `before_write` is as in `machinery.api.client.ApiClient`."""

    def __init__(self, client: Verbs, before_write: BeforeWrite) -> None:
        super().__init__(client)
        self._before_write = before_write

    async def request(self, method: str, path: str, **how: Any) -> bytes:
        return await super().request(method, path, before_write=self._before_write, **how)
