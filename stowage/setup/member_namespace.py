"""The namespace of a member in mode Pull on the hub: what is in it, and who may what there.

Its name ends at random, as one that `stowage revoke` has left is never taken again: a watch that
was open there outlives its token. The Role of the agent is all that it may on the hub.

Its label says whose it is. The annotation of a MemberCluster alone does not: who may edit that
could have a command delete or open any namespace.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping
from typing import Any

from crds.names import (
    AGENT_ACCOUNT,
    AGENT_LEASE,
    AGENT_TOKEN_SECRET,
    ANNOTATION_MEMBER_NAMESPACE,
    API_VERSION,
    HUB_CONFIG,
    INVITE_ACCOUNT,
    LABEL_MEMBER_NAMESPACE,
    MEMBER_NAMESPACE_PREFIX,
    MEMBER_REPORT,
)
from machinery.api.client import ApiClient
from machinery.api.resources import LEASES, MEMBER_REPORTS, NAMESPACES
from machinery.types.pull import HubFacts

Manifest = dict[str, Any]

PROPAGATOR = "stowage-propagator"
PROPAGATOR_ROLE = "stowage-propagator-member"
"""The ClusterRole that the propagator has in it (`deploy/rbac.yaml`)."""
_RBAC = "rbac.authorization.k8s.io"
_RANDOM = 5
_LONGEST = 63


def new_name(member: str) -> str:
    """Return `stowage-member-paris-x7k2p`; of a long name the beginning stands there."""
    signs = string.ascii_lowercase + string.digits
    ending = "".join(secrets.choice(signs) for _ in range(_RANDOM))
    room = _LONGEST - len(MEMBER_NAMESPACE_PREFIX) - _RANDOM - 1
    named = member.replace(".", "-")[:room].rstrip("-")
    return f"{MEMBER_NAMESPACE_PREFIX}{named}-{ending}"


def named(cluster: Mapping[str, Any] | None) -> str:
    """Return the namespace that a MemberCluster names; empty if it had no agent."""
    notes = ((cluster or {}).get("metadata") or {}).get("annotations") or {}
    return str(notes.get(ANNOTATION_MEMBER_NAMESPACE) or "")


async def members(hub: ApiClient, member: str = "") -> dict[str, str]:
    """Return the members by their namespaces, or those of one; a revoked one may have several."""
    selector = f"{LABEL_MEMBER_NAMESPACE}={member}" if member else LABEL_MEMBER_NAMESPACE
    metas = [
        each["metadata"] for each in (await hub.list(NAMESPACES, label_selector=selector))["items"]
    ]
    return {
        meta["name"]: meta["labels"][LABEL_MEMBER_NAMESPACE]
        for meta in metas
        if meta["name"].startswith(MEMBER_NAMESPACE_PREFIX) and not meta.get("deletionTimestamp")
    }


def namespace(name: str, member: str) -> Manifest:
    meta = {"name": name, "labels": {LABEL_MEMBER_NAMESPACE: member}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def rights(name: str, home: str) -> list[Manifest]:
    """Return the roles of agent and invitation, and the bindings; `home` is the propagator's."""
    agent = [
        _rule("stowage.dev", "assignments", "get", "list", "watch"),
        _rule("stowage.dev", "assignments/status", "patch"),
        _rule("stowage.dev", "memberreports", "get", names=[MEMBER_REPORT]),
        _rule("stowage.dev", "memberreports/status", "patch", names=[MEMBER_REPORT]),
        _rule("", "secrets", "get", "list", "watch"),
        _rule(LEASES.group, "leases", "get", "patch", names=[AGENT_LEASE]),
        # Listed by their names, with a field selector.
        _rule("", "configmaps", "get", "list", "watch", names=[HUB_CONFIG, "kube-root-ca.crt"]),
        _rule("", "serviceaccounts/token", "create", names=[AGENT_ACCOUNT]),
        _rule("", "events", "create", "patch"),
    ]
    invited = [
        _rule("stowage.dev", "memberreports/status", "patch", names=[MEMBER_REPORT]),
        _rule("", "secrets", "get", names=[AGENT_TOKEN_SECRET]),
    ]
    return [
        _role(AGENT_ACCOUNT, name, agent),
        _role(INVITE_ACCOUNT, name, invited),
        _binding(AGENT_ACCOUNT, name, "Role", AGENT_ACCOUNT, (name, AGENT_ACCOUNT)),
        _binding(INVITE_ACCOUNT, name, "Role", INVITE_ACCOUNT, (name, INVITE_ACCOUNT)),
        _binding(PROPAGATOR, name, "ClusterRole", PROPAGATOR_ROLE, (home, PROPAGATOR)),
    ]


def account(name: str, where: str) -> Manifest:
    meta = {"name": name, "namespace": where}
    manifest: Manifest = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
    return manifest | {"automountServiceAccountToken": False}


def credential(name: str) -> list[Manifest]:
    """Return what one agent has for itself, and the next one gets anew."""
    return [
        {
            "apiVersion": API_VERSION,
            "kind": MEMBER_REPORTS.kind,
            "metadata": {"name": MEMBER_REPORT, "namespace": name},
        },
        {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": AGENT_LEASE, "namespace": name},
            "spec": {},
        },
        account(AGENT_ACCOUNT, name),
        account(INVITE_ACCOUNT, name),
    ]


def hub_config(name: str, facts: HubFacts) -> Manifest:
    meta = {"name": HUB_CONFIG, "namespace": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": facts.data()}


def _rule(group: str, resource: str, *verbs: str, names: list[str] | None = None) -> Manifest:
    rule: Manifest = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
    return rule | ({"resourceNames": names} if names else {})


def _role(name: str, where: str, rules: list[Manifest]) -> Manifest:
    meta = {"name": name, "namespace": where}
    return {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": meta, "rules": rules}


def _binding(name: str, where: str, kind: str, role: str, account: tuple[str, str]) -> Manifest:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": where},
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": account[0], "name": account[1]}],
    }
