"""How much of the members' objects is kept in memory: each server within its part, all in one sum.

A list that never ends would otherwise fill the memory of a process that many clusters share. While
the sum has room every server may use it; when it has none, a server that holds less than an equal
part may still grow up to that part, and the others may not. Sizes are estimates, from the bytes
that came or from what is known to be kept of them.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from weakref import WeakSet, finalize

from machinery.types import bounds
from machinery.types.bounds import TooMuch

_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


class NoRoom(TooMuch):
    """A server shows more than can be kept of it."""


class Book:
    """The sum, and the servers that share it. `most` is in bytes."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.total = 0
        self.servers: WeakSet[BudgetShare] = WeakSet()


class BudgetShare:
    """The memory kept of one server; without a budget, as for the hub, it is only counted."""

    def __init__(self, book: Book | None = None) -> None:
        self.held = 0
        self._book = book
        if book is not None:
            book.servers.add(self)

    def take(self, size: int) -> None:
        """Keep that many bytes more, or fewer. Raises NoRoom."""
        book = self._book
        if book is not None:
            if size > 0 and book.total + size > book.most:
                self._check(book, size)
            book.total += size
        self.held += size

    def _check(self, book: Book, size: int) -> None:
        if self.held + size > book.most // max(1, len(book.servers)):
            raise NoRoom(
                f"more is shown than can be kept: {self.held >> 20} MiB are, of {book.most >> 20} "
                "MiB for all members; a larger memory limit of this process makes more room"
            )


class Shelf:
    """The memory that one informer keeps; given back by `close`, or when `owner` is gone."""

    def __init__(self, holding: BudgetShare, owner: object) -> None:
        self._holding = holding
        self._held = 0
        # Which keeps the shelf, so that it must not refer to its owner.
        finalize(owner, self.close).atexit = False

    def take(self, size: int) -> None:
        """Keep that many bytes more, or fewer. Raises NoRoom."""
        self._holding.take(size)
        self._held += size

    def close(self) -> None:
        self.take(-self._held)


def _memory() -> int:
    """Return half of this container's memory limit, or what is enough for many common clusters."""
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # `max`: no limit
            limit = int(path.read_text())
            if limit < bounds.NO_LIMIT:
                return limit // 2
    return bounds.KEPT_BYTES


MEMBERS = Book(_memory())
"""The sum for all members of this process."""
