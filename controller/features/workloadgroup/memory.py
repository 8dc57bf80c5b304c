"""What one term of leadership remembers of each group, beside what the hub stores.

Nothing here is needed after a restart: a denial is found anew, and what was held is given back with
the term. What shall outlive it (the last failure, the time of the next try) the group's own status
says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from controller.features.workloadgroup.turns import Turns
from crds.workload import ScheduledReason
from machinery.types.metadata import Key

_LOOSE = timedelta(seconds=10)
"""What was given back and is held again by then has been held all the time: an event has woken it,
and a wait that began anew with each would never end."""


class Findings(NamedTuple):
    """What a refusal was found on; where any of it is another one, it holds no more.

    The clusters' epoch, the group's uid and generation, and the version of its members.
    """

    epoch: int
    uid: str
    generation: int
    members: int


@dataclass(frozen=True, slots=True)
class Denial:
    """A group that is not tried for so many seconds, and why, in words that stay the same.

    `text` is what its members were told, so that whoever is turned away meanwhile is told the same
    and no status is written twice; `why` the reason in it.
    """

    since: datetime
    seconds: int
    why: str
    seen: Findings
    reason: ScheduledReason = ScheduledReason.GROUP_DENIED
    text: str = ""

    @property
    def until(self) -> datetime:
        """When it may be tried again though nothing has changed."""
        return self.since + timedelta(seconds=self.seconds)


@dataclass(slots=True)
class _RememberedGroup:
    denial: Denial | None = None
    asked: bool = False
    due: datetime | None = None
    comes: Key | None = None
    held: datetime | None = None
    loose: datetime | None = None
    found: int = 0
    vain: tuple[int, int, int] | None = None
    failure: str = ""


@dataclass(slots=True)
class GroupMemory:
    """By group. One for a process, and one for each rehearsal."""

    epoch: int = 0
    """Another one after each change of a cluster that might help somebody."""
    turns: Turns = field(default_factory=Turns)
    """Who gives way for whom."""
    _groups: dict[Key, _RememberedGroup] = field(default_factory=dict)

    def deny(self, key: Key, denial: Denial) -> None:
        """Not to be tried until the denial is over.

        All members were answered with it, and whoever was to come back is withdrawn.
        """
        group = self._of(key)
        group.denial, group.asked = denial, False
        group.due = group.comes = None

    def denied(self, key: Key, now: datetime, seen: Findings | None = None) -> Denial | None:
        """The denial that holds now, of what is seen; without that, of what was seen then."""
        group = self._groups.get(key)
        denial = None if group is None else group.denial
        if denial is None or denial.seen.epoch != self.epoch:
            return None
        if not denial.since <= now < denial.until:  # over, or the clock was set back
            return None
        return denial if seen is None or seen == denial.seen else None

    def why(self, key: Key) -> str:
        """What the last refusal said, also when it holds no more; empty where there was none."""
        group = self._groups.get(key)
        return "" if group is None or group.denial is None else group.denial.why

    def ask(self, key: Key) -> None:
        """Somebody was turned away for now: what he came for is looked at when that is over."""
        self._of(key).asked = True

    def due(self, key: Key, until: datetime, who: Key) -> bool:
        """Whether somebody was turned away and nobody else is to come back by then; now `who` is.

        Whoever is told comes back for all members. Where something else has woken him before, he
        is told again: he has one turn to come, and this was it.
        """
        group = self._groups.get(key)
        if group is None or not group.asked:
            return False
        group.asked = False
        if group.due is not None and group.due >= until and group.comes != who:
            return False
        group.due, group.comes = until, who
        return True

    def hold(self, key: Key, now: datetime, found: int = 0) -> None:
        """Units are held from now on, or still: as many as were found."""
        group = self._of(key)
        group.held, group.loose = self.held_since(key, now) or now, None
        group.found = found

    def too_long(self, key: Key, seen: Findings) -> None:
        """What was held was held for too long: so many units of these members are not held again.

        Else a gang that nothing has helped would keep room from others nearly all the time.
        """
        group = self._of(key)
        group.vain = (group.found, seen.generation, seen.members)

    def in_vain(self, key: Key, found: int, seen: Findings) -> bool:
        """Whether so many units were held for too long before, and nothing was edited since."""
        group = self._groups.get(key)
        if group is None or group.vain is None:
            return False
        before, *edits = group.vain
        return found <= before and edits == [seen.generation, seen.members]

    def give_back(self, key: Key, now: datetime) -> None:
        """What was held is given back; it may be held again in a moment."""
        group = self._groups.get(key)
        if group is not None and group.held is not None:
            group.loose = now

    def hold_on(self, key: Key) -> None:
        """What was given back is held again by the same decision, as if nothing had been."""
        if (group := self._groups.get(key)) is not None:
            group.loose = None

    def held_since(self, key: Key, now: datetime | None = None) -> datetime | None:
        """When the wait began that goes on; None where there is none, `now` where that is given."""
        group = self._groups.get(key)
        if group is None:
            return None
        over = now is not None and group.loose is not None and now - group.loose > _LOOSE
        if now is not None and group.held is not None and group.held > now:
            group.held = now  # the clock was set back
        return None if over else group.held

    def loose(self, key: Key, now: datetime) -> bool:
        """Whether what was held is given back, and may be held again in a moment."""
        group = self._groups.get(key)
        return group is not None and group.loose is not None and bool(self.held_since(key, now))

    def not_held(self, key: Key) -> None:
        """Nothing is held any more: a later wait is a first one."""
        if (group := self._groups.get(key)) is not None:
            group.held = group.loose = None

    def fail(self, key: Key, moment: str) -> None:
        """An attempt has failed then."""
        self._of(key).failure = moment

    def last_failure(self, key: Key) -> str:
        """When an attempt last failed in this term, as text; empty where none has."""
        group = self._groups.get(key)
        return "" if group is None else group.failure

    def succeed(self, key: Key) -> None:
        """Units of it are written: what has failed before is past."""
        if (group := self._groups.get(key)) is not None:
            group.denial, group.failure, group.vain = None, "", None

    def clear_denied(self, key: Key) -> None:
        """It is changed: it may be tried at once."""
        if (group := self._groups.get(key)) is not None:
            group.denial = None
        self.turns.over(key)

    def lift(self, key: Key) -> None:
        """Somebody has made way for it: it may be tried at once."""
        if (group := self._groups.get(key)) is not None:
            group.denial = None

    def cluster_changed(self) -> None:
        """Every denial is void."""
        self.epoch += 1

    def forget(self, key: Key) -> None:
        """The group is gone."""
        self._groups.pop(key, None)
        self.turns.over(key)

    def rest(self) -> None:
        """The term is over."""
        self._groups.clear()
        self.turns.rest()

    def _of(self, key: Key) -> _RememberedGroup:
        return self._groups.setdefault(key, _RememberedGroup())
