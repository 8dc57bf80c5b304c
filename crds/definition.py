"""The CustomResourceDefinitions: names, columns and subresources around the generated schemas.

The columns are what `kubectl get` prints, so they are part of the interface. A path may name
several places (`['targetNamespace','namespace']`); the first one that has a value is printed.
"""

from __future__ import annotations

from typing import Any

from crds.base import Kind
from crds.groups.workloadgroup import WorkloadGroup
from crds.membercluster import MemberCluster
from crds.names import GROUP, VERSION
from crds.reservation import Reservation
from crds.schema import structural
from crds.workload import Workload
from crds.workloadpolicy import WorkloadPolicy
from crds.workloadquota import WorkloadQuota
from crds.workloadspread import WorkloadSpread

Manifest = dict[str, Any]

WORKLOAD_COLUMNS = (
    ("State", "string", ".status.state", 0),
    ("Clusters", "string", ".status.clusterSummary", 0),
    ("Desired", "integer", ".status.desired", 0),
    ("Assigned", "integer", ".status.assigned", 0),
    ("Ready", "string", ".status.readySummary", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Pending", "integer", ".status.pending", 1),
    ("Namespace", "string", ".*['targetNamespace','namespace']", 1),
    ("Deployment", "string", ".spec['targetDeployment','template'].metadata.name", 1),
    ("Service-External-IP", "string", ".status.serviceExternalIP", 1),
)
"""Name, type, JSON path, and priority: 1 is printed with `-o wide` only."""

MEMBER_CLUSTER_COLUMNS = (
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
    ("Version", "string", ".status.version", 0),
    ("Provider", "string", ".status.provider", 0),
    ("Nodes", "integer", ".status.capacity.nodes", 0),
    ("CPU", "string", ".status.capacity.summary.cpu", 0),
    ("Memory", "string", ".status.capacity.summary.memory", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
)

WORKLOAD_POLICY_COLUMNS = (
    ("Topology", "string", ".spec.topologyKey", 0),
    ("Type", "string", ".spec.allocationType", 0),
    ("Method", "string", ".spec.allocationMethod", 0),
    ("Workloads", "integer", ".status.workloads", 0),
    ("Allocated", "string", ".status.summary", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 1),
)

WORKLOAD_SPREAD_COLUMNS = (
    ("Target", "string", ".spec.targetRef.name", 0),
    ("Subsets", "string", ".status.summary", 0),
    ("Strategy", "string", ".spec.scheduleStrategy.type", 0),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 1),
)

RESERVATION_COLUMNS = (
    ("Phase", "string", ".status.phase", 0),
    ("Cluster", "string", ".status.clusterName", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Allocated", "string", ".status.allocated", 1),
    ("Owners", "integer", ".status.owners", 1),
    ("Expires", "string", ".spec['expires','ttl']", 1),
)

WORKLOAD_GROUP_COLUMNS = (
    ("Phase", "string", ".status.phase", 0),
    ("MinMember", "integer", ".spec.minMember", 0),
    ("Running", "integer", ".status.running", 0),
    ("Succeeded", "integer", ".status.succeeded", 0),
    ("Failed", "integer", ".status.failed", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Scheduled", "integer", ".status.scheduled", 1),
    ("Waiting", "integer", ".status.waiting", 1),
    ("Gate", "string", ".status.gate", 1),
)

WORKLOAD_QUOTA_COLUMNS = (
    ("Hard", "string", ".spec.hard", 0),
    ("Used", "string", ".status.used", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 1),
)

WORKLOAD_SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.assigned",
    "labelSelectorPath": ".status.selector",
}
"""What an HPA takes for the present number of replicas are the units that have a cluster."""


def workload() -> Manifest:
    """The CRD of Workload."""
    return _definition(
        Workload,
        plural="workloads",
        short="wl",
        scope="Namespaced",
        columns=WORKLOAD_COLUMNS,
        subresources={"status": {}, "scale": WORKLOAD_SCALE},
    )


def membercluster() -> Manifest:
    """The CRD of MemberCluster."""
    return _definition(
        MemberCluster,
        plural="memberclusters",
        short="mc",
        scope="Cluster",
        columns=MEMBER_CLUSTER_COLUMNS,
        subresources={"status": {}},
    )


def workloadpolicy() -> Manifest:
    """The CRD of WorkloadPolicy."""
    return _definition(
        WorkloadPolicy,
        plural="workloadpolicies",
        short="wlp",
        scope="Namespaced",
        columns=WORKLOAD_POLICY_COLUMNS,
        subresources={"status": {}},
    )


def workloadspread() -> Manifest:
    """The CRD of WorkloadSpread."""
    return _definition(
        WorkloadSpread,
        plural="workloadspreads",
        short="ws",
        scope="Namespaced",
        columns=WORKLOAD_SPREAD_COLUMNS,
        subresources={"status": {}},
    )


def reservation() -> Manifest:
    """The CRD of Reservation."""
    return _definition(
        Reservation,
        plural="reservations",
        short="rsv",
        scope="Namespaced",
        columns=RESERVATION_COLUMNS,
        subresources={"status": {}},
    )


def workloadgroup() -> Manifest:
    """The CRD of WorkloadGroup."""
    return _definition(
        WorkloadGroup,
        plural="workloadgroups",
        short="wg",
        scope="Namespaced",
        columns=WORKLOAD_GROUP_COLUMNS,
        subresources={"status": {}},
    )


def workloadquota() -> Manifest:
    """The CRD of WorkloadQuota."""
    return _definition(
        WorkloadQuota,
        plural="workloadquotas",
        short="wq",
        scope="Namespaced",
        columns=WORKLOAD_QUOTA_COLUMNS,
        subresources={"status": {}},
    )


def _definition(
    kind: type[Kind],
    *,
    plural: str,
    short: str,
    scope: str,
    columns: tuple[tuple[str, str, str, int], ...],
    subresources: dict[str, Any],
) -> Manifest:
    name = kind.__name__
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root(kind)},
        "subresources": subresources,
        "additionalPrinterColumns": [_column(*column) for column in columns],
    }
    names = {
        "kind": name,
        "listKind": f"{name}List",
        "plural": plural,
        "singular": name.lower(),
        "shortNames": [short],
        "categories": ["stowage"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": scope, "versions": [version]},
    }


def _root(kind: type[Kind]) -> dict[str, Any]:
    """The kind's schema; of its own metadata a CRD may say nothing."""
    schema = structural(kind)
    properties = schema["properties"]
    return schema | {
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": properties["spec"],
            "status": properties["status"],
        }
    }


def _column(name: str, kind: str, path: str, priority: int) -> dict[str, Any]:
    column = {"name": name, "type": kind, "jsonPath": path}
    return column | ({"priority": priority} if priority else {})
