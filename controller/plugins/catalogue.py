"""Every plugin that comes with Stowage, and which of them the default profile enables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controller.plugins.affinity import WorkloadAffinity
from controller.plugins.assign import Duplicated, Single
from controller.plugins.condition import ClusterReady, TaintToleration, TargetNamespace
from controller.plugins.criteria import ClusterCost, ClusterLatency, ClusterReliability
from controller.plugins.divide import Divided
from controller.plugins.policy import PolicyShares, WorkloadPolicy
from controller.plugins.queuesort import PrioritySort
from controller.plugins.resources import ClusterResources
from controller.plugins.selection import ClusterAffinity, ClusterSelector, NamedCluster

BUILTIN: Mapping[str, Callable[[], Any]] = {
    plugin.name: plugin
    for plugin in (
        PrioritySort,
        NamedCluster,
        ClusterSelector,
        ClusterAffinity,
        TargetNamespace,
        ClusterReady,
        TaintToleration,
        WorkloadAffinity,
        WorkloadPolicy,
        ClusterResources,
        ClusterCost,
        ClusterLatency,
        ClusterReliability,
        PolicyShares,
        Single,
        Duplicated,
        Divided,
    )
}

DEFAULTS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "queueSort": (("PrioritySort", 1),),
    "preFilter": (("NamedCluster", 1), ("WorkloadPolicy", 1)),
    "filter": tuple(
        (name, 1)
        for name in (
            "NamedCluster",
            "ClusterSelector",
            "ClusterAffinity",
            "TargetNamespace",
            "ClusterReady",
            "TaintToleration",
            "WorkloadAffinity",
            "WorkloadPolicy",
            "ClusterResources",
        )
    ),
    "preScore": (("WorkloadPolicy", 1),),
    "score": (
        ("ClusterAffinity", 2),
        ("WorkloadAffinity", 2),
        ("TaintToleration", 3),
        ("ClusterResources", 1),
        ("WorkloadPolicy", 1),
    ),
    "postFilter": (("WorkloadPolicy", 1),),
    "assign": (("PolicyShares", 1), ("Single", 1), ("Duplicated", 1), ("Divided", 1)),
}
"""Enabled by default at each point, in order; the number is the weight of a score."""
