"""The gate of a WorkloadGroup: which Workloads may stand on members, at which decision. Pure.

The propagator pushes only what the group's status releases (docs/decisions/0003-the-gate.md).

The gate opens once minMember replicas have a cluster. Until that many have run it closes when one
fails, or when too few find a node; it releases nothing more while fewer are left. After that
nothing closes it. It is removed when all have lost their placements.

A gate that closes takes back what it has released, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import msgspec

from controller.cache.asread import named_now
from controller.features.workloadgroup.compiled import CompiledGroup
from controller.model.objects import ClusterShare, Workload
from crds.fields.shares import ShareState
from crds.groups.gate import GateState, decision_of, within
from crds.groups.workloadgroup import MOST_GATE_BYTES
from crds.workload import PropagatedReason, WorkloadCondition
from machinery.types import conditions
from machinery.types.bounds import between

NOTED: Final = 3
"""Failures that a message names."""
WORDS_LIMIT: Final = 1024
"""Characters of one Workload's message."""
_BAD: Final = frozenset({ShareState.FAILED.value, ShareState.UNREACHABLE.value})
_LASTING: Final = frozenset(
    each.value
    for each in (
        PropagatedReason.SECRET_NOT_FOUND,
        PropagatedReason.ALREADY_EXISTS,
        PropagatedReason.NAMESPACE_NOT_ALLOWED,
        PropagatedReason.INVALID_WORKLOAD,
        PropagatedReason.INVALID_OVERRIDE,
        PropagatedReason.KIND_NOT_ALLOWED,
        PropagatedReason.CLUSTER_UNREACHABLE,
        PropagatedReason.TOO_LARGE,
        PropagatedReason.REJECTED,
    )
)
"""Reasons of Propagated=False that do not pass by waiting, or not at a known time."""


_STATES: Final = frozenset(state.value for state in GateState)


@dataclass(frozen=True, slots=True)
class Standing:
    """A member as it is stored.

    `placed`: it has placements, also empty ones; `shares` are their replicas by cluster, `decision`
    their digest. `ours`: this controller decides it. `trouble` is what keeps a cluster from running
    them. `stuck` replicas find no node, the last since `stuck_since`.
    """

    name: str
    uid: str
    placed: bool = False
    replicas: int = 0
    shares: Mapping[str, int] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    decision: str = ""
    ours: bool = True
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    there: frozenset[str] = frozenset()
    seen: Mapping[str, int] = field(default_factory=dict)
    stands: bool = False
    trouble: str = ""
    stuck: int = 0
    stuck_since: datetime | None = None
    reason: str = ""
    message: str = ""

    @property
    def runs(self) -> int:
        return self.running + self.succeeded

    def by(self, now: Mapping[str, str]) -> Standing:
        """Return it by the names that clusters have now."""
        return replace(
            self,
            shares=named_now(self.shares, now),
            ended=frozenset(now.get(name, name) for name in self.ended),
            there=frozenset(now.get(name, name) for name in self.there),
            seen=named_now(self.seen, now),
        )


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate for the status.

    `released` are decisions and `retained` earlier replicas, by uid. `ran`: the quorum has run.
    `failure` closes it now, `obstacle` is one that closes nothing. `large`: the status cannot hold
    it. `waits`: a fact may be outdated; `due` is when time alone may change it.
    """

    state: GateState | None
    released: Mapping[str, str] = field(default_factory=dict)
    retained: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    ran: bool = False
    failure: str = ""
    waits: bool = False
    obstacle: str = ""
    due: datetime | None = None
    large: str = ""

    @property
    def size(self) -> int:
        return len(msgspec.json.encode((self.released, self.retained)))


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """Stored facts that may change in a moment.

    `writing`: decisions are on their way to the hub. `most`: the bytes of `released` and
    `retained`.
    """

    writing: bool = False
    fresh: bool = False
    most: int = MOST_GATE_BYTES


NO_DOUBTS: Final = Unconfirmed()


def gate_of(
    group: CompiledGroup,
    members: Sequence[Standing],
    now: datetime,
    doubts: Unconfirmed = NO_DOUBTS,
) -> Gate:
    return _bounded(group, _noted(group, members, _state(group, members, now, doubts)), doubts)


def _state(
    group: CompiledGroup, members: Sequence[Standing], now: datetime, doubts: Unconfirmed
) -> Gate:
    replicas = sum(each.replicas for each in members)
    enough = not group.fault and replicas >= group.min_member
    if group.gate == GateState.OPEN:
        return _open(group, members, now, enough=enough, doubts=doubts)
    if group.gate == GateState.CLOSED and not (group.ran and enough):
        return _closed(group, members, now)
    if enough:
        return _absent(group, members, now, doubts)
    return Gate(None, ran=group.ran and any(each.placed for each in members))


def standing_of(workload: Workload, *, ours: bool) -> Standing:
    placements, meta = workload.standing, workload.metadata
    replicas = {cluster: n for cluster, n in placements.items() if n > 0}
    shares = [share for share in workload.status.clusters if share.name in replicas]
    said = conditions.among(workload.status.conditions, WorkloadCondition.SCHEDULED.value)
    found = Standing(
        name=meta.name,
        uid=meta.uid,
        placed=bool(placements),
        replicas=sum(replicas.values()),
        shares=replicas,
        ended=frozenset(workload.info.ended) if workload.info is not None else frozenset(),
        decision=decision_of(placements) if placements else "",
        ours=ours and not workload.fault,
        there=frozenset(share.name for share in shares if share.state != ShareState.PENDING.value),
        seen=within(replicas, {share.name: _pods(share) for share in shares}),
        stands=workload.info is not None and workload.info.runs,
        trouble=_trouble(workload, shares) if replicas else "",
        reason=str(said.get("reason") or ""),
        message=str(said.get("message") or "")[:WORDS_LIMIT],
    )
    found = _stuck(found, workload) if workload.info is not None else found
    return _counted(found, ((share, replicas[share.name]) for share in shares))


def _pods(share: ClusterShare) -> int:
    """Return its pods on a cluster; of a custom kind the reported replicas."""
    told = share.scheduled + share.unschedulable + share.finished
    return max(share.current, told, share.ready)


def _stuck(standing: Standing, workload: Workload) -> Standing:
    info = workload.info
    for cluster, shown in info.shown.items():
        # Divided replicas may find a node on another cluster. They count once their cluster's limit
        # is learnt and they were left there in spite of it: then there is no other cluster.
        limit = info.limits.get(cluster)
        left = not info.learns or (limit is not None and limit.replicas < shown.asked)
        if shown.since is not None and left:
            since = max(shown.since, standing.stuck_since or shown.since)
            stuck = standing.stuck + shown.asked - shown.runs
            standing = replace(standing, stuck=stuck, stuck_since=since)
    return standing


def _counted(standing: Standing, shares: Iterable[tuple[ClusterShare, int]]) -> Standing:
    """Add the clusters' reports, none beyond the shares."""
    running = succeeded = failed = 0
    for share, replicas in shares:
        well = between(0, share.succeeded, replicas)
        badly = between(0, share.failed, replicas - well)
        running += between(0, share.ready - well, replicas - well - badly)
        succeeded, failed = succeeded + well, failed + badly
    return replace(standing, running=running, succeeded=succeeded, failed=failed)


def _trouble(workload: Workload, shares: Sequence[ClusterShare]) -> str:
    bad, said = [share for share in shares if share.state in _BAD], _refused(workload)
    if bad:
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        text = f"is {bad[0].state} on {bad[0].name}{more}" + (f": {said}" if said else "")
    else:
        text = f"is not on its clusters: {said}" if said else ""
    return f"Workload {workload.metadata.name} {text}"[:WORDS_LIMIT] if text else ""


def _refused(workload: Workload) -> str:
    """Return the message of Propagated, if waiting does not help."""
    said = conditions.among(workload.status.conditions, WorkloadCondition.PROPAGATED.value)
    lasting = said.get("status") == "False" and said.get("reason") in _LASTING
    if not lasting or said.get("observedGeneration") != workload.metadata.generation:
        return ""
    if said["reason"] == PropagatedReason.CLUSTER_UNREACHABLE and _left_behind(workload):
        return ""
    return f"{said['reason']}: {said.get('message', '')}"


def _left_behind(workload: Workload) -> bool:
    away = {
        share.name
        for share in workload.status.clusters
        if share.state == ShareState.UNREACHABLE.value
        or share.reason == PropagatedReason.CLUSTER_UNREACHABLE
    }
    return bool(away) and away.isdisjoint(workload.standing)


def _absent(
    group: CompiledGroup, members: Sequence[Standing], now: datetime, doubts: Unconfirmed
) -> Gate:
    runs = sum(each.runs for each in members)
    # A group that was created again finds its members where they run, and releases them as they
    # are.
    if group.ran or runs >= group.min_member:
        return Gate(GateState.OPEN, ran=True)
    if group.rests_until(now) is not None:
        return Gate(None)
    if failure := failure_of(members):
        if doubts.fresh:
            return Gate(None, waits=True)
        # Running replicas without a gate stood there before, so no failure beside them takes them
        # away.
        if runs:
            return Gate(None, obstacle=failure)
        return Gate(GateState.CLOSED, failure=failure)
    if doubts.writing and not any(each.there for each in members):
        return Gate(None, waits=True)
    return Gate(GateState.OPEN)


def _open(
    group: CompiledGroup,
    members: Sequence[Standing],
    now: datetime,
    *,
    enough: bool,
    doubts: Unconfirmed,
) -> Gate:
    if not any(each.placed for each in members):
        return Gate(None)
    runs = sum(each.runs for each in members)
    if group.ran or (enough and runs >= group.min_member):
        return Gate(GateState.OPEN, ran=True)
    known = [each for each in members if group.released.get(each.uid) == each.decision]
    if failure := failure_of(known):
        return Gate(GateState.CLOSED, failure=failure)
    if enough:
        due, failure = _too_few_nodes(group, members, now)
        if failure:
            return Gate(GateState.CLOSED, failure=failure)
        return Gate(GateState.OPEN, due=due)
    if group.fault:
        return Gate(GateState.OPEN)
    if doubts.writing:  # and until then no more of it is released: it would be half a gang
        return Gate(GateState.OPEN, waits=True)
    replicas = sum(each.replicas for each in members)
    return Gate(
        GateState.CLOSED, failure=f"{replicas} replicas are left, minMember is {group.min_member}"
    )


def _too_few_nodes(
    group: CompiledGroup, members: Sequence[Standing], now: datetime
) -> tuple[datetime | None, str]:
    """Return when too few find a node for too long, and then the failure."""
    stuck = [each for each in members if each.stuck]
    since = max((each.stuck_since for each in stuck if each.stuck_since), default=None)
    able = sum(each.replicas - each.stuck for each in members)
    if since is None or able >= group.min_member:
        return None, ""
    due = since + timedelta(seconds=group.timeout)
    if now < due:
        return due, ""
    named = ", ".join(
        f"{each.stuck} of {each.name}" for each in sorted(stuck, key=_by_name)[:NOTED]
    )
    more = f" and of {len(stuck) - NOTED} more Workloads" if len(stuck) > NOTED else ""
    text = f"replicas find no node on their clusters ({named}{more}), so that {able} can run"
    return None, f"{text}, minMember is {group.min_member}"


def _closed(group: CompiledGroup, members: Sequence[Standing], now: datetime) -> Gate:
    """Return the closed gate, which stays until the released placements have left."""
    left = any(_has_to_leave(group, each) for each in members)
    # Workloads of other controllers keep their placements, so without a gate nothing would take
    # these away. Their controllers must see the closed gate, so it stays during the back-off, too.
    others = any(not each.ours and _beyond(group, each) for each in members)
    stays = left or (others and group.rests_until(now) is not None)
    return Gate(GateState.CLOSED if stays else None, ran=group.ran and stays)


def _has_to_leave(group: CompiledGroup, member: Standing) -> bool:
    beyond = _beyond(group, member)
    if member.uid not in group.released:
        # One of ours that never ran anywhere gives up its place.
        return member.ours and bool(member.shares.keys() - member.ended) and not member.stands
    kept = group.retained.get(member.uid, {})
    return bool(beyond) if member.ours else any(c in member.there and c not in kept for c in beyond)


def _beyond(group: CompiledGroup, member: Standing) -> list[str]:
    if member.uid not in group.released:
        return []
    kept = group.retained.get(member.uid, {})
    return [
        cluster
        for cluster, replicas in member.shares.items()
        if replicas > kept.get(cluster, 0) and cluster not in member.ended
    ]


def _noted(group: CompiledGroup, members: Sequence[Standing], gate: Gate) -> Gate:
    placed = [each for each in members if each.placed]
    entries = {each.uid: each.decision for each in sorted(placed, key=_by_name)}
    if gate.state is GateState.OPEN and gate.ran:
        return replace(gate, released=entries)
    retained = {each.uid: _ran_before(group, each) for each in placed}
    if gate.state is None:
        if group.gate == GateState.OPEN:  # all have lost their placements: the next try starts over
            return gate
        there = {each.uid for each in members}
        entries = {uid: decision for uid, decision in group.released.items() if uid in there}
    elif group.gate in _STATES and (gate.state is GateState.CLOSED or gate.waits):
        entries = dict(group.released)
    retained = {uid: shares for uid, shares in retained.items() if shares and uid in entries}
    return replace(gate, released=entries, retained=retained)


def _ran_before(group: CompiledGroup, member: Standing) -> Mapping[str, int]:
    if member.uid not in group.released:
        return member.seen
    before = group.retained.get(member.uid, {})
    left = {c: n for c, n in before.items() if c not in member.shares and c in member.there}
    return {**within(member.shares, before), **left}


def _bounded(group: CompiledGroup, gate: Gate, doubts: Unconfirmed) -> Gate:
    if gate.size <= doubts.most:
        return gate
    large = (
        f"its gate would note {gate.size} bytes about {len(gate.released)} Workloads, "
        f"{doubts.most} at most ({len(gate.retained)} of them ran before, each cluster is noted)"
    )
    state = GateState(group.gate) if group.gate in _STATES else None
    kept = Gate(state, group.released, group.retained, ran=group.ran and state is not None)
    return replace(kept, large=large)


def _by_name(standing: Standing) -> str:
    return standing.name


def failure_of(members: Iterable[Standing]) -> str:
    """Return the first troubles by name, and how many more there are."""
    troubles = sorted(each.trouble for each in members if each.trouble)
    more = len(troubles) - NOTED
    return "; ".join(troubles[:NOTED]) + (f"; and {more} more Workloads" if more > 0 else "")
