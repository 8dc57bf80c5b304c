"""Joining a cluster to the fleet, and taking it out again.

Joining makes a service account on the member with only the rights that the propagator uses, and
puts its kubeconfig into a Secret on the hub, which alone registers it. Nothing runs on the member.

The rights are those for the kinds that a Workload may hold by itself, and for Roles (Kubernetes
allows to hand on only the rights that one has, so this lets nobody climb). Further kinds, such as
custom ones or what comes along in `manifests`, are named with `--allow`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import yaml

from crds.names import LABEL_REGISTER
from machinery.errors import ConfigurationError, NotFound, StowageError
from machinery.kubeconfig import Connection
from machinery.resources import MEMBER_CLUSTERS, NAMESPACES, SECRETS, WORKLOADS, Resource
from machinery.transport import ApiClient
from stowage.install import ensure_namespace

ACCOUNT = "stowage-propagator"
IDENTITY_ANNOTATION = "stowage.dev/cluster-uid"
"""The UID of the member's kube-system: tells two clusters of one name apart."""
READY_SECONDS = 30.0
TOKEN_SECONDS = 30.0

_WRITE = ["get", "list", "watch", "create", "update", "patch", "delete"]
_READ = ["get", "list", "watch"]
RULES: Sequence[Mapping[str, Any]] = (
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": _READ},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": [*_READ, "create", "patch"]},
    {
        "apiGroups": [""],
        "resources": ["configmaps", "secrets", "serviceaccounts", "services"],
        "verbs": _WRITE,
    },
    {
        "apiGroups": ["apps"],
        "resources": ["daemonsets", "deployments", "replicasets", "statefulsets"],
        "verbs": _WRITE,
    },
    {"apiGroups": ["batch"], "resources": ["cronjobs", "jobs"], "verbs": _WRITE},
    {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["rolebindings", "roles"],
        "verbs": _WRITE,
    },
)


@dataclass(frozen=True, kw_only=True)
class Join:
    """What to join.

    `allow` names further kinds as `group/resource`, those of the core group as `resource`.
    `impersonate` lets the propagator act as the service accounts of target namespaces
    (`stowage propagator --impersonate`).
    """

    name: str
    namespace: str
    member: Connection
    labels: Mapping[str, str] = field(default_factory=dict)
    allow: Sequence[str] = ()
    impersonate: bool = False


@dataclass(frozen=True, kw_only=True)
class Unjoin:
    """What to take out; with `member`, what joining made there goes, too."""

    name: str
    namespace: str
    member: Connection | None = None
    force: bool = False


async def join(hub: ApiClient, plan: Join, *, say: Callable[[str], object]) -> None:
    """Join, and wait until the cluster is Ready. Raises StowageError saying what to do."""
    async with ApiClient(plan.member, name=plan.name) as member:
        identity = (await member.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
        await _refuse_another(hub, plan, identity)
        await ensure_namespace(member, plan.namespace)
        say(f"{plan.name}: Namespace {plan.namespace} is there")
        for manifest in account(plan.namespace, plan.allow, impersonate=plan.impersonate):
            await _apply(member, manifest)
            say(f"{plan.name}: {manifest['kind']} {manifest['metadata']['name']} is there")
        token = await _token(member, plan.namespace)
    await ensure_namespace(hub, plan.namespace)
    await _apply(hub, registration(plan, token, identity))
    say(f"hub: Secret {plan.namespace}/{plan.name} is there, it registers the cluster")
    await _ready(hub, plan.name, say)
    # Outlives the Secret, so that the name stays this cluster's until it is unjoined.
    mark = {"metadata": {"annotations": {IDENTITY_ANNOTATION: identity}}}
    await hub.merge_patch(MEMBER_CLUSTERS, plan.name, mark)


async def unjoin(hub: ApiClient, plan: Unjoin, *, say: Callable[[str], object]) -> None:
    """Take a cluster out. Raises ConfigurationError while Workloads have shares there."""
    holders = await _holders(hub, plan.name)
    if holders and not plan.force:
        raise ConfigurationError(
            f"{plan.name} still runs {', '.join(holders[:5])}{' …' if len(holders) > 5 else ''}: "
            "delete or move them, or say --force to leave their objects behind there"
        )
    if holders:
        say(f"{plan.name}: the objects of {len(holders)} Workloads are left behind there")
    removed = [
        await _remove(hub, resource, plan.name, namespace=namespace, where="hub", say=say)
        for resource, namespace in ((SECRETS, plan.namespace), (MEMBER_CLUSTERS, None))
    ]
    if not any(removed):
        raise ConfigurationError(f"the hub knows no cluster {plan.name}: see `kubectl get mc`")
    if plan.member is None:
        say(f"{plan.name}: its service account stays; --member-kubeconfig removes it as well")
        return
    async with ApiClient(plan.member, name=plan.name) as member:
        for manifest in reversed(account(plan.namespace)):
            resource = await member.resource(manifest["apiVersion"], manifest["kind"])
            meta = manifest["metadata"]
            namespace = meta.get("namespace")
            await _remove(
                member, resource, meta["name"], namespace=namespace, where=plan.name, say=say
            )


def account(
    namespace: str, allow: Sequence[str] = (), *, impersonate: bool = False
) -> list[dict[str, Any]]:
    """The service account on a member, its rights, and the Secret that holds its token."""
    rbac = "rbac.authorization.k8s.io"
    more = [
        {"apiGroups": [group], "resources": [resource], "verbs": _WRITE}
        for group, _, resource in (text.rpartition("/") for text in allow)
    ]
    if impersonate:
        more.append({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]})
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": namespace},
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": ACCOUNT},
            "rules": [*RULES, *more],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": ACCOUNT,
                "namespace": namespace,
                "annotations": {"kubernetes.io/service-account.name": ACCOUNT},
            },
            "type": "kubernetes.io/service-account-token",
        },
    ]


def registration(plan: Join, token: str, identity: str) -> dict[str, Any]:
    """The Secret that registers a cluster by itself."""
    return secret(plan.name, plan.namespace, _kubeconfig(plan.member, token), plan.labels) | {
        "metadata": {
            "name": plan.name,
            "namespace": plan.namespace,
            "labels": {**plan.labels, LABEL_REGISTER: "true"},
            "annotations": {IDENTITY_ANNOTATION: identity},
        }
    }


def secret(name: str, namespace: str, kubeconfig: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """A registration Secret around a kubeconfig."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {**labels, LABEL_REGISTER: "true"},
        },
        "stringData": {"kubeconfig": kubeconfig},
    }


async def _apply(client: ApiClient, manifest: Mapping[str, Any]) -> None:
    resource = await client.resource(manifest["apiVersion"], manifest["kind"])
    meta = manifest["metadata"]
    await client.apply(
        resource,
        manifest,
        name=meta["name"],
        namespace=meta.get("namespace"),
        field_manager="stowage-join",
        force=True,
    )


async def _remove(
    client: ApiClient,
    resource: Resource,
    name: str,
    *,
    namespace: str | None,
    where: str,
    say: Callable[[str], object],
) -> bool:
    """Delete one object; whether there was one."""
    try:
        await client.delete(resource, name, namespace=namespace)
    except NotFound:
        return False
    say(f"{where}: {resource.kind} {name} removed")
    return True


async def _refuse_another(hub: ApiClient, plan: Join, identity: str) -> None:
    """Raise ConfigurationError when the name is, or may be, that of another cluster."""
    for resource, namespace in ((SECRETS, plan.namespace), (MEMBER_CLUSTERS, None)):
        with suppress(NotFound):
            found = await hub.get(resource, plan.name, namespace=namespace)
            known = found["metadata"].get("annotations", {}).get(IDENTITY_ANNOTATION)
            if known == identity:
                return
            whose = "another cluster" if known else "a cluster that was registered without `join`"
            raise ConfigurationError(
                f"{plan.name} is the name of {whose} ({resource.kind} {plan.name} on the hub): "
                f"choose another name, or run `stowage unjoin {plan.name}` first"
            )


async def _token(member: ApiClient, namespace: str) -> str:
    """The token that the member's controller manager writes into the Secret."""
    deadline = asyncio.get_running_loop().time() + TOKEN_SECONDS
    while True:
        found = await member.get(SECRETS, ACCOUNT, namespace=namespace)
        token = found.get("data", {}).get("token")
        if token:
            return base64.b64decode(token).decode()
        if asyncio.get_running_loop().time() > deadline:
            raise StowageError(
                f"Secret {namespace}/{ACCOUNT} on the member got no token within "
                f"{TOKEN_SECONDS:.0f} s: is its kube-controller-manager running?"
            )
        await asyncio.sleep(0.2)


def _kubeconfig(member: Connection, token: str) -> str:
    cluster: dict[str, Any] = {"server": member.server}
    if member.ca:
        cluster["certificate-authority-data"] = base64.b64encode(member.ca).decode()
    if member.tls_server_name:
        cluster["tls-server-name"] = member.tls_server_name
    if member.proxy_url:
        cluster["proxy-url"] = member.proxy_url
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "member",
        "clusters": [{"name": "member", "cluster": cluster}],
        "users": [{"name": ACCOUNT, "user": {"token": token}}],
        "contexts": [{"name": "member", "context": {"cluster": "member", "user": ACCOUNT}}],
    }
    return yaml.safe_dump(document, sort_keys=False)


async def _ready(hub: ApiClient, name: str, say: Callable[[str], object]) -> None:
    deadline = asyncio.get_running_loop().time() + READY_SECONDS
    last = "the propagator has not looked at it: is it running?"
    while asyncio.get_running_loop().time() < deadline:
        with suppress(NotFound):
            status = (await hub.get(MEMBER_CLUSTERS, name)).get("status", {})
            for condition in status.get("conditions", ()):
                if condition["type"] == "Ready" and condition["status"] == "True":
                    say(f"{name} is Ready: {status.get('version')}, {status.get('provider')}")
                    return
                last = f"{condition['reason']}: {condition['message']}"
        await asyncio.sleep(0.2)
    raise StowageError(f"{name} is registered, but not Ready after {READY_SECONDS:.0f} s: {last}")


async def _holders(hub: ApiClient, name: str) -> list[str]:
    listed = await hub.list(WORKLOADS)
    return [
        f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        for each in listed["items"]
        if any(p["cluster"] == name for p in each.get("status", {}).get("placements", []))
    ]
