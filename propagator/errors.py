"""What cannot be written, and why: one exception for all, and which faults of a member it covers.

A refusal is about an object: asking again at once would bring the same answer, so the others go
on and it is tried again later. Every other fault is about the request or the member, passes through
as it is, and has its Workload retried.
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
"""What etcd, its client, or a server that lost it, says in an answer of 500."""


class Refused(Exception):
    """The object could not be written: a reason of Propagated=False, and the sentence."""

    def __init__(self, reason: PropagatedReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, refusals: Sequence[Refused]) -> Refused:
        """Several in one: the worst reason, and every sentence about it."""
        worst = min((r.reason for r in refusals), key=list(PropagatedReason).index)
        return cls(worst, "; ".join(sorted({str(r) for r in refusals if r.reason is worst})))


class HubFault(StowageError):
    """The hub did not do what was asked before a write to a member; the member is not to blame."""

    reason = PropagatedReason.HUB_UNAVAILABLE

    def __init__(self, what: str, fault: TransportError) -> None:
        super().__init__(f"the hub: {what}: {fault}")


def says_no(fault: ApiError) -> bool:
    """Whether the member's API refused the object, and not merely this request.

    A server answers 500 to a field that its schema does not have and where a webhook cannot be
    called, and to failures of its own store: only these last ones are about no object.
    """
    if isinstance(fault, ServerError):
        return fault.code == HTTPStatus.INTERNAL_SERVER_ERROR and not _of_the_store(fault.message)
    return not isinstance(fault, Unauthorized | TooManyRequests | Conflict | Gone)


def _of_the_store(message: str) -> bool:
    """A webhook that does not answer is told in the same words, and concerns the object."""
    return "webhook" not in message and any(sign in message for sign in _STORE_SIGNS)
