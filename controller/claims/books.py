"""The claims on every object of a kind beside what Workloads show as written.

Kept by every instance, leading or not. A claim counts until its Workload shows the units. Shown is
what the hub has stored, and never what was decided only: a write may be slow, or come to nothing,
and as long as it has not landed other schedulers know of its units by the claim alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import TypeAlias

from controller.claims.claims import Claimed, ClaimLedger, HeldClaim, Shares
from controller.model.objects import Workload
from machinery.clock import Clock
from machinery.types.metadata import Key

REMEMBERED = 4096
"""Workloads that went and whose claims on quota may still be read."""
HOLDER_LIMIT = 512
"""Characters of a holder's name, as the schema has it."""

Haunt: TypeAlias = Callable[[Key, Mapping[Key, Shares]], object]
"""Counts of an object from now on what others have claimed of it, by Workload and cluster."""


class ClaimBooks:
    """Claims by object; what others have claimed haunts the counts. `holder` is this process."""

    def __init__(self, haunt: Haunt, *, holder: str, clock: Clock) -> None:
        self._haunt = haunt
        self.holder = holder
        self._clock = clock
        self._epochs = count(1)
        self._ledgers: dict[str, dict[Key, ClaimLedger]] = {}
        self._shown: dict[Key, tuple[str, Shares]] = {}
        self._gone: dict[str, None] = {}

    def ledger(self, key: Key) -> ClaimLedger:
        """The claims on an object."""
        there = self._ledgers.setdefault(key[0], {})
        if key not in there:
            there[key] = ClaimLedger(self.holder, self._epochs)
        return there[key]

    def learn(self, stored: Claimed) -> None:
        """Take what an object says."""
        key = stored.metadata.key
        if self.ledger(key).learn(stored, self._clock.monotonic()):
            self.haunt(key)

    def forget(self, key: Key) -> None:
        """An object is gone, and with it whatever was claimed of it."""
        there = self._ledgers.get(key[0], {})
        there.pop(key, None)
        if not there:
            self._ledgers.pop(key[0], None)

    def show(self, old: Workload | None, new: Workload | None) -> list[Key]:
        """Take what a Workload shows; the objects on which it has a claim."""
        known = new or old
        assert known is not None  # noqa: S101 - the informer's promise
        meta = known.metadata
        if new is None:
            self._shown.pop(meta.key, None)
            self._bury(meta.uid)
        else:
            self._shown[meta.key] = (meta.uid, new.placements)
        there = self._ledgers.get(meta.namespace, {})
        claimed = [key for key, each in there.items() if each.knows(meta.uid)]
        self.haunt(*claimed)
        return claimed

    def haunt(self, *keys: Key) -> None:
        """Count what others have claimed of these from the next decision on."""
        for key in keys:
            ghosts = self.ledger(key).ghosts(self.seen, self._clock.monotonic())
            self._haunt(key, ghosts)

    def told(self, key: Key) -> list[HeldClaim]:
        """The claims that still have to be told."""
        return self.ledger(key).told(self.seen, self._clock.monotonic())

    def seen(self, key: Key, uid: str) -> Shares | None:
        """The shares that a Workload shows; None for one that is known to be gone.

        One that nobody here has heard of may be on its way: it shows nothing yet.
        """
        shown = self._shown.get(key)
        if uid in self._gone or (shown is not None and shown[0] != uid):
            return None
        return shown[1] if shown is not None else {}

    def claimed(self, keys: Iterable[Key]) -> list[Key]:
        """Those of these objects on which others have claims."""
        return [
            key for key in keys if (each := self._ledgers.get(key[0], {}).get(key)) and each.others
        ]

    def _bury(self, uid: str) -> None:
        """Remember for a while that a Workload is gone."""
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED:
            self._gone.pop(next(iter(self._gone)))
