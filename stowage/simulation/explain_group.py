"""`stowage explain wg/NAME`: the decision of now on a gang, by member, and what would help.

The decision is computed from files or from the hub's objects with the controller's own code. A
controller that is named adds the facts that it alone has: the units that it holds, and the time
before which it does not try the gang again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from controller.explain.remedies import remedies
from controller.features.workloadgroup.ledger import Groups
from controller.scheduling.decision import Decision
from machinery.clock import SystemClock
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, TransportError
from machinery.types.bounds import clean
from machinery.types.metadata import Key
from stowage.console import output, words
from stowage.console.terminal import say
from stowage.hub.reader import Reader
from stowage.kinds import Reference
from stowage.simulation import gangs, plan
from stowage.simulation.explain import CONTROLLER_SECONDS
from stowage.simulation.gangs import KIND, GroupPlan
from stowage.simulation.rehearsal import Rehearsal

NAMED = 3
"""Members that would move, or whose pending units are explained beside a gang that runs."""

Live = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GroupExplanation:
    """The plan of a gang; `live` is the answer of a controller, `moves` names members that move."""

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
        """Return the explanation of a plan."""
        needs = "?" if self.group.least is None else self.group.least
        of = words.count(self.group.desired, "unit")
        head = f"{self.group.title}: {self.group.assigned} of {of} placed, {needs} needed"
        lines = (f"{head} ({self.group.outcome})", *self.remarks)
        return self._text("\n".join(lines), everything)

    def beside(self, *, everything: bool) -> str:
        """Return the explanation, to be printed below the recorded part."""
        head = "Decided now, every unit would stay where it is:"
        if self.moves:
            head = f"Decided now, other shares for {output.named(self.moves, NAMED)}:"
        elif self.group.outcome == gangs.WAITS and self.group.held:
            units = words.count(self.group.held, "unit")
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
        yield f"The controller counts {words.count(assigned, 'unit')}, {held} of them held."
        if until := self.live.get("deniedUntil"):
            yield f"It does not try again before {until}: {self.live.get('message') or ''}"


def show(
    about: Reference, where: plan.Where, *, files: Sequence[str], form: str, everything: bool
) -> None:
    """Print the reasons, of a plan or of clusters in files.

    Raises ConfigurationError, TransportError.
    """
    found = planned(about, files, where) if files else recomputed(about, where)
    output.show(found.to_dict(), form, text=found.text(everything=everything))


def planned(about: Reference, files: Sequence[str], where: plan.Where) -> GroupExplanation:
    """Return the group's part of the plan. Raises ConfigurationError where the plan has none."""
    made = plan.make(files, where, clock=SystemClock())
    for each in made.groups:
        if each.key == (where.namespace, about.name):
            return GroupExplanation(each, remarks=("This is a plan: nothing is applied.",))
    raise ConfigurationError(
        f"the plan of these files decides nothing of {where.namespace}/wg/{about.name}"
    )


def explained(
    about: Reference, where: plan.Where, controller: Connection | None
) -> GroupExplanation:
    """Return the computed explanation, with the controller's facts if it is named and answers.

    Raises ConfigurationError, TransportError.
    """
    found = recomputed(about, where)
    if controller is None:
        return found
    try:
        return replace(found, live=_asked((where.namespace, about.name), controller))
    except (TransportError, msgspec.DecodeError) as e:
        note = f"no answer of a controller at {controller.server} ({e})"
        say(f"note: {note}", err=True)
        return replace(found, notes=(note,))


def recomputed(about: Reference, where: plan.Where) -> GroupExplanation:
    """Return the decision of now on each member. Raises ConfigurationError for a missing group."""
    key, present = (where.namespace, about.name), where.present()
    rehearsal = where.rehearsal(where.profiles(), present, now=SystemClock().now())
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
    """Return the decisions on the members: those of one batch together, the others alone."""
    seen: set[Key] = set()
    members = rehearsal.ledger(Groups).members(group)
    for key in sorted(members):
        batch = rehearsal.together(key) if key not in seen else None
        if batch is None:
            continue
        if batch.conclusion is not None:
            rehearsal.judged[batch.conclusion.gathering.key] = batch
        own = [each for each in batch.decisions if each.workload.key in members]
        seen.update(each.workload.key for each in own)
        yield own


def _left_over(decisions: Sequence[Decision]) -> Iterator[str]:
    """Return what would help units that are pending beside a quorum that is met."""
    short = [each for each in decisions if each.pending > 0]
    for each in short[:NAMED]:
        for note in remedies(each):
            yield f"{each.workload.name}: {note.text}"


def _asked(key: Key, controller: Connection) -> Live:
    path = f"/apis/v1/plugins/Coscheduling/gang/{key[0]}/{key[1]}"
    with Reader(controller, timeout=CONTROLLER_SECONDS) as api:
        found: Live = msgspec.json.decode(api.get(path), type=dict)
    return found
