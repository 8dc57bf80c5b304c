"""The memory for members' objects: one total, shared by their servers.

While the total has room, any server may grow. When it is full, only a server below an equal part
may.
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
    """The total, and the servers that share it. `most` is in bytes."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.total = 0
        self.servers: WeakSet[BudgetShare] = WeakSet()


class BudgetShare:
    """Without a budget, as for the hub, it is only counted."""

    def __init__(self, book: Book | None = None) -> None:
        self.held = 0
        self._book = book
        if book is not None:
            book.servers.add(self)

    def take(self, size: int) -> None:
        """Add `size` bytes, or return them if negative. Raises NoRoom."""
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
    """The memory that one informer keeps, until `close` or until `owner` is collected."""

    def __init__(self, holding: BudgetShare, owner: object) -> None:
        self._holding = holding
        self._held = 0
        # `finalize` keeps the shelf, which must not refer to its owner.
        finalize(owner, self.close).atexit = False

    def take(self, size: int) -> None:
        self._holding.take(size)
        self._held += size

    def close(self) -> None:
        self.take(-self._held)


def _memory() -> int:
    """Return half of this container's memory limit, or KEPT_BYTES without a limit."""
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # `max`: no limit
            limit = int(path.read_text())
            if limit < bounds.NO_LIMIT:
                return limit // 2
    return bounds.KEPT_BYTES


MEMBERS = Book(_memory())
