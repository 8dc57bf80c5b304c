"""What a session may take away from its member: the one rule that every removal goes through. Pure.

Taken away is what was written through this session's MemberCluster, into this very cluster, and is
not kept. What was written through a MemberCluster that is gone was left by a registration of before
and is taken up by this one; what carries no mark was written by a release that had none, and counts
as ours. Whether the Workload wants it gone is its worker's to know (`execution.reconciler`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from crds.fields.labels import KEEPS
from crds.names import ANNOTATION_KEEP
from propagator.members.objects import ManagedObject, Mark, mark_of

NEVER, MOVE, ALWAYS = KEEPS
HOLDING_DATA = frozenset({"PersistentVolumeClaim"})
"""Kinds that are kept on a move unless their annotation says otherwise."""


class Removal(Enum):
    """What becomes of an object that its Workload does not want on a member."""

    DELETE = "delete"
    LET_GO = "let go"
    """It stays, and is nobody's any more: our marks are taken off."""
    STAY = "stay"
    """It stays the Workload's, which finds it again when it comes back, and takes it along."""


def removal_of(
    found: ManagedObject, *, mark: Mark, ended: bool, registered: Callable[[str], bool]
) -> Removal:
    """What a session with that mark does to an object.

    `ended`: the Workload is gone, or about to go, and wants nothing anywhere. `registered` tells
    whether the hub has a MemberCluster of a UID.
    """
    keep = keep_of(found)
    if keep == ALWAYS or not _ours(found, mark, registered):
        return Removal.LET_GO if ended else Removal.STAY
    return Removal.STAY if keep == MOVE and not ended else Removal.DELETE


def keep_of(found: ManagedObject) -> str:
    """When the object stays though it is not wanted: one of KEEPS."""
    said = found.metadata.annotations.get(ANNOTATION_KEEP, "")
    if said in KEEPS:
        return said
    return MOVE if found.kind in HOLDING_DATA else NEVER


def taken_up(found: ManagedObject, mark: Mark) -> bool:
    """Whether it was written through another registration than the session's."""
    return mark_of(found).registration not in ("", mark.registration)


def _ours(found: ManagedObject, mark: Mark, registered: Callable[[str], bool]) -> bool:
    theirs = mark_of(found)
    if not mark.registration:
        return False  # its MemberCluster has not been taken in yet
    if theirs.cluster and mark.cluster and theirs.cluster != mark.cluster:
        return False
    return not taken_up(found, mark) or not registered(theirs.registration)
