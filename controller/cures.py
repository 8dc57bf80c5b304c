"""What to change so that a predicate refuses a cluster no longer: a few words for each of them.

They name fields as people write them, and the objects that carry these fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from controller.columns import Mask
from controller.plugins.condition import TaintToleration, TargetNamespace
from controller.plugins.policy import NAME as POLICY
from controller.snapshot import HARD
from crds.workload import ScheduledReason

if TYPE_CHECKING:
    from controller.decision import Decision

NAMED = 3
"""Names that a sentence tells; of more it tells the number."""


def cure(plugin: str, text: str, decision: Decision, rows: Mask | None = None) -> str:
    """What to change so that a predicate says this no longer."""
    unit = decision.unit
    if text == "unschedulable":
        return "an end of the cordon (spec.unschedulable of the MemberCluster)"
    if plugin == TaintToleration.name:
        return f"a toleration of {_taints(decision, rows)} in spec.tolerations"
    if plugin == POLICY:
        return _of_policy(text, decision)
    if plugin == TargetNamespace.name:
        return f"namespace {unit.target_namespace} in spec.namespaces.allow of the MemberCluster"
    return _CURES.get(plugin, f"whatever makes {plugin} say {text!r} no longer")


def _of_policy(text: str, decision: Decision) -> str:
    policies = decision.unit.policies
    policy = f"WorkloadPolicy {' and '.join(policies)}"
    by_reason = {
        ScheduledReason.POLICY_NOT_FOUND: f"{policy} in namespace {decision.unit.namespace}",
        ScheduledReason.INVALID_POLICY: f"{policy} as its rules say",
        ScheduledReason.AMBIGUOUS_POLICY: "one label that binds a policy instead of several",
    }
    if decision.reason in by_reason:
        return by_reason[decision.reason]
    if text.startswith("not in a domain"):
        return f"its domain in spec.allocationPolicy of {policy}, or a label that puts it into one"
    return f"labels on its units that spec.labelSelector of {policy} matches"


_CURES = {
    "NamedCluster": "another cluster in spec.targetCluster, or one that is registered by that name",
    "ClusterSelector": "other pairs in spec.clusterSelector, or these labels on the MemberCluster",
    "ClusterAffinity": "another required term in spec.clusterAffinity, or its labels on the "
    "MemberCluster",
    "ClusterReady": "a cluster that is ready again",
    "WorkloadAffinity": "other required terms in spec.workloadAffinity or "
    "spec.workloadAntiAffinity, or the Workloads that they select in other places",
}


def _taints(decision: Decision, rows: Mask | None) -> str:
    """The hard taints on these clusters that nothing tolerates, as `key=value:effect`."""
    mine = decision.unit.tolerations
    found = [
        f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"
        for taint, mask in decision.fleet.taints.items()
        if taint.effect in HARD
        and (rows is None or (mask & rows).any())
        and not any(each.tolerates(taint) for each in mine)
    ]
    return either(sorted(found), "and")


def either(names: Sequence[str], word: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`; of more the first ones and how many others."""
    if len(names) > NAMED:
        shown = ", ".join(names[: NAMED - 1])
        return f"{shown} {word} {len(names) - NAMED + 1} others"
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))
