"""A Workload's status.overrides by cluster: a patch of the pod template, and deletion costs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from machinery.types.bounds import MESSAGE, MOST_UNITS, NAME, between, clean

MOST_COST = 2**31 - 1
"""Kubernetes keeps a deletion cost in 32 bits."""


Costs: TypeAlias = tuple[tuple[int, int], ...]
"""(deletion cost, replicas), the highest cost first; empty if pods get none."""


class _Cost(msgspec.Struct, frozen=True, gc=False):
    cost: int
    replicas: int


class _Cluster(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    deletion_costs: list[_Cost] | None = None


class _Entry(msgspec.Struct, frozen=True):
    name: str | None = None
    patch: msgspec.Raw = msgspec.Raw()
    clusters: list[_Cluster] | None = None


@dataclass(frozen=True, slots=True)
class Override:
    subset: str = ""
    patch: bytes = b""
    """A strategic merge patch of the pod template in canonical JSON."""
    costs: Costs = ()

    @property
    def digest(self) -> str:
        """Identifies the patch; empty without one."""
        return hashlib.blake2b(self.patch, digest_size=8).hexdigest() if self.patch else ""

    def merge_patch(self) -> Mapping[str, Any]:
        """Decoded at each call. Raises ValueError if malformed."""
        patch: Mapping[str, Any] = msgspec.json.decode(self.patch) if self.patch else {}
        return patch


NOTHING = Override()


class Overrides:
    """The overrides of one Workload, by cluster; the first entry for a cluster counts.

    `fault` says why they cannot be read; they are empty then.
    """

    def __init__(self, raw: bytes) -> None:
        self.fault = ""
        self._by_cluster: dict[str, Override] = {}
        if not raw:
            return
        try:
            for entry in _entries.decode(raw) or ():
                self._take(entry)
        except (ValueError, RecursionError) as e:
            self._by_cluster.clear()
            self.fault = clean(f"status.overrides cannot be read: {e}", MESSAGE)

    def of(self, cluster: str) -> Override:
        """NOTHING for a cluster without one."""
        return self._by_cluster.get(cluster, NOTHING)

    def differing(self, other: Overrides) -> set[str]:
        named = {*self._by_cluster, *other._by_cluster}
        differ = {name for name in named if self.of(name) != other.of(name)}
        return named if self.fault != other.fault else differ

    def with_costs(self) -> list[str]:
        return [name for name, override in self._by_cluster.items() if override.costs]

    def _take(self, entry: _Entry) -> None:
        patch, subset = _one_spelling(entry.patch), clean(entry.name or "", NAME)
        for cluster in entry.clusters or ():
            costs = sorted(map(_bounded, cluster.deletion_costs or ()), reverse=True)
            self._by_cluster.setdefault(cluster.name, Override(subset, patch, tuple(costs)))


@lru_cache(maxsize=256)
def overrides_of(raw: bytes) -> Overrides:
    """Cached: each report decodes its Workload again."""
    return Overrides(raw)


def _one_spelling(raw: msgspec.Raw) -> bytes:
    # A patch may be JSON in a string: a merge patch of a status would lose each null in it.
    patch = msgspec.json.decode(raw) if memoryview(raw) else None
    if isinstance(patch, str):
        with suppress(ValueError, RecursionError):  # a malformed patch is reported when it is used
            patch = msgspec.json.decode(patch)
    return msgspec.json.encode(patch, order="deterministic") if patch else b""


def _bounded(cost: _Cost) -> tuple[int, int]:
    return between(-MOST_COST, cost.cost, MOST_COST), between(0, cost.replicas, MOST_UNITS)


_entries = msgspec.json.Decoder(list[_Entry] | None)
