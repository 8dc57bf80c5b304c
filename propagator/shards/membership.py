"""Which members this process serves, and what the Leases of other shards say.

`machinery.types.shards.Claim` decides; this does its steps within a term. A fleet of one shard that
never had another takes none, and sends no request for it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from crds.names import ANNOTATION_REPORTED, ANNOTATION_SET_BACK, ANNOTATION_SHARDS
from machinery import logs, metrics
from machinery.clock import Clock, stored_time
from machinery.errors import LeaseLost, TransportError
from machinery.runtime.leader_election import LeaseRecord, PastTerm
from machinery.runtime.lease_reader import LeaseReader
from machinery.tasks import end, within
from machinery.types.shards import MOST_SHARDS, Claim, Rival, Step, lease_name, owner, shards_of
from propagator.shards.concern import Concern
from propagator.shards.election import SetBack, ShardElection, set_back_on
from propagator.shards.number import ShardNumber

LOG = logs.get(__name__)
LOOK_SECONDS = 2.0
"""Seconds between two looks at the Leases of others, while there are others."""
WAIT_SECONDS = 0.5
"""The same, while another one still claims a member of ours."""


HANDOVER = metrics.histogram(
    "stowage_shard_handover_seconds",
    "Time until members that another shard gets were let go, with their writes in flight",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30),
)


class Resigned(Exception):
    """The term ends: its shard is no more."""


class OneShard:
    """A fleet of one shard: this process serves every member."""

    @property
    def shard(self) -> int:
        return 0

    @property
    def shards(self) -> int:
        """The number of shards by which members are shared out now."""
        return 1

    @property
    def several(self) -> bool:
        """Whether there are other shards, or may be."""
        return False

    @property
    def mark(self) -> str:
        """What the User-Agent says of it; empty with one shard."""
        return ""

    def serves(self, _member: str) -> bool:
        return True

    def owner(self, _member: str) -> int:
        return 0

    def tells(self, _shard: int) -> bool:
        return False

    @property
    def set_back(self) -> str:
        """A time after the hub was last set back, as any shard has noted it; empty if none has."""
        return ""

    @property
    def since_set_back(self) -> float:
        """Seconds since that time; infinite without one."""
        return math.inf

    @property
    def went_back_to(self) -> int | None:
        """The hub's resourceVersion then; None without one, or if that is not known."""
        return None

    def looked(self, _shard: int) -> bool:
        """Whether that shard has compared its members since the hub was set back."""
        return True

    def held(self, _shard: int) -> bool:
        return True

    def term(self, _shard: int) -> int:
        return 0

    async def history(self, _shard: int) -> Mapping[int, PastTerm]:
        return {}

    @property
    def settled(self) -> bool:
        """Whether all members that the hash gives to this shard are served by it."""
        return True

    async def report(self) -> None:
        return

    def on_change(self, _listener: Callable[[], None]) -> None:
        return


ONE_SHARD = OneShard()


class Membership(OneShard):
    """Of the shard that `election` has won, or won last."""

    def __init__(
        self,
        election: ShardElection,
        number: ShardNumber,
        leases: LeaseReader,
        *,
        clock: Clock,
    ) -> None:
        self._election = election
        self._number = number
        self._leases = leases
        self._clock = clock
        self._read = False  # all others, since the present number was announced
        self._rivals: Mapping[int, Rival] = {}
        self._noted: Sequence[SetBack] = ()  # by them
        self._answered = True
        self._claim = Claim(0, 1, None)
        self._told: tuple[Claim, list[int], str] = self._claim, [], ""
        self._on_change: list[Callable[[], None]] = []
        self._serving: Callable[[], Collection[str]] = tuple
        self._hand_over: Callable[[str], Awaitable[None]] = _nothing
        self._coverage: Concern | None = None
        self._covering: tuple[frozenset[int], asyncio.Task[None]] | None = None

    # What others ask.

    @property
    def shard(self) -> int:
        return self._election.shard

    @property
    def shards(self) -> int:
        """The number of shards by which members are shared out now."""
        return self._announced or 1

    @property
    def several(self) -> bool:
        """Whether there are other shards, or may be."""
        return not self.claim.alone

    @property
    def mark(self) -> str:
        """What the User-Agent says of it; empty with one shard."""
        if not self.several:
            return ""
        return f"shard/{self.shard} term/{self._election.elector.moment.term}"

    def serves(self, member: str) -> bool:
        return self.claim.serves(member)

    def owner(self, member: str) -> int:
        return owner(member, self.shards)

    def held(self, shard: int) -> bool:
        if shard == self.shard:
            return self._election.elector.leading
        return self._held(shard) is not None

    def _held(self, shard: int) -> LeaseRecord | None:
        """Return the Lease of another shard while it is held; one that cannot be read lapses."""
        seen = self._leases.get(lease_name(shard))
        lapsed = seen is None or not seen.held or self._clock.monotonic() >= seen.until
        return None if seen is None or lapsed else seen.record

    def term(self, shard: int) -> int:
        """Return the present term of a shard, as its Lease was last seen; 0 if it never was."""
        if shard == self.shard:
            return self._election.elector.moment.term
        seen = self._leases.get(lease_name(shard))
        return seen.record.transitions if seen is not None else 0

    def tells(self, shard: int) -> bool:
        """Whether what that shard has written of its members counts.

        It does while the Lease is held, once its holder has compared everything in this term.
        """
        record = self._held(shard)
        if record is None or not self.looked(shard):
            return False
        return record.annotations.get(ANNOTATION_REPORTED) == str(record.transitions)

    @property
    def set_back(self) -> str:
        return self._set_back.time

    @property
    def went_back_to(self) -> int | None:
        return self._set_back.version

    @property
    def _set_back(self) -> SetBack:
        ours = SetBack.on(self._election.elector.annotations)
        return self._election.set_back([ours, *self._noted])

    @property
    def since_set_back(self) -> float:
        time = stored_time(self.set_back)
        return (self._clock.now() - time).total_seconds() if time is not None else math.inf

    def looked(self, shard: int) -> bool:
        told = self.set_back
        said = self._annotations(shard)
        return not told or (said.get(ANNOTATION_SET_BACK) == told and ANNOTATION_REPORTED in said)

    def _annotations(self, shard: int) -> Mapping[str, str]:
        if shard == self.shard:
            return self._election.elector.annotations
        seen = self._leases.get(lease_name(shard))
        return seen.record.annotations if seen is not None else {}

    async def history(self, shard: int) -> dict[int, PastTerm]:
        """Return the terms of another shard, as its Lease says now. Raises TransportError."""
        await self._leases.read([lease_name(shard)])
        if (seen := self._leases.get(lease_name(shard))) is None:
            return {}
        record = seen.record
        return {**record.past, record.transitions: PastTerm(record.holder, record.renewed)}

    @property
    def claim(self) -> Claim:
        now = Claim(
            self.shard,
            self._wanted,
            self._announced,
            self._answered,
            rivals=self._rivals if self._read else None,
        )
        if now != self._claim:
            self._claim = now
        return self._claim

    @property
    def _wanted(self) -> int:
        """The number to go over to, once the Workloads are read that concern members by it."""
        wanted, coverage = self._election.shards, self._coverage
        return wanted if coverage is None or coverage.covers(wanted) else self.shards

    @property
    def settled(self) -> bool:
        claim = self.claim
        return claim.alone or (claim.rivals is not None and claim.announced == claim.shards)

    # Within a term.

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` when other members may be served than before, or count as told."""
        self._on_change.append(listener)

    def serve(
        self,
        serving: Callable[[], Collection[str]],
        hand_over: Callable[[str], Awaitable[None]],
        coverage: Concern,
    ) -> None:
        """`serving` returns the members that are served; `hand_over` stops that.

        It returns when no write to the member is in flight any more.
        """
        self._serving, self._hand_over, self._coverage = serving, hand_over, coverage

    def begin(self) -> None:
        """A term begins: whatever is on the Lease was answered."""
        self._read, self._answered = False, True
        if self._coverage is not None:
            self._coverage.begin(self.shard, self._numbers())

    def _numbers(self) -> frozenset[int]:
        """Return the numbers of shards by which members may be ours now or next."""
        return frozenset({self._election.shards, self.shards})

    async def report(self) -> None:
        """Say on the Lease that everything was compared in this term. Raises TransportError."""
        elector = self._election.elector
        term = str(elector.moment.term)
        if self.claim.shards > 1 and elector.annotations.get(ANNOTATION_REPORTED) != term:
            await elector.note({ANNOTATION_REPORTED: term})

    async def run(self) -> NoReturn:
        """Raises Resigned."""
        try:
            await self._run()
        finally:
            if self._covering is not None:
                await end([self._covering[1]])
                self._covering = None

    async def _run(self) -> NoReturn:
        while True:
            self._number.changed.clear()
            self._cover()
            try:
                pause = await self._advance()
            except LeaseLost:
                pause = LOOK_SECONDS  # the term ends
            except TransportError as fault:
                LOG.warning("shard %d: %s", self.shard, fault)
                pause = WAIT_SECONDS
            await self._wait(pause)

    async def _advance(self) -> float | None:
        """Do the next step; return seconds until the next, None for the next change of the number.

        Raises TransportError.
        """
        self._tell()
        claim = replace(self.claim, serving=frozenset(self._serving()))
        match claim.step:
            case Step.DROP:
                LOG.info("shard %d: %d members are handed over", self.shard, len(claim.lost))
                began = self._clock.monotonic()
                await asyncio.gather(*map(self._hand_over, claim.lost))
                HANDOVER.observe(self._clock.monotonic() - began)
                return 0.0
            case Step.ANNOUNCE:
                await self._announce(claim.shards)
                return 0.0
            case Step.CLEAR:
                await self._say(None)
                return 0.0
            case Step.READ:
                await self._look(range(MOST_SHARDS))
                return 0.0
        if claim.alone:
            return None
        if self.shard >= claim.shards:
            self._election.resign()
            raise Resigned
        return await self._look_again(claim)

    def _cover(self) -> None:
        """Have the Workloads read for the next number of shards, or let go of those of former ones.

        What is served goes on meanwhile.
        """
        if self._coverage is None:
            return
        numbers, under_way = self._numbers(), self._covering
        settled = self.settled or len(numbers) > 1
        if under_way is not None and (under_way[0] != numbers or under_way[1].done()):
            under_way[1].cancel()
            under_way = self._covering = None
        if under_way is None and settled and numbers != self._coverage.numbers:
            self._covering = numbers, asyncio.create_task(self._read_for(self._coverage, numbers))

    async def _read_for(self, coverage: Concern, numbers: frozenset[int]) -> None:
        while True:
            try:
                await coverage.cover(numbers)
            except TransportError as fault:
                LOG.warning("shard %d: the Workloads could not be read: %s", self.shard, fault)
                await self._clock.sleep(LOOK_SECONDS)
                continue
            self._number.changed.set()
            return

    async def _announce(self, shards: int) -> None:
        self._read = False
        await self._say(str(shards))
        LOG.info("shard %d of %d", self.shard, shards)

    async def _say(self, shards: str | None) -> None:
        """Say another number. By that one, the members are not compared yet."""
        self._answered = False
        said = {ANNOTATION_SHARDS: shards, ANNOTATION_REPORTED: None}
        await self._election.elector.note(said)
        self._answered = True

    async def _look(self, shards: Iterable[int]) -> None:
        await self._leases.read(self._others(shards))
        self._found_rivals()

    def _others(self, shards: Iterable[int]) -> list[str]:
        return [lease_name(each) for each in shards if each != self.shard]

    def _found_rivals(self) -> None:
        self._read, self._rivals = True, {each.shard: each for each in self._found()}
        self._noted = [SetBack.on(self._annotations(each)) for each in self._rivals]

    async def _look_again(self, claim: Claim) -> float:
        """Look at all that were there; of a number that is not announced yet, each may come."""
        await self._leases.look(self._others({*self._rivals, *range(claim.shards)}))
        self._found_rivals()
        elector = self._election.elector
        if told := set_back_on(elector.annotations, self._set_back):
            await elector.note(told)
        others = self._rivals.values()
        waits = any(each.held and each.announced != claim.shards for each in others)
        return WAIT_SECONDS if waits else LOOK_SECONDS

    async def _wait(self, seconds: float | None) -> None:
        if seconds is None:
            await self._number.changed.wait()
        elif seconds > 0:
            try:
                await within(seconds, self._number.changed.wait(), clock=self._clock)
            except TransportError:
                return  # the time is up

    @property
    def _announced(self) -> int | None:
        return _number(self._election.elector.annotations)

    def _found(self) -> Iterable[Rival]:
        for shard in range(MOST_SHARDS):
            seen = self._leases.get(lease_name(shard))
            if shard != self.shard and seen is not None:
                yield Rival(shard, _number(seen.record.annotations), seen.held)
            elif shard != self.shard and shard == 0:
                yield Rival(0, None, held=False)

    def _tell(self) -> None:
        told = self.claim, [each for each in self._rivals if self.tells(each)], self.set_back
        if told != self._told:
            self._told = told
            for listener in self._on_change:
                listener()


def _number(annotations: Mapping[str, str]) -> int | None:
    """Return what a Lease announces; None without an annotation, 0 if it says no number."""
    said = annotations.get(ANNOTATION_SHARDS)
    return None if said is None else shards_of(said) or 0


async def _nothing(_: str) -> None:
    return
