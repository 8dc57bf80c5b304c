"""The owners of an object on a member: whether a Workload may write it, and how writes keep them.

Pure.

Each owning Workload has an annotation. An object without any is adopted only if the Workload asks
for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from crds.names import (
    ANNOTATION_DRIFT,
    ANNOTATION_HUB,
    ANNOTATION_HUB_VERSION,
    ANNOTATION_MEMBER,
    ANNOTATION_SINCE,
    LABEL_MANAGED,
    LABEL_TENANT,
    ORPHAN_PREFIX,
    OWNER_PREFIX,
)
from crds.workload import Adoption, PropagatedReason
from machinery.api.resources import Resource
from machinery.api.verbs import OF_NO_OBJECT
from machinery.types.bounds import clean
from machinery.types.metadata import Key
from propagator.apply.render import (
    ANNOTATION_CARRIED,
    ANNOTATION_HASH,
    ANNOTATION_IGNORED,
    ANNOTATION_LISTED,
    ANNOTATION_MADE,
    ANNOTATION_SUSPEND,
    ANNOTATION_TEMPLATE_HASH,
    Piece,
)
from propagator.errors import Refused
from propagator.members.objects import (
    ANNOTATION_TOLD,
    ManagedObject,
    hub_of,
    hub_version_of,
    orphan_marks,
    owners,
    version_number,
)
from propagator.types.workload import Workload

_NAMED = 3
"""The most owner references that a refusal names."""


def other_owners(found: ManagedObject, uid: str) -> dict[str, Key]:
    return {each: key for each, key in owners(found.metadata).items() if each != uid}


def claim(
    workload: Workload,
    piece: Piece,
    live: ManagedObject,
    *,
    hub: str,
    gone: Collection[str] = (),
) -> dict[str, str]:
    """Return the annotations of the other owners. Raises Refused if the piece may not be written.

    `hub` is the mark of this hub; objects of owners in `gone` (UIDs) are taken over.
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
    # Marks of remaining owners, and of former ones whose pods may still need the object.
    marks = orphan_marks(live.metadata) - {workload.uid, *gone}
    orphans = {ORPHAN_PREFIX + uid: "true" for uid in marks}
    return {OWNER_PREFIX + uid: "/".join(key) for uid, key in others.items()} | orphans


_UNMARKED = (
    f"it was written before objects carried the annotation {ANNOTATION_HUB}: if that Workload is "
    "gone for good, remove the object"
)


def _of_this_hub(live: ManagedObject, where: str, hub: str) -> None:
    if hub_of(live) not in ("", hub):
        raise Refused(
            PropagatedReason.ALREADY_EXISTS,
            f"{where} belongs to a Workload of another hub (its kube-system has the uid "
            f"{hub_of(live)})",
        )


def _adopt(workload: Workload, live: ManagedObject, where: str) -> None:
    if not live.metadata.namespace:  # a whole cluster may stand on it
        raise Refused(
            PropagatedReason.ALREADY_EXISTS,
            f"{where} exists and is not ours: a cluster-scoped object is never taken over",
        )
    if by := live.metadata.owner_references[:_NAMED]:
        # The garbage collector removes it with its owner, whether that controls it or not.
        named = clean(" and ".join(f"{each.kind} {each.name}" for each in by))
        raise Refused(
            PropagatedReason.ALREADY_EXISTS,
            f"{where} exists and is not ours: {named} owns it, and it would go with its owner",
        )
    if workload.spec.adoption not in (Adoption.IF_UNOWNED, Adoption.IF_NO_DIFF):
        raise Refused(
            PropagatedReason.ALREADY_EXISTS,
            f"{where} exists and is not ours: remove it, or set spec.adoption to IfUnowned "
            "or IfNoDiff",
        )


def new(piece: Piece, resource: Resource, *, version: str) -> Mapping[str, Any]:
    """Return the body of an apply that fails if the object exists.

    `version` is the Workload's resourceVersion; comparisons of applied objects ignore it.
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
    """Return the body of an apply with all owners and their newest version.

    `unchanged`: the apply fails if `live` is outdated, as that of a shared piece always does.
    """
    if others and hub_version_of(live) > (version_number(version) or 0):
        version = live.metadata.annotations[ANNOTATION_HUB_VERSION]
    annotations = {
        **piece.body["metadata"]["annotations"],
        **others,  # an apply removes what it leaves out
        ANNOTATION_HUB_VERSION: version,
    }
    # The UID prevents an apply to an object that replaced `live`.
    only = {"uid": live.metadata.uid}
    if unchanged or piece.shared:
        only["resourceVersion"] = live.metadata.resource_version
    return _body(piece, resource, annotations=annotations, **only)


def _body(piece: Piece, resource: Resource, **metadata: Any) -> Mapping[str, Any]:
    whole = {**piece.body["metadata"], **metadata}
    if not resource.namespaced:
        whole.pop("namespace", None)
    return {**piece.body, "metadata": whole}


def taking_over(
    found: ManagedObject, workload: Workload, gone: Collection[str]
) -> Mapping[str, Any]:
    """Return the patch that makes an object the Workload's, and changes nothing else of it.

    `gone` are the owners that the hub does not know.
    """
    annotations: dict[str, Any] = {OWNER_PREFIX + uid: None for uid in gone}
    annotations |= {ORPHAN_PREFIX + uid: None for uid in orphan_marks(found.metadata) & {*gone}}
    annotations[OWNER_PREFIX + workload.uid] = workload.owner
    if workload.orphans:
        annotations[ORPHAN_PREFIX + workload.uid] = "true"
    of = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
    return {"metadata": {**of, "annotations": annotations}}


_MARKS = (
    ANNOTATION_HUB,
    ANNOTATION_HUB_VERSION,
    ANNOTATION_MEMBER,
    ANNOTATION_SINCE,
    ANNOTATION_HASH,
    ANNOTATION_TEMPLATE_HASH,
    ANNOTATION_DRIFT,
    ANNOTATION_MADE,
    ANNOTATION_SUSPEND,
    ANNOTATION_LISTED,
    ANNOTATION_IGNORED,
    ANNOTATION_TOLD,
    ANNOTATION_CARRIED,
)


def parting(found: ManagedObject, uid: str, *, last: bool, orphan: bool) -> Mapping[str, Any]:
    """Return the patch that releases the object `found` from a Workload.

    The last owner removes all marks of ours, except the pod label, which would restart the pods.
    `orphan`: what the Workload leaves behind needs the object.
    """
    marked = "true" if orphan else None
    metadata: dict[str, Any] = {
        "annotations": {OWNER_PREFIX + uid: None, ORPHAN_PREFIX + uid: marked}
    }
    if last or orphan:
        # A late request must not change the marks of a later owner.
        metadata["uid"] = found.metadata.uid
        metadata["resourceVersion"] = found.metadata.resource_version
    if last:
        metadata["labels"] = {LABEL_MANAGED: None}
        orphans = (ORPHAN_PREFIX + each for each in orphan_marks(found.metadata) | {uid})
        metadata["annotations"] |= dict.fromkeys((*_MARKS, *orphans))
    return {"metadata": metadata}
