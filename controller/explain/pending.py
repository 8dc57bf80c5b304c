"""Why replicas are pending: notes with a sentence each.

Refused clusters count by their first refusal, as in the condition, feasible ones by the bound that
stops them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from controller.framework.calling import answers
from controller.framework.calling.guard import PluginError, ask
from controller.framework.explains import (
    Explainer,
    Note,
    NoteKind,
    Shortage,
    Stop,
    method_of,
)
from controller.framework.interface import Plugin
from controller.framework.room import room_of
from controller.scheduling.decision import FITS, Decision
from controller.snapshot.columns import Mask
from crds.workload import ScheduledReason
from machinery import logs

LOG = logs.get(__name__)
T = TypeVar("T")
WITHHELD = frozenset(
    (
        ScheduledReason.GROUP_DENIED,
        ScheduledReason.GROUP_INCOMPLETE,
        ScheduledReason.GROUP_WITHDRAWN,
        ScheduledReason.WAITING_FOR_GROUP,
        ScheduledReason.SCHEDULE_TIMEOUT,
    )
)
"""The group is short, so the Workload's own verdicts do not matter."""


def obstacles(decision: Decision, shortage: Shortage | None = None) -> list[Note]:
    """Return refusals by count, then stops, then findings of the choice of domains."""
    if decision.pending <= 0:
        return []
    if not len(decision.snapshot):
        return [Note(NoteKind.NO_CLUSTER, 0, "", "no cluster is registered")]
    if decision.reason in WITHHELD:
        return [Note(NoteKind.BOUND, 0, "", decision.message)]
    counts = np.bincount(decision.verdicts, minlength=len(decision.refusals) + 1).tolist()
    notes = [
        Note(NoteKind.REFUSED, number, each.plugin, f"{_clusters(number)}: {each.text}")
        for each, number in zip(decision.refusals, counts[1:], strict=True)
        if number
    ]
    notes.sort(key=lambda note: (-note.number, note.name, note.text))
    shortage = shortage or shortage_of(decision)
    stops, tight = list(stops_of(decision, shortage)), shortage.tight
    first = np.full(len(decision.snapshot), len(stops))
    for at, (_, stop) in reversed(list(enumerate(stops))):
        first[stop.rows] = at
    said = [(stop.kind, plugin, stop.text) for plugin, stop in stops]
    rows = np.flatnonzero(shortage.feasible).tolist()
    left = (NoteKind.NO_ROOM, "", "no more by the rules of its distribution")
    full = (NoteKind.NO_ROOM, "", "no room for more")
    stopped = Counter((*said, full if tight[row] else left)[first[row]] for row in rows)
    for (kind, plugin, text), number in stopped.most_common():
        notes.append(Note(kind, number, plugin, f"{_clusters(number)}: {text}"))
    return notes + [Note(NoteKind.BOUND, 0, "", text) for text in decision.choosing]


def shortage_of(decision: Decision) -> Shortage:
    info, snapshot, state = decision.seen, decision.snapshot, decision.cycle_state
    placed, judged = decision.placements, len(decision.verdicts) == len(snapshot)
    nowhere = np.zeros(len(snapshot), dtype=np.bool_)
    return Shortage(
        workload=info,
        snapshot=snapshot,
        pending=decision.pending,
        reason=decision.reason,
        state=state,
        feasible=decision.verdicts == FITS if judged else nowhere,
        held=np.array([placed.get(name, 0) for name in snapshot.names], dtype=np.int64),
        room=room_of(state, info, snapshot),
        why=decision.why,
    )


def stops_of(decision: Decision, shortage: Shortage) -> Iterator[tuple[str, Stop]]:
    """Yield what stops feasible clusters, with the plugin's name.

    Plugins at Assign come first. The first stop of a cluster counts.
    """
    named = decision.cycle_state.enabled.get("assign", ())
    order = dict.fromkeys((*(n for n in named if n in decision.plugins), *decision.plugins))
    for name in order:
        plugin = decision.plugins[name]
        if stops := method_of(plugin, Explainer.stops):
            yield from ((name, stop) for stop in asked(plugin, partial(_of, stops), shortage))


def _of(stops: Callable[[Shortage], Sequence[Stop]], shortage: Shortage) -> list[Stop]:
    every = np.ones(len(shortage.snapshot), dtype=np.bool_)
    found = [Stop(each.kind, each.rows & every, each.text) for each in stops(shortage)]
    return [each for each in found if each.rows.any()]


def asked(
    plugin: Plugin, question: Callable[[Shortage], Iterable[T]], shortage: Shortage
) -> list[T]:
    """Return a plugin's answer; empty if it fails."""
    try:
        return ask(plugin, "Explain", answers.a_list, question, shortage)
    except PluginError as e:
        LOG.error("%s", e)  # noqa: TRY400 - the message has the place
        return []


def stopped(decision: Decision, shortage: Shortage) -> Mask:
    """Return the clusters that more room does not help."""
    mask = np.zeros(len(decision.snapshot), dtype=np.bool_)
    for _, stop in stops_of(decision, shortage):
        mask |= stop.rows
    return mask


def _clusters(number: int) -> str:
    return "1 cluster" if number == 1 else f"{number} clusters"
