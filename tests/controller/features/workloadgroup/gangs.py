"""One gang as it is stored, without a hub, and its status as each look writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec

from controller.eventhandlers import known
from controller.features.workloadgroup.compiled import CompiledGroup, WorkloadGroup, compile_group
from controller.features.workloadgroup.gate.gate import (
    NO_DOUBTS,
    Gate,
    Standing,
    Unconfirmed,
    gate_of,
    standing_of,
)
from controller.features.workloadgroup.gate.status import (
    GroupFacts,
    GroupResult,
    changes,
    differs,
    look,
)
from controller.model.objects import Workload
from crds.groups.workloadgroup import WorkloadGroupStatus
from crds.names import LABEL_GROUP
from tests.controller import make

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = "2026-02-01T00:00:00Z"


@dataclass
class Stored:
    """A member as the hub has it."""

    name: str
    replicas: int = 2
    uid: str = ""
    ours: bool = True
    placements: dict[str, int] = field(default_factory=dict)
    clusters: list[dict[str, Any]] = field(default_factory=list)
    conditions: list[dict[str, Any]] = field(default_factory=list)
    distribution: str = "Single"
    limits: dict[str, int] = field(default_factory=dict)
    kind: str = "Deployment"

    def workload(self) -> Workload:
        """As the informer keeps it."""
        made = make.workload(
            self.name,
            replicas=self.replicas,
            present=self.placements,
            distribution=self.distribution,
            kind=self.kind,
            labels={LABEL_GROUP: "batch"},
        )
        status = msgspec.convert(
            {
                "placements": [{"cluster": c, "replicas": n} for c, n in self.placements.items()],
                "clusters": self.clusters,
                "conditions": self.conditions,
                "decision": {"hash": known(made).info.hash},
                "limits": [
                    {"cluster": c, "replicas": n, "until": LATER, "holdSeconds": 300}
                    for c, n in self.limits.items()
                ],
            },
            type(made.status),
        )
        meta = msgspec.structs.replace(
            made.metadata, uid=self.uid or f"uid-{self.name}", generation=1
        )
        return known(msgspec.structs.replace(made, metadata=meta, status=status))

    def reports(self, state: str = "Running", **counts: int) -> None:
        """Each of its clusters is in that state; all units are ready where that is Running."""
        ready = {"ready": None} if state == "Running" and not counts else {}
        self.clusters = [
            {"name": c, "replicas": n, "state": state, **counts, **dict.fromkeys(ready, n)}
            for c, n in self.placements.items()
        ]


class Gang:
    """The group shop/batch and its members, and a status that each look brings up to date."""

    def __init__(self, *members: Stored, least: Any = 4, **spec: Any) -> None:
        self.members = {each.name: each for each in members}
        self.spec = {"minMember": least, **spec}
        self.status: dict[str, Any] = {}
        self.uid = "1"
        self.now = START
        self.told: list[str] = []
        self.writes = 0
        self.facts: dict[str, Any] = {}
        self.patches: list[Mapping[str, Any]] = []

    @property
    def stored(self) -> WorkloadGroup:
        """As the informer keeps it."""
        meta = {"name": "batch", "namespace": "shop", "uid": self.uid, "generation": 1}
        body = {"metadata": meta, "spec": self.spec, "status": self.status}
        return msgspec.convert(body, WorkloadGroup)

    @property
    def group(self) -> CompiledGroup:
        """As decisions read it."""
        return compile_group(self.stored)

    def standings(self) -> list[Standing]:
        """The members as the books read them."""
        return [standing_of(each.workload(), ours=each.ours) for each in self.members.values()]

    def gate(self, doubts: Unconfirmed = NO_DOUBTS) -> Gate:
        """The gate as it has to be by now."""
        return gate_of(self.group, self.standings(), self.now, doubts)

    def seen(self, doubts: Unconfirmed = NO_DOUBTS, **facts: Any) -> GroupResult:
        """The status that a look finds, unwritten."""
        desired = sum(each.replicas for each in self.members.values())
        given = {"members": self.standings(), "workloads": len(self.members), "desired": desired}
        about = GroupFacts(**{**given, **self.facts, **facts})
        return look(self.stored, self.group, self.gate(doubts), about, self.now)

    def write(self, fields: Mapping[str, Any]) -> None:
        """As a merge patch does; the hub's own schema is asked."""
        self.patches.append(changes(fields, self.stored))
        self.status = _merged(self.status, self.patches[-1])
        WorkloadGroupStatus.model_validate(self.status)
        self.writes += 1

    def look(self, doubts: Unconfirmed = NO_DOUBTS, **facts: Any) -> GroupResult:
        """A look that is written, where there is anything to write."""
        found = self.seen(doubts, **facts)
        if differs(found.fields, self.stored):
            self.write(found.fields)
            self.told += [each.reason.value for each in found.events]
        return found

    def after(self, seconds: float, doubts: Unconfirmed = NO_DOUBTS, **facts: Any) -> GroupResult:
        """A look so many seconds later."""
        self.now += timedelta(seconds=seconds)
        return self.look(doubts, **facts)

    def place(self, **placements: Mapping[str, int]) -> Self:
        """The scheduler writes these placements."""
        for name, shares in placements.items():
            self.members[name].placements = dict(shares)
            self.members[name].clusters = []
        return self

    def run(self, *names: str) -> Self:
        """All units of these members run, or of all."""
        for name in names or self.members:
            self.members[name].reports()
        return self

    def report(self, name: str, state: str = "Running", **counts: int) -> Self:
        """The propagator says that of one member."""
        self.members[name].reports(state, **counts)
        return self

    @property
    def open(self) -> dict[str, str]:
        """{name: decision} of what is released."""
        if self.status.get("gate") != "Open":
            return {}
        known = self.status.get("decisions", {})
        uids = {each.uid or f"uid-{each.name}": each.name for each in self.members.values()}
        return {uids.get(uid, uid): decision for uid, decision in known.items()}

    @property
    def said(self) -> tuple[str, str, str]:
        """(status, reason, message) of Scheduled."""
        found = self.status["conditions"][0]
        return found["status"], found["reason"], found["message"]


def _merged(target: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7386."""
    found = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping):
            found[name] = _merged(found.get(name), value)
        else:
            found[name] = value
    return found
