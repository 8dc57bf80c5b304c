"""Which members show objects of a Workload: a removal has to look at these."""

from __future__ import annotations


class Holders:
    """The members that show objects of a Workload, by its UID. One instance for all sessions."""

    def __init__(self) -> None:
        self._members: dict[str, set[str]] = {}

    def of(self, uid: str) -> set[str]:
        """Return the members; a copy."""
        return set(self._members.get(uid, ()))

    def add(self, uid: str, member: str) -> None:
        """Record that the member shows the first object of the Workload."""
        self._members.setdefault(uid, set()).add(member)

    def discard(self, uid: str, member: str) -> None:
        """Record that the member shows no object of the Workload any more."""
        members = self._members.get(uid, set())
        members.discard(member)
        if not members:
            self._members.pop(uid, None)
