"""Requests of a term of leadership: no write begins after it, and the server ends each with it."""

from __future__ import annotations

from typing import Any

from machinery.api.verbs import BeforeWrite, Verbs, View


class Fenced(View):
    """The API of `client`'s server; `before_write` is as in `machinery.api.client.ApiClient`."""

    def __init__(self, client: Verbs, before_write: BeforeWrite) -> None:
        super().__init__(client)
        self._before_write = before_write

    async def request(self, method: str, path: str, **how: Any) -> bytes:
        return await super().request(method, path, before_write=self._before_write, **how)
