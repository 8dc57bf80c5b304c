"""The endpoints of gangs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest
from itertools import islice
from typing import Any, NamedTuple

from controller.features.workloadgroup.compiled import CompiledGroup, in_words, named
from controller.features.workloadgroup.ledger import Groups, Member
from controller.features.workloadgroup.memory import GroupMemory
from controller.framework.runtime.services import Book, Route
from controller.framework.waiting import WaitingWorkload
from crds.groups.gate import GateState, decision_of
from machinery.clock import timestamp
from machinery.types.metadata import Key

NAMED_WORKLOADS = NAMED_CLUSTERS = 100
"""Workloads of one gang, those that lack replicas first; `members` is the number of all."""


class _Gang(NamedTuple):
    group: CompiledGroup
    held: Counter[Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHandlers:
    """Answers at the time of the request; `held` are decisions that wait for the plugin."""

    ledger: Callable[[], Groups]
    memory: Callable[[], GroupMemory]
    held: Callable[[], Iterable[WaitingWorkload]]
    now: Callable[[], datetime]

    def routes(self) -> Sequence[Route]:
        return Book(
            *("gangs", "gang"),
            objects=self._gangs,
            find=self._gang,
            summary=self._summary,
            detail=self._detail,
            one="gang",
            key=lambda each: each.group.key,
            missing=self._missing,
        ).routes()

    def _gangs(self) -> Iterator[_Gang]:
        held = self._held()
        return (_Gang(each, held[each.key]) for each in self.ledger().values())

    def _gang(self, key: Key) -> _Gang | None:
        group = self.ledger().get(key)
        return None if group is None else _Gang(group, self._held()[key])

    def _held(self) -> Mapping[Key, Counter[Key]]:
        ledger, held = self.ledger(), defaultdict[Key, Counter[Key]](Counter)
        for each in self.held():
            if (key := ledger.group_of(each.workload)) is not None:
                held[key][each.workload.key] = sum(each.workload.arriving(each.placements).values())
        return held

    def _missing(self, key: Key) -> str:
        members = self.ledger().members(key)
        who = "1 Workload names" if len(members) == 1 else f"{len(members)} Workloads name"
        return f"{in_words(key)}: no {named(key)}" + (f"; {who} it" if members else "")

    def _detail(self, gang: _Gang) -> dict[str, Any]:
        group, held = gang
        members = self.ledger().members(group.key).items()
        shown = nsmallest(NAMED_WORKLOADS, members, key=lambda each: _rank(*each))
        return {
            **self._summary(gang),
            "workloads": [_workload(group, each, held[k]) for k, each in shown],
        }

    def _summary(self, gang: _Gang) -> dict[str, Any]:
        group, held, ledger = gang.group, gang.held.total(), self.ledger()
        key, memory, now = group.key, self.memory(), self.now()
        denial, since = memory.denied(key, now), memory.held_since(key)
        assigned = ledger.assigned(key)
        return {
            "namespace": group.namespace,
            "name": group.name,
            "min": group.min_member,
            "assigned": assigned,
            "waiting": held,
            "deniedUntil": timestamp(denial.until) if denial else None,
            "phase": group.phase,
            "gate": group.gate or None,
            "released": len(group.released) if group.gate == GateState.OPEN else 0,
            "retained": sum(sum(each.values()) for each in group.retained.values()),
            "desired": max(ledger.desired(key), assigned),
            "missing": 0 if ledger.started(key) else group.min_member - assigned,
            "members": len(ledger.members(key)),
            "heldSince": timestamp(since) if since and held else None,
            "scheduleTimeoutSeconds": group.timeout,
            "failures": group.failures,
            "retryTime": timestamp(group.retry) if group.retry else None,
            "lastFailureTime": memory.last_failure(key) or group.last_failure or None,
            "message": group.fault or memory.why(key),
        }


def _rank(key: Key, member: Member) -> tuple[bool, Key]:
    return (not member.open, key)


def _workload(group: CompiledGroup, member: Member, held: int) -> dict[str, Any]:
    info = member.workload
    at = group.released.get(info.uid) if group.gate == GateState.OPEN else None
    return {
        "name": info.name,
        "desired": info.replicas,
        "assigned": member.assigned,
        "waiting": held,
        "released": at is not None and at == decision_of({**info.present, **info.ended}),
        "clusters": dict(islice(sorted(member.placements.items()), NAMED_CLUSTERS)),
    }
