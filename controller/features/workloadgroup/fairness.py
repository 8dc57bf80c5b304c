"""Which gang goes first if several want the same room, so that none starves.

A gang that misses only a little holds the room that it found. Two gangs may each hold what the
other lacks, so:

- a gang begins no hold where an earlier one, refused for lack of room, would fit by columns;
- such an earlier one asks the latest holders back, no more than it needs by columns.

docs/decisions/0004-turns-of-gangs.md has the rule of turns, its bounds and its cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

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

KEPT: Final = "Kept"
PATIENCE_SECONDS: Final = 300
TURN: Final = 12
"""The length of a turn, and of the rest that follows, as a multiple of the patience."""
SHARE: Final = 4
"""In any SHARE times the length of a turn, all turns of a namespace keep gangs of other
namespaces out for the length of one at most.
"""
_FRESH = timedelta(seconds=5)
"""Seconds for which the line, and what the first of it claim, are used again."""
_LOOKS = 2
"""Gangs that are checked for the decision on another one; the others wait for the next."""
_ROUNDED = timedelta(milliseconds=1)
"""Seconds after the end of a turn until those behind it are checked."""
_MOST_ASKED: Final = 16
"""Holders that are tried one by one, and earlier gangs that a hold is checked against."""
YIELDS: Final = "Yields"


class Order(NamedTuple):
    """A place in line: the priority, negated, and since when the gang waits."""

    priority: int
    since: datetime
    key: Key


@dataclass(frozen=True, slots=True)
class Behind:
    """The gang that has the turn, the clusters kept for it, and the seconds until it is over."""

    order: Order
    clusters: frozenset[str]
    seconds: float

    def kept(self, snapshot: Snapshot) -> Mask:
        mask = np.zeros(len(snapshot), dtype=np.bool_)
        mask[snapshot.rows(self.clusters)] = True
        return mask

    def outside(self, snapshot: Snapshot, namespace: str) -> tuple[Mask, str, str]:
        since = self.order.since.strftime("%Y-%m-%dT%H:%M:%SZ")
        text = f"kept for {_seen_from(namespace, self.order.key)}, which waits since {since}"
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
    the gang. `first`: where earlier gangs would fit, as far as an attempt has asked.
    """

    group: CompiledGroup
    infos: Sequence[WorkloadInfo]
    snapshot: Snapshot
    ledger: Groups
    now: datetime
    seen: Findings
    patience: float = PATIENCE_SECONDS
    behind: Behind | None = None
    tries: bool = True
    filters: Filters = of_default_profile
    first: dict[Key, frozenset[str]] = field(default_factory=dict)

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
                return Order(first, max(here, there), self.key) if here and there else None
        return None

    def fitting(self, given: Iterable[Loads] = ()) -> Mask:
        """Return where the quorum would fit if these gave back their room, shape (n,)."""
        back = amounts(added(given), self.snapshot)
        return fitting(self.group, self.infos, self.snapshot, self.need, back, self.filters)

    def other(self, group: CompiledGroup) -> GangTry:
        infos = [member.workload for member in self.ledger.members(group.key).values()]
        return replace(self, group=group, infos=infos, behind=None)


Holds: TypeAlias = Mapping[Key, Loads]
"""By gang, the replicas that it holds."""


@dataclass(slots=True)
class _Waits:
    """What is kept of a gang from its last decision to the next.

    `behind`: the gang that goes first, and when its turn ends. `short`: it was refused for lack of
    room, or holds. `asked`: the holders that are to give way for it. `idle`: the end of other gangs
    would not help it, so it has no turn.
    """

    behind: tuple[Key, datetime | None] | None = None
    short: bool = False
    asked: frozenset[Key] = frozenset()
    idle: bool = False


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
    """Which gang has the turn, and which gives way for which, for one term.

    `wake` queues the Workloads of a group.
    """

    def __init__(self, wake: Callable[[Key], None]) -> None:
        self._wake = wake
        self.clear()

    def clear(self) -> None:
        self._keeping = Keeping()
        self._gangs: dict[Key, _Waits] = {}
        self._line: tuple[datetime, int, dict[Order, frozenset[str] | None]] | None = None

    # --- whose turn it is -------------------------------------------------------------------------

    def behind(self, gang: GangTry) -> Behind | None:
        """Return the gang ahead that has the turn; None if this one may start."""
        if not gang.patience or gang.started:
            return None
        own, looks, line = None, 0, self._in_line(gang)
        for order in line:
            own = own or gang.place()
            if own is None or order >= own:
                return None
            group, left = gang.ledger.get(order.key), self._left(order, gang)
            if not left or group is None or gang.ledger.assigned(order.key) >= group.min_member:
                continue
            if (waits := self._gangs.get(order.key)) is not None and waits.idle:
                continue
            if (clusters := line[order]) is None and looks < _LOOKS:
                looks += 1
                clusters = line[order] = _claimed(gang.other(group))
            if clusters:
                return Behind(order, clusters, left)
        return None

    def again(self, key: Key, now: datetime) -> float | None:
        """Return the seconds until the turn ends that a gang stands behind."""
        waits = self._gangs.get(key)
        until = None if waits is None or waits.behind is None else waits.behind[1]
        if waits is None or until is None:
            return None
        if until > now:
            return (until - now).total_seconds()
        waits.behind = None
        self._wake(key)
        return None

    def _in_line(self, gang: GangTry) -> dict[Order, frozenset[str] | None]:
        """Return the gangs that have waited for long, with their claims as far as known."""
        ledger = gang.ledger
        if self._line is not None:
            at, changes, line = self._line
            if changes == ledger.changes and at <= gang.now < at + _FRESH:
                return line
        limit = timestamp(gang.now - timedelta(seconds=gang.patience))
        old = (each for each in ledger.values() if not each.ran and each.created <= limit)
        waiting = [each for each in old if ledger.assigned(each.key) < each.min_member]
        line = dict.fromkeys(place for place, _ in _by_place(gang, waiting))
        self._line = (gang.now, ledger.changes, line)
        return line

    def _left(self, order: Order, gang: GangTry) -> float:
        left = turn((gang.now - order.since).total_seconds(), gang.patience)
        if order.key[0] != gang.key[0]:
            left = min(left, self._keeping.left(order.key[0], gang.now, gang.patience))
        return left

    def _end(self, key: Key) -> None:
        """End the turn of a gang: those that stand behind it are decided again."""
        for each, waits in list(self._gangs.items()):
            if waits.behind is not None and waits.behind[0] == key:
                waits.behind = None
                self._wake(each)

    # --- who gives way ----------------------------------------------------------------------------

    def for_whom(self, gang: GangTry, tried: Sequence[Trial], holds: Holds) -> Key | None:
        """Return the gang that must go first; None if this attempt may hold."""
        there = {c for each in tried for c in each.workload.arriving(each.placements)}
        groups = (gang.ledger.get(key) for key, waits in self._gangs.items() if waits.short)
        others, own = _by_place(gang, groups), gang.place()
        for other in [other for place, other in others if own and place < own][:_MOST_ASKED]:
            if other.key not in gang.first:
                room = other.fitting(holds[key] for key in _later(other, holds))
                gang.first[other.key] = _names(room, gang.snapshot)
            if there & gang.first[other.key]:
                return other.key
        return None

    def given_back(self, key: Key) -> None:
        """Decide those again that have asked a gang for its room."""
        for earlier, waits in list(self._gangs.items()):
            if key in waits.asked:
                waits.asked -= {key}
                self._wake(earlier)

    def concluded(
        self,
        gang: GangTry,
        outcome: TrialResult,
        tried: Sequence[Trial] = (),
        holds: Holds = MappingProxyType({}),
        ahead: Key | None = None,
    ) -> frozenset[Key]:
        """Record the decision on a gang; return the holders that must give way for it now.

        `ahead`: the gang that it gave way to.
        """
        key = gang.key
        if outcome is TrialResult.PLACE:
            self.given_back(key)
            self.over(key)
            return frozenset()
        waits, alone = self._gangs.setdefault(key, _Waits()), gang.behind is None
        for_room = gang.tries and (not alone or not tried or any(map(_lacks_room, tried)))
        short, idle, waits.behind = alone and for_room, waits.idle, None
        if gang.behind is not None:
            first, seconds = gang.behind.order.key, gang.behind.seconds
            waits.behind = first, gang.now + timedelta(seconds=seconds) + _ROUNDED
            if first[0] != key[0]:
                self._keeping.keeps(first[0], gang.now, gang.patience)
        elif ahead is not None:
            waits.behind = ahead, None
        order = gang.place() if gang.patience else None
        if order is not None and (gang.now - order.since).total_seconds() >= gang.patience:
            clusters = _claimed(gang) if for_room else frozenset()
            idle = not clusters or (alone and clusters.isdisjoint(gang.ledger.taken))
        if (idle and not waits.idle) or (waits.short and not short):
            self._end(key)
        waits.short, waits.idle = short, idle
        waits.asked = _asked(gang, holds) if waits.short else frozenset()
        return waits.asked

    def over(self, key: Key) -> None:
        """Forget a group that is changed, gone or placed."""
        if key in self._gangs:
            self._end(key)
            del self._gangs[key]


def _claimed(gang: GangTry) -> frozenset[str]:
    """Return where a gang would fit if all gangs gave back their room."""
    if gang.failing or gang.started:
        return frozenset()
    return _names(gang.fitting([gang.ledger.taken]), gang.snapshot)


def _asked(gang: GangTry, holds: Holds) -> frozenset[Key]:
    """Return the holders whose room a gang needs, the latest first."""
    asked = _later(gang, holds)
    if asked:
        useful = _names(gang.fitting(holds[key] for key in asked), gang.snapshot)
        asked = [key for key in asked if not useful.isdisjoint(holds[key])]
    for number in range(1, min(len(asked), _MOST_ASKED)):
        if gang.fitting(holds[key] for key in asked[:number]).any():
            return frozenset(asked[:number])
    return frozenset(asked)


def _later(gang: GangTry, holds: Holds) -> list[Key]:
    """Return the holders behind this gang in line, the last one first."""
    own, placed = gang.place(), _by_place(gang, map(gang.ledger.get, holds))
    return [place.key for place, _ in reversed(placed) if own and place > own]


def _by_place(gang: GangTry, groups: Iterable[CompiledGroup | None]) -> list[tuple[Order, GangTry]]:
    others = [gang.other(group) for group in groups if group is not None]
    placed = [(place, other) for other in others if (place := other.place())]
    return sorted(placed, key=lambda each: each[0])


def turn(waited: float, patience: float) -> float:
    """Return the seconds left of a gang's turn after that wait. A rest follows, as long."""
    length, past = TURN * patience, waited - patience
    return max(length - past % (2 * length), 0.0) if length and past >= 0 else 0.0


def words(key: Key, namespace: str) -> str:
    return f"gives way to {_seen_from(namespace, key)}"


def _seen_from(namespace: str, key: Key) -> str:
    """Name a gang without showing names of another tenant."""
    return named(key) if key[0] == namespace else "a gang of another namespace"


def _names(mask: Mask, snapshot: Snapshot) -> frozenset[str]:
    return frozenset(snapshot.names_of(mask))


def _lacks_room(tried: Trial) -> bool:
    return tried.assigned < tried.desired and bool((tried.feasible | tried.crowded).any())
