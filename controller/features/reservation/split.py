"""Arithmetic of one reservation on one cluster. Pure.

Amounts are by resource, in the smallest units. Each unit reserves a place for a pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TypeAlias

from controller.model.load import Load
from crds.fields.shares import MOST_RESERVED_SHARES
from machinery.types.bounds import MOST_UNITS
from machinery.types.workload_api import ReservedShare

Amounts: TypeAlias = Mapping[str, int]
_PODS = "pods"


def left(request: Amounts, replicas: int, taken: Amounts) -> dict[str, int]:
    return {r: max(n * replicas - taken.get(r, 0), 0) for r, n in request.items() if n}


def less(amounts: Amounts, request: Amounts, replicas: int) -> Amounts:
    if not replicas:
        return amounts
    return {r: max(n - request.get(r, 0) * replicas, 0) for r, n in amounts.items()}


def fitting(unused: Amounts, request: Amounts) -> int:
    bounding = _bounding(unused, request)
    return min((unused[r] // request[r] for r in bounding), default=0)


def using_up(unused: Amounts, request: Amounts) -> int:
    return most_inside({r: unused[r] for r in _bounding(unused, request)}, request)


def lack(unused: Amounts, request: Amounts) -> Fraction:
    """Return the greatest part of a resource that one replica would take beside these."""
    parts = (1 - Fraction(unused[r], request[r]) for r in _bounding(unused, request))
    return max(parts, default=Fraction(1))


def most_inside(reserved: Amounts, request: Amounts) -> int:
    """Return the fewest replicas that leave nothing of these amounts, places for pods included."""
    return max((-(-n // request[r]) for r, n in reserved.items() if request.get(r)), default=0)


def _bounding(unused: Amounts, request: Amounts) -> list[str]:
    asked = [r for r in unused if request.get(r)]
    return [r for r in asked if r != _PODS] or asked


def pieces(unused: Amounts, request: Amounts) -> list[tuple[dict[str, int], int]]:
    """Return pairs (load, number), whole units first."""
    rest = {r: n for r, n in unused.items() if n > 0}
    found: list[tuple[dict[str, int], int]] = []
    while full := {r: request[r] for r, n in rest.items() if n >= request[r]}:
        replicas = min(rest[r] // n for r, n in full.items())
        found.append((full, replicas))
        rest = {r: m for r, n in rest.items() if (m := n - replicas * full.get(r, 0))}
    return [*found, (rest, 1)] if rest else found


def loads(unused: Amounts, request: Amounts, whole: Load) -> dict[Load, int]:
    held: dict[Load, int] = {}
    for amounts, replicas in pieces(unused, request):
        partial = Load(tuple(sorted(amounts.items())), whole.place)
        load = whole if amounts == dict(whole.request) else partial
        held[load] = held.get(load, 0) + replicas
    return held


def claimed(shares: Iterable[ReservedShare]) -> tuple[ReservedShare, ...]:
    """Return each reservation once on a cluster, up to the allowed number."""
    replicas: dict[tuple[str, str, str, str], int] = {}
    for share in shares:
        where = (share.cluster, share.namespace, share.name, share.uid)
        if where in replicas or len(replicas) < MOST_RESERVED_SHARES:
            replicas[where] = min(replicas.get(where, 0) + share.replicas, MOST_UNITS)
    return tuple(
        ReservedShare(namespace, name, uid, cluster, n)
        for (cluster, namespace, name, uid), n in sorted(replicas.items())
        if n > 0
    )


def within(
    shares: Iterable[ReservedShare], placements: Mapping[str, int]
) -> tuple[ReservedShare, ...]:
    free = dict(placements)
    found = []
    for share in shares:
        replicas = min(share.replicas, free.get(share.cluster, 0))
        if replicas > 0:
            free[share.cluster] -= replicas
            found.append(
                ReservedShare(share.namespace, share.name, share.uid, share.cluster, replicas)
            )
    return tuple(found)
