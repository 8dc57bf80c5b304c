"""`stowage history wl/NAME`: the last changes of a placement, from the object's status alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from controller.model.why import of_status
from machinery.api.resources import WORKLOAD_GROUPS
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, NotFound
from machinery.types.api import PlacementChange, PlacementMove, UntoldMoves
from stowage.console import output, words
from stowage.hub import ObjectReader, reader
from stowage.kinds import Reference, titled

NOTHING = "no change of placement is recorded: it has no place yet, or was placed before they were"

GROUPLESS = (
    "a WorkloadGroup has no placement of its own: ask stowage history wl/NAME of its Workloads, "
    "or stowage explain wg/NAME"
)


def stored(api: ObjectReader, namespace: str, about: Reference, as_: Any = dict[str, Any]) -> Any:
    """Return the object as the hub has it. Raises ConfigurationError where there is none."""
    try:
        return api.read(about.resource, about.name, namespace, as_)
    except NotFound as e:
        raise ConfigurationError(about.missing(namespace)) from e


def show(hub: Connection, namespace: str, about: Reference, form: str) -> None:
    """Print the changes, the newest last. Raises ConfigurationError, TransportError."""
    if about.resource == WORKLOAD_GROUPS:
        raise ConfigurationError(GROUPLESS)
    with reader(hub) as api:
        found = stored(api, namespace, about)
    status = found.get("status") or {}
    history, staged = of_status(status).history, words.rollout(status)
    head = {"namespace": namespace, "name": about.name, "kind": about.resource.kind}
    data = {**head, "history": told(history)}
    lines = text(titled(about.key(namespace)), history, datetime.now(UTC))
    output.show(data, form, text="\n\n".join(filter(None, (lines, staged))))


def told(history: Sequence[PlacementChange]) -> list[dict[str, Any]]:
    """Return JSON values; a change's `more` has its numbers of 0, too."""
    return [
        {
            **msgspec.to_builtins(each),
            **({"more": msgspec.structs.asdict(each.more)} if each.more else {}),
        }
        for each in history
    ]


def text(name: str, history: Sequence[PlacementChange], now: datetime) -> str:
    """Return a line for each change, and below it a line for each share that it changed."""
    if not history:
        return f"{name}: {NOTHING}"
    head = f"{name}: the last {len(history)} changes of placement, the newest last"
    if len(history) == 1:
        head = f"{name}: one change of placement"
    return "\n".join((head, *(_change(each, now) for each in history)))


def _change(change: PlacementChange, now: datetime) -> str:
    what = words.cause(change.cause, change.name)
    head = (
        f"{words.moment(change.time, now)}  {what}: {words.counts(change)} replicas have a cluster"
    )
    rows = [_row(move) for move in change.moves]
    body = output.table(rows, ("cluster", "units", "why"), head=False, indent=2) if rows else ""
    more = [f"  {_more(change.more, told=bool(rows))}"] if change.more else []
    return "\n".join(filter(None, ("", head, body, *more)))


def _row(move: PlacementMove) -> dict[str, str]:
    before, now = ("-" if units is None else str(units) for units in (move.before, move.now))
    why = words.rules(move.because)
    if move.now is None:
        why = "no share any more"
    return {"cluster": move.cluster, "units": f"{before} → {now}", "why": why}


def _more(more: UntoldMoves, *, told: bool) -> str:
    clusters = (
        f"{more.clusters} {'more ' if told else ''}cluster{'' if more.clusters == 1 else 's'}"
    )
    came = [f"{more.came} replicas came"] if more.came else []
    went = [f"{more.went} replicas left"] if more.went else []
    return ": ".join(
        filter(None, (f"and {clusters}" if told else clusters, ", ".join(came + went)))
    )
