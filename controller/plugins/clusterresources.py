"""Room: how many replicas a cluster can hold, and how much of the cluster stays free afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.explains import NAMED, Shortage, either
from controller.framework.interface import NOTHING_REFUSED, CycleState, FilterMask, Variant
from controller.framework.room import by_variant, needed, resources_of, room, room_of, variants_of
from controller.framework.runtime.arguments import NoArgs
from controller.framework.runtime.handle import Handle
from controller.framework.runtime.services import Route, as_json, failure
from controller.framework.status import Refusal
from controller.model.place import EVERY_TAINT, HARD, Part, Place
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import CEILING, Ints, Mask, plus
from controller.snapshot.snapshot import Snapshot, amounts_of, rendered
from machinery.http_messages import Request, Response
from machinery.types import hostports
from machinery.types.taints import Taint

NAME = "ClusterResources"
_LABELS = "LabelsDiffer"
_TAINTED = "NodesTainted"
MEASURED = ("cpu", "memory")
"""The resources whose free share is scored."""


class ClusterResources:
    """Refuses clusters without room for the replicas of a Workload, and prefers emptier ones.

    Room is the number of replicas that fit into the free node groups, minus those decided but not
    yet counted there, plus those of this Workload on the cluster. Single and Duplicated need room
    for all replicas on a cluster, Divided for one.
    """

    name = NAME
    ignored_during_execution = True

    def __init__(self, _args: NoArgs, handle: Handle) -> None:
        self._handle = handle

    def routes(self) -> Sequence[Route]:
        return (Route("GET", "/available/:name", self._available),)

    async def _available(self, request: Request) -> Response:
        """Answer with the `remaining` of `/apis/v1/clusters/:name` as `available`."""
        name = request.params["name"]
        amounts = amounts_of(self._handle.snapshot(), name)
        if amounts is None:
            return failure(404, f"cannot find node {name}")
        return as_json(200, {"name": name, "available": rendered(amounts.remaining)})

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.ROOM | Action.SPEC),)

    def filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        """Return the clusters with too little room, by the missing resources."""
        need = needed(info)
        full = room_of(state, info, snapshot) < need
        if not full.any():
            return NOTHING_REFUSED
        closed = _closed(state, info, snapshot, need)
        left = full & ~np.any([mask for mask, *_ in closed], axis=0) if closed else full
        if info.place.parts and (left & (room(info, snapshot) < need)).any():
            first = snapshot.lacking(info.place, max(need, 1))
            for at, part in enumerate(info.place.parts):
                closed.append(((first == at) & left, _lacks_part(part), ""))
        for resource in resources_of(state, info):
            fits = room(info, snapshot, only=resource, variants=variants_of(state))
            closed.append(((fits < need) & left, _lack(resource), ""))
        return FilterMask((), short=[*closed, (left, "insufficient room")])

    def cure(self, shortage: Shortage, refusal: Refusal, rows: Mask) -> str:
        """Name the taints or labels that keep the pods from nodes with room."""
        if refusal.code == _LABELS:
            return "a node with room that the pods' nodeSelector and node affinity match"
        if refusal.code != _TAINTED:
            return ""
        found = _untolerated(shortage.workload.place, shortage.snapshot, rows)
        named = either([each.text for each in found], "and") or "the nodes' taints"
        return f"a toleration of {named} in the pods' tolerations"

    def score(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """Return the percentage that stays free after placing, averaged over cpu and memory."""
        return by_variant(
            variants_of(state), info, snapshot, lambda of: self._free(of, needed(info), snapshot)
        )

    def _free(self, of: WorkloadInfo | Variant, replicas: int, snapshot: Snapshot) -> Ints:
        asked = [min(of.request.get(resource, 0) * replicas, CEILING) for resource in MEASURED]

        def compute(rows: Ints | None) -> Ints:
            there = slice(None) if rows is None else rows
            total = nothing = np.zeros(len(snapshot), dtype=np.int64)[there]
            for resource, amount in zip(MEASURED, asked, strict=True):
                known = (snapshot.allocatable.get(resource), snapshot.requested.get(resource))
                offered, held = (nothing if each is None else each[there] for each in known)
                taken = plus(held, snapshot.coming(resource, rows))
                left: Ints = np.maximum(offered - plus(taken, amount), 0)
                # Exact, because an offered amount is at most MOST_AMOUNT.
                total = total + 100 * left // np.maximum(offered, 1)
            return np.minimum(total // len(MEASURED), 100)

        return snapshot.kept.column((NAME, *asked), compute)


def _closed(
    state: CycleState, info: WorkloadInfo, snapshot: Snapshot, need: int
) -> list[tuple[Mask, str, str]]:
    if info.place.parts:
        return []  # each of its pods has other nodes
    hard = any(each.effect in HARD for taints in snapshot.groups.taint_sets for each in taints)
    if not hard and info.place.anywhere and all(v.place.anywhere for v in variants_of(state)):
        return []

    def fits(placed: Callable[[Place], Place]) -> Mask:
        return room(info, snapshot, placed=placed, variants=variants_of(state)) >= need

    short = ~fits(lambda place: place)
    tainted = short & fits(lambda place: replace(place, tolerations=EVERY_TAINT))
    there = _untolerated(info.place, snapshot, tainted)
    masks = [(tainted & rows, _taint(each), _TAINTED) for each, rows in there.items()]
    others = tainted & ~np.any([rows for rows, *_ in masks] or [~tainted], axis=0)
    masks.append((others, "had nodes with taints that the pods do not tolerate", _TAINTED))
    labelled = short & fits(lambda _: Place(tolerations=EVERY_TAINT)) & ~tainted
    text = "had no node with room that the pods' nodeSelector and node affinity match"
    return [*masks, (labelled, text, _LABELS)]


def _untolerated(place: Place, snapshot: Snapshot, rows: Mask) -> dict[Taint, Mask]:
    groups, found = snapshot.groups, dict[Taint, Mask]()
    shut = rows[groups.cluster] & groups.open_to(replace(place, tolerations=EVERY_TAINT))
    shut &= ~groups.open_to(place)
    for code in np.unique(groups.taints[shut])[:NAMED].tolist():
        for each in groups.taint_sets[code]:
            if not place.bears(each):
                on = found.setdefault(each, np.zeros(len(snapshot), dtype=np.bool_))
                on[groups.cluster[shut & (groups.taints == code)]] = True
    return dict(sorted(found.items(), key=lambda pair: pair[0].text)[:NAMED])


def _lacks_part(part: Part) -> str:
    return f"no room for {part.count} {part.name} of each replica"


def _taint(taint: Taint) -> str:
    return f"had nodes with the taint {taint.text} that the pods do not tolerate"


def _lack(resource: str) -> str:
    """Return, for example, `insufficient cpu` or `no free host port 8080/TCP`."""
    few = "insufficient" if hostports.code(resource) is None else "no free"
    few = "no" if hostports.is_apart(resource) else few
    return f"{few} {hostports.words(resource)}"
