"""What `status.Compute` of cli-utils says of an object of a kind that it does not know.

Flux, `kubectl apply` of kpt and others wait by these rules, which are those of
sigs.k8s.io/cli-utils/pkg/kstatus in their order: the deletion, the generation, Reconciling or
Stalled, whichever is listed first, and Ready. An object that says none of it is Current.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from machinery.types import conditions

IN_PROGRESS, CURRENT, FAILED, TERMINATING = "InProgress", "Current", "Failed", "Terminating"


def compute(stored: Mapping[str, Any]) -> str:
    meta, status = stored["metadata"], stored.get("status") or {}
    if meta.get("deletionTimestamp"):
        return TERMINATING
    if status.get("observedGeneration", meta.get("generation")) != meta.get("generation"):
        return IN_PROGRESS
    for each in status.get("conditions") or ():
        if each["status"] == "True" and each["type"] in (
            conditions.RECONCILING,
            conditions.STALLED,
        ):
            return IN_PROGRESS if each["type"] == conditions.RECONCILING else FAILED
    ready = conditions.find(status, conditions.READY)
    return CURRENT if ready.get("status", "True") == "True" else IN_PROGRESS


def exclusive(stored: Mapping[str, Any]) -> bool:
    """Whether exactly one of the three conditions is True, once there is any, and none older."""
    status = stored.get("status") or {}
    kinds = (conditions.READY, conditions.RECONCILING, conditions.STALLED)
    said = [found for each in kinds if (found := conditions.find(status, each))]
    held = [each for each in said if each["status"] == "True"]
    return not said or len(held) == 1
