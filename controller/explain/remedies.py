"""What would help the pending units: each remedy as data, with a sentence.

Computed from what a decision holds, when somebody asks; never in the pass. A remedy is only named
where it would do by itself: a cluster that two predicates refuse is not helped by lifting one.
Where nothing does it alone, the cluster with the fewest refusals is named instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import chain

import numpy as np

from controller.cache.columns import Ints, Mask
from controller.cache.nodegroups import UNLIMITED
from controller.explain.pending import full, ruled, shut
from controller.framework.explains import Explains, Kind, Note, Remedies, Shortage, either
from controller.framework.room import needed, resources_of, room, room_of, variants_of
from controller.model.unit import Unit
from controller.planner.reasons import Why
from controller.scheduling.decision import Decision
from machinery.types import quantities


def remedies(decision: Decision) -> list[Note]:
    """What would help the pending units, each by itself; empty when none is pending."""
    if decision.pending <= 0:
        return []
    if not len(decision.fleet):
        return [Note(Kind.NO_CLUSTER, 0, "", "a cluster that is registered: stowage join")]
    if decision.refusals and not decision.masks:
        every = np.ones(len(decision.fleet), dtype=np.bool_)
        return [
            Note(Kind.LIFT, len(every), r.plugin, _cure(decision, r.plugin, r.text, every))
            for r in decision.refusals
        ]
    blame = _Blame(decision)
    numbers = (_offered(decision), _room(decision, blame), _bounds(decision, blame))
    found = [*chain(*numbers), *_spread(decision, blame), *_lifts(blame)]
    return found or _several(blame)


class _Blame:
    """Which plugins refuse which clusters, all of them and not only the first of each.

    `short` are those that refuse for want of room.
    """

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.short = frozenset(each.plugin for each in decision.refusals if each.short)
        self.by_plugin: dict[str, Mask] = {}
        for refusal, mask in zip(decision.refusals, decision.masks, strict=True):
            known = self.by_plugin.get(refusal.plugin)
            self.by_plugin[refusal.plugin] = mask if known is None else known | mask
        nobody = np.zeros(len(decision.fleet), dtype=np.int64)
        self.count = reduce(np.add, self.by_plugin.values(), nobody)

    def alone(self, plugin: str) -> Mask:
        """The clusters that this plugin refuses and no other one does."""
        mask: Mask = self.by_plugin[plugin] & (self.count == 1)
        return mask

    def texts(self, plugin: str, rows: Mask) -> list[str]:
        """What the plugin says of any of these clusters; quotas that are used up apart."""
        said = zip(self.decision.refusals, self.decision.masks, strict=True)
        texts = [
            each.text
            for each, mask in said
            if each.plugin == plugin and not each.reached and (mask & rows).any()
        ]
        return list(dict.fromkeys(texts))

    def names(self, rows: Mask) -> list[str]:
        """The clusters by name."""
        fleet = self.decision.fleet
        return sorted(fleet.names[row] for row in np.flatnonzero(rows).tolist())


def _shortage(decision: Decision) -> Shortage:
    about = (decision.unit, decision.fleet, decision.pending, decision.reason)
    return Shortage(*about, decision.full, decision.cycle_state)


def _cure(decision: Decision, plugin: str, text: str, rows: Mask) -> str:
    """What the plugin says would lift its refusal of these clusters."""
    known = decision.plugins.get(plugin)
    if isinstance(known, Explains):
        return known.cure(_shortage(decision), text, rows)
    return f"whatever makes {plugin} say {text!r} no longer"


def _offered(decision: Decision) -> Iterator[Note]:
    """The help that plugins know beside lifting a refusal."""
    for plugin in decision.plugins.values():
        if isinstance(plugin, Remedies):
            yield from plugin.remedies(_shortage(decision))


def _room(decision: Decision, blame: _Blame) -> Iterator[Note]:
    """More room: where nothing but the lack of it keeps units away."""
    unit, fleet = decision.unit, decision.fleet
    tight = np.zeros(len(fleet), dtype=np.bool_)
    for plugin in blame.short:
        tight |= blame.alone(plugin)
    fits = _fits(decision)
    tight |= (blame.count == 0) & full(decision)
    tight &= ~shut(decision)
    if not tight.any():
        return
    lacking = _lacking(decision, tight)
    amounts = (
        " and ".join(f"{_amount(r, _asked(decision, r))}" for r in lacking) or "room in one piece"
    )
    where = either(blame.names(tight)) + _domains(decision, tight)
    if _divided(unit) or not unit.counted:
        each = " each" if unit.counted and decision.pending > 1 else ""
        text = f"{_more(decision.pending, unit)} {amounts}{each} on {where}"
    else:
        most = int(fits[tight].max())
        each = " each" if unit.replicas > 1 else ""
        text = f"{_all(unit)} {amounts}{each} on {where}: there is room for {most} at the most"
    yield Note(Kind.ROOM, decision.pending, ",".join(lacking), text)


def _domains(decision: Decision, rows: Mask) -> str:
    """The domains that these clusters are the reason to leave unfilled, if any."""
    reasons = [reason for row in np.flatnonzero(rows).tolist() for reason in decision.why(row)]
    names = sorted({reason.name for reason in reasons if reason.kind is Why.DOMAIN})
    return f" (domain {either(names, 'and')})" if names else ""


def _lacking(decision: Decision, tight: Mask) -> list[str]:
    """The resources of which a tight cluster has too little, those of pods only if nothing else."""
    unit = decision.unit
    spare = max(needed(unit), 1)
    held = np.array([decision.placements.get(n, 0) for n in decision.fleet.names], dtype=np.int64)
    wanted = held + spare if _divided(unit) else np.full_like(held, spare)
    found = [
        resource
        for resource in resources_of(decision.cycle_state, unit)
        if (_fits(decision, only=resource) < wanted)[tight].any()
    ]
    return [resource for resource in found if resource != "pods"] or found


def _bounds(decision: Decision, blame: _Blame) -> Iterator[Note]:
    """A greater maxReplicas where a share stands at it, a rule where static weights have none."""
    fleet = decision.fleet
    rows = [fleet.row[name] for name in decision.placements if name in fleet.row]
    stuck = sorted(
        fleet.names[row] for row in rows if any(r.kind is Why.UPPER for r in decision.why(row))
    )
    if stuck:
        text = f"a greater maxReplicas in spec.distributionWeights for {either(stuck)}"
        yield Note(Kind.BOUND, len(stuck), "maxReplicas", text)
    unruled = blame.names((blame.count == 0) & ~ruled(decision))
    if unruled:
        text = f"a rule in spec.distributionWeights that matches {either(unruled)}"
        yield Note(Kind.BOUND, len(unruled), "distributionWeights", text)


def _spread(decision: Decision, blame: _Blame) -> Iterator[Note]:
    """Other bounds on the number of domains, where clusters with room have nothing."""
    out = (blame.count == 0) & ruled(decision) & ~full(decision)
    out[decision.fleet.rows(decision.placements)] = False
    if decision.unit.spread and out.any():
        text = f"other bounds in spec.spreadConstraints, which leave out {either(blame.names(out))}"
        yield Note(Kind.BOUND, int(out.sum()), "spreadConstraints", f"{text}{_space(blame, out)}")


def _lifts(blame: _Blame) -> list[Note]:
    """For each predicate the clusters that it alone keeps away, the most first."""
    notes = []
    for plugin in blame.by_plugin:
        rows = blame.alone(plugin)
        if plugin in blame.short:
            continue
        for text in blame.texts(plugin, rows):
            mask = rows & _said(blame, plugin, text)
            names = blame.names(mask)
            what = _cure(blame.decision, plugin, text, mask)
            if not what:
                continue
            sentence = f"{what}: that alone keeps it from {either(names)}{_space(blame, mask)}"
            notes.append(Note(Kind.LIFT, len(names), plugin, sentence))
    return sorted(notes, key=lambda note: (-note.number, note.name, note.text))


def _space(blame: _Blame, rows: Mask) -> str:
    """What the clusters could take, where that is counted."""
    unit = blame.decision.unit
    fits = _fits(blame.decision)[rows]
    if not unit.counted or not unit.request or (fits >= UNLIMITED).any():
        return ""
    if _divided(unit):
        return f", with room for {int(fits.sum())}"
    return f", with room for {int(fits.max())}" + (" at the most" if len(fits) > 1 else "")


def _said(blame: _Blame, plugin: str, text: str) -> Mask:
    said = zip(blame.decision.refusals, blame.decision.masks, strict=True)
    masks = [mask for each, mask in said if (each.plugin, each.text) == (plugin, text)]
    joined: Mask = np.any(masks, axis=0)
    return joined


def _several(blame: _Blame) -> list[Note]:
    """Nothing helps alone: the clusters against which the fewest plugins speak."""
    fewest = int(blame.count.min())
    if not fewest:
        return []
    row = int(blame.decision.fleet.rows(blame.names(blame.count == fewest)[:1])[0])
    plugins = [plugin for plugin, mask in blame.by_plugin.items() if mask[row]]
    number = int((blame.count == fewest).sum())
    listed = ", ".join(f"{p} ({'; '.join(blame.texts(p, _only(row, blame)))})" for p in plugins)
    name = blame.decision.fleet.names[row]
    text = f"nothing by itself; the least stands against {name}: {listed}"
    return [Note(Kind.SEVERAL, number, name, text)]


def _only(row: int, blame: _Blame) -> Mask:
    mask = np.zeros(len(blame.decision.fleet), dtype=np.bool_)
    mask[row] = True
    return mask


def _fits(decision: Decision, *, only: str | None = None) -> Ints:
    """The room of each cluster, as the decision saw it."""
    state, unit, fleet = decision.cycle_state, decision.unit, decision.fleet
    if only is None:
        return room_of(state, unit, fleet)
    return room(unit, fleet, only=only, variants=variants_of(state))


def _asked(decision: Decision, resource: str) -> int:
    """What a unit asks for, the most of all clusters."""
    said = [each.request for each in variants_of(decision.cycle_state)]
    return max(request.get(resource, 0) for request in (decision.unit.request, *said))


def _divided(unit: Unit) -> bool:
    return not (unit.whole or unit.everywhere)


def _amount(resource: str, amount: int) -> str:
    if resource == "pods":
        return "a place among the node's pods"
    return f"{quantities.render(resource, amount)} {resource}"


def _more(units: int, unit: Unit) -> str:
    if not unit.counted:
        return "it needs"
    return "1 more unit needs" if units == 1 else f"{units} more units need"


def _all(unit: Unit) -> str:
    return "the unit needs" if unit.replicas == 1 else f"all {unit.replicas} units need"
