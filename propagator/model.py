"""Workloads and the hub's Secrets as the apply side reads them.

Templates stay plain mappings and pass through whole: what we do not know must reach the member.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from machinery.objects import Object

ANNOTATION_KINDS = "stowage.dev/kinds"
"""On a Workload of the hub: kinds beyond the usual ones that it may have put on members."""
ANNOTATION_ORDINALS = "stowage.dev/ordinals"
"""On a Workload of the hub: the first ordinal of its StatefulSet on each cluster."""


class ResourceRef(msgspec.Struct, frozen=True, rename="camel"):
    """A Secret that travels along."""

    name: str
    secret_name: str = ""

    @property
    def secret(self) -> str:
        """The name of the Secret that is meant."""
        return self.secret_name or self.name


class Placement(msgspec.Struct, frozen=True):
    """A share."""

    cluster: str
    replicas: int


class WorkloadSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What is to be pushed."""

    replicas: int | None = None
    target_namespace: str = ""
    target_deployment: dict[str, Any] | None = None
    target_service: dict[str, Any] | None = None
    template: dict[str, Any] | None = None
    replicas_path: str = ""
    manifests: list[dict[str, Any]] = []
    resources: list[ResourceRef] = []
    adoption: str = "Never"


class WorkloadStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What the scheduler decided, and what we said last."""

    state: str = ""
    desired: int | None = None
    placements: list[Placement] = []
    clusters: list[dict[str, Any]] = []
    ready: int | None = None
    ready_summary: str = ""
    cluster_summary: str = ""
    service_external_ip: str | None = msgspec.field(default=None, name="serviceExternalIP")
    conditions: list[dict[str, Any]] = []


class Workload(Object, frozen=True):
    """Something to run on the clusters that status.placements names."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def uid(self) -> str:
        """Its UID, which marks everything that it owns on members."""
        return self.metadata.uid

    @property
    def owner(self) -> str:
        """`namespace/name`, the value of the owner annotation."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def namespace(self) -> str:
        """The namespace on the members."""
        return self.spec.target_namespace or self.metadata.namespace

    @property
    def template(self) -> Mapping[str, Any]:
        """The object to run, of whatever kind."""
        return self.spec.target_deployment or self.spec.template or {}

    @property
    def template_kind(self) -> str:
        """The kind of the object to run."""
        return str(self.template.get("kind", ""))

    @property
    def placements(self) -> dict[str, int]:
        """Units by cluster."""
        return {share.cluster: share.replicas for share in self.status.placements}

    @property
    def secrets(self) -> list[str]:
        """The names of the Secrets that travel along."""
        return [resource.secret for resource in self.spec.resources]

    def kinds(self) -> Iterator[tuple[str, str]]:
        """(apiVersion, kind) of everything that it renders."""
        for body in (self.template, self.spec.target_service, *self.spec.manifests):
            if body:
                yield str(body.get("apiVersion", "")), str(body.get("kind", ""))

    def remembered(self) -> set[tuple[str, str]]:
        """The further kinds that its annotation names."""
        noted = self.metadata.annotations.get(ANNOTATION_KINDS, "")
        pairs = (text.rpartition("/") for text in noted.split(",") if text)
        return {(version, kind) for version, _, kind in pairs}

    def ordinals(self) -> dict[str, int]:
        """First ordinals by cluster; nothing where somebody spoilt the annotation."""
        try:
            noted = json.loads(self.metadata.annotations.get(ANNOTATION_ORDINALS, "{}"))
            return {str(name): int(first) for name, first in noted.items()}
        except (ValueError, AttributeError, TypeError):
            return {}


class HubSecret(Object, frozen=True):
    """A Secret of the hub, its values as they lie there (base64); never shown."""

    type: str = "Opaque"
    data: dict[str, str] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"HubSecret({self.metadata.namespace}/{self.metadata.name})"
