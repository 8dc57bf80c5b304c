"""The watchman of gangs: each gang has nothing on the members, or at least its quorum.

Objects cannot appear on three API servers in one instant, nor go: a gang may be half there while it
is pushed or removed, and no longer than `HALF_SECONDS`. A member that is stopped, or was a moment
ago, cannot be emptied; a gang with units on such members alone is no finding. And no object may
come to a member before the group on the hub has released its Workload.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from e2e.chaos.engine import copies_on
from e2e.chaos.gangs.users import NAMESPACE, Users, gang_of
from e2e.chaos.judgement import Whole, owners
from e2e.chaos.judging import Judging
from e2e.chaos.stage import ChaosStage
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS
from machinery.runtime.informer import Informer

HALF_SECONDS = 90.0
"""A push or a removal may take half as long: a frozen member is known as away after 17 seconds at
the latest, one that goes on is connected to within ten, and either may need another controller and
another propagator, which take up to ten seconds to lead. On a busy machine 45 seconds were seen."""
RETURN_SECONDS = 20.0
"""The time that a member needs to be emptied after it goes on or is registered again."""
_RELEASED_SECONDS = 5.0
"""The lag of the hub's watch behind a member's: each is a stream of its own."""
_LOOK_SECONDS = 0.1


@dataclass(slots=True)
class Gauge:
    """How long each gang has been half there, without a pause. Pure: the time is given."""

    longest: float = 0.0
    """The longest such time in seconds."""
    halves: int = 0
    """The number of times that a gang was half there."""
    _since: dict[str, float] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def look(self, gang: str, units: Mapping[str, int], least: int, now: float) -> str:
        """Return a finding, once for a gang; `units` by member, `least` its quorum."""
        if not 0 < sum(units.values()) < least:
            self._since.pop(gang, None)
            return ""
        if gang not in self._since:
            self.halves += 1
        lasted = now - self._since.setdefault(gang, now)
        self.longest = max(self.longest, lasted)
        if lasted <= HALF_SECONDS or gang in self._told:
            return ""
        self._told.add(gang)
        return f"{gang}: {dict(units)} of {least} units on members for {lasted:.1f} s"


class GangWatchman(Judging):
    """`away` gives the stopped or removed members."""

    def __init__(
        self, stage: ChaosStage, users: Users, away: Callable[[float], frozenset[str]]
    ) -> None:
        super().__init__()
        self.gauge = Gauge()
        self.looks = 0
        self.arrivals = 0
        self.ran: set[str] = set()
        """Gangs whose quorum ever ran: a failure withdraws none of their other units."""
        self._users = users
        self._away = away
        self._least: dict[str, int] = {}
        self._released: set[str] = set()
        self._groups = Informer(stage.hub, WORKLOAD_GROUPS, Whole)
        self._workloads = Informer(stage.hub, WORKLOADS, Whole)
        self._copies = copies_on(stage)

    async def run(self) -> None:
        self._groups.add_handler(self._group_changed)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._groups.run())
            tasks.create_task(self._workloads.run())
            for member, informer in self._copies.items():
                informer.add_handler(self._handler(member))
                tasks.create_task(informer.run())
            tasks.create_task(self._look())

    def units(self, gang: str) -> Counter[str]:
        """Return the units of a gang by member."""
        found: Counter[str] = Counter()
        for member, informer in self._copies.items():
            for copy in informer.values():
                here = copy.metadata.namespace == NAMESPACE and not copy.metadata.deleting
                if here and gang_of(copy.metadata.name) == gang:
                    found[member] += copy.spec["replicas"]
        return +found

    def removing(self, member: str) -> bool:
        """Return whether that member may be removed: not while a gang's group alone is deleted."""
        if self._users.absent:
            return False
        names = (copy.metadata.name for copy in self._copies[member].values())
        self._users.diminished |= {gang_of(name) for name in names}
        return True

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.looks += 1
            now = asyncio.get_running_loop().time()
            away = self._away(RETURN_SECONDS)
            for gang, least in list(self._least.items()):
                if said := self.gauge.look(gang, self._held_against(gang, away), least, now):
                    self.findings.append(said)

    def _held_against(self, gang: str, away: frozenset[str]) -> dict[str, int]:
        """Return its units by member; none where the gate is not the reason that they are few."""
        if gang not in self._users.wanted or gang in self._users.busy:
            return {}  # a user is ending or editing it
        if gang in self.ran and gang in self._users.diminished:
            return {}
        there = self.units(gang)
        return dict(there) if there.keys() - away else {}

    def _group_changed(self, _old: Whole | None, new: Whole | None) -> None:
        if new is None:
            return
        name, status = new.metadata.name, new.status
        self._least[name] = new.spec["minMember"]
        if status.get("quorumTime"):
            self.ran.add(name)
        if status.get("gate") == "Open":
            self._released |= set(status.get("decisions", ()))

    def _handler(self, member: str) -> Callable[[Whole | None, Whole | None], None]:
        def changed(old: Whole | None, new: Whole | None) -> None:
            if old is not None or new is None:
                return
            for uid in owners(new.metadata.annotations):
                self.arrivals += 1
                released = partial(self._released.__contains__, uid)
                told = f"{new.metadata.name} ({uid}) came to {member}"
                otherwise = f"{told}, and its group never released it"
                self._expect(released, otherwise, within=_RELEASED_SECONDS)

        return changed


def findings_of(group: Mapping[str, Any], units: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return where a group's status at rest differs from `units`, by Workload and member."""
    name, status = group["metadata"]["name"], group.get("status", {})
    total = sum(sum(each.values()) for each in units.values())
    said = []
    if status.get("scheduled", 0) != total:
        said.append(f"{name} tells of {status.get('scheduled')} units, the members have {units}")
    if total and total < group["spec"]["minMember"] and not status.get("quorumTime"):
        said.append(f"{name} has {total} units of {group['spec']['minMember']} on members")
    if total >= group["spec"]["minMember"] and status.get("phase") != "Running":
        said.append(f"{name} runs {total} units, and is {status.get('phase')}")
    if not total and (status.get("gate") == "Open" or status.get("waiting")):
        said.append(f"{name} has no unit on members: {status}")
    return said
