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
    """Where the way into a member lies."""

    name: str
    namespace: str = SYSTEM_NAMESPACE

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return (self.namespace, self.name)


class NamespaceRule(msgspec.Struct, frozen=True):
    """Globs of the target namespaces that a member takes."""

    allow: tuple[str, ...] = ("*",)


class MemberClusterSpec(msgspec.Struct, rename="camel", frozen=True):
    """What the propagator reads of the spec; taints and cordon are the controller's."""

    secret_ref: SecretReference | None = None
    namespaces: NamespaceRule = NamespaceRule()
    allowed_kinds: tuple[str, ...] = ()
    provider: str = ""
    version: str = ""
    former_names: tuple[str, ...] = ()


class MemberCluster(Object, frozen=True):
    """A cluster of the fleet."""

    spec: MemberClusterSpec = MemberClusterSpec()
    status: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name, which is also its session's."""
        return self.metadata.name

    @property
    def cluster_id(self) -> str:
        """The cluster that is noted on it; empty where none is."""
        return str(self.status.get("clusterID") or "")


class Secret(Object, frozen=True):
    """A Secret, its values decoded from base64. Its repr never shows them."""

    data: dict[str, bytes] = msgspec.field(default_factory=dict)
    excess: int = 0
    """The size of its data where that is more than is looked at; the data is not kept then."""

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


def bounded(secret: Secret) -> Secret:
    """As it is kept: a thousand Secrets of a megabyte are not. For informers of Secrets."""
    size = sum(map(len, secret.data.values()))
    if size <= SECRET_BYTES:
        return secret
    return msgspec.structs.replace(secret, data={}, excess=size)
