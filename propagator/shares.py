"""The state of each share in this process, by (Workload's UID, member).

Each part keeps its state in a column, which ends with Workload, share, member or term. A part pops
only what it alone ends sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

from machinery.clock import Clock
from machinery.runtime.backoff import Jitter, KeyedBackoff

T = TypeVar("T")
K = TypeVar("K", bound=tuple[Any, ...])
State: TypeAlias = list[Any]
"""The value of each column, in their order, or NOTHING."""
_NOTHING = object()
_ALL = ""
"""State of a Workload that is on no single member."""


class ShareTable:
    def __init__(self) -> None:
        self._shares: dict[str, dict[str, State]] = {}
        self._columns: list[Column[Any]] = []
        self._backoffs: list[KeyedBackoff[Any]] = []

    def column(
        self,
        make: Callable[[], T] | None = None,
        *,
        of_term: bool = False,
        ended: Callable[[str, str, T], None] = lambda uid, member, value: None,
    ) -> Column[T]:
        """Return a new column; `make` creates missing values for `Column.at`.

        `of_term`: values end if another leader led in between. `ended(uid, member, value)` is
        called after a value left the table.
        """
        at = len(self._columns)
        made = Column(self._shares, at, make, of_term=of_term, ended=ended)
        self._columns.append(made)
        return made

    def backoff(
        self, key: type[K], *, clock: Clock, base: float, cap: float, jitter: Jitter | None = None
    ) -> KeyedBackoff[K]:
        """Return a back-off whose keys begin with the Workload's UID and the member."""
        more = {} if jitter is None else {"jitter": jitter}
        made: KeyedBackoff[K] = KeyedBackoff(clock=clock, base=base, cap=cap, **more)
        self._backoffs.append(made)
        return made

    def drop_workload(self, uid: str) -> None:
        for member in [*self._shares.get(uid, ())]:
            self._drop(uid, member)
        for backoff in self._backoffs:
            backoff.reset_where(lambda key: key[0] == uid)

    def drop_share(self, uid: str, member: str) -> None:
        self._drop(uid, member)
        for backoff in self._backoffs:
            backoff.reset_where(lambda key: key[:2] == (uid, member))

    def drop_member(self, member: str) -> None:
        for uid in [uid for uid, members in self._shares.items() if member in members]:
            self._drop(uid, member)
        for backoff in self._backoffs:
            backoff.reset_where(lambda key: key[1] == member)

    def new_term(self, *, alone: bool) -> None:
        for column in [] if alone else [each for each in self._columns if each.of_term]:
            for uid, member in [*column]:
                column.pop(uid, member)

    def _drop(self, uid: str, member: str) -> None:
        for column in self._columns:
            column.pop(uid, member)


class Column(Generic[T]):
    def __init__(
        self,
        shares: dict[str, dict[str, State]],
        at: int,
        make: Callable[[], T] | None,
        *,
        of_term: bool,
        ended: Callable[[str, str, T], None],
    ) -> None:
        self._shares = shares
        self._at = at
        self._make = make
        self._ended = ended
        self.of_term = of_term

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for uid, members in self._shares.items():
            for member, state in members.items():
                if self._in(state):
                    yield uid, member

    def get(self, uid: str, member: str = _ALL) -> T | None:
        members = self._shares.get(uid)
        state = members.get(member) if members is not None else None
        return state[self._at] if state is not None and self._in(state) else None

    def at(self, uid: str, member: str = _ALL) -> T:
        """Return the value, created if missing. Raises KeyError in a column without `make`."""
        state = self._state(uid, member) if self._make else self._shares[uid][member]
        if not self._in(state):
            if self._make is None:
                raise KeyError((uid, member))
            state[self._at] = self._make()
        value: T = state[self._at]
        return value

    def put(self, uid: str, member: str, value: T) -> None:
        self._state(uid, member)[self._at] = value

    def pop(self, uid: str, member: str = _ALL) -> None:
        members = self._shares.get(uid, {})
        state = members.get(member)
        if state is None or not self._in(state):
            return
        value, state[self._at] = state[self._at], _NOTHING
        if all(each is _NOTHING for each in state):
            del members[member]
        if not members:
            del self._shares[uid]
        self._ended(uid, member, value)

    def of(self, uid: str) -> dict[str, T]:
        members = self._shares.get(uid, {})
        return {name: state[self._at] for name, state in members.items() if self._in(state)}

    def _in(self, state: State) -> bool:
        return len(state) > self._at and state[self._at] is not _NOTHING

    def _state(self, uid: str, member: str) -> State:
        state = self._shares.setdefault(uid, {}).setdefault(member, [])
        if len(state) <= self._at:
            state += [_NOTHING] * (self._at + 1 - len(state))
        return state
