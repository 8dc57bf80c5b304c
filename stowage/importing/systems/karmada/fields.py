"""What becomes of each field of Karmada's kinds (v1.18.1). The page on importing prints it."""

from __future__ import annotations

from collections.abc import Mapping

from stowage.importing.fates import METADATA, Row, Table, carried, lost, noted, whole

POLICY, CLUSTER, CONFIG = "policy.karmada.io", "cluster.karmada.io", "config.karmada.io"
AUTOSCALING, WORK = "autoscaling.karmada.io", "work.karmada.io"
GROUPS = (
    POLICY,
    CLUSTER,
    CONFIG,
    AUTOSCALING,
    WORK,
    "apps.karmada.io",
    "networking.karmada.io",
    "remedy.karmada.io",
    "operator.karmada.io",
    "search.karmada.io",
)
_AFFINITY = "clusterAffinity, one term"
_NO_TIMEOUT = "no time-out removes anything"


def _cluster_affinity(path: str, becomes: str) -> dict[str, Row]:
    return {
        f"{path}.clusterNames": carried(f"{becomes}: names are stowage.dev/cluster"),
        f"{path}.exclude": carried(f"{becomes}: NotIn on stowage.dev/cluster"),
        f"{path}.labelSelector": carried(becomes),
        f"{path}.fieldSelector": carried(f"{becomes}: provider, region and zone are labels"),
    }


_PROPAGATION: Table = {
    **METADATA,
    "spec.resourceSelectors": carried("the Workloads that are made"),
    **_cluster_affinity("spec.placement.clusterAffinity", _AFFINITY),
    "spec.placement.clusterAffinities.affinityName": noted("names nothing here", quiet=True),
    **_cluster_affinity("spec.placement.clusterAffinities", _AFFINITY),
    "spec.placement.clusterAffinities.overflowAffinities": carried("an Adaptive WorkloadSpread"),
    "spec.placement.spreadConstraints": carried("spreadConstraints: minDomains, maxDomains"),
    "spec.placement.clusterTolerations": carried("tolerations"),
    "spec.placement.replicaScheduling.replicaSchedulingType": carried("distribution"),
    "spec.placement.replicaScheduling.replicaDivisionPreference": carried("distributionWeights"),
    "spec.placement.replicaScheduling.weightPreference.staticWeightList": carried(
        "distributionWeights, the greatest first"
    ),
    "spec.placement.replicaScheduling.weightPreference.dynamicWeight": noted(
        "clusters are weighed by their free room, as members publish it", "distribution: Divided"
    ),
    "spec.placement.workloadAffinity": lost(
        "groups objects by the value of a label; write spec.workloadAffinity or"
        " workloadAntiAffinity with that value"
    ),
    "spec.association": lost("is deprecated there: spec.propagateDeps takes its place", False),
    "spec.propagateDeps": carried("dependencies: Follow"),
    "spec.priority": carried("which policy counts for an object"),
    "spec.preemption": noted(
        "decides there whether a later policy takes an object over; here the policies of the"
        " input are compared once"
    ),
    "spec.activationPreference": lost("an edited Workload is decided at once", ""),
    "spec.dependentOverrides": lost("nothing waits for overrides: they are part of the Workload"),
    "spec.schedulerName": lost("no other scheduler of Karmada runs here", "default-scheduler"),
    "spec.schedulePriority": carried("priority"),
    "spec.conflictResolution": noted(
        "Overwrite takes over objects that have no owner; others stay",
        "adoption: IfUnowned",
    ),
    "spec.preserveResourcesOnDeletion": carried("onDelete: Orphan"),
    "spec.suspension.dispatching": noted(
        "the Workload is decided and not sent while spec.delivery is None", "delivery: None"
    ),
    "spec.suspension.dispatchingOnClusters": lost(
        "suspend has no effect on what is not sent yet; write spec.suspend once it runs"
    ),
    "spec.failover.application": lost(_NO_TIMEOUT),
    "spec.failover.cluster.purgeMode": carried("movement.maxSurge: 0 of Directly"),
    "spec.failover.cluster.statePreservation": lost(
        "write statusFields and movement.carry, which carry values to the next cluster"
    ),
}
_RULE = {
    "targetCluster": carried("clusterSelector of the override"),
    "overriders.imageOverrider": carried("overrides"),
    "overriders.commandOverrider": carried("overrides"),
    "overriders.argsOverrider": carried("overrides"),
    "overriders.labelsOverrider": carried("overrides"),
    "overriders.annotationsOverrider": carried("overrides"),
    "overriders.fieldOverrider": carried("overrides: the whole text of the field"),
    "overriders.plaintext": carried("overrides; a number of replicas: minReplicas, maxReplicas"),
}
_OVERRIDE: Table = {
    **METADATA,
    "spec.resourceSelectors": carried("the Workloads whose overrides these are"),
    **{f"spec.overrideRules.{path}": row for path, row in _RULE.items()},
    **{f"spec.{path}": row for path, row in _RULE.items()},
}
_JOIN = "is no credential to take over: `stowage join` makes an account of its own"
_CLUSTER: Table = {
    **METADATA,
    "metadata.labels": carried("metadata.labels of the MemberCluster"),
    "spec.id": noted("is the UID of kube-system: migration knows the member by it", quiet=True),
    "spec.provider": carried("spec.provider"),
    "spec.region": carried("label topology.kubernetes.io/region"),
    "spec.zone": carried("label topology.kubernetes.io/zone"),
    "spec.zones": carried("label topology.kubernetes.io/zone"),
    "spec.taints": carried("spec.taints"),
    "spec.taints.timeAdded": noted("is written by the server", quiet=True),
    "spec.resourceModels": noted("members publish their nodes in groups that are alike"),
    "spec.syncMode": noted("`stowage join` says it again: --pull has an agent connect to the hub"),
    **{
        f"spec.{field}": noted(_JOIN)
        for field in (
            "apiEndpoint",
            "secretRef",
            "impersonatorSecretRef",
            "insecureSkipTLSVerification",
            "proxyURL",
            "proxyHeader",
        )
    },
}
_HPA: Table = {
    **METADATA,
    "metadata.labels": carried("metadata.labels"),
    "metadata.annotations": carried("metadata.annotations"),
    "spec": carried("a HorizontalPodAutoscaler of the Workload"),
}
_SCRIPT = "is more than paths, and no script is run here: write it as expressions"
_INTERPRETER: Table = {
    **METADATA,
    "spec.target": carried("spec.group, kind, versions of a WorkloadKind"),
    **{
        f"spec.customizations.{name}.luaScript": lost(_SCRIPT)
        for name in (
            "replicaResource",
            "replicaRevision",
            "retention",
            "statusAggregation",
            "statusReflection",
            "healthInterpretation",
            "dependencyInterpretation",
            "componentResource",
        )
    },
}
_KEPT = "is what Karmada's controllers make of policies; left out: import these"

TABLES: Mapping[tuple[str, str], Table] = {
    (POLICY, "PropagationPolicy"): _PROPAGATION,
    (POLICY, "ClusterPropagationPolicy"): _PROPAGATION,
    (POLICY, "OverridePolicy"): _OVERRIDE,
    (POLICY, "ClusterOverridePolicy"): _OVERRIDE,
    (CLUSTER, "Cluster"): _CLUSTER,
    (AUTOSCALING, "FederatedHPA"): _HPA,
    (CONFIG, "ResourceInterpreterCustomization"): _INTERPRETER,
    (WORK, "ResourceBinding"): whole(noted(_KEPT, quiet=True)),
    (WORK, "ClusterResourceBinding"): whole(noted(_KEPT, quiet=True)),
    (WORK, "Work"): whole(noted(_KEPT, quiet=True)),
    (POLICY, "ClusterTaintPolicy"): whole(
        lost("taints of MemberClusters are a person's: `stowage cordon`, `stowage drain`")
    ),
    (POLICY, "FederatedResourceQuota"): whole(
        lost("write a WorkloadQuota: it bounds a namespace over all clusters")
    ),
    (AUTOSCALING, "CronFederatedHPA"): whole(
        lost("nothing scales by the clock here: use an autoscaler that does, on the Workload")
    ),
    (CONFIG, "ResourceInterpreterWebhookConfiguration"): whole(
        lost("no webhook says what a kind is: write a WorkloadKind")
    ),
    ("apps.karmada.io", "WorkloadRebalancer"): whole(
        lost("is one order: `stowage rebalance` gives it")
    ),
    ("networking.karmada.io", "MultiClusterService"): whole(
        lost("there is no traffic between clusters")
    ),
    ("networking.karmada.io", "MultiClusterIngress"): whole(
        lost("there is no traffic between clusters")
    ),
    ("remedy.karmada.io", "Remedy"): whole(lost("no signal of a cluster's health acts here")),
    ("multicluster.x-k8s.io", "ServiceExport"): whole(lost("there is no traffic between clusters")),
    ("multicluster.x-k8s.io", "ServiceImport"): whole(lost("there is no traffic between clusters")),
}
