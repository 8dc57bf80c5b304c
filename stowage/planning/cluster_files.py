"""MemberClusters from files: as the hub prints them, or as rows without a kind.

A row is one cluster as inventories export it. An object that the schema would refuse is an error
with file, document and field. Amounts may be numbers, which people write and the hub never prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from controller.model.objects import MemberCluster
from crds import membercluster
from machinery.types import quantities
from stowage.planning.manifests import Document

Json = Mapping[str, Any]


def member(document: Document) -> MemberCluster:
    """Return the MemberCluster of an object or of a row. Raises ConfigurationError."""
    try:
        if document.kind:
            body = dict(document.body)
            membercluster.MemberCluster.model_validate(body)
        else:
            body = _row(document).manifest()
        if not document.name and document.kind:
            raise document.error("metadata.name: a MemberCluster needs a name")
    except ValidationError as e:
        raise document.error([_described(fault) for fault in e.errors(include_url=False)]) from e
    return document.decoded(_in_texts(body), MemberCluster)


def _row(document: Document) -> _Row:
    if "name" not in document.body:
        raise document.error("kind: an object needs one; a row of an inventory needs a name")
    return _Row.model_validate(document.body)


def _described(fault: Any) -> str:
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in fault["loc"])
    return ": ".join(filter(None, (path.removeprefix("."), fault["msg"])))


def _in_texts(body: dict[str, Any]) -> dict[str, Any]:
    status = dict(body.get("status") or {})
    if capacity := status.get("capacity"):
        sums = {key: _texts(capacity.get(key)) for key in ("allocatable", "requested")}
        status["capacity"] = {**capacity, **sums}
    groups = status.get("nodeGroups") or ()
    status["nodeGroups"] = [{**group, "free": _texts(group.get("free"))} for group in groups]
    return {**body, "status": status}


def _texts(amounts: Json | None) -> dict[str, str]:
    return {resource: str(amount) for resource, amount in (amounts or {}).items()}


class _Amounts(BaseModel):
    """Sums over the nodes of a cluster, in plain numbers."""

    model_config = ConfigDict(extra="ignore")

    cpu_milli: int = Field(default=0, ge=0)
    memory_bytes: int = Field(default=0, ge=0)
    pods: int = Field(default=0, ge=0)

    def quantities(self) -> dict[str, str]:
        numbers = {"cpu": self.cpu_milli, "memory": self.memory_bytes, "pods": self.pods}
        return {r: quantities.render(r, n) for r, n in numbers.items()}

    def less(self, other: _Amounts, nodes: int) -> dict[str, str]:
        """Return the free amounts of each node, if all nodes are used alike."""
        return _Amounts(
            cpu_milli=max(self.cpu_milli - other.cpu_milli, 0) // nodes,
            memory_bytes=max(self.memory_bytes - other.memory_bytes, 0) // nodes,
            pods=max(self.pods - other.pods, 0) // nodes,
        ).quantities()


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1, max_length=63)
    labels: dict[str, str] = {}
    taints: list[dict[str, Any]] = []
    ready: bool = True
    provider: str = ""
    nodes: int = Field(ge=0)
    allocatable: _Amounts
    allocated: _Amounts = _Amounts()

    def manifest(self) -> dict[str, Any]:
        """Return the MemberCluster that the propagator would publish."""
        free = self.allocatable.less(self.allocated, max(self.nodes, 1))
        return {
            "metadata": {"name": self.name, "labels": self.labels},
            "spec": {"taints": self.taints},
            "status": {
                "conditions": [{"type": "Ready", "status": "True" if self.ready else "False"}],
                "provider": self.provider,
                "nodeGroups": [{"count": self.nodes, "free": free}],
                "capacity": {
                    "nodes": self.nodes,
                    "allocatable": self.allocatable.quantities(),
                    "requested": self.allocated.quantities(),
                },
            },
        }
