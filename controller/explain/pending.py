"""What stands in the way of the pending units: each obstacle as data, with a sentence.

The clusters that something refuses are counted by what was said of them first, as the condition
counts them; those that nothing refuses by what stops them from taking more.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from controller.cache.columns import Mask
from controller.framework.explains import Kind, Note
from controller.framework.room import room_of
from controller.planner.reasons import Why
from controller.scheduling.decision import Decision


def obstacles(decision: Decision) -> list[Note]:
    """Why units are pending: the refusals, the greatest count first, then what stops the others.

    Last, what was found while domains were chosen.
    """
    if decision.pending <= 0:
        return []
    if not len(decision.fleet):
        return [Note(Kind.NO_CLUSTER, 0, "", "no cluster is registered")]
    counts = np.bincount(decision.verdicts, minlength=len(decision.refusals) + 1).tolist()
    notes = [
        Note(Kind.REFUSED, number, each.plugin, f"{_clusters(number)}: {each.text}")
        for each, number in zip(decision.refusals, counts[1:], strict=True)
        if number
    ]
    notes.sort(key=lambda note: (-note.number, note.name, note.text))
    meant, tight, capped = ruled(decision), full(decision), shut(decision)
    stops = Counter(
        (Kind.QUOTA, _subsets_of(decision, row))
        if capped[row]
        else _stop(decision, row, meant=bool(meant[row]), tight=bool(tight[row]))
        for row in np.flatnonzero(decision.verdicts == 0).tolist()
    )
    for (kind, text), number in stops.most_common():
        notes.append(Note(kind, number, "", f"{_clusters(number)}: {text}"))
    notes += [Note(Kind.BOUND, 0, "spreadConstraints", text) for text in decision.choosing]
    return notes


def _stop(decision: Decision, row: int, *, meant: bool, tight: bool) -> tuple[Kind, str]:
    """What keeps a cluster that nothing refuses from taking more."""
    kinds = {reason.kind for reason in decision.why(row)}
    if Why.DOMAIN_QUOTA in kinds:
        return Kind.QUOTA, "at the quota of the domain"
    if Why.UPPER in kinds:
        return Kind.BOUND, "at the upper bound of spec.distributionWeights"
    if Why.LEARNT in kinds:
        return Kind.BOUND, "seen to run what it has and no more (status.limits)"
    if not meant:
        return Kind.BOUND, "no rule of spec.distributionWeights"
    if not tight and decision.unit.spread:
        return Kind.BOUND, "left out by spec.spreadConstraints"
    return Kind.NO_ROOM, "no room for more" if tight else "no more by the rules of its distribution"


def shut(decision: Decision) -> Mask:
    """The clusters of subsets that all take no more, whatever the room."""
    plan = decision.cycle_state.plan
    return np.zeros(len(decision.fleet), dtype=np.bool_) if plan is None else plan.rows_shut


def _subsets_of(decision: Decision, row: int) -> str:
    """Why the subsets of a cluster take no more."""
    plan = decision.cycle_state.plan
    subsets = None if plan is None else plan.asked.subsets
    if plan is None or subsets is None:
        return ""
    mine = {
        name for name, inside in zip(subsets.names, subsets.inside[:, row], strict=True) if inside
    }
    return "; ".join(str(each) for each in plan.subsets_shut if each.name in mine)


def full(decision: Decision) -> Mask:
    """The clusters that hold as many units as they can."""
    placed = decision.placements
    held = np.array([placed.get(name, 0) for name in decision.fleet.names], dtype=np.int64)
    mask: Mask = held >= room_of(decision.cycle_state, decision.unit, decision.fleet)
    return mask


def ruled(decision: Decision) -> Mask:
    """The clusters that a static weight is meant for; all of them without such weights."""
    rules = decision.unit.weights if decision.unit.distribution == "Divided" else ()
    mask = np.full(len(decision.fleet), not rules)
    for rule in rules:
        mask |= decision.fleet.selected(rule.cluster_selector)
    return mask


def _clusters(number: int) -> str:
    return "1 cluster" if number == 1 else f"{number} clusters"
