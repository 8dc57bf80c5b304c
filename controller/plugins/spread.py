"""spec.spreadConstraints: over how many domains of a topology the shares go.

The constraints narrow the clusters one after the other, in the order in which they stand: first the
regions, then the clusters in them. Domains that hold units stay; of the others the best go first:
by their best cluster's score, then by room; where the best ones have no room for all units, those
with the most room do. Each domain of an earlier constraint keeps a cluster through the later ones.
Where fewer domains are there than `minDomains` asks for, nothing new is placed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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


def choose(unit: Unit, field: Candidates) -> Choice:
    """What the constraints leave of the feasible clusters and of those that hold units."""
    held = field.keeps & (field.present > 0)
    left = field.feasible | held
    first = np.zeros_like(left)
    if not unit.spread:
        return Choice(left, first)
    before = np.zeros(len(left), dtype=np.int32)
    line = np.lexsort((field.fleet.by_name, -field.scores, ~held))
    for constraint in unit.spread:
        codes = _codes(field.fleet, constraint.topology_key)
        left = left & (codes != ABSENT)
        ranked = _ranked(codes, line[left[line]], before)
        if len(ranked) < (constraint.min_domains or 1):
            nothing = np.zeros_like(left)
            return Choice(nothing, nothing, (_lacks(constraint, len(ranked)),))
        chosen = _limited(unit, field, constraint, codes, left, ranked, held)
        left = left & np.isin(codes, chosen)
        wanted = chosen[: constraint.min_domains or 0]
        first |= _best_of(codes, line[left[line]], wanted)
        before = codes
    return Choice(left, first & left)


def _codes(fleet: Fleet, key: str) -> Codes:
    """The domain of each cluster; each is its own for the label that holds its name."""
    if key == LABEL_CLUSTER:
        return np.arange(1, len(fleet) + 1, dtype=np.int32)
    return fleet.column(key).codes


def _ranked(codes: Codes, line: Ints, before: Codes) -> Codes:
    """The domains, the best first: one for each domain of the constraint before, then the rest."""
    _, lead = np.unique(before[line], return_index=True)
    leading = np.zeros(len(line), dtype=np.bool_)
    leading[lead] = True
    order = np.concatenate((line[leading], line[~leading]))
    _, first = np.unique(codes[order], return_index=True)
    return codes[order[np.sort(first)]]


def _limited(
    unit: Unit,
    field: Candidates,
    constraint: SpreadConstraint,
    codes: Codes,
    left: Mask,
    ranked: Codes,
    held: Mask,
) -> Codes:
    """At most `maxDomains`: the best, or the roomiest where the best have too little room."""
    most = constraint.max_domains
    if most is None or len(ranked) <= most:
        return ranked
    if unit.everywhere:
        return ranked[:most]
    room = np.bincount(codes[left], weights=np.minimum(field.room, unit.replicas)[left])
    if int(room[ranked[:most]].sum()) >= unit.replicas:
        return ranked[:most]
    used = np.isin(ranked, codes[held])
    line = np.lexsort((np.arange(len(ranked)), -room[ranked], ~used))
    return ranked[line[:most]]


def _best_of(codes: Codes, line: Ints, domains: Codes) -> Mask:
    """The best cluster of each of these domains."""
    found, first = np.unique(codes[line], return_index=True)
    mask = np.zeros(len(codes), dtype=np.bool_)
    mask[line[first[np.isin(found, domains)]]] = True
    return mask


def _lacks(constraint: SpreadConstraint, count: int) -> str:
    needed = constraint.min_domains or 1
    return (
        f"spreadConstraints need {needed} domains of {constraint.topology_key}, "
        f"{count} have clusters that would do"
    )
