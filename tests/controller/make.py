"""Clusters, Workloads and worlds from plain dicts, for the tests of the pure scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from controller.binding.statuspatch import patch_of
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.features.workloadpolicy.counts import Tally, WorkloadPolicy, compile_policy
from controller.framework.profile import Profile
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo, workload_info
from controller.queue.scheduling_queue import SchedulingQueue
from controller.scheduling.cycle import decide
from controller.scheduling.decision import FITS, Decision
from controller.snapshot.builder import Snapshot, SnapshotBuilder
from crds.fields.template import BATCH_KINDS
from crds.names import ANNOTATION_UNJOIN, GIVEN_UP
from machinery.types.bounds import MOST_UNITS
from machinery.types.metadata import Meta

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ZONE = "topology.kubernetes.io/zone"
CLUSTER = "stowage.dev/cluster"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ROOMY = {"cpu": "8", "memory": "32Gi", "pods": "110"}


def api_version(kind: str) -> str:
    """That of a built-in kind."""
    return "batch/v1" if kind in BATCH_KINDS else "apps/v1"


def cluster(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    ready: bool = True,
    groups: list[dict[str, Any]] | None = None,
    annotations: Mapping[str, str] | None = None,
    deleting: bool = False,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> MemberCluster:
    """A ready cluster with one roomy node, unless told otherwise; `spec` in JSON spelling."""
    nodes = [{"count": 1, "free": ROOMY}] if groups is None else groups
    metadata: dict[str, Any] = {
        "name": name,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    body = {
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        "nodeGroups": nodes,
        "capacity": {"nodes": 1, "allocatable": ROOMY, "requested": {}},
        **(status or {}),
    }
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": body}, MemberCluster)


def given_up(cluster: MemberCluster) -> MemberCluster:
    """The cluster, as `stowage unjoin` takes it out of the fleet."""
    notes = {**cluster.metadata.annotations, ANNOTATION_UNJOIN: GIVEN_UP}
    meta = msgspec.structs.replace(cluster.metadata, annotations=notes)
    return msgspec.structs.replace(cluster, metadata=meta)


def workload(
    name: str = "demo",
    *,
    namespace: str = "shop",
    replicas: int | None = 2,
    labels: Mapping[str, str] | None = None,
    pod: Mapping[str, Any] | None = None,
    kind: str = "Deployment",
    present: Mapping[str, int] | None = None,
    decided: str = "",
    created: str = "2026-01-01T00:00:00Z",
    **spec: Any,
) -> Workload:
    """A Workload of pods that ask for 500m and 1Gi; `spec` in JSON spelling."""
    asks = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    pods = {
        "metadata": {"labels": dict(labels or {"app": name})},
        "spec": {"containers": [{"name": "main", "resources": asks}]} if pod is None else dict(pod),
    }
    placements = [{"cluster": c, "replicas": n} for c, n in (present or {}).items()]
    document = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "creationTimestamp": created,
        },
        "spec": {
            "schedulerName": "stowage",
            "replicas": replicas,
            "template": {"apiVersion": api_version(kind), "kind": kind, "spec": {"template": pods}},
            **spec,
        },
        "status": {"placements": placements, "decision": {"hash": decided}},
    }
    return msgspec.convert(document, Workload)


def info(name: str = "demo", **fields: Any) -> WorkloadInfo:
    """The compiled unit of `workload`. With shares, they were decided on the same spec as now.

    `edited=True` makes them decided on another one.
    """
    edited = fields.pop("edited", False)
    first = workload_info(workload(name, **fields))
    if not fields.get("present"):
        return first
    return workload_info(workload(name, **fields, decided="other-one" if edited else first.hash))


def builder(clusters: Iterable[MemberCluster]) -> SnapshotBuilder:
    """A builder that has seen these clusters."""
    made = SnapshotBuilder()
    for each in clusters:
        made.upsert(each)
    return made


def snapshot(*clusters: MemberCluster) -> Snapshot:
    """A snapshot of these clusters."""
    return builder(clusters).snapshot()


def index(*placed: tuple[WorkloadInfo, Mapping[str, int]]) -> PlacementIndex:
    """Where these units are."""
    made = PlacementIndex()
    for each, placements in placed:
        made.put(each, placements)
    return made


def policy_spec(
    kind: str = "Required", *, selector: Any = None, method: str = "Balance", **domains: int
) -> dict[str, Any]:
    """The spec of a WorkloadPolicy with so many units in each zone, of all Workloads that name it."""
    return {
        "topologyKey": ZONE,
        "labelSelector": {} if selector is None else selector,
        "allocationPolicy": [{"name": n, "replicas": r} for n, r in domains.items()],
        "allocationType": kind,
        "allocationMethod": method,
    }


def counting(*policies: WorkloadPolicy) -> PlacementIndex:
    """An index that counts for these policies."""
    made = PlacementIndex([Tally()])
    for policy in policies:
        made.ledger(Tally).put_policy(compile_policy(policy))
    return made


def decided(
    info: WorkloadInfo,
    *clusters: MemberCluster,
    bound: PlacementIndex | None = None,
    profile: Profile | None = None,
) -> Decision:
    """The decision of the default profile, or another, on these clusters."""
    return decide(
        snapshot(*clusters), info, bound or PlacementIndex(), profile or default_profile(), NOW
    )


def verdicts(decision: Decision) -> dict[str, str]:
    """The reason of each refused cluster, empty for those that will do, by name."""
    return {
        name: decision.refusals[code - 1].text if code != FITS else ""
        for name, code in zip(decision.snapshot.names, decision.verdicts.tolist(), strict=True)
    }


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A requirement, in JSON spelling."""
    return {"key": key, "operator": operator, "values": list(values)}


def required_terms(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    """spec.clusterAffinity of required terms, each a list of expressions."""
    return {REQUIRED: {"clusterSelectorTerms": [{"matchExpressions": t} for t in terms]}}


def beside(app: str, key: str = CLUSTER) -> dict[str, Any]:
    """A workload affinity term that selects by the label app."""
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def weighted(weight: int, term: dict[str, Any]) -> dict[str, Any]:
    """A preferred workload affinity term."""
    return {"weight": weight, "workloadAffinityTerm": term}


def adds_up(decision: Decision) -> None:
    """Check that the wanted replicas are the spec's, and that the numbers agree with the shares."""
    info, placements = decision.workload, decision.placements
    places = max(len(placements), 1) if info.everywhere else 1
    assert decision.desired == info.replicas * places, "the spec's number"
    assert all(units >= 0 for units in placements.values())
    assert sum(placements.values()) <= decision.desired, "no unit has two places"
    meta = Meta(name=info.name, namespace=info.namespace, uid=info.uid)
    patch = patch_of(decision, Workload(metadata=meta, info=info.with_present({})))
    assert patch is not None
    told = patch["status"]
    assert told["assigned"] == sum(share["replicas"] for share in told["placements"])
    assert told["desired"] == min(decision.desired, MOST_UNITS)
    assert told["pending"] == told["desired"] - told["assigned"] >= 0


def flush(queue: SchedulingQueue) -> None:
    """Requeue what awaits one of the events so far, at once."""
    for _ in queue._requeueing_steps():
        pass
