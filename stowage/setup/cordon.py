"""`stowage cordon` and `uncordon`: whether new replicas go to a cluster, as kubectl's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crds.names import ANNOTATION_DRAINED, TAINT_DRAIN
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.errors import StowageError
from stowage.console.terminal import say
from stowage.hub import edit, member_cluster


async def cordon(hub: ApiClient, names: Sequence[str], *, wanted: bool) -> None:
    """Cordon these clusters, or with `wanted` False uncordon them.

    A cluster that the hub does not know, or that may not be written, does not keep the others back.
    Raises an ExceptionGroup of what failed.
    """
    faults: list[Exception] = []
    for name in names:
        try:
            say(f"membercluster.{MEMBER_CLUSTERS.group}/{name} {await _one(hub, name, wanted)}")
        except StowageError as e:
            faults.append(e)
    if faults:
        raise ExceptionGroup("some clusters stay as they were", faults)


async def _one(hub: ApiClient, name: str, wanted: bool) -> str:
    """Edit one cluster, and return what became of it."""
    word = "cordoned" if wanted else "uncordoned"
    already = drained = False

    def patch(stored: dict[str, Any]) -> dict[str, Any]:
        nonlocal already, drained
        spec, notes = stored.get("spec") or {}, stored["metadata"].get("annotations") or {}
        already = bool(spec.get("unschedulable")) == wanted
        drained = any(each.get("key") == TAINT_DRAIN for each in spec.get("taints") or ())
        # From now on the cordon is this person's, and `drain --undo` leaves it as it is.
        ours = {"annotations": {ANNOTATION_DRAINED: None}} if ANNOTATION_DRAINED in notes else {}
        changed = {} if already else {"unschedulable": wanted}
        return {"metadata": ours, "spec": changed} if ours or changed else {}

    await member_cluster(hub, name)  # which tells an unknown one
    await edit(hub, MEMBER_CLUSTERS, name, patch)
    told = f"already {word}" if already else word
    if drained and not wanted:
        return f"{told}; its drain goes on: `stowage drain {name} --undo` takes it back"
    return told
