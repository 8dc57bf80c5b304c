"""`stowage taint`: taints of a MemberCluster, one by one, as `kubectl taint` does it for a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from crds.fields.labels import TaintEffect
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.errors import ConfigurationError, NotFound
from machinery.types.taints import Taint
from stowage.console.terminal import say
from stowage.hub import edit, no_such_cluster


@dataclass(frozen=True, slots=True)
class TaintEdit:
    """One taint to set, or to remove: of all its effects, where `effect` is empty."""

    key: str
    value: str = ""
    effect: str = ""
    remove: bool = False

    @classmethod
    def of(cls, text: str) -> TaintEdit:
        """Read `KEY[=VALUE]:EFFECT`, or `KEY[:EFFECT]-`. Raises click.UsageError."""
        remove = text.endswith("-")
        pair, _, effect = text.removesuffix("-").partition(":")
        key, _, value = pair.partition("=")
        if not key or effect not in {"", *TaintEffect} or not (effect or remove):
            effects = ", ".join(TaintEffect)
            form = f"KEY[=VALUE]:EFFECT, or KEY[:EFFECT]- to remove; effects are {effects}"
            raise click.UsageError(f"{text!r} is no taint: write {form}")
        return cls(key, value, effect, remove)

    def names(self, taint: dict[str, Any]) -> bool:
        return taint["key"] == self.key and self.effect in ("", taint["effect"])

    def on(self, taints: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the taints after it; the others keep their place."""
        left = [each for each in taints if not self.names(each)]
        if self.remove:
            return left
        value = {"value": self.value} if self.value else {}
        return [*left, {"key": self.key, **value, "effect": self.effect}]


async def taint(hub: ApiClient, name: str, edits: Sequence[TaintEdit]) -> None:
    """Set and remove taints in one write.

    Raises ConfigurationError, and Conflict as `edit` does.
    """

    def patch(stored: dict[str, Any]) -> dict[str, Any]:
        before = (stored.get("spec") or {}).get("taints") or []
        after = list(before)
        for each in edits:
            if each.remove and not any(map(each.names, after)):
                effect = f":{each.effect}" if each.effect else ""
                raise ConfigurationError(f"{name} has no taint {each.key}{effect}")
            after = each.on(after)
        return {"spec": {"taints": after}} if after != before else {}

    try:
        found = await edit(hub, MEMBER_CLUSTERS, name, patch)
    except NotFound as e:
        raise await no_such_cluster(hub, name) from e
    left = (found.get("spec") or {}).get("taints") or []
    texts = [each.text for each in msgspec.convert(left, list[Taint])]
    say(f"{name}: taints {', '.join(texts) or 'none'}")
