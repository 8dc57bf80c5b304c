"""`stowage explain`: why each cluster was taken or not, why each number, and what helps.

The decision of now, with each cluster's verdict and score, is computed from files or from the hub's
objects, or asked of a running controller; each way calls the same function. Differences to the
status come first. Of a group the decision is always computed; a controller adds the units that it
holds, and when it tries again. `stowage.report` prints the reasons that the status keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from controller.explain.pending import remedies
from controller.explain.record import record
from controller.features.workloadgroup.ledger import Groups
from controller.model.objects import Workload
from controller.scheduling.decision import Decision
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
from stowage.hub import Reader, guarded, reader
from stowage.kinds import Reference, headed, titled, told
from stowage.simulation import gangs, plan
from stowage.simulation.gangs import KIND, GroupPlan
from stowage.simulation.rehearsal import Rehearsal

CONTROLLER_SECONDS = 5.0
"""A controller answers from memory in milliseconds: one that is silent for longer is absent."""
SHOWN = 20
"""Clusters in the table, unless all are asked for."""
COLUMNS = ("cluster", "verdict", "score", "replicas", "why")

NAMED = 3
"""Members of a group that a line names."""

Record = Mapping[str, Any]
Live = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The record of a decision.

    `notes` say how the record was made, if not as asked for. `remarks` say where it differs from
    the status.
    """

    record: Record
    remarks: Sequence[str] = ()
    notes: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        notes = {"notes": list(self.notes)} if self.notes else {}
        return {**self.record, "remarks": list(self.remarks), **notes}

    def text(self, *, everything: bool) -> str:
        """Return head, remarks, the table of clusters, and the pending reasons and remedies."""
        return self._text(
            "\n".join((_head(self.record), *self._later(), *self.remarks)), everything
        )

    def beside(self, *, everything: bool) -> str:
        """Return the same, to be printed below the recorded part."""
        head = "Decided now"
        if not self.remarks:
            placed = self.record["assigned"] > 0
            head += (
                ", every replica would stay where it is"
                if placed
                else ", no replica would be placed"
            )
        end = ":" if self.record["clusters"] else "."
        paragraphs = ("\n".join(self._later()), "\n".join((*self.remarks, head + end)))
        return self._text("\n\n".join(filter(None, paragraphs)), everything)

    def _later(self) -> list[str]:
        return words.leave_later(self.record.get("leaveLater", ()), datetime.now(UTC))

    def _text(self, head: str, everything: bool) -> str:
        record, parts = self.record, [head]
        if rooms := words.inside(record.get("reservations", ()), record["namespace"]):
            parts[0] += f"\n{rooms}"
        parts[0] += "".join(f"\ndoes not fit: {clean(t)}" for t in record.get("doesNotFit", ()))
        if pods := words.pods(record.get("profile", {})):
            parts[0] += f"\n{pods}"
        if ranges := words.ordinals(record.get("ordinals", ())):
            parts[0] += f"\n{ranges}"
        if work := words.completions(record.get("completions", {})):
            parts[0] += f"\n{work}"
        if changed := words.hooks(record.get("hooks", ())):
            parts.append("\n".join(changed))
        if record["clusters"]:
            parts.append(_table(record, everything=everything))
        parts += [part for part in (_pending(record), _helpful(record)) if part]
        return "\n\n".join(parts)


@dataclass(frozen=True, slots=True)
class GroupExplanation:
    """The plan of a group; `live` is what a controller answers, `moves` names those that move."""

    group: GroupPlan
    moves: Sequence[str] = ()
    remarks: Sequence[str] = ()
    notes: Sequence[str] = ()
    live: Live = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        beside = {"notes": list(self.notes)} if self.notes else {}
        controller = {"controller": dict(self.live)} if self.live else {}
        return {**self.group.to_dict(), "remarks": list(self.remarks), **beside, **controller}

    def text(self, *, everything: bool) -> str:
        needs = "?" if self.group.least is None else self.group.least
        of = words.count(self.group.desired, "replica")
        head = f"{self.group.title}: {self.group.assigned} of {of} placed, {needs} needed"
        lines = (f"{head} ({self.group.outcome})", *self.remarks)
        return self._text("\n".join(lines), everything)

    def beside(self, *, everything: bool) -> str:
        """Return the explanation, to be printed below the recorded part."""
        head = "Decided now, every replica would stay where it is:"
        if self.moves:
            head = f"Decided now, other shares for {output.named(self.moves, NAMED)}:"
        elif self.group.outcome == gangs.WAITS and self.group.held:
            units = words.count(self.group.held, "replica")
            head = f"Decided now, {units} would be held until more of them fit:"
        elif self.group.outcome != gangs.PLACED:
            head = "Decided now, nothing more of it would be placed:"
        return self._text("\n".join((*self._live(), *self.remarks, head)), everything)

    def _text(self, head: str, everything: bool) -> str:
        parts = [head]
        if self.group.members:
            parts.append(gangs.members(self.group, everything=everything))
        why = [f"{self.group.reason}: {clean(self.group.message)}"] if self.group.reason else []
        helps = [f"  {text}" for text in self.group.helps]
        parts += ["\n".join((*why, *(["What would help:", *helps] if helps else [])))]
        return "\n\n".join(filter(None, parts))

    def _live(self) -> Iterator[str]:
        if not self.live:
            return
        assigned, held = self.live["assigned"], self.live["waiting"]
        yield f"The controller counts {words.count(assigned, 'replica')}, {held} of them held."
        if until := self.live.get("deniedUntil"):
            yield f"It does not try again before {until}: {self.live.get('message') or ''}"


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


def planned(
    about: Reference, files: Sequence[str], where: plan.Where
) -> Explanation | GroupExplanation:
    """Return the decision of the plan. Raises ConfigurationError if the plan has none."""
    made, key = plan.make(files, where, clock=SystemClock()), about.key(where.namespace)
    remarks = ("This is a plan: nothing is applied.",)
    for group in made.groups if about.resource.kind == KIND else ():
        if group.key == (where.namespace, about.name):
            return GroupExplanation(group, remarks=remarks)
    for each in made.planned:
        if each.decision.workload.key == key:
            return Explanation(plan.recorded(each.decision, each.kind), remarks)
    raise ConfigurationError(f"the plan of these files decides nothing of {titled(key)}")


def explained(
    about: Reference, where: plan.Where, controller: Connection | None
) -> Explanation | GroupExplanation:
    """Return the decision of now: the controller's if it is named and answers, else a computed one.

    A controller that does not answer is reported at once and in `notes`. Raises ConfigurationError,
    TransportError.
    """
    if about.resource.kind == KIND:
        return _explained_group(about, where, controller)
    notes: tuple[str, ...] = ()
    if where.hub is not None and controller is not None:
        try:
            return ask(about, where.namespace, where.hub, controller)
        except _Unanswered as e:
            notes = (f"{e}: computed from the objects on the hub",)
            say(f"note: {notes[0]}", err=True)
    found = recomputed(about, where.present(), where)
    return replace(found, notes=notes)


def _explained_group(
    about: Reference, where: plan.Where, controller: Connection | None
) -> GroupExplanation:
    found = _recomputed_group(about, where)
    if controller is None:
        return found
    path = f"/apis/v1/plugins/Coscheduling/gang/{where.namespace}/{about.name}"
    try:
        return replace(found, live=_asked(path, controller))
    except _Unanswered as e:
        say(f"note: {e}", err=True)
        return replace(found, notes=(str(e),))


def recomputed(about: Reference, present: PlanInputs, where: plan.Where) -> Explanation:
    """Return the decision of now.

    Raises ConfigurationError for a missing object, and for one that these profiles do not decide.
    """
    key, configuration = about.key(where.namespace), where.configuration()
    rehearsal = where.rehearsal(configuration, present, now=SystemClock().now())
    workload = rehearsal.placed.get(key)
    if workload is None:
        if (about.resource.kind, (where.namespace, about.name)) in present.objects:
            raise ConfigurationError(f"{titled(key)} takes part in no decision any more")
        raise ConfigurationError(about.missing(where.namespace))
    decision = rehearsal.once(key)
    if decision is None:
        raise ConfigurationError(plan.left(workload, configuration.profiles))
    found = told(record(decision), about.resource.kind)
    return Explanation(_with_kind(found, workload), remarks(found, workload))


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
    path = "/".join(("/apis/v1/diagnosis", *about.key(namespace)))
    found = told(_asked(path, controller), about.resource.kind)
    if found.get("uid") != workload.metadata.uid:
        raise _Unanswered(f"the controller at {controller.server} does not serve this hub")
    return Explanation(_with_kind(found, workload), remarks(found, workload))


def _with_kind(record: Record, workload: Workload) -> Record:
    """Return the record with what its kind makes of the Workload: its pods, and its health there.

    The health is that of the status, and a cluster without a share has none.
    """
    said = {each.name: each.health for each in workload.status.clusters if each.health}
    clusters = [
        {**each, "health": said[each["name"]]} if each["name"] in said else each
        for each in record["clusters"]
    ]
    return {**record, "clusters": clusters, "profile": plan.profile_of(workload.info)}


def _asked(path: str, controller: Connection) -> Record:
    try:
        with Reader(controller, timeout=CONTROLLER_SECONDS) as api:
            record: Record = msgspec.json.decode(api.get(path), type=dict)
    except (TransportError, msgspec.DecodeError) as e:
        raise _Unanswered(f"no answer of a controller at {controller.server} ({e})") from e
    return record


def remarks(record: Record, workload: Workload) -> list[str]:
    """Return the differences between the record and the status."""
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
    of = words.count(record["desired"], "replica")
    text = f"{headed(record)}: {record['assigned']} of {of} placed"
    waiting = f", {record['pending']} pending" if record["pending"] else ""
    return f"{text}{waiting} ({record['reason']})"


def _table(record: Record, *, everything: bool) -> str:
    """Return clusters that hold units, then the others as ranked, then those refused."""
    fitting = sum(each["fits"] for each in record["clusters"])
    rows = [_row(each, n, fitting) for n, each in enumerate(record["clusters"], start=1)]
    rows.sort(key=lambda row: not row["replicas"])
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
        "replicas": cluster["replicas"],
        "why": "; ".join(said),
    }


def _pending(record: Record) -> str:
    head = f"In the way of the {words.count(record['pending'], 'pending replica')}:"
    return _listed(head, record["pendingReasons"])


def _helpful(record: Record) -> str:
    return _listed("What would help:", record["remedies"])


def _listed(head: str, notes: Sequence[Record]) -> str:
    return "\n".join((head, *(f"  {note['text']}" for note in notes))) if notes else ""


# --- groups ---------------------------------------------------------------------------------------


def _recomputed_group(about: Reference, where: plan.Where) -> GroupExplanation:
    """Return the decision of now on each member. Raises ConfigurationError for a missing group."""
    key, present = (where.namespace, about.name), where.present()
    rehearsal = where.rehearsal(where.configuration(), present, now=SystemClock().now())
    stored = present.objects.get((KIND, key))
    if stored is None and not rehearsal.ledger(Groups).members(key):
        raise ConfigurationError(about.missing(where.namespace))
    decided = {each.workload.key: each for batch in _batches(rehearsal, key) for each in batch}
    found = gangs.judged(rehearsal, key, stored, decided)
    moves = [
        f"{each.workload.name} ({words.change(each.workload.present, each.placements)})"
        for each in decided.values()
        if each.moves
    ]
    if found.outcome == gangs.PLACED:
        found = replace(found, helps=[*_left_over(list(decided.values()))])
    return GroupExplanation(found, moves)


def _batches(rehearsal: Rehearsal, group: Key) -> Iterator[list[Decision]]:
    """Yield the decisions on the members: those of one batch together, the others alone."""
    seen: set[Key] = set()
    members = rehearsal.ledger(Groups).members(group)
    for key in sorted(members):
        batch = rehearsal.together(key) if key not in seen else None
        if batch is None:
            continue
        own = [each for each in batch.decisions if each.workload.key in members]
        seen.update(each.workload.key for each in own)
        yield own


def _left_over(decisions: Sequence[Decision]) -> Iterator[str]:
    """Yield what would help units that are pending beside a quorum that is met."""
    short = [each for each in decisions if each.pending > 0]
    for each in short[:NAMED]:
        for note in remedies(each):
            yield f"{each.workload.name}: {note.text}"
