"""Kinds that the command line names: `wl/demo`, `rsv/pool`, and groups of Workloads, `wg/batch`.

Among what gets clusters Workloads have their names alone as keys, objects of other kinds
`<plural>/<name>`; people read and write the short name that kubectl has for the kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from machinery.api.resources import RESERVATIONS, WORKLOAD_GROUPS, WORKLOADS, Resource
from machinery.types.metadata import Key

SHORT: Mapping[str, Resource] = {"wl": WORKLOADS, "rsv": RESERVATIONS, "wg": WORKLOAD_GROUPS}
_BY_PLURAL = {resource.plural: short for short, resource in SHORT.items()}


@dataclass(frozen=True, slots=True)
class Reference:
    """An object, named on the command line."""

    resource: Resource
    name: str

    def key(self, namespace: str) -> Key:
        """Its key among everything that is placed, or has others placed."""
        plain = self.resource == WORKLOADS
        return (namespace, self.name if plain else f"{self.resource.plural}/{self.name}")

    def missing(self, namespace: str) -> str:
        """What is said where there is none."""
        return f"there is no {self.resource.kind} {namespace}/{self.name}"


def titled(key: Key) -> str:
    """`shop/demo`, `shop/rsv/pool`: a key as people read it."""
    namespace, (plural, slash, name) = key[0], key[1].rpartition("/")
    return "/".join(
        filter(None, (namespace, _BY_PLURAL.get(plural, plural) if slash else "", name))
    )


def told(record: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A decision's record with the object's own name, and its kind."""
    named = {"namespace": record["namespace"], "name": record["name"].rpartition("/")[2]}
    return {**named, "kind": kind, **{k: v for k, v in record.items() if k not in named}}


def headed(record: Mapping[str, Any]) -> str:
    """The object of a record that tells its kind, as people read it."""
    found = [r for r in SHORT.values() if r.kind == record["kind"]]
    resource = found[0] if found else WORKLOADS
    return titled(Reference(resource, record["name"]).key(record["namespace"]))
