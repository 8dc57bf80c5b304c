"""Requests to our own endpoints and their responses, for the writer of an endpoint.

Apart from the server, so that a plugin with endpoints loads no web framework in a command that
serves nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `params` are those of the path, `query` those behind the question mark."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes = b""
    content_type: str = "application/json"


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
