"""Requests to our own endpoints and their responses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Request:
    """`params` are those of the path, `query` those behind the question mark."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def header(self, name: str) -> str:
        """Return the value of a header, case-insensitively; empty without."""
        low = name.lower()
        return next((value for key, value in self.headers.items() if key.lower() == low), "")


@dataclass(frozen=True, slots=True)
class Response:
    """An answer. `stream`, if given, is sent piece by piece in place of `body`.

    A stream ends after `machinery.http_server.STREAM_SECONDS`.
    """

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: AsyncGenerator[bytes] | None = None


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
