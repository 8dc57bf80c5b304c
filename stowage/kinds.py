"""The kinds that the command line knows by name: `KINDS`.

The key of a Workload holds its name alone, that of another placed object `<plural>/<name>`. People
read and write the short name of kubectl.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from machinery.api.resources import (
    RESERVATIONS,
    WORKLOAD_GROUPS,
    WORKLOAD_KINDS,
    WORKLOAD_POLICIES,
    WORKLOAD_QUOTAS,
    WORKLOAD_SPREADS,
    WORKLOADS,
    Resource,
)
from machinery.types.metadata import Key


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of ours.

    Args:
        short: as kubectl has it.
        named: `explain` and `history` take its objects.
        selects: its objects name clusters, by names, labels or domains.
    """

    short: str
    resource: Resource
    named: bool = False
    selects: bool = False


KINDS = (
    Kind("wl", WORKLOADS, named=True, selects=True),
    Kind("wlp", WORKLOAD_POLICIES, selects=True),
    Kind("ws", WORKLOAD_SPREADS, selects=True),
    Kind("wg", WORKLOAD_GROUPS, named=True),
    Kind("rsv", RESERVATIONS, named=True, selects=True),
    Kind("wq", WORKLOAD_QUOTAS),
    Kind("wk", WORKLOAD_KINDS),
)


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that the command line names."""

    resource: Resource
    name: str

    def key(self, namespace: str) -> Key:
        """Return its key among placed objects."""
        plain = self.resource == WORKLOADS
        return (namespace, self.name if plain else f"{self.resource.plural}/{self.name}")

    def missing(self, namespace: str) -> str:
        return f"there is no {self.resource.kind} {namespace}/{self.name}"


def reference(given: Sequence[str]) -> Reference:
    """Return the object of `wl/NAME` or `wl NAME`. Raises ValueError for anything else."""
    kind, _, name = "/".join(given).partition("/")
    word, named = kind.partition(".")[0].lower(), [each for each in KINDS if each.named]
    for each in named:
        resource = each.resource
        known = (each.short, resource.plural, resource.kind.lower())
        if word in known and re.fullmatch("[^/]+", name):
            return Reference(resource, name)
    first, *others = named
    more = "".join(f", a {each.resource.kind} as {each.short}/NAME" for each in others)
    what = f"a {first.resource.kind} as {first.short}/NAME or {first.short} NAME"
    raise ValueError(f"name {what}{more}")


def titled(key: Key) -> str:
    """Return a key as people read it: `shop/demo`, `shop/rsv/pool`."""
    namespace, (plural, slash, name) = key[0], key[1].rpartition("/")
    short = next((kind.short for kind in KINDS if kind.resource.plural == plural), plural)
    return "/".join(filter(None, (namespace, short if slash else "", name)))


def told(record: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return a decision's record with the object's own name and its kind."""
    named = {"namespace": record["namespace"], "name": record["name"].rpartition("/")[2]}
    return {**named, "kind": kind, **{k: v for k, v in record.items() if k not in named}}


def headed(record: Mapping[str, Any]) -> str:
    """Return the title of the object of such a record."""
    found = (kind.resource for kind in KINDS if kind.resource.kind == record["kind"])
    resource = next(found, WORKLOADS)
    return titled(Reference(resource, record["name"]).key(record["namespace"]))
