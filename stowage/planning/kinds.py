"""Kinds that the command line names: `wl/demo`, `rsv/pool` and `wg/batch`.

Among placed objects a Workload's key holds its name alone, the key of another kind
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
    """An object that the command line names."""

    resource: Resource
    name: str

    def key(self, namespace: str) -> Key:
        """Return its key among placed objects."""
        plain = self.resource == WORKLOADS
        return (namespace, self.name if plain else f"{self.resource.plural}/{self.name}")

    def missing(self, namespace: str) -> str:
        return f"there is no {self.resource.kind} {namespace}/{self.name}"


def titled(key: Key) -> str:
    """Return a key as people read it: `shop/demo`, `shop/rsv/pool`."""
    namespace, (plural, slash, name) = key[0], key[1].rpartition("/")
    return "/".join(
        filter(None, (namespace, _BY_PLURAL.get(plural, plural) if slash else "", name))
    )


def told(record: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return a decision's record with the object's own name, and its kind."""
    named = {"namespace": record["namespace"], "name": record["name"].rpartition("/")[2]}
    return {**named, "kind": kind, **{k: v for k, v in record.items() if k not in named}}


def headed(record: Mapping[str, Any]) -> str:
    """Return the title of the object of a record that `told` made."""
    found = [r for r in SHORT.values() if r.kind == record["kind"]]
    resource = found[0] if found else WORKLOADS
    return titled(Reference(resource, record["name"]).key(record["namespace"]))
