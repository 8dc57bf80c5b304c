"""What a cluster's own state says: is it ready, cordoned, tainted, does it take the namespace.

None of these moves a share that is already there, except the rule on namespaces.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np

from controller.columns import Ints, Mask
from controller.framework.points import CycleState, Refused
from controller.index import Index
from controller.snapshot import HARD, SOFT, Fleet
from controller.unit import Unit
from crds.names import forbidden_namespace


class TargetNamespace:
    """MemberCluster.spec.namespaces: which target namespaces the cluster takes."""

    name = "TargetNamespace"
    ignored_during_execution = False

    def filter(self, _state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Refused:
        """Clusters whose rule leaves the namespace out.

        All of them for one that is never a target.
        """
        target = unit.target_namespace
        if forbidden_namespace(target):
            nowhere = np.ones(len(fleet), dtype=np.bool_)
            return Refused([(nowhere, f"namespace {target} is never a target")])

        def refused(rule: str | None) -> bool:
            return not any(fnmatchcase(target, glob) for glob in (rule or "").split("\n"))

        return Refused([(fleet.rules.where(refused), f"namespace {target} is not allowed")])


class ClusterReady:
    """A cluster takes new units only while it answers and is not about to be deleted."""

    name = "ClusterReady"
    ignored_during_execution = True

    def filter(self, _state: CycleState, _unit: Unit, fleet: Fleet, _bound: Index) -> Refused:
        """Those being deleted, and those not ready."""
        return Refused([(fleet.deleting, "being deleted"), (~fleet.ready, "not ready")])


class TaintToleration:
    """spec.taints and the cordon of MemberClusters against spec.tolerations of the Workload."""

    name = "TaintToleration"
    ignored_during_execution = True

    def filter(self, _state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Refused:
        """Cordoned clusters, and those with a hard taint that is not tolerated."""
        tainted = fleet.untolerated(unit.tolerations, HARD) > 0
        return Refused(
            [(fleet.cordoned, "unschedulable"), (tainted, "had taints that were not tolerated")]
        )

    def score(self, _state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Ints:
        """How many soft taints are not tolerated."""
        return fleet.untolerated(unit.tolerations, SOFT)

    def normalize(self, _state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """The fewer the better; 100 where there is none."""
        worst = int(scores[feasible].max(initial=0))
        return np.full_like(scores, 100) if not worst else 100 - 100 * scores // worst
