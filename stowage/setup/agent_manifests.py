"""What runs on a member in mode Pull, and its rights there.

The agent writes the member as the account that `join` makes for the propagator
(`stowage.setup.member_rights`), by tokens that its own account may ask for. So its rights are those
of mode Push, and a switch between the modes changes none. Its own account beside that reads and
writes the Secret with its credential, tells Events, and changes the image of its own Deployment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from crds.names import AGENT, LABEL_TENANT
from machinery.types.pull import HubFacts
from propagator.credentials import agent_secret, credentials
from propagator.credentials.accounts import MEMBER_ACCOUNT, RBAC_GROUP, binding, service_account
from propagator.credentials.credentials import PodSecurity, Rights
from stowage.setup import member_rights

Manifest = dict[str, Any]

HTTP_PORT = 10252
ANNOTATION_INVITATION = f"{LABEL_TENANT.partition('/')[0]}/invitation"
"""On the pods: a digest of the invitation, with which a new one starts the agent anew."""


def rights(home: str) -> list[Manifest]:
    """Return what `join` makes there by default, in an order for `kubectl apply`."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}},
        member_rights.placeholder_class(),
        # Before the account that they bound.
        *member_rights.maker_policy(home, PodSecurity.BASELINE),
        *member_rights.narrow(home),
        *member_rights.maker(home),
    ]


def secret_data(
    facts: HubFacts,
    *,
    namespace: str,
    invitation: str,
    proxy: str = "",
    narrow: bool = True,
    pod_security: PodSecurity = PodSecurity.BASELINE,
) -> dict[str, str]:
    """Return what the Secret of the agent says; `namespace` is the member's on the hub."""
    return {
        agent_secret.UID: facts.uid,
        agent_secret.SERVERS: "\n".join(facts.servers),
        agent_secret.CA: facts.ca,
        agent_secret.NAMESPACE: namespace,
        agent_secret.INVITATION: invitation,
        agent_secret.PROXY: proxy,
        credentials.RIGHTS: str(Rights.NARROW if narrow else Rights.CLUSTER),
        credentials.POD_SECURITY: str(pod_security),
    }


def agent(home: str, *, image: str, data: Mapping[str, str]) -> list[Manifest]:
    """Return the agent's account, rights, Secret and Deployment."""
    meta = {"name": AGENT, "namespace": home, "labels": {LABEL_TENANT: "true"}}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "type": "Opaque",
        "stringData": dict(data),
    }
    return [
        service_account(AGENT, home),
        {
            "apiVersion": f"{RBAC_GROUP}/v1",
            "kind": "Role",
            "metadata": meta,
            "rules": [
                _may("", "secrets", AGENT, "get", "patch"),
                _may("", "serviceaccounts/token", MEMBER_ACCOUNT, "create"),
                _may("apps", "deployments", AGENT, "get", "patch"),
                {
                    "apiGroups": ["", "events.k8s.io"],
                    "resources": ["events"],
                    "verbs": ["create", "patch"],
                },
            ],
        },
        binding(AGENT, home, role=AGENT, account=(home, AGENT), kind="Role"),
        secret,
        _deployment(home, image, data),
    ]


def _deployment(home: str, image: str, data: Mapping[str, str]) -> Manifest:
    labels = {"app": AGENT}
    digest = hashlib.blake2b(json.dumps(data, sort_keys=True).encode(), digest_size=8).hexdigest()
    probe = {"port": "http"}
    container = {
        "name": "agent",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            "agent",
            f"--namespace={home}",
            "--http-host=0.0.0.0",
            f"--http-port={HTTP_PORT}",
        ],
        "ports": [{"name": "http", "containerPort": HTTP_PORT}],
        "startupProbe": {
            "httpGet": {"path": "/healthz", **probe},
            "periodSeconds": 2,
            "timeoutSeconds": 5,
            "failureThreshold": 60,
        },
        "readinessProbe": {"httpGet": {"path": "/readyz", **probe}, "timeoutSeconds": 5},
        "livenessProbe": {
            "httpGet": {"path": "/healthz", **probe},
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": AGENT,
            "namespace": home,
            "labels": {LABEL_TENANT: "true", **labels},
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            # The old one goes on until the new one is ready: an image that cannot start ends none.
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": labels, "annotations": {ANNOTATION_INVITATION: digest}},
                "spec": {
                    "serviceAccountName": AGENT,
                    "automountServiceAccountToken": True,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": 65532,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [container],
                },
            },
        },
    }


def _may(group: str, resource: str, name: str, *verbs: str) -> Mapping[str, Any]:
    return {
        "apiGroups": [group],
        "resources": [resource],
        "resourceNames": [name],
        "verbs": list(verbs),
    }
