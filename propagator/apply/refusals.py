"""The reasons and messages of objects that cannot be written to a member."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crds.workload import PropagatedReason
from machinery.api.resources import Resource
from machinery.errors import ApiError, Forbidden, Invalid, TooLarge, TransportError
from machinery.overrides.override import OverrideMisfit, UnreadableOverrides
from propagator.apply.apply_records import ObjectPlace
from propagator.apply.render import ForeignClass, PatchMisfit, Piece
from propagator.drift.fields import Difference, in_words
from propagator.errors import Refused
from propagator.types.workload import Workload

_ENDING = "NamespaceTerminating"
"""The cause in a 403 of a namespace that is being deleted (Kubernetes 1.36.3)."""
_FIXED_SIGNS = ("field is immutable", "may not change once set")
"""The server's messages for immutable ConfigMaps and Secrets, types of Secrets, and addresses of
Services.
"""


_LACKING = re.compile(
    r'cannot \w+ resource "(?P<resource>[a-z0-9.-]+)" in API group "(?P<group>[a-z0-9.-]*)"'
)
"""The words of RBAC's refusal (Kubernetes 1.36.3); they only choose what is advised."""


class Unchangeable(Refused):
    """A copy of a hub's object that must be deleted and created to change."""

    def __init__(self, member: str, piece: Piece) -> None:
        message = f"{member}: {_where(piece)} cannot be changed: it is removed, and made again"
        super().__init__(PropagatedReason.PROPAGATING, message)
        self.id = piece.id


def rejected(member: str, piece: Piece, fault: ApiError) -> Refused:
    if (
        piece.shared
        and isinstance(fault, Invalid)
        and any(s in fault.message for s in _FIXED_SIGNS)
    ):
        return Unchangeable(member, piece)
    if _ends(fault):
        text = f"{member}: {_where(piece)}: namespace {piece.namespace} is being deleted there"
        return Refused(PropagatedReason.PROPAGATING, f"{text}: it is made when that is gone")
    reason = (
        PropagatedReason.TOO_LARGE if isinstance(fault, TooLarge) else PropagatedReason.REJECTED
    )
    return Refused(reason, f"{member}: {_where(piece)}: {fault}{_remedy(member, fault)}")


def unmade(member: str, namespace: str, fault: ApiError) -> Refused:
    return Refused(
        PropagatedReason.REJECTED,
        f"{member}: namespace {namespace} is missing there, and cannot be made: {fault}",
    )


def unowned(member: str, piece: Piece) -> Refused:
    """The object that has its place is not ours to remove."""
    return Refused(
        PropagatedReason.ALREADY_EXISTS,
        f"{member}: {_where(piece)} exists, is not ours, and cannot be changed: remove it",
    )


def _remedy(member: str, fault: ApiError) -> str:
    """Return the command that gives a right that RBAC lacks there; empty for another refusal."""
    lacking = _LACKING.search(fault.message) if isinstance(fault, Forbidden) else None
    if lacking is None:
        return ""
    kind = "/".join(filter(None, (lacking["group"], lacking["resource"])))
    join = f"stowage join {member} --member-kubeconfig FILE --allow {kind}"
    return f": `{join}` gives the right"


def _ends(fault: ApiError) -> bool:
    causes = fault.details.get("causes")
    listed = causes if isinstance(causes, list) else []
    return any(isinstance(each, dict) and each.get("reason") == _ENDING for each in listed)


def differs(piece: Piece, found: Sequence[Difference]) -> Refused:
    said = in_words(found, secret=(piece.api_version, piece.kind) == ("v1", "Secret"))
    return Refused(PropagatedReason.ALREADY_EXISTS, f"{_where(piece)} exists and differs in {said}")


def younger(member: str, workload: Workload, piece: Piece, found: Sequence[Difference]) -> Refused:
    said = in_words(found, secret=(piece.api_version, piece.kind) == ("v1", "Secret"))
    namespace, name = workload.metadata.key
    accept = f"stowage restore --accept wl/{name} -n {namespace}"
    return Refused(
        PropagatedReason.HUB_RESTORED,
        f"{member}: {_where(piece)} was written after the backup that the hub was restored from, "
        f"and stays as it is: {said}; an edit of the Workload writes it, or `{accept}`",
    )


def misfit(member: str, subset: str, fault: PatchMisfit) -> Refused:
    if isinstance(fault, ForeignClass):
        return Refused(PropagatedReason.INVALID_WORKLOAD, f"{member}: nothing is changed: {fault}")
    return Refused(
        PropagatedReason.REJECTED,
        f"{member}: the patch of subset {subset} does not fit, nothing is changed there: {fault}: "
        "correct the patch in the WorkloadSpread",
    )


def invalid_override(member: str, fault: OverrideMisfit | UnreadableOverrides) -> Refused:
    """The share keeps its old overrides."""
    if isinstance(fault, UnreadableOverrides):
        return Refused(PropagatedReason.INVALID_OVERRIDE, f"{member}: nothing is changed: {fault}")
    return Refused(
        PropagatedReason.INVALID_OVERRIDE, f"override {fault.override}, cluster {member}: {fault}"
    )


def unreadable(fault: str) -> Refused:
    """No patch of a share is known then."""
    return Refused(
        PropagatedReason.REJECTED, f"{fault}: whoever places the Workload has to correct it"
    )


def undeletable(member: str, place: ObjectPlace, fault: ApiError) -> Refused:
    text = f"{member}: {place} cannot be removed: {fault}{_remedy(member, fault)}"
    return Refused(PropagatedReason.REJECTED, text)


def unlisted(member: str, resource: Resource, fault: TransportError) -> Refused:
    group = f".{resource.group}" if resource.group else ""
    return Refused(
        PropagatedReason.REJECTED,
        f"{member}: whether everything of it is gone is not known, as {resource.plural}{group} "
        f"cannot be listed there: grant list and watch on them ({fault})",
    )


def twice(piece: Piece, first: Piece) -> Refused:
    versions = " and ".join(sorted({first.api_version, piece.api_version}))
    return Refused(
        PropagatedReason.REJECTED,
        f"{_where(piece)} ({versions}) is asked for twice, only the first is written: remove one "
        "from spec.manifests, or give it another name",
    )


def _where(piece: Piece) -> str:
    where = f"{piece.kind} {piece.namespace}/{piece.name}"
    return f"{where}, with the patch of subset {piece.subset}" if piece.subset else where
