"""Which members show something of a Workload: what a removal has to look at."""

from __future__ import annotations


class Holders:
    """Which members show something of a Workload, by its UID. One for all sessions."""

    def __init__(self) -> None:
        self._members: dict[str, set[str]] = {}

    def of(self, uid: str) -> set[str]:
        """The members that do; a copy."""
        return set(self._members.get(uid, ()))

    def add(self, uid: str, member: str) -> None:
        """That member shows the first object of it."""
        self._members.setdefault(uid, set()).add(member)

    def discard(self, uid: str, member: str) -> None:
        """That member shows none any more."""
        members = self._members.get(uid, set())
        members.discard(member)
        if not members:
            self._members.pop(uid, None)
