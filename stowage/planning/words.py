"""Words for shares, changes, numbers and times in the tables of the commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from crds.names import short_revision

SHOWN = 6
"""Entries that one cell names; of more it gives the number."""


def shares(placements: Mapping[str, int]) -> str:
    """Return `member-a=1,host=3`; a dash for none."""
    return _cut([f"{cluster}={units}" for cluster, units in placements.items()], ",") or "-"


def change(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Return `member-a 3 → 2, member-c +1, member-d -4`; empty when nothing moves.

    A plus marks a cluster that the Workload comes to, a minus one that it leaves.
    """
    moved = []
    for cluster in sorted({*before, *after}):
        old, new = before.get(cluster), after.get(cluster)
        if old is None:
            moved.append(f"{cluster} +{new}")
        elif new is None:
            moved.append(f"{cluster} -{old}")
        elif old != new:
            moved.append(f"{cluster} {old} → {new}")
    return _cut(moved, ", ")


def inside(shares: Iterable[Mapping[str, Any]], namespace: str) -> str:
    """Return `2 units inside rsv/launch, 1 unit inside stowage-system/rsv/pool`; empty for none.

    `shares` is `status.reservations` of a Workload in `namespace`.
    """
    units: dict[str, int] = {}
    for share in shares:
        where = "" if share["namespace"] == namespace else f"{share['namespace']}/"
        name = f"{where}rsv/{share['name']}"
        units[name] = units.get(name, 0) + share["replicas"]
    return _cut([f"{count(n, 'unit')} inside {name}" for name, n in units.items()], ", ")


def ordinals(ranges: Iterable[Mapping[str, Any]]) -> str:
    """Return `ordinals: m1 db-0 to db-2, m2 db-1000`; empty for none."""
    text = _cut([f"{each['cluster']} {each['pods']}" for each in ranges], ", ")
    return f"ordinals: {text}" if text else ""


def transition(stable: str, revision: str) -> str:
    """Return `91ab → 6f2c`; `6f2c` where both are one, or there is no stable revision."""
    new = short_revision(revision)
    return f"{short_revision(stable)} → {new}" if stable and stable != revision else new


def count(number: int, what: str) -> str:
    """Return `1 unit`, `2 units`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def hooks(told: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the changes by hooks, one a line: `hook Anywhere took clusterSelector away`."""
    return [f"hook {each['plugin']} {each['text']}" for each in told]


def time(text: str) -> datetime | None:
    """Return the time that a status holds; None for an empty text or one that is no time."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def seconds(number: float) -> str:
    """Return `42s`, `5m`, `3h` or `12d`."""
    left = max(int(number), 0)
    for size, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if left >= 2 * size:
            return f"{left // size}{letter}"
    return f"{left}s"


def _cut(parts: Sequence[str], joint: str) -> str:
    if len(parts) <= SHOWN:
        return joint.join(parts)
    return joint.join((*parts[: SHOWN - 1], f"… {len(parts) - SHOWN + 1} more"))
