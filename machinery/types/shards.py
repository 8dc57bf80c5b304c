"""Shards of the propagator: who serves which member, and who may begin to. Pure.

Shard i is a Lease. The process that holds it *claims* the members that the hash gives to i of as
many shards as the Lease announces. `Claim` is what one process knows of its own claim and of those
of others; the process acts by its answers alone:

- It stops serving what a new number of shards takes away, **before it announces** that number.
- It **announces before it begins** to serve: first its Lease says the number, and after that it
  reads the Leases of all others. It serves what no other held Lease claims.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from crds.names import PROPAGATOR_LEASE

MOST_SHARDS = 64


@lru_cache(maxsize=1 << 16)
def owner(name: str, shards: int) -> int:
    """Return the shard of a member among so many: the one with the greatest hash of both."""
    return 0 if shards == 1 else max(range(shards), key=lambda shard: (_rank(name, shard), -shard))


def _rank(name: str, shard: int) -> int:
    text = f"{name}\0{shard}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def lease_name(shard: int) -> str:
    return PROPAGATOR_LEASE if shard == 0 else f"{PROPAGATOR_LEASE}-{shard}"


def shards_of(text: str) -> int | None:
    """Return the number of shards that a ConfigMap or an annotation says; None if it is none."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_SHARDS))):
        return None
    return number if 1 <= (number := int(text)) <= MOST_SHARDS else None


def config_fault(where: str, said: str | None, announced: int) -> str:
    """Return what is wrong with the ConfigMap at `where`; empty if nothing is.

    `said` is its `data.shards`, None without a ConfigMap. `announced` is the number that the Lease
    of shard 0 has: one that never was set needs no ConfigMap.
    """
    if said is None:
        wrong = "" if announced == 1 else "is gone"
    else:
        number = f"no number of 1 to {MOST_SHARDS}"
        wrong = f"says shards: {said[:80]!r}, which is {number}" if shards_of(said) is None else ""
    if not wrong:
        return ""
    return (
        f"the ConfigMap {where} {wrong}: the last N stands, which is {announced}; "
        f"`stowage shards {announced}` writes it again"
    )


@dataclass(frozen=True, slots=True)
class Rival:
    shard: int
    announced: int | None
    """None: the annotation lacks; 0: it says no number."""
    held: bool

    def claims(self, name: str) -> bool:
        """Shard 0 without an annotation may be taken at any moment by a process that reads nothing.

        So it claims every member, held or not.
        """
        if self.announced is None and self.shard == 0:
            return True
        return self.held and not (self.announced and owner(name, self.announced) != self.shard)


class Step(Enum):
    """What a process has to do next."""

    DROP = "stop serving what the new number of shards takes away"
    ANNOUNCE = "write the number to the Lease"
    READ = "read the Leases of the others"
    CLEAR = "take the number off the Lease: there is one shard, as if there never was another"
    SERVE = "nothing: serve"


@dataclass(frozen=True, slots=True)
class Claim:
    """`announced` is as the server last answered."""

    shard: int
    shards: int
    """The number of shards that there should be."""
    announced: int | None
    """None: the Lease has no annotation, and announces 1."""
    answered: bool = True
    """Whether the last write of the number was answered: else the Lease may say another one."""
    serving: frozenset[str] = frozenset()
    """The members that it serves, or where a write of its own may still be in flight."""
    rivals: Mapping[int, Rival] | None = None
    """The others as read after `announced` was answered; None before that."""

    @property
    def alone(self) -> bool:
        """Whether there never was another shard."""
        return self._only and self.announced is None and self.answered

    @property
    def _only(self) -> bool:
        return self.shard == 0 and self.shards == 1

    @property
    def lost(self) -> frozenset[str]:
        return frozenset(each for each in self.serving if not self.keeps(each))

    @property
    def step(self) -> Step:
        if self.lost:
            return Step.DROP
        if self.alone:
            return Step.SERVE
        if self.announced != self.shards or not self.answered:
            return Step.ANNOUNCE
        if self.rivals is None:
            return Step.READ
        others = any(each.held for each in self.rivals.values())
        return Step.CLEAR if self._only and not others else Step.SERVE

    def keeps(self, name: str) -> bool:
        """Whether it may go on to serve a member that it serves.

        An other one that claims it all the same has not read: of a Lease that was deleted, or of a
        hub that was set back.
        """
        return owner(name, self.shards) == self.shard and not self._rivalled(name)

    def serves(self, name: str) -> bool:
        """Whether it may serve the member now, also one that it has not served."""
        if self.alone:
            return True
        if not self.announced or not self.answered or self.rivals is None:
            return False
        return owner(name, self.announced) == self.shard and self.keeps(name)

    def _rivalled(self, name: str) -> bool:
        return any(each.claims(name) for each in (self.rivals or {}).values())
