"""The members that were ever sent objects of a Workload, as its status or annotation notes. Pure.

A member is noted in the write that gives it a share, or else by the propagator before the first
request to it, and taken off only when the member itself has shown that nothing of the Workload is
left there. So a process that dies at any moment leaves a note of whom the next one has to ask.

Names are noted as they are while there is room; a name beyond that becomes a short digest, so that
ten thousand clusters with the longest names fit into one object. Nothing is lost by that, as the
reader knows the names of all members. With more than ten thousand, after a user's edit or so many
moves without an answer, names are no longer told apart: one mark stands for every cluster.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

ROOM = 16 * 1024
"""Characters for names; an object's annotations may have 256 KiB together."""
MOST = 10_000
"""Clusters of one Workload that are told apart: with more, every cluster may be meant."""
ALL = "*"
"""Stands for every cluster in a note."""


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """The noted clusters. `entries` are names and digests of names, or `ALL` alone."""

    entries: frozenset[str] = frozenset()

    @classmethod
    def read(cls, text: str) -> Self:
        return cls(_bounded(_entries(text)))

    @property
    def everybody(self) -> bool:
        """Whether any member may have been sent something: then none is ever taken off."""
        return ALL in self.entries

    def __contains__(self, name: str) -> bool:
        """Whether that member may have been sent something."""
        return self.everybody or name in self.entries or digest(name) in self.entries

    def __or__(self, other: Self) -> Self:
        return type(self)(_bounded(self.entries | other.entries))

    def names(self, members: Callable[[], Iterable[str]]) -> set[str]:
        """Return the noted clusters. `members` returns all names, and is called only if needed."""
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
        """Return the record without that member; unchanged where members are not told apart."""
        return type(self)(self.entries - {name, digest(name)})

    def text(self) -> str:
        return ",".join(sorted(self.entries))


def digest(name: str) -> str:
    """Return the entry for a name that there is no room for; no name begins like it."""
    return "#" + hashlib.blake2b(name.encode(), digest_size=4).hexdigest()


def _bounded(entries: frozenset[str]) -> frozenset[str]:
    return frozenset({ALL}) if len(entries) > MOST or ALL in entries else entries


@functools.lru_cache(maxsize=256)
def _entries(text: str) -> frozenset[str]:
    listed = text.split(",", MOST)
    return frozenset({ALL}) if len(listed) > MOST else frozenset(filter(None, listed))
