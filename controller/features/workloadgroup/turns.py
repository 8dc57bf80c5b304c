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
- One has the turn at a time: two would share what becomes free, and neither would get enough.
- A turn keeps out the gangs of its own namespace for as long as it lasts. Those of others are kept
  out for a bounded share of the time (`rivals.Keeping`), all turns of a namespace together: an hour
  in any four. So a tenant who makes gang after gang keeps mostly himself out. In between they pass
  as if it were nobody's turn, and the next in line may have its own.
- A turn ends after `TURN` times the patience (an hour) and rests for as long, then for twice as
  long each, and so on; meanwhile the next one in line has its turn. A gang that waits for one that
  runs for months must not keep everybody else out for months. As turns grow without end, one that
  waits for gangs of any length gets one that is long enough: where these take S seconds in all to
  end, and those before it in line, it starts within patience + 5 S, and patience + S for S up to
  an hour. That is said of gangs of its own namespace. Those of others that run for longer than the
  hour for which it keeps them out may be followed by their like.
- One that is refused where no gang takes anything any more lacks something that no column tells,
  such as a node that is large enough: it has no turn for as long as a first one lasts.

Never touched are Workloads without a group, gangs whose quorum has run, members that come later,
and gangs on clusters which the one that has the turn cannot use. Room that others than gangs take
is nobody's turn: if that is what lacks, the gang waits and keeps nobody out.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np

from controller.features.workloadgroup.reach import amounts
from controller.features.workloadgroup.rivals import (
    TURN,
    Behind,
    BlockedGroup,
    GangHold,
    GroupUnderDecision,
    Keeping,
    Order,
    Rivals,
    moment,
    turn,
)
from controller.framework.gathering import Trial, TrialResult
from controller.snapshot.columns import Ints
from machinery.types.metadata import Key

_FRESH = timedelta(seconds=5)
"""Whether a gang would fit is looked at once in so long."""
_LOOKS = 2
"""Gangs that are looked at for the decision on another one; the others wait for the next."""
_ROUNDED = timedelta(milliseconds=1)
"""By so much later those behind a turn are looked at, so that they find it ended."""
_LINE = 64
"""Gangs in line that are asked whether it is their turn."""


def _nobody(_: Key) -> bool:
    return False


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
        self._keeping = Keeping()
        self._young: list[tuple[datetime, Key]] = []  # a heap: to be looked at once they are old
        self._coming: dict[Key, datetime] = {}  # the last entry of each there
        self._claims: dict[Key, BlockedGroup] = {}
        self._line: list[tuple[Order, Key]] = []
        self._looked: dict[Key, datetime] = {}
        self._tried: dict[Key, datetime] = {}
        self._hopeless: dict[Key, datetime] = {}  # until when
        self._behind: dict[Key, dict[Key, datetime]] = {}  # by whom it waits for: until when
        self._news: dict[Key, None] = {}
        self._seeded = False
        self._taken: tuple[object, int, Mapping[str, Ints]] = (None, -1, {})

    def behind(self, asked: GroupUnderDecision) -> Behind | None:
        """Who is ahead of a gang and has the turn; None where it may start."""
        if not asked.patience or asked.started:
            return None
        self._look_at_old(asked)
        own, looks = asked.place() if self._line else None, 0
        for order, key in self._line[:_LINE]:
            if own is None or order >= own or looks >= _LOOKS:
                return None
            left = turn((asked.now - order[1]).total_seconds(), asked.patience)
            if key[0] != asked.key[0]:
                left = min(left, self._keeping.left(key[0], asked.now, asked.patience))
            if left > 0:
                looks += 1
                if (claim := self._look(key, asked)) is not None:
                    return Behind(claim, left)
        return None

    def for_whom(self, asked: GroupUnderDecision, tried: Sequence[Trial]) -> Key | None:
        """For whom a gang gives way that would hold what it found; None where it may hold it."""
        return self._rivals.for_whom(GangHold.of(asked.key, asked.order, tried, asked.fleet))

    def concluded(
        self,
        asked: GroupUnderDecision,
        outcome: TrialResult,
        tried: Sequence[Trial] = (),
        *,
        for_room: bool = True,
        held: Callable[[Key], bool] = _nobody,
    ) -> list[Key]:
        """A gang is decided so; the gangs that hold room and are to give way for it now.

        Args:
            asked: the gang, and what it was decided on.
            outcome: what becomes of it.
            tried: what became of its members, where an attempt was made.
            for_room: whether room is what may be lacking; what it may not use helps it not.
            held: which of its Workloads hold room by an earlier decision.
        """
        self._tell(self._rivals.keep(asked.key, held))
        self._tell(*self._rivals.decided(asked.key, placed=outcome is TrialResult.PLACE))
        self._steps_out(asked.key)
        if outcome is TrialResult.PLACE:
            self.written(asked.key)
            self._leave(asked.key)
            return []
        if asked.behind is not None:
            until = asked.now + timedelta(seconds=asked.behind.seconds) + _ROUNDED
            ahead = asked.behind.claim.key
            self._behind.setdefault(ahead, {})[asked.key] = until
            if ahead[0] != asked.key[0]:
                self._keeping.keeps(ahead[0], asked.now, asked.patience)
        if outcome is TrialResult.WAIT:
            self._rivals.hold(GangHold.of(asked.key, asked.order, tried, asked.fleet))
        if asked.behind is None and tried and not any(map(_lacks_room, tried)):
            for_room = False
        self._waits(asked, for_room=for_room)
        if not for_room or asked.behind is not None:
            return []
        return self._rivals.ask(asked.waiting, asked.order)

    def given_back(self, key: Key, who: Key, held: Callable[[Key], bool]) -> None:
        """What one Workload of a gang held is given back, whatever for; `held` are those left.

        The first of a set is looked at for all of it.
        """
        if self._rivals.holds(key, who):
            self._tell(self._rivals.keep(key, held))

    def hold_on(self, key: Key, who: Key) -> None:
        """What one Workload of a gang gave back is held again, by the same decision."""
        self._rivals.hold_on(key, who)

    def written(self, key: Key) -> None:
        """What a gang held is placed."""
        self._tell(self._rivals.release(key))

    def matters(self, key: Key) -> bool:
        """Whether somebody waits for the gang in any way, or it stands behind another one."""
        return (
            key in self._claims
            or any(key in those for those in self._behind.values())
            or self._rivals.awaited(key)
        )

    def over(self, key: Key) -> None:
        """A group is changed or gone, or waits no more: what was known of it counts no more.

        But for what it holds, until that is given back.
        """
        self._tell(*self._rivals.decided(key, placed=True))
        self._leave(key)
        self._steps_out(key)
        for known in (self._looked, self._tried, self._hopeless, self._coming):
            known.pop(key, None)

    def news(self) -> list[Key]:
        """Groups whose members are to be looked at now, as somebody has made way for them."""
        found, self._news = list(self._news), {}
        return found

    def again(self, key: Key, now: datetime) -> float | None:
        """Seconds until the turn is over that a gang stands behind; None where it does not.

        Where the turn has ended since the gang was decided, it is one of the `news` instead, once:
        whoever asks is perhaps none whose decision is that of the gang.
        """
        for those in self._behind.values():
            if (until := those.get(key)) is None:
                continue
            if until > now:
                return (until - now).total_seconds()
            del those[key]
            self._tell(key)
        return None

    def _tell(self, *keys: Key | None) -> None:
        self._news.update(dict.fromkeys(key for key in keys if key is not None))

    def _steps_out(self, key: Key) -> None:
        """It stands behind nobody."""
        for those in self._behind.values():
            those.pop(key, None)

    def _leave(self, key: Key) -> None:
        """It has no turn any more: those behind it are looked at."""
        claim = self._claims.pop(key, None)
        if claim is not None:
            self._line.remove((claim.order, key))
        self._tell(*self._behind.pop(key, ()))

    def _look_at_old(self, asked: GroupUnderDecision) -> None:
        """Look at a few that have become old since, the oldest first."""
        if not self._seeded:
            self._seeded = True
            stored = ((moment(each.created), each) for each in asked.ledger.values())
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

    def _waits(self, asked: GroupUnderDecision, *, for_room: bool) -> None:
        """A gang was decided and is not placed."""
        if not for_room:
            self._leave(asked.key)
            self._looked[asked.key] = asked.now
        elif asked.patience:
            self._look(asked.key, asked, tried=True)

    def _look(
        self, key: Key, like: GroupUnderDecision, *, tried: bool = False
    ) -> BlockedGroup | None:
        """See whether a gang waits for its turn; looked at once in a while."""
        seen = self._tried if tried else self._looked
        group, looked = like.ledger.get(key), seen.get(key)
        if group is None or group.ran or like.ledger.assigned(key) >= group.min_member:
            self._leave(key)
            return None
        if looked is not None and looked <= like.now < looked + _FRESH:
            return self._claims.get(key)
        seen[key] = like.now
        asked = like if key == like.key else like.other(group)
        claim = self._claim(asked, tried=tried)
        before = self._claims.get(key)
        if before is not None and (claim is None or claim.order != before.order):
            self._leave(key)
            before = None
        if claim is not None:
            self._claims[key] = claim
            if before is None:
                insort(self._line, (claim.order, key))
        return claim

    def _claim(self, asked: GroupUnderDecision, *, tried: bool) -> BlockedGroup | None:
        """That of a gang that is old enough and would fit; `tried` where it was just refused."""
        order, key = asked.place(), asked.key
        if order is None or asked.failing or self._hopeless.get(key, asked.now) > asked.now:
            return None
        if (asked.now - order[1]).total_seconds() < asked.patience:
            self._await(key, order[1])
            return None
        given = self._given(asked)
        mask = asked.waiting.fitting(given)
        if not mask.any():
            return None
        if tried and not any((column[mask] > 0).any() for column in given.values()):
            # Nobody can make way any more. Whatever it lacks, it is nothing that is counted here.
            self._hopeless[key] = asked.now + timedelta(seconds=TURN * asked.patience)
            return None
        names = frozenset(asked.fleet.names[row] for row in np.flatnonzero(mask).tolist())
        return BlockedGroup(key, order, names)

    def _given(self, asked: GroupUnderDecision) -> Mapping[str, Ints]:
        """What all gangs take, by resource and cluster."""
        taken, row = asked.ledger.taken, asked.fleet.row
        if self._taken[0] is not row or self._taken[1] != taken.version:
            self._taken = (row, taken.version, amounts(taken.by_cluster, asked.fleet))
        return self._taken[2]


def _lacks_room(tried: Trial) -> bool:
    """Whether more room could give it more units."""
    return tried.assigned < tried.desired and bool((tried.feasible | tried.crowded).any())
