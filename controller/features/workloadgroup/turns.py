"""No gang starves: when a gang that has waited for long gets its turn, and which stand behind it.

A gang that finds no room lets others pass: a smaller one is started in the free room. So small ones
that come all the time could keep a big one waiting for ever. The rule against that:

- A gang waits since its group was there and its Workloads were complete. Times of creation tell
  both, so that a restart forgets nothing.
- Once a gang has waited longer than the patience (argument `patienceSeconds` of the plugin, 300
  unless set; 0 means never), and would fit if the gangs on its clusters gave back their room (free
  and taken, added up by columns), it is its turn. Later gangs are not started on its clusters until
  it is placed, so that room which becomes free there stays free for it.
- Earlier means greater priority, then longer wait, then name. A failed attempt does not change that
  order, though it changes the queue's.
- One gang has the turn at a time: two would share the freed room, and neither would get enough.
- A turn keeps out the gangs of its own namespace for as long as it lasts. Those of others are kept
  out for a bounded share of the time (`rivals.Keeping`), all turns of a namespace together: an hour
  in any four. So a tenant that makes gang after gang keeps out mostly its own. In between they pass
  as if there were no turn, and the next in line may have its own.
- A turn ends after `TURN` times the patience (an hour) and rests for as long, then for twice as
  long each, and so on; meanwhile the next one in line has its turn. A gang that waits for one that
  runs for months must not keep all others out for months. As turns grow without end, a gang that
  waits for gangs of any length gets a turn that is long enough: where these take S seconds in all
  to end, and those before it in line, it starts within patience + 5 S, and patience + S for S up to
  an hour. That holds for gangs of its own namespace. Gangs of others that run for longer than the
  hour for which it keeps them out may be followed by their like.
- A gang that is refused where no gang takes anything any more lacks something that no column shows,
  such as a node that is large enough: it has no turn for as long as a first one lasts.

Turns never touch Workloads without a group, gangs whose quorum has run, members that come later,
and gangs on clusters which the one that has the turn cannot use. Room of Workloads outside of gangs
gives no turn: if that is lacking, the gang waits and keeps no other out.
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
    turn,
)
from controller.framework.gathering import Trial, TrialResult
from controller.snapshot.columns import Ints
from machinery.clock import stored_time
from machinery.types.metadata import Key

_FRESH = timedelta(seconds=5)
"""How long the answer whether a gang would fit is used again."""
_LOOKS = 2
"""Gangs that are checked for the decision on another one; the others wait for the next."""
_ROUNDED = timedelta(milliseconds=1)
"""How much later those behind a turn are checked, so that they find it ended."""
_LINE = 64
"""Gangs in line that are asked whether it is their turn."""


def _nobody(_: Key) -> bool:
    return False


class Turns:
    """The line of waiting gangs, the turn, and the holds, for one term of leadership.

    Waiting groups are known by their decisions; those of a former term are read from the ledger
    once. Each check of the turn costs a few of them at most.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything at the end of a term."""
        self._rivals = Rivals()
        self._keeping = Keeping()
        self._young: list[tuple[datetime, Key]] = []  # a heap: checked once their patience is over
        self._coming: dict[Key, datetime] = {}  # the last entry of each in `_young`
        self._claims: dict[Key, BlockedGroup] = {}
        self._line: list[tuple[Order, Key]] = []
        self._looked: dict[Key, datetime] = {}
        self._tried: dict[Key, datetime] = {}
        self._hopeless: dict[Key, datetime] = {}  # no turn until then
        self._behind: dict[Key, dict[Key, datetime]] = {}  # by the gang ahead: until when
        self._news: dict[Key, None] = {}
        self._seeded = False
        self._taken: tuple[object, int, Mapping[str, Ints]] = (None, -1, {})

    def behind(self, asked: GroupUnderDecision) -> Behind | None:
        """Return the gang that is ahead and has the turn; None where this one may start."""
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
        """Return the gang that one with this attempt must give way for; None where it may hold."""
        return self._rivals.for_whom(GangHold.of(asked.key, asked.order, tried, asked.snapshot))

    def concluded(
        self,
        asked: GroupUnderDecision,
        outcome: TrialResult,
        tried: Sequence[Trial] = (),
        *,
        for_room: bool = True,
        held: Callable[[Key], bool] = _nobody,
    ) -> list[Key]:
        """Record the decision on a gang; return the holders that must give way for it now.

        Args:
            asked: the gang, and the state that it was decided on.
            outcome: the result.
            tried: the results of its members, where an attempt was made.
            for_room: whether room may be lacking; other refusals are not helped by room.
            held: whether one of its Workloads holds room by an earlier decision.
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
            self._rivals.hold(GangHold.of(asked.key, asked.order, tried, asked.snapshot))
        if asked.behind is None and tried and not any(map(_lacks_room, tried)):
            for_room = False
        self._waits(asked, for_room=for_room)
        if not for_room or asked.behind is not None:
            return []
        return self._rivals.ask(asked.waiting, asked.order)

    def given_back(self, key: Key, who: Key, held: Callable[[Key], bool]) -> None:
        """Record that a Workload of a gang gave its room back; `held` tells which still hold."""
        # The first Workload of a set that is given back accounts for all of them.
        if self._rivals.holds(key, who):
            self._tell(self._rivals.keep(key, held))

    def hold_on(self, key: Key, who: Key) -> None:
        """Record that a Workload holds its room again, by the same decision."""
        self._rivals.hold_on(key, who)

    def written(self, key: Key) -> None:
        """Release the holds of a gang that is placed."""
        self._tell(self._rivals.release(key))

    def matters(self, key: Key) -> bool:
        """Return whether a gang waits for this one in any way, or it stands behind another one."""
        return (
            key in self._claims
            or any(key in those for those in self._behind.values())
            or self._rivals.awaited(key)
        )

    def over(self, key: Key) -> None:
        """Forget a group that is changed, gone or placed, but for the room that it still holds."""
        self._tell(*self._rivals.decided(key, placed=True))
        self._leave(key)
        self._steps_out(key)
        for known in (self._looked, self._tried, self._hopeless, self._coming):
            known.pop(key, None)

    def news(self) -> list[Key]:
        """Return the groups to queue, as another gang made way for them; each only once."""
        found, self._news = list(self._news), {}
        return found

    def again(self, key: Key, now: datetime) -> float | None:
        """Return the seconds until the turn ends that a gang stands behind; None where it does not.

        A turn that has ended since the decision makes the gang one of the `news` instead, once,
        because the caller may be a member whose decision is not that of the gang.
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
        for those in self._behind.values():
            those.pop(key, None)

    def _leave(self, key: Key) -> None:
        """End the gang's turn, and report those behind it."""
        claim = self._claims.pop(key, None)
        if claim is not None:
            self._line.remove((claim.order, key))
        self._tell(*self._behind.pop(key, ()))

    def _look_at_old(self, asked: GroupUnderDecision) -> None:
        """Check a few gangs whose patience has passed since, the oldest first."""
        if not self._seeded:
            self._seeded = True
            stored = ((stored_time(each.created), each) for each in asked.ledger.values())
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
        """Queue a check for when its patience has passed."""
        if self._coming.get(key) != since:
            self._coming[key] = since
            heapq.heappush(self._young, (since, key))

    def _waits(self, asked: GroupUnderDecision, *, for_room: bool) -> None:
        """Record that a gang was decided and is not placed."""
        if not for_room:
            self._leave(asked.key)
            self._looked[asked.key] = asked.now
        elif asked.patience:
            self._look(asked.key, asked, tried=True)

    def _look(
        self, key: Key, like: GroupUnderDecision, *, tried: bool = False
    ) -> BlockedGroup | None:
        """Return the claim of a gang on a turn, checked again after `_FRESH`."""
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
        """Return a gang's claim, if its patience is over and it would fit; `tried` if refused."""
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
            # No gang can make way any more, so the gang lacks something that no column shows.
            self._hopeless[key] = asked.now + timedelta(seconds=TURN * asked.patience)
            return None
        names = frozenset(asked.snapshot.names[row] for row in np.flatnonzero(mask).tolist())
        return BlockedGroup(key, order, names)

    def _given(self, asked: GroupUnderDecision) -> Mapping[str, Ints]:
        """Return the amounts that all gangs take, by resource and cluster."""
        taken, row = asked.ledger.taken, asked.snapshot.row
        if self._taken[0] is not row or self._taken[1] != taken.version:
            self._taken = (row, taken.version, amounts(taken.by_cluster, asked.snapshot))
        return self._taken[2]


def _lacks_room(tried: Trial) -> bool:
    return tried.assigned < tried.desired and bool((tried.feasible | tried.crowded).any())
