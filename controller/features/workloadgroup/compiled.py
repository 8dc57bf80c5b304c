"""A WorkloadGroup, ready to be decided on.

An invalid group has a `fault`: its members keep their shares and get nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from controller.cache.asread import named_now, renamed
from controller.framework.runtime.feature import checked_spec
from controller.snapshot.snapshot import Snapshot
from crds.groups.gate import GateStatus
from crds.groups.workloadgroup import TopologyMode
from machinery.types import quantities
from machinery.types.api import WorkloadGroupSpec
from machinery.types.bounds import MOST_AMOUNT, name_in_words, quoted
from machinery.types.metadata import Key, Object

TIMEOUT_SECONDS: Final = 60
LONGEST_SECONDS: Final = 300
"""Seconds of the longest back-off after a failure."""
_LONGEST_REST = timedelta(seconds=LONGEST_SECONDS + 1)
_LONGEST_KEY: Final = 317


@dataclass(frozen=True, slots=True)
class CompiledGroup:
    """A group of Workloads that start together.

    `min_resources` has thousandths of cpu, whole units of all others; `timeout` is in seconds.
    `released` are digests of released placements, `retained` the replicas by cluster that ran
    before, both by the Workload's uid. `ran`: the quorum has run once. `retry` is when a gang that
    was taken back is tried again, `last_failure` when an attempt last failed, as text.
    """

    key: Key
    uid: str
    created: str
    generation: int
    min_member: int
    min_resources: Mapping[str, int] = field(default_factory=dict)
    timeout: int = TIMEOUT_SECONDS
    topology_key: str = ""
    topology_required: bool = True
    fault: str = ""
    phase: str = ""
    gate: str = ""
    released: Mapping[str, str] = field(default_factory=dict)
    retained: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    ran: bool = False
    failures: int = 0
    retry: datetime | None = None
    last_failure: str = ""

    @property
    def namespace(self) -> str:
        return self.key[0]

    @property
    def name(self) -> str:
        return self.key[1]

    def rests_until(self, now: datetime) -> datetime | None:
        """Return `retry` while it is to come."""
        # A time beyond any back-off comes from a leader whose clock was wrong, and is ignored.
        rests = self.retry is not None and now < self.retry <= now + _LONGEST_REST
        return self.retry if rests else None

    def too_few(self, replicas: int) -> str:
        return (
            f"{self} has {replicas} replicas in all its Workloads, minMember is {self.min_member}"
        )

    def __str__(self) -> str:
        return named(self.key)


def named(key: Key) -> str:
    return f"WorkloadGroup {in_words(key)}"


def in_words(key: Key) -> str:
    """Return namespace and name, made safe: a template's label may hold any text."""
    return f"{key[0]}/{name_in_words(key[1])}"


def compile_group(stored: WorkloadGroup) -> CompiledGroup:
    meta = stored.metadata
    told: dict[str, Any] = {
        "key": meta.key,
        "uid": meta.uid,
        "created": meta.creation_timestamp,
        "generation": meta.generation,
        **_told(stored.status),
    }
    spec, fault = checked_spec("WorkloadGroup", stored.spec, WorkloadGroupSpec)
    if spec is None:
        return CompiledGroup(min_member=0, fault=fault, **told)
    amounts, wrong = ({}, "") if fault else _amounts(spec.min_resources)
    seconds, topology = spec.schedule_timeout_seconds, spec.topology
    return CompiledGroup(
        min_member=spec.min_member,
        min_resources=amounts,
        timeout=TIMEOUT_SECONDS if seconds is None else seconds,
        topology_key=topology.topology_key if topology else "",
        topology_required=not topology or topology.mode == TopologyMode.REQUIRED,
        fault=fault or wrong,
        **told,
    )


def by_present_names(group: CompiledGroup, snapshot: Snapshot) -> CompiledGroup:
    """Return the group with what it retains by the names that clusters have now."""
    names = {name for shares in group.retained.values() for name in shares}
    if not (now := renamed(names, snapshot.clusters, snapshot.row)):
        return group
    retained = {uid: named_now(shares, now) for uid, shares in group.retained.items()}
    return replace(group, retained=retained)


def _told(status: GroupStatus) -> dict[str, Any]:
    return {
        "phase": status.phase,
        "gate": status.gate or "",
        "released": status.decisions,
        "retained": status.retained,
        "ran": bool(status.quorum_time),
        "failures": status.failures,
        "retry": _moment(status.retry_time),
        "last_failure": status.last_failure_time,
    }


def _amounts(stored: Mapping[str, Any]) -> tuple[dict[str, int], str]:
    """Return the amounts by resource, and the first fault."""
    if long := next((name for name in stored if len(name) > _LONGEST_KEY), None):
        return {}, f"spec.minResources: {quoted(long)} is no resource"
    amounts = {name: quantities.amount(name, text) for name, text in stored.items()}
    over = next((name for name, amount in amounts.items() if amount > MOST_AMOUNT), None)
    if over is None:
        return amounts, ""
    where = f"spec.minResources.{name_in_words(over, most=_LONGEST_KEY)}"
    return {}, f"{where}: {quoted(stored[over])} is out of range"


def _moment(text: str) -> datetime | None:
    """Parse a time; None for an invalid one, or one without a zone."""
    with suppress(ValueError):
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else None
    return None


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
    """Only the readable part of its status is used."""

    spec: Any = msgspec.field(default_factory=dict)
    status: _Status = GroupStatus()

    def __post_init__(self) -> None:
        stored: Any = self.status
        if not isinstance(stored, GroupStatus):
            msgspec.structs.force_setattr(self, "status", read_status(stored))
