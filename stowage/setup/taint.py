"""`stowage taint`, `cordon` and `uncordon`: a MemberCluster is marked as kubectl marks a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from crds.fields.labels import TaintEffect
from crds.names import ANNOTATION_DRAINED, TAINT_DRAIN
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.errors import ConfigurationError, NotFound, StowageError
from machinery.types.taints import Taint
from stowage.console.terminal import say
from stowage.hub import edit, member_cluster, no_such_cluster


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


async def cordon(hub: ApiClient, names: Sequence[str], *, wanted: bool) -> None:
    """Cordon these clusters, or with `wanted` False uncordon them.

    A cluster that the hub does not know, or that may not be written, does not keep the others back.
    Raises an ExceptionGroup of what failed.
    """
    faults: list[Exception] = []
    for name in names:
        try:
            say(
                f"membercluster.{MEMBER_CLUSTERS.group}/{name} {await _cordoned(hub, name, wanted)}"
            )
        except StowageError as e:
            faults.append(e)
    if faults:
        raise ExceptionGroup("some clusters stay as they were", faults)


async def _cordoned(hub: ApiClient, name: str, wanted: bool) -> str:
    """Edit one cluster, and return what became of it."""
    word = "cordoned" if wanted else "uncordoned"
    already = drained = False

    def patch(stored: dict[str, Any]) -> dict[str, Any]:
        nonlocal already, drained
        spec, notes = stored.get("spec") or {}, stored["metadata"].get("annotations") or {}
        already = bool(spec.get("unschedulable")) == wanted
        drained = any(each.get("key") == TAINT_DRAIN for each in spec.get("taints") or ())
        # From now on the cordon is this person's, and `drain --undo` leaves it as it is.
        ours = {"annotations": {ANNOTATION_DRAINED: None}} if ANNOTATION_DRAINED in notes else {}
        changed = {} if already else {"unschedulable": wanted}
        return {"metadata": ours, "spec": changed} if ours or changed else {}

    await member_cluster(hub, name)  # which tells an unknown one
    await edit(hub, MEMBER_CLUSTERS, name, patch)
    told = f"already {word}" if already else word
    if drained and not wanted:
        return f"{told}; its drain goes on: `stowage drain {name} --undo` takes it back"
    return told
