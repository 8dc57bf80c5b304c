"""Every name that more than one part must spell alike: labels, annotations, finalizers, managers.

A name is written down once, here, and imported everywhere. Nothing in this module decides
anything, except which namespaces are never a target, because admission, the controller's filter and
the propagator must give the same answer to that.
"""

from __future__ import annotations

from enum import StrEnum

GROUP = "stowage.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

SYSTEM_NAMESPACE = "stowage-system"
"""Where our processes, their leases and the members' Secrets live on the hub."""
CANARY_NAMESPACE = "stowage-canary"
"""The target of the Workload that tries admission; nothing is ever stored for it."""

PROPAGATOR_LEASE = "stowage-propagator"
"""The Lease of the propagator's shard 0, in the namespace of our processes; see
`machinery.types.shards`."""
PROPAGATOR_CONFIG = "stowage-propagator"
"""The ConfigMap there that says how many shards there are."""
ANNOTATION_SHARDS = f"{GROUP}/shards"
"""On the Lease of a shard: the number of shards by which its holder serves."""
ANNOTATION_SHARD = f"{GROUP}/shard"
"""On the hub's Lease on a member: the shard whose Lease has that term; 0 without it."""
ANNOTATION_REPORTED = f"{GROUP}/reported"
"""On the Lease of a shard: the term in which its holder has compared every member."""
ANNOTATION_SET_BACK = f"{GROUP}/set-back"
"""On the Lease of a shard: a time after the hub was set back, as a holder has seen it. `reported`
lacks there until every member was compared since. ANNOTATION_WENT_BACK beside it tells to which
resourceVersion."""

FIELD_MANAGER = "stowage"
"""The field manager of every server-side apply on a member."""

DEFAULT_SCHEDULER = "stowage"
"""The spec.schedulerName that means our controller; any other name is another scheduler's."""

FINALIZER = f"{GROUP}/propagation"
"""On a Workload from before the first write to a member until every member is clean."""

LABEL_MANAGED = f"{GROUP}/managed"
"""On every object that the propagator writes to a member; its value is `"true"`."""

LABEL_TEMPLATE = f"{GROUP}/template"
"""On pods that outlive an edit: the digest of the template that they were made of."""
LABEL_WORKLOAD_UID = f"{GROUP}/workload-uid"
"""On pod templates on the members: the Workload whose replicas these pods are."""

OWNER_PREFIX = f"owner.{GROUP}/"
"""Annotation prefix on member objects: `owner.stowage.dev/<workload uid>: <namespace>/<name>`."""

ANNOTATION_DRIFT = f"{GROUP}/drift"
"""On an object on a member: the fields that are left to whoever changed them there.

A JSON list of `[steps, digest]`, the digest of the Workload's own value of the field.
"""

ORPHAN_PREFIX = f"orphan.{GROUP}/"
"""Annotation prefix on member objects: `orphan.stowage.dev/<workload uid>: "true"` for an owner
that leaves its objects there when it is deleted. It tells so where the hub knows it no more."""

POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Annotation of a pod that Kubernetes reads: a ReplicaSet removes the pods of the lowest first."""

ANNOTATION_DELETION_COST = f"{GROUP}/deletion-cost"
"""On pods on the members: the `POD_DELETION_COST` that we wrote there, to know it for ours."""

ANNOTATION_HUB = f"{GROUP}/hub"
"""On every object that the propagator writes to a member: the UID of the hub's kube-system.

A member may serve two hubs; each removes only what is its own.
"""

ANNOTATION_HUB_VERSION = f"{GROUP}/hub-version"
"""On every object that the propagator writes to a member: the resourceVersion of the Workload that
it was written for last. A hub that names an older one was set back."""

ANNOTATION_WENT_BACK = f"{GROUP}/hub-went-back"
"""On a member's Lease of the hub: the hub was set back, to this resourceVersion, and not all that
was written there later is judged yet."""

RESTORED = "stowage-restored"
"""The ConfigMap in the namespace of our processes that says from which backup the hub was restored.

While it stands, the hub knows less than the members have. `restore --accept --all` ends that."""
ANNOTATION_RESTORED = f"{GROUP}/restored"
"""On an object of the hub: by which restore it was made, and what has become of it since
(`crds.restored.RestoredMark`)."""
ANNOTATION_MIGRATION = f"{GROUP}/migration"
"""On a Workload: `<system>` while it is migrated from there, and `<system>/finished` after that."""
LABEL_MIGRATION = ANNOTATION_MIGRATION
"""On the Secret `migration-<uid>` of such a Workload, which keeps what a release has changed."""
ANNOTATION_SINCE = f"{GROUP}/written-since"
"""On an object on a member: the restores, with commas, after which it was written last. Any other
object with a younger `ANNOTATION_HUB_VERSION` than the backup was written by the former hub."""

ANNOTATION_SWEEP = f"{GROUP}/sweep"
"""On a MemberCluster: the UIDs, separated by commas, of the Workloads unknown to the hub whose
objects a person lets the propagator remove there, though the sweep is held. It takes it off."""

ANNOTATION_DELETION = f"{GROUP}/deletion"
"""On a deleted Workload: `CONFIRMED`, as a person lets it go though many are deleted at once."""
CONFIRMED = "Confirmed"

ANNOTATION_RELEASED = f"{GROUP}/released"
"""On a WorkloadQuota: the UIDs, separated by commas, of deleted Workloads of which nothing runs any
more, so that what they left on the members counts no longer (`status.left`)."""

ANNOTATION_COUNTED = f"{GROUP}/counted"
"""On a MemberCluster: the UID of the member's kube-system, once all kinds of objects there have
been searched for ours. It goes with the MemberCluster, and the next one is searched again; so is
each member of a hub that was set back, whatever it notes."""

ANNOTATION_MEMBER = f"{GROUP}/member"
"""On every object that the propagator writes to a member: by which registration, in which cluster.

`<UID of the MemberCluster>/<UID of the member's kube-system>`; the second is empty where we may not
know it.
"""

ANNOTATION_KEEP = f"{GROUP}/keep"
"""The user's own word on an object of a Workload: when it stays though it is wanted there no more.

`Never`, `Move` (the default of what holds data) or `Always`.
"""

LABEL_FOLLOW = f"{GROUP}/follow"
"""On an object of the hub: `"false"` says that it never goes along with a Workload that names it
(`spec.dependencies`)."""

LABEL_REGISTER = f"{GROUP}/register"
"""On a Secret in the system namespace: register the cluster that its kubeconfig leads to."""

ANNOTATION_PROFILE = f"{GROUP}/cluster-profile"
"""On a MemberCluster that stands for a ClusterProfile: that one, as `<namespace>/<name>`."""
ANNOTATION_PROFILE_LABELS = f"{GROUP}/cluster-profile-labels"
"""Beside it: the keys of the labels that come from the ClusterProfile, with commas."""
PROPERTY_PREFIX = f"properties.{GROUP}/"
"""Label prefix of a MemberCluster: a property of its ClusterProfile that was asked for."""

MEMBER_NAMESPACE_PREFIX = "stowage-member-"
"""Begins the name of the namespace of a member in mode Pull: `stowage-member-<name>-<random>`."""
LABEL_MEMBER_NAMESPACE = f"{GROUP}/member"
"""On that namespace: the member's name. Assignments and MemberReports live only in such ones, and
Workloads never do. `ANNOTATION_MEMBER` has the same key, on objects of members."""
ANNOTATION_MEMBER_NAMESPACE = f"{GROUP}/member-namespace"
"""On a MemberCluster: the namespace in which its agent is served, by `stowage invite`. One that was
left by `stowage revoke` is never named again."""
ANNOTATION_INVITED = f"{GROUP}/invited"
"""On a MemberCluster while an invitation is open: when that ends. `stowage invite` writes it, and
the propagator takes it off once the agent has its token."""
ANNOTATION_REVOKED = f"{GROUP}/revoked"
"""On a MemberCluster: when `stowage revoke` ended the credential of its agent. Nothing is written
into its namespace any more, as a watch that is open there outlives its token."""
ANNOTATION_TOKEN_ENDS = f"{GROUP}/token-ends"
"""On the Lease of an agent: when the token ends that it uses."""
MEMBER_REPORT = "member"
"""The name of the one MemberReport of a member."""
AGENT_ACCOUNT, INVITE_ACCOUNT = "agent", "invite"
"""The ServiceAccounts in a member's namespace: of its agent, and of who is invited to be it."""
AGENT_LEASE = "agent"
"""The Lease there that the agent renews."""
AGENT_TOKEN_SECRET = "agent-token"  # noqa: S105 - a name
"""The Secret there that holds the first token, sealed for the claim."""
HUB_CONFIG = "hub"
"""The ConfigMap there by which a hub tells its agent of itself: `machinery.types.pull.HubFacts`."""
AGENT = "stowage-agent"
"""On a member, in `SYSTEM_NAMESPACE`: the agent's Deployment, account and Secret."""

LABEL_TENANT = f"{GROUP}/tenant"
"""On a member's namespace: given to the propagator. On its accounts and roles: they are ours."""

ANNOTATION_GIVEN = f"{GROUP}/joined-with"
"""By `stowage join` on a member's namespace of Stowage: kinds and namespaces that it was given."""
ANNOTATION_IDENTITY = f"{GROUP}/cluster-uid"
"""By `stowage join` on a MemberCluster and its Secret: the UID of the member's kube-system."""
ANNOTATION_UNJOIN = f"{GROUP}/unjoin"
"""The annotation on a MemberCluster that lets it be deleted: `GIVEN_UP` or `RENAMED`."""
GIVEN_UP, RENAMED = "GivenUp", "Renamed"
"""The values of `ANNOTATION_UNJOIN`: a person gives up what runs there, or it has another name."""

ANNOTATION_UNINSTALL = f"{GROUP}/uninstall"
"""On the definition of a kind of ours: `UNINSTALL`, and it may be deleted."""
UNINSTALL = "true"

TAINT_DRAIN = f"{GROUP}/drain"
"""On a MemberCluster, by a person: what runs there goes elsewhere (`stowage drain`)."""
FORCED_DRAIN = "Force"
"""The value of `TAINT_DRAIN` that passes over the PodDisruptionBudgets of members."""
ANNOTATION_DRAINED = f"{GROUP}/drained"
"""On a MemberCluster: its cordon is that of `stowage drain`, whose `--undo` takes it off."""
TAINT_OUT_OF_SERVICE = f"{GROUP}/out-of-service"
"""On a MemberCluster, by a person: nothing runs there any more, so that what runs at most once may
start elsewhere."""
TAINT_NOT_READY = f"{GROUP}/not-ready"
"""The taint of a lost cluster, for tolerations to name: never written to a spec."""

LABEL_CLUSTER = f"{GROUP}/cluster"
LABEL_PROVIDER = f"{GROUP}/provider"
LABEL_VERSION = f"{GROUP}/version"

LABEL_POLICY = f"{GROUP}/workload-policy"
"""Binds a Workload to a WorkloadPolicy of its namespace."""

POLICY_ALIASES = ("workload-policy.kosmos.io", "workload-policy/kosmos.io")
"""Other keys that bind a policy; admission copies their value to `LABEL_POLICY`."""
BINDING_LABELS = (LABEL_POLICY, *POLICY_ALIASES)
"""Labels of a Workload, its template or its pods that name what divides it over domains."""

LABEL_GROUP = f"{GROUP}/workload-group"
"""Makes a Workload a member of a WorkloadGroup of its namespace."""

GROUP_ALIASES = ("pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group")
"""Other keys that name a group; admission copies their value to `LABEL_GROUP`."""
GROUP_LABELS = (LABEL_GROUP, *GROUP_ALIASES)
"""Labels of a Workload, its template or its pods that name its group."""

NORMALISED_PREFIX = f"normalised.{GROUP}/"
"""Annotation prefix: the value of a canonical label that was copied from an alias.

`normalised.stowage.dev/workload-policy: demo` says that the label is not the user's own word, so
that it follows the alias when that one changes or goes.
"""

ANNOTATION_COST = f"{GROUP}/cost"
"""On a MemberCluster: what a replica costs there, a number, cheaper is better (ClusterCost)."""

TARGET_NAMESPACES = "targetnamespaces"
"""The virtual resource of the hub's RBAC whose resource names are namespaces on members."""

CLUSTER_SCOPED_OBJECTS = "clusterscopedobjects"
"""The virtual resource whose resource names are guarded kinds, `<group>/<kind>` (`carried`)."""

PRIORITIES = "priorities"
"""The virtual resource, without names, of who may set a priority above 0 in a namespace."""

VERB_USE = "use"
"""The verb on one of these: to deploy there, bring such an object along, or go before others."""
VERB_APPROVE = "approve"
"""The verb on a Workload: to say that its rollout may go on after a wave."""

ANNOTATION_KINDS = f"{GROUP}/kinds"
"""On a Workload of the hub: the kinds that it may have put on members."""

ANNOTATION_CLUSTERS = f"{GROUP}/clusters"
"""On a Workload of the hub: the clusters that were ever sent something of it."""

ANNOTATION_ORDINALS = f"{GROUP}/ordinals"
"""On a Workload of the hub: the first ordinal of its StatefulSet on each cluster."""

ANNOTATION_RELEASE = f"{GROUP}/release"
"""On the Lease of a process: the release of who took it last, for `stowage status`."""

ADMISSION_POLICY = f"workloads.{GROUP}"
"""The name of both admission policies of Workloads, and of their bindings."""

MARKS_ADMISSION_POLICY = f"workloadmarks.{GROUP}"
"""The name of the validating policy that guards the propagator's own annotations."""

POLICY_ADMISSION_POLICY = f"workloadpolicies.{GROUP}"
"""The name of the mutating policy of WorkloadPolicies, and of its binding."""

RESERVATION_ADMISSION_POLICY = f"reservations.{GROUP}"
"""The name of the validating policy of Reservations, and of its binding."""

PRIORITY_ADMISSION_POLICY = f"priorities.{GROUP}"
"""The name of the validating policy of priorities, and of its binding."""

MEMBERSHIP_ADMISSION_POLICY = f"memberships.{GROUP}"
"""The name of the validating policy of the end of MemberClusters, and of its binding."""

PULL_ADMISSION_POLICY = f"membernamespaces.{GROUP}"
"""The name of the validating policy that keeps Assignments and MemberReports in the namespaces of
members, and of its binding."""

PULLED_ADMISSION_POLICY = f"pulledmembers.{GROUP}"
"""The name of the validating policy that keeps Workloads out of these, and of its binding."""

MODE_ADMISSION_POLICY = f"membermodes.{GROUP}"
"""The name of the validating policy of MemberCluster.spec.mode, and of its binding."""

GUARD_ADMISSION_POLICY = f"kinds.{GROUP}"
"""The name of the validating policy of the end of our kinds, and of its binding."""

FORBIDDEN_NAMESPACE_PREFIX = "kube-"


def forbidden_namespace(name: str) -> bool:
    """Return whether a namespace is never a target, for any user: `kube-*` and our own."""
    return name == SYSTEM_NAMESPACE or name.startswith(FORBIDDEN_NAMESPACE_PREFIX)


def short_revision(revision: str) -> str:
    """Return the first digits of a revision, by which people tell it from others."""
    return revision[:4]


ID_PROPERTY, SET_PROPERTY = "cluster.clusterset.k8s.io", "clusterset.k8s.io"
"""The ClusterProperties of KEP-2149: the cluster's ID within its ClusterSet, and the ClusterSet."""

PLACEHOLDER_CLASS = "stowage-placeholder"
"""The PriorityClass of pods on members that only keep room: every other pod may have their place.
`stowage join` makes it."""
PLACEHOLDER_PRIORITY = -1_000_000_000
"""Its value: lower than that of any other pod."""

PLACEHOLDER_SUFFIX = "-hold"
"""After a Reservation's name: that of the Workload whose pods keep its room, and its Deployment."""
PLACEHOLDER_PODS_LABEL = "reservation-hold"
"""The label of that Deployment's pods. Labels of our own group are for the propagator alone."""

LABEL_RESERVATION = f"{GROUP}/reservation"
"""On the Workload whose pods only keep the room of a Reservation: that one's name, cut if long."""
PLACEHOLDER_SCHEDULER = f"reservation.{GROUP}"
"""The spec.schedulerName of that Workload: who keeps the reservation says where it runs."""

REQUESTS = "requests."
"""Begins the names of resources in WorkloadQuota.spec.hard."""

LONGEST_NAMES = {
    ("apps/v1", "StatefulSet"): 52,
    ("batch/v1", "CronJob"): 52,
    ("batch/v1", "Job"): 63,
    ("v1", "Service"): 63,
}
"""Of kinds of which a member takes a longer name and no pod ever comes, or which it refuses."""

RESERVED_GROUPS = ("apps", "batch", GROUP)
"""The groups of which no WorkloadKind says what their kinds are: they are built in, or ours."""


class TtlWhen(StrEnum):
    """When the field that lets a member remove an object may be written there."""

    ENDED = "Ended"
    CREATED = "Created"
    NEVER = "Never"


class Edits(StrEnum):
    """What an edited pod template does to the pods that run."""

    ROLLED = "Rolled"
    """The kind's own controller replaces them."""
    NEW_PODS = "NewPods"
    """They stay; pods that are made later have it."""
    RESTARTS = "Restarts"
    """The object runs anew, also one that has ended: nothing is written to such a one."""
