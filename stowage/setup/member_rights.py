"""The accounts, roles and policies that `stowage join` makes on a member.

`narrow` is the default. The propagator's own account reads nodes, pods, their disruption budgets,
accounts and the managed kinds in all namespaces, never a Secret or a ConfigMap, and writes the
hub's Lease alone. In a given namespace it may act as that namespace's account, which may write the
managed kinds there alone. One more account makes namespaces, and the accounts in them; an admission
policy of the member allows it nothing else, so that `kube-*` and namespaces of before stay out of
reach even for a thief of the kubeconfig.

`cluster` is for a member that serves Stowage alone: the account writes in all namespaces but
`kube-*`, with an administrator's power. `docs/members.md` has a row for each right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crds.names import (
    FORBIDDEN_NAMESPACE_PREFIX,
    ID_PROPERTY,
    LABEL_TENANT,
    PLACEHOLDER_CLASS,
    PLACEHOLDER_PRIORITY,
    SET_PROPERTY,
    SYSTEM_NAMESPACE,
)
from machinery.api.acting import account
from machinery.api.resources import LEASES
from propagator.credentials.accounts import (
    ACTING_BINDING,
    ACTING_ROLE,
    MEMBER_ACCOUNT,
    NAMESPACES_ACCOUNT,
    POD_SECURITY_LABEL,
    RBAC_GROUP,
    TENANT_ACCOUNT,
    TENANT_BINDING,
    TENANT_ROLE,
    binding,
    service_account,
    tenancy,
)
from propagator.credentials.credentials import PodSecurity
from propagator.members.hub_lease import HUB_LEASE

Manifest = dict[str, Any]
Rule = Mapping[str, Any]

ADMISSION = "admissionregistration.k8s.io/v1"
_SEE = ["list", "watch"]
_WRITE = ["get", "list", "watch", "create", "update", "patch", "delete"]
_MANAGED: Sequence[tuple[str, Sequence[str]]] = (
    ("", ["persistentvolumeclaims", "services"]),
    ("apps", ["daemonsets", "deployments", "replicasets", "statefulsets"]),
    ("autoscaling", ["horizontalpodautoscalers"]),
    ("batch", ["cronjobs", "jobs"]),
    ("networking.k8s.io", ["ingresses", "networkpolicies"]),
    ("policy", ["poddisruptionbudgets"]),
)
"""What a plain application is made of, by group; these kinds are read in all namespaces.

Disruption budgets also say how many pods may go before others are ready, and claims what a share
that moved has left.
"""
_CONFIDENTIAL = ["configmaps", "secrets"]
"""Kinds that are read in the given namespaces, and nowhere else."""
_QUOTAS = {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": _SEE}
"""The right to see what the quotas of its namespaces leave, before replicas are sent there."""
_REFUSALS = {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]}
"""The right to read why a controller there makes no pods for an object."""
_PRICE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}
"""The right to annotate pods with their deletion cost: which go first when a share shrinks."""
_IN_SET = {
    "apiGroups": ["about.k8s.io"],
    "resources": ["clusterproperties"],
    "resourceNames": [ID_PROPERTY, SET_PROPERTY],
    "verbs": ["get"],
}
"""The right to see which cluster of its ClusterSet it is, where it is in one."""
_CANARY = "stowage-is-bounded"
_ASK = {
    "nonResourceURLs": ["/readyz", "/version", "/api", "/api/*", "/apis", "/apis/*"],
    "verbs": ["get"],
}


@dataclass(frozen=True, slots=True)
class AllowedKind:
    """A kind that `--allow` adds."""

    group: str
    plural: str
    namespaced: bool
    known: bool = True

    @property
    def text(self) -> str:
        """As `--allow` takes it: `networking.k8s.io/ingresses`, `configmaps`."""
        return f"{self.group}/{self.plural}" if self.group else self.plural

    def rule(self, verbs: Sequence[str]) -> Rule:
        return {"apiGroups": [self.group], "resources": [self.plural], "verbs": list(verbs)}


def narrow(home: str, allow: Sequence[AllowedKind] = ()) -> list[Manifest]:
    """Return the account that reads, and the roles of it and of the namespaces' accounts."""
    inside = [each for each in allow if each.namespaced]
    own = [each.rule(_WRITE) for each in allow if not each.namespaced]
    see = [*_managed(_SEE), *(each.rule(_SEE) for each in inside)]
    tenant = [
        *_managed(_WRITE),
        {"apiGroups": [""], "resources": [*_CONFIDENTIAL, "serviceaccounts"], "verbs": _WRITE},
        _PRICE,
        _REFUSALS,
        *(each.rule(_WRITE) for each in inside),
    ]
    watched = {"apiGroups": [""], "resources": ["nodes", "pods", "serviceaccounts"], "verbs": _SEE}
    which = [_may("get", "namespaces", "kube-system"), _IN_SET]
    return [
        _role(TENANT_ROLE, tenant),
        _role(ACTING_ROLE, [_may("impersonate", "serviceaccounts", TENANT_ACCOUNT)]),
        _role(MEMBER_ACCOUNT, [*which, watched, _QUOTAS, *see, *own, _ASK]),
        *_member(home),
        _everywhere(MEMBER_ACCOUNT, home),
    ]


def placeholder_class() -> Manifest:
    """Return the class of pods that keep room: every other pod may preempt them."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PLACEHOLDER_CLASS, "labels": {LABEL_TENANT: "true"}},
        "value": PLACEHOLDER_PRIORITY,
        "preemptionPolicy": "Never",
        "description": "Pods that only keep room for Reservations; every other pod goes before.",
    }


def cluster_account(home: str) -> list[Manifest]:
    """Return the account without write rights but for the object that its policy must deny."""
    return _member(home, _may("create", "configmaps", _CANARY, "patch"))


def cluster_canary(home: str) -> Manifest:
    """Return an object that `cluster_policy` denies the account even in a dry run."""
    meta = {"name": _CANARY, "namespace": home}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def cluster(home: str, allow: Sequence[AllowedKind] = ()) -> list[Manifest]:
    """Return the rights to write in all namespaces; `cluster_policy` must be in force before."""
    rules = [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": _SEE},
        _IN_SET,
        _QUOTAS,
        _PRICE,
        _REFUSALS,
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create"]},
        {"apiGroups": [""], "resources": [*_CONFIDENTIAL, "serviceaccounts"], "verbs": _WRITE},
        *_managed(_WRITE),
        *(each.rule(_WRITE) for each in allow),
        _ASK,
    ]
    return [_role(MEMBER_ACCOUNT, rules), _everywhere(MEMBER_ACCOUNT, home)]


def maker(home: str) -> list[Manifest]:
    """Return the account that makes namespaces; `maker_policy` must be in force before."""
    bindings = [TENANT_BINDING, ACTING_BINDING]
    rules = [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create"]},
        # resourceNames can bound a create here, because the propagator creates by server-side apply
        _may("create", "serviceaccounts", TENANT_ACCOUNT, "patch"),
        _may("create", "rolebindings", bindings, "patch", group=RBAC_GROUP),
        _may("bind", "clusterroles", [TENANT_ROLE, ACTING_ROLE], group=RBAC_GROUP),
    ]
    return [
        service_account(NAMESPACES_ACCOUNT, home),
        _role(NAMESPACES_ACCOUNT, rules),
        _everywhere(NAMESPACES_ACCOUNT, home),
    ]


def given(name: str, home: str) -> list[Manifest]:
    """Return a namespace with the label that gives it to Stowage, and its account."""
    meta = {"name": name, "labels": {LABEL_TENANT: "true"}}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": meta}, *tenancy(name, home=home)]


def maker_policy(home: str, pod_security: PodSecurity) -> list[Manifest]:
    """Return the policy that allows the account that makes namespaces exactly that."""
    levels = list(PodSecurity)
    strict = [str(each) for each in levels[levels.index(pod_security) :]]
    kind = "request.resource.resource"
    variables = [
        {
            "name": "where",
            "expression": f"{kind} == 'namespaces' ? object.metadata.name : request.namespace",
        },
        {
            "name": "labels",
            "expression": "has(object.metadata.labels) ? object.metadata.labels : {}",
        },
        {
            "name": "given",
            "expression": "namespaceObject != null && has(namespaceObject.metadata.labels) "
            f"&& '{LABEL_TENANT}' in namespaceObject.metadata.labels "
            f"&& namespaceObject.metadata.labels['{LABEL_TENANT}'] == 'true'",
        },
    ]
    validations = [
        (
            (
                "(!has(request.subResource) || request.subResource == '') && "
                f"((request.operation == 'CREATE' && {kind} == 'namespaces') || "
                "(request.operation in ['CREATE', 'UPDATE'] && "
                f"{kind} in ['serviceaccounts', 'rolebindings']))"
            ),
            (
                "this account makes namespaces, and the account and bindings of Stowage in them; "
                "it changes and deletes nothing else"
            ),
        ),
        (
            (
                f"!variables.where.startsWith('{FORBIDDEN_NAMESPACE_PREFIX}') && "
                f"!(variables.where in ['{home}', '{SYSTEM_NAMESPACE}', 'default'])"
            ),
            "this namespace is never a target",
        ),
        (
            (
                f"{kind} != 'namespaces' || ('{LABEL_TENANT}' in variables.labels && "
                f"variables.labels['{LABEL_TENANT}'] == 'true' && "
                f"'{POD_SECURITY_LABEL}' in variables.labels && "
                f"variables.labels['{POD_SECURITY_LABEL}'] in {strict})"
            ),
            (
                f"a namespace is made with the labels {LABEL_TENANT}=true and {POD_SECURITY_LABEL} "
                f"of {' or '.join(strict)}"
            ),
        ),
        (
            f"{kind} == 'namespaces' || variables.given",
            f"the namespace was not given to Stowage by the label {LABEL_TENANT}=true",
        ),
        (
            f"{kind} != 'serviceaccounts' || object.metadata.name == '{TENANT_ACCOUNT}'",
            f"the account is named {TENANT_ACCOUNT}",
        ),
        (
            f"{kind} != 'rolebindings' || {_is_ours(home)}",
            "a binding gives exactly one of Stowage's roles to its account",
        ),
    ]
    return _policy(NAMESPACES_ACCOUNT, home, variables, validations)


def cluster_policy(home: str) -> list[Manifest]:
    """Return the policy that bounds the account that writes in all namespaces."""
    where = f"request.namespace.startsWith('{FORBIDDEN_NAMESPACE_PREFIX}')"
    validations = [
        (
            (
                "!has(request.namespace) || request.namespace == '' || "
                f"!({where} || request.namespace in ['{home}', '{SYSTEM_NAMESPACE}']) || "
                "(has(request.subResource) && request.subResource == 'token') || "
                f"(request.resource.resource == 'leases' && request.name == '{HUB_LEASE}')"
            ),
            "this namespace is never a target",
        ),
        (
            (
                "request.resource.resource != 'secrets' || request.operation == 'DELETE' || "
                "!has(object.type) || object.type != 'kubernetes.io/service-account-token'"
            ),
            "a Secret that holds the token of an account is not for Stowage to make",
        ),
    ]
    return _policy(MEMBER_ACCOUNT, home, [], validations)


def _is_ours(home: str) -> str:
    """Return the CEL expression that a binding is one of the two that `tenancy` makes."""

    def one(name: str, role: str, namespace: str, subject: str) -> str:
        return (
            f"(object.metadata.name == '{name}' && object.roleRef.name == '{role}' && "
            f"object.subjects[0].name == '{subject}' && "
            f"object.subjects[0].namespace == {namespace})"
        )

    tenant = one(TENANT_BINDING, TENANT_ROLE, "request.namespace", TENANT_ACCOUNT)
    acting = one(ACTING_BINDING, ACTING_ROLE, f"'{home}'", MEMBER_ACCOUNT)
    return (
        "(object.roleRef.kind == 'ClusterRole' && has(object.subjects) && "
        "size(object.subjects) == 1 && object.subjects[0].kind == 'ServiceAccount' && "
        f"({tenant} || {acting}))"
    )


def _policy(
    name: str, home: str, variables: list[Manifest], validations: Sequence[tuple[str, str]]
) -> list[Manifest]:
    """Return a policy about one account, under the account's name, and its binding."""
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["*"],
        "resources": ["*/*"],
    }
    spec: Manifest = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {
                "name": "who",
                "expression": f"request.userInfo.username == '{account(home, name)}'",
            }
        ],
        "validations": [{"expression": e, "message": m} for e, m in validations],
    }
    if variables:
        spec["variables"] = variables
    meta = {"name": name, "labels": {LABEL_TENANT: "true"}}
    kind = "ValidatingAdmissionPolicy"
    return [
        {"apiVersion": ADMISSION, "kind": kind, "metadata": meta, "spec": spec},
        {
            "apiVersion": ADMISSION,
            "kind": f"{kind}Binding",
            "metadata": meta,
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def _member(home: str, *more: Rule) -> list[Manifest]:
    """Return the propagator's account: its role, its own tokens, the maker, the hub's Lease."""
    rules = [
        _may("create", "serviceaccounts/token", MEMBER_ACCOUNT),
        _may("impersonate", "serviceaccounts", NAMESPACES_ACCOUNT),
        # resourceNames can bound a create here, because the Lease is made by server-side apply
        _may("create", "leases", HUB_LEASE, "get", "patch", group=LEASES.group),
        *more,
    ]
    who = (home, MEMBER_ACCOUNT)
    return [
        service_account(MEMBER_ACCOUNT, home),
        _role(MEMBER_ACCOUNT, rules, where=home),
        binding(MEMBER_ACCOUNT, home, role=MEMBER_ACCOUNT, account=who, kind="Role"),
    ]


def _everywhere(name: str, home: str) -> Manifest:
    """Return the binding of an account to the ClusterRole of the same name."""
    return binding(name, None, role=name, account=(home, name))


def _managed(verbs: Sequence[str]) -> list[Rule]:
    return [{"apiGroups": [g], "resources": r, "verbs": list(verbs)} for g, r in _MANAGED]


def _may(verb: str, resource: str, names: str | Sequence[str], *more: str, group: str = "") -> Rule:
    names = [names] if isinstance(names, str) else list(names)
    return {
        "apiGroups": [group],
        "resources": [resource],
        "resourceNames": names,
        "verbs": [verb, *more],
    }


def _role(name: str, rules: Sequence[Rule], *, where: str | None = None) -> Manifest:
    meta: Manifest = {"name": name, "labels": {LABEL_TENANT: "true"}}
    if where is not None:
        meta["namespace"] = where
    kind = "ClusterRole" if where is None else "Role"
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": kind,
        "metadata": meta,
        "rules": list(rules),
    }
