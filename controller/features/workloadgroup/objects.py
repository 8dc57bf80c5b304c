"""The fields of the kind WorkloadGroup that the controller reads, as the hub stores them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from crds.groups.gate import GateStatus
from machinery.types.metadata import Object


class GroupStatus(GateStatus, msgspec.Struct, frozen=True, rename="camel"):
    """WorkloadGroup.status; times are text as stored, or empty."""

    observed_generation: int = 0
    phase: str = ""
    workloads: int = 0
    desired: int = 0
    scheduled: int = 0
    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: str = ""
    failures: int = 0
    retry_time: str = ""
    last_failure_time: str = ""
    conditions: list[dict[str, Any]] = []


def read_status(stored: Any) -> GroupStatus:
    """Decode the readable fields of a status; the others are as if never written."""
    with suppress(msgspec.ValidationError):
        return _sound(msgspec.convert(stored, GroupStatus))
    found: dict[str, Any] = {}
    for each in msgspec.structs.fields(GroupStatus) if isinstance(stored, dict) else ():
        with suppress(msgspec.ValidationError):
            found[each.name] = msgspec.convert(stored.get(each.encode_name), each.type)
    return _sound(GroupStatus(**found))


def _sound(status: GroupStatus) -> GroupStatus:
    known = [each for each in status.conditions if _is_condition(each)]
    return msgspec.structs.replace(status, conditions=known)


def _is_condition(stored: dict[str, Any]) -> bool:
    said = (stored.get(name) for name in ("type", "status", "reason"))
    return all(isinstance(each, str) and each for each in said)


if TYPE_CHECKING:
    _Status: TypeAlias = GroupStatus
else:
    _Status = Any


class WorkloadGroup(Object, frozen=True):
    """Workloads that start together or not at all.

    The readable part of an unreadable status is used.
    """

    spec: Any = msgspec.field(default_factory=dict)
    status: _Status = GroupStatus()

    def __post_init__(self) -> None:
        stored: Any = self.status
        if not isinstance(stored, GroupStatus):
            msgspec.structs.force_setattr(self, "status", read_status(stored))
