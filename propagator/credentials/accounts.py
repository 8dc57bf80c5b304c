"""The identities that a narrow member knows: their names, and what one target namespace holds.

`stowage join` makes what stands once on a member (`stowage.setup.member_rights`); what stands in
each target namespace is made by `join` where namespaces are named, otherwise by the propagator when
the first Workload arrives there (`namespaces`). Both take it from here, and the admission policy of
the member allows exactly this.
"""

from __future__ import annotations

from typing import Any

from crds.names import LABEL_TENANT

MEMBER_ACCOUNT = "stowage-member"
"""The propagator's own account on a member: it reads. Not called as the propagator's account on
the hub is, because a hub may be a member of itself."""
NAMESPACES_ACCOUNT = "stowage-namespaces"
"""As this account it makes target namespaces, and the account in them."""
TENANT_ACCOUNT = "stowage"
"""The account of a target namespace, as which it writes there."""

TENANT_ROLE = "stowage-tenant"
"""The ClusterRole that TENANT_ACCOUNT has in its namespace."""
TENANT_BINDING = "stowage"
ACTING_ROLE = "stowage-acting"
"""The ClusterRole that MEMBER_ACCOUNT has in a target namespace: to act as TENANT_ACCOUNT."""
ACTING_BINDING = "stowage-acting"

POD_SECURITY_LABEL = "pod-security.kubernetes.io/enforce"
RBAC_GROUP = "rbac.authorization.k8s.io"


def namespace(name: str, pod_security: str) -> dict[str, Any]:
    """A target namespace as the propagator makes it."""
    labels = {LABEL_TENANT: "true", POD_SECURITY_LABEL: pod_security}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def tenancy(name: str, *, home: str) -> list[dict[str, Any]]:
    """What a target namespace holds of ours; `home` is where MEMBER_ACCOUNT lives.

    The account comes last: whoever sees it knows that the rest is there.
    """
    return [
        binding(TENANT_BINDING, name, role=TENANT_ROLE, account=(name, TENANT_ACCOUNT)),
        binding(ACTING_BINDING, name, role=ACTING_ROLE, account=(home, MEMBER_ACCOUNT)),
        service_account(TENANT_ACCOUNT, name),
    ]


def service_account(name: str, where: str) -> dict[str, Any]:
    """An account of which no pod gets a token unless it asks for it."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": where, "labels": {LABEL_TENANT: "true"}},
        "automountServiceAccountToken": False,
    }


def binding(
    name: str, where: str | None, *, role: str, account: tuple[str, str], kind: str = "ClusterRole"
) -> dict[str, Any]:
    """A role for the service account `account` (namespace, name): in one namespace, or in all."""
    meta: dict[str, Any] = {"name": name, "labels": {LABEL_TENANT: "true"}}
    if where is not None:
        meta["namespace"] = where
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "RoleBinding" if where is not None else "ClusterRoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": account[0], "name": account[1]}],
    }
