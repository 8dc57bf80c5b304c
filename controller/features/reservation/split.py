"""Integers of one reservation on one cluster: what is left of it, and how it is held. Pure.

Amounts are by resource, in the smallest units. A place for a pod is reserved with each unit too,
but an owner whose units are smaller than those of the reservation has more of them: places for pods
bound nobody as long as the reservation holds anything else. Who needs more takes them from what is
free for everybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from controller.model.load import Load
from controller.model.objects import ReservedShare
from controller.model.unit import WorkloadInfo
from crds.fields.shares import MOST_RESERVED_SHARES
from machinery.types.bounds import MOST_UNITS

Amounts: TypeAlias = Mapping[str, int]
_PODS = "pods"


def left(request: Amounts, units: int, taken: Amounts) -> dict[str, int]:
    """What so many units reserve and nobody inside has taken; never less than nothing."""
    return {r: max(n * units - taken.get(r, 0), 0) for r, n in request.items() if n}


def less(amounts: Amounts, request: Amounts, units: int) -> Amounts:
    """These without what so many units ask for; never less than nothing."""
    if not units:
        return amounts
    return {r: max(n - request.get(r, 0) * units, 0) for r, n in amounts.items()}


def fitting(unused: Amounts, request: Amounts) -> int:
    """Whole units of an owner that fit in what is unused; what is not reserved bounds nobody."""
    bounding = _bounding(unused, request)
    return min((unused[r] // request[r] for r in bounding), default=0)


def using_up(unused: Amounts, request: Amounts) -> int:
    """The least units of an owner that leave nothing of what they ask for."""
    return most_inside({r: unused[r] for r in _bounding(unused, request)}, request)


def most_inside(reserved: Amounts, request: Amounts) -> int:
    """The most units of an owner for which so much can be held: they leave none of what they ask.

    Places for pods count, so that who is cut down to it leaves as little as before.
    """
    return max((-(-n // request[r]) for r, n in reserved.items() if request.get(r)), default=0)


def _bounding(unused: Amounts, request: Amounts) -> list[str]:
    asked = [r for r in unused if request.get(r)]
    return [r for r in asked if r != _PODS] or asked


def pieces(unused: Amounts, request: Amounts) -> list[tuple[dict[str, int], int]]:
    """What is unused as loads that lie wherever a unit of the reservation lies: (load, how many).

    Whole units first, then those that lack what is used up; no piece asks for more than a unit
    does, as it could lie nowhere then and would hold nothing.
    """
    rest = {r: n for r, n in unused.items() if n > 0}
    found: list[tuple[dict[str, int], int]] = []
    while full := {r: request[r] for r, n in rest.items() if n >= request[r]}:
        units = min(rest[r] // n for r, n in full.items())
        found.append((full, units))
        rest = {r: m for r, n in rest.items() if (m := n - units * full.get(r, 0))}
    return [*found, (rest, 1)] if rest else found


def loads(unused: Amounts, request: Amounts, whole: Load) -> dict[Load, int]:
    """The same as loads of the place where the units of the reservation may lie."""
    held: dict[Load, int] = {}
    for amounts, units in pieces(unused, request):
        load = whole if amounts == dict(whole.request) else _partial(amounts, whole)
        held[load] = held.get(load, 0) + units
    return held


def _partial(amounts: Amounts, whole: Load) -> Load:
    return Load(tuple(sorted(amounts.items())), whole.place)


def claimed(shares: Iterable[ReservedShare]) -> tuple[ReservedShare, ...]:
    """The shares in their one order, each reservation once on a cluster; no more than are kept."""
    units: dict[tuple[str, str, str, str], int] = {}
    for share in shares:
        where = (share.cluster, share.namespace, share.name, share.uid)
        if where in units or len(units) < MOST_RESERVED_SHARES:
            units[where] = min(units.get(where, 0) + share.replicas, MOST_UNITS)
    return tuple(
        ReservedShare(namespace, name, uid, cluster, n)
        for (cluster, namespace, name, uid), n in sorted(units.items())
        if n > 0
    )


def within(
    shares: Iterable[ReservedShare], placements: Mapping[str, int]
) -> tuple[ReservedShare, ...]:
    """These shares as far as the units on their cluster go: nobody is inside who is not there."""
    free = dict(placements)
    found = []
    for share in shares:
        units = min(share.replicas, free.get(share.cluster, 0))
        if units > 0:
            free[share.cluster] -= units
            found.append(
                ReservedShare(share.namespace, share.name, share.uid, share.cluster, units)
            )
    return tuple(found)


def fits(shares: Iterable[ReservedShare], placements: Mapping[str, int]) -> bool:
    """Whether there are units for all of these shares."""
    free = dict(placements)
    for share in shares:
        free[share.cluster] = free.get(share.cluster, 0) - share.replicas
    return all(n >= 0 for n in free.values())


def arriving(unit: WorkloadInfo, placements: Mapping[str, int]) -> dict[str, int]:
    """The units that a cluster did not have before, where there are any."""
    return {
        c: n - unit.present.get(c, 0) for c, n in placements.items() if n > unit.present.get(c, 0)
    }
