"""Requests as somebody else: a client's own connections, and one more header on each request.

A credential that may impersonate serves any number of identities this way, at the cost of a small
object for each. The server decides at each request whether it may (`impersonate` on that account),
and then asks the rights of the account alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from machinery.api.client import ApiClient
from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.errors import TransportError


def account(namespace: str, name: str) -> str:
    """The user name of a service account, as RBAC and the impersonation header write it."""
    return f"system:serviceaccount:{namespace}:{name}"


class Acting(Verbs):
    """The API of `client`'s server as `user` sees it. Closed with the client; needs no closing.

    Raises TransportError for a name that cannot stand in a header: members tell of namespaces.
    """

    def __init__(self, client: ApiClient, user: str) -> None:
        super().__init__(client.clock, client.pace, client.holding)
        if not (user.isascii() and user.isprintable()):
            raise TransportError("the name of an account to act as has characters that none has")
        self.user = user
        self._client = client

    async def request(self, method: str, path: str, **how: Any) -> bytes:
        """As `ApiClient.request`, as `user`."""
        return await self._client.request(method, path, acting_as=self.user, **how)

    def refuse(self, what: str) -> None:
        """As `ApiClient.refuse`: it is the same server."""
        self._client.refuse(what)

    def watch(self, res: Resource, **how: Any) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As `ApiClient.watch`, as `user`."""
        return self._client.watch(res, acting_as=self.user, **how)
