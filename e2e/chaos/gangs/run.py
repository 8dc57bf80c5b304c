"""One chaos run with gangs, from empty clusters to empty clusters."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crds.names import LABEL_MANAGED
from e2e.chaos.frame import watched
from e2e.chaos.gangs.users import NAMESPACE, ROOM, Gang, Users, gang_of, image, placed_on
from e2e.chaos.gangs.watch import HALF_SECONDS, GangWatchman, findings_of
from e2e.chaos.judgement import image_of
from e2e.chaos.leaders import LeaderFaults
from e2e.chaos.promises import Broken, until_held
from e2e.chaos.stage import MEMBERS, ChaosStage, at_work, not_ready

SETTLE_SECONDS = 240.0
"""Long, which costs nothing: a gang that failed waits ten seconds, then twenty, then forty."""
Objects = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Size:
    """The size of a run: gangs at the same time, kills of each role, stops and removals."""

    gangs: int = 40
    kills: int = 30
    stops: int = 12
    removals: int = 3


@dataclass(frozen=True)
class Made:
    """The acts and checks of a run, for its last line."""

    edits: int
    kills: Mapping[str, int]
    stops: int
    removals: int
    gangs: int
    running: int
    looks: int
    arrivals: int
    halves: int
    longest: float

    def __str__(self) -> str:
        return (
            f"{self.edits} edits, kills {dict(self.kills)}, {self.stops} stops and "
            f"{self.removals} removals of members; {self.running} of {self.gangs} gangs run in "
            f"the end; {self.looks} looks at all members, {self.arrivals} arrivals there, half "
            f"there {self.halves} times, for {self.longest:.1f} s at the most ({HALF_SECONDS:g} s "
            "are let pass, for what is pushed or removed)"
        )


async def run(
    clusters: Path, logs: Path, *, seed: int, size: Size, say: Callable[[str], object]
) -> Made:
    """Break, settle, clear, on the clusters of that folder. Raises Found."""
    started = time.monotonic()

    def tell(text: str) -> None:
        say(f"{time.monotonic() - started:6.1f} {text}")

    async with at_work(clusters, logs) as stage:
        tell("two of each process are at work")
        users = Users(stage, seed=seed, most=size.gangs)
        faults = LeaderFaults(stage, about="gangs", seed=seed, say=tell)
        watchman = GangWatchman(stage, users, faults.away)
        faults.removing = watchman.removing
        phases = _broken(stage, users, faults, watchman, size, tell)
        running = await watched(stage, watchman, phases)
        return Made(
            edits=users.edits,
            kills=faults.kills,
            stops=faults.stops,
            removals=faults.removals,
            gangs=size.gangs,
            running=running,
            looks=watchman.looks,
            arrivals=watchman.arrivals,
            halves=watchman.gauge.halves,
            longest=watchman.gauge.longest,
        )


async def _broken(
    stage: ChaosStage,
    users: Users,
    faults: LeaderFaults,
    watchman: GangWatchman,
    size: Size,
    tell: Callable[[str], object],
) -> int:
    """Run all phases; return the number of gangs that run in the end."""
    await users.prepare()
    editing = asyncio.create_task(users.run())
    try:
        await faults.run(kills=size.kills, stops=size.stops, removals=size.removals)
    finally:
        editing.cancel()
        await asyncio.gather(editing, return_exceptions=True)
    await users.finished()
    tell(f"all is whole again; {len(users.wanted)} gangs are wanted")
    running = 0

    async def whole() -> None:
        nonlocal running
        running = await _whole(stage, users.wanted)

    await until_held(whole, SETTLE_SECONDS)
    tell(f"all is as wanted, {running} gangs run")
    await users.end()
    await until_held(lambda: _empty(stage), SETTLE_SECONDS)
    tell("all is gone")
    await watchman.judged()
    return running


async def _whole(stage: ChaosStage, wanted: Mapping[str, Gang]) -> int:
    """Return the number of gangs that run. Raises Broken with what is not as wanted."""
    if away := await not_ready(stage.hub):
        raise Broken(f"not all members are Ready: {'; '.join(away)}")
    groups, workloads = await _on_hub(stage)
    if groups.keys() != wanted.keys():
        raise Broken(f"groups {sorted(groups)}, wanted {sorted(wanted)}")
    units = await _on_members(stage, wanted)
    for name, workload in workloads.items():
        if placed_on(workload) != units.get(name, {}) and _starts(groups[gang_of(name)]):
            raise Broken(f"{name} is placed as {placed_on(workload)}, there is {units.get(name)}")
    if strangers := units.keys() - workloads.keys():
        raise Broken(f"nobody wants {sorted(strangers)}")
    return judged(wanted, groups, units)


def judged(
    wanted: Mapping[str, Gang], groups: Objects, units: Mapping[str, Mapping[str, int]]
) -> int:
    """Return the number of gangs that run.

    Raises Broken for a group with a wrong status, and for a gang that waits and would fit.
    """
    free, running = ROOM, []
    for name, gang in wanted.items():
        mine = {each: units.get(each, {}) for each in gang.names(name)}
        if said := findings_of(groups[name], mine):
            raise Broken("; ".join(said))
        there = sum(sum(each.values()) for each in mine.values())
        running += [name] if there >= gang.least else []
        free -= 0 if gang.placed else there
    for name in wanted.keys() - set(running):
        if wanted[name].placed or wanted[name].least <= free:
            raise Broken(f"{name} waits, {wanted[name]}, and {free} units fit: {groups[name]}")
    return len(running)


def _starts(group: Mapping[str, Any]) -> bool:
    return bool(group.get("status", {}).get("gate") == "Open")


async def _on_hub(stage: ChaosStage) -> tuple[Objects, Objects]:
    found: dict[str, Objects] = {"WorkloadGroup": {}, "Workload": {}}
    for each in await stage.lists("hub", "wl", "wg", namespace=NAMESPACE):
        found[each["kind"]][each["metadata"]["name"]] = each
    return found["WorkloadGroup"], found["Workload"]


async def _on_members(stage: ChaosStage, wanted: Mapping[str, Gang]) -> dict[str, dict[str, int]]:
    """Return the units of each Workload by member. Raises Broken for a wrong image or gang."""
    units: dict[str, dict[str, int]] = {}
    for member in MEMBERS:
        managed = f"{LABEL_MANAGED}=true"
        for each in await stage.lists(member, "deploy", namespace=NAMESPACE, labels=managed):
            name = each["metadata"]["name"]
            gang = wanted.get(gang_of(name))
            if gang is None:
                raise Broken(f"{member}: nobody wants {name}")
            if image_of(each) != image(gang):
                raise Broken(f"{member}: {name} runs {image_of(each)}, not {image(gang)}")
            units.setdefault(name, {})[member] = each["spec"]["replicas"]
    return units


async def _empty(stage: ChaosStage) -> None:
    groups, workloads = await _on_hub(stage)
    if groups or workloads:
        raise Broken(f"on the hub there are {sorted(groups)} and {sorted(workloads)}")
    left: Counter[str] = Counter()
    for member in MEMBERS:
        left[member] = len(await stage.lists(member, "deploy", labels=f"{LABEL_MANAGED}=true"))
    if left.total():
        raise Broken(f"left behind: {dict(left)}")
