"""Mistakes with registrations in a chaos run: each act is made, stands, and is mended.

A member is deregistered, its token rotated, its MemberCluster made again, the member registered
under a second name, its Secret swapped for another's. No such act may cost a claim, or the last
copy of a running Workload.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from e2e.chaos.churn import insist
from e2e.chaos.judgement import member_of
from e2e.chaos.stage import ChaosStage, second_name

_SERVED_SECONDS = 20.0
"""The wait for a second name to serve its member."""


class Registrations:
    """`away` is when each member was last deregistered; `inf` while it is.

    `given_up` is when each was last given up, as by `stowage unjoin`: only then may what runs once
    be made elsewhere though it runs on.
    """

    def __init__(self, stage: ChaosStage, chance: random.Random) -> None:
        self.away: dict[str, float] = {}
        self.given_up: dict[str, float] = {}
        self._stage = stage
        self._chance = chance

    @asynccontextmanager
    async def deregister(self, member: str) -> AsyncIterator[float]:
        """Delete Secret and MemberCluster, and make them again with another token."""
        async with self.gone(member):
            await self._out(member)
            yield self._chance.uniform(1, 15)
            await self.register(member)

    @asynccontextmanager
    async def rotate(self, member: str) -> AsyncIterator[float]:
        """Register with another token; the old one ends."""
        await self.register(member)
        yield 0

    @asynccontextmanager
    async def remake(self, member: str) -> AsyncIterator[float]:
        """Make the MemberCluster again by hand, at once or later; or its Secret."""
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
        """Register the member under a second name too, which is the younger or the older one."""
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
        """Give a member's Secret the data of the other, which keeps its own or gets the first's.

        Not while the hub has not noted which cluster each is: it would note the wrong one.
        """
        one, other = members.split()
        noted: list[bool] = []

        async def ask() -> bool:
            noted[:] = [await self._stage.noted(each) for each in (one, other)]
            return True

        await insist(ask)
        if not all(noted):
            yield 0
            return
        how = self._chance.choice(("both", "one", "made again"))
        if how == "both":
            await insist(lambda: self._stage.put_secret(other, data_of=one))
        if how == "made again":  # without the noted identity of its cluster
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
        """Mark these as deregistered: their Workloads may move."""
        self.away |= dict.fromkeys(members, math.inf)
        try:
            yield
        finally:
            self.away |= dict.fromkeys(members, asyncio.get_running_loop().time())

    async def register(self, member: str) -> None:
        """Register the member with a new token."""

        async def there() -> bool:
            await self._stage.register(member)
            return True

        await insist(there)

    async def anew(self, member: str) -> None:
        """Register the member under its first name alone, whatever the hub holds of it."""
        await self._out(second_name(member))
        await self.register(member)

    async def _out(self, name: str) -> None:
        async def away() -> bool:
            self.given_up[member_of(name)] = asyncio.get_running_loop().time()
            return await self._stage.give_up(name)

        await insist(away, of=f"to give {name} up")
