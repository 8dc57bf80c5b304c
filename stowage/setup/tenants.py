"""Tenants: the namespaces of the hub in which both processes have further rights.

In a tenant the propagator may read the Secrets and other objects that Workloads bring along, and
the controller may make and delete the Workloads that keep the room of Reservations. Two
RoleBindings give these rights, or two ClusterRoleBindings in all namespaces (`deploy/wide.yaml`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from crds.fields.dependencies import Dependencies
from crds.names import forbidden_namespace
from crds.reservation import Hold
from machinery.api.client import ApiClient
from machinery.api.resources import (
    MEMBER_CLUSTERS,
    NAMESPACES,
    RESERVATIONS,
    ROLE_BINDINGS,
    WORKLOADS,
    Resource,
)
from machinery.api.responses import PageHead, decode
from machinery.api.verbs import PAGE
from machinery.errors import NotFound, StowageError
from machinery.types.metadata import Object
from propagator.types.cluster import MemberCluster
from stowage.console import output
from stowage.setup.install import DEFAULTS, apply_one, fills_in_defaults, wide

Say = Callable[[str], object]
T = TypeVar("T")
Manifest = dict[str, Any]

MANAGER = "stowage-tenant"
_RBAC = "rbac.authorization.k8s.io"
_CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    _RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
SECRETS_ROLE = "stowage-propagator-tenant"
NAMED = 10
"""The number of namespaces that one line of output names."""


@dataclass(kw_only=True)
class Tenant:
    """A namespace that is a tenant, or has objects that need one."""

    namespace: str
    tenant: bool = False
    workloads: int = 0
    """Workloads that bring Secrets along, or what their pods name."""
    reservations: int = 0
    """Reservations with `hold: Member`."""
    clusters: int = 0
    """MemberClusters that refer to a Secret there."""


@dataclass(kw_only=True)
class Tenants:
    """Tenants and namespaces that should be, by name."""

    everywhere: bool
    """Whether every namespace is a tenant."""
    namespaces: list[Tenant]

    @property
    def lacking(self) -> list[str]:
        """The namespaces in which objects wait for the rights of a tenant."""
        return [each.namespace for each in self.namespaces if not each.tenant]


def bindings(namespace: str, *, home: str) -> list[Manifest]:
    """Return the bindings that make a namespace a tenant."""
    return [
        {
            **each,
            "kind": ROLE_BINDINGS.kind,
            "metadata": {**each["metadata"], "namespace": namespace},
        }
        for each in wide(home)
        if each["metadata"]["name"] != DEFAULTS
    ]


async def settle(hub: ApiClient, *, home: str, all_namespaces: bool | None, say: Say) -> None:
    """Bind what this hub needs, delete bindings that it does not need, and report what waits.

    Runs after an install. `all_namespaces` None leaves the tenants as they are.
    """
    completes = await fills_in_defaults(hub)
    for each in wide(home):
        name = each["metadata"]["name"]
        if name == DEFAULTS and not completes:
            await apply_one(hub, each, manager="stowage-install")
            say(f"{each['kind']} {name} applied")
        elif (name == DEFAULTS or all_namespaces is False) and await _deleted(
            hub, CLUSTER_ROLE_BINDINGS, name
        ):
            say(f"{each['kind']} {name} deleted: what it gave is not needed")
    lacking = (await found(hub, home=home)).lacking
    if lacking:
        say(
            f"{_some(lacking)} no tenant, but something there needs one: Workloads that bring "
            "Secrets or other objects along, Reservations with hold: Member, or the Secret of a "
            "MemberCluster; "
            "these wait, and what runs stays: "
            f"`stowage tenant add {' '.join(lacking[:NAMED])}`, or install with --all-namespaces"
        )


async def add(hub: ApiClient, namespaces: Sequence[str], *, home: str, say: Say) -> None:
    """Make these namespaces tenants. Raises StowageError before anything is written."""
    for namespace in namespaces:
        refuse(namespace)
        if await hub.find(NAMESPACES, namespace) is None:
            raise StowageError(f"the hub has no namespace {namespace}: create it, then add it")
    if await hub.find(_CLUSTER_ROLES, SECRETS_ROLE) is None:
        raise StowageError(
            f"the hub has no ClusterRole {SECRETS_ROLE}: run `stowage install` of this version"
        )
    for namespace in namespaces:
        for each in bindings(namespace, home=home):
            await apply_one(hub, each, manager=MANAGER)
        say(f"namespace {namespace} is a tenant")


async def remove(hub: ApiClient, namespaces: Sequence[str], *, home: str, say: Say) -> None:
    """Make these namespaces tenants no more; objects on members stay."""
    for namespace in namespaces:
        gone = [
            await _deleted(hub, ROLE_BINDINGS, each["metadata"]["name"], namespace=namespace)
            for each in bindings(namespace, home=home)
        ]
        say(f"namespace {namespace} {'is no tenant any more' if any(gone) else 'was no tenant'}")
    if await hub.find(CLUSTER_ROLE_BINDINGS, SECRETS_ROLE) is not None:
        say("every namespace still is one, as the hub was installed with --all-namespaces")


def refuse(namespace: str) -> None:
    """Raise StowageError for a namespace of the cluster's own, or ours."""
    if forbidden_namespace(namespace):
        raise StowageError(f"{namespace} is never a tenant: Workloads do not go there")


async def found(hub: ApiClient, *, home: str) -> Tenants:
    """Return all namespaces that are tenants, or have objects that need one."""
    those: dict[str, Tenant] = defaultdict(lambda: Tenant(namespace=""))
    selector = f"metadata.name={SECRETS_ROLE}"
    async for binding in _each(hub, ROLE_BINDINGS, Object, field_selector=selector):
        those[binding.metadata.namespace].tenant = True
    async for workload in _each(hub, WORKLOADS, _Stored):
        if workload.spec.resources or workload.spec.dependencies == Dependencies.FOLLOW.value:
            those[workload.metadata.namespace].workloads += 1
    async for reservation in _each(hub, RESERVATIONS, _Stored):
        if reservation.spec.hold == Hold.MEMBER.value:
            those[reservation.metadata.namespace].reservations += 1
    async for cluster in _each(hub, MEMBER_CLUSTERS, MemberCluster):
        reference = cluster.spec.secret_ref
        if reference is not None and reference.namespace != home:
            those[reference.namespace].clusters += 1
    for name, tenant in those.items():
        tenant.namespace = name
    everywhere = await hub.find(CLUSTER_ROLE_BINDINGS, SECRETS_ROLE) is not None
    for tenant in those.values():
        tenant.tenant |= everywhere
    return Tenants(everywhere=everywhere, namespaces=[those[name] for name in sorted(those)])


class _SpecFields(msgspec.Struct):
    resources: list[msgspec.Raw] = []
    """Of a Workload."""
    dependencies: str = ""
    """Of a Workload."""
    hold: str = ""
    """Of a Reservation."""


class _Stored(Object, frozen=True):
    spec: _SpecFields = msgspec.field(default_factory=_SpecFields)


async def _each(
    hub: ApiClient, resource: Resource, type_: type[T], *, field_selector: str | None = None
) -> AsyncIterator[T]:
    """Yield the objects with these fields alone, page by page: there may be very many."""
    page = msgspec.defstruct("Page", [("items", list[type_] | None, None)], bases=(PageHead,))  # type: ignore[valid-type]  # it is one at run time
    decoder = msgspec.json.Decoder(page)
    async for answer in hub.pages(resource, limit=PAGE, field_selector=field_selector):
        for each in decode(answer, decoder).items or ():
            yield each


async def _deleted(
    hub: ApiClient, resource: Resource, name: str, *, namespace: str | None = None
) -> bool:
    with suppress(NotFound):
        await hub.delete(resource, name, namespace=namespace)
        return True
    return False


def _some(namespaces: Sequence[str]) -> str:
    named = output.named(namespaces, NAMED)
    return f"namespace {named} is" if len(namespaces) == 1 else f"namespaces {named} are"
