"""What Open Cluster Management says, and which Workloads ask for which Placement.

It counts no shares. It is a ledger so that a pass finds it in the index that it is given, in the
controller and in `stowage plan` alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Self

from controller.cache.ledger import PlacementsByWorkload
from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo
from machinery.clock import parse_timestamp
from machinery.types.metadata import Key
from stowage_ocm.objects import PlacementDecision, PlacementScores

ANNOTATION = "stowage.dev/ocm-placement"
"""On a Workload: a Placement of its namespace."""
NEUTRAL = 0
"""The score of a cluster that has none, as Open Cluster Management counts it."""


class Decided:
    """Decisions, scores and questions; the feature keeps it up to date."""

    def __init__(self) -> None:
        self._asked: dict[Key, str] = {}
        self._slices: dict[Key, dict[str, frozenset[str]]] = {}
        self._scores: dict[tuple[str, str], PlacementScores] = {}

    # As a ledger: shares do not matter here.

    def put(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Nothing of a share is kept."""

    def drop(self, key: Key) -> None:
        """Nothing of a share is kept."""

    def overlay(self, placed: PlacementsByWorkload) -> Self:
        """The same, wherever Workloads are placed."""
        return self

    # What the feature tells it.

    def ask(self, workload: Workload) -> bool:
        """Take in which Placement a Workload asks for; return whether that is another one."""
        key, name = workload.metadata.key, workload.metadata.annotations.get(ANNOTATION, "")
        before = self._asked.pop(key, "")
        if name:
            self._asked[key] = name
        return name != before

    def forget(self, key: Key) -> None:
        """A Workload is gone."""
        self._asked.pop(key, None)

    def decide(self, found: PlacementDecision) -> None:
        """Take in a slice."""
        self._slices.setdefault(found.placement, {})[found.metadata.name] = found.clusters

    def withdraw(self, gone: PlacementDecision) -> None:
        """Drop a slice."""
        slices = self._slices.get(gone.placement, {})
        slices.pop(gone.metadata.name, None)
        if not slices:
            self._slices.pop(gone.placement, None)

    def score(self, found: PlacementScores) -> None:
        """Take in the scores of a cluster."""
        self._scores[found.metadata.key] = found

    def unscore(self, gone: PlacementScores) -> None:
        """Drop the scores of a cluster."""
        self._scores.pop(gone.metadata.key, None)

    # What the plugins ask.

    def placement(self, workload: Key) -> Key | None:
        """The Placement that a Workload asks for."""
        name = self._asked.get(workload)
        return (workload[0], name) if name else None

    def chosen(self, placement: Key) -> frozenset[str] | None:
        """The clusters that a Placement has chosen; None where it has decided nothing."""
        slices = self._slices.get(placement)
        return None if slices is None else frozenset().union(*slices.values())

    def value(self, cluster: str, resource: str, score: str, now: datetime) -> int:
        """The score of a cluster, -100..100; NEUTRAL where it has none that is valid now."""
        found = self._scores.get((cluster, resource))
        if found is None or not _valid(found.status.valid_until, now):
            return NEUTRAL
        said = (each.value for each in found.status.scores if each.name == score)
        return max(-100, min(100, next(said, NEUTRAL)))


def _valid(until: str, now: datetime) -> bool:
    if not until:
        return True
    try:
        return now < parse_timestamp(until)
    except (ValueError, OverflowError):
        return False
