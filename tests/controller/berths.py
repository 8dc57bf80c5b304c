"""A kind of somebody else's that is placed: a Berth asks for a place of some cpu, and runs nothing.

Its group, its fields and its feature know nothing of Stowage but what docs/plugins.md says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controller.framework.runtime.feature import Feature
from controller.model.objects import Template, Workload, WorkloadSpec, WorkloadStatus
from controller.model.placed import PlacedKind
from machinery.api.resources import Resource
from machinery.types.metadata import Object
from tests.definitions import definition

BERTHS = Resource("harbour.example", "v1", "berths", "Berth")
KEPT = (
    "observedGeneration", "desired", "assigned", "pending", "placements", "decision",
    "reasons", "reasonCounts", "history", "conditions",
)  # fmt: skip
"""A Berth has none of a Workload's other fields: no state, no selector, no summary."""

_SOME = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_MANY = {"type": "array", "items": _SOME}
_NUMBER = {"type": "integer", "format": "int64"}
_STATUS = {
    **dict.fromkeys(("observedGeneration", "desired", "assigned", "pending"), _NUMBER),
    **dict.fromkeys(("placements", "reasons", "reasonCounts", "history", "conditions"), _MANY),
    "decision": _SOME,
    "quay": {"type": "string"},
}
CRD = definition(
    BERTHS,
    schema={
        "type": "object",
        "properties": {"spec": _SOME, "status": {"type": "object", "properties": _STATUS}},
    },
)


class BerthSpec(msgspec.Struct, rename="camel", frozen=True):
    cpu: str = "1"
    replicas: int = 1
    scheduler: str = "stowage"
    distribution: str = "Single"
    cluster_selector: dict[str, str] = {}
    closed: bool = False
    flaw: str = ""


class Berth(Object, frozen=True):
    spec: BerthSpec = BerthSpec()
    status: WorkloadStatus = WorkloadStatus()


def berth(name: str, *, namespace: str = "shop", **spec: Any) -> dict[str, Any]:
    """One as a user applies it."""
    meta = {"name": name, "namespace": namespace}
    return {
        "apiVersion": BERTHS.api_version, "kind": "Berth", "metadata": meta, "spec": spec,
    }  # fmt: skip


def as_workload(stored: Berth) -> Any:
    asked = stored.spec
    if asked.flaw == "raises":
        raise RuntimeError("this berth is rotten")
    if asked.flaw == "nonsense":
        return Workload(spec=WorkloadSpec(scheduler_name=7), status=WorkloadStatus(placements="?"))  # type: ignore[arg-type] # what it must bear
    if asked.flaw == "stranger":
        return 42
    if asked.closed:
        return None
    container = {"name": "berth", "resources": {"requests": {"cpu": asked.cpu}}}
    pods = {"metadata": {"labels": {"berth": "yes"}}, "spec": {"containers": [container]}}
    return Workload(
        metadata=stored.metadata,
        spec=WorkloadSpec(
            replicas=asked.replicas,
            scheduler_name=asked.scheduler,
            distribution=asked.distribution,
            cluster_selector=asked.cluster_selector,
            template=Template(api_version="apps/v1", kind="Deployment", spec={"template": pods}),
        ),
        status=stored.status,
        fault="spec.flaw: it must be mended" if asked.flaw == "told" else "",
    )


def as_status(stored: Berth, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    if stored.spec.flaw == "mute":
        raise RuntimeError("nobody knows what to say")
    kept = [name for name in KEPT if name != "placements" or stored.spec.flaw != "forgetful"]
    told = {name: fields[name] for name in kept if name in fields}
    if "placements" in fields:
        told["quay"] = ",".join(share["cluster"] for share in fields["placements"])
    return told


class Berths(Feature):
    """The feature; `heard` are the names of those whose change it was told of."""

    def __init__(self, *, booked: bool = False, ledgers: tuple[Any, ...] = ()) -> None:
        self.heard: list[str] = []
        self.ledgers = ledgers
        self.places = (PlacedKind(BERTHS, Berth, as_workload, as_status, booked=booked),)
        self.watch(BERTHS, Berth, self.changed)

    def changed(self, old: Berth | None, new: Berth | None) -> None:
        known = new or old
        assert known is not None
        self.heard.append(known.metadata.name)
