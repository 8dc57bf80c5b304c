"""What cannot be written, and why: one exception for all, and which faults of a member it covers.

A refusal is about an object: asking again at once would bring the same answer, so the others go
on and it is tried again later. Every other fault is about the request or the member, passes through
as it is, and has its Workload retried.
"""

from __future__ import annotations

from collections.abc import Sequence

from crds.workload import PropagatedReason
from machinery.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from propagator.observe import verdict_of
from propagator.render import Piece
from propagator.report import Outcome


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


def says_no(fault: ApiError) -> bool:
    """Whether the member's API refused the object, and not merely this request.

    An internal error does: a webhook that cannot be called comes as one.
    """
    if isinstance(fault, ServerError):
        return fault.reason == "InternalError"
    return not isinstance(fault, Unauthorized | TooManyRequests | Conflict | Gone)


def rejected(member: str, piece: Piece, fault: ApiError) -> Refused:
    """The member's API said no to the piece."""
    return Refused(PropagatedReason.REJECTED, f"{member}: {_where(piece)}: {fault}")


def taken(member: str, piece: Piece) -> Refused:
    """Somebody made an object in the piece's place while it was written."""
    return Refused(
        PropagatedReason.ALREADY_EXISTS,
        f"{member}: {_where(piece)} appeared meanwhile and is not ours",
    )


def outcome_of(member: str, fault: TransportError) -> Outcome:
    """What a fault says about a share: an answer of the member that is no, or none at all."""
    match fault:
        case Forbidden():
            return Outcome(PropagatedReason.REJECTED, str(fault))
        case TooManyRequests():
            message = f"{member}: {fault}"
        case _:
            message = verdict_of(fault).told(member)
    return Outcome(PropagatedReason.CLUSTER_UNREACHABLE, message)


def _where(piece: Piece) -> str:
    return f"{piece.kind} {piece.namespace}/{piece.name}"
