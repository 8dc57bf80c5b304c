"""What a server means by an answer that is not a success.

Whatever the body holds, an `ApiError` comes of it: the server, or the proxy before it, may be a
member's, and its refusal must not become a fault of another kind than the callers expect.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from machinery.errors import ApiError

MESSAGE_LIMIT = 4096
"""Characters kept of a server's message: it ends in conditions and logs of ours."""
EXCERPT_LIMIT = 200
"""Bytes shown of an answer that is no Status: a proxy's page, or no API server at all."""


class _Status(msgspec.Struct):
    """A Kubernetes Status object, as far as it explains a refusal."""

    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None


_status = msgspec.json.Decoder(_Status)


def refusal(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error of an answer's HTTP code, headers and body, ready to be raised."""
    try:
        status = _status.decode(body)
    except (ValueError, RecursionError):  # also what is no UTF-8, or nested without end
        status = _Status(message=_excerpt(body))
    return ApiError.of(
        code=code,
        reason=status.reason,
        message=(status.message or _phrase(code))[:MESSAGE_LIMIT],
        details=status.details,
        retry_after=_seconds(headers.get("Retry-After", "")),
    )


def _excerpt(body: bytes) -> str:
    text = body[:EXCERPT_LIMIT].decode(errors="replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return f"HTTP {code}"


def _seconds(text: str) -> float | None:
    """Retry-After as API servers give it: whole seconds."""
    return float(text) if text.isascii() and text.isdigit() else None
