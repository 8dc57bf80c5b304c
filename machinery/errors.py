"""The one tree of faults: what a caller may have to tell apart, and nothing more.

Vendor exceptions are wrapped once, where they appear, with `from`: no code above `machinery`
catches an aiohttp or an ssl exception.

    StowageError
    ├── ConfigurationError
    ├── KubeconfigError
    ├── LeaseLost
    └── TransportError
        ├── Unreachable
        │   └── NotSent
        ├── TLSVerificationFailed
        └── ApiError
            ├── BadRequest (400), Unauthorized (401), Forbidden (403), NotFound (404)
            ├── Conflict (409), AlreadyExists (409), Gone (410), Invalid (422)
            ├── TooLarge (413, or a 500 with the words of etcd or its client)
            └── TooManyRequests (429), ServerError (5xx)
"""

from __future__ import annotations

from typing import Any, TypeVar

E = TypeVar("E", bound=BaseException)


class StowageError(Exception):
    """The root: every fault that Stowage raises on purpose."""


class ConfigurationError(StowageError):
    """A file or a flag of ours is wrong.

    The message names the place (file, line, field) and the cure.
    """


class KubeconfigError(StowageError):
    """`key` is the offending path, never a value."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key


class LeaseLost(StowageError):
    """Leadership ended, or may have ended, before a write."""


def fresh(fault: E) -> E:
    """Return a copy of an exception, to keep it or to raise a kept one."""
    made = type(fault).__new__(type(fault), *fault.args)
    made.__dict__.update(fault.__dict__)
    return made


class TransportError(StowageError):
    """A request failed; the subclass says why."""


class Unreachable(TransportError):
    """No answer from the server: refused, reset, timed out, no route, no such host."""


class NotSent(Unreachable):
    """No connection, so nothing of the request reached the server: any verb may be retried."""


class TLSVerificationFailed(TransportError):
    """The server's certificate does not verify against the CA that the kubeconfig names."""


NOTHING_SENT = (LeaseLost, NotSent, TLSVerificationFailed)
"""Faults after which the server certainly received no request."""


class ApiError(TransportError):
    """The API server answered with a Status object that refuses the request.

    `code` (HTTP), `reason` (CamelCase), `message`, `details` (a JSON object) and `retry_after` in
    seconds, or None.
    """

    def __init__(
        self,
        *,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message or reason or f"HTTP {code}")
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after

    @staticmethod
    def of(
        *,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> ApiError:
        kind = _BY_REASON.get(reason) or _BY_CODE.get(code)
        if code == 500 and any(s in message for s in _LARGE_SIGNS):
            kind = TooLarge
        if kind is None:
            kind = ServerError if code >= 500 else ApiError
        return kind(
            code=code, reason=reason, message=message, details=details, retry_after=retry_after
        )


class BadRequest(ApiError):
    """400: the request itself is malformed."""


class Unauthorized(ApiError):
    """401: the credential is missing, wrong or expired."""


class Forbidden(ApiError):
    """403: by RBAC, or admission refused it."""


class NotFound(ApiError):
    """404: no such object, or no such resource type on this server."""


class Conflict(ApiError):
    """409: another writer was first, or owns a field of a server-side apply."""


class AlreadyExists(Conflict):
    """409 on creation: the name is taken."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old; list again."""


class Invalid(ApiError):
    """422: the object breaks its schema or a validation rule."""


class TooLarge(ApiError):
    """The object is too large to be stored."""


class TooManyRequests(ApiError):
    """429: slow down, for `retry_after` seconds where given."""


class ServerError(ApiError):
    """5xx: the server's own fault; a later retry may help."""


_LARGE_SIGNS = ("etcdserver: request is too large", "trying to send message larger than max")
"""The refusals of etcd (above 1.5 MiB) and of its client in the API server (2 MiB, 1.36.3)."""
_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Gone,
}
_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    422: Invalid,
    429: TooManyRequests,
}
