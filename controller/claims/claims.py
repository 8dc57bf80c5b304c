"""Claims on a quota: replicas that schedulers in other processes took but have not placed.

A scheduler in another process learns of a decision only when the placements are written and read. A
claim of another holder counts as far as its Workload does not show those replicas, and for
`CLAIM_SECONDS` at most from when this process first saw it, so a scheduler that dies between the
two writes loses no quota for ever.

A claim of another holder, or another spec, begins a new `epoch`, which invalidates decisions made
before. No two ledgers share an epoch, so a recreated object does not pass for the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias

import msgspec

from controller.model.objects import Workload
from crds.fields.claims import MOST_CLAIMS
from machinery.clock import Clock
from machinery.types.api import Claim
from machinery.types.bounds import MOST_UNITS, between
from machinery.types.metadata import Key, Meta

CLAIM_SECONDS = 60.0
"""Seconds after which a claim whose replicas do not show up is void."""
LANDED_SECONDS = 15.0
"""Seconds that a claim stays after this process saw its replicas, until others have seen them."""
WRITE_SECONDS = 20.0
"""Seconds within which placements are written after their claim: well before it may be void."""
CLAIM_BYTES = 2**20
"""The most bytes of the claims on one object: etcd keeps 1.5 MiB, with the rules and the history.
"""
REMEMBERED = 4096
"""Deleted Workloads whose claims on quota may still be read."""
HOLDER_LIMIT = 512

Shares: TypeAlias = Mapping[str, int]
Seen: TypeAlias = Callable[[Key, str], Shares | None]
"""Returns the placements of the Workload of that key and uid; None if it is known to be gone."""
SetForeign: TypeAlias = Callable[[Key, Mapping[Key, Shares]], object]
"""Called with the replicas that others have claimed of an object, by Workload and cluster.

They replace those of the call before.
"""


@dataclass(slots=True)
class HeldClaim:
    """A claim that this process knows since `since`, and whose replicas show since `landed`.

    Both are monotonic seconds; `landed` is None while replicas are missing.
    """

    key: Key
    uid: str
    placements: Shares
    holder: str
    time: str
    since: float
    landed: float | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = len(msgspec.json.encode(self.to_dict()))

    def missing(self, seen: Shares) -> dict[str, int]:
        """Return the replicas by cluster that the Workload does not show."""
        return {c: n - seen.get(c, 0) for c, n in self.placements.items() if n > seen.get(c, 0)}

    def open(self, seen: Seen, now: float) -> bool:
        """Whether the claim still belongs in the status; note when its replicas show."""
        shows = seen(self.key, self.uid)
        if shows is None or now - self.since >= CLAIM_SECONDS:
            return False
        if self.missing(shows):
            self.landed = None
            return True
        self.landed = now if self.landed is None else self.landed
        return now - self.landed < LANDED_SECONDS

    def to_dict(self) -> dict[str, Any]:
        shares = [{"cluster": c, "replicas": n} for c, n in self.placements.items()]
        workload = "/".join(self.key)
        return {
            "workload": workload,
            "uid": self.uid,
            "placements": shares,
            "holder": self.holder,
            "time": self.time,
        }


@dataclass(slots=True)
class ClaimLedger:
    """The claims on one object, those of others and our own, by the Workload's uid.

    `epochs` are shared with the ledgers of all other objects, also of deleted ones.
    """

    holder: str
    epochs: Iterator[int] = field(default_factory=lambda: count(1))
    epoch: int = field(init=False)
    generation: int = 0
    others: dict[str, HeldClaim] = field(default_factory=dict)
    own: dict[str, HeldClaim] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.epoch = next(self.epochs)

    def learn(self, generation: int, claims: Iterable[Claim], now: float) -> bool:
        """Return whether decisions made before are invalid now."""
        told = {c.uid: c for c in claims if c.holder != self.holder}
        fresh = {uid for uid, claim in told.items() if not self._knows(claim)}
        edited = generation != self.generation
        self.generation = generation
        self.others = {
            uid: _taken(claim, now) if uid in fresh else self.others[uid]
            for uid, claim in told.items()
        }
        if fresh or edited:
            self.epoch = next(self.epochs)
        return bool(fresh or edited)

    def knows(self, uid: str) -> bool:
        return uid in self.others or uid in self.own

    def add(self, taken: HeldClaim) -> None:
        self.own[taken.uid] = taken

    def foreign(self, seen: Seen, now: float) -> dict[Key, dict[str, int]]:
        found = {}
        for each in self.others.values():
            shows = seen(each.key, each.uid)
            if shows is not None and each.open(seen, now) and (more := each.missing(shows)):
                found[each.key] = more
        return found

    def told(self, seen: Seen, now: float) -> list[HeldClaim]:
        """The oldest first; own claims that are not open are dropped."""
        self.own = {uid: each for uid, each in self.own.items() if each.open(seen, now)}
        theirs = [each for each in self.others.values() if each.open(seen, now)]
        return sorted((*theirs, *self.own.values()), key=lambda each: (each.since, each.uid))

    def _knows(self, claim: Claim) -> bool:
        known = self.others.get(claim.uid)
        return known is not None and (known.placements, known.time) == (_shares(claim), claim.time)


def admitted(known: Iterable[HeldClaim], wanted: Iterable[HeldClaim]) -> set[str]:
    """Return the uids that fit into a status beside the known claims.

    A small one does not wait for a large one.
    """
    sizes, chosen = {each.uid: each.size for each in known}, set[str]()
    total = sum(sizes.values())
    for request in wanted:
        others = total - sizes.get(request.uid, 0)
        room = not others or others + request.size <= CLAIM_BYTES
        if room and (request.uid in sizes or len(sizes) < MOST_CLAIMS):
            chosen.add(request.uid)
            sizes[request.uid] = request.size
            total = others + request.size
        if request.size > CLAIM_BYTES:
            break
    return chosen


def _taken(claim: Claim, now: float) -> HeldClaim:
    namespace, _, name = claim.workload.partition("/")
    return HeldClaim((namespace, name), claim.uid, _shares(claim), claim.holder, claim.time, now)


def _shares(claim: Claim) -> dict[str, int]:
    return {share.cluster: between(0, share.replicas, MOST_UNITS) for share in claim.placements}


class ClaimIndex:
    def __init__(self, set_foreign: SetForeign, *, holder: str, clock: Clock) -> None:
        self._set_foreign = set_foreign
        self.holder = holder
        self._clock = clock
        self._epochs = count(1)
        self._ledgers: dict[str, dict[Key, ClaimLedger]] = {}
        self._shown: dict[Key, Workload] = {}
        self._gone: dict[str, None] = {}

    def ledger(self, key: Key) -> ClaimLedger:
        there = self._ledgers.setdefault(key[0], {})
        if key not in there:
            there[key] = ClaimLedger(self.holder, self._epochs)
        return there[key]

    def learn(self, meta: Meta, claims: Iterable[Claim]) -> None:
        if self.ledger(meta.key).learn(meta.generation, claims, self._clock.monotonic()):
            self.recount(meta.key)

    def forget(self, key: Key) -> None:
        there = self._ledgers.get(key[0], {})
        there.pop(key, None)
        if not there:
            self._ledgers.pop(key[0], None)

    def show(self, old: Workload | None, new: Workload | None) -> list[Key]:
        """Return the objects on which the Workload has a claim."""
        known = new or old
        assert known is not None  # noqa: S101 - the informer's promise
        meta = known.metadata
        if new is None:
            self._shown.pop(meta.key, None)
            self._remember_deleted(meta.uid)
        else:
            self._shown[new.info.key] = new
        there = self._ledgers.get(meta.namespace, {})
        claimed = [key for key, each in there.items() if each.knows(meta.uid)]
        self.recount(*claimed)
        return claimed

    def recount(self, *keys: Key) -> None:
        for key in keys:
            foreign = self.ledger(key).foreign(self.seen, self._clock.monotonic())
            self._set_foreign(key, foreign)

    def told(self, key: Key) -> list[HeldClaim]:
        return self.ledger(key).told(self.seen, self._clock.monotonic())

    def seen(self, key: Key, uid: str) -> Shares | None:
        """Return the shares that a Workload shows; None if it is known to be gone."""
        shown = self._shown.get(key)
        if uid in self._gone or (shown is not None and shown.metadata.uid != uid):
            return None
        # An unknown Workload may be on its way through the watch: it shows nothing yet.
        return shown.placements if shown is not None else {}

    def claimed(self, keys: Iterable[Key]) -> list[Key]:
        return [
            key for key in keys if (each := self._ledgers.get(key[0], {}).get(key)) and each.others
        ]

    def _remember_deleted(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED:
            self._gone.pop(next(iter(self._gone)))
