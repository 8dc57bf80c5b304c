"""WorkloadSpreads from plain dicts, and what is decided under them, for the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.features.workloadpolicy.counts import Tally, WorkloadPolicy, compile_policy
from controller.features.workloadspread.compiled import Spreads, WorkloadSpread, compile_spread
from controller.framework.profile import Profile
from controller.framework.runtime import framework as runtime
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo, workload_info
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from tests.controller.make import NOW, builder, cluster, workload

KIND = "kind"
"""The label of clusters that the subsets of these tests select by."""


def subset(name: str, most: Any = None, *, kind: str | None = None, **spec: Any) -> dict[str, Any]:
    """A subset of the clusters labelled `kind: NAME`, unless told otherwise; all with ""."""
    value = name if kind is None else kind
    term = {"matchExpressions": [{"key": KIND, "operator": "In", "values": [value]}]}
    made = {"name": name, **({"requiredNodeSelectorTerm": term} if value else {}), **spec}
    return made if most is None else {**made, "maxReplicas": most}


def stored(*subsets: Mapping[str, Any], name: str = "ws", target: str = "demo", **spec: Any) -> Any:
    """A WorkloadSpread as JSON; `marked` are names of subsets that its status says are."""
    marked, created = spec.pop("marked", ()), spec.pop("created", "2026-01-01T00:00:00Z")
    full = [{"type": "Schedulable", "status": "False", "reason": "PodUnschedulable"}]
    about = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": target}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadSpread",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "generation": 1,
            "creationTimestamp": created,
        },
        "spec": {"targetRef": about, "subsets": list(subsets), **spec},
        "status": {"subsetStatuses": [{"name": each, "conditions": full} for each in marked]},
    }


def spread(*subsets: Mapping[str, Any], **spec: Any) -> WorkloadSpread:
    """The same, decoded."""
    return msgspec.convert(stored(*subsets, **spec), WorkloadSpread)


def adaptive(**fields: Any) -> dict[str, Any]:
    """spec.scheduleStrategy of that type."""
    return {"type": "Adaptive", "adaptive": fields}


def roomy(name: str, cpu: str = "100", *, kind: str = "", **spec: Any) -> MemberCluster:
    """A cluster with so much cpu, labelled with its kind: the name without its last letter."""
    labels = {KIND: kind or name[:-1], **spec.pop("labels", {})}
    free = {"cpu": cpu, "memory": "1000Gi", "pods": "1000"}
    return cluster(name, labels, groups=[{"count": 1, "free": free}], **spec)


def info(
    name: str = "demo",
    replicas: int | None = 10,
    *,
    cpu: str = "1",
    clusters: Sequence[Mapping[str, Any]] = (),
    **fields: Any,
) -> WorkloadInfo:
    """A unit of that much cpu; `clusters` is what its status reports of shares."""
    pod = {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}]}
    about: dict[str, Any] = {"replicas": replicas, "pod": pod, **fields}
    first = workload_info(workload(name, **about))
    body = msgspec.to_builtins(workload(name, **{**about, "decided": first.hash}))
    body["status"]["clusters"] = list(clusters)
    return workload_info(msgspec.convert(body, Workload))


def world(*bodies: WorkloadSpread | WorkloadPolicy) -> PlacementIndex:
    """An index that knows these."""
    index = PlacementIndex([Tally(), Spreads()])
    for body in bodies:
        if isinstance(body, WorkloadSpread):
            index.ledger(Spreads).put_spread(compile_spread(body))
        else:
            index.ledger(Tally).put_policy(compile_policy(body))
    return index


def decided(
    of: WorkloadInfo,
    known: PlacementIndex | WorkloadSpread,
    *clusters: MemberCluster,
    profile: Profile | None = None,
) -> Decision:
    """Decide on a Workload, settled as the scheduler does it."""
    index = known if isinstance(known, PlacementIndex) else world(known)
    made = profile or default_profile()
    if of.present:
        index.put(of, of.present)
    snapshot = builder(clusters).snapshot()
    return decide(snapshot, runtime.settled(made, of, NOW, index), index, made, NOW)


def after(decision: Decision, **changed: Any) -> WorkloadInfo:
    """The unit once that decision is written."""
    of = decision.workload
    hashes = (of.constraints, of.demand, of.shape)
    return replace(of, present=dict(decision.placements), decided=hashes, shown={}, **changed)
