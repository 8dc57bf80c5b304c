"""The whole scheduler in one pass: `decide`.

Live controller, plan, explain and diagnosis call this one function, so that an explanation
cannot differ from what happens. It does no I/O, asks no clock and changes nothing that it is given.

    may the Workload be placed at all   hooks, PreFilter
    which clusters could take it        hooks, Filter: the first refusal of a cluster is its reason
    how well they suit                  hooks, PreScore, Score, NormalizeScore, weighted sum
    how many each gets                  Assign
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from controller.columns import Ints, Mask
from controller.decision import FITS, Decision, Refusal, tally
from controller.framework.points import Assignment, Candidates, CycleState, NormalizeScore
from controller.framework.profile import Profile
from controller.framework.status import Status
from controller.index import Index
from controller.plugins.resources import ClusterResources, room
from controller.snapshot import Fleet
from controller.unit import Unit
from crds.workload import ScheduledReason, WorkloadState


def decide(fleet: Fleet, unit: Unit, bound: Index, profile: Profile, now: datetime) -> Decision:
    """What becomes of one Workload.

    Args:
        fleet: the clusters.
        unit: the Workload with its present shares.
        bound: where other Workloads run.
        profile: the plugins.
        now: the time that the record shall carry.
    """
    state = CycleState()
    asked = unit
    for hook in profile.before_pre_filter:
        changed = hook.before_pre_filter(asked)
        if isinstance(changed, Status):
            return _refused(unit, fleet, now, changed)
        asked = changed[0] if changed[1] else asked
    for plugin in profile.pre_filter:
        status = plugin.pre_filter(state, asked, fleet, bound)
        if not status.ok:
            return _refused(unit, fleet, now, status)
    view = fleet
    for gate in profile.before_filter:
        seen = gate.before_filter(asked, view)
        if isinstance(seen, Status):
            return _refused(unit, fleet, now, seen)
        asked, view = seen[:2] if seen[2] else (asked, view)
    verdicts, refusals, keeps = _filter(profile, state, asked, view, bound)
    feasible = verdicts == FITS
    for sieve in profile.before_score:
        left = sieve.before_score(asked, view, feasible)
        if isinstance(left, Status):
            return _refused(unit, fleet, now, left)
        asked, feasible = left[:2] if left[2] else (asked, feasible)
    scores, totals = _score(profile, state, asked, view, bound, feasible)
    ranking = _ranked(view, totals, feasible)
    candidates = _candidates(state, asked, view, feasible, keeps, ranking, totals)
    assignment = profile.assigner(asked).assign(asked, candidates)
    reason, condition, message = _verdict(
        profile, state, asked, view, (verdicts, refusals), assignment
    )
    return Decision(
        unit=unit,
        fleet=view,
        time=now,
        placements={view.names[row]: units for row, units in _by_name(view, assignment)},
        desired=assignment.desired,
        reason=reason,
        state=condition,
        message=message,
        refusals=refusals,
        verdicts=verdicts,
        scores=scores,
        weights={name: weight for name, weight in profile.weights.items() if name in scores},
        totals=totals,
        ranking=ranking,
        why=assignment.why,
    )


def _filter(
    profile: Profile, state: CycleState, unit: Unit, fleet: Fleet, bound: Index
) -> tuple[NDArray[np.int16], list[Refusal], Mask]:
    """Each cluster's first refusal, the refusals, and where present shares may stay.

    What changes on a cluster moves nothing that runs there; only the Workload's own rules, and
    only after they were edited, do.
    """
    verdicts = np.zeros(len(fleet), dtype=np.int16)
    refusals: list[Refusal] = []
    keeps = ~fleet.deleting
    for plugin in profile.filter:
        for mask, text in plugin.filter(state, unit, fleet, bound).reasons:
            if unit.edited and not plugin.ignored_during_execution:
                keeps &= ~mask
            refusals.append(Refusal(plugin.name, text))
            verdicts[mask & (verdicts == FITS)] = len(refusals)
    return verdicts, refusals, keeps


def _score(
    profile: Profile, state: CycleState, unit: Unit, fleet: Fleet, bound: Index, feasible: Mask
) -> tuple[dict[str, Ints], Ints]:
    totals = np.zeros(len(fleet), dtype=np.int64)
    scores: dict[str, Ints] = {}
    if not feasible.any():
        return scores, totals
    for preparing in profile.pre_score:
        preparing.pre_score(state, unit, fleet, bound, feasible)
    for plugin in profile.score:
        values = plugin.score(state, unit, fleet, bound)
        if isinstance(plugin, NormalizeScore):
            values = plugin.normalize(state, values, feasible)
        scores[plugin.name] = values = np.clip(values, 0, 100)
        totals += profile.weights[plugin.name] * values
    return scores, totals


def _ranked(fleet: Fleet, totals: Ints, feasible: Mask) -> Ints:
    """The feasible rows, the best first, equals by name."""
    rows = np.flatnonzero(feasible)
    ranked: Ints = rows[np.lexsort((fleet.by_name[rows], -totals[rows]))]
    return ranked


def _candidates(
    state: CycleState,
    unit: Unit,
    fleet: Fleet,
    feasible: Mask,
    keeps: Mask,
    ranking: Ints,
    totals: Ints,
) -> Candidates:
    present = np.zeros(len(fleet), dtype=np.int64)
    for name, units in unit.present.items():
        if name in fleet.row:
            present[fleet.row[name]] = units
    known: Ints | None = state.data.get(ClusterResources.name)
    space = room(unit, fleet) if known is None else known
    return Candidates(fleet, feasible, keeps, ranking, totals, space, present)


def _by_name(fleet: Fleet, assignment: Assignment) -> list[tuple[int, int]]:
    return sorted(assignment.shares.items(), key=lambda share: fleet.names[share[0]])


def _verdict(
    profile: Profile,
    state: CycleState,
    unit: Unit,
    fleet: Fleet,
    filtered: tuple[NDArray[np.int16], Sequence[Refusal]],
    assignment: Assignment,
) -> tuple[ScheduledReason, WorkloadState, str]:
    """The condition's reason and message, and the state that a Workload without shares has."""
    verdicts, refusals = filtered
    assigned = sum(assignment.shares.values())
    if assignment.shares and assigned == assignment.desired:
        return (
            ScheduledReason.SCHEDULED,
            WorkloadState.SCHEDULED,
            f"{assigned} of {assignment.desired} units have a cluster",
        )
    feasible = int((verdicts == FITS).sum())
    message = f"{feasible}/{len(fleet)} clusters: {tally(verdicts, refusals) or 'none registered'}"
    for plugin in profile.post_filter:
        said = plugin.post_filter(state, unit, fleet)
        message = "; ".join((message, *said.reasons))
    if assignment.shares:
        short = assignment.desired - assigned
        message = f"{assigned} units keep their clusters, {short} more find no room: {message}"
        return ScheduledReason.INSUFFICIENT_CAPACITY, WorkloadState.SCHEDULED, message
    lacking_room = {
        code for code, r in enumerate(refusals, start=1) if r.plugin == ClusterResources.name
    }
    if feasible or lacking_room & set(verdicts.tolist()):
        return ScheduledReason.INSUFFICIENT_CAPACITY, WorkloadState.PENDING, message
    return ScheduledReason.FAILED_TO_SCHEDULE, WorkloadState.FAILED, message


def _refused(unit: Unit, fleet: Fleet, now: datetime, status: Status) -> Decision:
    """The Workload as a whole is refused: what it has it keeps, what it lacks stays pending."""
    kept = {name: n for name, n in unit.present.items() if name in fleet.row}
    desired = unit.replicas * (max(len(kept), 1) if unit.everywhere else 1)
    placements = _at_most(kept, desired)
    text = "; ".join(status.reasons)
    return Decision(
        unit=unit,
        fleet=fleet,
        time=now,
        placements=placements,
        desired=desired,
        reason=ScheduledReason.FAILED_TO_SCHEDULE,
        state=WorkloadState.SCHEDULED if placements else WorkloadState.FAILED,
        message=f"0/{len(fleet)} clusters: {text}",
        refusals=[Refusal(status.plugin, text)],
        verdicts=np.ones(len(fleet), dtype=np.int16),
        totals=np.zeros(len(fleet), dtype=np.int64),
    )


def _at_most(shares: dict[str, int], desired: int) -> dict[str, int]:
    """The shares, cut from the last name on when they are more than is wanted."""
    left, kept = desired, {}
    for name in sorted(shares):
        kept[name] = min(shares[name], left)
        left -= kept[name]
    return kept
