"""Faults of a chaos run: leaders are killed, members are stopped, removed, or made again.

The leader is killed and its lease released, so that the next process leads at once, in the middle
of half-done work. Members are stopped beside that, one at a time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress

from crds.names import SYSTEM_NAMESPACE
from e2e.chaos.churn import insist
from e2e.chaos.stage import MEMBERS, ChaosStage
from machinery.api.resources import LEASES
from machinery.errors import NotFound

Say = Callable[[str], object]
_LEADING_SECONDS = 60.0


class LeaderFaults:
    """Kills each role so many times, and beside it stops, removes and makes members again."""

    def __init__(
        self,
        stage: ChaosStage,
        *,
        about: str,
        seed: int,
        say: Say,
        removing: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self.kills = {"controller": 0, "propagator": 0}
        self.stops = self.removals = self.remakes = 0
        self._stage = stage
        self._chance = random.Random(f"faults of {about} {seed}")
        self._say = say
        self.removing = removing
        """Asked before a member is removed, until it returns True."""
        self._away: dict[str, float] = {}
        """When each member was last away; `inf` while it is."""

    def away(self, since: float) -> frozenset[str]:
        """Return the members that are away, or were within so many seconds."""
        now = asyncio.get_running_loop().time()
        return frozenset(member for member, when in self._away.items() if now < when + since)

    async def run(self, *, kills: int, stops: int, removals: int, remakes: int = 0) -> None:
        """Make so many faults: kills of each role; stops, removals and remakes of members."""
        roles = [role for role in self.kills for _ in range(kills)]
        others = [self._stop] * stops + [self._remove] * removals + [self._remake] * remakes
        self._chance.shuffle(roles)
        self._chance.shuffle(others)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._kill_all(roles))
            tasks.create_task(self._disturb_all(others))

    async def _kill_all(self, roles: Sequence[str]) -> None:
        for role in roles:
            await asyncio.sleep(self._chance.uniform(0.2, 2))
            instance = await self._leader(role)
            await asyncio.to_thread(self._stage.kill, instance)
            self._stage.run(instance)
            await self._freed(role)
            self.kills[role] += 1
            self._say(f"killed {instance}, which led")

    async def _disturb_all(self, faults: Sequence[Callable[[str], object]]) -> None:
        for fault in faults:
            await asyncio.sleep(self._chance.uniform(0.5, 4))
            member = self._chance.choice(MEMBERS)
            self._away[member] = float("inf")
            try:
                await fault(member)  # type: ignore[misc] # each is a coroutine function
            finally:
                self._away[member] = asyncio.get_running_loop().time()

    async def _stop(self, member: str) -> None:
        seconds = self._chance.uniform(1, 20)
        self._say(f"stop {member} for {seconds:.1f} s")
        self._stage.cluster(member).freeze()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._stage.cluster(member).thaw()
        self.stops += 1

    async def _remove(self, member: str) -> None:
        seconds = self._chance.uniform(2, 12)
        self._say(f"remove {member} for {seconds:.1f} s")
        while not self.removing(member):  # noqa: ASYNC110 - of the users in this process
            await asyncio.sleep(0.1)

        async def back() -> bool:
            await self._stage.register(member)
            return True

        try:
            await insist(lambda: self._stage.give_up(member))
            await asyncio.sleep(seconds)
        finally:
            await insist(back)
        self.removals += 1

    async def _remake(self, member: str) -> None:
        """Delete the MemberCluster, which gives nothing up, and make it again by hand."""
        seconds = self._chance.uniform(0, 8)
        self._say(f"delete the MemberCluster {member}, and make it again after {seconds:.1f} s")
        try:
            await insist(lambda: self._stage.delete_cluster(member))
            await asyncio.sleep(seconds)
        finally:
            await insist(lambda: self._stage.make_cluster(member))
        self.remakes += 1

    async def _leader(self, role: str) -> str:
        async with asyncio.timeout(_LEADING_SECONDS):
            while True:
                holder = await self._holder(role)
                for name in self._stage.instances:
                    pid = self._stage.processes[name].pid()
                    if name.startswith(role) and pid and str(pid) in holder.split("_"):
                        return name
                await asyncio.sleep(0.05)

    async def _holder(self, role: str) -> str:
        with suppress(NotFound):
            found = await self._stage.hub.get(LEASES, f"stowage-{role}", namespace=SYSTEM_NAMESPACE)
            return str(found["spec"].get("holderIdentity") or "")
        return ""

    async def _freed(self, role: str) -> None:
        nobody = {"spec": {"holderIdentity": ""}}
        await self._stage.hub.merge_patch(
            LEASES, f"stowage-{role}", nobody, namespace=SYSTEM_NAMESPACE
        )
