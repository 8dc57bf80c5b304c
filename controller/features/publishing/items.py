"""What a Workload's status says, as the lists that others read. Pure.

Told are the clusters that hold units: those of the placements, and those whose units are leaving,
as these run until their successors are ready. The first rank has the most units; of equal numbers
the name decides, so that a list changes only where a number does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from controller.model.objects import Workload
from controller.model.why import kept
from controller.planner.reasons import worded
from crds.clusterdecision import REASON_LIMIT
from machinery.types.metadata import Key

SLICE = 100
"""The most clusters of one PlacementDecision, by its schema."""
DECISION_KEY = "multicluster.x-k8s.io/decision-key"
DECISION_INDEX = "multicluster.x-k8s.io/decision-index"
PLACEMENT_KEY = "multicluster.x-k8s.io/placement-key"
_LABEL = 63
_DIGEST = 10


class RankedCluster(NamedTuple):
    """A cluster that holds units of a Workload."""

    name: str
    replicas: int
    reason: str


def ranked(workload: Workload) -> list[RankedCluster]:
    """Return the clusters that hold units, from the first rank on."""
    units = dict(workload.standing)
    for cluster, share in workload.info.moving.leaving.items():
        units[cluster] = units.get(cluster, 0) + share.replicas
    reasons = _reasons(workload)
    order = sorted(units.items(), key=lambda each: (-each[1], each[0]))
    return [RankedCluster(name, n, reasons.get(name, "")) for name, n in order if n > 0]


def _reasons(workload: Workload) -> dict[str, str]:
    """Return the rules of the newest step of each share that is told one by one, in words."""
    found = {}
    for share in kept(workload.status).reasons:
        rules = next((step.because for step in reversed(share.steps) if step.because), ())
        text = ", ".join(worded(each.rule, each.numbers, each.name) for each in rules)
        found[share.cluster] = text if len(text) <= REASON_LIMIT else f"{text[: REASON_LIMIT - 1]}…"
    return found


def items(
    clusters: Sequence[RankedCluster],
    keys: Sequence[str],
    labels: Callable[[str], Mapping[str, str]],
    *,
    with_reasons: bool = True,
) -> list[dict[str, str]]:
    """Return the items of a ClusterDecision; `labels` are those of a cluster by its name."""
    found = []
    for rank, each in enumerate(clusters, start=1):
        item = {"clusterName": each.name, "replicas": str(each.replicas), "rank": str(rank)}
        if with_reasons:
            item["reason"] = each.reason
        known = labels(each.name) if keys else {}
        found.append(item | {f"label.{key}": known.get(key, "") for key in keys})
    return found


def slices(
    workload: Workload, clusters: Sequence[RankedCluster], profile: Callable[[str], Key]
) -> Iterator[dict[str, Any]]:
    """Yield the bodies of a Workload's PlacementDecisions; without any cluster one empty one.

    Args:
        workload: the Workload.
        clusters: where it runs, by rank.
        profile: returns namespace and name of the ClusterProfile that stands for a MemberCluster.
    """
    name = workload.metadata.name
    for index, at in enumerate(range(0, max(len(clusters), 1), SLICE)):
        decisions = [
            {"clusterProfileRef": _reference(profile(each.name)), "reason": each.reason}
            for each in clusters[at : at + SLICE]
        ]
        yield {
            "metadata": {
                "name": slice_name(name, index),
                "labels": {
                    DECISION_KEY: label_value(name),
                    DECISION_INDEX: str(index),
                    PLACEMENT_KEY: label_value(name),
                },
            },
            "schedulerName": workload.spec.scheduler_name,
            "decisions": [{k: v for k, v in each.items() if v} for each in decisions],
        }


def _reference(profile: Key) -> dict[str, str]:
    return {"namespace": profile[0], "name": profile[1]}


def slice_name(workload: str, index: int) -> str:
    return f"{workload}-{index}"


def label_value(name: str) -> str:
    """Return the name of a Workload as a label's value: cut, with a digest, where it is longer."""
    if len(name) <= _LABEL:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=_DIGEST // 2).hexdigest()
    return f"{name[: _LABEL - _DIGEST - 1].rstrip('-.')}-{digest}"
