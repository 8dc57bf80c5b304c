"""The part of `stowage explain rsv/NAME` about amounts, the end and the owners.

Everything is read from the object. Only the controller's ledger knows the amounts used on one
cluster, so these are given in units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from machinery.types import conditions, quantities
from stowage.console import output, words
from stowage.console.words import seconds
from stowage.report.features import OVER, ends

NAMED = 3
"""Owners that one cell names."""
SHOWN = 20
"""Clusters in the table, unless all are asked for."""

Json = Mapping[str, Any]


def recorded(found: Json) -> dict[str, Any]:
    status, at = _status(found), _ends(found)
    reserved, used = status.get("allocatable") or {}, status.get("allocated") or {}
    return {
        "phase": status.get("phase") or "",
        "reason": _ready(status).get("reason") or "",
        "message": _ready(status).get("message") or "",
        "expires": at.astimezone(UTC).isoformat().replace("+00:00", "Z") if at else None,
        "reserved": reserved,
        "allocated": used,
        "unused": _less(reserved, used),
        "owners": status.get("owners") or 0,
        "clusters": [
            {**row, "currentOwners": _inside(status, row["name"])} for row in _clusters(status)
        ],
    }


def text(found: Json, now: datetime, *, everything: bool) -> str:
    """Return phase and end, the amounts, what is short, and a row for each cluster."""
    status, spec = _status(found), found.get("spec") or {}
    lines = [", ".join(filter(None, (_phase(status), *_terms(spec, found, now))))]
    reserved, used = status.get("allocatable") or {}, status.get("allocated") or {}
    if reserved:
        left = _less(reserved, used)
        lines.append(f"{_amounts(reserved)} reserved, {_amounts(used)} of it used by owners")
        if status.get("phase") not in OVER:
            lines[-1] += f", {_amounts(left)} kept free for them"
    if message := _ready(status).get("message"):
        lines.append(f"{_ready(status).get('reason')}: {message}")
    rows = [_row(status, each) for each in _clusters(status)]
    shown = rows if everything else rows[:SHOWN]
    if shown:
        table = output.table(shown, ("cluster", "units", "reserved", "inside"))
        lines += ["", table + output.left_out(len(rows) - len(shown))]
    return "\n".join(lines)


def _status(found: Json) -> Json:
    status: Json = found.get("status") or {}
    return status


def _ready(status: Json) -> Json:
    return conditions.find(status, conditions.READY)


def _ends(found: Json) -> datetime | None:
    spec = found.get("spec") or {}
    created = found["metadata"].get("creationTimestamp") or ""
    return ends(created, spec.get("ttl") or "24h", spec.get("expires") or "")


def _phase(status: Json) -> str:
    return str(status.get("phase") or "Undecided")


def _terms(spec: Json, found: Json, now: datetime) -> Iterator[str]:
    if _status(found).get("phase") in OVER:
        return
    at = _ends(found)
    if at is None:
        yield "without an end"
    else:
        left = (at - now).total_seconds()
        until = words.moment(at.isoformat(), now)
        yield f"until {until} ({seconds(left)} more)" if left > 0 else f"over since {until}"
    yield "held by pods" if spec.get("hold") == "Member" else "held in the books"
    yield "for one owner" if spec.get("allocateOnce", True) else "shared by its owners"


def _less(reserved: Json, used: Json) -> dict[str, str]:
    left = {}
    for name, text in reserved.items():
        rest = quantities.amount(name, text) - quantities.amount(name, used.get(name, "0"))
        left[name] = quantities.render(name, max(rest, 0))
    return left


def _amounts(amounts: Json) -> str:
    """Return `cpu 12, memory 24Gi`; `nothing` where all are zero."""
    some = {name: quantities.amount(name, text) for name, text in amounts.items()}
    told = [f"{name} {quantities.readable(name, n)}" for name, n in some.items() if n]
    return ", ".join(told) or "nothing"


def _clusters(status: Json) -> list[dict[str, Any]]:
    """Return each cluster with its units, and its part of all amounts in proportion to them."""
    placed = [each for each in status.get("placements") or [] if each.get("replicas")]
    total = sum(each["replicas"] for each in placed)
    whole = {n: quantities.amount(n, t) for n, t in (status.get("allocatable") or {}).items()}
    return [
        {
            "name": each["cluster"],
            "replicas": each["replicas"],
            "reserved": {
                name: quantities.render(name, amount * each["replicas"] // total)
                for name, amount in whole.items()
            },
        }
        for each in placed
    ]


def _inside(status: Json, cluster: str) -> list[dict[str, Any]]:
    owners = [o for o in status.get("currentOwners") or [] if o.get("cluster") == cluster]
    return [{key: o[key] for key in ("namespace", "name", "replicas")} for o in owners]


def _row(status: Json, cluster: Json) -> dict[str, Any]:
    inside = _inside(status, cluster["name"])
    named = [f"{o['namespace']}/{o['name']}={o['replicas']}" for o in inside[:NAMED]]
    more = [f"… {len(inside) - NAMED} more"] if len(inside) > NAMED else []
    return {
        "cluster": cluster["name"],
        "units": cluster["replicas"],
        "reserved": _amounts(cluster["reserved"]),
        "inside": ",".join((*named, *more)) or "-",
    }
