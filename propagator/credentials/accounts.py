"""The accounts of Stowage on a narrow member: their names, and the objects of a target namespace.

`stowage join` creates the objects that exist once on a member (`stowage.setup.member_rights`);
those of each target namespace are created by `join` where namespaces are named, otherwise by the
propagator when the first Workload arrives there (`access.namespaces`). Both build them here, and
the admission policy of the member allows exactly these.
"""

from __future__ import annotations

from typing import Any

from crds.names import LABEL_TENANT

MEMBER_ACCOUNT = "stowage-member"
"""The propagator's own account on a member, which reads. Its name differs from the account on the
hub, because a hub may be a member of itself."""
NAMESPACES_ACCOUNT = "stowage-namespaces"
"""The account that creates target namespaces, and the account in them."""
TENANT_ACCOUNT = "stowage"
"""The account of a target namespace, which writes there."""

TENANT_ROLE = "stowage-tenant"
"""The ClusterRole that TENANT_ACCOUNT has in its namespace."""
TENANT_BINDING = "stowage"
ACTING_ROLE = "stowage-acting"
"""The ClusterRole that MEMBER_ACCOUNT has in a target namespace: to act as TENANT_ACCOUNT."""
ACTING_BINDING = "stowage-acting"

POD_SECURITY_LABEL = "pod-security.kubernetes.io/enforce"
RBAC_GROUP = "rbac.authorization.k8s.io"


def namespace(name: str, pod_security: str) -> dict[str, Any]:
    """Return a target namespace as the propagator creates it."""
    labels = {LABEL_TENANT: "true", POD_SECURITY_LABEL: pod_security}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def tenancy(name: str, *, home: str) -> list[dict[str, Any]]:
    """Return our objects of a target namespace; `home` is the namespace of MEMBER_ACCOUNT.

    The account comes last: an observer that sees it knows that the rest exists.
    """
    return [
        binding(TENANT_BINDING, name, role=TENANT_ROLE, account=(name, TENANT_ACCOUNT)),
        binding(ACTING_BINDING, name, role=ACTING_ROLE, account=(home, MEMBER_ACCOUNT)),
        service_account(TENANT_ACCOUNT, name),
    ]


def service_account(name: str, where: str) -> dict[str, Any]:
    """Return an account whose token no pod gets unless it asks for it."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": where, "labels": {LABEL_TENANT: "true"}},
        "automountServiceAccountToken": False,
    }


def binding(
    name: str, where: str | None, *, role: str, account: tuple[str, str], kind: str = "ClusterRole"
) -> dict[str, Any]:
    """Return the binding of a role to a service account (namespace, name); `where` None: in all."""
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
