"""Whose an object on a member is: whether we may write it, and how a write keeps all owners.

Every object of ours says whose it is by annotations, one for each owning Workload. One without any
is somebody else's, and is left as it is unless the Workload asks for adoption; one of another
Workload is shared only where the piece allows that. Pure: from objects as they were seen to a
refusal, or to the bodies of writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds.names import FIELD_MANAGER, LABEL_MANAGED, OWNER_PREFIX
from crds.workload import Adoption, PropagatedReason
from machinery.objects import Key
from machinery.resources import Resource
from propagator.managed import ManagedObject, owners
from propagator.model import Workload
from propagator.refusals import Refused
from propagator.render import Piece


def other_owners(found: ManagedObject, uid: str) -> dict[str, Key]:
    """The Workloads beside the one of that UID that own the object, by their UIDs."""
    return {each: key for each, key in owners(found.metadata).items() if each != uid}


def claim(workload: Workload, piece: Piece, live: ManagedObject | None) -> dict[str, str]:
    """The annotations of the other owners, where the piece may be written. Raises Refused."""
    if live is None:
        return {}
    where = f"{piece.kind} {live.metadata.namespace}/{piece.name}"
    if not owners(live.metadata):
        _adopt(workload, live, where)
    others = other_owners(live, workload.uid)
    strangers = [
        f"{'/'.join(key)} (uid {uid})" if key == workload.metadata.key else "/".join(key)
        for uid, key in others.items()
        if not piece.shared or key[0] != workload.metadata.namespace
    ]
    if strangers:
        belongs = f"{where} belongs to Workload {', '.join(sorted(strangers))}"
        raise Refused(PropagatedReason.ALREADY_EXISTS, belongs)
    return {OWNER_PREFIX + uid: "/".join(key) for uid, key in others.items()}


def _adopt(workload: Workload, live: ManagedObject, where: str) -> None:
    """An object of nobody that we know: raises Refused unless it may be taken over."""
    owned_already = any(ref.controller for ref in live.metadata.owner_references)
    if workload.spec.adoption != Adoption.IF_UNOWNED or owned_already:
        raise Refused(
            PropagatedReason.ALREADY_EXISTS,
            f"{where} exists and is not ours: remove it, or set spec.adoption to IfUnowned",
        )


def also_managed(answer: Mapping[str, Any]) -> bool:
    """Whether somebody else has written the object too. One that we made has no other writer yet.

    What admission changed on its way counts as ours.
    """
    entries = answer["metadata"].get("managedFields") or ()
    ours = (FIELD_MANAGER, "Apply")
    return any((entry.get("manager"), entry.get("operation")) != ours for entry in entries)


def owned_by_all(
    piece: Piece, others: Mapping[str, str], resource: Resource, live: ManagedObject | None
) -> Mapping[str, Any]:
    """The body with the annotations of all owners: what an apply leaves out, it takes away.

    The UID keeps it from an object that somebody has put in the place of the one that was seen.
    """
    meta = piece.body["metadata"]
    whole = {**meta, "annotations": {**meta["annotations"], **others}}
    if live is not None:
        whole["uid"] = live.metadata.uid
    if not resource.namespaced:
        whole.pop("namespace", None)
    return {**piece.body, "metadata": whole}


def owned_by_none(piece: Piece, resource: Resource) -> Mapping[str, Any]:
    """The body that takes back everything which an apply of the piece has added."""
    meta = {"name": piece.name, "namespace": piece.namespace}
    if not resource.namespaced:
        del meta["namespace"]
    return {"apiVersion": piece.api_version, "kind": piece.kind, "metadata": meta}


def parting(uid: str, *, last: bool) -> Mapping[str, Any]:
    """The patch by which a Workload lets go of an object; the last owner takes our label along."""
    metadata: dict[str, Any] = {"annotations": {OWNER_PREFIX + uid: None}}
    if last:
        metadata["labels"] = {LABEL_MANAGED: None}
    return {"metadata": metadata}
