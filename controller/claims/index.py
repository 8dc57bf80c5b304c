"""The claims on every object of a kind, beside the shares that Workloads show as written.

Every instance keeps them, leading or not. A claim counts until its Workload shows the replicas. A
Workload shows what the hub has stored, never what was only decided: a write may be slow, or come to
nothing, and until it has landed other schedulers know of its replicas by the claim alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import TypeAlias

from controller.claims.claims import Claim, ClaimLedger, HeldClaim, Shares
from controller.model.objects import Workload
from machinery.clock import Clock
from machinery.types.metadata import Key, Meta

REMEMBERED = 4096
"""Deleted Workloads whose claims on quota may still be read."""
HOLDER_LIMIT = 512
"""The longest holder's name that the schema allows, in characters."""

SetForeign: TypeAlias = Callable[[Key, Mapping[Key, Shares]], object]
"""Called with the replicas that others have claimed of an object, by Workload and cluster.

The replicas replace those of the call before, and count from the next decision on.
"""


class ClaimIndex:
    """Claims by object; claims of other holders reach the counts through `set_foreign`.

    `holder` is the name of this process.
    """

    def __init__(self, set_foreign: SetForeign, *, holder: str, clock: Clock) -> None:
        self._set_foreign = set_foreign
        self.holder = holder
        self._clock = clock
        self._epochs = count(1)
        self._ledgers: dict[str, dict[Key, ClaimLedger]] = {}
        self._shown: dict[Key, tuple[str, Shares]] = {}
        self._gone: dict[str, None] = {}

    def ledger(self, key: Key) -> ClaimLedger:
        """Return the claims on an object, an empty ledger for an unknown one."""
        there = self._ledgers.setdefault(key[0], {})
        if key not in there:
            there[key] = ClaimLedger(self.holder, self._epochs)
        return there[key]

    def learn(self, meta: Meta, claims: Iterable[Claim]) -> None:
        """Read the generation of a stored object and the claims in its status."""
        if self.ledger(meta.key).learn(meta.generation, claims, self._clock.monotonic()):
            self.recount(meta.key)

    def forget(self, key: Key) -> None:
        there = self._ledgers.get(key[0], {})
        there.pop(key, None)
        if not there:
            self._ledgers.pop(key[0], None)

    def show(self, old: Workload | None, new: Workload | None) -> list[Key]:
        """Record the shares that a Workload shows; return the objects on which it has a claim."""
        known = new or old
        assert known is not None  # noqa: S101 - the informer's promise
        meta = known.metadata
        if new is None:
            self._shown.pop(meta.key, None)
            self._remember_deleted(meta.uid)
        else:
            self._shown[meta.key] = (meta.uid, new.placements)
        there = self._ledgers.get(meta.namespace, {})
        claimed = [key for key, each in there.items() if each.knows(meta.uid)]
        self.recount(*claimed)
        return claimed

    def recount(self, *keys: Key) -> None:
        """Count the claims of others on these objects from the next decision on."""
        for key in keys:
            foreign = self.ledger(key).foreign(self.seen, self._clock.monotonic())
            self._set_foreign(key, foreign)

    def told(self, key: Key) -> list[HeldClaim]:
        """Return the claims that still belong in the object's status."""
        return self.ledger(key).told(self.seen, self._clock.monotonic())

    def seen(self, key: Key, uid: str) -> Shares | None:
        """Return the shares that a Workload shows; None for one that is known to be gone."""
        shown = self._shown.get(key)
        if uid in self._gone or (shown is not None and shown[0] != uid):
            return None
        # An unknown Workload may be on its way through the watch: it shows nothing yet.
        return shown[1] if shown is not None else {}

    def claimed(self, keys: Iterable[Key]) -> list[Key]:
        """Return those of these objects on which others have claims."""
        return [
            key for key in keys if (each := self._ledgers.get(key[0], {}).get(key)) and each.others
        ]

    def _remember_deleted(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED:
            self._gone.pop(next(iter(self._gone)))
