"""What one term of leadership remembers of each group, beside what the hub stores.

Nothing here is needed after a restart: a denial is found anew, and what was held is given back with
the term. What shall outlive it (the last failure, the time of the next try) the group's own status
says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from machinery.types.metadata import Key


class Seen(NamedTuple):
    """What a refusal was found on; where any of it is another one, it holds no more.

    The clusters' epoch, the group's uid and generation, and the version of its members.
    """

    epoch: int
    uid: str
    generation: int
    members: int


@dataclass(frozen=True, slots=True)
class Denial:
    """A group that is not tried for so many seconds, and why, in words that stay the same."""

    since: datetime
    seconds: int
    why: str
    seen: Seen

    @property
    def until(self) -> datetime:
        """When it may be tried again though nothing has changed."""
        return self.since + timedelta(seconds=self.seconds)


@dataclass(slots=True)
class _Group:
    denial: Denial | None = None
    asked: bool = False
    held: datetime | None = None
    failure: str = ""


@dataclass(slots=True)
class Memory:
    """By group. One for a process, and one for each rehearsal."""

    epoch: int = 0
    """Another one after each change of a cluster that might help somebody."""
    _groups: dict[Key, _Group] = field(default_factory=dict)

    def deny(self, key: Key, denial: Denial) -> None:
        """Not to be tried until the denial is over."""
        group = self._of(key)
        group.denial, group.asked = denial, False

    def denied(self, key: Key, now: datetime, seen: Seen | None = None) -> Denial | None:
        """The denial that holds now, of what is seen; without that, of what was seen then."""
        group = self._groups.get(key)
        denial = None if group is None else group.denial
        if denial is None or now >= denial.until:
            return None
        return denial if seen is None or seen == denial.seen else None

    def ask(self, key: Key) -> None:
        """Somebody was turned away by the denial: what he came for is looked at when it is over."""
        self._of(key).asked = True

    def again(self, key: Key, now: datetime) -> float | None:
        """Seconds until a denial is over by which somebody was turned away; None without one."""
        group = self._groups.get(key)
        if group is None or group.denial is None or not group.asked:
            return None
        return max((group.denial.until - now).total_seconds(), 0.0)

    def hold(self, key: Key, now: datetime) -> datetime:
        """Units are held from now on; since when they are, if they were before."""
        group = self._of(key)
        group.held = group.held or now
        return group.held

    def held_since(self, key: Key) -> datetime | None:
        """When the group's first wait began; None where nothing is held."""
        group = self._groups.get(key)
        return None if group is None else group.held

    def not_held(self, key: Key) -> None:
        """Nothing is held any more: a later wait is a first one."""
        if (group := self._groups.get(key)) is not None:
            group.held = None

    def fail(self, key: Key, moment: str) -> None:
        """An attempt has failed then."""
        self._of(key).failure = moment

    def last_failure(self, key: Key) -> str:
        """When an attempt last failed in this term, as text; empty where none has."""
        group = self._groups.get(key)
        return "" if group is None else group.failure

    def clear_denied(self, key: Key) -> None:
        """It may be tried at once."""
        if (group := self._groups.get(key)) is not None:
            group.denial, group.asked = None, False

    def cluster_changed(self) -> None:
        """Every denial is void."""
        self.epoch += 1

    def forget(self, key: Key) -> None:
        """The group is gone."""
        self._groups.pop(key, None)

    def rest(self) -> None:
        """The term is over."""
        self._groups.clear()

    def _of(self, key: Key) -> _Group:
        return self._groups.setdefault(key, _Group())
