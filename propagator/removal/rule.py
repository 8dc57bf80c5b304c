"""What a session may take away from its member: the one rule that every removal goes through. Pure.

Taken away is what was written through this session's MemberCluster, into this very cluster, for no
younger decision than the one that asks for its removal, and is not kept. What was written through a
MemberCluster that is gone was left by a registration of before and is taken up by this one; what
carries no mark was written by a release that had none, and counts as ours. Whether the Workload
wants it gone is its worker's to know (`execution.reconciler`), and whether much may go at once that
no Workload stands for is `brake`'s.

A removal is sent by `remover` alone, which asks for a Grant, and a Grant is made here alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from crds.fields.labels import KEEPS
from crds.names import ANNOTATION_KEEP
from propagator.members.objects import ManagedObject, Mark, hub_version_of, mark_of

NEVER, MOVE, ALWAYS = KEEPS
HOLDING_DATA = frozenset({"PersistentVolumeClaim"})
"""Kinds that are kept on a move unless their annotation says otherwise."""


class Stays(Enum):
    """Why an object that its Workload does not want on a member is not taken away."""

    KEPT = "kept"
    """It stays the Workload's, which finds it again when it comes back, and takes it along."""
    ANOTHERS = "another's"
    """Another registration, or another cluster, is what it was written through."""
    YOUNGER = "younger"
    """It was written for a younger decision than the hub has: the hub was set back."""


@dataclass(frozen=True, slots=True)
class Grant:
    """That one object may be taken away for one of its owners. Made by `granted` alone."""

    object_uid: str
    owner: str
    """The UID of the Workload."""
    let_go: bool
    """It stays, and is nobody's any more: our marks are taken off."""


def granted(
    found: ManagedObject,
    owner: str,
    *,
    mark: Mark,
    ended: bool,
    decided: float,
    registered: Callable[[str], bool],
) -> Grant | Stays:
    """What a session with that mark may do to an object of the Workload of that UID.

    `ended`: the Workload is gone, or about to go, and wants nothing anywhere. `decided` is the
    version of the hub that the decision is known to be of, or a younger one. `registered` tells
    whether the hub has a MemberCluster of a UID.
    """
    if not mark.registration:
        return Stays.ANOTHERS  # its MemberCluster has not been taken in yet
    keep = keep_of(found)
    ours = _ours(found, mark, registered)
    if ended:
        return Grant(found.metadata.uid, owner, let_go=keep == ALWAYS or not ours)
    if not ours:
        return Stays.ANOTHERS
    if keep != NEVER:
        return Stays.KEPT
    if hub_version_of(found) > decided:
        return Stays.YOUNGER
    return Grant(found.metadata.uid, owner, let_go=False)


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
    if theirs.cluster and mark.cluster and theirs.cluster != mark.cluster:
        return False
    return not taken_up(found, mark) or not registered(theirs.registration)
