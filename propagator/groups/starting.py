"""The start of a gang, and whether each of its clusters is reachable.

Each cluster is probed before the start; one that fails between probe and apply can still start only
part of the gang.

Of several shards each writes `status.reached` of the group once its own clusters have answered, and
all start when all have. The text names decisions, term and number of shards, so a successor asks
anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from crds.workload import PropagatedReason
from machinery.clock import Clock
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key
from propagator.groups.rule import APPLY, WAIT_SILENTLY, GateAnswer, GateVerdict, label_of
from propagator.members.context import ControllerContext
from propagator.members.health import Contact
from propagator.members.registry import MemberRegistry
from propagator.types.cluster import MemberCluster

PATIENCE_SECONDS = 20.0
"""Seconds for which a cluster may be connecting before it is reported as unreachable."""
FRESH_SECONDS = 0.2
"""Seconds for which an answer of a cluster saves another probe."""


@dataclass(slots=True)
class Starting:
    released: Mapping[str, str]
    clusters: Collection[str]
    since: float
    """The monotonic time at which this process learned that the gang may start."""
    unseen: int = 0
    """Released Workloads that are not yet seen with their decision: their clusters are unknown."""
    missing: set[str] = field(default_factory=set)
    troubles: dict[str, str] = field(default_factory=dict)
    """Why a cluster is missing, if known."""
    unheard: set[str] = field(default_factory=set)
    """The connected clusters without an answered probe since."""
    known: bool = False
    """Whether `clusters`, `missing` and `unheard` are complete."""
    confirmed: bool = False
    """Whether the hub confirmed an open gate after all clusters were reached."""
    awaited: set[int] = field(default_factory=set)
    """The shards of its clusters that had not told that theirs answer, when the hub was read."""
    obstacle: str = ""
    ask_after: float = 0.0
    """The monotonic time of the next read."""
    tries: int = 0
    verdict: GateVerdict = WAIT_SILENTLY
    """WAIT until the start is reached and confirmed."""

    @property
    def reached(self) -> bool:
        return self.known and not self.missing and not self.unheard

    def record(self, name: str, lack: str | None) -> None:
        (self.missing.discard if lack is None else self.missing.add)(name)
        self.troubles.pop(name, None)
        if lack:
            self.troubles[name] = lack


class Contacts:
    def __init__(self, context: ControllerContext) -> None:
        self._registry: MemberRegistry = context.registry
        self._views = context.views
        self._membership = context.membership
        self._clusters: Informer[MemberCluster] = context.clusters
        self._clock: Clock = context.clock
        self._since: dict[str, float] = {}  # clusters that are connecting

    @property
    def shard(self) -> int:
        return self._membership.shard

    def lack(self, name: str) -> str | None:
        """Return None for a reachable cluster; else why not, empty while it may still connect."""
        contact, trouble = self._of(name)
        if contact is not Contact.CONNECTING:
            self._since.pop(name, None)
            return None if contact is Contact.SERVING else trouble
        now = self._clock.monotonic()
        late = now - self._since.setdefault(name, now) >= PATIENCE_SECONDS
        return f"{name}: not connected after {PATIENCE_SECONDS:.0f} s" if late else ""

    def heard(self, name: str, since: float) -> bool:
        session = self._registry.get(name)
        if session is None:
            return self._views.told_of(name)
        heard = session.answered >= since - FRESH_SECONDS
        if not heard:
            session.ask_now()
        return heard

    def reach(self, starting: Starting, shard: int) -> str:
        """Return what that shard writes, in its present term, once its clusters have answered."""
        held = self._membership.shards, self._membership.term(shard)
        of = sorted(starting.released.items()), *held
        return hashlib.blake2b(msgspec.json.encode(of), digest_size=8).hexdigest()

    def awaited(self, starting: Starting, reached: Mapping[str, str]) -> set[int]:
        """Return the shards of its clusters that have not written that; none of a single one."""
        if not self._membership.several:
            return set()
        shards = {self._membership.owner(name) for name in starting.clusters}
        if shards == {self._membership.shard}:
            return set()
        return {each for each in shards if reached.get(str(each)) != self.reach(starting, each)}

    def verdict(self, starting: Starting, group: Key) -> GateVerdict:
        if not starting.known:
            late = self._clock.monotonic() - starting.since >= PATIENCE_SECONDS
            return _unseen(starting, group) if starting.unseen and late else WAIT_SILENTLY
        if starting.reached and starting.confirmed:
            return APPLY
        if starting.reached and starting.awaited:
            late = self._clock.monotonic() - starting.since >= PATIENCE_SECONDS
            return _awaiting(starting, group) if late else WAIT_SILENTLY
        if starting.reached:
            return _unconfirmed(starting, group)
        if not starting.troubles:
            return WAIT_SILENTLY
        trouble = starting.troubles[min(starting.troubles)]
        return GateVerdict(
            GateAnswer.WAIT,
            f"{label_of(group)} starts on all of its clusters or on none: {trouble}",
            PropagatedReason.CLUSTER_UNREACHABLE,
        )

    def _of(self, name: str) -> tuple[Contact, str]:
        session = self._registry.get(name)
        if session is not None:
            return session.contact, session.message
        if self._clusters.synced and self._clusters.get(("", name)) is None:
            return Contact.AWAY, f"{name}: there is no MemberCluster of this name"
        if self._views.told_of(name):
            return Contact.SERVING, ""
        if self._views.elsewhere(name):
            shard = self._membership.owner(name)
            if not self._membership.held(shard):
                return Contact.AWAY, f"{name}: no propagator holds its shard {shard}"
            if not self._views.answers(name):
                return Contact.AWAY, f"{name}: it is not Ready"
        return Contact.CONNECTING, ""


def _unseen(starting: Starting, group: Key) -> GateVerdict:
    return GateVerdict(
        GateAnswer.WAIT,
        f"{label_of(group)} starts as a whole, and {starting.unseen} of its "
        f"{len(starting.released)} released Workloads cannot be seen at the placements that were "
        "released: see that each of them is there, and is valid",
    )


def _awaiting(starting: Starting, group: Key) -> GateVerdict:
    shards = ", ".join(map(str, sorted(starting.awaited)))
    return GateVerdict(
        GateAnswer.WAIT,
        f"{label_of(group)} starts on all of its clusters or on none: shards {shards} of the "
        f"propagator have not told after {PATIENCE_SECONDS:.0f} s that theirs answer; `stowage "
        "shards` shows who holds them",
        PropagatedReason.CLUSTER_UNREACHABLE,
    )


def _unconfirmed(starting: Starting, group: Key) -> GateVerdict:
    if not starting.obstacle:
        return WAIT_SILENTLY
    return GateVerdict(
        GateAnswer.WAIT,
        f"{label_of(group)} has to be read before it starts: {starting.obstacle}; run "
        "`stowage install` on the hub again",
    )
