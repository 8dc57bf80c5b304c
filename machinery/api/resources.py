"""The addresses of Kubernetes resources: the URL path of a kind, a namespace and a name.

So characters that Kubernetes allows in no name are refused, and the rest is quoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from machinery.errors import BadRequest
from machinery.types import bounds


@dataclass(frozen=True, slots=True)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Return the URL path of a collection (no name), an object, or its subresource.

        A namespaced resource without a namespace means the collection over all namespaces. Raises
        ValueError for a namespace on a cluster-scoped resource, and BadRequest for a name that no
        path can hold, such as an empty one.
        """
        if namespace and not self.namespaced:
            raise ValueError(f"{self.kind} is cluster-scoped, it has no namespace {namespace!r}")
        parts = [group_path(self.group, self.version)]
        if namespace:
            parts += ["namespaces", segment(namespace)]
        parts.append(segment(self.plural))
        if name is not None:
            parts.append(segment(name))
        if subresource is not None:
            parts.append(segment(subresource))
        return "/".join(parts)


def group_of(api_version: str) -> str:
    """`apps` of `apps/v1`, empty for the core group."""
    return group_version(api_version)[0]


def group_version(api_version: str) -> tuple[str, str]:
    """Return ("apps", "v1") of `apps/v1`, ("", "v1") of `v1`."""
    group, _, version = api_version.rpartition("/")
    return group, version


def group_path(group: str, version: str) -> str:
    return f"/apis/{segment(group)}/{segment(version)}" if group else f"/api/{segment(version)}"


@lru_cache(maxsize=4096)
def segment(name: str) -> str:
    """Return a name as one part of a path. Raises BadRequest if it cannot be one."""
    flaw = _flaw(name)
    if flaw:
        message = f"{bounds.clean(name, 64)!r} cannot be part of an address: {flaw}"
        raise BadRequest(code=400, reason="BadRequest", message=message)
    return quote(name, safe="", errors="replace")


def _flaw(name: str) -> str:
    if not name:
        return "it is empty"
    if len(name) > bounds.NAME:
        return f"it is longer than {bounds.NAME} characters"
    if name in (".", ".."):
        return "it means a folder"
    return "it holds '/' or '%'" if "/" in name or "%" in name else ""


STOWAGE_GROUP = "stowage.dev"
STOWAGE_VERSION = "v1alpha1"


def _stowage(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource(STOWAGE_GROUP, STOWAGE_VERSION, plural, kind, namespaced)


WORKLOADS = _stowage("workloads", "Workload")
WORKLOAD_POLICIES = _stowage("workloadpolicies", "WorkloadPolicy")
WORKLOAD_QUOTAS = _stowage("workloadquotas", "WorkloadQuota")
WORKLOAD_SPREADS = _stowage("workloadspreads", "WorkloadSpread")
WORKLOAD_GROUPS = _stowage("workloadgroups", "WorkloadGroup")
RESERVATIONS = _stowage("reservations", "Reservation")
CLUSTER_DECISIONS = _stowage("clusterdecisions", "ClusterDecision")
ASSIGNMENTS = _stowage("assignments", "Assignment")
MEMBER_REPORTS = _stowage("memberreports", "MemberReport")
MEMBER_CLUSTERS = _stowage("memberclusters", "MemberCluster", namespaced=False)
WORKLOAD_KINDS = _stowage("workloadkinds", "WorkloadKind", namespaced=False)

CLUSTER_PROFILES = Resource(
    "multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", "ClusterProfile"
)

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
SERVICES = Resource("", "v1", "services", "Service")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
PLACEMENT_DECISIONS = Resource(
    "multicluster.x-k8s.io", "v1alpha1", "placementdecisions", "PlacementDecision"
)
USUAL: Sequence[Resource] = (
    DEPLOYMENTS,
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("apps", "v1", "replicasets", "ReplicaSet"),
    Resource("apps", "v1", "daemonsets", "DaemonSet"),
    Resource("batch", "v1", "jobs", "Job"),
    Resource("batch", "v1", "cronjobs", "CronJob"),
    SERVICES,
    SECRETS,
    CONFIG_MAPS,
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
TOKEN_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
MUTATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    namespaced=False,
)
VALIDATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
MUTATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    namespaced=False,
)
VALIDATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
