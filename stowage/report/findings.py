"""Findings: what `stowage status` lists of the objects of a kind, from what the hub stores.

The objects are partial structs, decoded page by page. The command answers at once, so nothing here
needs numpy or pydantic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from controller.model.objects import Condition
from machinery.types.metadata import Meta
from stowage.console.words import time
from stowage.report.advice import PATIENT, SCHEDULED, UNKNOWN

PATIENCE_SECONDS = 60.0
"""Seconds that an operation may take before a person should look at it."""


def condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    return next((each for each in conditions if each.type == kind), None)


class Summary(msgspec.Struct):
    """The base of the structs that objects are decoded as."""

    metadata: Meta

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


class Finding(msgspec.Struct, omit_defaults=True):
    """A row of the report; `help` is the advice, `urgent` marks one that needs a person."""

    name: str
    state: str
    since: str = ""
    units: str = ""
    message: str = ""
    help: str = ""
    urgent: bool = False


class ProcessSummary(msgspec.Struct):
    """The leader of a process; `silent_seconds` is -1 where its last renewal is not known."""

    name: str
    holder: str
    release: str
    silent_seconds: float
    leads: bool


class Report(msgspec.Struct, rename="camel"):
    """The findings and counts of one read of the hub."""

    processes: list[ProcessSummary] = []
    releases_apart: str = ""
    """The processes whose releases are not made to run beside each other; empty for none."""
    shards: int = 1
    """Of the propagator, as the Lease of the first one announces."""
    shards_fault: str = ""
    """What is wrong with the ConfigMap that sets their number; empty for nothing."""
    offered: dict[str, int] = {}
    """Sums over all clusters, in the smallest units."""
    holds_most: str = ""
    """`shop: cpu 12, 40% of what the clusters offer`: the namespace that reserves most."""
    clusters: dict[str, int] = {}
    cluster_names: dict[str, list[str]] = {}
    """The clusters of each state, for people: programs read `clustersNotReady`."""
    workloads: dict[str, int] = {}
    units: dict[str, int] = {}
    clusters_not_ready: list[Finding] = []
    sweeps_held: list[Finding] = []
    evacuating: list[Finding] = []
    """Clusters that units leave, should leave, or may not come back to yet."""
    pending: list[Finding] = []
    failing: list[Finding] = []
    moving: list[Finding] = []
    moves_blocked: list[Finding] = []
    rollouts: list[Finding] = []
    """Workloads whose revision is not on all clusters yet."""
    removing: list[Finding] = []
    not_shown: list[str] = []
    counts: dict[str, dict[str, int]] = {}
    """Objects by state, by the `counts` of each kind that has any."""
    findings: dict[str, list[Finding]] = {}
    """By the `name` of each kind."""

    @property
    def urgent(self) -> int:
        """The number of findings and processes that need a person."""
        lists = (
            self.clusters_not_ready,
            self.sweeps_held,
            self.evacuating,
            self.pending,
            self.failing,
            self.moves_blocked,
            self.rollouts,
            self.removing,
            *self.findings.values(),
        )
        listed = sum(each.urgent for some in lists for each in some)
        silent = sum(not p.leads for p in self.processes)
        return listed + silent + bool(self.releases_apart) + bool(self.shards_fault)

    def to_dict(self) -> dict[str, Any]:
        told = msgspec.to_builtins(self)
        del told["offered"], told["clusterNames"]
        counts, findings = told.pop("counts"), told.pop("findings")
        return {"needsAPerson": self.urgent, **told, **counts, **findings}


T = TypeVar("T", bound=Summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFindings(Generic[T]):
    """The list of one kind in the report.

    Args:
        type_: the struct that its objects are decoded as.
        take: adds the findings of these objects to the report, as of a time.
        name: the list in `-o json`.
        title: the heading of the list.
        counts: the counts by state in `-o json`, if there are any.
        before: Workloads that it speaks for come below it, without advice of their own.
        after: it reads the findings of Workloads, and of the kinds that are read before.
    """

    type_: type[T]
    take: Callable[[Report, Iterable[T], datetime], None]
    name: str
    title: str
    counts: str = ""
    before: bool = False
    after: bool = False


def unready(name: str, said: Condition, help_: str) -> Finding:
    since, message = said.last_transition_time, said.message
    return Finding(name, said.reason, since=since, message=message, help=help_, urgent=True)


def undecided(each: Summary, now: datetime) -> Finding | None:
    """Return the finding of an object that should have a condition by now; None while it is new."""
    created = each.metadata.creation_timestamp
    if not overdue(created, PATIENCE_SECONDS, now):
        return None
    asks = "is the controller running?"
    return Finding(each.name, "Undecided", created, message=asks, help=UNKNOWN, urgent=True)


def unplaced(name: str, said: Condition, units: str) -> Finding:
    """Return the finding of an object with units that have no cluster."""
    return Finding(
        name,
        said.reason,
        since=said.last_transition_time,
        units=units,
        message=said.message,
        help=SCHEDULED.get(said.reason, UNKNOWN),
        urgent=said.reason not in PATIENT,
    )


def overdue(since: str, patience: float, now: datetime) -> bool:
    """Return whether the time is known and more than `patience` seconds ago."""
    at = time(since)
    return at is not None and (now - at).total_seconds() > patience


def tally(counts: dict[str, Any], state: str) -> None:
    counts[state] = counts.get(state, 0) + 1
