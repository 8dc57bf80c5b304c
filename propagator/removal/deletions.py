"""The brake on deletions: many Workloads deleted at once wait for approval.

Of deleted Workloads that run something, more than ten, and more than a tenth of all, are held. The
condition Propagated says so until an operator lets them go (the annotation `stowage.dev/deletion`)
or leaves what runs (`onDelete: Orphan`); `stowage sweep` does both. Ended Workloads, and young
ones, count for nothing. One that is let go waits for approval too if nothing takes up what it
leaves.
"""

from __future__ import annotations

from datetime import timedelta

from crds.workload import OnDelete, PropagatedReason, WorkloadCondition
from machinery.clock import parse_timestamp
from machinery.kinds.profile import with_article
from machinery.types import conditions
from machinery.types.metadata import Meta, Object
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.removal.brake import AT_ONCE_SECONDS, much
from propagator.shards.concern import Brief
from propagator.types.workload import Workload

YOUNG_SECONDS = 600.0
"""Seconds of life up to which a Workload is deleted whatever else is."""
HELD = (
    "many Workloads are deleted at once: what this one runs stays until a person lets it go by "
    "`stowage sweep --confirm`, or leaves it there by `stowage sweep --orphan`"
)


class DeletionBrake:
    def __init__(self, context: ControllerContext, workloads: HubWorkloads) -> None:
        self._clock = context.clock
        self._standing: set[str] = set()
        """The UIDs of the Workloads that run something."""
        self._ending: set[str] = set()
        """Those of them that count as deleted."""
        self._gone: dict[str, float] = {}  # monotonic time, by UID
        self._held = context.shares.column(bool)
        """Of the Workload. A removal that was not held continues to its end."""
        workloads.informer.add_handler(self._changed)
        workloads.informer.on_aside(self._put_aside)

    def why(self, workload: Workload) -> str:
        """Return why the objects of a deleted Workload wait for a person; empty if they do not."""
        return HELD if self.holds(workload) else _unsaid(workload)

    def holds(self, workload: Workload) -> bool:
        uid = workload.uid
        if not _takes(workload):
            return False
        known = self._held.get(uid)
        if known or _said(workload):
            return True
        if known is not None or uid not in self._ending:
            return False
        since = self._clock.monotonic() - AT_ONCE_SECONDS
        self._gone = {each: at for each, at in self._gone.items() if at >= since}
        gone = len(self._gone)
        held = much(len(self._ending) + gone, len(self._standing) + gone)
        self._held.put(uid, "", held)
        return held

    def _changed(self, old: Workload | None, new: Workload | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            if old.uid in self._ending:
                self._gone[old.uid] = self._clock.monotonic()
            self._standing.discard(old.uid)
            self._ending.discard(old.uid)
        if new is not None:
            runs = bool(new.placements.keys() - new.ends.keys())
            self._count(new.metadata, runs=runs, takes=_takes(new))

    def _put_aside(self, uid: str, brief: Object | None) -> None:
        """One without a share on members of this shard counts for the proportion."""
        self._gone.pop(uid, None)  # as it was put aside, and not gone
        if isinstance(brief, Brief):
            self._count(brief.metadata, runs=brief.runs, takes=brief.taken)
            return
        if uid in self._ending:
            self._gone[uid] = self._clock.monotonic()
        self._standing.discard(uid)
        self._ending.discard(uid)

    def _count(self, meta: Meta, *, runs: bool, takes: bool) -> None:
        (self._standing.add if runs else self._standing.discard)(meta.uid)
        counts = runs and takes and not _young(meta)
        (self._ending.add if counts else self._ending.discard)(meta.uid)


def _takes(workload: Workload) -> bool:
    """Whether its deletion removes what runs, and no operator has approved it."""
    return workload.metadata.deleting and not (workload.orphans or workload.deletion_confirmed)


def _unsaid(workload: Workload) -> str:
    spec = workload.spec
    leaves = spec.on_delete == OnDelete.ORPHAN and workload.delivered and workload.metadata.deleting
    if not leaves or workload.deletion_confirmed or not workload.placements:
        return ""
    words = workload.profile.lets_go
    return words and (
        f"onDelete is Orphan, and {with_article(workload.profile.kind)} of its name that is "
        f"made anew does not go on with what this one leaves: {words}. `stowage sweep --confirm` "
        "lets it go, and onDelete: Delete removes it"
    )


def _said(workload: Workload) -> bool:
    said = conditions.among(workload.conditions, WorkloadCondition.PROPAGATED)
    return said.get("reason") == PropagatedReason.DELETION_HELD


def _young(meta: Meta) -> bool:
    try:
        begun = parse_timestamp(meta.creation_timestamp)
        ended = parse_timestamp(meta.deletion_timestamp or "")
    except ValueError:
        return False
    return ended - begun <= timedelta(seconds=YOUNG_SECONDS)
