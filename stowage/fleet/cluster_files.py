"""MemberClusters from files: as the hub prints them, or as rows of an inventory without a kind.

An object that the schema would refuse is an error with file, document and field. Amounts may also
be numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from controller.model.objects import MemberCluster
from crds import membercluster
from crds.faults import suggestion, worded
from machinery.types import quantities
from machinery.types.bounds import MOST_AMOUNT, quoted
from stowage.fleet.manifests import Document

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
        model = membercluster.MemberCluster if document.kind else _Row
        raise document.error([_described(loc, text) for loc, text in worded(e, model)]) from e
    return document.decoded(_in_texts(body), MemberCluster)


def _row(document: Document) -> _Row:
    if "name" not in document.body:
        raise document.error("kind: an object needs one; a row of an inventory needs a name")
    if unknown := sorted(document.body.keys() - _Row.model_fields.keys()):
        known = ", ".join(_Row.model_fields)
        meant = suggestion(unknown[0], _Row.model_fields)
        raise document.error(f"{quoted(unknown[0])} is no key of a row; those are {known}{meant}")
    return _Row.model_validate(document.body)


def _described(loc: Sequence[Any], text: str) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return ": ".join(filter(None, (path.removeprefix("."), text)))


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


_PLAIN = {"cpu_milli": "cpu", "memory_bytes": "memory"}
"""The keys of plain numbers, in the smallest units of a resource."""


def _amounts(given: Any) -> dict[str, int]:
    """Return sums over the nodes of a cluster, in the smallest units."""
    if not isinstance(given, dict):
        raise _fault("amounts by resource are needed, such as {cpu: 24, memory: 96Gi, pods: 330}")
    found: dict[str, int] = {}
    for key, text in given.items():
        resource = str(_PLAIN.get(key, key))
        if not _known(resource):
            raise _fault(f"{quoted(key)} is no resource; cpu, memory and pods are, and vendor/name")
        if resource in found:
            raise _fault(f"{quoted(key)} stands beside another spelling of {resource}")
        try:
            n = quantities.value(text) if key in _PLAIN else quantities.amount(resource, text)
        except ValueError as e:
            raise _fault(f"{key}: {e}") from e
        if not 0 <= n <= MOST_AMOUNT:
            raise _fault(f"{key}: {quoted(text)} is negative, or more than any cluster offers")
        found[resource] = n
    return found


def _known(resource: str) -> bool:
    """Whether nodes have such a resource: those of others have the name of their vendor."""
    plain = ("cpu", "memory", "pods", "ephemeral-storage")
    return resource in plain or resource.startswith("hugepages-") or "/" in resource


def _fault(text: str) -> PydanticCustomError:
    return PydanticCustomError("amounts", "{text}", {"text": text})


def _rendered(amounts: Mapping[str, int]) -> dict[str, str]:
    return {resource: quantities.render(resource, n) for resource, n in amounts.items()}


Amounts = Annotated[dict[str, int], BeforeValidator(_amounts)]


class _Row(BaseModel):
    name: str = Field(min_length=1, max_length=63)
    labels: dict[str, str] = {}
    taints: list[dict[str, Any]] = []
    ready: bool = True
    provider: str = ""
    nodes: int = Field(ge=0)
    allocatable: Amounts
    allocated: Amounts = {}

    def manifest(self) -> dict[str, Any]:
        """Return the MemberCluster that the propagator would publish."""
        used, nodes = self.allocated, max(self.nodes, 1)
        free = {r: max(n - used.get(r, 0), 0) // nodes for r, n in self.allocatable.items()}
        return {
            "metadata": {"name": self.name, "labels": self.labels},
            "spec": {"taints": self.taints},
            "status": {
                "conditions": [{"type": "Ready", "status": "True" if self.ready else "False"}],
                "provider": self.provider,
                "nodeGroups": [{"count": self.nodes, "free": _rendered(free)}],
                "capacity": {
                    "nodes": self.nodes,
                    "allocatable": _rendered(self.allocatable),
                    "requested": _rendered(used),
                },
            },
        }
