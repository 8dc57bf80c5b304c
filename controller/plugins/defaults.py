"""Every plugin that belongs to no feature, and which of them the default profile enables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.framework.runtime.arguments import Factory, Plain
from controller.model.unit import WorkloadInfo
from controller.plugins.clusteroverrides import ClusterOverrides
from controller.plugins.clusterresources import ClusterResources
from controller.plugins.clusterselection import (
    ClusterAffinityPlugin,
    ClusterCost,
    ClusterLatency,
    ClusterReliability,
    ClusterSelector,
    NamedCluster,
    WorkloadAffinityPlugin,
)
from controller.plugins.clusterstate import (
    AllowedKinds,
    ClusterReady,
    NamespaceGiven,
    Suspended,
    TaintToleration,
    TargetNamespace,
)
from controller.plugins.distribution import Divided, Duplicated, Single, SpreadConstraints
from controller.plugins.memberfacts import MemberQuota, ServedKinds


class PrioritySort:
    """Sorts by priority descending, creation time ascending (RFC 3339 in UTC), name."""

    name = "PrioritySort"

    def rank(self, info: WorkloadInfo) -> tuple[Any, ...]:
        return (-info.priority, info.created, info.key)


BUILTIN: Mapping[str, Factory] = {
    ClusterResources.name: ClusterResources,
    Divided.name: Divided,
    **{
        plugin.name: Plain(plugin)
        for plugin in (
            PrioritySort,
            NamedCluster,
            ClusterSelector,
            ClusterAffinityPlugin,
            TargetNamespace,
            NamespaceGiven,
            AllowedKinds,
            ServedKinds,
            ClusterReady,
            TaintToleration,
            Suspended,
            ClusterOverrides,
            MemberQuota,
            WorkloadAffinityPlugin,
            ClusterCost,
            ClusterLatency,
            ClusterReliability,
            Single,
            Duplicated,
            SpreadConstraints,
        )
    },
}

DEFAULTS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "queueSort": (("PrioritySort", 1),),
    "preFilter": (("NamedCluster", 1), ("ClusterOverrides", 1), ("MemberQuota", 1)),
    "filter": tuple(
        (name, 1)
        for name in (
            "NamedCluster",
            "ClusterSelector",
            "ClusterAffinity",
            "TargetNamespace",
            "NamespaceGiven",
            "AllowedKinds",
            "ServedKinds",
            "ClusterReady",
            "TaintToleration",
            "Suspended",
            "ClusterOverrides",
            "WorkloadAffinity",
            "MemberQuota",
            "ClusterResources",
        )
    ),
    "score": (
        ("ClusterAffinity", 2),
        ("WorkloadAffinity", 2),
        ("TaintToleration", 3),
        ("ClusterResources", 1),
    ),
    "assign": (
        ("Single", 1),
        ("Duplicated", 1),
        ("Divided", 1),
        ("SpreadConstraints", 1),
        ("MemberQuota", 1),
    ),
}
"""Enabled at each point, in order; the number is the weight of a score. Features add their own."""
