"""Workloads whose decisions are being made or written, and who asked for one of them meanwhile.

A Workload may be in work without having been handed out: as one of a set that was decided for
another key. Whoever comes in vain is remembered, and offered again when the write is through.
"""

from __future__ import annotations

from collections.abc import Iterable

from machinery.types.metadata import Key


class InFlightKeys:
    """Keys in work; for each the keys that came in vain."""

    def __init__(self) -> None:
        self._busy: set[Key] = set()
        self._deciding: set[Key] = set()
        self._missed: dict[Key, set[Key]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._busy

    def begin(self, keys: Iterable[Key]) -> None:
        """Decisions of these are being written."""
        self._busy.update(keys)

    def decide(self, keys: Iterable[Key]) -> None:
        """Decisions of these are being made, in steps."""
        self._busy.update(keys)
        self._deciding.update(keys)

    def deciding(self, key: Key) -> bool:
        """Whether a decision of it is being made: in a moment it is known."""
        return key in self._deciding

    def missed(self, key: Key, by: Key) -> None:
        """`by` needs `key`, which is in work."""
        self._missed.setdefault(key, set()).add(by)

    def end(self, keys: Iterable[Key]) -> set[Key]:
        """They are written, or not; those that came in vain meanwhile."""
        came: set[Key] = set()
        for key in keys:
            self._busy.discard(key)
            self._deciding.discard(key)
            came |= self._missed.pop(key, set())
        return came
