"""The claims on every policy beside what Workloads show as written.

Kept by every instance, leading or not. A claim counts until its Workload shows the units. Shown is
what the hub has stored, and never what was decided only: a write may be slow, or come to nothing,
and as long as it has not landed other schedulers know of its units by the claim alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from controller.features.workloadpolicy.claims import Ledger, Shares, Taken
from controller.features.workloadpolicy.counts import Tally
from controller.features.workloadpolicy.objects import WorkloadPolicy
from controller.model.objects import Workload
from machinery.clock import Clock
from machinery.types.metadata import Key

REMEMBERED = 4096
"""Workloads that went and whose claims on quota may still be read."""


class Books:
    """Claims by policy; what others have claimed haunts the counts. `holder` is this process."""

    def __init__(self, counts: Tally, *, holder: str, clock: Clock) -> None:
        self._counts = counts
        self.holder = holder
        self._clock = clock
        self._epochs = count(1)
        self._ledgers: dict[str, dict[Key, Ledger]] = {}
        self._shown: dict[Key, tuple[str, Shares]] = {}
        self._gone: dict[str, None] = {}

    def ledger(self, policy: Key) -> Ledger:
        """The claims on a policy."""
        there = self._ledgers.setdefault(policy[0], {})
        if policy not in there:
            there[policy] = Ledger(self.holder, self._epochs)
        return there[policy]

    def learn(self, policy: WorkloadPolicy) -> None:
        """Take what a policy says."""
        key = policy.metadata.key
        if self.ledger(key).learn(policy, self._clock.monotonic()):
            self.haunt(key)

    def forget(self, policy: Key) -> None:
        """A policy is gone, and with it whatever was claimed of it."""
        there = self._ledgers.get(policy[0], {})
        there.pop(policy, None)
        if not there:
            self._ledgers.pop(policy[0], None)

    def show(self, old: Workload | None, new: Workload | None) -> list[Key]:
        """Take what a Workload shows; the policies on which it has a claim."""
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

    def haunt(self, *policies: Key) -> None:
        """Count what others have claimed of these from the next decision on."""
        for key in policies:
            ghosts = self.ledger(key).ghosts(self.seen, self._clock.monotonic())
            self._counts.haunt(key, ghosts)

    def told(self, policy: Key) -> list[Taken]:
        """The claims that still have to be told."""
        return self.ledger(policy).told(self.seen, self._clock.monotonic())

    def seen(self, key: Key, uid: str) -> Shares | None:
        """The shares that a Workload shows; None for one that is known to be gone.

        One that nobody here has heard of may be on its way: it shows nothing yet.
        """
        shown = self._shown.get(key)
        if uid in self._gone or (shown is not None and shown[0] != uid):
            return None
        return shown[1] if shown is not None else {}

    def claimed(self, policies: Iterable[Key]) -> list[Key]:
        """Those of these policies on which others have claims."""
        return [
            key
            for key in policies
            if (each := self._ledgers.get(key[0], {}).get(key)) and each.others
        ]

    def _bury(self, uid: str) -> None:
        """Remember for a while that a Workload is gone."""
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED:
            self._gone.pop(next(iter(self._gone)))
