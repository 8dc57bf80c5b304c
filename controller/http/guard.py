"""The guard of debug and diagnosis endpoints, by the hub's RBAC."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from machinery.api.client import ApiClient
from machinery.api.resources import TOKEN_REVIEWS
from machinery.discovery.access_reviews import allowed, review

REVIEWS_AT_ONCE = 2
"""Concurrent reviews: a flood of wrong tokens must not take the connections of writes."""


PATH_PREFIX = "/stowage"
"""In the hub's RBAC. system:discovery opens `/apis/*` to every user."""


@dataclass(frozen=True, slots=True)
class DeniedRequest:
    status: int
    message: str


class Guard:
    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._turns = asyncio.Semaphore(REVIEWS_AT_ONCE)

    async def refusal(self, *, authorization: str, method: str, path: str) -> DeniedRequest | None:
        """Return None if the bearer may use that HTTP method on that path.

        Reviews the non-resource URL `/stowage` + path on the hub. Raises TransportError.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return DeniedRequest(401, "a bearer token is needed")
        async with self._turns:
            status = await review(self._client, TOKEN_REVIEWS, {"token": token.strip()})
            if not status.get("authenticated"):
                return DeniedRequest(401, "the token is not valid on the hub")
            return await self._authorize(status.get("user", {}), method.lower(), path)

    async def _authorize(
        self, user: Mapping[str, Any], verb: str, path: str
    ) -> DeniedRequest | None:
        who = {
            "user": user.get("username", ""),
            "groups": user.get("groups", []),
            "uid": user.get("uid", ""),
            "extra": user.get("extra", {}),
        }
        wanted = {"path": f"{PATH_PREFIX}{path}", "verb": verb}
        if await allowed(self._client, {**who, "nonResourceAttributes": wanted}):
            return None
        return DeniedRequest(403, f"{who['user']} may not {verb} {wanted['path']}")
