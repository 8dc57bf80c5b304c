"""Which gang goes first if several want the same room, so that none starves.

A gang that misses only a little holds the room that it found. Two gangs may each hold what the
other lacks, so:

- no gang begins to hold while an earlier holder may find there what it lacks; - a gang without a
quorum asks the latest holders back, no more than it needs by columns; - a gang that gave way holds
nothing until the other one was decided again.

docs/decisions/0004-turns-of-gangs.md has the rule of turns, its bounds and its cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import log2
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from controller.features.workloadgroup.compiled import CompiledGroup, named
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.reach import (
    Filters,
    amounts,
    fitting,
    of_default_profile,
)
from controller.framework.gathering import Trial, TrialResult
from controller.model.load import Loads, added
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot
from crds.groups.gate import GateState
from machinery.clock import stored_time, timestamp
from machinery.types.metadata import Key

Order: TypeAlias = tuple[int, datetime, Key]
"""A place in line: the priority, negated, since when the gang waits, and its name."""
KEPT: Final = "Kept"
PATIENCE_SECONDS: Final = 300
TURN: Final = 12
"""The length of the first turn, as a multiple of the patience."""
SHARE: Final = 4
"""In any SHARE times the length of a first turn, all turns of a namespace keep gangs of other
namespaces out for the length of one at most.
"""
_FRESH = timedelta(seconds=5)
"""Seconds for which a gang's claim and the line of those that wait are used again."""
_LOOKS = 2
"""Gangs that are checked for the decision on another one; the others wait for the next."""
_ROUNDED = timedelta(milliseconds=1)
"""Seconds after the end of a turn until those behind it are checked."""
_MOST_ASKED: Final = 16
"""Holders that are tried one by one; beyond that number all are asked."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Where a gang would fit if all gangs gave back their room, known `until` then."""

    key: Key
    order: Order
    until: datetime
    clusters: frozenset[str]

    @property
    def since(self) -> datetime:
        return self.order[1]

    def holds(self, now: datetime, most: timedelta) -> bool:
        return now < self.until <= now + most  # else it is old, or the clock was set back


@dataclass(frozen=True, slots=True)
class Behind:
    """The gang that has the turn, and the seconds until its turn is over."""

    claim: Claim
    seconds: float

    def kept(self, snapshot: Snapshot) -> Mask:
        mask = np.zeros(len(snapshot), dtype=np.bool_)
        mask[snapshot.rows(self.claim.clusters)] = True
        return mask

    def outside(self, snapshot: Snapshot, namespace: str) -> tuple[Mask, str, str]:
        since = self.claim.since.strftime("%Y-%m-%dT%H:%M:%SZ")
        text = f"kept for {_seen_from(namespace, self.claim.key)}, which waits since {since}"
        return self.kept(snapshot), text, KEPT


class Findings(NamedTuple):
    """The state of a refusal; any change voids it."""

    epoch: int
    uid: str
    generation: int
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTry:
    """A gang that is decided, and the state that it is decided on.

    `snapshot` is without the gang's own room if that is decided again. `patience` is the seconds
    after which a gang gets its turn; 0 for never. `tries`: an attempt is due, whose refusal denies
    the gang.
    """

    group: CompiledGroup
    infos: Sequence[WorkloadInfo]
    order: tuple[Any, ...]
    snapshot: Snapshot
    ledger: Groups
    now: datetime
    seen: Findings
    patience: float = PATIENCE_SECONDS
    behind: Behind | None = None
    tries: bool = True
    filters: Filters = of_default_profile

    @property
    def key(self) -> Key:
        return self.group.key

    @property
    def need(self) -> int:
        return self.group.min_member - self.ledger.assigned(self.group.key)

    @property
    def started(self) -> bool:
        return self.group.ran or self.need <= 0

    @property
    def failing(self) -> bool:
        group = self.group
        later = group.rests_until(self.now) is not None
        return bool(group.fault) or group.gate == GateState.CLOSED or later

    def place(self) -> Order | None:
        """Return the place in line; None for a gang that is not complete."""
        wanted, clusters = 0, len(self.snapshot)
        for info in sorted(self.infos, key=lambda info: info.created):
            wanted += info.replicas * (clusters if info.everywhere else 1) + info.ended_replicas
            if wanted >= self.group.min_member:
                here, there = stored_time(self.group.created), stored_time(info.created)
                first = -max(info.priority for info in self.infos)
                return (first, max(here, there), self.key) if here and there else None
        return None

    def fitting(self, given: Iterable[Loads] = ()) -> Mask:
        """Return where the quorum would fit if these gave back their room, shape (n,)."""
        back = amounts(added(given), self.snapshot)
        return fitting(self.group, self.infos, self.snapshot, self.need, back, self.filters)

    def other(self, group: CompiledGroup) -> GangTry:
        infos = [member.workload for member in self.ledger.members(group.key).values()]
        return replace(self, group=group, infos=infos, order=(), behind=None)


@dataclass(frozen=True, slots=True)
class GangHold:
    key: Key
    order: tuple[Any, ...]
    taken: Loads


class Keeping:
    """Since when the turns of a namespace keep gangs of others out.

    The next stretch begins SHARE times its length after this one began.
    """

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def left(self, namespace: str, now: datetime, patience: float) -> float:
        """Return the seconds for which the turns of a namespace may still do so."""
        length = TURN * patience
        since = self._since.get(namespace)
        past = length * SHARE if since is None else (now - since).total_seconds()
        if past < 0 or past >= length * SHARE:  # the clock was set back, or the next one may begin
            return length
        return max(length - past, 0.0)

    def keeps(self, namespace: str, now: datetime, patience: float) -> None:
        over = timedelta(seconds=TURN * patience * SHARE)
        self._since = {k: at for k, at in self._since.items() if at <= now < at + over}
        self._since.setdefault(namespace, now)


class Turns:
    """Who has the turn, and who gave way for whom, for one term.

    `wake` queues the Workloads of a group.
    """

    def __init__(self, wake: Callable[[Key], None]) -> None:
        self._wake = wake
        self.clear()

    def clear(self) -> None:
        self._keeping = Keeping()
        self._claims: dict[Key, Claim] = {}
        self._behind: dict[Key, tuple[Key, datetime]] = {}
        """By gang, the one ahead and until when."""
        self._gave: dict[tuple[Key, Key], bool] = {}
        """The gangs that gave way for another one, and whether it was in vain."""
        self._wanted: dict[Key, frozenset[str]] = {}
        """By gang that is or was held, the clusters where its other replicas could be."""
        self._line: tuple[datetime, int, list[Order]] | None = None

    # --- whose turn it is -------------------------------------------------------------------------

    def behind(self, gang: GangTry) -> Behind | None:
        """Return the gang ahead that has the turn; None if this one may start."""
        if not gang.patience or gang.started:
            return None
        own, looks = None, 0
        for order in self._in_line(gang):
            own, key = own or gang.place(), order[2]
            if own is None or order >= own:
                return None
            claim, left = self._claims.get(key), self._left(order[1], key, gang)
            group = gang.ledger.get(key)
            if not left or group is None or gang.ledger.assigned(key) >= group.min_member:
                continue
            if claim is not None and not claim.clusters:
                continue
            if (claim is None or not claim.holds(gang.now, _FRESH)) and looks < _LOOKS:
                looks += 1
                claim = self._look(gang.other(group))
            if claim is not None and claim.clusters:
                return Behind(claim, left)
        return None

    def again(self, key: Key, now: datetime) -> float | None:
        """Return the seconds until the turn ends that a gang stands behind."""
        if (behind := self._behind.get(key)) is None:
            return None
        if behind[1] > now:
            return (behind[1] - now).total_seconds()
        del self._behind[key]
        self._wake(key)
        return None

    def _in_line(self, gang: GangTry) -> list[Order]:
        ledger = gang.ledger
        if self._line is not None:
            at, changes, line = self._line
            if changes == ledger.changes and at <= gang.now < at + _FRESH:
                return line
        limit = timestamp(gang.now - timedelta(seconds=gang.patience))
        old = (each for each in ledger.values() if not each.ran and each.created <= limit)
        waiting = [gang.other(e) for e in old if ledger.assigned(e.key) < e.min_member]
        line = sorted(place for each in waiting if (place := each.place()))
        self._line = (gang.now, ledger.changes, line)
        return line

    def _left(self, since: datetime, key: Key, gang: GangTry) -> float:
        left = turn((gang.now - since).total_seconds(), gang.patience)
        if key[0] != gang.key[0]:
            left = min(left, self._keeping.left(key[0], gang.now, gang.patience))
        return left

    def _look(self, gang: GangTry, *, for_room: bool = True, refused: bool = False) -> Claim | None:
        """Return a gang's claim on a turn; None for one that waits for too short.

        `for_room`: it may lack room. `refused`: an attempt has just failed.
        """
        key, order, before = gang.key, gang.place(), self._claims.get(gang.key)
        clusters, until = frozenset[str](), gang.now
        rest = timedelta(seconds=TURN * gang.patience)
        if before is not None and not before.clusters and before.holds(gang.now, rest):
            return before
        old = order is not None and (gang.now - order[1]).total_seconds() >= gang.patience
        if old and for_room and not gang.failing and not gang.started:
            taken = gang.ledger.taken
            clusters = _names(gang.fitting([taken]), gang.snapshot)
            until += _FRESH
            if refused and clusters and clusters.isdisjoint(taken):
                clusters, until = frozenset(), gang.now + rest
        if before is not None and (not clusters or before.order != order):
            self._end(key)
        if order is None or not old:
            self._claims.pop(key, None)
            return None
        self._claims[key] = Claim(key, order, until, clusters)
        return self._claims[key]

    def _end(self, key: Key) -> None:
        self._claims.pop(key, None)
        for each in [each for each, (ahead, _) in self._behind.items() if ahead == key]:
            del self._behind[each]
            self._wake(each)

    # --- who gives way ----------------------------------------------------------------------------

    def for_whom(
        self, gang: GangTry, tried: Sequence[Trial], holds: Sequence[GangHold]
    ) -> Key | None:
        """Return the gang that must go first; None if this attempt may hold."""
        if (earlier := self._asker(gang.key)) is not None:
            return earlier
        there = {c for each in tried for c in each.workload.arriving(each.placements)}
        first = [h for h in holds if h.order < gang.order and h.key != gang.key]
        found = (h.key for h in sorted(first, key=_order) if there & self._wanted.get(h.key, set()))
        return next(found, None)

    def given_back(self, key: Key) -> None:
        if (earlier := self._asker(key)) is not None:
            self._wake(earlier)

    def concluded(
        self,
        gang: GangTry,
        outcome: TrialResult,
        tried: Sequence[Trial] = (),
        holds: Sequence[GangHold] = (),
    ) -> list[Key]:
        """Record the decision on a gang; return the holders that must give way for it now."""
        key, holding = gang.key, {hold.key for hold in holds}
        for pair in [p for p, vain in self._gave.items() if p[0] == key and not vain]:
            if outcome is TrialResult.PLACE:
                del self._gave[pair]
            elif pair[1] not in holding:
                self._gave[pair] = True
            else:
                continue
            self._wake(pair[1])
        self._behind.pop(key, None)
        if outcome is TrialResult.PLACE:
            self.given_back(key)
            self._end(key)
            return []
        if gang.behind is not None:
            ahead, seconds = gang.behind.claim.key, gang.behind.seconds
            self._behind[key] = ahead, gang.now + timedelta(seconds=seconds) + _ROUNDED
            if ahead[0] != key[0]:
                self._keeping.keeps(ahead[0], gang.now, gang.patience)
        if outcome is TrialResult.WAIT:
            self._wanted = {k: there for k, there in self._wanted.items() if k in holding}
            before = self._wanted.get(key, frozenset())
            self._wanted[key] = before | _lacking(tried, gang.snapshot)
        alone, for_room = gang.behind is None, gang.tries
        if alone and tried and not any(map(_lacks_room, tried)):
            for_room = False
        if gang.patience:
            self._look(gang, for_room=for_room, refused=alone)
        return self._ask(gang, holds) if for_room and alone else []

    def over(self, key: Key) -> None:
        """Forget a group that is changed, gone or placed."""
        self._end(key)
        self._behind.pop(key, None)
        for earlier, holder in list(self._gave):
            # Room that is not given back yet stays asked for by the same gang.
            if earlier == key or (holder == key and self._gave[earlier, holder]):
                vain = self._gave.pop((earlier, holder))
                if earlier == key and not vain:
                    self._wake(holder)

    def _asker(self, key: Key) -> Key | None:
        made = (e for (e, holder), vain in self._gave.items() if holder == key and not vain)
        return next(made, None)

    def _ask(self, gang: GangTry, holds: Sequence[GangHold]) -> list[Key]:
        busy = {holder for (e, holder), vain in self._gave.items() if e == gang.key or not vain}
        later = (h for h in holds if h.order > gang.order and h.key not in busy | {gang.key})
        asked = sorted(later, key=_order, reverse=True)
        if not asked:
            return []
        useful = _names(gang.fitting(hold.taken for hold in asked), gang.snapshot)
        asked = [hold for hold in asked if not useful.isdisjoint(hold.taken)]
        for number in range(1, min(len(asked), _MOST_ASKED)):
            if gang.fitting(hold.taken for hold in asked[:number]).any():
                asked = asked[:number]
                break
        self._gave.update({(gang.key, hold.key): False for hold in asked})
        return [hold.key for hold in asked]


def turn(waited: float, patience: float) -> float:
    """Return the seconds left of a gang's turn after that wait."""
    first = TURN * patience
    past = (waited - patience) / first if first else -1.0
    if past < 0:
        return 0.0
    length = 2.0 ** int(log2(past / 2 + 1))  # a turn, and a rest that is as long
    return max(3 * length - 2 - past, 0.0) * first


def words(key: Key, namespace: str) -> str:
    return f"gives way to {_seen_from(namespace, key)}"


def _seen_from(namespace: str, key: Key) -> str:
    """Name a gang without showing names of another tenant."""
    return named(key) if key[0] == namespace else "a gang of another namespace"


def _order(hold: GangHold) -> tuple[Any, ...]:
    return hold.order


def _names(mask: Mask, snapshot: Snapshot) -> frozenset[str]:
    return frozenset(snapshot.names_of(mask))


def _lacking(tried: Iterable[Trial], snapshot: Snapshot) -> frozenset[str]:
    """Return the clusters where the replicas could be that found none."""
    able = (each.feasible | each.crowded for each in tried if each.assigned < each.desired)
    return frozenset().union(*(_names(mask, snapshot) for mask in able))


def _lacks_room(tried: Trial) -> bool:
    return tried.assigned < tried.desired and bool((tried.feasible | tried.crowded).any())
