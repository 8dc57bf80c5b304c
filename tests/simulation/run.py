"""One simulation from its seed to its verdict."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable

from .faults import KINDS, Faults
from .judge import Broken, Judge
from .users import Users
from .world import SimWorld

MEMBERS = ("member-1", "member-2", "member-3")
_WHOLE_SECONDS = 900.0
_EMPTY_SECONDS = 300.0
_QUIET_SECONDS = 60.0
_STEP = 0.25


class Simulation:
    """`told` is what happened, in order. All seconds are of the simulation's own clock."""

    def __init__(
        self, seed: int, *, seconds: float = 240, most: int = 8, faults: Iterable[str] = KINDS
    ) -> None:
        self.told: list[str] = []
        self._world = SimWorld(seed, *MEMBERS)
        self._users = Users(self._world, seed=seed, most=most)
        self._faults = Faults(self._world, seed=seed, kinds=faults, say=self._say)
        self._judge = Judge(self._world, self._users)
        self._chance = random.Random(f"pace {seed}")
        self._seconds = seconds
        self._ticking: asyncio.Task[None] | None = None

    @property
    def now(self) -> float:
        return self._world.clock.monotonic()

    async def run(self) -> None:
        """Raise Broken if a promise is."""
        async with self._world.living() as self._ticking:
            await self._until(self._registered, 60)
            await self._live()
            self._say("the faults end")
            await self._until(self._mended, 600)
            self._users.insist()
            await self._until(self._judge.whole, _WHOLE_SECONDS)
            self._say("all is as wanted")
            await self._pass(_QUIET_SECONDS)
            before = self._judge.written()
            await self._pass(_QUIET_SECONDS)
            self._judge.unchanged(before, "though nothing changes")
            for name in sorted(self._world.running):
                await self._world.kill(name, gently=True)
            for name in self._world.processes:
                self._world.run(name)
            await self._pass(_QUIET_SECONDS)
            self._judge.unchanged(before, "by a restart")
            for key in list(self._users.wanted):
                self._users.delete(key)
            await self._until(self._judge.empty, _EMPTY_SECONDS)
            self._say("all is gone")
        if self._judge.breaches:
            raise Broken("; ".join(self._judge.breaches))

    async def _live(self) -> None:
        end = self.now + self._seconds
        edit, fault = self.now, self.now + 10
        while self.now < end:
            await self._pass(0.5)
            if self.now >= edit:
                self._say(self._users.edit())
                edit = self.now + self._chance.choice((0.5, 2, self._chance.uniform(1, 20)))
            if self.now >= fault:
                await self._faults.make()
                fault = self.now + self._chance.uniform(0.5, 15)

    def _registered(self) -> None:
        if not self._world.zoned():
            raise Broken("not all members are registered")

    def _mended(self) -> None:
        if self._faults.standing:
            raise Broken(f"faults stand on {self._faults.standing}")

    async def _until(self, check: Callable[[], None], seconds: float) -> None:
        end = self.now + seconds
        while True:
            try:
                return check()
            except Broken as broken:
                if self.now > end:
                    raise Broken(f"after {seconds:.0f} s: {broken}") from None
            await self._pass(1)

    async def _pass(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            await self._world.clock.advance(_STEP)
            for task in (self._ticking, *self._world.running.values()):
                if task is not None and task.done():
                    task.result()
            known = len(self._judge.breaches)
            self._judge.look()
            for said in self._judge.breaches[known:]:
                self._say(f"BROKEN: {said}")

    def _say(self, text: str) -> None:
        if text:
            self.told.append(f"{self.now:7.1f} {text}")
