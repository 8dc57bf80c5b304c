"""Refusals of single objects by a member, and which faults are such.

A refusal stops no other object, and is retried later. Any other fault has its Workload retried.
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
    Unreachable,
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
    """A reason of Propagated=False, and the message."""

    def __init__(self, reason: PropagatedReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, refusals: Sequence[Refused]) -> Refused:
        """Return the worst reason, with every message of that reason."""
        worst = min((r.reason for r in refusals), key=list(PropagatedReason).index)
        return cls(worst, "; ".join(sorted({str(r) for r in refusals if r.reason is worst})))


class Unrenderable(Refused):
    """The Workload cannot be rendered; only a change of it helps."""

    def __init__(self, message: str) -> None:
        super().__init__(PropagatedReason.INVALID_WORKLOAD, message)


class NotListed(Unreachable):
    """The member answers, and has not listed a kind yet."""


class HubFault(StowageError):
    """A request to the hub failed before a write to a member."""

    reason = PropagatedReason.HUB_UNAVAILABLE

    def __init__(self, what: str, fault: TransportError) -> None:
        super().__init__(f"the hub: {what}: {fault}")


def says_no(fault: ApiError) -> bool:
    """Whether the member refused the object, and not only this request.

    A server answers 500 for unknown fields, for webhooks that cannot be called, and for its store;
    the last does not concern the object.
    """
    if isinstance(fault, ServerError):
        return fault.code == HTTPStatus.INTERNAL_SERVER_ERROR and not _of_the_store(fault.message)
    return not isinstance(fault, Unauthorized | TooManyRequests | Conflict | Gone)


def _of_the_store(message: str) -> bool:
    # The same phrases report a webhook that does not answer, which concerns the object.
    return "webhook" not in message and any(sign in message for sign in _STORE_SIGNS)
