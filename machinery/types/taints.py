"""Taints of clusters and their tolerations, as Kubernetes has them for nodes."""

from __future__ import annotations

import msgspec


class Taint(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    key: str
    effect: str
    value: str = ""

    @property
    def text(self) -> str:
        """`<key>[=<value>]:<effect>`, as kubectl writes it."""
        return f"{self.key}{'=' if self.value else ''}{self.value}:{self.effect}"


class Toleration(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """An empty key with Exists tolerates all taints, an empty effect any effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None
    """None: for ever."""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return not self.key or self.key == taint.key
        return self.key == taint.key and self.value == taint.value
