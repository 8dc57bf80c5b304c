"""Nobody starves: when a gang that has waited for long gets its turn, and who stands behind it.

A gang that finds no room lets others pass: a smaller one is started in what is free. So small ones
that come all the time could keep a big one waiting for ever. The rule against it:

- A gang waits since its group was there and its Workloads were complete. Both are told by times of
  creation, so that a restart forgets nothing.
- Once it has waited longer than the patience (argument `patienceSeconds` of the plugin, 300 unless
  set; 0 means never), and would fit if the gangs on its clusters gave back what they take (free and
  taken, added up by columns), it is its turn. Gangs later than it are started on its clusters no
  more until it is placed, so that what becomes free there stays free for it.
- Earlier is who has the greater priority, then who waits for longer, then by name. A failed attempt
  changes nothing of that, though it does of the queue's order.
- One has the turn at a time, over all namespaces: two would share what becomes free, and neither
  would get enough. Room knows no namespaces, so a turn for each of them would be that, too.
- A turn ends after `TURN` times the patience (an hour) and rests for as long, then for twice as
  long each, and so on; meanwhile the next one in line has its turn. A gang that waits for one that
  runs for months must not keep everybody else out for months. As turns grow without end, one that
  waits for gangs of any length gets one that is long enough: where these take S seconds in all to
  end, and those before it in line, it starts within patience + 5 S, and patience + S for S up to
  an hour.

Never touched are Workloads without a group, gangs whose quorum has run, members that come later,
and gangs on clusters which the one that has the turn cannot use. Room that others than gangs take
is nobody's turn: if that is what lacks, the gang waits and keeps nobody out.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import numpy as np

from controller.cache.columns import Ints, Mask
from controller.cache.snapshot import Fleet
from controller.features.workloadgroup.compiled import Group, named
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.reach import Waiting, amounts
from controller.features.workloadgroup.rivals import Hold, Rivals
from controller.framework.gathering import Outcome, Tried
from controller.model.unit import Unit
from crds.groups.gate import GateState
from machinery.types.metadata import Key

PATIENCE_SECONDS: Final = 300
TURN: Final = 12
"""How many times the patience the first turn lasts."""
_FRESH = timedelta(seconds=5)
"""Whether a gang would fit is looked at once in so long."""
_LOOKS = 4
"""Gangs that are looked at for the decision on another one; the others wait for the next."""
_LINE = 8
"""Gangs in line that are asked whether it is their turn."""
_Order: TypeAlias = tuple[int, datetime, Key]


@dataclass(frozen=True, slots=True)
class Claim:
    """A gang that would fit if others gave back what they take, and the clusters that it could use.

    `order` is its place in line.
    """

    key: Key
    order: _Order
    clusters: frozenset[str]

    @property
    def since(self) -> datetime:
        """Since when it waits."""
        return self.order[1]


@dataclass(frozen=True, slots=True)
class Behind:
    """Whose turn it is, for one that stands behind it; `seconds` until the turn is over."""

    claim: Claim
    seconds: float

    def kept(self, fleet: Fleet) -> Mask:
        """The clusters that are for the other one, shape (n,)."""
        mask = np.zeros(len(fleet), dtype=np.bool_)
        mask[fleet.rows(self.claim.clusters)] = True
        return mask

    def outside(self, fleet: Fleet) -> tuple[Mask, str]:
        """For a Filter: the same, with words that can be counted."""
        return self.kept(fleet), f"kept for {self}"

    def __str__(self) -> str:
        """Behind whom, and since when."""
        since = self.claim.since.strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"{named(self.claim.key)}, which waits since {since}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A gang that is decided, and what it is decided on.

    Args:
        group: it.
        units: all of its members.
        order: its place in the order of the queue.
        fleet: the clusters, without what it takes itself if that is decided anew.
        ledger: who is placed where.
        now: the time of the decision.
        patience: seconds after which a gang gets its turn; 0 for never.
        behind: who has the turn and is ahead of it, where that is known.
    """

    group: Group
    units: Sequence[Unit]
    order: tuple[Any, ...]
    fleet: Fleet
    ledger: Groups
    now: datetime
    patience: float = PATIENCE_SECONDS
    behind: Behind | None = None

    @property
    def key(self) -> Key:
        """That of the group."""
        return self.group.key

    @property
    def started(self) -> bool:
        """Whether its quorum has clusters, or has run."""
        return self.group.ran or self._need <= 0

    @property
    def failing(self) -> bool:
        """Whether it would not be started though there were room."""
        group = self.group
        later = group.retry is not None and group.retry > self.now
        return bool(group.fault) or group.gate == GateState.CLOSED or later

    @property
    def waiting(self) -> Waiting:
        """It as one that lacks room."""
        return Waiting(group=self.group, units=self.units, fleet=self.fleet, need=self._need)

    def place(self) -> _Order | None:
        """Its place in line; None where it is not complete, and where no time is told."""
        since = waits_since(self.group, self.units, len(self.fleet))
        if since is None:
            return None
        return (-max(unit.priority for unit in self.units), since, self.key)

    def other(self, group: Group) -> Asked:
        """Another group in the same world."""
        units = [member.unit for member in self.ledger.members(group.key).values()]
        return replace(self, group=group, units=units, order=(), behind=None)

    @property
    def _need(self) -> int:
        return self.group.min_member - self.ledger.assigned(self.group.key)


def waits_since(group: Group, units: Sequence[Unit], clusters: int = 1) -> datetime | None:
    """Since when a gang could be placed: the group is there, and Workloads of the quorum are."""
    wanted = 0
    for unit in sorted(units, key=lambda unit: unit.created):
        wanted += unit.replicas * (clusters if unit.everywhere else 1)
        if wanted >= group.min_member:
            here, there = _moment(group.created), _moment(unit.created)
            return max(here, there) if here and there else None
    return None


def turn(waited: float, patience: float) -> float:
    """Seconds that are left of the turn of one that has waited so long; 0 where it has none."""
    first = TURN * patience
    past = (waited - patience) / first if first else -1.0
    if past < 0:
        return 0.0
    length = 1.0
    while past >= 2 * length:  # a turn, and a rest that is as long
        past -= 2 * length
        length *= 2
    return max(length - past, 0.0) * first


class Turns:
    """Who waits, who has the turn, and who holds what, for one term of leadership.

    Groups that wait are known by what is decided of them; those of a former term are looked up
    once. Each look at who has the turn costs a few of them at most.
    """

    def __init__(self) -> None:
        self.rest()

    def rest(self) -> None:
        """A term is over, and nothing is known for the next one."""
        self._rivals = Rivals()
        self._young: list[tuple[datetime, Key]] = []  # a heap: to be looked at once they are old
        self._coming: dict[Key, datetime] = {}  # the last entry of each there
        self._claims: dict[Key, Claim] = {}
        self._line: list[tuple[_Order, Key]] = []
        self._looked: dict[Key, datetime] = {}
        self._behind: dict[Key, dict[Key, datetime]] = {}  # by whom it waits for: until when
        self._news: dict[Key, None] = {}
        self._seeded = False
        self._taken: tuple[object, int, Mapping[str, Ints]] = (None, -1, {})

    def behind(self, asked: Asked) -> Behind | None:
        """Who is ahead of a gang and has the turn; None where it may start."""
        if not asked.patience or asked.started:
            return None
        self._look_at_old(asked)
        own: _Order | None = None
        for claim in self._in_line(asked):
            own = own or asked.place()
            if own is None or claim.order >= own:
                return None
            left = turn((asked.now - claim.since).total_seconds(), asked.patience)
            if left > 0:
                return Behind(claim, left)
        return None

    def for_whom(self, asked: Asked, tried: Sequence[Tried]) -> Key | None:
        """For whom a gang gives way that would hold what it found; None where it may hold it."""
        return self._rivals.for_whom(Hold.of(asked.key, asked.order, tried, asked.fleet))

    def concluded(
        self, asked: Asked, outcome: Outcome, tried: Sequence[Tried] = (), *, for_room: bool = True
    ) -> list[Key]:
        """A gang is decided so; the gangs that hold room and are to give way for it now.

        Args:
            asked: the gang, and what it was decided on.
            outcome: what becomes of it.
            tried: what became of its members, where an attempt was made.
            for_room: whether room is what may be lacking; what it may not use helps it not.
        """
        self._tell(self._rivals.release(asked.key))
        self._tell(*self._rivals.decided(asked.key, placed=outcome is Outcome.PLACE))
        for those in self._behind.values():
            those.pop(asked.key, None)
        if outcome is Outcome.PLACE:
            self._leave(asked.key)
            return []
        if asked.behind is not None:
            until = asked.now + timedelta(seconds=asked.behind.seconds)
            self._behind.setdefault(asked.behind.claim.key, {})[asked.key] = until
        if outcome is Outcome.WAIT:
            self._rivals.hold(Hold.of(asked.key, asked.order, tried, asked.fleet))
        if tried and not any(_lacks_room(each) for each in tried):
            for_room = False
        self._waits(asked, for_room=for_room)
        if not for_room or asked.behind is not None:
            return []
        return self._rivals.ask(asked.waiting, asked.order)

    def given_back(self, key: Key) -> None:
        """What a gang held is given back, whatever for."""
        self._tell(self._rivals.release(key))

    def over(self, key: Key) -> None:
        """A group is changed or gone: what was known of it counts no more."""
        self._tell(self._rivals.release(key), *self._rivals.decided(key, placed=True))
        self._leave(key)
        self._looked.pop(key, None)
        self._coming.pop(key, None)

    def news(self) -> list[Key]:
        """Groups whose members are to be looked at now, as somebody has made way for them."""
        found, self._news = list(self._news), {}
        return found

    def again(self, key: Key, now: datetime) -> float | None:
        """Seconds until the turn is over that a gang stands behind; None where it does not."""
        until = [those[key] for those in self._behind.values() if key in those]
        return max((max(until) - now).total_seconds(), 0.0) if until else None

    def _tell(self, *keys: Key | None) -> None:
        self._news.update(dict.fromkeys(key for key in keys if key is not None))

    def _leave(self, key: Key) -> None:
        """It has no turn any more: those behind it are looked at."""
        claim = self._claims.pop(key, None)
        if claim is not None:
            self._line.remove((claim.order, key))
        self._tell(*self._behind.pop(key, ()))

    def _look_at_old(self, asked: Asked) -> None:
        """Look at a few that have become old since, the oldest first."""
        if not self._seeded:
            self._seeded = True
            stored = ((_moment(each.created), each) for each in asked.ledger.values())
            for at, each in stored:
                if at is not None and not each.ran:
                    self._await(each.key, at)
        limit = asked.now - timedelta(seconds=asked.patience)
        for _ in range(_LOOKS):
            if not self._young or self._young[0][0] > limit:
                return
            at, key = heapq.heappop(self._young)
            if self._coming.get(key) == at:
                del self._coming[key]
                self._looked.pop(key, None)
                self._look(key, asked)

    def _await(self, key: Key, since: datetime) -> None:
        """It is to be looked at once it is old."""
        if self._coming.get(key) != since:
            self._coming[key] = since
            heapq.heappush(self._young, (since, key))

    def _in_line(self, asked: Asked) -> Iterator[Claim]:
        """The first ones in line that still wait and would still fit."""
        for _, key in self._line[:_LINE]:
            if (claim := self._look(key, asked)) is not None:
                yield claim

    def _waits(self, asked: Asked, *, for_room: bool) -> None:
        """A gang was decided and is not placed."""
        if not for_room:
            self._leave(asked.key)
            self._looked[asked.key] = asked.now
        elif asked.patience:
            self._look(asked.key, asked)

    def _look(self, key: Key, like: Asked) -> Claim | None:
        """See whether a gang waits for its turn; looked at once in a while."""
        group, looked = like.ledger.get(key), self._looked.get(key)
        if group is None or group.ran or like.ledger.assigned(key) >= group.min_member:
            self._leave(key)
            return None
        if looked is not None and looked <= like.now < looked + _FRESH:
            return self._claims.get(key)
        self._looked[key] = like.now
        asked = like if key == like.key else like.other(group)
        claim = self._claim(asked)
        before = self._claims.get(key)
        if before is not None and (claim is None or claim.order != before.order):
            self._leave(key)
            before = None
        if claim is not None:
            self._claims[key] = claim
            if before is None:
                insort(self._line, (claim.order, key))
        return claim

    def _claim(self, asked: Asked) -> Claim | None:
        """That of a gang that is old enough and would fit."""
        order = asked.place()
        if order is None or asked.failing:
            return None
        if (asked.now - order[1]).total_seconds() < asked.patience:
            self._await(asked.key, order[1])
            return None
        given = self._given(asked)
        mask = asked.waiting.fitting(given)
        if not any((column[mask] > 0).any() for column in given.values()):
            return None  # what is free there was not enough
        names = frozenset(asked.fleet.names[row] for row in np.flatnonzero(mask).tolist())
        return Claim(asked.key, order, names)

    def _given(self, asked: Asked) -> Mapping[str, Ints]:
        """What all gangs take, by resource and cluster."""
        taken, row = asked.ledger.taken, asked.fleet.row
        if self._taken[0] is not row or self._taken[1] != taken.version:
            self._taken = (row, taken.version, amounts(taken.by_cluster, asked.fleet))
        return self._taken[2]


def _lacks_room(tried: Tried) -> bool:
    """Whether more room could give it more units."""
    return tried.assigned < tried.desired and bool((tried.feasible | tried.crowded).any())


def _moment(text: str) -> datetime | None:
    """None for what is no moment, or has no zone."""
    with suppress(ValueError):
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else None
    return None
