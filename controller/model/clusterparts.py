"""Small parts of a MemberCluster that are read through it alone: see `controller.model.objects`."""

from __future__ import annotations

import msgspec


class SecretRef(msgspec.Struct, frozen=True):
    """Where the cluster's Secret lies."""

    name: str = ""
    namespace: str = ""


class NamespaceRule(msgspec.Struct, frozen=True):
    """Globs of the target namespaces that the cluster takes."""

    allow: list[str] = msgspec.field(default_factory=lambda: ["*"])


class MemberNamespaces(msgspec.Struct, frozen=True):
    """Target namespaces that the member takes; `given` are the only ones, where it is told."""

    given: list[str] | None = None
    refused: list[str] = []

    def takes(self, namespace: str) -> bool:
        """Whether it is not known to refuse that one."""
        among = self.given is None or namespace in self.given
        return among and namespace not in self.refused


class Reliability(msgspec.Struct, frozen=True, rename="camel"):
    """How often the cluster answers."""

    ready_percent: int = 100
