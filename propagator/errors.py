"""The exception for an object that a member refuses, and which faults of a member it covers.

A refusal is about an object: a retry at once would bring the same answer, so the other objects go
on and this one is tried again later. Every other fault is about the request or the member, passes
through as it is, and has its Workload retried.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from crds.workload import PropagatedReason
from machinery.errors import (
    ApiError,
    Conflict,
    Gone,
    ServerError,
    StowageError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)

_STORE_SIGNS = (
    "etcdserver:",
    "rpc error:",
    "context deadline exceeded",
    "context canceled",
    "connection refused",
    "transport is closing",
    "storage is (re)initializing",
)
"""Phrases in a 500 of etcd, of its client, or of a server that lost it."""


class Refused(Exception):
    """The object could not be written: a reason of Propagated=False, and the message."""

    def __init__(self, reason: PropagatedReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, refusals: Sequence[Refused]) -> Refused:
        """Return one refusal for several: the worst reason, and every message with that reason."""
        worst = min((r.reason for r in refusals), key=list(PropagatedReason).index)
        return cls(worst, "; ".join(sorted({str(r) for r in refusals if r.reason is worst})))


class Unrenderable(Refused):
    """The Workload makes no objects: no retry helps before it is another one."""

    def __init__(self, message: str) -> None:
        super().__init__(PropagatedReason.INVALID_WORKLOAD, message)


class HubFault(StowageError):
    """A request to the hub before a write to a member failed; the member is not to blame."""

    reason = PropagatedReason.HUB_UNAVAILABLE

    def __init__(self, what: str, fault: TransportError) -> None:
        super().__init__(f"the hub: {what}: {fault}")


def says_no(fault: ApiError) -> bool:
    """Whether the member's API refused the object, and not merely this request.

    A server answers 500 to a field that its schema does not have, where a webhook cannot be called,
    and to failures of its own store: only the last ones are not about the object.
    """
    if isinstance(fault, ServerError):
        return fault.code == HTTPStatus.INTERNAL_SERVER_ERROR and not _of_the_store(fault.message)
    return not isinstance(fault, Unauthorized | TooManyRequests | Conflict | Gone)


def _of_the_store(message: str) -> bool:
    # A webhook that does not answer is reported in the same phrases, and concerns the object.
    return "webhook" not in message and any(sign in message for sign in _STORE_SIGNS)
