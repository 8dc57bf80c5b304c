"""Which members were ever sent something of a Workload, as its status or annotation says it. Pure.

A member is noted in the write that gives it a share, or by the propagator where that was not done,
before the first request to it, and taken off only when the member itself has shown that nothing of
the Workload is left there. So a process that dies at any moment leaves behind whom the next one has
to ask.

Names stand as they are while there is room; a name beyond that becomes a short digest, so that ten
thousand clusters with names as long as they may be fit into one object. Nothing is lost by that:
whoever asks knows the names of all members. Of more than ten thousand, in a note that somebody
spoilt or after so many moves without an answer, none is told from another: one mark stands for
every cluster that there is.
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
"""Clusters of one Workload that are told apart: beyond that each one that there is may be meant."""
ALL = "*"
"""Stands for every cluster in a note."""


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """What is noted. `entries` are names and digests of names, or `ALL` alone."""

    entries: frozenset[str] = frozenset()

    @classmethod
    def read(cls, text: str) -> Self:
        """From the text."""
        return cls(_bounded(_entries(text)))

    @property
    def everybody(self) -> bool:
        """Whether any member may have been sent something: then none is ever taken off."""
        return ALL in self.entries

    def __contains__(self, name: str) -> bool:
        """Whether that member may have been sent something."""
        return self.everybody or name in self.entries or digest(name) in self.entries

    def __or__(self, other: Self) -> Self:
        """What either of them notes."""
        return type(self)(_bounded(self.entries | other.entries))

    def names(self, members: Callable[[], Iterable[str]]) -> set[str]:
        """The noted clusters. `members` answers all that there are, and is asked only if needed."""
        if self.everybody:
            return set(members())
        plain = {entry for entry in self.entries if not entry.startswith("#")}
        if len(plain) == len(self.entries):
            return plain
        return plain | {name for name in members() if name in self}

    def adding(self, names: Iterable[str]) -> Self:
        """With these members."""
        entries = set(self.entries)
        room = ROOM - len(self.text())
        for name in sorted(names):
            if name not in self:
                room -= len(name) + 1
                entries.add(name if room >= 0 else digest(name))
        return type(self)(_bounded(frozenset(entries)))

    def without(self, name: str) -> Self:
        """Without that member, where it is told from the others."""
        return type(self)(self.entries - {name, digest(name)})

    def text(self) -> str:
        """As it is noted."""
        return ",".join(sorted(self.entries))


def digest(name: str) -> str:
    """What stands for a name that there is no room for; no name begins like it."""
    return "#" + hashlib.blake2b(name.encode(), digest_size=4).hexdigest()


def _bounded(entries: frozenset[str]) -> frozenset[str]:
    return frozenset({ALL}) if len(entries) > MOST or ALL in entries else entries


@functools.lru_cache(maxsize=256)
def _entries(text: str) -> frozenset[str]:
    listed = text.split(",", MOST)
    return frozenset({ALL}) if len(listed) > MOST else frozenset(filter(None, listed))
