"""Our two service accounts of a hub, with real tokens, as their pods would have them."""

from __future__ import annotations

import base64
import json

import yaml

from crds.names import SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from tests.inforce import attributes, review_of, until_may

ROLES = ("controller", "propagator")
REVIEWS = "/apis/authorization.k8s.io/v1"


async def may(connection, what):
    """Whether the account of this connection may do that."""
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    return await _allowed(connection, kind | {"spec": attributes(what)})


async def other_may(admin, user, what):
    """Whether that service account may."""
    return await _allowed(admin, review_of(user, what))


def rights_in_force(cluster):
    """Return once the hub's authorizer has heard of all that `deploy/rbac.yaml` gives.

    Each account's last Role, and its ClusterRole, with their bindings.
    """
    for role in ROLES:
        user = f"system:serviceaccount:{SYSTEM_NAMESPACE}:stowage-{role}"
        for what in (
            f"patch leases.coordination.k8s.io/stowage-{role} -n {SYSTEM_NAMESPACE}",
            "patch workloads.stowage.dev --subresource=status -n shop",
        ):
            until_may(cluster, user, what)


async def _allowed(connection, review):
    async with ApiClient(connection) as client:
        path = f"{REVIEWS}/{review['kind'].lower()}s"
        answer = json.loads(await client.request("POST", path, body=review))
    return answer["status"]["allowed"]


async def token(cluster, role):
    """A fresh token of that account."""
    async with ApiClient(cluster.connection()) as admin:
        path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/stowage-{role}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = json.loads(await admin.request("POST", path, body=request))
    return answer["status"]["token"]


async def kubeconfig(cluster, role, folder):
    """A kubeconfig with nothing but such a token, in a file of that folder."""
    path = written(cluster, f"stowage-{role}", await token(cluster, role), folder)
    return path.rename(folder / f"{role}.kubeconfig")


def written(cluster, name, token, folder):
    """A kubeconfig with nothing but that token."""
    about = {
        "server": cluster.server,
        "certificate-authority-data": base64.b64encode(cluster.ca).decode(),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": about}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path = folder / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path
