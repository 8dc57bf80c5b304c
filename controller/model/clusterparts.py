"""The small parts of a MemberCluster; see `controller.model.objects`."""

from __future__ import annotations

import msgspec


class SecretRef(msgspec.Struct, frozen=True):
    """The place of the cluster's Secret."""

    name: str = ""
    namespace: str = ""


class NamespaceRule(msgspec.Struct, frozen=True):
    """Globs of the target namespaces that the cluster takes."""

    allow: list[str] = msgspec.field(default_factory=lambda: ["*"])


class MemberNamespaces(msgspec.Struct, frozen=True):
    """Target namespaces that the member takes; only those `given`, where that is reported."""

    given: list[str] | None = None
    refused: list[str] = []

    def takes(self, namespace: str) -> bool:
        """Whether the member is not known to refuse the namespace."""
        among = self.given is None or namespace in self.given
        return among and namespace not in self.refused


class Reliability(msgspec.Struct, frozen=True, rename="camel"):
    """How often the cluster answers."""

    ready_percent: int = 100
