"""The gate of a WorkloadGroup: which Workloads may stand on members, at which decision. Pure.

Placements stand in several Workloads, and no write covers them all. So the propagator pushes what
the group's status releases, and nothing else; one compare-and-swap opens the gate for all, and one
closes it. What is said here follows from what is stored alone: whoever leads next, after whatever
write the last one died, goes on from there.

The gate opens once units of at least minMember have a cluster, and closes when one of them fails
before so many have run. From then on nothing closes it. It is taken away when all have lost their
placements, so that the next try begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

from controller.features.workloadgroup.compiled import Group
from controller.model.objects import ClusterShare, Workload
from crds.fields.shares import ShareState
from crds.groups.gate import GateState, decision_of
from crds.workload import PropagatedReason, WorkloadCondition
from machinery.types import conditions
from machinery.types.bounds import between

NOTED: Final = 3
"""Failures that a message names."""
WORDS_LIMIT: Final = 1024
"""Characters of what one Workload says."""
_BAD: Final = frozenset({ShareState.FAILED.value, ShareState.UNREACHABLE.value})
_LASTING: Final = frozenset(
    each.value
    for each in (
        PropagatedReason.SECRET_NOT_FOUND,
        PropagatedReason.ALREADY_EXISTS,
        PropagatedReason.NAMESPACE_NOT_ALLOWED,
        PropagatedReason.INVALID_WORKLOAD,
        PropagatedReason.KIND_NOT_ALLOWED,
        PropagatedReason.CLUSTER_UNREACHABLE,
        PropagatedReason.REJECTED,
    )
)
"""Reasons of Propagated=False that no waiting mends, or nobody knows when."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A member as it is stored.

    `placed` says that it has placements, be they of no units; `units` is their sum, and `decision`
    names them. `ours` says that we decide on it. `running`, `succeeded` and `failed` are what its
    clusters report of these units; `there` says that some of them may stand on one. `trouble` says
    in words what keeps one of its clusters from running them. `reason` and `message` are what its
    last decision says.
    """

    name: str
    uid: str
    placed: bool = False
    units: int = 0
    decision: str = ""
    ours: bool = True
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    there: bool = False
    trouble: str = ""
    reason: str = ""
    message: str = ""

    @property
    def runs(self) -> int:
        """Units that run, or have ended well."""
        return self.running + self.succeeded


class Release(NamedTuple):
    """A Workload that may stand on members, with the placements that this decision names."""

    name: str
    uid: str
    decision: str


@dataclass(frozen=True, slots=True)
class Gate:
    """What the status shall say. `ran`: the quorum has run; `failure`: what closes it now.

    `waits` says that it is put off for what is being written, or may be true no longer: another
    look soon tells.
    """

    state: GateState | None
    released: tuple[Release, ...] = ()
    ran: bool = False
    failure: str = ""
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Doubts:
    """What is stored and may be another one in a moment.

    `writing`: permitted decisions are on their way to the hub. `fresh`: a failure was told of
    before the gate has ever been open, and may be that of an earlier try.
    """

    writing: bool = False
    fresh: bool = False


NO_DOUBTS: Final = Doubts()


def gate_of(
    group: Group, members: Sequence[Standing], now: datetime, doubts: Doubts = NO_DOUBTS
) -> Gate:
    """What the gate of a group shall be, where these are its members as they are stored."""
    units = sum(each.units for each in members)
    enough = not group.fault and units >= group.min_member
    if group.gate == GateState.OPEN:
        return _open(group, members, enough=enough, doubts=doubts)
    if group.gate == GateState.CLOSED and not (group.ran and enough):
        return _closed(group, members)
    if enough:
        return _absent(group, members, now, doubts)
    return Gate(None, ran=group.ran and any(each.placed for each in members))


def standing_of(workload: Workload, *, ours: bool) -> Standing:
    """A member as it is stored; `ours` where its scheduler is one of ours."""
    placements, meta = workload.placements, workload.metadata
    units = {cluster: n for cluster, n in placements.items() if n > 0}
    shares = [share for share in workload.status.clusters if share.name in units]
    said = conditions.among(workload.status.conditions, WorkloadCondition.SCHEDULED.value)
    found = Standing(
        name=meta.name,
        uid=meta.uid,
        placed=bool(placements),
        units=sum(units.values()),
        decision=decision_of(placements) if placements else "",
        ours=ours and not workload.fault,
        there=any(share.state != ShareState.PENDING.value for share in shares),
        trouble=_trouble(workload, shares) if units else "",
        reason=str(said.get("reason") or ""),
        message=str(said.get("message") or "")[:WORDS_LIMIT],
    )
    return _counted(found, ((share, units[share.name]) for share in shares))


def _counted(standing: Standing, shares: Iterable[tuple[ClusterShare, int]]) -> Standing:
    """With what the clusters report, none of it beyond what they were given."""
    running = succeeded = failed = 0
    for share, units in shares:
        well = between(0, share.succeeded, units)
        badly = between(0, share.failed, units - well)
        running += between(0, share.ready - well, units - well - badly)
        succeeded, failed = succeeded + well, failed + badly
    return replace(standing, running=running, succeeded=succeeded, failed=failed)


def _trouble(workload: Workload, shares: Sequence[ClusterShare]) -> str:
    """What keeps one of its clusters from running its units; empty where nothing does."""
    bad, said = [share for share in shares if share.state in _BAD], _refused(workload)
    if bad:
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        text = f"is {bad[0].state} on {bad[0].name}{more}" + (f": {said}" if said else "")
    else:
        text = f"is not on its clusters: {said}" if said else ""
    return f"Workload {workload.metadata.name} {text}"[:WORDS_LIMIT] if text else ""


def _refused(workload: Workload) -> str:
    """What Propagated says of the present generation, where that is nothing to wait out."""
    said = conditions.among(workload.status.conditions, WorkloadCondition.PROPAGATED.value)
    lasting = said.get("status") == "False" and said.get("reason") in _LASTING
    if not lasting or said.get("observedGeneration") != workload.metadata.generation:
        return ""
    if said["reason"] == PropagatedReason.CLUSTER_UNREACHABLE and _left_behind(workload):
        return ""
    return f"{said['reason']}: {said.get('message', '')}"


def _left_behind(workload: Workload) -> bool:
    """Whether a cluster that it has left does not answer: that concerns no unit that it has now."""
    placements = workload.placements
    return any(
        share.state == ShareState.UNREACHABLE.value and share.name not in placements
        for share in workload.status.clusters
    )


def _absent(group: Group, members: Sequence[Standing], now: datetime, doubts: Doubts) -> Gate:
    """Without a gate, and with enough units: it opens, unless something speaks against it.

    A group that was made anew finds its members where they run: they are released as they are.
    """
    runs = sum(each.runs for each in members)
    if group.ran or runs >= group.min_member:
        return Gate(GateState.OPEN, _released(members), ran=True)
    if group.retry is not None and now < group.retry:
        return Gate(None)
    if failure := failure_of(members):
        if doubts.fresh:
            return Gate(None, waits=True)
        return Gate(GateState.CLOSED, failure=failure)
    if doubts.writing and not any(each.there for each in members):
        return Gate(None, waits=True)
    return Gate(GateState.OPEN, _released(members))


def _open(group: Group, members: Sequence[Standing], *, enough: bool, doubts: Doubts) -> Gate:
    """Open: whoever has placements is released at them, until one fails before its time."""
    if not any(each.placed for each in members):
        return Gate(None)
    entries = _released(members)
    runs = sum(each.runs for each in members)
    if group.ran or (enough and runs >= group.min_member):
        return Gate(GateState.OPEN, entries, ran=True)
    known = [each for each in members if group.released.get(each.uid) == each.decision]
    if failure := failure_of(known):
        return Gate(GateState.CLOSED, failure=failure)
    if enough or group.fault:
        return Gate(GateState.OPEN, entries)
    if doubts.writing:
        return Gate(GateState.OPEN, entries, waits=True)
    units = sum(each.units for each in members)
    return Gate(
        GateState.CLOSED, failure=f"{units} units are left, minMember is {group.min_member}"
    )


def _closed(group: Group, members: Sequence[Standing]) -> Gate:
    """Closed: until nothing of ours has placements, and of the others nothing is on its clusters.

    Theirs keep their placements, so that without a gate nobody would take them away.
    """
    left = any(each.units and (each.ours or each.there) for each in members)
    return Gate(GateState.CLOSED if left else None, ran=group.ran and left)


def _released(members: Iterable[Standing]) -> tuple[Release, ...]:
    return tuple(
        Release(each.name, each.uid, each.decision)
        for each in sorted(members, key=_by_name)
        if each.placed
    )


def _by_name(standing: Standing) -> str:
    return standing.name


def failure_of(members: Iterable[Standing]) -> str:
    """What is wrong with the first of them by name, and with how many more; empty without any."""
    troubles = sorted(each.trouble for each in members if each.trouble)
    more = len(troubles) - NOTED
    return "; ".join(troubles[:NOTED]) + (f"; and {more} more Workloads" if more > 0 else "")
