"""The endpoints of gangs: how many replicas each needs and has, what is held, and why it waits.

The numbers are those of the next decision: held replicas, and those being written, count. The list
is answered page by page, as lists of Kubernetes are, and without the Workloads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest
from itertools import islice
from typing import Any

from controller.features.workloadgroup.compiled import CompiledGroup, in_words, named
from controller.features.workloadgroup.ledger import Groups, Member
from controller.features.workloadgroup.memory import GroupMemory
from controller.framework.runtime.services import Route, failure, page
from controller.framework.waiting import WaitingWorkload
from controller.model.unit import WorkloadInfo
from crds.groups.gate import GateState, decision_of
from machinery.clock import timestamp
from machinery.http_messages import Request, Response
from machinery.types.metadata import Key

NAMED_WORKLOADS = NAMED_CLUSTERS = 100
"""Of one gang, those that lack units first; `members` is the number of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHandlers:
    """Answers from the state at the time of the request.

    Args:
        ledger: the groups and their members.
        memory: the refusals and holds of this term.
        held: the decisions that wait for this plugin.
        now: the time.
    """

    ledger: Callable[[], Groups]
    memory: Callable[[], GroupMemory]
    held: Callable[[], Iterable[WaitingWorkload]]
    now: Callable[[], datetime]

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "/gangs", self._page),
            Route("GET", "/gang/:namespace/:name", self._one),
        )

    async def _page(self, request: Request) -> Mapping[str, Any]:
        ledger = self.ledger()
        held: Counter[Key] = Counter()
        for each in self.held():
            if (key := ledger.group_of(each.workload)) is not None:
                held[key] += _new(each)
        return page(
            request, "gangs", ledger.values(), lambda e: self._summary(ledger, e, held[e.key])
        )

    async def _one(self, request: Request) -> Mapping[str, Any] | Response:
        key = request.params["namespace"], request.params["name"]
        ledger = self.ledger()
        group, members = ledger.get(key), ledger.members(key)
        if group is None:
            who = "1 Workload names" if len(members) == 1 else f"{len(members)} Workloads name"
            naming = f"; {who} it" if members else ""
            return failure(404, f"cannot find gang {in_words(key)}: no {named(key)}{naming}")
        held = {w.workload.key: _new(w) for w in self.held() if ledger.group_of(w.workload) == key}
        shown = nsmallest(NAMED_WORKLOADS, members.items(), key=lambda each: _rank(*each))
        return {
            **self._summary(ledger, group, sum(held.values())),
            "workloads": [_workload(group, each, held.get(k, 0)) for k, each in shown],
        }

    def _summary(self, ledger: Groups, group: CompiledGroup, held: int) -> dict[str, Any]:
        """Return a gang as JSON values, without its Workloads."""
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


def _new(waiting: WaitingWorkload) -> int:
    """Return the replicas that a waiting decision adds to the Workload's present ones."""
    return _more(waiting.workload, waiting.placements)


def _more(info: WorkloadInfo, placements: Mapping[str, int]) -> int:
    return sum(max(n - info.present.get(name, 0), 0) for name, n in placements.items())


def _rank(key: Key, member: Member) -> tuple[bool, Key]:
    """Sort members that lack replicas first."""
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
