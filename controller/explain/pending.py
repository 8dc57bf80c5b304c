"""Why replicas are pending, and what would help by itself: notes with a sentence each.

Refused clusters count by their first refusal, as in the condition, feasible ones by the bound that
stops them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any, TypeVar

import numpy as np

from controller.framework.calling import answers
from controller.framework.calling.guard import PluginError, ask
from controller.framework.explains import (
    Explainer,
    Note,
    NoteKind,
    Shortage,
    Stop,
    either,
    method_of,
)
from controller.framework.gathering import GroupScheduling
from controller.framework.interface import Plugin
from controller.framework.room import (
    lacking_for_more,
    needed,
    no_room_for_more,
    resources_of,
    room,
    room_of,
    variants_of,
)
from controller.framework.status import Refusal
from controller.model.unit import WorkloadInfo
from controller.scheduling.decision import FITS, Decision
from controller.snapshot.columns import Ints, Mask
from crds.workload import ScheduledReason
from machinery import logs
from machinery.types import hostports, quantities

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
    lacks = lacking_for_more(shortage.workload, shortage.snapshot, shortage.held).tolist()

    def full(row: int) -> tuple[NoteKind, str, str]:
        return (NoteKind.NO_ROOM, "", no_room_for_more(shortage.workload, lacks[row]))

    stopped = Counter((*said, full(row) if tight[row] else left)[first[row]] for row in rows)
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


def remedies(decision: Decision, shortage: Shortage | None = None) -> list[Note]:
    """Return what would help; empty if no replica is pending."""
    if decision.pending <= 0:
        return []
    if not len(decision.snapshot):
        return [Note(NoteKind.NO_CLUSTER, 0, "", "a cluster that is registered: stowage join")]
    shortage = shortage or shortage_of(decision)
    if decision.reason in WITHHELD:
        return [*_of_set(decision, shortage)]
    if decision.refusals and not decision.masks:
        every = np.ones(len(decision.snapshot), dtype=np.bool_)
        return [
            Note(NoteKind.LIFT, len(every), r.plugin, _cure(shortage, decision.plugins, r, every))
            for r in decision.refusals
        ]
    blame = _Blame(decision, shortage)
    offered = list(_offered(decision, blame.shortage))
    quotas = [note for note in offered if note.kind is NoteKind.QUOTA]
    others = [note for note in offered if note.kind is not NoteKind.QUOTA]
    return [*quotas, *_room(decision, blame), *others, *_lifts(blame)] or _several(blame)


def _of_set(decision: Decision, shortage: Shortage) -> Iterator[Note]:
    every = np.ones(len(decision.snapshot), dtype=np.bool_)
    said = {*decision.shared_by, *(refusal.plugin for refusal in decision.refusals)}
    for plugin in decision.plugins.values():
        if isinstance(plugin, GroupScheduling) and plugin.name in said:
            whole = () if decision.masks else decision.refusals
            own = (each for each in whole if each.plugin == plugin.name)
            refusal = next(own, Refusal(plugin.name, decision.message))
            cure = _cure(shortage, decision.plugins, refusal, every)
            yield Note(NoteKind.LIFT, len(every), plugin.name, cure)


class _Blame:
    """All refusals of each cluster by plugin. `short` plugins lack room."""

    def __init__(self, decision: Decision, shortage: Shortage) -> None:
        self.decision = decision
        self.shortage = shortage
        self.short = frozenset(each.plugin for each in decision.refusals if each.short)
        self.by_plugin: dict[str, Mask] = {}
        for refusal, mask in zip(decision.refusals, decision.masks, strict=True):
            known = self.by_plugin.get(refusal.plugin)
            self.by_plugin[refusal.plugin] = mask if known is None else known | mask
        none = np.zeros(len(decision.snapshot), dtype=np.int64)
        self.count = reduce(np.add, self.by_plugin.values(), none)

    @property
    def curable(self) -> Mask:
        """The clusters where a cure other than room lifts a `short` refusal."""
        found = np.zeros(len(self.decision.snapshot), dtype=np.bool_)
        said = zip(self.decision.refusals, self.decision.masks, strict=True)
        for refusal, mask in said:
            plugin = self.decision.plugins.get(refusal.plugin)
            curing = refusal.short and plugin and method_of(plugin, Explainer.cure)
            if curing and _cure(self.shortage, self.decision.plugins, refusal, mask):
                found |= mask
        return found

    def alone(self, plugin: str) -> Mask:
        mask: Mask = self.by_plugin[plugin] & (self.count == 1)
        return mask

    def of(self, plugin: str, rows: Mask) -> list[Refusal]:
        """Return the plugin's refusals of these clusters, except exhausted quotas."""
        said = zip(self.decision.refusals, self.decision.masks, strict=True)
        found = [
            each
            for each, mask in said
            if each.plugin == plugin and not each.reached and (mask & rows).any()
        ]
        return list(dict.fromkeys(found))


def _cure(shortage: Shortage, plugins: Mapping[str, Any], refusal: Refusal, rows: Mask) -> str:
    known = plugins.get(refusal.plugin)
    if known is None or (cure := method_of(known, Explainer.cure)) is None:
        return f"whatever makes {refusal.plugin} say {refusal.text!r} no longer"
    try:
        about = (shortage, refusal, rows)
        return ask(known, "Explain", answers.a_text, cure, *about)
    except PluginError as e:
        return str(e)


def _offered(decision: Decision, shortage: Shortage) -> Iterator[Note]:
    for plugin in decision.plugins.values():
        if found := method_of(plugin, Explainer.remedies):
            yield from asked(plugin, found, shortage)


def _room(decision: Decision, blame: _Blame) -> Iterator[Note]:
    """Yield the need for room where nothing else keeps replicas out."""
    info, snapshot = decision.seen, decision.snapshot
    tight = np.zeros(len(snapshot), dtype=np.bool_)
    for plugin in blame.short:
        tight |= blame.alone(plugin)
    fits = _fits(decision)
    tight &= ~blame.curable
    tight |= (blame.count == 0) & blame.shortage.tight
    tight &= ~stopped(decision, blame.shortage)
    if not tight.any():
        return
    lacking = _lacking(decision, tight)
    divided = _divided(info) or not info.counted
    several = (info.counted and decision.pending > 1) if divided else info.replicas > 1
    amounts = _amounts(decision, lacking, " each" if several else "")
    where = either(blame.shortage.names(tight)) + _where(decision, blame.shortage, tight)
    if divided:
        text = f"{_more(decision.pending, info)} {amounts} on {where}"
    else:
        text = f"{_all(info)} {amounts} on {where}{_most(decision, fits, lacking, tight)}"
    yield Note(NoteKind.ROOM, decision.pending, ",".join(lacking), text)


def _most(decision: Decision, fits: Ints, lacking: list[str], rows: Mask) -> str:
    """Return how many replicas fit on one of these clusters; of none, how large its nodes are."""
    if most := int(fits[rows].max()):
        return f": there is room for {most} at the most"
    groups = decision.snapshot.groups
    asked = {r: _of_one(decision, r) for r in lacking if hostports.code(r) is None and r != "pods"}
    asked = {r: n for r, n in asked.items() if n and not hostports.is_apart(r)}
    there = np.flatnonzero(rows[groups.cluster] & groups.open_to(decision.seen.place))
    if not (asked and len(there)):
        return ""
    parts = np.min([groups.room(r)[there] / n for r, n in asked.items()], axis=0)
    if not 0 < parts.max() < 1:  # from 1 on its room is taken by replicas that are on their way
        return ""
    largest = there[int(parts.argmax())]
    amounts = ((r, int(groups.room(r)[largest])) for r in asked)
    free = " and ".join(f"{quantities.readable(r, n)} {r}" for r, n in amounts)
    cluster = decision.snapshot.names[groups.cluster[largest]]
    return f": the largest node, on {cluster}, has {free} free"


def _where(decision: Decision, shortage: Shortage, rows: Mask) -> str:
    said: list[str] = []
    for plugin in decision.plugins.values():
        if where := method_of(plugin, Explainer.where):
            said += asked(plugin, partial(_in_brackets, where, rows), shortage)
    return f" ({'; '.join(said)})" if said else ""


def _in_brackets(
    where: Callable[[Shortage, Mask], str], rows: Mask, shortage: Shortage
) -> list[str]:
    text = where(shortage, rows)
    return [text] if text else []


def _lacking(decision: Decision, tight: Mask) -> list[str]:
    """Return the resources that a tight cluster lacks; `pods` only if alone."""
    info = decision.seen
    spare = max(needed(info), 1)
    held = np.array(
        [decision.placements.get(n, 0) for n in decision.snapshot.names], dtype=np.int64
    )
    wanted = held + spare if _divided(info) else np.full_like(held, spare)
    found = [
        resource
        for resource in resources_of(decision.cycle_state, info)
        if (_fits(decision, only=resource) < wanted)[tight].any()
    ]
    return [resource for resource in found if resource != "pods"] or found


def _lifts(blame: _Blame) -> list[Note]:
    """Return for each predicate the clusters that it alone keeps out, most first."""
    notes, shortage, plugins = [], blame.shortage, blame.decision.plugins
    for plugin in blame.by_plugin:
        rows = blame.alone(plugin)
        if plugin in blame.short and method_of(plugins[plugin], Explainer.cure) is None:
            continue
        for refusal in blame.of(plugin, rows):
            mask = rows & _refused(blame, refusal)
            names = shortage.names(mask)
            what = _cure(shortage, plugins, refusal, mask)
            if not what:
                continue
            sentence = f"{what}: that alone keeps it from {either(names)}{shortage.space(mask)}"
            notes.append(Note(NoteKind.LIFT, len(names), plugin, sentence))
    return sorted(notes, key=lambda note: (-note.number, note.name, note.text))


def _refused(blame: _Blame, refusal: Refusal) -> Mask:
    said = zip(blame.decision.refusals, blame.decision.masks, strict=True)
    masks = [mask for each, mask in said if each == refusal]
    joined: Mask = np.any(masks, axis=0)
    return joined


def _several(blame: _Blame) -> list[Note]:
    fewest = int(blame.count.min())
    if not fewest:
        return []
    row = int(blame.decision.snapshot.rows(blame.shortage.names(blame.count == fewest)[:1])[0])
    plugins = [plugin for plugin, mask in blame.by_plugin.items() if mask[row]]
    number = int((blame.count == fewest).sum())
    there = _only(row, blame)
    said = {p: dict.fromkeys(each.text for each in blame.of(p, there)) for p in plugins}
    listed = ", ".join(f"{p} ({'; '.join(said[p])})" for p in plugins)
    name = blame.decision.snapshot.names[row]
    text = f"nothing by itself; the least stands against {name}: {listed}"
    return [Note(NoteKind.SEVERAL, number, name, text)]


def _only(row: int, blame: _Blame) -> Mask:
    mask = np.zeros(len(blame.decision.snapshot), dtype=np.bool_)
    mask[row] = True
    return mask


def _fits(decision: Decision, *, only: str | None = None) -> Ints:
    state, info, snapshot = decision.cycle_state, decision.seen, decision.snapshot
    if only is None:
        return room_of(state, info, snapshot)
    return room(info, snapshot, only=only, variants=variants_of(state))


def _asked(decision: Decision, resource: str) -> int:
    said = [each.request for each in variants_of(decision.cycle_state)]
    return max(request.get(resource, 0) for request in (decision.seen.request, *said))


def _of_one(decision: Decision, resource: str) -> int:
    """Return the request of the largest pod of a replica."""
    parts = decision.seen.place.parts
    if not parts:
        return _asked(decision, resource)
    return max(dict(each.request).get(resource, 0) for each in parts)


def _divided(info: WorkloadInfo) -> bool:
    return not (info.whole or info.everywhere)


def _amounts(decision: Decision, lacking: list[str], each: str) -> str:
    apart = any(map(hostports.is_apart, lacking))
    lacking = [r for r in lacking if not hostports.is_apart(r)]
    ports = [hostports.place(r) for r in lacking if hostports.code(r) is not None]
    found = [_amount(r, _asked(decision, r)) for r in lacking if hostports.code(r) is None]
    if apart:  # one replica per node, so `each` adds nothing
        found.append(f"a {hostports.words(hostports.apart({}))}")
    text = " and ".join(found) or ("" if ports else "room in one piece")
    if not ports:
        return f"{text}{each}"
    many = f"port {ports[0]} is" if len(ports) == 1 else f"ports {either(ports, 'and')} are"
    return " and ".join(filter(None, (text, f"a node{each} whose {many} free")))


def _amount(resource: str, amount: int) -> str:
    if resource == "pods":
        return "a place among the node's pods"
    return f"{quantities.render(resource, amount)} {resource}"


def _more(replicas: int, info: WorkloadInfo) -> str:
    if not info.counted:
        return "it needs"
    return "1 more replica needs" if replicas == 1 else f"{replicas} more replicas need"


def _all(info: WorkloadInfo) -> str:
    return "the replica needs" if info.replicas == 1 else f"all {info.replicas} replicas need"
