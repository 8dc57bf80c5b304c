"""The content of a hub's object for a member, and the objects that never travel. Pure.

Content of one cluster stays behind: tokens, addresses, ports, and cloud rights unless the member
takes those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds.admission.carried import CORE
from crds.admission.reserved import strip
from crds.names import LABEL_FOLLOW, LABEL_REGISTER, forbidden_namespace
from machinery.api.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, SERVICES, Resource
from machinery.types.metadata import Object
from machinery.types.pod_references import CLAIM, CONFIG_MAP, SERVICE_ACCOUNT, Reference
from propagator.apply.render import secret_body
from propagator.types.hub_objects import (
    HubConfigMap,
    HubObject,
    HubSecret,
    HubService,
    HubServiceAccount,
)

FOLLOWED: Mapping[str, tuple[Resource, type[HubObject]]] = {
    resource.kind: (resource, type_)
    for resource, type_ in (
        (CONFIG_MAPS, HubConfigMap),
        (SECRETS, HubSecret),
        (SERVICE_ACCOUNTS, HubServiceAccount),
        (SERVICES, HubService),
    )
}
CLOUD_IDENTITIES = (
    "eks.amazonaws.com/role-arn",
    "iam.gke.io/gcp-service-account",
    "azure.workload.identity/client-id",
)
IDENTITIES_ALLOWED = f"{CORE}/{SERVICE_ACCOUNT}"
"""In `allowedKinds`: the member takes them."""
NEVER = frozenset(
    {
        "kubernetes.io/service-account-token",
        "bootstrap.kubernetes.io/token",
        "helm.sh/release.v1",
    }
)
"""Types of Secrets that are of use to their own cluster alone, or to a thief."""
_EACH_ITS_OWN = frozenset({(CONFIG_MAP, "kube-root-ca.crt")})
_OF_A_CLUSTER = ("clusterIPs", "ipFamilies", "healthCheckNodePort")
"""Fields of a Service that its cluster fills in."""


def refusal_of_name(reference: Reference, namespace: str) -> str:
    """Return why an object of that name never travels; empty if it may."""
    if reference.kind == CLAIM:
        return "not followed, put it into spec.manifests"
    if forbidden_namespace(namespace):
        return f"objects of {namespace} never travel"
    if reference[:2] in _EACH_ITS_OWN:
        return "each cluster has its own"
    return ""


def refusal_by_labels(found: Object) -> str:
    if found.metadata.labels.get(LABEL_FOLLOW) == "false":
        return f"its label {LABEL_FOLLOW} says that it never travels"
    if LABEL_REGISTER in found.metadata.labels:
        return "it registers a cluster"
    return ""


def refusal(found: HubObject) -> str:
    if isinstance(found, HubSecret) and found.type in NEVER:
        return f"a Secret of type {found.type} never travels"
    return refusal_by_labels(found)


def body_of(found: HubObject, *, identities: bool) -> dict[str, Any]:
    """`identities`: the member takes accounts with cloud rights."""
    match found:
        case HubSecret():
            return secret_body(found)
        case HubConfigMap():
            return _config_map(found)
        case HubServiceAccount():
            return _service_account(found, identities=identities)
        case HubService():
            return _service(found)
    raise AssertionError(f"{found!r} is of no kind that goes along")


def _config_map(found: HubConfigMap) -> dict[str, Any]:
    fields = {"data": found.data, "binaryData": found.binary_data, "immutable": found.immutable}
    return _bare(found, CONFIG_MAP) | {field: value for field, value in fields.items() if value}


def _service_account(found: HubServiceAccount, *, identities: bool) -> dict[str, Any]:
    body = _bare(found, SERVICE_ACCOUNT, labels=True)
    said = found.metadata.annotations
    kept = {key: said[key] for key in CLOUD_IDENTITIES if identities and key in said}
    if kept:
        body["metadata"]["annotations"] = kept
    if found.automount_service_account_token is not None:
        body["automountServiceAccountToken"] = found.automount_service_account_token
    if found.image_pull_secrets:
        body["imagePullSecrets"] = [dict(each) for each in found.image_pull_secrets]
    return body


def _service(found: HubService) -> dict[str, Any]:
    spec = {key: value for key, value in found.spec.items() if key not in _OF_A_CLUSTER}
    if spec.get("clusterIP") != "None":
        spec.pop("clusterIP", None)
    if "ports" in spec:
        spec["ports"] = [
            {key: value for key, value in port.items() if key != "nodePort"}
            for port in spec["ports"]
        ]
    return _bare(found, "Service", labels=True) | {"spec": spec}


def _bare(found: HubObject, kind: str, *, labels: bool = False) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": found.metadata.name}
    if labels and found.metadata.labels:
        meta["labels"] = dict(found.metadata.labels)
    body = {"apiVersion": "v1", "kind": kind, "metadata": meta}
    strip(body)
    return body
