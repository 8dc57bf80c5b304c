"""A gang that waits: since when, its place in line, and how long its turn lasts.

What a decision says of it is read by those that stand behind it: whose turn it is, since when it
waits, and which clusters are kept for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeAlias

import numpy as np

from controller.cache.columns import Mask
from controller.cache.snapshot import Fleet
from controller.features.workloadgroup.compiled import Group, named
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.reach import Waiting
from controller.model.unit import Unit
from crds.groups.gate import GateState
from machinery.types.metadata import Key

PATIENCE_SECONDS: Final = 300
TURN: Final = 12
"""How many times the patience the first turn lasts."""
Order: TypeAlias = tuple[int, datetime, Key]
"""A place in line: the priority, turned round, since when it waits, its name."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A gang that would fit if others gave back what they take, and the clusters that it could use.

    `order` is its place in line.
    """

    key: Key
    order: Order
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

    def place(self) -> Order | None:
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
            here, there = moment(group.created), moment(unit.created)
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


def moment(text: str) -> datetime | None:
    """None for what is no moment, or has no zone."""
    with suppress(ValueError):
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else None
    return None
