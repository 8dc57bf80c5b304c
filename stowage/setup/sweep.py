"""`stowage sweep`: what the propagator does not remove without a person, and the leave to do so.

Of a cluster it is the objects of Workloads that the hub does not know: the propagator lists these
Workloads in MemberCluster.status.sweepHeld, and a person confirms the listed UIDs in an annotation.
Without a cluster it is the deleted Workloads, where many were deleted at once: a person lets them
go, or has what they run left on the members. What is listed or deleted later is not covered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from crds.membercluster import MemberClusterCondition
from crds.names import ANNOTATION_DELETION, ANNOTATION_SWEEP, CONFIRMED
from crds.workload import OnDelete, PropagatedReason, WorkloadCondition
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.errors import ConfigurationError, Conflict, NotFound
from machinery.types import conditions
from stowage.console import output
from stowage.console.terminal import say
from stowage.hub import member_cluster

_COLUMNS = ("namespace", "name", "objects", "claims", "uid")
_DELETED = ("namespace", "name", "clusters", "units", "uid")
_NOTHING = "no deleted Workload waits for a person"


async def show(hub: ApiClient, name: str, form: str) -> None:
    """Print what a cluster holds. Raises ConfigurationError for no such cluster, TransportError."""
    held = _held(await member_cluster(hub, name))
    text = _table(name, held)
    if which := digest(held["workloads"]):
        text += f"\n\nto let exactly these go: stowage sweep {name} --confirm {which}"
    output.show({"cluster": name, "digest": which, **held}, form, text=text)


async def confirm(hub: ApiClient, name: str, shown: str) -> None:
    """Let the listed Workloads go; `shown` is the digest that the list must have, if not empty.

    Raises ConfigurationError where the list has another digest by now, and TransportError.
    """
    found = await member_cluster(hub, name)
    held = _held(found)
    say(_table(name, held))
    listed = held["workloads"]
    if shown and shown != digest(listed):
        raise ConfigurationError(
            f"{name}: this is not what was shown as {shown} any more, nothing is let go: look, and "
            "confirm again"
        )
    if not listed:
        return
    meta = found["metadata"]
    before = meta.get("annotations", {}).get(ANNOTATION_SWEEP, "")
    uids = sorted({*filter(None, before.split(",")), *(each["uid"] for each in listed)})
    # the UID makes the patch fail on another cluster of that name
    metadata = {"uid": meta["uid"], "annotations": {ANNOTATION_SWEEP: ",".join(uids)}}
    await hub.merge_patch(MEMBER_CLUSTERS, name, {"metadata": metadata})
    say(f"{name}: confirmed, the propagator removes what these left")
    if held["count"] > len(listed):
        more = held["count"] - len(listed)
        say(f"{name}: {more} more stay held: run it again when these are gone")


def _held(cluster: dict[str, Any]) -> dict[str, Any]:
    status = cluster.get("status") or {}
    told = status.get("sweepHeld") or {}
    said = conditions.find(status, MemberClusterCondition.SWEEP_HELD)
    return {
        "reason": said.get("reason", ""),
        "message": said.get("message", ""),
        "count": told.get("count", 0),
        "workloads": told.get("workloads") or [],
    }


def digest(workloads: Sequence[Mapping[str, Any]]) -> str:
    """Return a digest of the listed Workloads; empty for none."""
    uids = ",".join(sorted(each["uid"] for each in workloads))
    return hashlib.sha256(uids.encode()).hexdigest()[:12] if uids else ""


def _table(name: str, held: dict[str, Any]) -> str:
    if not held["workloads"]:
        return f"{name}: nothing is held"
    rows = [{**dict.fromkeys(_COLUMNS, 0), **each} for each in held["workloads"]]
    left = held["count"] - len(rows)
    more = f"\n… {left} more" if left > 0 else ""
    return f"{name}: {held['message']}\n\n{output.table(rows, _COLUMNS)}{more}"


async def show_deleted(hub: ApiClient, form: str) -> None:
    """Print the deleted Workloads that wait. Raises TransportError."""
    held = await _deleted(hub)
    text = _deleted_table(held)
    if which := digest(held):
        text += f"\n\nto let exactly these go: stowage sweep --confirm {which}"
        text += f"\nto leave what they run on the members: stowage sweep --orphan {which}"
    output.show({"digest": which, "workloads": held}, form, text=text)


async def decide_deleted(hub: ApiClient, shown: str, *, orphan: bool) -> None:
    """Let the deleted Workloads go, or with `orphan` leave what they run on the members.

    `shown` is the digest that the list must have, if not empty. Raises ConfigurationError where it
    has another one by now, and TransportError.
    """
    held = await _deleted(hub)
    say(_deleted_table(held))
    if shown and shown != digest(held):
        raise ConfigurationError(
            f"this is not what was shown as {shown} any more, nothing is changed: look, and decide "
            "again"
        )
    for each in held:
        # The UID makes the patch fail on another Workload of that name.
        metadata = {"uid": each["uid"], "annotations": {ANNOTATION_DELETION: CONFIRMED}}
        patch: dict[str, Any] = {"metadata": metadata}
        if orphan:
            patch["spec"] = {"onDelete": OnDelete.ORPHAN.value}
        try:
            await hub.merge_patch(WORKLOADS, each["name"], patch, namespace=each["namespace"])
        except (NotFound, Conflict):
            say(f"{each['namespace']}/{each['name']}: gone already")
    if held:
        what = "removes what they run, and leaves what onDelete: Orphan says"
        what = "leaves what they run on the members" if orphan else what
        say(f"the propagator {what}")


async def _deleted(hub: ApiClient) -> list[dict[str, Any]]:
    found = []
    for each in (await hub.list(WORKLOADS))["items"]:
        meta, status = each["metadata"], each.get("status") or {}
        said = conditions.find(status, WorkloadCondition.PROPAGATED)
        confirmed = (meta.get("annotations") or {}).get(ANNOTATION_DELETION) == CONFIRMED
        if said.get("reason") != PropagatedReason.DELETION_HELD or confirmed:
            continue
        placements = status.get("placements") or []
        found.append(
            {
                "namespace": meta["namespace"],
                "name": meta["name"],
                "clusters": len(placements),
                "units": sum(share["replicas"] for share in placements),
                "uid": meta["uid"],
            }
        )
    return sorted(found, key=lambda each: (each["namespace"], each["name"]))


def _deleted_table(held: list[dict[str, Any]]) -> str:
    return output.table(held, _DELETED) if held else _NOTHING
