"""spec.spreadConstraints: how many domains of a topology the replicas use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.explains import Note, NoteKind, Shortage, Stop, clusters, either, full
from controller.framework.interface import Candidates, CycleState
from controller.model.unit import WorkloadInfo
from controller.planner.plan import Apportionment
from controller.planner.problem import DomainCount, Problem
from controller.planner.webster import Ints
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot
from crds.names import LABEL_CLUSTER


class SpreadConstraints:
    """Bounds the domains of each topology by `minDomains` and `maxDomains`."""

    name = "SpreadConstraints"

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.LABELS | Action.DELETED),)

    def divides(self, _info: WorkloadInfo, _state: CycleState) -> bool:
        """Return False: the constraints bound the divisions of other plugins."""
        return False

    def bound(self, info: WorkloadInfo, field: Candidates, problem: Problem) -> Problem:
        if not info.spread:
            return problem
        return replace(problem, counts=(*problem.counts, *counts(info, field.snapshot)))

    def shortfall(
        self, info: WorkloadInfo, field: Candidates, plan: Apportionment
    ) -> Sequence[str]:
        """Name the clusters with room that the choice of domains excludes."""
        if not info.spread or plan.choice is None or plan.choice.lacks:
            return ()
        asked = plan.asked
        spare = field.feasible & (asked.weight > 0) & ~full(field, plan)
        bound = plan.shares >= np.minimum(asked.upper, asked.learnt)
        out = spare & ~bound & ~plan.choice.open
        return (f"spreadConstraints leave out {clusters(out)} with room",) if out.any() else ()

    def stops(self, shortage: Shortage) -> Sequence[Stop]:
        text = "left out by spec.spreadConstraints"
        return (
            (Stop(NoteKind.BOUND, _left_out(shortage), text),) if shortage.workload.spread else ()
        )

    def remedies(self, shortage: Shortage) -> Sequence[Note]:
        """Suggest other bounds on the number of domains, if clusters with room hold nothing."""
        out = _left_out(shortage) & shortage.feasible & (shortage.held == 0)
        if not shortage.workload.spread or not out.any():
            return ()
        left = either(shortage.names(out))
        text = f"other bounds in spec.spreadConstraints, which leave out {left}"
        number = int(out.sum())
        return (Note(NoteKind.BOUND, number, "spreadConstraints", f"{text}{shortage.space(out)}"),)


def _left_out(shortage: Shortage) -> Mask:
    mask, plan = ~shortage.tight, shortage.state.plan
    if plan is not None:
        mask &= plan.asked.weight > 0
        if plan.choice is not None:
            mask &= ~plan.choice.open
    left: Mask = mask
    return left


def counts(info: WorkloadInfo, snapshot: Snapshot) -> tuple[DomainCount, ...]:
    return tuple(
        DomainCount(
            each.topology_key,
            _domains(snapshot, each.topology_key),
            each.min_domains or 1,
            each.max_domains,
        )
        for each in info.spread
    )


def _domains(snapshot: Snapshot, key: str) -> Ints:
    if key == LABEL_CLUSTER:
        return np.arange(1, len(snapshot) + 1, dtype=np.int64)
    return snapshot.domains_by(key).codes.astype(np.int64)
