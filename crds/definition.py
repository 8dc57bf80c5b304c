"""The CustomResourceDefinitions: names, columns and subresources around the generated schemas.

The columns are what `kubectl get` prints, so they are part of the interface. A path may name
several places (`['targetNamespace','namespace']`); the first one that has a value is printed.
"""

from __future__ import annotations

from typing import Any

from crds.assignment import Assignment
from crds.base import Kind
from crds.clusterdecision import ClusterDecision
from crds.groups.workloadgroup import WorkloadGroup
from crds.membercluster import MemberCluster
from crds.memberreport import MemberReport
from crds.names import GROUP, VERSION
from crds.reservation import Reservation
from crds.schema import structural
from crds.workload import Workload
from crds.workloadkind import WorkloadKind
from crds.workloadpolicy import WorkloadPolicy
from crds.workloadquota import WorkloadQuota
from crds.workloadspread import WorkloadSpread

Manifest = dict[str, Any]

KINDS: tuple[type[Kind], ...] = (
    MemberCluster,
    WorkloadKind,
    WorkloadQuota,
    WorkloadPolicy,
    Reservation,
    WorkloadGroup,
    Workload,
    WorkloadSpread,
    ClusterDecision,
    Assignment,
    MemberReport,
)
"""All kinds of ours, in the order in which objects are applied: kinds that others name come first.
"""
KEPT = {
    "helm.sh/resource-policy": "keep",
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
}
"""Annotations by which Helm, Argo CD and Flux leave a CRD, and so all objects of its kind, when
what brought it is removed."""
UNOBSERVED: Manifest = {"observedGeneration": -1}
"""The status of an object that no controller has looked at: to kstatus it is in progress."""
_PARTS = ("spec", "status")


def definition(kind: type[Kind]) -> Manifest:
    """The CRD of a kind."""
    name = kind.__name__
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root(kind)},
        "subresources": kind.subresources,
        "additionalPrinterColumns": [_column(*column) for column in kind.columns],
    }
    names = {
        "kind": name,
        "listKind": f"{name}List",
        "plural": kind.plural,
        "singular": name.lower(),
        "shortNames": [kind.short],
        "categories": ["stowage"],
    }
    scope = "Namespaced" if kind.namespaced else "Cluster"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}", "annotations": dict(KEPT)},
        "spec": {"group": GROUP, "names": names, "scope": scope, "versions": [version]},
    }


def _root(kind: type[Kind]) -> dict[str, Any]:
    """The kind's schema; of its own metadata a CRD may say nothing."""
    schema = structural(kind)
    parts = {name: part for name, part in schema["properties"].items() if name in _PARTS}
    if "observedGeneration" in parts["status"]["properties"]:
        parts["status"] = parts["status"] | {"default": UNOBSERVED}
    return schema | {
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            **parts,
        }
    }


def _column(name: str, kind: str, path: str, priority: int) -> dict[str, Any]:
    column = {"name": name, "type": kind, "jsonPath": path}
    return column | ({"priority": priority} if priority else {})
