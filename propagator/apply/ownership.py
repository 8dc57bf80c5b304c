"""The owners of an object on a member: whether a Workload may write it, and how a write keeps all.

Every object of ours names its owning Workloads by annotations, one for each. An object without any
belongs to another manager, and is left as it is unless the Workload asks for adoption; an object of
another Workload is shared only where the piece allows that. Pure: from objects as they were seen to
a refusal, or to the bodies of writes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from crds.names import (
    ANNOTATION_DRIFT,
    ANNOTATION_HUB,
    ANNOTATION_HUB_VERSION,
    ANNOTATION_MEMBER,
    LABEL_MANAGED,
    LABEL_TENANT,
    ORPHAN_PREFIX,
    OWNER_PREFIX,
)
from crds.workload import Adoption, PropagatedReason
from machinery.api.resources import Resource
from machinery.api.verbs import OF_NO_OBJECT
from machinery.types.metadata import Key
from propagator.apply.render import ANNOTATION_HASH, ANNOTATION_TEMPLATE_HASH, Piece
from propagator.errors import Refused
from propagator.members.objects import (
    ManagedObject,
    hub_of,
    hub_version_of,
    orphan_marks,
    owners,
    version_number,
)
from propagator.types.workload import Workload


def other_owners(found: ManagedObject, uid: str) -> dict[str, Key]:
    """Return the Workloads that own the object beside the one of that UID, by their UIDs."""
    return {each: key for each, key in owners(found.metadata).items() if each != uid}


def claim(
    workload: Workload,
    piece: Piece,
    live: ManagedObject,
    *,
    hub: str,
    gone: Collection[str] = (),
) -> dict[str, str]:
    """Return the annotations of the other owners, where the piece may be written. Raises Refused.

    `hub` is the mark of this hub. Owners that are `gone` (their UIDs) own nothing any more: what
    they left is taken over. With `Adoption.IF_NO_DIFF` the caller compares an object without an
    owner before it writes it.
    """
    where = f"{piece.kind} {live.metadata.namespace}/{piece.name}"
    if LABEL_TENANT in live.metadata.labels:
        message = f"{where} is what Stowage itself needs there: choose another name"
        raise Refused(PropagatedReason.ALREADY_EXISTS, message)
    held = owners(live.metadata)
    if workload.uid not in held:
        _of_this_hub(live, where, hub)
    if not held:
        _adopt(workload, live, where)
    others = {u: key for u, key in other_owners(live, workload.uid).items() if u not in gone}
    strangers = [
        f"{'/'.join(key)} (uid {uid})" if key == workload.metadata.key else "/".join(key)
        for uid, key in others.items()
        if not piece.shared or key[0] != workload.metadata.namespace
    ]
    if strangers:
        belongs = f"{where} belongs to Workload {', '.join(sorted(strangers))}"
        if not hub_of(live):
            belongs += f"; {_UNMARKED}"
        raise Refused(PropagatedReason.ALREADY_EXISTS, belongs)
    if not piece.shared:
        return {}
    # Those of owners that stay, and of former ones whose pods may still need the object.
    marks = orphan_marks(live.metadata) - {workload.uid, *gone}
    orphans = {ORPHAN_PREFIX + uid: "true" for uid in marks}
    return {OWNER_PREFIX + uid: "/".join(key) for uid, key in others.items()} | orphans


_UNMARKED = (
    f"it was written before objects carried the annotation {ANNOTATION_HUB}: if that Workload is "
    "gone for good, remove the object"
)


def _of_this_hub(live: ManagedObject, where: str, hub: str) -> None:
    """Raise Refused for an object that another hub has marked as its own."""
    if hub_of(live) not in ("", hub):
        raise Refused(
            PropagatedReason.ALREADY_EXISTS,
            f"{where} belongs to a Workload of another hub (its kube-system has the uid "
            f"{hub_of(live)})",
        )


def _adopt(workload: Workload, live: ManagedObject, where: str) -> None:
    """Raise Refused unless an object without an owner of ours may be taken over.

    An adopted object is the Workload's own from then on: it moves and goes with the Workload.
    """
    if not live.metadata.namespace:  # a whole cluster may stand on it
        raise Refused(
            PropagatedReason.ALREADY_EXISTS,
            f"{where} exists and is not ours: a cluster-scoped object is never taken over",
        )
    owned_already = any(ref.controller for ref in live.metadata.owner_references)
    asked = workload.spec.adoption in (Adoption.IF_UNOWNED, Adoption.IF_NO_DIFF)
    if not asked or owned_already:
        raise Refused(
            PropagatedReason.ALREADY_EXISTS,
            f"{where} exists and is not ours: remove it, or set spec.adoption to IfUnowned "
            "or IfNoDiff",
        )


def new(piece: Piece, resource: Resource, *, version: str) -> Mapping[str, Any]:
    """Return the body of an apply that creates the object, and fails where one exists already.

    `version` is the Workload's resourceVersion; no check whether an object stands compares it.
    """
    annotations = {**piece.body["metadata"]["annotations"], ANNOTATION_HUB_VERSION: version}
    return _body(piece, resource, annotations=annotations, resourceVersion=OF_NO_OBJECT)


def owned_by_all(
    piece: Piece,
    others: Mapping[str, str],
    resource: Resource,
    live: ManagedObject,
    *,
    version: str,
    unchanged: bool = False,
) -> Mapping[str, Any]:
    """Return the body of an apply with the annotations of all owners.

    Where several owners had the object written, the newest of their versions stays. `unchanged`:
    the apply fails where the object is not as `live` any more.
    """
    if others and hub_version_of(live) > (version_number(version) or 0):
        version = live.metadata.annotations[ANNOTATION_HUB_VERSION]
    annotations = {
        **piece.body["metadata"]["annotations"],
        **others,  # an apply removes what it leaves out
        ANNOTATION_HUB_VERSION: version,
    }
    # The UID keeps the apply off an object that replaced the one that was seen.
    only = {"uid": live.metadata.uid}
    if unchanged:
        only["resourceVersion"] = live.metadata.resource_version
    return _body(piece, resource, annotations=annotations, **only)


def _body(piece: Piece, resource: Resource, **metadata: Any) -> Mapping[str, Any]:
    whole = {**piece.body["metadata"], **metadata}
    if not resource.namespaced:
        whole.pop("namespace", None)
    return {**piece.body, "metadata": whole}


_MARKS = (
    ANNOTATION_HUB,
    ANNOTATION_HUB_VERSION,
    ANNOTATION_MEMBER,
    ANNOTATION_HASH,
    ANNOTATION_TEMPLATE_HASH,
    ANNOTATION_DRIFT,
)


def parting(found: ManagedObject, uid: str, *, last: bool, orphan: bool) -> Mapping[str, Any]:
    """Return the patch by which a Workload lets go of the object `found`.

    The last owner takes all marks of ours off; the label on its pods stays, as they would restart.
    `orphan`: what the Workload leaves behind needs the object, which the other owners have to know.
    """
    marked = "true" if orphan else None
    metadata: dict[str, Any] = {
        "annotations": {OWNER_PREFIX + uid: None, ORPHAN_PREFIX + uid: marked}
    }
    if last or orphan:
        # A request that arrives late must not change the marks of a next owner.
        metadata["uid"] = found.metadata.uid
        metadata["resourceVersion"] = found.metadata.resource_version
    if last:
        metadata["labels"] = {LABEL_MANAGED: None}
        orphans = (ORPHAN_PREFIX + each for each in orphan_marks(found.metadata) | {uid})
        metadata["annotations"] |= dict.fromkeys((*_MARKS, *orphans))
    return {"metadata": metadata}
