"""A WorkloadGroup, ready to be decided on.

A stored object may be older than the rules of admission, or written past them, so everything is
checked again. An invalid group has a `fault`: its members keep their shares and get nothing new.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from controller.features.spec import read_spec
from controller.features.workloadgroup.objects import (
    GroupSpec,
    GroupStatus,
    Topology,
    WorkloadGroup,
)
from crds.base import NAME, QUALIFIED
from crds.groups.gate import takes_back
from crds.groups.workloadgroup import MOST_SECONDS, TopologyMode
from machinery.types import quantities
from machinery.types.bounds import MOST_AMOUNT, MOST_UNITS, RESOURCES, name_in_words, quoted
from machinery.types.metadata import Key

TIMEOUT_SECONDS: Final = 60
"""spec.scheduleTimeoutSeconds where it is not set."""
LONGEST_SECONDS: Final = 300
"""The longest back-off after a failure."""
_LONGEST_REST = timedelta(seconds=LONGEST_SECONDS + 1)
_MODES = frozenset(mode.value for mode in TopologyMode)
_LONGEST_KEY: Final = 317
_KEY = re.compile(rf"({NAME}(\.{NAME})*/)?{QUALIFIED}")


@dataclass(frozen=True, slots=True)
class CompiledGroup:
    """A group of Workloads that start together.

    `min_resources` are amounts as `WorkloadInfo.request` has them: thousandths of cpu, whole units
    of all others. `timeout` is in seconds. `topology_key` is empty for a gang that may go anywhere.
    `released` are the digests of the placements that the gate has released, by the Workload's uid,
    and `retained` the replicas by cluster that ran before the group did; `ran` says that the quorum
    has run once; `retry` is when the gang is tried again after it was taken away from members,
    `last_failure` when an attempt last failed, as text.
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
        """Return `retry` while it is to come; None where the gang may be tried."""
        # A time beyond any back-off comes from a leader whose clock was wrong, and is ignored.
        rests = self.retry is not None and now < self.retry <= now + _LONGEST_REST
        return self.retry if rests else None

    def takes_back(self, uid: str) -> bool:
        return takes_back(self.released, uid)

    def too_few(self, replicas: int) -> str:
        return f"{self} has {replicas} units in all its Workloads, minMember is {self.min_member}"

    def __str__(self) -> str:
        return named(self.key)


def named(key: Key) -> str:
    """Return the name of a group in messages: `WorkloadGroup shop/batch`."""
    return f"WorkloadGroup {in_words(key)}"


def in_words(key: Key) -> str:
    """Return namespace and name, made safe: a label in a template may hold any text."""
    return f"{key[0]}/{name_in_words(key[1])}"


def compile_group(stored: WorkloadGroup) -> CompiledGroup:
    """Compile a stored group; `fault` says where an invalid one is wrong."""
    spec, fault = read_spec(stored.spec, GroupSpec)
    topology, status = spec.topology or Topology(), stored.status
    amounts, wrong = _amounts(spec.min_resources)
    fault = fault or _number("minMember", spec.min_member, MOST_UNITS) or wrong
    fault = fault or _number("scheduleTimeoutSeconds", _timeout(spec), MOST_SECONDS)
    return CompiledGroup(
        key=stored.metadata.key,
        uid=stored.metadata.uid,
        created=stored.metadata.creation_timestamp,
        generation=stored.metadata.generation,
        min_member=spec.min_member,
        min_resources=amounts,
        timeout=_timeout(spec),
        topology_key=topology.topology_key,
        topology_required=topology.mode == TopologyMode.REQUIRED,
        fault=fault or _wrong_topology(spec.topology),
        **_told(status),
    )


def _told(status: GroupStatus) -> dict[str, Any]:
    """Return the fields of the status that decisions read."""
    return {
        "phase": status.phase,
        "gate": status.gate or "",
        "released": status.released_decisions(),
        "retained": status.retained,
        "ran": bool(status.quorum_time),
        "failures": status.failures,
        "retry": _moment(status.retry_time),
        "last_failure": status.last_failure_time,
    }


def _timeout(spec: GroupSpec) -> int:
    seconds = spec.schedule_timeout_seconds
    return TIMEOUT_SECONDS if seconds is None else seconds


def _number(name: str, number: int, most: int) -> str:
    return "" if 1 <= number <= most else f"spec.{name}: {quoted(number)} is not from 1 to {most}"


def _amounts(stored: Mapping[str, Any]) -> tuple[dict[str, int], str]:
    """Return the amounts by resource, and the fault of the first invalid one."""
    if len(stored) > RESOURCES:
        return {}, f"spec.minResources: {len(stored)} resources, {RESOURCES} at most"
    amounts = {}
    for name, text in stored.items():
        if len(name) > _LONGEST_KEY:
            return {}, f"spec.minResources: {quoted(name)} is no resource"
        where = f"spec.minResources.{name_in_words(name, most=_LONGEST_KEY)}"
        try:
            amount = quantities.amount(name, text)
        except ValueError as e:
            return {}, f"{where}: {e}"
        if not 0 <= amount <= MOST_AMOUNT:
            return {}, f"{where}: {quoted(text)} is out of range"
        amounts[name] = amount
    return amounts, ""


def _wrong_topology(topology: Topology | None) -> str:
    if topology is None:
        return ""
    key = topology.topology_key
    if len(key) > _LONGEST_KEY or not _KEY.fullmatch(key):
        return f"spec.topology.topologyKey: {quoted(key)} is no label key"
    if topology.mode not in _MODES:
        return f"spec.topology.mode: {quoted(topology.mode)} is neither Required nor Preferred"
    return ""


def _moment(text: str) -> datetime | None:
    """Parse a time; None for an invalid one, or one without a zone."""
    with suppress(ValueError):
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else None
    return None
