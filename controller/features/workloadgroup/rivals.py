"""Gangs that want the same room: which holds some of it, which waits for it, and which gives way.

A gang that misses only a little holds the room that it found (`judge` says WAIT). Two gangs may
each hold what the other lacks, and an earlier one may be refused for room that a later one merely
holds. So

- no gang begins to hold room where an earlier one that holds may still find what it lacks;
- a gang without a quorum asks the later holders back, the latest first, and no more of them than it
  needs by columns; none at all, where all of them together would not help it;
- a gang that gave way holds nothing until the other one was decided again. If that found no quorum
  even so, it does not ask the same holder again while that holds: they would ask and answer for
  ever.

Holds on clusters that the other gang cannot use stay. `WaitingSets` gives the room itself back;
this module knows which gang holds what, for one term of leadership. Gangs behind a waiting one read
whose turn it is (`turns`), since when that gang waits, and which clusters are kept for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import numpy as np

from controller.features.workloadgroup.compiled import CompiledGroup, named
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.reach import (
    Filters,
    PendingGroup,
    amounts,
    of_default_profile,
)
from controller.framework.gathering import Trial
from controller.model.load import Loads, added
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot
from crds.groups.gate import GateState
from machinery.clock import stored_time
from machinery.types.metadata import Key

KEPT: Final = "Kept"
_MOST_ASKED: Final = 16
"""Holders that are tried one by one; beyond that number all are asked."""
PATIENCE_SECONDS: Final = 300
TURN: Final = 12
"""The length of the first turn, as a multiple of the patience."""
SHARE: Final = 4
"""In any SHARE times the length of a first turn, all turns of a namespace together keep gangs of
other namespaces out for the length of one at most."""
Order: TypeAlias = tuple[int, datetime, Key]
"""A place in line: the priority, negated, since when the gang waits, and its name."""


@dataclass(frozen=True, slots=True)
class BlockedGroup:
    """A gang that would fit if others gave back their room, and the clusters that it could use.

    `order` is its place in line.
    """

    key: Key
    order: Order
    clusters: frozenset[str]

    @property
    def since(self) -> datetime:
        return self.order[1]


@dataclass(frozen=True, slots=True)
class Behind:
    """The gang that has the turn, for one behind it; `seconds` until the turn is over."""

    claim: BlockedGroup
    seconds: float

    def kept(self, snapshot: Snapshot) -> Mask:
        """Return the clusters that are kept for the other gang, shape (n,)."""
        mask = np.zeros(len(snapshot), dtype=np.bool_)
        mask[snapshot.rows(self.claim.clusters)] = True
        return mask

    def outside(self, snapshot: Snapshot, namespace: str) -> tuple[Mask, str, str]:
        """Return the kept clusters for a Filter, with a message for that namespace."""
        since = self.claim.since.strftime("%Y-%m-%dT%H:%M:%SZ")
        text = f"kept for {_seen_from(namespace, self.claim.key)}, which waits since {since}"
        return self.kept(snapshot), text, KEPT


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUnderDecision:
    """A gang that is decided, and the state that it is decided on.

    Args:
        group: the group.
        infos: all of its members.
        order: its place in the order of the queue.
        snapshot: the snapshot, without the gang's own room if that is decided again.
        ledger: the placements of all groups.
        now: the time of the decision.
        patience: seconds after which a gang gets its turn; 0 for never.
        behind: the gang ahead that has the turn, where that is known.
        filters: what the profiles of members have at Filter.
    """

    group: CompiledGroup
    infos: Sequence[WorkloadInfo]
    order: tuple[Any, ...]
    snapshot: Snapshot
    ledger: Groups
    now: datetime
    patience: float = PATIENCE_SECONDS
    behind: Behind | None = None
    filters: Filters = of_default_profile

    @property
    def key(self) -> Key:
        return self.group.key

    @property
    def started(self) -> bool:
        """Return whether the quorum has clusters, or has run."""
        return self.group.ran or self._need <= 0

    @property
    def failing(self) -> bool:
        """Return whether the gang would not be started even with room."""
        group = self.group
        later = group.rests_until(self.now) is not None
        return bool(group.fault) or group.gate == GateState.CLOSED or later

    @property
    def waiting(self) -> PendingGroup:
        return PendingGroup(
            group=self.group,
            infos=self.infos,
            snapshot=self.snapshot,
            need=self._need,
            filters=self.filters,
        )

    def place(self) -> Order | None:
        """Return the place in line; None where the gang is not complete, or has no times."""
        since = waits_since(self.group, self.infos, len(self.snapshot))
        if since is None:
            return None
        return (-max(info.priority for info in self.infos), since, self.key)

    def other(self, group: CompiledGroup) -> GroupUnderDecision:
        infos = [member.workload for member in self.ledger.members(group.key).values()]
        return replace(self, group=group, infos=infos, order=(), behind=None)

    @property
    def _need(self) -> int:
        return self.group.min_member - self.ledger.assigned(self.group.key)


def waits_since(
    group: CompiledGroup, infos: Sequence[WorkloadInfo], clusters: int = 1
) -> datetime | None:
    """Return since when a gang could be placed: the group and the Workloads of a quorum exist."""
    wanted = 0
    for info in sorted(infos, key=lambda info: info.created):
        wanted += info.replicas * (clusters if info.everywhere else 1)
        if wanted >= group.min_member:
            here, there = stored_time(group.created), stored_time(info.created)
            return max(here, there) if here and there else None
    return None


def turn(waited: float, patience: float) -> float:
    """Return the seconds left of a gang's turn after it has waited so long; 0 without one."""
    first = TURN * patience
    past = (waited - patience) / first if first else -1.0
    if past < 0:
        return 0.0
    length = 1.0
    while past >= 2 * length:  # a turn, and a rest that is as long
        past -= 2 * length
        length *= 2
    return max(length - past, 0.0) * first


@dataclass(frozen=True, slots=True)
class GangHold:
    """A gang that holds room: its place in the queue's order, its room, and where it lacks.

    `parts` is the room that each of its Workloads holds, `taken` all of that together. `wanted` are
    the clusters where its other replicas could be, `partly` those of Workloads that hold some.
    """

    key: Key
    order: tuple[Any, ...]
    parts: Mapping[Key, Loads]
    taken: Loads
    wanted: frozenset[str]
    partly: frozenset[str]

    @staticmethod
    def of(
        key: Key, order: tuple[Any, ...], tried: Sequence[Trial], snapshot: Snapshot
    ) -> GangHold:
        """Return the room that an attempt would hold."""
        parts: dict[Key, Loads] = {}
        for each in tried:
            had = each.workload.present
            more = {c: n - had.get(c, 0) for c, n in each.placements.items() if n > had.get(c, 0)}
            if more:
                parts[each.workload.key] = {c: {each.workload.load: n} for c, n in more.items()}
        short = [each for each in tried if each.assigned < each.desired]
        partly = [each for each in short if each.workload.key in parts]
        wanted = _where(short, snapshot), _where(partly, snapshot)
        return GangHold(key, order, parts, added(parts.values()), *wanted)

    def beside(self, other: GangHold) -> GangHold:
        """Return this hold together with that of its other Workloads."""
        parts = {**other.parts, **self.parts}
        return replace(
            self,
            parts=parts,
            taken=added(parts.values()),
            wanted=self.wanted | other.partly,
            partly=self.partly | other.partly,
        )

    def kept(self, held: Callable[[Key], bool]) -> GangHold:
        parts = {key: part for key, part in self.parts.items() if held(key)}
        return replace(self, parts=parts, taken=added(parts.values()))


class Keeping:
    """Since when the turns of a namespace keep gangs of others out, the last time that they did.

    Such a stretch begins with the first gang that is kept out and lasts as long as a first turn,
    whichever gang has the turn by then. The next one begins at the earliest SHARE times that length
    after this one began. For one term.
    """

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def left(self, namespace: str, now: datetime, patience: float) -> float:
        """Return the seconds from now for which the turns of a namespace may keep others out."""
        length = TURN * patience
        since = self._since.get(namespace)
        past = length * SHARE if since is None else (now - since).total_seconds()
        if past < 0 or past >= length * SHARE:  # the clock was set back, or the next one may begin
            return length
        return max(length - past, 0.0)

    def keeps(self, namespace: str, now: datetime, patience: float) -> None:
        """Begin a stretch, where there is none, as a gang of another namespace is kept out."""
        length = TURN * patience
        over = timedelta(seconds=length * SHARE)
        self._since = {k: at for k, at in self._since.items() if at <= now < at + over}
        self._since.setdefault(namespace, now)


class Rivals:
    """Which gang holds what, which lacks room where, and which gave way for which."""

    def __init__(self) -> None:
        self._holds: dict[Key, GangHold] = {}
        self._wanted: dict[str, set[Key]] = {}
        self._gave: dict[Key, Key] = {}
        self._vain: dict[Key, set[Key]] = {}
        self._given: dict[Key, GangHold] = {}  # since its decision; may be held again

    def hold(self, hold: GangHold) -> None:
        """Record a hold, beside what the gang holds already."""
        if (before := self._holds.get(hold.key)) is not None:
            self.release(hold.key)
            hold = hold.beside(before)
        self._note(hold)

    def holds(self, key: Key, who: Key) -> bool:
        return (hold := self._holds.get(key)) is not None and who in hold.parts

    def keep(self, key: Key, held: Callable[[Key], bool]) -> Key | None:
        """Drop the Workloads that hold nothing any more; return the gang that they gave way for."""
        hold = self._holds.get(key)
        left = None if hold is None else hold.kept(held)
        if hold is None or left is None or len(left.parts) == len(hold.parts):
            return None
        earlier = self.release(key)
        given = self._given.get(key)
        self._given[key] = hold if given is None else hold.beside(given)
        if left.parts:
            self._note(left)
        return earlier

    def hold_on(self, key: Key, who: Key) -> None:
        """Record that a Workload holds its room again, without a decision in between."""
        given = self._given.get(key)
        if given is not None and who in given.parts:
            self.hold(given.kept(who.__eq__))

    def _note(self, hold: GangHold) -> None:
        self._holds[hold.key] = hold
        for cluster in hold.wanted:
            self._wanted.setdefault(cluster, set()).add(hold.key)

    def release(self, key: Key) -> Key | None:
        """Drop the whole hold of a gang; return the gang that it gave way for, if any."""
        hold = self._holds.pop(key, None)
        if hold is None:
            return None
        for cluster in hold.wanted:
            self._wanted[cluster].discard(key)
            if not self._wanted[cluster]:
                del self._wanted[cluster]
        return self._gave.get(key)

    def for_whom(self, hold: GangHold) -> Key | None:
        """Return the gang that one with this hold must give way for; None where it may hold."""
        if (earlier := self._gave.get(hold.key)) is not None:
            return earlier
        there = {key for cluster in hold.taken for key in self._wanted.get(cluster, ())}
        first = [
            self._holds[key] for key in there - {hold.key} if self._holds[key].order < hold.order
        ]
        return min(first, key=lambda each: each.order).key if first else None

    def ask(self, waiting: PendingGroup, order: tuple[Any, ...]) -> list[Key]:
        """Return the holders that are to give way for a gang without a quorum, the latest first."""
        asked = self._later(waiting.group.key, order)
        if not asked:
            return []
        mask = waiting.fitting(amounts(added(h.taken for h in asked), waiting.snapshot))
        useful = {waiting.snapshot.names[row] for row in np.flatnonzero(mask).tolist()}
        asked = [hold for hold in asked if not useful.isdisjoint(hold.taken)]
        for number in range(1, min(len(asked), _MOST_ASKED)):
            given = amounts(added(h.taken for h in asked[:number]), waiting.snapshot)
            if waiting.fitting(given).any():
                asked = asked[:number]
                break
        for hold in asked:
            self._gave[hold.key] = waiting.group.key
        return [hold.key for hold in asked]

    def decided(self, key: Key, *, placed: bool) -> list[Key]:
        """Record that a gang was decided, or is gone; return those that gave way and may hold."""
        self._given.pop(key, None)
        made = [k for k, other in self._gave.items() if other == key]
        free = [k for k in made if placed or k not in self._holds]
        for each in free:
            del self._gave[each]
            if not placed:
                self._vain.setdefault(key, set()).add(each)
        if placed:
            self.forget(key)
        return free

    def awaited(self, key: Key) -> bool:
        """Return whether a gang that gave way for this one waits for its decision."""
        return key in self._gave.values()

    def forget(self, key: Key) -> None:
        """Drop what a placed, changed or deleted gang asked, and what was asked of it."""
        self._vain.pop(key, None)
        for others in self._vain.values():
            others.discard(key)
        # Room that is not given back yet stays asked for by the same gang.
        if key not in self._holds:
            self._gave.pop(key, None)

    def _later(self, key: Key, order: tuple[Any, ...]) -> list[GangHold]:
        vain = self._vain.get(key, ())
        later = (h for h in self._holds.values() if h.order > order and h.key != key)
        found = [h for h in later if h.key not in vain and h.key not in self._gave]
        return sorted(found, key=lambda hold: hold.order, reverse=True)


def words(key: Key, namespace: str) -> str:
    """Return the message of a gang that gives way, for readers of that namespace."""
    return f"gives way to {_seen_from(namespace, key)}"


def _seen_from(namespace: str, key: Key) -> str:
    """Name a gang for readers of a namespace, which must not show names of another tenant."""
    return named(key) if key[0] == namespace else "a gang of another namespace"


def _where(lacking: Sequence[Trial], snapshot: Snapshot) -> frozenset[str]:
    able = [each.feasible | each.crowded for each in lacking]
    mask: Mask = np.any([np.zeros(len(snapshot), dtype=np.bool_), *able], axis=0)
    return frozenset(snapshot.names[row] for row in np.flatnonzero(mask).tolist())
