"""The meaning of an answer that is not a success.

Any body becomes an `ApiError`: a member's server or proxy must not cause a fault that callers do
not expect.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from machinery.api.responses import decode
from machinery.errors import ApiError
from machinery.types import bounds

EXCERPT_LIMIT = 200
"""Bytes quoted of an answer that is no Status."""


class _ErrorStatus(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


class _Detailed(_ErrorStatus):
    details: dict[str, Any] | None = None


_status = msgspec.json.Decoder(_ErrorStatus)
_detailed = msgspec.json.Decoder(_Detailed)


def error_of(event: msgspec.Raw) -> ApiError:
    """Return the error in the ERROR event of a watch. Raises Unreadable."""
    status: _ErrorStatus = decode(event, _status)
    return ApiError.of(
        code=status.code,
        reason=bounds.clean(status.reason, bounds.WORD),
        message=bounds.clean(status.message),
    )


def refusal(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    try:
        bounds.check_json(body)
        status = _detailed.decode(body)
    except (ValueError, RecursionError, bounds.TooMuch):  # or invalid UTF-8, or endless nesting
        status = _Detailed(message=_excerpt(body))
    return ApiError.of(
        code=code,
        reason=bounds.clean(status.reason, bounds.WORD),
        message=bounds.clean(status.message) or _phrase(code),
        details=status.details,
        retry_after=_seconds(headers.get("Retry-After", "")),
    )


def _excerpt(body: bytes) -> str:
    return bounds.clean(body[:EXCERPT_LIMIT].decode(errors="replace"), EXCERPT_LIMIT)


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return f"HTTP {code}"


def _seconds(text: str) -> float | None:
    """Return the seconds of Retry-After, whole ones as API servers send them, capped."""
    if not (text.isascii() and text.isdigit()):
        return None
    return min(float(text), bounds.RETRY_AFTER_SECONDS)
