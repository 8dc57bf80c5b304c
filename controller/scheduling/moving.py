"""Which replicas of a Workload leave their clusters in a pass. Pure.

Deschedule plugins name the clusters to leave, and budgets bound how many replicas a pass moves. If
an eviction is cancelled before the replacement is ready, the replica stays (`resumed`). A
rebalance, and a return of displaced replicas, move towards the shares of a Workload without shares.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.calling import answers
from controller.framework.calling.guard import ask
from controller.framework.interface import Assignment, Candidates, Descheduling, Eviction
from controller.framework.profile import Profile
from controller.model.moving import lacking
from controller.model.observedlimits import left
from controller.model.placed import is_workload
from controller.model.unit import WorkloadInfo
from controller.planner.reasons import Reason, RuleKind
from controller.planner.webster import first_come
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from crds.fields.movement import MovingReason
from crds.fields.why import ChangeCause
from machinery.kinds.table import ALONE

EVERY = 2**31
"""More replicas than there are: no budget."""
EDITED = Eviction(cause="")
"""A cluster that the edited rules exclude. status.history has the cause."""


@dataclass(frozen=True, slots=True)
class Moves:
    """The moves of one decision. Replicas by cluster.

    Args:
        evictions: of all replicas that leave now, later, or not yet.
        stuck: could leave now but fit on no other cluster.
        lacks: what the stuck ones lack, as text.
        data: should leave but stay with their claims.
        claims: the claims of each replica.
        held: the number that waits for other moves.
        holder: whose moves they wait for, as text; empty for the Workload's own.
        cancelled: their eviction was cancelled.
        cause: Rebalanced or Returned if the shares move towards a fresh plan.
        returned: what clusters of status.displaced got back.
        dropped: clusters of status.displaced that get nothing back.
        rebalanced: the value for status.rebalanced.
        look: when to decide the Workload again; None for never.
    """

    evictions: Mapping[str, Eviction] = field(default_factory=dict)
    stuck: Mapping[str, int] = field(default_factory=dict)
    lacks: str = ""
    data: Mapping[str, int] = field(default_factory=dict)
    claims: int = 0
    held: int = 0
    holder: str = ""
    cancelled: Mapping[str, int] = field(default_factory=dict)
    cause: str = ""
    returned: Mapping[str, int] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    rebalanced: str = ""
    look: datetime | None = None

    @property
    def keeps_rules_of_before(self) -> bool:
        """Whether replicas stay although the edited rules exclude their clusters."""
        edited = ChangeCause.EDITED.value
        held = any(each.cause == edited for each in self.evictions.values())
        return bool(self.stuck or self.data) or held

    def wait(self, now: datetime) -> float | None:
        return None if self.look is None else max((self.look - now).total_seconds(), 0.0)


NO_MOVES = Moves()
NOTHING_LEAVES = Descheduling()
LEFT = "had to be left"


def descheduling(
    profile: Profile,
    info: WorkloadInfo,
    snapshot: Snapshot,
    bound: PlacementIndex,
    now: datetime,
) -> Descheduling:
    """Return the merged answers of the plugins. Raises PluginError."""
    plugins = profile.deschedule
    if not (plugins and (info.present or info.moving.leaving)) or not is_workload(info.key):
        return NOTHING_LEAVES
    if info.groups and not info.runs:
        return NOTHING_LEAVES  # before a gang runs, only its gate takes placements back
    found = NOTHING_LEAVES
    for plugin in plugins:
        about = (info, snapshot, bound, now)
        said = ask(plugin, "Deschedule", answers.a_descheduling, plugin.deschedule, *about)
        found = said if found is NOTHING_LEAVES else _merged(found, said)
    if info.stays:
        evictions = {name: stayed(info, each) for name, each in found.evictions.items()}
        return Descheduling(evictions) if evictions else NOTHING_LEAVES
    if info.profile is ALONE and info.everywhere:
        # A copy that nobody can remove goes on, and its cluster has it when it answers again.
        evictions = {name: each for name, each in found.evictions.items() if not each.lost}
        found = replace(found, evictions=evictions)
    if held := {
        name: _held(found.evictions[name])
        for name in suspended(info, snapshot)
        if name in found.evictions
    }:
        found = replace(found, evictions={**found.evictions, **held})
    says = found.evictions or found.returns or info.moving.rebalance_due
    return found if says else NOTHING_LEAVES


def stayed(info: WorkloadInfo, eviction: Eviction) -> Eviction:
    group = info.profile.group
    note = (
        f"{info.kind} of {group} is a kind of which nothing is known, so it stays; "
        "spec.movement.maxSurge lets it move"
    )
    return replace(eviction, due=None, reason=MovingReason.UNKNOWN_KIND.value, note=note)


def suspended(info: WorkloadInfo, snapshot: Snapshot) -> dict[str, int]:
    if info.suspended is None:
        return {}
    there = snapshot.selected(info.suspended) & ~snapshot.deleting
    rows = ((name, snapshot.row.get(name)) for name in info.present)
    return {name: info.present[name] for name, row in rows if row is not None and there[row]}


def _held(eviction: Eviction) -> Eviction:
    note = "spec.suspend names the cluster, which gives nothing meanwhile"
    return replace(eviction, due=None, reason=MovingReason.SUSPENDED.value, note=note)


def _merged(one: Descheduling, other: Descheduling) -> Descheduling:
    evictions = dict(one.evictions)
    for cluster, eviction in other.evictions.items():
        before = evictions.get(cluster)
        if before is None or _first(eviction) < _first(before):
            evictions[cluster] = eviction

    def budget(cause: str) -> tuple[int, str] | None:
        both = [said for said in (one.budget(cause), other.budget(cause)) if said is not None]
        return min(both, default=None)

    return Descheduling(evictions, {**one.returns, **other.returns}, budget)


def _first(eviction: Eviction) -> float:
    return float("inf") if eviction.due is None else eviction.due.timestamp()


def resumed(info: WorkloadInfo, said: Descheduling, snapshot: Snapshot) -> dict[str, int]:
    """Return the replicas in `leaving` whose eviction is cancelled, by cluster.

    Their successors are not ready.
    """
    moving, found = info.moving, dict[str, int]()
    if not moving.leaving or info.everywhere or not info.counted:
        return {}
    missing = sum(_missing(info).values())
    for cluster, share in sorted(moving.leaving.items()):
        row = snapshot.row.get(cluster)
        if row is None or cluster in said.evictions or share.cause not in _CANCELLED_BY_END:
            continue
        if not snapshot.ready[row] or snapshot.deleting[row]:
            continue
        replicas = min(share.replicas - share.replaced, missing)
        if info.whole and replicas < share.replicas:
            continue
        if replicas > 0:
            found[cluster] = replicas
            missing -= replicas
    return found


_CANCELLED_BY_END = frozenset(
    each.value
    for each in (
        ChangeCause.DRAINED,
        ChangeCause.TAINTED,
        ChangeCause.CLUSTER_LOST,
        ChangeCause.OUT_OF_SERVICE,
    )
)


def _missing(info: WorkloadInfo) -> dict[str, int]:
    return lacking(info.present, info.moving.ready)


def with_resumed(info: WorkloadInfo, back: Mapping[str, int]) -> WorkloadInfo:
    if not back:
        return info
    present, left = dict(info.present), sum(back.values())
    missing = _missing(info)
    for cluster in sorted(missing, key=lambda name: (-missing[name], name)):
        taken = min(missing[cluster], left)
        present[cluster] -= taken
        left -= taken
        if not present[cluster]:
            del present[cluster]
    for cluster, replicas in back.items():
        present[cluster] = present.get(cluster, 0) + replicas
    return info.with_present(present)


@dataclass(frozen=True, slots=True)
class Departure:
    """`cut` is surplus, `goes` may be placed elsewhere, the rest stays for now."""

    row: int
    eviction: Eviction
    present: int
    cut: int
    goes: int

    @property
    def stays(self) -> int:
        return self.present - self.cut - self.goes


@dataclass(frozen=True, slots=True)
class Departures:
    """All departures in order. Larger budgets would release `held` more."""

    rows: tuple[Departure, ...] = ()
    held: int = 0
    holder: str = ""
    data: Mapping[str, int] = field(default_factory=dict)
    """Should leave but stay with their claims, by cluster."""

    @property
    def staying(self) -> int:
        return sum(each.stays for each in self.rows)

    @property
    def waits(self) -> bool:
        return bool(self.holder) or any(each.goes for each in self.rows)


def departures(
    info: WorkloadInfo,
    snapshot: Snapshot,
    said: Descheduling,
    keeps: Mask,
    now: datetime,
    *,
    wanted: int,
    fixed: Collection[str] = (),
) -> Departures:
    """Return what leaves which cluster in this pass, within the budgets.

    `keeps` are the clusters that may keep what they have, shape (n,). `wanted` are the replicas
    that should have a cluster. Nothing leaves the clusters in `fixed`.
    """
    shares = []
    for cluster, present in info.present.items():
        row = snapshot.row.get(cluster)
        if row is None or not (present or info.claims) or snapshot.deleting[row]:
            continue
        if cluster in fixed:
            continue
        eviction = said.evictions.get(cluster) if keeps[row] else EDITED
        if eviction is not None:
            shares.append((row, cluster, present, eviction))
    if not shares:
        return NO_DEPARTURES
    budgets = _Budgets(info, said, _own_budget(info, wanted))
    excess = 0 if info.everywhere else max(sum(info.present.values()) - wanted, 0)
    found, held, data = [], 0, dict[str, int]()
    for row, cluster, present, eviction in sorted(shares, key=_order):
        if info.holds(cluster) and stays_with_data(eviction, now):
            data[cluster] = present
            continue
        cut = min(present, excess)
        excess -= cut
        able = present - cut if eviction is EDITED or due(eviction, now) else 0
        goes = budgets.taken(eviction, able) if able else 0
        held += able - goes
        if cut or goes:
            found.append(Departure(row, eviction, present, cut, goes))
    return Departures(tuple(found), held, budgets.holder, data)


def stays_with_data(eviction: Eviction, now: datetime) -> bool:
    """Whether a share with data would leave now, or waits for an operator."""
    return eviction is EDITED or due(eviction, now) or bool(eviction.reason)


@dataclass(slots=True)
class _Budgets:
    info: WorkloadInfo
    said: Descheduling
    own: int
    holder: str = ""
    _fleet: dict[str, tuple[int, str]] = field(default_factory=dict)

    def taken(self, eviction: Eviction, able: int) -> int:
        # A copy that is dropped places nothing elsewhere, which is what the budgets bound.
        if eviction is EDITED or self.info.everywhere:
            return able
        cause, info = eviction.cause, self.info
        if cause not in self._fleet:
            self._fleet[cause] = self.said.budget(cause) or (EVERY, "")
        most, words = self._fleet[cause]
        goes = able if eviction.lost else min(able, self.own)
        # A copy moves as a whole, however small the budget. Otherwise a large one would never move.
        together = info.whole or info.shared_work is not None
        bound = EVERY if together and most else most
        if bound < goes:
            self.holder, goes = words, bound
        if goes < able and together:
            goes = 0
        self._fleet[cause] = (max(most - goes, 0), words)
        self.own -= 0 if eviction.lost else goes
        return goes


NO_DEPARTURES = Departures()


def _order(share: tuple[int, str, int, Eviction]) -> tuple[bool, str]:
    _, cluster, _, eviction = share
    return not eviction.lost, cluster


def due(eviction: Eviction, now: datetime) -> bool:
    return eviction.due is not None and eviction.due <= now


def _own_budget(info: WorkloadInfo, wanted: int) -> int:
    if not info.delivered:  # no report would release the next ones
        return EVERY
    under_way = info.moving.under_way(info.present)
    if info.whole or info.shared_work is not None:  # a part of the work moves as a whole
        return 0 if under_way else EVERY
    most = info.moving.surge(wanted) or info.moving.unavailable(wanted)
    return max(most - under_way, 0)


def completed(
    found: Assignment, leaving: Departures, limit: int, *, everywhere: bool
) -> tuple[Assignment, dict[int, int]]:
    """Return the assignment with the replicas that stay, and the stuck ones by row.

    `limit` bounds the replicas on all clusters together.
    """
    if everywhere:
        gone = found.desired and not found.shares  # the pass then keeps the shares as they are
        return found, {each.row: each.goes for each in leaving.rows if gone and each.goes}
    left = min(found.desired, limit) - sum(found.shares.values())
    kept: dict[int, int] = {}
    stuck: dict[int, int] = {}
    # Those that leave last keep their places first, and staying ones before others.
    for counts, of in ((kept, "stays"), (stuck, "goes")):
        for each in reversed(leaving.rows):
            if (replicas := min(getattr(each, of), left)) > 0:
                counts[each.row] = replicas
                left -= replicas
    if not (kept or stuck):
        return found, {}
    shares = dict(found.shares)
    for counts in (kept, stuck):
        for row, replicas in counts.items():
            shares[row] = shares.get(row, 0) + replicas

    def why(row: int) -> tuple[Reason, ...]:
        stays = row in kept or row in stuck
        return (Reason(RuleKind.KEPT, shares[row]),) if stays else tuple(found.why(row))

    return replace(found, shares=shares, why=why), stuck


@dataclass(frozen=True, slots=True)
class Onward:
    """A step towards a fresh plan.

    `assignment` is None if nothing moves now. `left` replicas still have to move.
    """

    assignment: Assignment | None
    cause: str
    returned: Mapping[int, int]
    dropped: frozenset[str]
    left: int
    holder: str
    data: Mapping[str, int] = field(default_factory=dict)
    """Would move but stay with their claims, by cluster."""


def onward(
    info: WorkloadInfo,
    found: Candidates,
    fresh: Assignment,
    said: Descheduling,
    now: datetime,
) -> Onward:
    """Return the next step of a rebalance, or of a return of displaced replicas.

    `fresh` is the plan for a Workload without shares, `said` has the clusters that take replicas
    again.
    """
    asked = info.moving.rebalance_asked(now)
    back = {
        name: each.replicas
        for name, each in info.moving.displaced.items()
        if name in found.snapshot.row and (at := said.returns.get(name)) is not None and at <= now
    }
    cause = ChangeCause.REBALANCED if asked else ChangeCause.RETURNED
    present, wanted = found.present, np.zeros_like(found.present)
    wanted[list(fresh.shares)] = list(fresh.shares.values())
    only = None
    if not asked:
        only = np.zeros_like(present)
        only[found.snapshot.rows(back)] = list(back.values())
    most, words = said.budget(cause.value) or (EVERY, "")
    own = _own_budget(info, info.replicas)
    whole = info.whole and most > 0
    bound = own if whole else min(own, most)
    shares = towards(present, wanted, most=bound, only=only, whole=info.whole)
    all_ = towards(present, wanted, most=EVERY, only=only)
    moved, left = (int(np.abs(each - present).sum()) // 2 for each in (shares, all_))
    grown = np.maximum(shares - present, 0)
    dropped = {
        name for name in back if all_[found.snapshot.row[name]] <= present[found.snapshot.row[name]]
    }
    given = {int(row): int(shares[row]) for row in np.flatnonzero(shares)}
    if data := {
        name: goes
        for name, n in info.present.items()
        if info.holds(name) and (goes := n - int(all_[found.snapshot.row[name]])) > 0
    }:
        return Onward(None, cause.value, {}, frozenset(dropped), 0, "", data)

    def why(row: int) -> tuple[Reason, ...]:
        if row not in given:
            return ()
        same = fresh.shares.get(row) == given[row]
        return tuple(fresh.why(row)) if same else (Reason(RuleKind.KEPT, given[row]),)

    return Onward(
        replace(fresh, shares=given, why=why) if moved else None,
        cause.value,
        {int(row): int(grown[row]) for row in np.flatnonzero(grown)} if not asked else {},
        frozenset(dropped),
        left - moved,
        words if most < own else "",
    )


def refused(
    info: WorkloadInfo,
    said: Descheduling,
    placements: Mapping[str, int],
    message: str,
    now: datetime,
) -> Moves:
    """Evicted replicas stay."""
    if said is NOTHING_LEAVES:
        return NO_MOVES
    stuck, data = dict[str, int](), dict[str, int]()
    for name, each in said.evictions.items():
        held, replicas = info.holds(name), placements.get(name, 0)
        if replicas and (stays_with_data if held else due)(each, now):
            (data if held else stuck)[name] = replicas
    return Moves(
        evictions=said.evictions,
        stuck=stuck,
        lacks=message if stuck or not data else "",
        data=data,
        claims=info.claims,
    )


def towards(
    present: Ints, wanted: Ints, *, most: int, only: Ints | None = None, whole: bool = False
) -> Ints:
    """Return shares one step nearer to `wanted`. Arrays have shape (n,).

    `wanted` has the same sum as `present`. At most `most` replicas move, and `only` bounds each
    gain. With `whole`, all or none.
    """
    lacks = np.maximum(wanted - present, 0)
    if only is not None:
        lacks = np.minimum(lacks, only)
    more = np.maximum(present - wanted, 0)
    moved = min(int(lacks.sum()), int(more.sum()))
    if whole and moved > most:
        moved = 0
    moved = min(moved, most)
    shares: Ints = present + first_come(lacks, moved) - first_come(more, moved)
    return shares


def learnt(
    info: WorkloadInfo, placements: Mapping[str, int], moves: Moves, now: datetime
) -> WorkloadInfo:
    """Return the Workload with its clusters held to what stays where replicas leave unhealthy."""
    limits, unhealthy = dict(info.limits), ChangeCause.UNHEALTHY.value
    for cluster, eviction in moves.evictions.items():
        stays = placements.get(cluster, 0)
        if eviction.cause == unhealthy and stays < info.present.get(cluster, 0):
            limits[cluster] = left(limits.get(cluster), stays, now)
    return info if limits == info.limits else replace(info, limits=limits)


def on_the_way(info: WorkloadInfo) -> bool:
    return bool(info.moving.leaving and _missing(info))


LOOK_SECONDS = 10.0
"""Seconds until the next look while moves wait for other Workloads."""


def next_look(
    said: Descheduling, info: WorkloadInfo, now: datetime, *, waits: bool
) -> datetime | None:
    moments = [each.due for each in said.evictions.values()] + list(said.returns.values())
    moments += [info.moving.rebalance_due, now + timedelta(seconds=LOOK_SECONDS) if waits else None]
    return min((each for each in moments if each is not None and each > now), default=None)
