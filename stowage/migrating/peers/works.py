"""What Open Cluster Management and KubeFleet have alike: works, whose objects get an owner."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from machinery.kinds.table import profile_of
from machinery.types import conditions
from stowage.importing.pieces import Placed
from stowage.importing.reading import dig
from stowage.migrating.peer import Json


def manifests_in(spec: Any) -> Iterator[Json]:
    """Yield the objects that a work brings; `spec` has its `workload`."""
    for each in dig(spec, "workload", "manifests") or ():
        if isinstance(each, dict) and isinstance(each.get("metadata"), dict):
            yield each


def done(work: Json, condition: str) -> bool:
    """Whether the agent says so of the work as it is now."""
    said = conditions.find(work.get("status") or {}, condition)
    now = work["metadata"].get("generation")
    return said.get("status") == "True" and said.get("observedGeneration") == now


def replicas_of(placed: Placed, manifest: Json) -> int:
    """Return the replicas of a Workload's main object on one cluster; 1 of what has none."""
    path = str(dig(placed.body, "spec", "replicasPath") or "")
    found = profile_of(manifest.get("apiVersion"), manifest.get("kind"), path).replicas
    number = dig(manifest, *found.path.split(".")) if found is not None else None
    return number if isinstance(number, int) else 1


def owned_by(kind: str) -> Callable[[Json], Mapping[str, Any]]:
    """Return what says by which owners of a kind an object is held."""

    def held_by(body: Json) -> Mapping[str, Any]:
        owners = dig(body, "metadata", "ownerReferences") or ()
        mine = [each for each in owners if each.get("kind") == kind]
        return {"ownerReferences": mine} if mine else {}

    return held_by


def of_group(group: str, also: Collection[str] = ()) -> Callable[[str], bool]:
    """Return what says whether a mark is of a group, or of one below it."""

    def mark(key: str) -> bool:
        prefix = key.partition("/")[0]
        return key in also or prefix == group or prefix.endswith(f".{group}")

    return mark
