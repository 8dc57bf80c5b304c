"""The members that were ever sent objects of a Workload, as recorded in its status or annotation.

A member is recorded in the write that gives it a share, or by the propagator before its first
request. It is removed only when the member itself has shown that nothing is left.

Names beyond ROOM are stored as short digests, which readers resolve with the names of all members.
Beyond MOST, the record is `ALL`.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

ROOM = 16 * 1024
"""Characters for names."""
MOST = 10_000
"""Clusters of one Workload that are recorded individually."""
ALL = "*"


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """`entries` are names and digests of names, or `ALL` alone."""

    entries: frozenset[str] = frozenset()

    @classmethod
    def read(cls, text: str) -> Self:
        return cls(_bounded(_entries(text)))

    @property
    def everybody(self) -> bool:
        """Whether any member may have been sent something: then none is ever removed."""
        return ALL in self.entries

    def __contains__(self, name: str) -> bool:
        return self.everybody or name in self.entries or digest(name) in self.entries

    def __or__(self, other: Self) -> Self:
        return type(self)(_bounded(self.entries | other.entries))

    def names(self, members: Callable[[], Iterable[str]]) -> set[str]:
        """Return the recorded clusters.

        `members` returns all names, and is called only if needed.
        """
        if self.everybody:
            return set(members())
        plain = {entry for entry in self.entries if not entry.startswith("#")}
        if len(plain) == len(self.entries):
            return plain
        return plain | {name for name in members() if name in self}

    def adding(self, names: Iterable[str]) -> Self:
        entries = set(self.entries)
        room = ROOM - len(self.text())
        for name in sorted(names):
            if name not in self:
                room -= len(name) + 1
                entries.add(name if room >= 0 else digest(name))
        return type(self)(_bounded(frozenset(entries)))

    def without(self, name: str) -> Self:
        """Return the record without that member; unchanged if it is `ALL`."""
        return type(self)(self.entries - {name, digest(name)})

    def only(self, names: Iterable[str]) -> Self:
        """Return the record of those among its members, each by its name if it is `ALL`."""
        there = {each for name in names for each in (name, digest(name))}
        if self.everybody:
            return type(self)().adding(names)
        return type(self)(self.entries & there)

    def text(self) -> str:
        return ",".join(sorted(self.entries))


def digest(name: str) -> str:
    return "#" + hashlib.blake2b(name.encode(), digest_size=4).hexdigest()


def _bounded(entries: frozenset[str]) -> frozenset[str]:
    return frozenset({ALL}) if len(entries) > MOST or ALL in entries else entries


@functools.lru_cache(maxsize=256)
def _entries(text: str) -> frozenset[str]:
    listed = text.split(",", MOST)
    return frozenset({ALL}) if len(listed) > MOST else frozenset(filter(None, listed))
