"""The accounts of Stowage on a narrow member, and the objects of a target namespace.

`stowage join` creates those that exist once (`stowage.setup.member_rights`). The member's admission
policy allows exactly these.
"""

from __future__ import annotations

from typing import Any

from crds.names import LABEL_TENANT

MEMBER_ACCOUNT = "stowage-member"
"""The propagator's own account on a member, which reads. Its name differs from the one on the hub,
because a hub may be a member of itself.
"""
NAMESPACES_ACCOUNT = "stowage-namespaces"
"""The account that creates target namespaces, and the account in them."""
TENANT_ACCOUNT = "stowage"
"""The account of a target namespace, which writes there."""

TENANT_ROLE = "stowage-tenant"
TENANT_BINDING = "stowage"
ACTING_ROLE = "stowage-acting"
"""The ClusterRole of MEMBER_ACCOUNT in a target namespace: to act as TENANT_ACCOUNT."""
ACTING_BINDING = "stowage-acting"

POD_SECURITY_LABEL = "pod-security.kubernetes.io/enforce"
RBAC_GROUP = "rbac.authorization.k8s.io"


def namespace(name: str, pod_security: str) -> dict[str, Any]:
    labels = {LABEL_TENANT: "true", POD_SECURITY_LABEL: pod_security}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def tenancy(name: str, *, home: str) -> list[dict[str, Any]]:
    """`home` is the namespace of MEMBER_ACCOUNT.

    The account comes last: it shows that the rest exists.
    """
    return [
        binding(TENANT_BINDING, name, role=TENANT_ROLE, account=(name, TENANT_ACCOUNT)),
        binding(ACTING_BINDING, name, role=ACTING_ROLE, account=(home, MEMBER_ACCOUNT)),
        service_account(TENANT_ACCOUNT, name),
    ]


def service_account(name: str, where: str) -> dict[str, Any]:
    """Pods get its token only on request."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": where, "labels": {LABEL_TENANT: "true"}},
        "automountServiceAccountToken": False,
    }


def binding(
    name: str, where: str | None, *, role: str, account: tuple[str, str], kind: str = "ClusterRole"
) -> dict[str, Any]:
    """`account` is (namespace, name); `where` None: cluster-wide."""
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
