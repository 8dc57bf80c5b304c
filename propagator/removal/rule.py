"""The one rule of what a session may remove from its member; every removal goes through it.

Pure.

An object is removed if it was written through this session's MemberCluster, into this very cluster,
for no younger decision than the one that asks for its removal, and is not kept. What an ended
Workload leaves behind on request loses our marks instead.

`remover` alone sends removals; it needs a Grant, and only `granted` makes one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from crds.fields.labels import KEEPS
from crds.names import ANNOTATION_KEEP
from machinery.kinds.templates import run_of
from propagator.members.objects import (
    ManagedObject,
    Mark,
    hub_version_of,
    mark_of,
    orphan_marks,
    owners,
)
from propagator.types.workload import WorkTold

NOTHING_TO_TELL = WorkTold()
NEVER, MOVE, ALWAYS = KEEPS
HOLDING_DATA = frozenset({"PersistentVolumeClaim"})
"""Kinds that are kept on a move unless their annotation says otherwise."""


class Stays(Enum):
    KEPT = "kept"
    """The Workload keeps it, and finds it again when it comes back."""
    ANOTHERS = "another's"
    """Written through another registration, or into another cluster."""
    YOUNGER = "younger"
    """Written for a younger decision than the hub has: the hub was set back, or restored."""
    UNTOLD = "untold"
    """Ended, or done more than the hub knows: others would do that again."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The permission to remove one object for one of its owners. Made by `granted` alone."""

    object_uid: str
    owner: str
    """The UID of the Workload."""
    let_go: bool
    """The object stays without an owner: our marks are removed."""
    orphan: bool = False
    """What the Workload leaves behind needs the object, whoever owns it as well."""
    version: str = ""
    """The only version that may go, if the object may do more of its work; empty for any."""


def granted(
    found: ManagedObject,
    owner: str,
    *,
    mark: Mark,
    ended: bool,
    decided: float,
    registered: Callable[[str], bool],
    orphan: bool | None = None,
    left: bool = False,
    told: WorkTold = NOTHING_TO_TELL,
    younger: Callable[[ManagedObject], bool] = lambda _: False,
    former: Callable[[ManagedObject], bool] = lambda _: False,
) -> Grant | Stays:
    """Return what a session with that mark may do to an object of the Workload `owner`, a UID.

    `ended`: the Workload is gone, or about to go, and wants nothing anywhere. `decided` is a
    resourceVersion of the hub that is no younger than the decision. `registered` says whether the
    hub has a MemberCluster of a UID. `orphan`: whether an ended Workload leaves its objects on the
    members; None: the hub does not know it any more, and the object tells. `left`: its share has
    left this member for others, so what is here would run twice. `told` is what the hub knows of
    its work. `younger` says whether the hub was restored from a backup that is older, and `former`
    whether the Workload was edited since such a restore.
    """
    if not mark.registration:
        return Stays.ANOTHERS  # the session does not know its MemberCluster's UID yet
    keep = keep_of(found)
    ours = _ours(found, mark, registered)
    marks = orphan_marks(found.metadata)
    needed = not marks <= owners(found.metadata).keys()  # by what a former owner left behind
    if ended:
        orphan = owner in marks if orphan is None else orphan
        stays = orphan and (keep != NEVER or not left)
        let_go = stays or needed or keep == ALWAYS or not ours
        return Grant(found.metadata.uid, owner, let_go=let_go, orphan=stays)
    if not ours:
        return Stays.ANOTHERS
    if keep != NEVER:
        return Stays.KEPT
    if younger(found) or (hub_version_of(found) > decided and not former(found)):
        return Stays.YOUNGER
    if told.run not in ("", run_of(found.kind, *found.metadata.key)):
        told = NOTHING_TO_TELL
    if not told.covers(found.judged):
        return Stays.UNTOLD
    # Only what was looked at goes: it may do more, or end, until the removal arrives.
    version = found.metadata.resource_version if told.matters(found.judged) else ""
    return Grant(found.metadata.uid, owner, let_go=needed, version=version)


def keep_of(found: ManagedObject) -> str:
    """Return when the object stays though it is not wanted: one of KEEPS."""
    said = found.metadata.annotations.get(ANNOTATION_KEEP, "")
    if said in KEEPS:
        return said
    return MOVE if found.kind in HOLDING_DATA else NEVER


def taken_up(found: ManagedObject, mark: Mark) -> bool:
    """Whether the object was written through another registration than the session's."""
    return mark_of(found).registration not in ("", mark.registration)


def _ours(found: ManagedObject, mark: Mark, registered: Callable[[str], bool]) -> bool:
    theirs = mark_of(found)
    if theirs.cluster and mark.cluster and theirs.cluster != mark.cluster:
        return False
    return not taken_up(found, mark) or not registered(theirs.registration)
