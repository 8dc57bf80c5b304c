"""What cannot be written, and why: one exception for all, and which faults of a member it covers.

A refusal is about an object: asking again at once would bring the same answer, so the others go
on and it is tried again later. Every other fault is about the request or the member, passes through
as it is, and has its Workload retried.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from crds.workload import PropagatedReason
from machinery.api.resources import Resource
from machinery.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    ServerError,
    StowageError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from propagator.execution.apply_records import Place
from propagator.execution.render import ForeignClass, PatchMisfit, Piece
from propagator.members.health import verdict_of
from propagator.status.outcome import Outcome, Wish

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


def rejected(member: str, piece: Piece, fault: ApiError) -> Refused:
    """The member's API said no to the piece."""
    return Refused(PropagatedReason.REJECTED, f"{member}: {_where(piece)}: {fault}")


def misfit(member: str, subset: str, fault: PatchMisfit) -> Refused:
    """The patch of a share does not go with the template: nothing of it is written there."""
    if isinstance(fault, ForeignClass):
        return Refused(PropagatedReason.INVALID_WORKLOAD, f"{member}: nothing is changed: {fault}")
    return Refused(
        PropagatedReason.REJECTED,
        f"{member}: the patch of subset {subset} does not fit, nothing is changed there: {fault}: "
        "correct the patch in the WorkloadSpread",
    )


def unreadable(fault: str) -> Refused:
    """Nobody knows which patch a share is to have."""
    return Refused(
        PropagatedReason.REJECTED, f"{fault}: whoever places the Workload has to correct it"
    )


def undeletable(member: str, place: Place, fault: ApiError) -> Refused:
    """The member's API did not let the object go."""
    return Refused(PropagatedReason.REJECTED, f"{member}: {place} cannot be removed: {fault}")


def unlisted(member: str, resource: Resource, fault: TransportError) -> Refused:
    """The member does not let us see what there is of a kind."""
    group = f".{resource.group}" if resource.group else ""
    return Refused(
        PropagatedReason.REJECTED,
        f"{member}: whether everything of it is gone is not known, as {resource.plural}{group} "
        f"cannot be listed there: grant list and watch on them ({fault})",
    )


def twice(piece: Piece, first: Piece) -> Refused:
    """The Workload wants two different things of one object."""
    versions = " and ".join(sorted({first.api_version, piece.api_version}))
    return Refused(
        PropagatedReason.REJECTED,
        f"{_where(piece)} ({versions}) is asked for twice, only the first is written: remove one "
        "from spec.manifests, or give it another name",
    )


def outcome_of(member: str, fault: TransportError, wish: Wish) -> Outcome:
    """What a fault says about a share: an answer of the member that is no, or none at all."""
    match fault:
        case Forbidden():
            return Outcome(wish, PropagatedReason.REJECTED, str(fault))
        case TooManyRequests():
            message = f"{member}: {fault}"
        case ServerError():
            message = f"{member}: its API server fails, it is asked again: {fault}"
        case _:
            message = verdict_of(fault).told(member)
    return Outcome(wish, PropagatedReason.CLUSTER_UNREACHABLE, message)


def _where(piece: Piece) -> str:
    where = f"{piece.kind} {piece.namespace}/{piece.name}"
    return f"{where}, with the patch of subset {piece.subset}" if piece.subset else where
