"""MemberCluster and Secret with the fields that the propagator reads."""

from __future__ import annotations

import base64
from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec

from crds.membercluster import MemberClusterCondition, MemberMode
from crds.names import (
    ANNOTATION_INVITED,
    ANNOTATION_MEMBER_NAMESPACE,
    ANNOTATION_REVOKED,
    ANNOTATION_UNJOIN,
    FORCED_DRAIN,
    GIVEN_UP,
    MEMBER_NAMESPACE_PREFIX,
    TAINT_DRAIN,
    TAINT_OUT_OF_SERVICE,
)
from machinery.overrides.variables import ClusterFacts
from machinery.types import api, conditions
from machinery.types.bounds import SECRET_BYTES
from machinery.types.metadata import Key, Object


class SecretReference(api.SecretReference, frozen=True):
    @property
    def key(self) -> Key:
        return (self.namespace, self.name)


class ClusterEndpoint(api.ClusterEndpoint, frozen=True):
    @property
    def data(self) -> dict[str, bytes]:
        """As keys of a registration Secret."""
        data = {"endpoint": self.server.encode()}
        if self.certificate_authority_data:
            with suppress(ValueError):  # the schema lets base64 in alone
                data["clusterCA"] = base64.b64decode(self.certificate_authority_data)
        return data


class MemberClusterSpec(api.MemberClusterSpec, frozen=True):
    secret_ref: SecretReference | None = None
    endpoint: ClusterEndpoint | None = None


class MemberCluster(Object, frozen=True):
    spec: MemberClusterSpec = MemberClusterSpec()
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def facts(self) -> ClusterFacts:
        meta, spec = self.metadata, self.spec
        return ClusterFacts.of(meta.name, meta.labels, provider=spec.provider, version=spec.version)

    @property
    def given_up(self) -> bool:
        """`stowage unjoin` removes it from the fleet. The propagator then does nothing there."""
        return self.metadata.annotations.get(ANNOTATION_UNJOIN) == GIVEN_UP

    @property
    def out_of_service(self) -> bool:
        """Whether an operator declared that nothing runs there any more."""
        return any(each.key == TAINT_OUT_OF_SERVICE for each in self.spec.taints)

    @property
    def forced_drain(self) -> bool:
        drain = (TAINT_DRAIN, FORCED_DRAIN)
        return any((each.key, each.value) == drain for each in self.spec.taints)

    @property
    def drains(self) -> bool:
        return any(each.key == TAINT_DRAIN for each in self.spec.taints)

    @property
    def inventory_trouble(self) -> str:
        """Empty if its inventory calls it healthy."""
        found = conditions.find(self.status, MemberClusterCondition.INVENTORY_UNHEALTHY)
        return str(found.get("message", "")) if found.get("status") == "True" else ""

    @property
    def pulls(self) -> bool:
        """Whether an agent on the member connects to the hub."""
        return self.spec.mode == MemberMode.PULL

    @property
    def member_namespace(self) -> str:
        """The namespace in which its agent is served; empty without one."""
        named = self.metadata.annotations.get(ANNOTATION_MEMBER_NAMESPACE, "")
        return named if named.startswith(MEMBER_NAMESPACE_PREFIX) else ""

    @property
    def invited(self) -> str:
        """When its invitation ends; empty while none is open."""
        return self.metadata.annotations.get(ANNOTATION_INVITED, "")

    @property
    def revoked(self) -> bool:
        """Whether the credential of its agent was ended."""
        return ANNOTATION_REVOKED in self.metadata.annotations

    @property
    def cluster_id(self) -> str:
        return str(self.status.get("clusterID") or "")


def lean(cluster: MemberCluster) -> MemberCluster:
    if isinstance(listed := cluster.status.get("kinds"), list):
        cluster.status["kinds"] = shared_kinds(tuple(listed))
    return cluster


@lru_cache(maxsize=1024)
def shared_kinds(kinds: tuple[str, ...]) -> list[str]:
    return list(kinds)


class Secret(Object, frozen=True):
    """Values are decoded from base64. The repr never shows them."""

    data: dict[str, bytes] = msgspec.field(default_factory=dict)
    excess: int = 0
    """The size of data above the limit, which is dropped; else 0."""

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


def bounded(secret: Secret) -> Secret:
    """The transform of informers of Secrets."""
    size = sum(map(len, secret.data.values()))
    if size <= SECRET_BYTES:
        return secret
    return msgspec.structs.replace(secret, data={}, excess=size)
