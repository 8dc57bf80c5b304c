"""Where specs of our kinds name clusters: by name, by label, as a value or as a domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crds.names import LABEL_CLUSTER

Json = Mapping[str, Any]

_BODIES = frozenset({"template", "targetDeployment", "targetService", "manifests"})
"""Fields that go to members as they are; labels in them are not those of clusters."""


def clusters_named(spec: Any, path: str = "spec") -> Iterator[tuple[str, str]]:
    """Yield each field of a spec that holds the name of a cluster, and that name."""
    if isinstance(spec, list):
        for index, each in enumerate(spec):
            yield from clusters_named(each, f"{path}[{index}]")
    elif isinstance(spec, Mapping):
        yield from ((f"{path}{field}", name) for field, name in _here(spec))
        for key, value in spec.items():
            if key not in _BODIES:
                yield from clusters_named(value, f"{path}.{key}")


def _here(spec: Json) -> Iterator[tuple[str, str]]:
    """Yield the names that stand here, in the forms that our kinds have."""
    if name := (spec.get("targetCluster") or {}).get("name"):
        yield ".targetCluster", name
    if isinstance(name := spec.get(LABEL_CLUSTER), str):
        yield f"[{LABEL_CLUSTER}]", name
    if spec.get("key") == LABEL_CLUSTER:
        yield from ((".values", name) for name in spec.get("values") or ())
    if spec.get("topologyKey") == LABEL_CLUSTER:
        for index, each in enumerate(spec.get("allocationPolicy") or ()):
            if name := each.get("name"):
                yield f".allocationPolicy[{index}]", name
