"""Gangs that come and go while leaders are killed, and members are stopped and removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crds.names import LABEL_MANAGED
from e2e.chaos import promises
from e2e.chaos.engine import Say, Wishes
from e2e.chaos.gangs.users import NAMESPACE, ROOM, Gang, Users, gang_of, image, placed_on
from e2e.chaos.gangs.watch import GangWatchman, findings_of
from e2e.chaos.judgement import image_of
from e2e.chaos.leaders import LeaderFaults
from e2e.chaos.promises import Broken
from e2e.chaos.stage import MEMBERS, ChaosStage, not_ready

Objects = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Size:
    """The size of a run: gangs at the same time, kills of each role, stops and removals."""

    gangs: int = 40
    kills: int = 30
    stops: int = 12
    removals: int = 3


class Gangs(Wishes):
    """Each gang that fits runs in the end, and the others have nothing on the members."""

    watchman: GangWatchman

    def __init__(self, stage: ChaosStage, say: Say, *, seed: int, size: Size) -> None:
        super().__init__(stage)
        self._size = size
        self._users = Users(stage, seed=seed, most=size.gangs)
        self.wanted = self._users.wanted
        self._faults = LeaderFaults(stage, about="gangs", seed=seed, say=say)
        self.watchman = GangWatchman(stage, self._users, self._faults.away)
        self._faults.removing = self.watchman.removing
        self._running = 0

    async def prepare(self) -> None:
        await self._users.prepare()

    async def disturbed(self) -> None:
        size = self._size
        faults = self._faults.run(kills=size.kills, stops=size.stops, removals=size.removals)
        await self._users.beside(faults)
        await self._users.finished()

    async def whole(self) -> None:
        self._running = await _whole(self.stage, self._users.wanted)

    async def end(self) -> None:
        await self._users.end()

    async def empty(self) -> None:
        if groups := (await _on_hub(self.stage))[0]:
            raise Broken(f"on the hub there are {sorted(groups)}")
        await promises.empty(self.stage)

    def made(self) -> dict[str, Any]:
        faults, look = self._faults, self.watchman
        return {
            "edits": self._users.edits,
            "kills": faults.kills,
            "stops": faults.stops,
            "removals": faults.removals,
            "gangs": self._size.gangs,
            "running": self._running,
            "looks at all members": look.looks,
            "arrivals": look.arrivals,
            "halves": look.gauge.halves,
            "seconds of the longest half": look.gauge.longest,
        }


async def _whole(stage: ChaosStage, wanted: Mapping[str, Gang]) -> int:
    """Return the number of gangs that run. Raises Broken with what is not as wanted."""
    if away := await not_ready(stage.hub):
        raise Broken(f"not all members are Ready: {'; '.join(away)}")
    for member in MEMBERS:
        if held := await stage.held(member):
            await stage.sweep(member, held)  # as a person would who reads that many were deleted
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
