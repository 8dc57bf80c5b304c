"""Recent drift, for the status of each Workload; bounded, in memory, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from crds.fields.drift import MOST_DRIFTED, MOST_FIELDS, DriftState
from crds.workload import EventReason
from machinery.clock import Clock, parse_timestamp, timestamp
from machinery.runtime.event_recorder import EventRecorder
from machinery.types.metadata import Key
from propagator.drift.fields import FieldDrift
from propagator.hub.events import tell_of
from propagator.shares import ShareTable
from propagator.types.workload import Workload

REPAIRED_SECONDS = 600.0
"""How long a repaired object is reported."""
EVENT_SECONDS = 60.0
"""Seconds between two events about one object."""
MOST_RECORDS = 4 * MOST_DRIFTED
"""Records of one Workload; further objects are handled alike, but not reported."""
NO_AGENTS: Mapping[str, Sequence[dict[str, Any]]] = MappingProxyType({})
_BY_OTHERS = frozenset({DriftState.REPORTED.value, DriftState.CONTENDED.value})
STANDING = _BY_OTHERS | {DriftState.DROPPED.value}


class Drifted(NamedTuple):
    cluster: str
    kind: str
    namespace: str
    name: str
    group: str = ""

    @classmethod
    def told(cls, entry: Mapping[str, Any]) -> Drifted:
        return cls(*(str(entry.get(each, "")) for each in cls._fields))

    def __str__(self) -> str:
        where = "/".join(each for each in (self.namespace, self.name) if each)
        return f"{self.cluster}: {self.kind} {where}"


@dataclass(frozen=True, slots=True)
class _Record:
    state: DriftState
    since: str
    paths: Sequence[Mapping[str, str]]
    stamp: Hashable = None

    def entry(self, of: Drifted) -> dict[str, Any]:
        paths = [dict(each) for each in self.paths[:MOST_FIELDS]]
        named = {name: value for name, value in of._asdict().items() if value or name != "group"}
        return {**named, "paths": paths, "since": self.since, "state": self.state.value}


class DriftRecords:
    """`changed` is called with the key of a Workload whose report changed."""

    def __init__(
        self,
        shares: ShareTable,
        *,
        clock: Clock,
        recorder: EventRecorder,
        changed: Callable[[Key], None],
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self._changed = changed
        # After another leader's writes only the statuses count.
        self._records = shares.column(dict[Drifted, _Record], of_term=True)
        self._settled = shares.column(set[Drifted], of_term=True)  # reported before, and over
        self._announced = shares.column(dict[Drifted, float])  # when an event was last recorded

    def repaired(self, workload: Workload, of: Drifted, fields: Sequence[FieldDrift]) -> None:
        if not fields:
            return
        known = self._record(workload, of)
        if known is not None and known.state is DriftState.DROPPED:
            pass  # which lasts longer
        elif known is not None and known.state is DriftState.CONTENDED:
            self._put(workload, of, replace(known, paths=_told(of, fields)))
        else:
            record = _Record(DriftState.REPAIRED, self._now(), _told(of, fields))
            self._put(workload, of, record)
        note = f"{_changed(of, fields)}, and written back"
        self._announce(workload, of, EventReason.DRIFT_REPAIRED, note)

    def mended(self, workload: Workload, of: Drifted, versions: Sequence[str]) -> None:
        note = (
            f"{of}: no apply was possible, as {', '.join(versions)} is served no more: the entries "
            "of that version were taken out of metadata.managedFields"
        )
        self._announce(workload, of, EventReason.MANAGED_FIELDS_MENDED, note)

    def contended(self, workload: Workload, of: Drifted) -> str:
        """Return the reverted paths as text."""
        known = self._record(workload, of)
        if known is None:
            return ""
        if known.state is DriftState.REPAIRED:
            self._put(workload, of, replace(known, state=DriftState.CONTENDED))
        return ", ".join(each["path"] for each in known.paths[:MOST_FIELDS])

    def reported(
        self, workload: Workload, of: Drifted, fields: Sequence[FieldDrift], *, stamp: Hashable
    ) -> None:
        known = self._record(workload, of)
        paths = _told(of, fields)
        stands = known is not None and known.state is DriftState.REPORTED
        since = known.since if known is not None and stands else self._since(workload, of)
        self._put(workload, of, _Record(DriftState.REPORTED, since, paths, stamp))
        if fields and not (known is not None and known.paths == paths):
            note = f"{_changed(of, fields)}: it stays until the Workload's own value is edited"
            self._announce(workload, of, EventReason.DRIFT_REPORTED, note)

    def looked_at(self, workload: Workload, of: Drifted, stamp: Hashable) -> bool:
        known = self._record(workload, of)
        return known is not None and known.stamp == stamp

    def over(self, workload: Workload, of: Drifted) -> None:
        """The object is as applied, and not reverted."""
        known = self._record(workload, of)
        if known is not None and known.state is DriftState.CONTENDED:
            repaired = replace(known, state=DriftState.REPAIRED, since=self._now())
            self._put(workload, of, repaired)
        elif known is not None and known.state is DriftState.REPORTED:
            self._remove(workload, of)
            self._settle(workload, of)
        elif known is None and any(_stands(each, of) for each in workload.status.drift):
            self._settle(workload, of)

    def dropped(self, workload: Workload, of: Drifted, fields: Sequence[FieldDrift]) -> None:
        known = self._record(workload, of)
        told = [each for each in workload.status.drift if Drifted.told(each) == of]
        before = [each for each in told if each.get("state") == DriftState.DROPPED.value]
        if fields:
            since = known.since if known and known.state is DriftState.DROPPED else self._now()
            since = str(before[0]["since"]) if before else since
            self._put(workload, of, _Record(DriftState.DROPPED, since, _told(of, fields)))
        elif known is not None and known.state is DriftState.DROPPED:
            self._remove(workload, of)
            self._settle(workload, of)
        elif known is None and before:
            self._settle(workload, of)

    def rendered(self, workload: Workload, cluster: str, objects: Collection[Drifted]) -> None:
        told = map(Drifted.told, workload.status.drift)
        held = self._records.get(workload.uid, cluster) or {}
        for of in {*held, *told} - (self._settled.get(workload.uid, cluster) or set()):
            if of.cluster == cluster and of not in objects:
                self._remove(workload, of)
                self._settle(workload, of)

    def told(
        self, workload: Workload, agents: Mapping[str, Sequence[dict[str, Any]]] = NO_AGENTS
    ) -> list[dict[str, Any]]:
        """Return status.drift: records, and earlier reports that are not over.

        Of clusters in `agents` it is what their agents tell, and nothing else.
        """
        records = self._all(workload)
        # All drifted fields may belong to an autoscaler.
        entries = {of: each.entry(of) for of, each in records.items() if each.paths}
        known = records.keys() | set().union(*self._settled.of(workload.uid).values())
        for each in workload.status.drift:
            of = Drifted.told(each)
            if of not in known and of.cluster in workload.clusters and of.cluster not in agents:
                entries[of] = each
        entries |= {Drifted.told(each): each for told in agents.values() for each in told}
        left = [each for _, each in sorted(entries.items()) if self._remaining(each) > 0]
        standing = [each for each in left if each["state"] in STANDING]
        return [*standing, *(each for each in left if each not in standing)][:MOST_DRIFTED]

    def soonest(self, told: Sequence[Mapping[str, Any]]) -> float | None:
        return min(
            (s for each in told if (s := self._remaining(each)) != float("inf")), default=None
        )

    def _record(self, workload: Workload, of: Drifted) -> _Record | None:
        return (self._records.get(workload.uid, of.cluster) or {}).get(of)

    def _all(self, workload: Workload) -> dict[Drifted, _Record]:
        shares = self._records.of(workload.uid).values()
        return {of: each for held in shares for of, each in held.items()}

    def _remove(self, workload: Workload, of: Drifted) -> None:
        held = self._records.get(workload.uid, of.cluster) or {}
        held.pop(of, None)
        if not held:
            self._records.pop(workload.uid, of.cluster)

    def _put(self, workload: Workload, of: Drifted, record: _Record) -> None:
        before = self._record(workload, of)
        if before is None and len(self._all(workload)) >= MOST_RECORDS:
            return
        self._records.at(workload.uid, of.cluster)[of] = record
        if before is None or before.entry(of) != record.entry(of):
            self._changed(workload.metadata.key)

    def _settle(self, workload: Workload, of: Drifted) -> None:
        self._settled.at(workload.uid, of.cluster).add(of)
        self._changed(workload.metadata.key)

    def _since(self, workload: Workload, of: Drifted) -> str:
        """The time of the first report, or now."""
        for each in workload.status.drift:
            if _stands(each, of):
                return str(each["since"])
        return self._now()

    def _remaining(self, entry: Mapping[str, Any]) -> float:
        """Infinite if it never expires."""
        if entry.get("state") in STANDING:
            return float("inf")
        try:
            since = parse_timestamp(str(entry.get("since", "")))
        except ValueError:
            return 0.0
        ends = since + timedelta(seconds=REPAIRED_SECONDS)
        return (ends - self._clock.now()).total_seconds()

    def _announce(self, workload: Workload, of: Drifted, reason: EventReason, note: str) -> None:
        announced, now = self._announced.at(workload.uid, of.cluster), self._clock.monotonic()
        if now - announced.get(of, -EVENT_SECONDS) < EVENT_SECONDS:
            return
        announced[of] = now
        tell_of(self._recorder, workload, reason, note, warns=True, clusters=[of.cluster])

    def _now(self) -> str:
        return timestamp(self._clock.now())


def _told(of: Drifted, fields: Sequence[FieldDrift]) -> list[dict[str, str]]:
    return [field.told(of.kind) for field in fields[:MOST_FIELDS]]


def _changed(of: Drifted, fields: Sequence[FieldDrift]) -> str:
    first = fields[0].told(of.kind)
    more = f" and {len(fields) - 1} more" if len(fields) > 1 else ""
    return f"{of}: {first['path']}{more} changed by {first['manager'] or 'somebody'}"


def _stands(entry: Mapping[str, Any], of: Drifted) -> bool:
    return entry.get("state") in _BY_OTHERS and Drifted.told(entry) == of
