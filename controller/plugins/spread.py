"""spec.spreadConstraints: over how many domains of a topology the shares go.

The constraints narrow the clusters in the order in which they stand: first the regions, then the
clusters in them. The best domains go first, by their best cluster's score, and each domain of an
earlier constraint keeps a cluster through the later ones. Where the best ones have too little room
for all units, or cannot keep to a later constraint, all constraints are looked at together: as few
of the best ones give way to roomier ones as must (`controller.apportion.keeping`). So units are
pending only where no choice of domains could hold them; see `controller.apportion.domains` for how
far that goes.

- Room is what a cluster may really take: its free room, the maxReplicas of the rule that gives it
  its weight, what it was seen to run; nothing where no rule does. A cluster that can take nothing,
  and holds nothing, does not count as one of its domain.
- What holds units stays, and may take more, also where that is more domains than `maxDomains`:
  nothing that runs is moved because a rule was tightened, but no further domain is used.
- Where there are fewer domains than `minDomains`, or no choice keeps to all constraints, nothing
  new is placed. Where there are fewer units than `minDomains`, each has a domain of its own.
- A cluster without the label is in no domain: it keeps what it holds and gets nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.apportion.domains import Level, in_turn, met, roomiest
from controller.apportion.tables import first_of_each
from controller.columns import ABSENT, Codes, Ints, Mask
from controller.framework.points import Candidates
from controller.model import SpreadConstraint
from controller.snapshot import Fleet
from controller.unit import Unit
from crds.names import LABEL_CLUSTER


@dataclass(frozen=True, slots=True)
class Choice:
    """The clusters that may take units, and those that shall have one before weights count.

    `lacks` says which constraint cannot be met; then nothing is open.
    """

    open: Mask
    first: Mask
    lacks: tuple[str, ...] = ()


def choose(
    unit: Unit, field: Candidates, most: Ints | None = None, stays: Ints | None = None
) -> Choice:
    """What the constraints leave of the feasible clusters and of those that hold units.

    `most` are the units that each cluster may hold, `stays` those that it keeps, shape (n,). Where
    every cluster runs all units nobody counts them, and neither is given.
    """
    held = field.keeps & field.held if stays is None else stays > 0
    stays = held.astype(np.int64) if stays is None else stays
    left = (field.feasible if most is None else field.feasible & (most > 0)) | held
    if not unit.spread or not left.any():
        return Choice(left, np.zeros_like(left))
    codes = [_codes(field.fleet, each.topology_key) for each in unit.spread]
    left = left & np.logical_and.reduce([code != ABSENT for code in codes])
    rows = _best_first(field, left, held, codes[0], most)
    levels = [
        Level(code[rows].astype(np.int64), each.min_domains or 1, each.max_domains or len(left))
        for code, each in zip(codes, unit.spread, strict=True)
    ]
    used = _used(levels, held[rows], *_wanted(unit, rows, most, stays))
    lacks = (_lacks(unit.spread, levels),) if used is None else ()
    chosen = np.zeros(len(rows), dtype=np.bool_) if used is None else used
    first = _first(levels, held[rows], chosen, unit.replicas - int(stays.sum()))
    return Choice(_mask(left, rows[chosen]), _mask(left, rows[first]), lacks)


def _wanted(unit: Unit, rows: Ints, most: Ints | None, stays: Ints) -> tuple[Ints, int]:
    """The units that each of these clusters may hold, and how many they shall hold together."""
    if most is None:
        return np.ones(len(rows), dtype=np.int64), 0
    room = np.maximum(np.minimum(most[rows], max(unit.replicas, 1)), stays[rows])
    return room, unit.replicas - int(stays.sum() - stays[rows].sum())


def _codes(fleet: Fleet, key: str) -> Codes:
    """The domain of each cluster; each is its own for the label that holds its name."""
    if key == LABEL_CLUSTER:
        return np.arange(1, len(fleet) + 1, dtype=np.int32)
    return fleet.column(key).codes


def _best_first(
    field: Candidates, rows: Mask, held: Mask, domain: Codes, most: Ints | None
) -> Ints:
    """These clusters: what holds units, then by score; of equals those whose domain is the best.

    That is the one that can take more, then the one with the greater scores in sum. Where every
    cluster runs all units, a domain can take as many copies as it has clusters.
    """
    found = np.flatnonzero(rows)
    better = field.scores[found] + np.where(held[found], int(field.scores.max()) + 1, 0)
    takes = np.bincount(domain[found], weights=None if most is None else most[found])
    sums = np.bincount(domain[found], weights=field.scores[found])
    ties = (field.fleet.by_name[found], -sums[domain[found]], -takes[domain[found]])
    line: Ints = found[np.lexsort((*ties, -better))]
    return line


def _used(levels: Sequence[Level], held: Mask, room: Ints, need: int) -> Mask | None:
    """The best clusters if they hold what is needed, or else what all constraints together say."""
    best = in_turn(levels, held)
    if met(levels, best) and int(room[best].sum()) >= need:
        return best
    return roomiest(levels, held, room, need)


def _first(levels: Sequence[Level], held: Mask, used: Mask, units: int) -> Ints:
    """The best cluster of as many domains as must be used, those that hold units before others.

    The coarsest level comes first, so that its clusters count for the others too; no more new ones
    are named than there are `units` to place.
    """
    first = np.zeros(0, dtype=np.int64)
    candidates = np.flatnonzero(used | held)
    lines = [(candidates[first_of_each(each.domain[candidates])], each) for each in levels]
    for line, level in sorted(lines, key=lambda pair: len(pair[0])):
        covered = np.zeros(int(level.domain.max(initial=0)) + 1, dtype=np.bool_)
        covered[level.domain[first]] = True
        lacking = max(level.least - int(np.count_nonzero(covered)), 0)
        added = line[~covered[level.domain[line]]][:lacking]
        new = ~held[added]
        added = added[~new | (np.cumsum(new) <= units)]
        units -= int(np.count_nonzero(~held[added]))
        first = np.concatenate((first, added))
    return first


def _mask(like: Mask, rows: Ints) -> Mask:
    mask = np.zeros_like(like)
    mask[rows] = True
    return mask


def _lacks(constraints: Sequence[SpreadConstraint], levels: Sequence[Level]) -> str:
    """The constraint that has too few domains, or that there is no choice which meets them all."""
    for constraint, level in zip(constraints, levels, strict=True):
        count = len(first_of_each(level.domain))
        if count < level.least:
            return (
                f"spreadConstraints need {_domains(level.least, constraint)}, "
                f"{count} {'has' if count == 1 else 'have'} clusters that would do"
            )
    bounds = " with ".join(_bounds(constraint) for constraint in constraints)
    return f"spreadConstraints cannot be met together by the clusters that would do: {bounds}"


def _bounds(constraint: SpreadConstraint) -> str:
    least, most = constraint.min_domains or 1, constraint.max_domains
    if most is None:
        return f"at least {_domains(least, constraint)}"
    if least == 1:
        return f"at most {_domains(most, constraint)}"
    return f"{least} to {_domains(most, constraint)}"


def _domains(number: int, constraint: SpreadConstraint) -> str:
    return f"{number} domain{'s' if number > 1 else ''} of {constraint.topology_key}"
