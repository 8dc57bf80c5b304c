"""The reasons in a Workload's status: the steps of its shares, its last moves.

The write that places a share therefore stores the rules of its replicas as data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controller.model.objects import WorkloadStatus


class RuleNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule that made a number: one of `controller.planner.reasons.RuleKind`, by its title."""

    rule: str
    numbers: dict[str, int] = {}
    name: str = ""


class ShareStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """Replicas that a decision added to a cluster, or removed: `units` is negative then.

    `cause` triggered the decision (`crds.fields.why.ChangeCause`), `name` is its object. A step
    without a time is of replicas from before steps were stored.
    """

    units: int
    time: str = ""
    cause: str = ""
    name: str = ""
    because: list[RuleNote] = []


class ShareSteps(msgspec.Struct, frozen=True):
    """The steps of one cluster's share, whose replicas add up to it."""

    cluster: str
    steps: list[ShareStep]


class RuleCount(msgspec.Struct, frozen=True):
    """The clusters and replicas of a rule, over the shares without steps."""

    rule: str
    clusters: int
    units: int


class Move(msgspec.Struct, frozen=True, omit_defaults=True, rename={"before": "from", "now": "to"}):
    """A cluster's share before and after; -1 for none."""

    cluster: str
    before: int = -1
    now: int = -1
    because: list[RuleNote] = []


class Untold(msgspec.Struct, frozen=True):
    """The moves beyond the listed ones: clusters, added replicas, removed replicas."""

    clusters: int
    came: int = 0
    went: int = 0


class PlacementChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of placement: time, cause, and each changed share."""

    time: str
    cause: str
    name: str = ""
    desired: int = 0
    assigned: int = 0
    moves: list[Move] = []
    more: Untold | None = None
    id: str = ""


class Why(msgspec.Struct, frozen=True):
    reasons: list[ShareSteps] = []
    reason_counts: list[RuleCount] = []
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
