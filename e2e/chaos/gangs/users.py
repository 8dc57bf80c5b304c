"""The users of gangs in a chaos run.

A gang is a WorkloadGroup and one to three Workloads, all units alike. Names are never used twice,
so that every object on a member belongs to exactly one gang.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from crds.names import LABEL_GROUP
from e2e.chaos.churn import insist
from e2e.chaos.engine import Editors
from e2e.chaos.stage import MEMBERS, ChaosStage
from e2e.harness import deployment
from machinery.api.resources import NAMESPACES as NAMESPACE_KIND
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS
from machinery.errors import AlreadyExists, NotFound

NAMESPACE = "gangs"
CPU = 1000
"""Thousandths of cpu of a unit: a node of 8 cpu has room for exactly 8."""
ROOM = 9 * 8000 // CPU
"""Units that three members of three nodes have room for."""
SCHEDULER = "chaos"
"""The scheduler of gangs that the test places, as an external scheduler does."""


@dataclass(frozen=True, slots=True)
class Gang:
    """The wish of a gang's user: so many units of each Workload, `least` of them or none.

    A gang that the test itself places asks for no room: it may be on any member.
    """

    parts: tuple[int, ...]
    least: int
    tag: str
    placed: bool = False

    @property
    def units(self) -> int:
        return sum(self.parts)

    def names(self, gang: str) -> list[str]:
        return [f"{gang}-{number}" for number in range(len(self.parts))]


def made(chance: random.Random) -> Gang:
    """Return a random gang of twelve units at most, most of them with a few beyond the quorum."""
    parts = tuple(chance.randint(1, 4) for _ in range(chance.randint(1, 3)))
    least = max(sum(parts) - chance.randint(0, 2), 1)
    return Gang(parts, min(least, 9), _tag(chance), placed=chance.random() < 0.1)


def changed(gang: Gang, chance: random.Random) -> Gang:
    """Return the gang after an edit: another image, or other units, never below the quorum."""
    if chance.random() < 0.5:
        return replace(gang, tag=_tag(chance))
    at = chance.randrange(len(gang.parts))
    others = gang.units - gang.parts[at]
    units = chance.randint(max(gang.least - others, 1), 5)
    return replace(gang, parts=(*gang.parts[:at], units, *gang.parts[at + 1 :]))


def _tag(chance: random.Random) -> str:
    return f"3.{chance.randint(1, 10)}"


def image(gang: Gang) -> str:
    return f"registry.k8s.io/pause:{gang.tag}"


def group(name: str, gang: Gang) -> dict[str, Any]:
    """Return the WorkloadGroup that the user applies."""
    return {
        "apiVersion": WORKLOAD_GROUPS.api_version,
        "kind": "WorkloadGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minMember": gang.least, "scheduleTimeoutSeconds": 5},
    }


def workload(name: str, of: str, units: int, gang: Gang) -> dict[str, Any]:
    """Return one of its Workloads."""
    body = deployment(name, cpu="0" if gang.placed else f"{CPU}m", image=image(gang))
    how = {"schedulerName": SCHEDULER} if gang.placed else {}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {LABEL_GROUP: of}},
        "spec": {"replicas": units, "distribution": "Divided", "targetDeployment": body, **how},
    }


class Users(Editors):
    """`wanted` holds the gangs that must exist; one that is `busy` is being edited."""

    def __init__(self, stage: ChaosStage, *, seed: int, most: int) -> None:
        super().__init__(random.Random(f"users of gangs {seed}"), least=0.1, most=0.8)
        self.wanted: dict[str, Gang] = {}
        self.busy: set[str] = set()
        self.diminished: set[str] = set()
        """Gangs that a removed member took units from. Users do not make their groups again: a
        group does not know of the one before it, and waits for a quorum of the units that are left.
        """
        self.absent: set[str] = set()
        """Gangs of which the group alone is deleted now."""
        self.edits = 0
        self._stage = stage
        self._most = most
        self._number = 0

    async def prepare(self) -> None:
        """Create the namespace, and half of the gangs."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        with suppress(AlreadyExists):
            await self._stage.hub.create(NAMESPACE_KIND, body)
        for _ in range(self._most // 2):
            await self._come()

    async def finished(self) -> None:
        """Return when there are enough gangs."""
        while len(self.wanted) < self._most:
            await self._come()

    async def end(self) -> None:
        for name in list(self.wanted):
            await self._go(name)

    async def _edit(self) -> None:
        what, idle = self._chance.random(), sorted(self.wanted.keys() - self.busy)
        if len(self.wanted) < self._most and (what < 0.5 or not idle):
            await self._come()
        elif what < 0.75:
            name = self._chance.choice(idle)
            await self._apply(name, changed(self.wanted[name], self._chance))
        elif what < 0.85 and (whole := sorted(set(idle) - self.diminished)):
            await self._anew(self._chance.choice(whole))
        else:
            await self._go(self._chance.choice(idle))
        self.edits += 1

    async def _come(self) -> None:
        self._number += 1
        await self._apply(f"g{self._number}", made(self._chance))

    async def _apply(self, name: str, gang: Gang) -> None:
        """Apply the group and its Workloads, in any order."""
        self.busy.add(name)
        self.wanted[name] = gang
        bodies = [(WORKLOAD_GROUPS, group(name, gang))]
        for each, units in zip(gang.names(name), gang.parts, strict=True):
            bodies.append((WORKLOADS, workload(each, name, units, gang)))
        self._chance.shuffle(bodies)

        async def once() -> bool:
            for kind, body in bodies:
                where = {"name": body["metadata"]["name"], "namespace": NAMESPACE}
                await self._stage.hub.apply(kind, body, **where, field_manager="chaos", force=True)
            if gang.placed:
                await self._place(name, gang)
            return True

        await insist(once)
        self.busy.discard(name)

    async def _place(self, name: str, gang: Gang) -> None:
        """Place its units in any split over any of the members."""
        for each, units in zip(gang.names(name), gang.parts, strict=True):
            shares = dict.fromkeys(self._chance.sample(MEMBERS, self._chance.randint(1, 3)), 0)
            for _ in range(units):
                shares[self._chance.choice(list(shares))] += 1
            placed = [{"cluster": c, "replicas": n} for c, n in sorted(shares.items()) if n]
            status = {"status": {"placements": placed, "desired": units, "pending": 0}}
            await self._stage.hub.merge_patch(
                WORKLOADS, each, status, namespace=NAMESPACE, subresource="status"
            )

    async def _anew(self, name: str) -> None:
        """Delete the group alone, and make it again."""
        self.busy.add(name)
        self.absent.add(name)

        async def once() -> bool:
            with suppress(NotFound):
                await self._stage.hub.delete(WORKLOAD_GROUPS, name, namespace=NAMESPACE)
            return True

        await insist(once)
        await asyncio.sleep(self._chance.uniform(0, 3))
        await self._apply(name, self.wanted[name])
        self.absent.discard(name)

    async def _go(self, name: str) -> None:
        self.busy.add(name)
        gang = self.wanted.pop(name)
        kinds = [(WORKLOAD_GROUPS, name), *((WORKLOADS, each) for each in gang.names(name))]
        self._chance.shuffle(kinds)

        async def once() -> bool:
            for kind, each in kinds:
                with suppress(NotFound):
                    await self._stage.hub.delete(kind, each, namespace=NAMESPACE)
            return True

        await insist(once)
        self.busy.discard(name)


def gang_of(workload: str) -> str:
    return workload.rpartition("-")[0]


def placed_on(workload: Mapping[str, Any]) -> dict[str, int]:
    """Return the units by cluster."""
    shares = workload.get("status", {}).get("placements", [])
    return {share["cluster"]: share["replicas"] for share in shares if share["replicas"]}
