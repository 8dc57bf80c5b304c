"""Our two service accounts of a hub, with real tokens, as their pods would have them."""

from __future__ import annotations

import base64
import functools
import json

import yaml

from crds.names import SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from tests.patience import until

ROLES = ("controller", "propagator")
REVIEWS = "/apis/authorization.k8s.io/v1"


def attributes(what):
    """Verb, resource[.group][/name] and options, as `kubectl auth can-i` takes them, for a review."""
    verb, resource, *options = what.split()
    if resource.startswith("/"):
        return {"nonResourceAttributes": {"verb": verb, "path": resource}}
    target, _, name = resource.partition("/")
    plural, _, group = target.partition(".")
    found = {"verb": verb, "resource": plural, "group": group, "name": name}
    while options:
        option, _, value = options.pop(0).partition("=")
        if option == "--subresource":
            found["subresource"] = value
        elif option == "-n":
            found["namespace"] = options.pop(0)
        else:
            assert option == "-A", option
    return {"resourceAttributes": found}


async def may(connection, what):
    """Whether whoever has this connection may do that."""
    return await _allowed(connection, "SelfSubjectAccessReview", attributes(what))


async def other_may(admin, user, what):
    """Whether that service account may."""
    *_, namespace, _ = user.split(":")
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    asked = {"user": user, "groups": [*groups, "system:authenticated"], **attributes(what)}
    return await _allowed(admin, "SubjectAccessReview", asked)


async def rights_in_force(cluster):
    """Return once the hub's authorizer has heard of all that `deploy/rbac.yaml` gives.

    Each account's last Role, and its ClusterRole, with their bindings.
    """
    for role in ROLES:
        user = f"system:serviceaccount:{SYSTEM_NAMESPACE}:stowage-{role}"
        for what in (
            f"patch leases.coordination.k8s.io/stowage-{role} -n {SYSTEM_NAMESPACE}",
            "patch workloads.stowage.dev --subresource=status -n shop",
        ):
            await until(functools.partial(other_may, cluster.connection(), user, what))


async def _allowed(connection, kind, spec):
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    async with ApiClient(connection) as client:
        path = f"{REVIEWS}/{kind.lower()}s"
        answer = json.loads(await client.request("POST", path, body=body))
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
    name = f"stowage-{role}"
    about = {
        "server": cluster.server,
        "certificate-authority-data": base64.b64encode(cluster.ca).decode(),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": about}],
        "users": [{"name": name, "user": {"token": await token(cluster, role)}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path = folder / f"{role}.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path
