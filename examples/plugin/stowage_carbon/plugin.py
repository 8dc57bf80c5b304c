"""The plugin `Carbon`: a limit on carbon, a preference for little of it, and peaks to keep out of.

A Workload labelled `carbon.example.com/at-most: "200"` takes new units only on clusters with at
most so many grams of CO2 per kWh; what runs stays where it is. Among the clusters that are left,
the one with the least scores 100, the one with the most 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.explains import Note, NoteKind, Shortage, either
from controller.framework.interface import NOTHING_REFUSED, CycleState, FilterMask
from controller.framework.runtime.controllers import PluginController
from controller.framework.runtime.handle import Handle
from controller.framework.runtime.services import Route, failure
from controller.framework.status import SUCCESS, Refusal, Status, unschedulable
from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from machinery.http_messages import Request, Response
from machinery.types.taints import Taint
from stowage_carbon import intensities
from stowage_carbon.arguments import CarbonArgs
from stowage_carbon.intensities import GRAMS_LABEL, UNKNOWN
from stowage_carbon.readings import Readings

LIMIT_LABEL = "carbon.example.com/at-most"
"""On a Workload."""
PEAK = Taint(key="carbon.example.com/peak", effect="NoSchedule")
UNIT = "g CO2/kWh"
_NOT_KNOWN, _BEYOND = "NotKnown", "Beyond"


class Carbon:
    """Enable it at preFilter, filter and score, and at filterHook where peaks matter."""

    name = "Carbon"
    ignored_during_execution = True
    """Intensities change by the hour: units that run are not moved for that."""

    def __init__(self, args: CarbonArgs, handle: Handle) -> None:
        self._args, self._handle = args, handle

    # What is decided: pure functions of what they are given.

    def pre_filter(
        self, _state: CycleState, info: WorkloadInfo, _snapshot: Snapshot, _bound: PlacementIndex
    ) -> Status:
        """Refuse a Workload whose limit is no number: no cluster could be right for it."""
        text = info.labels.get(LIMIT_LABEL)
        if text is None or limit_of(info) is not None:
            return SUCCESS
        fault = f"label {LIMIT_LABEL}: {text!r} is not a whole number of {UNIT}"
        return unschedulable(self.name, fault)

    def before_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> tuple[WorkloadInfo, Snapshot, bool] | Status:
        """Taint the clusters beyond the peak, in the copy of the fleet that this pass reads.

        TaintToleration does the rest: it spares a Workload that tolerates the taint, and explains.
        """
        if self._args.peak is None:
            return info, snapshot, False
        beyond = self._grams(state, snapshot) > self._args.peak
        if not beyond.any():
            return info, snapshot, False
        return info, replace(snapshot, taints={**snapshot.taints, PEAK: beyond}), True

    def filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        """The clusters with more than the limit, and those of which nothing is known."""
        limit = limit_of(info)
        if limit is None:
            return NOTHING_REFUSED
        grams = self._grams(state, snapshot)
        unknown = "its carbon intensity is not known"
        return FilterMask(
            [
                (grams > limit, f"more than {limit} {UNIT}", _BEYOND),
                (grams == UNKNOWN, unknown, _NOT_KNOWN),
            ]
        )

    def score(
        self, state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """The grams; `normalize` makes a score of them."""
        return self._grams(state, snapshot)

    def normalize(self, _state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """100 for the least carbon among the feasible, 0 for the most; 0 where it is not known."""
        known = feasible & (scores != UNKNOWN)
        normal = np.zeros_like(scores)
        if known.any():
            least, most = int(scores[known].min()), int(scores[known].max())
            normal[known] = 100 * (most - scores[known]) // max(most - least, 1)
            if least == most:
                normal[known] = 100
        return normal

    def _grams(self, state: CycleState, snapshot: Snapshot) -> Ints:
        """The column, read once for each fleet that a pass sees."""
        known = state.data.get(self.name)
        if known is None or known[0] is not snapshot:
            known = state.data[self.name] = (snapshot, intensities.column(snapshot, self._args))
        grams: Ints = known[1]
        return grams

    # What is said about it, and who is woken.

    def events_to_register(self) -> Sequence[EventHint]:
        """A cluster comes, or is labelled, whose grams are within the limit."""
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.LABELS, self._could_help),)

    def _could_help(
        self, info: WorkloadInfo, _old: MemberCluster | None, new: MemberCluster
    ) -> bool:
        limit, grams = limit_of(info), intensities.of(new, self._args).grams
        return limit is not None and UNKNOWN < grams <= limit

    def cure(self, shortage: Shortage, refusal: Refusal, rows: Mask) -> str:
        """Say what to change about those clusters, or about the limit."""
        if refusal.code == _NOT_KNOWN:
            return f"label {GRAMS_LABEL} on the MemberCluster, or its region in the plugin's args"
        if refusal.code != _BEYOND:
            return f"label {LIMIT_LABEL} with a whole number of {UNIT}, or no such label"
        least = int(intensities.column(shortage.snapshot, self._args)[rows].min())
        return f"label {LIMIT_LABEL} of {least} or more"

    def remedies(self, shortage: Shortage) -> Sequence[Note]:
        """A cluster in a region that keeps within the limit and has no cluster yet."""
        limit = limit_of(shortage.workload)
        if limit is None:
            return ()
        there = {each.labels.get(self._args.region_label) for each in shortage.snapshot.clusters}
        regions = sorted(
            region
            for region, grams in self._args.regions.items()
            if grams <= limit and region not in there
        )
        if not regions:
            return ()
        text = f"a cluster in region {either(regions)}, with at most {limit} {UNIT}"
        return (Note(NoteKind.NO_CLUSTER, len(regions), self.name, text),)

    # What it answers over HTTP, and what it runs.

    def routes(self) -> Sequence[Route]:
        """The number of every cluster, and that of one."""
        return (
            Route("GET", "/clusters", self._every_cluster),
            Route("GET", "/clusters/:name", self._one_cluster),
        )

    async def _every_cluster(self, _request: Request) -> Mapping[str, Any]:
        clusters = self._handle.snapshot().clusters
        return {each.metadata.name: self._told(each) for each in clusters}

    async def _one_cluster(self, request: Request) -> Mapping[str, Any] | Response:
        snapshot, name = self._handle.snapshot(), request.params["name"]
        if name not in snapshot.row:
            return failure(404, f"cannot find cluster {name}")
        return self._told(snapshot.clusters[snapshot.row[name]])

    def _told(self, cluster: MemberCluster) -> Mapping[str, Any]:
        found = intensities.of(cluster, self._args)
        grams = None if found.grams == UNKNOWN else found.grams
        return {"region": found.region, "gramsPerKwh": grams, "source": found.source}

    def controllers(self) -> Sequence[PluginController]:
        """The one that reads a ConfigMap, where the arguments name one."""
        source = self._args.readings
        return [Readings(self._args, source, self._handle)] if source is not None else []


def limit_of(info: WorkloadInfo) -> int | None:
    """The limit that a Workload asks for; None without one, and for what is no number."""
    grams = intensities.number(info.labels.get(LIMIT_LABEL))
    return None if grams == UNKNOWN else grams
