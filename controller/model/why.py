"""The reasons in a Workload's status: the steps of its shares, its last moves.

The write that places a share therefore stores the rules of its replicas as data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controller.model.objects import WorkloadStatus
from machinery.types.api import PlacementChange, PlacementReasons, ReasonCount


class Why(msgspec.Struct, frozen=True):
    reasons: list[PlacementReasons] = []
    reason_counts: list[ReasonCount] = []
    history: list[PlacementChange] = []


_decoder = msgspec.json.Decoder(Why)
NOTHING = Why()


def packed(reasons: Any, counts: Any, history: Any) -> bytes:
    """Encode as bytes, a tenth of the size of the objects; empty without content."""
    if not (reasons or counts or history):
        return b""
    fields = {"reasons": reasons, "reason_counts": counts, "history": history}
    return msgspec.json.encode(fields)


def unpacked(kept: bytes) -> Why:
    """Decode what `packed` encoded; `NOTHING` if malformed."""
    if not kept:
        return NOTHING
    try:
        return _decoder.decode(kept)
    except msgspec.MsgspecError:
        return NOTHING


def of_status(status: Mapping[str, Any]) -> Why:
    """Read a status of JSON values; `NOTHING` if malformed."""
    keys = ("reasons", "reasonCounts", "history")
    return unpacked(packed(*(status.get(key) or [] for key in keys)))


def compact(status: WorkloadStatus) -> WorkloadStatus:
    """Return the status with all of this as bytes: a cache holds ten thousand."""
    if not (status.reasons or status.history):
        return status
    kept = packed(status.reasons, status.reason_counts, status.history)
    return msgspec.structs.replace(status, why=kept, reasons=[], reason_counts=[], history=[])


def kept(status: WorkloadStatus) -> Why:
    return unpacked(status.why or packed(status.reasons, status.reason_counts, status.history))
