"""The faults of a chaos run: each is made, stands for a while, and is mended again.

Two faults never meet on the same subject, so that each is surely undone; any number of different
ones may stand at the same time. Beside them the hub is set back in time once.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

from crds.names import LABEL_MANAGED, TAINT_DRAIN
from e2e.chaos.churn import Churn, insist
from e2e.chaos.judgement import owners
from e2e.chaos.registrations import Registrations
from e2e.chaos.stage import MEMBERS, ChaosStage
from machinery.api.resources import DEPLOYMENTS
from machinery.errors import StowageError, TransportError

Say = Callable[[str], None]
_Fault = Callable[[str], AbstractAsyncContextManager[float]]
_HANDS = 3
"""The number of faults at the same time."""
_HUB, _SHARDS = "hub", "shards"


class Faults:
    """Makes faults until cancelled; then mends all of them.

    The hub is set back by `back` seconds, or by what is left of the run; by 0 not at all.
    """

    def __init__(
        self, stage: ChaosStage, churn: Churn, *, seed: int, say: Say, back: float = 0.0
    ) -> None:
        self._stage = stage
        self._churn = churn
        self._chance = random.Random(f"faults {seed}")
        self._tell = say
        self._back = back
        self._registrations = Registrations(stage, self._chance)
        pushed = stage.pushed
        self._pairs = tuple(f"{one} {two}" for one in pushed for two in pushed if one != two)
        self._first = [
            (self._chance.choice(pushed), "remake", self._registrations.remake),
            (self._chance.choice(pushed), "register twice", self._registrations.double),
            (self._chance.choice(self._pairs), "swap the Secrets of", self._registrations.swap),
        ]
        if stage.shards > 1:
            self._first.append((_SHARDS, "set the number of", self._share_out))
        self._agents = tuple(each for each in stage.instances if each.startswith("agent"))
        self._pulled = " ".join((stage.pulled, *self._agents)) if stage.pulled else ""
        self._switches = 0
        self._invitation: str | None = None
        if self._pulled:
            self._first.append((self._pulled, "switch the mode of", self._switch))
        self._chance.shuffle(self._first)
        self._taken: set[str] = set()
        self._freed: dict[str, float] = {}
        self._over = asyncio.Event()
        self.made = 0
        self.backs = 0
        """The number of times that the hub was set back."""
        self.acts: deque[str] = deque(maxlen=8)
        """The last acts, for messages."""
        self.meddled: set[str] = set()
        """UIDs of the objects on members that this run deleted itself."""
        self.spoilt: set[str] = set()
        """UIDs of the Workloads of which this run deleted or scaled an object."""
        self.away = self._registrations.away
        self.given_up = self._registrations.given_up
        self.forgot = -math.inf
        """Until when the hub may know nothing of before; `inf` while it is being set back."""

    async def run(self) -> None:
        """Make faults until cancelled; the cancel waits until the standing faults are mended."""
        hands = [asyncio.create_task(self._hand()) for _ in range(_HANDS)]
        if self._back:
            hands.append(asyncio.create_task(self._set_back()))
        try:
            await asyncio.gather(*(asyncio.shield(hand) for hand in hands))
        finally:
            self._over.set()
            await asyncio.gather(*hands)

    def quiet(self, *subjects: str) -> float:
        """Return for how many seconds no fault has stood on any of these."""
        if not self._taken.isdisjoint(subjects):
            return 0.0
        freed = max(self._freed.get(each, -math.inf) for each in subjects)
        return asyncio.get_running_loop().time() - freed

    async def _hand(self) -> None:
        while not self._over.is_set():
            await self._pass(self._chance.uniform(0.2, 2.5))
            subject, name, fault = self._choose()
            subjects = set(subject.split())
            if subjects & self._taken or self._over.is_set():
                continue
            self._taken |= subjects
            try:
                await self._stand(f"{name} {subject}", fault(subject))
            finally:
                self._free(subjects)

    def _free(self, subjects: set[str]) -> None:
        self._taken -= subjects
        self._freed |= dict.fromkeys(subjects, asyncio.get_running_loop().time())

    def _say(self, text: str) -> None:
        self.acts.append(text)
        self._tell(text)

    async def _stand(self, title: str, fault: AbstractAsyncContextManager[float]) -> None:
        self.made += 1
        async with fault as seconds:
            self._say(f"{title} for {seconds:.1f} s")
            await self._pass(seconds)
        self._say(f"{title}: mended")

    async def _pass(self, seconds: float) -> None:
        """Wait so long, or until the end of the run."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    def _choose(self) -> tuple[str, str, _Fault]:
        if self._first:
            return self._first.pop()
        registrations, instances = self._registrations, self._stage.instances
        pushed = self._stage.pushed
        faults: list[tuple[int, tuple[str, ...], str, _Fault]] = [
            (12, instances, "kill", self._kill),
            (4, instances, "pause", self._pause),
            (4, instances, "skew the clock of", self._skew),
            (6, instances, "cut the road of", self._cut),
            (4, instances, "stall the road of", self._stall),
            (6, MEMBERS, "cut the road to", self._cut),
            (5, MEMBERS, "stall the road to", self._stall),
            (5, MEMBERS, "freeze", self._freeze),
            (5, MEMBERS, "restart", self._restart),
            (2, (_HUB,), "freeze", self._freeze),
            (3, (_HUB,), "restart", self._restart),
            (3, ("etcd",), "compact", self._compact),
            (4, pushed, "deregister", registrations.deregister),
            (4, pushed, "rotate the token of", registrations.rotate),
            (4, pushed, "remake", registrations.remake),
            (4, pushed, "register twice", registrations.double),
            (4, self._pairs, "swap the Secrets of", registrations.swap),
            (5, MEMBERS, "meddle on", self._meddle),
            (6, MEMBERS, "drain", self._drain),
        ]
        if self._stage.shards > 1:
            faults.append((6, (_SHARDS,), "set the number of", self._share_out))
        if self._pulled:
            faults.append((4, (self._pulled,), "switch the mode of", self._switch))
        weights = [weight for weight, *_ in faults]
        _, subjects, name, fault = self._chance.choices(faults, weights)[0]
        return self._chance.choice(subjects), name, fault

    @asynccontextmanager
    async def _kill(self, instance: str) -> AsyncIterator[float]:
        await asyncio.to_thread(self._stage.kill, instance)
        try:
            yield self._chance.uniform(0, 4)
        finally:
            self._stage.run(instance)

    @asynccontextmanager
    async def _pause(self, instance: str) -> AsyncIterator[float]:
        self._stage.processes[instance].freeze()
        try:
            yield self._chance.uniform(2, 20)
        finally:
            self._stage.processes[instance].thaw()

    @asynccontextmanager
    async def _skew(self, instance: str) -> AsyncIterator[float]:
        self._stage.skew(instance, self._chance.choice((-1, 1)) * self._chance.uniform(5, 7200))
        try:
            yield self._chance.uniform(5, 30)
        finally:
            self._stage.skew(instance, 0)

    @asynccontextmanager
    async def _cut(self, road: str) -> AsyncIterator[float]:
        for _ in range(self._chance.randint(1, 6)):
            self._stage.roads[road].cut()
            await asyncio.sleep(self._chance.uniform(0, 1))
        yield 0

    @asynccontextmanager
    async def _stall(self, road: str) -> AsyncIterator[float]:
        self._stage.roads[road].stall()
        try:
            yield self._chance.uniform(1, 20)
        finally:
            self._stage.roads[road].flow()

    @asynccontextmanager
    async def _freeze(self, cluster: str) -> AsyncIterator[float]:
        self._stage.cluster(cluster).freeze()
        try:
            yield self._chance.uniform(1, 12 if cluster == "hub" else 25)
        finally:
            self._stage.cluster(cluster).thaw()

    @asynccontextmanager
    async def _restart(self, cluster: str) -> AsyncIterator[float]:
        await asyncio.to_thread(self._stage.cluster(cluster).kill)
        try:
            yield self._chance.uniform(0, 5)
        finally:
            await insist(lambda: self._restarted(cluster))

    async def _restarted(self, cluster: str) -> bool:
        """Start the cluster; another process may hold its port for a while (ProcessFailed)."""
        await asyncio.to_thread(self._stage.cluster(cluster).restart)
        return True

    @asynccontextmanager
    async def _compact(self, _etcd: str) -> AsyncIterator[float]:
        """Drop all history; an API server that starts afterwards has none either."""

        async def compacted() -> bool:
            await asyncio.to_thread(self._stage.hub_etcd.compact)
            return True

        await insist(compacted)
        yield 0

    @asynccontextmanager
    async def _share_out(self, _shards: str) -> AsyncIterator[float]:
        """Set another number of shards, which stays."""
        number = self._chance.randint(1, self._stage.shards)
        await insist(lambda: self._stage.share_out(number))
        self._say(f"{number} shards")
        yield self._chance.uniform(5, 20)

    @asynccontextmanager
    async def _switch(self, _pulled: str) -> AsyncIterator[float]:
        """Serve a member in mode Push, without its agents, and by them again."""
        await self._join(pull=False)
        try:
            yield self._chance.uniform(5, 30)
        finally:
            await self._join(pull=True)
            self._switches += 1

    async def _join(self, *, pull: bool) -> None:
        async def joined() -> bool:
            return await asyncio.to_thread(self._stage.join, pull=pull)

        self._stage.log_of_writes.shared_out()
        await insist(self._roll)
        joining = asyncio.create_task(insist(joined, of=f"{self._stage.pulled} in another mode"))
        while not joining.done():
            await asyncio.wait([joining], timeout=0.5)
            with suppress(TransportError):
                await self._roll()
        await joining

    async def _roll(self) -> bool:
        """Have agents run as their Deployment says: anew with an invitation, without it not."""
        before, self._invitation = self._invitation, await self._stage.invitation()
        if before is not None and before != self._invitation:
            for each in self._agents:
                await asyncio.to_thread(self._stage.kill, each)
                if self._invitation:
                    self._stage.run(each)
        return True

    @asynccontextmanager
    async def _meddle(self, member: str) -> AsyncIterator[float]:
        """Scale or delete one of our objects, as a person with rights on the member might."""
        with suppress(StowageError):
            await self._meddled(member)
        yield 0

    async def _meddled(self, member: str) -> None:
        client = self._stage.members[member]
        found = await client.list(DEPLOYMENTS, label_selector=f"{LABEL_MANAGED}=true")
        if not found["items"]:
            return
        meta = self._chance.choice(found["items"])["metadata"]
        where: dict[str, Any] = {"namespace": meta["namespace"]}
        self.spoilt |= owners(meta.get("annotations", {})).keys()
        if self._chance.random() < 0.5:
            self.meddled.add(meta["uid"])
            await client.delete(DEPLOYMENTS, meta["name"], **where)
        else:
            scale = {"spec": {"replicas": self._chance.randint(0, 9)}}
            await client.merge_patch(DEPLOYMENTS, meta["name"], scale, **where)

    @asynccontextmanager
    async def _drain(self, member: str) -> AsyncIterator[float]:
        """Drain a member, and take that back: in the middle, or once all of it has left."""
        await insist(lambda: self._stage.taint(member, TAINT_DRAIN))
        try:
            yield self._chance.uniform(0.5, 20)
        finally:
            await insist(lambda: self._stage.taint(member))

    async def _set_back(self) -> None:
        """Set the hub back once; then have the users ask for everything again.

        A person's part is done as well: tokens are rotated, members whose mode was switched since
        join again, and second names are taken out.
        """
        await self._pass(self._chance.uniform(1, 0.2 * self._back))
        pulled = set(self._pulled.split())
        await self._hold(pulled)  # no copy is of the middle of a switch
        copy, switches = await asyncio.to_thread(self._stage.hub_etcd.copy), self._switches
        self._free(pulled)
        self._say(f"the hub was copied, for {self._back:.1f} s")
        await self._pass(self._back)
        subjects = {_HUB, "etcd", *MEMBERS, *pulled}
        await self._hold(subjects)
        async with self._churn.still(), self._registrations.gone(*MEMBERS):
            self.forgot = math.inf

            async def back() -> bool:
                await asyncio.to_thread(self._stage.hub_etcd.put_back, copy)
                return True

            await insist(back)
            self._say("the hub was set back")
            self.backs += 1
            for _ in range(2):  # to the number and the terms of then
                self._stage.log_of_writes.shared_out()
            for member in MEMBERS:
                if member in self._stage.pushed:
                    await self._registrations.anew(member)
                elif self._switches != switches:  # its agents have the credentials of later
                    await self._join(pull=True)
                # The copy may be of the middle of a drain.
                await insist(lambda m=member: self._stage.taint(m))  # type: ignore[misc] # mypy infers no default
            await asyncio.sleep(self._chance.uniform(1, 5))
            await self._churn.again()
        self.forgot = asyncio.get_running_loop().time()
        self._say("all that the hub had forgotten is asked for again")
        self._free(subjects)

    async def _hold(self, subjects: set[str]) -> None:
        """Return when no fault stands on any of these subjects, and none comes."""
        held: set[str] = set()
        while held != subjects:
            free = subjects - held - self._taken
            self._taken |= free
            held |= free
            await asyncio.sleep(0.1)
