"""The election of shards: today's election of a leader, on one Lease for each shard.

A process without a shard takes the lowest that is unheld. It holds at most one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple

from crds.names import (
    ANNOTATION_REPORTED,
    ANNOTATION_SET_BACK,
    ANNOTATION_SHARDS,
    ANNOTATION_WENT_BACK,
)
from machinery import logs
from machinery.api.verbs import ServerHistory
from machinery.clock import Clock, timestamp
from machinery.runtime.leader_election import Annotations, LeaderElector
from machinery.runtime.store import number as numbered
from machinery.types.shards import lease_name
from propagator.shards.number import ShardNumber

LOG = logs.get(__name__)


class SetBack(NamedTuple):
    """A set-back of the hub; empty for none."""

    time: str = ""
    """A time after it."""
    version: int | None = None
    """The resourceVersion of then, which is its name: the same for all shards."""

    @staticmethod
    def on(annotations: Mapping[str, str]) -> SetBack:
        """Return the one that a Lease with these annotations tells of."""
        if not (time := annotations.get(ANNOTATION_SET_BACK, "")):
            return NEVER  # as mostly, and this is asked for each member
        return SetBack(time, numbered(annotations.get(ANNOTATION_WENT_BACK, "")))


NEVER = SetBack()


class ShardElection:
    """`elector(name, taking)` makes the contender for the Lease of that name.

    A set-back of the hub, of which `history` tells, ends a term. The next one notes it on the
    Lease, for processes that have not seen it. Its version is that of the first shard's Lease then:
    who finds that renewed since finds the note there as well.
    """

    def __init__(
        self,
        elector: Callable[[str, Callable[[Mapping[str, str]], Annotations]], LeaderElector],
        *,
        number: ShardNumber,
        history: ServerHistory,
        clock: Clock,
    ) -> None:
        self._make = elector
        self._number = number
        self._history = history
        self._known = history.number
        self._seen = NEVER
        """The last one that this process has seen."""
        self._former = ""
        """The time of the one before that."""
        self._latest = ""
        """The time of the last one that was known."""
        self._clock = clock
        self._electors: dict[int, LeaderElector] = {}
        self._resigned = False
        self._before: int | None = None
        self.shard = 0
        """The present shard, or the last one."""

    @property
    def elector(self) -> LeaderElector:
        """That of the present shard, or of the last one."""
        return self._of(self.shard)

    @property
    def shards(self) -> int:
        """The number of shards that there should be."""
        return self._number.get(self._of(0).annotations.get(ANNOTATION_SHARDS, ""))

    def set_back(self, told: Iterable[SetBack]) -> SetBack:
        """Return the last one that this process has seen, or that Leases have `told`."""
        self._look_back()
        notes = [self._seen, SetBack.on(self._of(0).annotations), *told]
        latest = max(each.time for each in notes)
        if not latest:
            return NEVER
        if self._seen.time:
            # Later notes than of the one before are of this one, though each found its own version.
            same = [self._seen, *(each for each in notes if each.time > self._former)]
        else:
            same = [each for each in notes if each.time == latest]
        version = min((e.version for e in same if e.version is not None), default=None)
        found = SetBack(max(each.time for each in same), version)
        self._latest = max(self._latest, found.time)
        return found

    def _look_back(self) -> None:
        if self._known != self._history.number:
            self._known, self._former = self._history.number, self._latest
            # Objects have whole seconds: all that was made before counts as older.
            self._seen = SetBack(timestamp(self._clock.now() + timedelta(seconds=1)))
        if self._seen.time and self._seen.version is None:
            self._seen = self._seen._replace(version=self._of(0).version)

    @property
    def alone(self) -> bool:
        """Whether this process held this shard last, and no other one has held it since."""
        return self.elector.alone and self._before == self.shard

    @property
    def leader(self) -> str | None:
        """Who holds the shard of this process, or the first one."""
        return self.elector.leader

    def check(self) -> float:
        """As `LeaderElector.check`, of the present shard."""
        return self.elector.check()

    def resign(self) -> None:
        """Have the term end in a further election, where `lead` returns: the shard is no more."""
        self._resigned = True

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """As `LeaderElector.run`, for any shard."""
        await self._number.wait_tried()
        while True:
            await self._acquire()
            self._resigned = False
            finished = await self.elector.term(lead)
            self._before = self.shard
            if finished and not self._resigned:
                return

    async def _acquire(self) -> None:
        while True:
            shard, patience = 0, list[float]()
            while shard < self.shards:  # which the first one may tell
                if await self._of(shard).attempt():
                    self.shard = shard
                    return
                self.set_back([SetBack.on(self._of(shard).annotations)])
                patience.append(self._of(shard).patience())
                shard += 1
            await self._clock.sleep(min(patience))

    def _of(self, shard: int) -> LeaderElector:
        elector = self._electors.get(shard)
        if elector is None:

            def taking(before: Mapping[str, str]) -> Annotations:
                # One shard that never was one of several says nothing.
                several = shard > 0 or self.shards > 1 or ANNOTATION_SHARDS in before
                told = {ANNOTATION_SHARDS: str(self.shards)} if several else {}
                return {**told, **set_back_on(before, self.set_back([SetBack.on(before)]))}

            elector = self._electors[shard] = self._make(lease_name(shard), taking)
        return elector


def set_back_on(before: Mapping[str, str], found: SetBack) -> Annotations:
    """Return what a Lease with these annotations has to say of that set-back."""
    said = SetBack.on(before)
    if found.time < said.time or found == said:
        return {}
    version = str(found.version) if found.version is not None else None
    told: Annotations = {ANNOTATION_SET_BACK: found.time, ANNOTATION_WENT_BACK: version}
    again = found.time > said.time and ANNOTATION_REPORTED in before
    return {**told, ANNOTATION_REPORTED: None} if again else told
