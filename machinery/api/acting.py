"""Requests as another user: a client's connections, with an impersonation header.

The server checks the right `impersonate` at each request, then applies the rights of the account
alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from machinery.api.client import ApiClient
from machinery.api.resources import Resource
from machinery.api.verbs import View
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
