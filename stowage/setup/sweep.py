"""`stowage sweep`: objects of unknown Workloads on a member, and the leave to remove them.

The propagator lists such Workloads in MemberCluster.status.sweepHeld and waits. A person confirms
the UIDs of the listed ones, in an annotation that the propagator reads, and takes off when nothing
of them is left. A Workload that comes to the list later is not covered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from crds.membercluster import MemberClusterCondition
from crds.names import ANNOTATION_SWEEP
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.errors import ConfigurationError, NotFound
from machinery.types import conditions
from stowage.console import output
from stowage.console.terminal import say

_COLUMNS = ("namespace", "name", "objects", "claims", "uid")


async def show(hub: ApiClient, name: str, form: str) -> None:
    """Print the held Workloads. Raises ConfigurationError for no such cluster, TransportError."""
    held = _held(await _cluster(hub, name))
    output.show(
        {"cluster": name, "digest": digest(held["workloads"]), **held}, form, text=_text(name, held)
    )


async def confirm(hub: ApiClient, name: str, shown: str) -> None:
    """Let the listed Workloads go; `shown` is the digest that the list must have, if not empty.

    Raises ConfigurationError where the list has another digest by now, and TransportError.
    """
    cluster = await _cluster(hub, name)
    held = _held(cluster)
    say(_table(name, held))
    listed = held["workloads"]
    if shown and shown != digest(held["workloads"]):
        raise ConfigurationError(
            f"{name}: this is not what was shown as {shown} any more, nothing is let go: look, and "
            "confirm again"
        )
    if not listed:
        return
    meta = cluster["metadata"]
    before = meta.get("annotations", {}).get(ANNOTATION_SWEEP, "")
    uids = sorted({*filter(None, before.split(",")), *(each["uid"] for each in listed)})
    # the UID makes the patch fail on another cluster of that name
    metadata = {"uid": meta["uid"], "annotations": {ANNOTATION_SWEEP: ",".join(uids)}}
    await hub.merge_patch(MEMBER_CLUSTERS, name, {"metadata": metadata})
    say(f"{name}: confirmed, the propagator removes what these left")
    if held["count"] > len(listed):
        more = held["count"] - len(listed)
        say(f"{name}: {more} more stay held: run it again when these are gone")


async def _cluster(hub: ApiClient, name: str) -> dict[str, Any]:
    try:
        return await hub.get(MEMBER_CLUSTERS, name)
    except NotFound as e:
        raise ConfigurationError(f"the hub knows no cluster {name}: see `kubectl get mc`") from e


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


def _text(name: str, held: dict[str, Any]) -> str:
    told = _table(name, held)
    if not held["workloads"]:
        return told
    which = digest(held["workloads"])
    return f"{told}\n\nto let exactly these go: stowage sweep {name} --confirm {which}"
