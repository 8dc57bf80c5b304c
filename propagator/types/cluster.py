"""MemberCluster and Secret as the propagator keeps them: only what it reads, decoded fast.

The status stays a plain mapping, because its one reader here compares it with what it would write.
"""

from __future__ import annotations

from typing import Any

import msgspec

from crds.names import SYSTEM_NAMESPACE
from machinery.types.bounds import SECRET_BYTES
from machinery.types.metadata import Key, Object


class SecretReference(msgspec.Struct, frozen=True):
    """The Secret with the kubeconfig of a member."""

    name: str
    namespace: str = SYSTEM_NAMESPACE

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)


class NamespaceRule(msgspec.Struct, frozen=True):
    """Globs of the target namespaces that a member takes."""

    allow: tuple[str, ...] = ("*",)


class MemberClusterSpec(msgspec.Struct, rename="camel", frozen=True):
    """The fields of the spec that the propagator reads; taints and cordon are the controller's."""

    secret_ref: SecretReference | None = None
    namespaces: NamespaceRule = NamespaceRule()
    allowed_kinds: tuple[str, ...] = ()
    provider: str = ""
    version: str = ""
    former_names: tuple[str, ...] = ()


class MemberCluster(Object, frozen=True):
    spec: MemberClusterSpec = MemberClusterSpec()
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def cluster_id(self) -> str:
        """The cluster ID that is noted in the status; empty without one."""
        return str(self.status.get("clusterID") or "")


class Secret(Object, frozen=True):
    """A Secret, its values decoded from base64. Its repr never shows them."""

    data: dict[str, bytes] = msgspec.field(default_factory=dict)
    excess: int = 0
    """The size of the data where it exceeds the limit; the data is not kept then."""

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


def bounded(secret: Secret) -> Secret:
    """Drop the data of a Secret that exceeds the limit. The transform of informers of Secrets."""
    size = sum(map(len, secret.data.values()))
    if size <= SECRET_BYTES:
        return secret
    return msgspec.structs.replace(secret, data={}, excess=size)
