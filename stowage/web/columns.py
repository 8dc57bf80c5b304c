"""The fleet in columns: a thousand clusters in one small answer, for who draws or searches them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stowage.web.fleetview import RESOURCES, Row

Columns = dict[str, Any]


def of_clusters(rows: Sequence[Row], revision: int) -> Columns:
    """Return the clusters: `ready` is 0 or 1, amounts are in millicores, bytes and pods."""
    return {
        "rev": revision,
        "n": len(rows),
        "name": [row["name"] for row in rows],
        "ready": [int(row["ready"]) for row in rows],
        **{each: _dictionary(row[each] for row in rows) for each in _WORDS},
        "units": [row["units"] for row in rows],
        **{
            each: {
                "alloc": [row[each]["allocatable"] for row in rows],
                "req": [row[each]["requested"] for row in rows],
            }
            for each in RESOURCES
        },
    }


_WORDS = ("state", "zone", "region", "version", "provider")


def of_workloads(rows: Sequence[Row], revision: int) -> Columns:
    """Return the Workloads with their units."""
    return {
        "rev": revision,
        "n": len(rows),
        "name": [row["name"] for row in rows],
        **{each: _dictionary(row[each] for row in rows) for each in ("namespace", "state")},
        **{each: [row[each] for row in rows] for each in ("desired", "assigned", "ready")},
    }


def _dictionary(values: Iterable[str]) -> Columns:
    """Return each word once, and for each row the place of its word."""
    places: dict[str, int] = {}
    at = [places.setdefault(value, len(places)) for value in values]
    return {"dict": [*places], "idx": at}
