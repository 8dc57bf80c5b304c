"""What people do wrong with registrations in a chaos run: each act is made, stands, and is mended.

A member is deregistered, its token rotated, its MemberCluster made again, the member registered
under a second name, its Secret swapped for another's. None of it may cost a claim, or the last copy
of what runs.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from e2e.chaos.churn import insist
from e2e.chaos.stage import ChaosStage, second_name

_SERVED_SECONDS = 20.0
"""So long a second name is waited for that is to serve its member."""


class Registrations:
    """`away` tells when each member that was ever deregistered was so last; `inf` while it is."""

    def __init__(self, stage: ChaosStage, chance: random.Random) -> None:
        self.away: dict[str, float] = {}
        self._stage = stage
        self._chance = chance

    @asynccontextmanager
    async def deregister(self, member: str) -> AsyncIterator[float]:
        """Secret and MemberCluster go, and are made again with another token."""
        async with self.gone(member):
            await self._out(member)
            yield self._chance.uniform(1, 15)
            await self.register(member)

    @asynccontextmanager
    async def rotate(self, member: str) -> AsyncIterator[float]:
        """Another token, and the one before ends."""
        await self.register(member)
        yield 0

    @asynccontextmanager
    async def remake(self, member: str) -> AsyncIterator[float]:
        """The MemberCluster is made again by hand, at once or later; or its Secret is."""
        how = self._chance.choice(("at once", "later", "by its Secret"))
        async with self.gone(member):
            if how == "by its Secret":
                await self._out(member)
            else:
                await insist(lambda: self._stage.delete_cluster(member))
            yield 0 if how == "at once" else self._chance.uniform(1, 10)
            if how == "by its Secret":
                await insist(lambda: self._stage.put_secret(member))
            else:
                await insist(lambda: self._stage.make_cluster(member))

    @asynccontextmanager
    async def double(self, member: str) -> AsyncIterator[float]:
        """The member is registered under a second name too, which is the younger or the older."""
        second = second_name(member)
        if self._chance.random() < 0.5:
            await insist(lambda: self._stage.put_secret(member, second))
            yield self._chance.uniform(2, 12)
            await self._out(second)
            return
        async with self.gone(member):
            await self._out(member)
            await insist(lambda: self._stage.put_secret(member, second))
            await self._stage.served(second, seconds=_SERVED_SECONDS)
            await insist(lambda: self._stage.put_secret(member))
            yield self._chance.uniform(2, 12)
            await self._out(second)

    @asynccontextmanager
    async def swap(self, members: str) -> AsyncIterator[float]:
        """The Secret of one leads to the other; that one's does so too, or its own is left."""
        one, other = members.split()
        how = self._chance.choice(("both", "one", "made again"))
        if how == "both":
            await insist(lambda: self._stage.put_secret(other, data_of=one))
        if how == "made again":  # without a note of what it led to before
            self.away[one] = math.inf
            await insist(lambda: self._stage.delete_cluster(one))
        await insist(lambda: self._stage.put_secret(one, data_of=other))
        if how == "made again":
            await insist(lambda: self._stage.make_cluster(one))
        yield self._chance.uniform(2, 12)
        for member in (one, other):
            await insist(lambda m=member: self._stage.put_secret(m))  # type: ignore[misc] # mypy infers no default
        if how == "made again":
            self.away[one] = asyncio.get_running_loop().time()

    @asynccontextmanager
    async def gone(self, *members: str) -> AsyncIterator[None]:
        """These are registered anew, and what is on them may move."""
        self.away |= dict.fromkeys(members, math.inf)
        try:
            yield
        finally:
            self.away |= dict.fromkeys(members, asyncio.get_running_loop().time())

    async def register(self, member: str) -> None:
        """Register it with a token of its own; a second name of it goes."""

        async def there() -> bool:
            await self._stage.register(member)
            return True

        await insist(there)

    async def anew(self, member: str) -> None:
        """Register it as it should be, whatever the hub knows of it."""
        await self._out(second_name(member))
        await self.register(member)

    async def _out(self, name: str) -> None:
        async def away() -> bool:
            await self._stage.deregister(name)
            return True

        await insist(away)
