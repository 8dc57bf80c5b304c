"""The advice of `stowage status` by the reason of a condition: the first thing to try.

`stowage explain` finds what would really help.
"""

from __future__ import annotations

from collections.abc import Mapping

UNKNOWN = "see the logs of both processes"
"""The advice for a reason that no table has."""


def named(text: str, name: str) -> str:
    """Return the advice with the name of its object, `shop/web` or `paris`, in place of NAME."""
    namespace, _, own = name.rpartition("/")
    where = f"{own} -n {namespace}" if namespace else own
    return text.replace("/NAME", f"/{where}").replace("NAME", own)


SCHEDULED: Mapping[str, str] = {
    "FailedToSchedule": "a cluster that its rules match, or rules that match one",
    "ReplicasReached": "more in its WorkloadPolicy or WorkloadSpread, or fewer replicas",
    "InsufficientCapacity": "room on a cluster that it matches, smaller requests, fewer replicas",
    "QuotaExceeded": "more in the WorkloadQuota that is named, fewer replicas or smaller requests",
    "PolicyNotFound": "apply the WorkloadPolicy that its label names",
    "InvalidPolicy": "mend its WorkloadPolicy",
    "AmbiguousPolicy": "leave one of its labels that name a WorkloadPolicy",
    "InvalidSpread": "mend the field of its WorkloadSpread that is named",
    "GroupNotFound": "apply the WorkloadGroup that its label names",
    "GroupDenied": "see its WorkloadGroup: stowage explain wl/NAME",
    "GroupIncomplete": "see its WorkloadGroup: stowage explain wl/NAME",
    "GroupWithdrawn": "see its WorkloadGroup: stowage explain wl/NAME",
    "ScheduleTimeout": "see its WorkloadGroup: stowage explain wl/NAME",
    "WaitingForGroup": "the rest of its WorkloadGroup",
    "AmbiguousGroup": "leave one of its labels that name a WorkloadGroup",
    "InvalidGroup": "mend the field of its WorkloadGroup that is named, or make several of one with"
    " too many Workloads",
    "InvalidWorkload": "mend the field that is named",
    "WaitingOnPermit": "nothing: a plugin lets it go, or its time runs out",
    "PluginError": "mend the plugin that is named, or disable it",
}
"""By the reason of Scheduled on a Workload, or another object that is placed."""
PATIENT = frozenset({"WaitingOnPermit", "QuotaExceeded", "ReplicasReached", "Suspended"})
"""Reasons of Scheduled and Propagated that need no person: a plugin ends it, or it keeps a limit or
a pause that one set. A move that a pause holds up does need one.
"""
CLUSTERS: Mapping[str, str] = {
    "SecretNotFound": "apply its Secret again, where it may be read, or stowage unjoin it",
    "InvalidKubeconfig": "mend the kubeconfig in its Secret",
    "Unauthorized": "put a credential that is valid into its Secret",
    "TLSVerificationFailed": "put the CA of its API server into its Secret",
    "ClusterChanged": "put its own kubeconfig into its Secret, or stowage join --replace",
    "AlreadyRegistered": "stowage unjoin it, as another name serves the same cluster",
    "HeldByAnotherHub": "stop the propagator of the copy of this hub, or this one",
    "AgentSilent": "look at its agent and its network: stowage agents; what it runs is kept",
    "AgentRevoked": "stowage invite --renew it, and apply what that prints on the member",
    "WrongHub": "look what answers at the address that its agent has, then stowage invite --renew",
    "InventoryUnhealthy": "mend its ClusterProfile, or remove its annotation cluster-profile",
    "Away": "apply its MemberCluster again, or stowage unjoin it: only that gives it up",
    "Unreachable": "look at its API server and the network to it; what it runs is kept",
}
"""By the reason of Ready on a MemberCluster."""

SWEEPS: Mapping[str, str] = {
    "TooMany": "see stowage sweep NAME: restore these Workloads, or confirm that they may go",
    "HoldsData": "see stowage sweep NAME: restore these Workloads, or confirm that data may go",
    "KindMadeAnew": "see stowage sweep NAME: apply these Workloads again, or let what runs go",
    "HubRestored": "restore what was made since the backup, then see stowage sweep NAME",
    "HubWentBack": "restore what was made since the backup, then see stowage sweep NAME",
}
"""By the reason of SweepHeld on a MemberCluster."""

EVACUATING: Mapping[str, str] = {
    "Braked": "get clusters back, or taint those that are gone for good "
    "stowage.dev/out-of-service:NoExecute",
    "Blind": "look at the propagator",
}
"""By the reason of Evacuating on a MemberCluster."""

MOVING: Mapping[str, str] = {
    "NoRoom": "more room, or rules that match another cluster; meanwhile it stays where it is",
    "DisruptionBudget": "more ready pods below the budget that is named, or stowage drain --force",
    "AwaitingFencing": "once nothing runs there, taint the cluster "
    "stowage.dev/out-of-service:NoExecute, or stowage unjoin --force it",
    "HoldsData": "nothing to keep the data; spec.movement.data: Leave to have it go without",
    "Suspended": "nothing to leave it there; take the cluster out of spec.suspend to have it move",
    "UnknownKind": "nothing to leave it there; spec.movement.maxSurge to have it move",
    "UnhealthyEverywhere": "a better template, or whatever it needs on all of its clusters",
    "NotReadyThere": "see its pods on the cluster that is named; the old ones stay until then",
}
"""By the reason of Moving on a Workload; others end without a person, or are told above."""

ROLLED_OUT: Mapping[str, str] = {
    "AwaitingApproval": "look at it, then stowage rollout approve, or abort",
    "HealthCheckFailed": "stowage rollout retry, or abort, or a better template",
    "RolledBack": "a better template: the spec still asks for the one that was rolled back",
    "RevisionLost": "restore the ControllerRevision that is named, or apply a template anew",
}
"""By the reason of RolledOut on a Workload; others end without a person, or were asked for."""

PROPAGATED: Mapping[str, str] = {
    "DeletionHeld": "see stowage sweep: confirm that these may go, or leave what they run",
    "RevisionLost": ROLLED_OUT["RevisionLost"],
    "SecretNotFound": "apply the Secret that it brings along, or stowage tenant add its namespace",
    "DependencyUnreadable": "stowage tenant add its namespace, or spec.dependencies: None",
    "InvalidOverride": "mend the override that is named, or the label that it reads",
    "AlreadyExists": "another name, or spec.adoption: IfNoDiff or IfUnowned if nobody owns it",
    "NamespaceNotAllowed": "another spec.targetNamespace, or spec.namespaces of the MemberCluster",
    "InvalidWorkload": "mend the field that is named",
    "NotReviewed": "look at the controller: it has not reviewed the edit",
    "KindNotAllowed": "spec.allowedKinds of the MemberCluster, and the right to bring it along",
    "ClusterUnreachable": "see the cluster above; it goes on by itself",
    "TooLarge": "make the object that is named smaller, or several of it",
    "Rejected": "mend what the member's API server refuses",
    "HubRestored": "edit it, or stowage restore --accept it; until then what runs stays",
    "Conflict": "find who else writes these fields on the member",
    "WaitingForGroup": "see its WorkloadGroup, which releases it with the others, or apply it",
    "Suspended": "nothing to leave it so; take the cluster out of spec.suspend to have it go on",
    "HubUnavailable": "look at the hub's API server; it goes on by itself",
}
"""By the reason of Propagated on a Workload."""

_NODES = (
    ("volume", "volumes for its claims there: a StorageClass that makes them, or some by hand"),
    ("Volume", "volumes for its claims there: a StorageClass that makes them, or some by hand"),
    ("untolerated taint", "a toleration of the taint in its pods, or nodes there without it"),
    ("node affinity", "nodes there that its nodeSelector and node affinity match"),
    ("affinity rules", "more nodes there, or looser affinity between its pods"),
    ("topology spread", "more nodes there, or looser topologySpreadConstraints"),
    ("Insufficient", "a larger node there, or smaller requests"),
    ("Too many pods", "more nodes there"),
)
"""The advice by words of the member's scheduler; the first that a cause has counts."""


def without_node(message: str) -> tuple[str, str]:
    """Return why no node takes the pods of a share, in the member's words, and what helps.

    The cause is empty where the share's message gives none.
    """
    cause = message.partition("no node: ")[2]
    helps = (
        next((helps for words, helps in _NODES if words in each), "see its pods there")
        for each in cause.split(", ")
    )
    return cause, ", or ".join(dict.fromkeys(helps))


RESERVATIONS: Mapping[str, str] = {
    "ClocksDiffer": "set the clock of the controller's node, or that of the hub's API servers",
    "NotHeld": "make way for its Workload NAME-hold as the message says, or set hold: Books",
    "Short": "nodes for that cluster, or fewer replicas there; its owners may find less than is "
    "held",
}
"""By the reason of Ready on a Reservation that needs a person; SCHEDULED has the others."""

GROUPS: Mapping[str, str] = {
    "WaitingForGroup": "room for the replicas that are missing, or a smaller minMember;"
    " see stowage explain wg/NAME",
    "GroupIncomplete": "the Workloads that are missing, more replicas, or a smaller minMember",
    "GroupDenied": "room for minMember replicas, smaller requests or a smaller minMember;"
    " see stowage explain wg/NAME",
    "ScheduleTimeout": "room for the replicas that were missing, or a smaller minMember;"
    " see stowage explain wg/NAME",
    "PropagationFailed": "mend what the message names; all of it is tried again by itself",
    "InvalidGroup": "mend the field that is named",
    "TooLarge": "several groups of it, or Workloads that run on fewer clusters",
    "TooManyWorkloads": "fewer Workloads with its label, each with more replicas",
    "Failed": "see why replicas failed; then make its failed Workloads anew",
}
"""By the reason of Scheduled on a WorkloadGroup, and by its phase Failed."""
WITH_GROUP = frozenset(
    {
        "WaitingForGroup",
        "GroupIncomplete",
        "GroupDenied",
        "GroupWithdrawn",
        "ScheduleTimeout",
        "InvalidGroup",
    }
)
"""Reasons on a Workload that repeat its WorkloadGroup's; a listed group gives the advice."""

SPREADS: Mapping[str, str] = {
    "InvalidSpread": "mend the field that is named",
    "InvalidPatch": "mend the patch that is named, or the Workload's template",
    "TargetNotFound": "apply the Workload that it names, or delete it",
    "TargetTaken": "delete it, or the older one that is named",
}
"""By the reason of Ready on a WorkloadSpread."""
