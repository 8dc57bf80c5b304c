"""The reasons that a Workload's status keeps: the steps of its shares, its last moves.

A decision stands for months, while the weights, quotas and room that it was made of change, so the
reasons cannot be computed again from the present. Therefore the rules of each replica are written
with its share, as data, in the write that places it. The controller reads these structs and carries
them on; the commands print them.
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
    """Replicas that came to a cluster in one decision, or left it: `units` is negative then.

    `cause` is what set the decision off (`crds.fields.why.ChangeCause`), `name` what that is about.
    A step without a time is of replicas that were there before steps were kept.
    """

    units: int
    time: str = ""
    cause: str = ""
    name: str = ""
    because: list[RuleNote] = []


class ShareSteps(msgspec.Struct, frozen=True):
    """How one cluster's share came about; the replicas of the steps add up to it."""

    cluster: str
    steps: list[ShareStep]


class RuleCount(msgspec.Struct, frozen=True):
    """Of the shares not told one by one, how many a rule made, and of how many replicas."""

    rule: str
    clusters: int
    units: int


class Move(msgspec.Struct, frozen=True, omit_defaults=True, rename={"before": "from", "now": "to"}):
    """A cluster's share before and after; -1 where it had none, or has none."""

    cluster: str
    before: int = -1
    now: int = -1
    because: list[RuleNote] = []


class Untold(msgspec.Struct, frozen=True):
    """Moves that are not told one by one: the clusters, the replicas that came and that went."""

    clusters: int
    came: int = 0
    went: int = 0


class PlacementChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of placement: when, what set it off, and each share that it changed."""

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
    """Encode as bytes, a tenth of the size of the objects; empty where there is nothing."""
    if not (reasons or counts or history):
        return b""
    fields = {"reasons": reasons, "reason_counts": counts, "history": history}
    return msgspec.json.encode(fields)


def unpacked(kept: bytes) -> Why:
    """Decode what `packed` encoded; nothing where the form is another."""
    if not kept:
        return NOTHING
    try:
        return _decoder.decode(kept)
    except msgspec.MsgspecError:
        return NOTHING


def of_status(status: Mapping[str, Any]) -> Why:
    """Read a status of JSON values; nothing where the form is another."""
    keys = ("reasons", "reasonCounts", "history")
    return unpacked(packed(*(status.get(key) or [] for key in keys)))


def compact(status: WorkloadStatus) -> WorkloadStatus:
    """Return the status with all of this as bytes: a cache holds ten thousand of them."""
    if not (status.reasons or status.history):
        return status
    kept = packed(status.reasons, status.reason_counts, status.history)
    return msgspec.structs.replace(status, why=kept, reasons=[], reason_counts=[], history=[])


def kept(status: WorkloadStatus) -> Why:
    """Return all of it from a status, compact or not."""
    return unpacked(status.why or packed(status.reasons, status.reason_counts, status.history))
