"""What a term remembers of each group beside the stored objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from controller.features.workloadgroup.fairness import Findings, Turns
from controller.framework.status import SUCCESS, Status
from machinery.types.metadata import Key

_LOOSE = timedelta(seconds=10)
"""Seconds within which a gang that is held again counts as held all the time. An event has woken
it, and a wait that began again with each event would never end.
"""


@dataclass(frozen=True, slots=True)
class Denial:
    """A refusal that keeps a group from being tried for `seconds`.

    All members get the same `status`, so that none is written twice.
    """

    since: datetime
    seconds: int
    seen: Findings
    status: Status = SUCCESS

    @property
    def until(self) -> datetime:
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


def _nothing(_: Key) -> None:
    pass


class GroupMemory:
    """`queue` queues a group's Workloads.

    `told` is called when its replicas are held again: no change of an object tells of that.
    """

    def __init__(
        self, queue: Callable[[Key], None] = _nothing, told: Callable[[Key], None] = _nothing
    ) -> None:
        self.epoch = 0
        self.turns = Turns(self._wake)
        self._queue = queue
        self._told = told
        self._groups: dict[Key, _RememberedGroup] = {}

    def deny(self, key: Key, denial: Denial) -> None:
        group = self._of(key)
        group.denial, group.asked = denial, False
        group.due = group.comes = None

    def denied(self, key: Key, now: datetime, seen: Findings | None = None) -> Denial | None:
        """Return the denial that holds now; with `seen`, only one of the same state."""
        group = self._groups.get(key)
        denial = None if group is None else group.denial
        if denial is None or denial.seen.epoch != self.epoch:
            return None
        if not denial.since <= now < denial.until:  # over, or the clock was set back
            return None
        return denial if seen is None or seen == denial.seen else None

    def why(self, key: Key) -> str:
        """Return the reason of the last refusal."""
        group = self._groups.get(key)
        args = () if group is None or group.denial is None else group.denial.status.args
        return args[0] if args else ""

    def ask(self, key: Key) -> None:
        self._of(key).asked = True

    def due(self, key: Key, until: datetime, who: Key) -> bool:
        """Whether `who` must come back at `until`, for all members."""
        group = self._groups.get(key)
        if group is None or not group.asked:
            return False
        group.asked = False
        if group.due is not None and group.due >= until and group.comes != who:
            return False
        group.due, group.comes = until, who
        return True

    def hold(self, key: Key, now: datetime, found: int = 0) -> None:
        group = self._of(key)
        group.held, group.loose = self.held_since(key, now) or now, None
        group.found = found

    def too_long(self, key: Key, seen: Findings) -> None:
        """Record that a hold timed out: as many replicas are not held again."""
        group = self._of(key)
        group.vain = (group.found, seen.generation, seen.members)

    def in_vain(self, key: Key, found: int, seen: Findings) -> bool:
        group = self._groups.get(key)
        if group is None or group.vain is None:
            return False
        before, *edits = group.vain
        return found <= before and edits == [seen.generation, seen.members]

    def give_back(self, key: Key, now: datetime) -> None:
        group = self._groups.get(key)
        if group is not None and group.held is not None:
            group.loose = now

    def hold_on(self, key: Key) -> None:
        if (group := self._groups.get(key)) is not None:
            group.loose = None
            self._told(key)

    def held_since(self, key: Key, now: datetime | None = None) -> datetime | None:
        """Return when the wait began; with `now`, None for one given back too long ago."""
        group = self._groups.get(key)
        if group is None:
            return None
        over = now is not None and group.loose is not None and now - group.loose > _LOOSE
        if now is not None and group.held is not None and group.held > now:
            group.held = now  # the clock was set back
        return None if over else group.held

    def loose(self, key: Key, now: datetime) -> bool:
        group = self._groups.get(key)
        return group is not None and group.loose is not None and bool(self.held_since(key, now))

    def not_held(self, key: Key) -> None:
        if (group := self._groups.get(key)) is not None:
            group.held = group.loose = None

    def fail(self, key: Key, moment: str) -> None:
        self._of(key).failure = moment

    def last_failure(self, key: Key) -> str:
        group = self._groups.get(key)
        return "" if group is None else group.failure

    def succeed(self, key: Key) -> None:
        if (group := self._groups.get(key)) is not None:
            group.denial, group.failure, group.vain = None, "", None

    def clear_denied(self, key: Key) -> None:
        self._lift(key)
        self.turns.over(key)

    def cluster_changed(self) -> None:
        self.epoch += 1

    def forget(self, key: Key) -> None:
        self._groups.pop(key, None)
        self.turns.over(key)

    def clear(self) -> None:
        self._groups.clear()
        self.turns.clear()

    def _wake(self, key: Key) -> None:
        self._lift(key)
        self._queue(key)

    def _lift(self, key: Key) -> None:
        if (group := self._groups.get(key)) is not None:
            group.denial = None

    def _of(self, key: Key) -> _RememberedGroup:
        return self._groups.setdefault(key, _RememberedGroup())
