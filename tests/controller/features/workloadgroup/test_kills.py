"""Two controllers, the leader killed again and again while gangs come, change and go.

Nobody reports from the members here, so each unit that is placed is in flight, no gang ever runs,
and the gate is all that stands between half a gang and the members. Every state that the hub takes
is kept with its resourceVersion, which orders Workloads and groups of one etcd: what a release
names is compared with what was stored then, whoever led.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crds.groups.gate import decision_of
from crds.names import LABEL_GROUP
from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS
from machinery.runtime.informer import Informer
from machinery.types import quantities
from machinery.types.metadata import Key, Object
from tests.controller.live import World, placements
from tests.controller.pairs import Pair, pair
from tests.patience import until

LEAST_KILLS, MOST_KILLS = 30, 60
"""Until one of them was between two writes of a gang."""
CLUSTERS = ("a", "b", "c")
ROOM = 16
"""Units that each cluster has room for: one cpu each."""
MOST_GANGS = 9
LATE_SECONDS = 5.0
"""So long before a release its units may have been stored as it says: a user edits meanwhile."""


class Stored(Object, frozen=True):
    """A Workload or a group as the hub has it."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def version(self) -> int:
        return int(self.metadata.resource_version)

    @property
    def placed(self) -> dict[str, int]:
        return placements({"status": self.status})

    @property
    def released(self) -> set[tuple[str, str]]:
        """(uid, decision) of each Workload that may stand on members."""
        if self.status.get("gate") != "Open":
            return set()
        return set(self.status.get("decisions", {}).items())


@dataclass(frozen=True)
class State:
    """One state of a Workload, and when it was heard of."""

    stored: Stored
    heard: float


class History:
    """All states of the Workloads and groups of a hub, as far as they matter for releases."""

    def __init__(self) -> None:
        self.workloads: dict[Key, list[State]] = {}
        self.opened: list[tuple[Stored, float]] = []
        """Groups that released something which they had not released before."""
        self.placed = asyncio.Event()
        """Set whenever a Workload has got other placements."""

    def workload_changed(self, old: Stored | None, new: Stored | None) -> None:
        if new is not None:
            if new.placed != (old.placed if old else {}):
                self.placed.set()
            heard = asyncio.get_running_loop().time()
            self.workloads.setdefault(new.metadata.key, []).append(State(new, heard))

    def group_changed(self, old: Stored | None, new: Stored | None) -> None:
        before = old.released if old and new and old.metadata.uid == new.metadata.uid else set()
        if new is not None and new.released - before:
            self.opened.append((new, asyncio.get_running_loop().time()))

    def half(self) -> list[str]:
        """The releases of which it never was true that enough units were stored for them."""
        wrong = []
        for group, heard in self.opened:
            least, most = group.spec["minMember"], self._most(group, heard)
            if most < least:
                wrong.append(f"{group.metadata.key} released {most} units of {least}: {group}")
        return wrong

    def _most(self, group: Stored, heard: float) -> int:
        """Units that were stored as it says, at one moment until then."""
        moments = {group.version} | {
            state.stored.version
            for states in self.workloads.values()
            for state in states
            if state.stored.version < group.version and state.heard > heard - LATE_SECONDS
        }
        return max(self._units(group.released, moment) for moment in moments)

    def _units(self, released: set[tuple[str, str]], version: int) -> int:
        total = 0
        for states in self.workloads.values():
            then = [state.stored for state in states if state.stored.version <= version]
            if then and released_at(released, then[-1]):
                total += sum(then[-1].placed.values())
        return total


def released_at(released: set[tuple[str, str]], workload: Stored) -> bool:
    """Whether these name the Workload with the placements that it has."""
    return (workload.metadata.uid, decision_of(workload.placed)) in released


@asynccontextmanager
async def watched(world: World) -> AsyncIterator[History]:
    """What the hub shows from now on."""
    history = History()
    async with ApiClient(world.hub.connection(), name="watchman", timeout=120) as client:
        workloads = Informer(client, WORKLOADS, Stored)
        workloads.add_handler(history.workload_changed)
        groups = Informer(client, WORKLOAD_GROUPS, Stored)
        groups.add_handler(history.group_changed)
        looking = [asyncio.create_task(each.run()) for each in (workloads, groups)]
        try:
            await until(lambda: workloads.synced and groups.synced)
            yield history
        finally:
            for task in looking:
                task.cancel()
            for task in looking:
                with suppress(asyncio.CancelledError):
                    await task


class Users:
    """They make gangs of one to four Workloads, scale them, and take them away again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = random.Random(5)
        self._number = 0
        self.gangs: dict[str, list[str]] = {}
        """The Workloads of each group that is there."""

    async def edit(self, *, new: bool = False) -> None:
        """One step of a user; with `new` another gang comes, for which an old one may go."""
        what = self._chance.random()
        if new or what < 0.3 or len(self.gangs) < 3:
            if len(self.gangs) >= MOST_GANGS:
                await self.end(self._chance.choice(sorted(self.gangs)))
            await self._come()
        elif what < 0.75:
            name = self._chance.choice(self.gangs[self._chance.choice(sorted(self.gangs))])
            await self._world.edit(name, {"spec": {"replicas": self._chance.randint(2, 7)}})
        else:
            await self.end(self._chance.choice(sorted(self.gangs)))

    async def _come(self) -> None:
        self._number += 1
        group = f"g{self._number}"
        parts = [self._chance.randint(1, 4) for _ in range(self._chance.randint(1, 4))]
        least = max(sum(parts) - self._chance.randint(0, 2), 1)
        first = self._chance.random() < 0.5
        if first:
            await self._group(group, least)
        self.gangs[group] = []
        for number, units in enumerate(parts):
            name = f"{group}-{number}"
            how = {"distribution": self._chance.choice(("Single", "Divided", "Divided"))}
            labels = {LABEL_GROUP: group}
            await self._world.workload(name, replicas=units, cpu="1", labels=labels, **how)
            self.gangs[group].append(name)
        if not first:
            await self._group(group, least)

    async def _group(self, name: str, least: int) -> None:
        body = {
            "apiVersion": WORKLOAD_GROUPS.api_version,
            "kind": "WorkloadGroup",
            "metadata": {"name": name, "namespace": self._world.namespace},
            "spec": {"minMember": least, "scheduleTimeoutSeconds": self._chance.randint(1, 4)},
        }
        await self._world.client.create(WORKLOAD_GROUPS, body)

    async def end(self, group: str) -> None:
        """A whole gang goes, its group first or last."""
        first = self._chance.random() < 0.5
        where = {"namespace": self._world.namespace}
        if first:
            await self._world.client.delete(WORKLOAD_GROUPS, group, **where)
        for name in self.gangs.pop(group):
            await self._world.delete(name)
        if not first:
            await self._world.client.delete(WORKLOAD_GROUPS, group, **where)


async def stored(world: World) -> tuple[dict[str, list[Stored]], list[Stored]]:
    """The Workloads of each group, and the groups."""
    where = {"namespace": world.namespace}
    workloads = (await world.client.list(WORKLOADS, **where))["items"]
    members: dict[str, list[Stored]] = {}
    for each in (msgspec.convert(item, Stored) for item in workloads):
        members.setdefault(each.metadata.labels[LABEL_GROUP], []).append(each)
    groups = (await world.client.list(WORKLOAD_GROUPS, **where))["items"]
    return members, [msgspec.convert(item, Stored) for item in groups]


async def unfinished(world: World, both: Pair) -> str:
    """What is not as it must be once nothing changes any more; empty where all is."""
    members, groups = await stored(world)
    taken: Counter[str] = Counter()
    for parts in members.values():
        for each in parts:
            taken.update(each.placed)
    held = 0
    waiting: list[str] = []
    for group in groups:
        name, status = group.metadata.name, group.status
        told = await both.ask(f"/apis/v1/plugins/Coscheduling/gang/{world.namespace}/{name}")
        held += told["waiting"]
        if said := wrong(group, members.get(name, [])):
            return said
        if told["assigned"] - told["waiting"] != status.get("scheduled", 0):
            return f"{name} tells of {status.get('scheduled')} units, and over HTTP of {told}"
        if not group.released and not rests(group):
            waiting.append(name)
    counted = {cluster: await requested(both, cluster) for cluster in CLUSTERS}
    if said := uneven(counted, taken, held):
        return said
    free = {cluster: ROOM - units for cluster, units in counted.items()}
    for group in groups:
        if group.metadata.name not in waiting:
            continue
        parts = members.get(group.metadata.name, [])
        if fitting(parts, free) >= group.spec["minMember"]:
            return f"{group.metadata.name} waits, and there is room: {free}, {parts}, {group}"
    return ""


def fitting(parts: list[Stored], free: Mapping[str, int]) -> int:
    """The most units that have room: each Single Workload on one cluster, the others anywhere."""
    alone = [each.spec["replicas"] for each in parts if each.spec["distribution"] == "Single"]
    divided = sum(each.spec["replicas"] for each in parts) - sum(alone)
    most = 0
    for chosen in itertools.product(free, repeat=len(alone)):
        asked: Counter[str] = Counter()
        for cluster, units in zip(chosen, alone, strict=True):
            asked[cluster] += units
        single = sum(min(asked[cluster], room) for cluster, room in free.items())
        most = max(most, min(single + divided, sum(free.values())))
    return most


def rests(group: Stored) -> bool:
    """Whether it failed, as where a user took units away, and is tried again later: never to run,
    these fail more and more often in a row.
    """
    retry = group.status.get("retryTime")
    return bool(retry) and datetime.fromisoformat(retry) > datetime.now(UTC)


async def half_stored(world: World) -> int:
    """Groups without a gate that have some units stored, and fewer than they need."""
    members, groups = await stored(world)
    units = {
        name: sum(sum(each.placed.values()) for each in parts) for name, parts in members.items()
    }
    waiting = [group for group in groups if not group.status.get("gate")]
    return sum(0 < units.get(g.metadata.name, 0) < g.spec["minMember"] for g in waiting)


def wrong(group: Stored, members: list[Stored]) -> str:
    """What a group and its members tell that cannot stay so."""
    units = sum(sum(each.placed.values()) for each in members)
    name, gate = group.metadata.name, group.status.get("gate")
    if group.status.get("scheduled", 0) != units:
        return f"{name}: {units} are placed, {group.status}"
    if gate == "Open" and units < group.spec["minMember"]:
        return f"{name} is open with {units} units of {group.spec['minMember']}"
    if gate != "Open" and (units or gate):
        return f"{name} has {units} units, and its gate is {gate}"
    for each in members:
        if each.placed and not released_at(group.released, each):
            return f"{name}: {each.metadata.name} is placed as {each.placed}, and not released"
    return ""


async def requested(both: Pair, cluster: str) -> int:
    """The units that the leader counts on a cluster."""
    told = await both.ask(f"/apis/v1/clusters/{cluster}")
    return quantities.amount("cpu", told["requested"].get("cpu", "0")) // 1000


def uneven(counted: Mapping[str, int], taken: Mapping[str, int], held: int) -> str:
    """Where the leader counts other units than those that are placed or held."""
    for cluster, units in counted.items():
        if units < taken.get(cluster, 0):
            return f"{cluster} counts {units} units, and {taken.get(cluster, 0)} are placed"
    total = sum(counted.values())
    if total != sum(taken.values()) + held:
        return f"{total} units are counted, {sum(taken.values())} are placed, {held} held"
    return ""


def seen(kind: str, version: int, **fields: Any) -> Stored:
    """A state of the one Workload or the one group, as the hub shows it."""
    meta = {"name": kind, "namespace": "shop", "uid": f"uid-{kind}"}
    return msgspec.convert(
        {"metadata": {**meta, "resourceVersion": str(version)}, **fields}, Stored
    )


async def test_a_release_of_half_a_gang_is_found() -> None:
    def placed(units: int, version: int) -> Stored:
        status = {"placements": [{"cluster": "a", "replicas": units}]}
        return seen("workload", version, status=status)

    def opened(units: int, version: int) -> Stored:
        decisions = {"uid-workload": decision_of({"a": units})}
        status = {"gate": "Open", "decisions": decisions}
        return seen("group", version, spec={"minMember": 3}, status=status)

    whole, half, early, left = History(), History(), History(), History()
    for history, units, version in ((whole, 3, 1), (half, 2, 1), (early, 3, 3), (left, 3, 1)):
        history.workload_changed(None, placed(units, version))
        history.group_changed(None, opened(units, 2))
    left.workload_changed(None, placed(2, 3))
    assert not whole.half()
    assert half.half()
    assert early.half(), "it was released before it was stored"
    assert not left.half(), "what a user took away later was there then"


@pytest.mark.proves("G5", "G19", "G20", "G24")
@pytest.mark.xdist_group("gang-kills")  # it waits for minutes, and not behind others
@pytest.mark.long
async def test_no_half_gang_is_released_however_often_the_leader_dies(
    world: World, tmp_path: Path
) -> None:
    for cluster in CLUSTERS:
        await world.cluster(cluster, cpu=str(ROOM))
    users, chance, said, torn = Users(world), random.Random(7), "", 0
    async with pair(world, tmp_path) as both:
        async with watched(world) as history:
            kills = 0
            # On a busy machine a leader may have written all before its first write is heard of.
            while kills < LEAST_KILLS or (kills < MOST_KILLS and not torn):
                kills += 1
                leader, released = await both.leader(), len(history.opened)
                history.placed.clear()
                for number in range(3):
                    await users.edit(new=not number)

                async def decided(before: int = released) -> bool:
                    nonlocal said
                    if len(history.opened) > before:
                        return True
                    said = await unfinished(world, both)
                    return not said

                if chance.random() < 0.5:  # between two writes of one gang, as often as can be
                    with suppress(TimeoutError):
                        await asyncio.wait_for(history.placed.wait(), 5)
                else:
                    await until(decided, seconds=60, every=0.1, what=lambda: said)
                    await asyncio.sleep(chance.uniform(0, 0.05))
                await both.kill(leader)
                torn += await half_stored(world)

            async def at_rest() -> bool:
                nonlocal said
                said = await unfinished(world, both)
                return not said

            await until(at_rest, seconds=60, every=0.1, what=lambda: said)
            assert len(history.opened) >= LEAST_KILLS, "gangs were released"
            assert torn, "a leader died between two writes of a gang"
            assert not history.half()
        for group in sorted(users.gangs):
            await users.end(group)

        async def empty() -> bool:
            nonlocal said
            said = uneven({each: await requested(both, each) for each in CLUSTERS}, {}, 0)
            return not said

        await until(empty, seconds=20, every=0.1, what=lambda: said)
