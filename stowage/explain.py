"""`stowage explain`: why each cluster was taken or not, why each number is what it is, what helps.

The whole record of a decision is kept nowhere: the running controller computes it from what it
would decide on now, and so does this command where no controller can be asked. Either way it is the
same function. Whatever of it is not what the status says (the spec was edited since, the world has
changed) is said first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from controller.framework.profile import Profile
from controller.model import Workload
from controller.world import known
from machinery.clock import SystemClock
from machinery.errors import ConfigurationError, NotFound, TransportError
from machinery.kubeconfig import Connection
from machinery.objects import Key
from machinery.resources import WORKLOADS
from machinery.transport import ApiClient
from stowage import output, plan, words
from stowage.inventory import Inventory
from stowage.rehearsal import Rehearsal

CONTROLLER = "http://127.0.0.1:10251"
CONTROLLER_SECONDS = 1.0
"""An answer from memory takes milliseconds; whoever is silent for longer is not there."""
SHOWN = 20
"""Clusters in the table, unless all are asked for."""
COLUMNS = ("cluster", "verdict", "score", "number", "why")
_KINDS = {WORKLOADS.kind.lower(), WORKLOADS.plural, "wl"}

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The record of a decision, and what to know before reading it."""

    record: Record
    remarks: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """What `-o json` prints: the record, with the remarks."""
        return {**self.record, "remarks": list(self.remarks)}

    def text(self, *, everything: bool) -> str:
        """Head, remarks, the table of clusters, and the sentences about what is pending."""
        record = self.record
        parts = ["\n".join((_head(record), *self.remarks))]
        if record["clusters"]:
            parts.append(_table(record, everything=everything))
        parts += [part for part in (_pending(record), _helpful(record)) if part]
        return "\n\n".join(parts)


def reference(given: Sequence[str]) -> str:
    """The Workload's name of `wl/NAME` or `wl NAME`. Raises ValueError for anything else."""
    kind, _, name = "/".join(given).partition("/")
    if kind.partition(".")[0].lower() not in _KINDS or not name or "/" in name:
        raise ValueError("name a Workload as wl/NAME or wl NAME")
    return name


def show(
    name: str,
    where: plan.Where,
    *,
    files: Sequence[str],
    controller: Connection,
    form: str,
    everything: bool,
) -> None:
    """Print why. Raises ConfigurationError, TransportError."""
    key = (where.namespace, name)
    found = planned(key, files, where) if files else explained(key, where, controller)
    output.show(found.to_dict(), form, text=found.text(everything=everything))


def controller(url: str | None, token_file: Path | None) -> Connection:
    """How to ask the controller, and as whom. Raises ConfigurationError without that file."""
    try:
        token = token_file.read_text(encoding="utf-8").strip() if token_file else None
    except OSError as e:
        raise ConfigurationError(f"{token_file}: {e.strerror}") from e
    return Connection(server=url or CONTROLLER, token=token)


def planned(key: Key, files: Sequence[str], where: plan.Where) -> Explanation:
    """What a plan decides of it. Raises ConfigurationError when it is not part of the plan."""
    made = plan.make(files, where, clock=SystemClock())
    for each in made.planned:
        if each.decision.unit.key == key:
            return Explanation(each.decision.to_dict(), ("This is a plan: nothing is applied.",))
    raise ConfigurationError(f"the plan of these files decides nothing of {'/'.join(key)}")


def explained(key: Key, where: plan.Where, controller: Connection) -> Explanation:
    """What the controller says of it; where it cannot be asked, what it would say.

    Raises ConfigurationError, TransportError.
    """
    if where.hub is not None:
        try:
            return asyncio.run(ask(key, where.hub, controller))
        except _Unanswered as e:
            click.echo(f"note: {e}: computed from the objects on the hub", err=True)
    return recomputed(key, where.present(), where.profiles())


def recomputed(key: Key, present: Inventory, profiles: Mapping[str, Profile]) -> Explanation:
    """What would be decided of it now. Raises ConfigurationError where it is not ours to decide."""
    workload = present.workloads.get(key)
    if workload is None:
        raise ConfigurationError(f"there is no Workload {'/'.join(key)}")
    if workload.fault:
        raise ConfigurationError(f"{'/'.join(key)}: {workload.fault}")
    rehearsal = Rehearsal(
        profiles,
        clusters=present.clusters,
        workloads=present.workloads.values(),
        policies=present.policies.values(),
        now=SystemClock().now(),
    )
    decision = rehearsal.once(key)
    if decision is None:
        raise ConfigurationError(plan.left(workload, profiles))
    record = decision.to_dict()
    return Explanation(record, remarks(record, workload))


class _Unanswered(Exception):
    """The controller could not be asked, or its answer is of no use here."""


async def ask(key: Key, hub: Connection, controller: Connection) -> Explanation:
    """What the running controller says of it.

    Raises TransportError of the hub, ConfigurationError for an unknown Workload, _Unanswered.
    """
    async with ApiClient(hub, name="hub") as client:
        try:
            body = await client.get(WORKLOADS, key[1], namespace=key[0])
        except NotFound as e:
            raise ConfigurationError(f"there is no Workload {'/'.join(key)}") from e
    workload = known(msgspec.convert(body, Workload))
    record = await _told(key, controller)
    if record.get("uid") != workload.metadata.uid:
        raise _Unanswered(f"the controller at {controller.server} does not serve this hub")
    return Explanation(record, remarks(record, workload))


async def _told(key: Key, controller: Connection) -> Record:
    path = f"/apis/v1/diagnosis/{key[0]}/{key[1]}"
    try:
        async with ApiClient(controller, name="controller", timeout=CONTROLLER_SECONDS) as client:
            record: Record = msgspec.json.decode(await client.request("GET", path), type=dict)
    except (TransportError, msgspec.DecodeError) as e:
        raise _Unanswered(f"no answer of a controller at {controller.server} ({e})") from e
    return record


def remarks(record: Record, workload: Workload) -> list[str]:
    """Where the record is not what the status says, and since when."""
    status, unit = workload.status, workload.unit
    before = status.decision
    if not before.hash and not status.placements:
        return ["Not decided yet: this is what would be decided now."]
    found = []
    if before.hash != unit.hash:
        since = f" (of {before.time})" if before.time else ""
        found.append(
            f"The spec was edited since the decision{since} that its shares come from: "
            "this is what would be decided now."
        )
    if record["hash"] != unit.hash:
        found.append("The controller has not seen the last edit of the spec yet.")
    now = {each["cluster"]: each["replicas"] for each in record["placements"]}
    if now != workload.placements:
        found.append(
            f"The status says {words.shares(workload.placements)}; "
            f"decided now it would be {words.shares(now)}."
        )
    return found


def _head(record: Record) -> str:
    name = f"{record['namespace']}/{record['name']}"
    text = f"{name}: {record['assigned']} of {words.count(record['desired'], 'unit')} placed"
    waiting = f", {record['pending']} pending" if record["pending"] else ""
    return f"{text}{waiting} ({record['reason']})"


def _table(record: Record, *, everything: bool) -> str:
    """Those that hold units, then the others as ranked, then those refused."""
    fitting = sum(each["fits"] for each in record["clusters"])
    rows = [_row(each, n, fitting) for n, each in enumerate(record["clusters"], start=1)]
    rows.sort(key=lambda row: not row["number"])
    shown = rows if everything else rows[:SHOWN]
    text = output.table(shown, COLUMNS)
    rest = rows[len(shown) :]
    if not rest:
        return text
    fit = sum(row["verdict"] == "fits" for row in rest)
    return f"{text}\n… {len(rest)} more: {fit} fit, {len(rest) - fit} refused (--all shows them)"


def _row(cluster: Record, place: int, fitting: int) -> dict[str, Any]:
    refusal = "" if cluster["fits"] else f"{cluster['reason']} ({cluster['plugin']})"
    said = [reason["text"] for reason in cluster["reasons"]]
    if refusal and cluster["replicas"]:
        said.append(f"no more: {refusal}")
    elif refusal:
        said = [refusal]
    elif not cluster["replicas"]:
        said = [f"ranked {place} of {fitting}", *said]
    return {
        "cluster": cluster["name"],
        "verdict": "fits" if cluster["fits"] else "refused",
        "score": cluster["score"] or "-",
        "number": cluster["replicas"],
        "why": "; ".join(said),
    }


def _pending(record: Record) -> str:
    units = words.count(record["pending"], "pending unit")
    return _listed(f"In the way of the {units}:", record["pendingReasons"])


def _helpful(record: Record) -> str:
    return _listed("What would help:", record["remedies"])


def _listed(head: str, notes: Sequence[Record]) -> str:
    return "\n".join((head, *(f"  {note['text']}" for note in notes))) if notes else ""
