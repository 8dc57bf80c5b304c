"""Workloads whose decisions are being made or written, and the keys that came for them meanwhile.

A Workload may be in flight without having been handed out by the queue: as one of a set that was
decided for another key. A key that comes meanwhile is noted, and offered again when the write is
done.
"""

from __future__ import annotations

from collections.abc import Iterable

from machinery.types.metadata import Key


class InFlightKeys:
    """Keys in flight, each with the keys that came for it in vain."""

    def __init__(self) -> None:
        self._busy: set[Key] = set()
        self._deciding: set[Key] = set()
        self._missed: dict[Key, set[Key]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._busy

    def begin(self, keys: Iterable[Key]) -> None:
        """Note that decisions on these are being written."""
        self._busy.update(keys)

    def decide(self, keys: Iterable[Key]) -> None:
        """Note that decisions on these are being made, in steps."""
        self._busy.update(keys)
        self._deciding.update(keys)

    def deciding(self, key: Key) -> bool:
        """Whether a decision on the Workload is being made: the result is known in a moment."""
        return key in self._deciding

    def missed(self, key: Key, by: Key) -> None:
        """Note that `by` needs `key`, which is in flight."""
        self._missed.setdefault(key, set()).add(by)

    def end(self, keys: Iterable[Key]) -> set[Key]:
        """Release these keys; return those that came for them meanwhile."""
        came: set[Key] = set()
        for key in keys:
            self._busy.discard(key)
            self._deciding.discard(key)
            came |= self._missed.pop(key, set())
        return came
