"""`stowage explain`: why each cluster was taken or not, why each number, and what helps.

The decision of now, with each cluster's verdict and score, is computed from files or from the hub's
objects, or asked of a running controller where one is named; each way calls the same function.
Differences to the status (the spec was edited since, the cluster changed) come first.
`stowage.report` prints the reasons that the status keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from controller.explain.record import record
from controller.model.objects import Workload
from machinery.clock import SystemClock
from machinery.config.address import loopback
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, NotFound, TransportError
from machinery.types.bounds import clean
from machinery.types.metadata import Key
from stowage.console import output, words
from stowage.console.terminal import say
from stowage.fleet import inventory
from stowage.fleet.inventory import PlanInputs
from stowage.hub.connection import guarded, reader
from stowage.hub.reader import Reader
from stowage.kinds import Reference, headed, titled, told
from stowage.simulation import plan

CONTROLLER_SECONDS = 5.0
"""A controller answers from memory in milliseconds; one that is silent for so long is absent."""
SHOWN = 20
"""Clusters in the table, unless all are asked for."""
COLUMNS = ("cluster", "verdict", "score", "number", "why")

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The record of a decision, and what to know before reading it.

    `notes` say how the record was made, if not as asked for; `remarks` say where it differs from
    the status.
    """

    record: Record
    remarks: Sequence[str] = ()
    notes: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return what `-o json` prints: the record with `remarks`, and `notes` if there are any."""
        notes = {"notes": list(self.notes)} if self.notes else {}
        return {**self.record, "remarks": list(self.remarks), **notes}

    def text(self, *, everything: bool) -> str:
        """Return head, remarks, the table of clusters, and the pending reasons and remedies."""
        return self._text("\n".join((_head(self.record), *self.remarks)), everything)

    def beside(self, *, everything: bool) -> str:
        """Return the same, to be printed below the recorded part."""
        head = "Decided now"
        if not self.remarks:
            placed = self.record["assigned"] > 0
            head += ", every unit would stay where it is" if placed else ", no unit would be placed"
        end = ":" if self.record["clusters"] else "."
        return self._text("\n".join((*self.remarks, head + end)), everything)

    def _text(self, head: str, everything: bool) -> str:
        record, parts = self.record, [head]
        if rooms := words.inside(record.get("reservations", ()), record["namespace"]):
            parts[0] += f"\n{rooms}"
        parts[0] += "".join(f"\ndoes not fit: {clean(t)}" for t in record.get("doesNotFit", ()))
        if ranges := words.ordinals(record.get("ordinals", ())):
            parts[0] += f"\n{ranges}"
        if changed := words.hooks(record.get("hooks", ())):
            parts.append("\n".join(changed))
        if record["clusters"]:
            parts.append(_table(record, everything=everything))
        parts += [part for part in (_pending(record), _helpful(record)) if part]
        return "\n\n".join(parts)


def show(
    about: Reference, where: plan.Where, *, files: Sequence[str], form: str, everything: bool
) -> None:
    """Print the reasons, of a plan or of clusters in files.

    Raises ConfigurationError, TransportError.
    """
    found = planned(about, files, where) if files else explained(about, where, None)
    output.show(found.to_dict(), form, text=found.text(everything=everything))


def controller(url: str, token_file: Path | None) -> Connection:
    """Return how to ask the controller, and as whom.

    Raises ConfigurationError for a token file that cannot be read, for no address, and for plain
    http to another machine without a token: anybody on the way could answer.
    """
    try:
        token = token_file.read_text(encoding="utf-8").strip() if token_file else None
    except OSError as e:
        raise ConfigurationError(f"{token_file}: {e.strerror}") from e
    address = _address(url)
    if address.scheme == "http" and not token and not loopback(address.hostname or ""):
        raise ConfigurationError(
            f"{url} is plain http: anybody on the way could answer; use https, or "
            "`kubectl port-forward` and an address of this machine"
        )
    return guarded(Connection(server=url, token=token))


def _address(url: str) -> SplitResult:
    wrong = ConfigurationError(f"--controller {url}: name it as https://HOST:PORT")
    try:
        address = urlsplit(url)
        known = address.port is None or address.port > 0  # .port may raise ValueError
    except ValueError as e:
        raise wrong from e
    if address.scheme not in ("http", "https") or not address.hostname or not known:
        raise wrong
    return address


def planned(about: Reference, files: Sequence[str], where: plan.Where) -> Explanation:
    """Return the decision of the plan. Raises ConfigurationError where the plan has none."""
    made, key = plan.make(files, where, clock=SystemClock()), about.key(where.namespace)
    for each in made.planned:
        if each.decision.workload.key == key:
            found = plan.recorded(each.decision, each.kind)
            return Explanation(found, ("This is a plan: nothing is applied.",))
    raise ConfigurationError(f"the plan of these files decides nothing of {titled(key)}")


def explained(about: Reference, where: plan.Where, controller: Connection | None) -> Explanation:
    """Return the controller's explanation if it is named and answers, otherwise a computed one.

    A controller that does not answer is reported at once and in `notes`. Raises ConfigurationError,
    TransportError.
    """
    notes: tuple[str, ...] = ()
    if where.hub is not None and controller is not None:
        try:
            return ask(about, where.namespace, where.hub, controller)
        except _Unanswered as e:
            notes = (f"{e}: computed from the objects on the hub",)
            say(f"note: {notes[0]}", err=True)
    found = recomputed(about, where.present(), where)
    return replace(found, notes=notes)


def recomputed(about: Reference, present: PlanInputs, where: plan.Where) -> Explanation:
    """Return the decision of now.

    Raises ConfigurationError for a missing object, and for one that these profiles do not decide.
    """
    key, profiles = about.key(where.namespace), where.profiles()
    rehearsal = where.rehearsal(profiles, present, now=SystemClock().now())
    workload = rehearsal.placed.get(key)
    if workload is None:
        if (about.resource.kind, (where.namespace, about.name)) in present.objects:
            raise ConfigurationError(f"{titled(key)} takes part in no decision any more")
        raise ConfigurationError(about.missing(where.namespace))
    decision = rehearsal.once(key)
    if decision is None:
        raise ConfigurationError(plan.left(workload, profiles))
    found = told(record(decision), about.resource.kind)
    return Explanation(found, remarks(found, workload))


class _Unanswered(Exception):
    """The controller did not answer, or its answer does not fit this hub."""


def ask(about: Reference, namespace: str, hub: Connection, controller: Connection) -> Explanation:
    """Return the running controller's explanation.

    Raises TransportError of the hub, ConfigurationError for a missing object, _Unanswered.
    """
    with reader(hub) as api:
        try:
            workload = inventory.one(api, about.resource, namespace, about.name)
        except NotFound as e:
            raise ConfigurationError(about.missing(namespace)) from e
    if workload is None:
        raise _Unanswered(f"{titled(about.key(namespace))} takes part in no decision any more")
    found = told(_asked(about.key(namespace), controller), about.resource.kind)
    if found.get("uid") != workload.metadata.uid:
        raise _Unanswered(f"the controller at {controller.server} does not serve this hub")
    return Explanation(found, remarks(found, workload))


def _asked(key: Key, controller: Connection) -> Record:
    path = f"/apis/v1/diagnosis/{key[0]}/{key[1]}"
    try:
        with Reader(controller, timeout=CONTROLLER_SECONDS) as api:
            record: Record = msgspec.json.decode(api.get(path), type=dict)
    except (TransportError, msgspec.DecodeError) as e:
        raise _Unanswered(f"no answer of a controller at {controller.server} ({e})") from e
    return record


def remarks(record: Record, workload: Workload) -> list[str]:
    """Return the differences between the record and the status, and since when there are any."""
    status, info = workload.status, workload.info
    before = status.decision
    if not before.hash and not status.placements:
        return ["Not decided yet: this is what would be decided now."]
    found = []
    if before.hash != info.hash:
        since = f" (of {before.time})" if before.time else ""
        found.append(
            f"The spec was edited since the decision{since} that its shares come from: "
            "this is what would be decided now."
        )
    if record["hash"] != info.hash:
        found.append("The controller has not seen the last edit of the spec yet.")
    now = {each["cluster"]: each["replicas"] for each in record["placements"]}
    if now != workload.placements:
        found.append(
            f"The status says {words.shares(workload.placements)}; "
            f"decided now it would be {words.shares(now)}."
        )
    return found


def _head(record: Record) -> str:
    text = (
        f"{headed(record)}: {record['assigned']} of {words.count(record['desired'], 'unit')} placed"
    )
    waiting = f", {record['pending']} pending" if record["pending"] else ""
    return f"{text}{waiting} ({record['reason']})"


def _table(record: Record, *, everything: bool) -> str:
    """Return clusters that hold units, then the others as ranked, then those refused."""
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
    head = f"In the way of the {words.count(record['pending'], 'pending unit')}:"
    return _listed(head, record["pendingReasons"])


def _helpful(record: Record) -> str:
    return _listed("What would help:", record["remedies"])


def _listed(head: str, notes: Sequence[Record]) -> str:
    return "\n".join((head, *(f"  {note['text']}" for note in notes))) if notes else ""
