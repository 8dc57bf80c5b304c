"""`stowage shards`: who serves which members, and how many processes share them out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from crds.names import ANNOTATION_SHARDS, PROPAGATOR_CONFIG
from machinery.api.client import ApiClient
from machinery.api.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    MEMBER_CLUSTERS,
    PODS,
    WORKLOADS,
    Resource,
)
from machinery.clock import stored_time
from machinery.errors import TransportError
from machinery.types import conditions, quantities
from machinery.types.shards import MOST_SHARDS, config_fault, lease_name, owner, shards_of
from stowage.console import words

_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
_USAGES = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
PROCESS = "propagator"
NAME = f"stowage-{PROCESS}"
"""Of the Deployment and of its PodDisruptionBudget."""
SILENT_SECONDS = 25
"""Twice a Lease and more: clocks of two machines differ."""


@dataclass(frozen=True)
class Sharding:
    """What the hub says of the shards."""

    shards: int
    """As many as the Lease of shard 0 announces."""
    fault: str
    """What is wrong with the ConfigMap; empty if nothing is."""
    leases: Mapping[int, Mapping[str, Any]]
    members: Sequence[str]
    pods: Sequence[str] = ()
    """The ready processes on the hub; empty where they run elsewhere."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each shard, Held or Unheld, and one for each Spare."""
        counts = self.counts(self.shards)
        rows = [self._row(shard, counts[shard]) for shard in range(self.shards)]
        spare = {"shard": None, "term": None, "members": 0, "state": "Spare"}
        return [*rows, *({**spare, "holder": each} for each in self.spares)]

    @property
    def spares(self) -> list[str]:
        """The processes on the hub that hold no shard. A process is named after its pod."""
        holders = [str(self._spec(shard).get("holderIdentity") or "") for shard in self.leases]
        return [pod for pod in self.pods if not any(h.startswith(f"{pod}_") for h in holders)]

    def counts(self, shards: int) -> list[int]:
        """Return the number of members of each of so many shards."""
        counts = [0] * shards
        for name in self.members:
            counts[owner(name, shards)] += 1
        return counts

    def moved(self, shards: int) -> int:
        """Return how many members change their shard with another number of them."""
        return sum(owner(each, self.shards) != owner(each, shards) for each in self.members)

    def to_dict(self, to: int | None) -> dict[str, Any]:
        """Return it for programs; with `to`, what becomes of each shard with that number of them.

        Shards to come are Unheld.
        """
        rows = self.rows()
        if to is None:
            return {"shards": rows}
        coming = {"holder": "", "term": None, "members": 0, "state": "Unheld"}
        rows = [
            *rows[: self.shards],
            *({"shard": shard, **coming} for shard in range(self.shards, to)),
        ]
        after = [*self.counts(to), *[0] * self.shards]
        becomes = [{**row, "becomes": after[row["shard"]]} for row in rows]
        return {"shards": becomes, "moved": self.moved(to)}

    def _spec(self, shard: int) -> Mapping[str, Any]:
        return self.leases.get(shard, {}).get("spec") or {}

    def _row(self, shard: int, members: int) -> dict[str, Any]:
        spec = self._spec(shard)
        renewed = stored_time(str(spec.get("renewTime") or ""))
        silent = (self.now - renewed).total_seconds() if renewed is not None else math.inf
        held = bool(spec.get("holderIdentity")) and silent <= SILENT_SECONDS
        return {
            "shard": shard,
            "holder": str(spec["holderIdentity"]) if held else "",
            "term": int(spec.get("leaseTransitions") or 0),
            "members": members,
            "state": "Held" if held else "Unheld",
        }


async def read(hub: ApiClient, namespace: str) -> Sharding:
    """Raises TransportError."""
    listed = (await hub.list(LEASES, namespace=namespace))["items"]
    by_name = {each["metadata"]["name"]: each for each in listed}
    found = {shard: by_name.get(lease_name(shard), {}) for shard in range(MOST_SHARDS)}
    notes = (found[0].get("metadata") or {}).get("annotations") or {}
    shards = shards_of(str(notes.get(ANNOTATION_SHARDS, ""))) or 1
    config = await hub.find(CONFIG_MAPS, PROPAGATOR_CONFIG, namespace=namespace)
    said = None if config is None else _said(config)
    clusters = (await hub.list(MEMBER_CLUSTERS))["items"]
    pods = (await hub.list(PODS, namespace=namespace, label_selector=f"app={NAME}"))["items"]
    return Sharding(
        shards,
        config_fault(f"{namespace}/{PROPAGATOR_CONFIG}", said, shards),
        found,
        sorted(each["metadata"]["name"] for each in clusters),
        sorted(each["metadata"]["name"] for each in pods if _ready(each)),
    )


@dataclass(frozen=True)
class Loads:
    """What the shards have to do, for people."""

    workloads: Sequence[int] = ()
    """How many Workloads have something on members of each shard."""
    memory: Mapping[str, int] = field(default_factory=dict)
    """Bytes, by pod; empty where the hub measures none."""

    def texts(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Return the columns of a row of `Sharding.rows`."""
        shard, pod = row["shard"], str(row["holder"]).partition("_")[0]
        known = shard is not None and shard < len(self.workloads)
        return {
            "workloads": f"{self.workloads[shard]:,}" if known else "-",
            "memory": f"{self.memory[pod] / 2**30:.1f} GiB" if pod in self.memory else "-",
        }


class _Place(msgspec.Struct):
    cluster: str = ""


class _Entry(msgspec.Struct):
    name: str = ""


class _Status(msgspec.Struct):
    placements: list[_Place] = []
    clusters: list[_Entry] = []


class _Workload(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class _Page(msgspec.Struct):
    items: list[_Workload] | None = None


async def loads(hub: ApiClient, namespace: str, shards: int) -> Loads:
    """What may not be read, or is not measured there, is left out."""
    workloads, memory = list[int](), dict[str, int]()
    with suppress(TransportError):
        workloads = await _counted(hub, shards)
    with suppress(TransportError):
        usages = await hub.list(_USAGES, namespace=namespace, label_selector=f"app={NAME}")
        memory = {each["metadata"]["name"]: _used(each) for each in usages["items"]}
    return Loads(workloads, memory)


async def _counted(hub: ApiClient, shards: int) -> list[int]:
    counts = [0] * shards
    async for page in hub.pages(WORKLOADS):
        for each in _pages.decode(page).items or ():
            said = each.status
            names = {p.cluster for p in said.placements} | {e.name for e in said.clusters}
            for shard in {owner(name, shards) for name in names}:
                counts[shard] += 1
    return counts


def _used(usage: Mapping[str, Any]) -> int:
    return sum(quantities.value(each["usage"]["memory"]) for each in usage["containers"])


_pages = msgspec.json.Decoder(_Page)


def _said(config: Mapping[str, Any] | None) -> str:
    return str(((config or {}).get("data") or {}).get("shards", ""))


def _ready(pod: Mapping[str, Any]) -> bool:
    deleting = pod["metadata"].get("deletionTimestamp") is not None
    return not deleting and conditions.holds(pod.get("status") or {}, "Ready")


async def set_number(
    hub: ApiClient, namespace: str, shards: int, *, say: Callable[[str], object]
) -> None:
    """Set how many there are: the ConfigMap, one process more than shards, and their budget.

    More processes come before their shards, and fewer after them: a shard without a process serves
    nobody. Raises TransportError.
    """
    processes = await hub.find(DEPLOYMENTS, NAME, namespace=namespace)
    if processes is None:
        say(
            f"There is no Deployment {namespace}/{NAME}: the ConfigMap alone is written. Run "
            f"{shards + 1} processes"
        )
    more = processes is not None and processes["spec"].get("replicas", 1) <= shards
    if more:
        await _set_processes(hub, namespace, shards, say)
    await set_config(hub, namespace, shards)
    say(f"configmap/{PROPAGATOR_CONFIG} says {words.count(shards, 'shard')}")
    if processes is not None and not more:
        await _set_processes(hub, namespace, shards, say)


async def _set_processes(
    hub: ApiClient, namespace: str, shards: int, say: Callable[[str], object]
) -> None:
    replicas = {"spec": {"replicas": shards + 1}}
    await hub.merge_patch(DEPLOYMENTS, NAME, replicas, namespace=namespace)
    say(f"deployment.apps/{NAME} has {shards + 1} replicas: a spare takes the place of a holder")
    if await hub.find(_BUDGETS, NAME, namespace=namespace) is not None:
        budget = {"spec": {"minAvailable": shards}}
        await hub.merge_patch(_BUDGETS, NAME, budget, namespace=namespace)
        say(f"poddisruptionbudget.policy/{NAME} keeps {shards} available")


async def set_config(hub: ApiClient, namespace: str, shards: int) -> None:
    """Write the ConfigMap alone, which processes follow. Raises TransportError."""
    config = config_map(namespace, shards)
    if await hub.find(CONFIG_MAPS, PROPAGATOR_CONFIG, namespace=namespace) is None:
        await hub.create(CONFIG_MAPS, config)
    else:
        patch = {"data": config["data"]}
        await hub.merge_patch(CONFIG_MAPS, PROPAGATOR_CONFIG, patch, namespace=namespace)


def config_map(namespace: str, shards: int) -> dict[str, Any]:
    meta = {"name": PROPAGATOR_CONFIG, "namespace": namespace}
    data = {"shards": str(shards)}
    return {"apiVersion": "v1", "kind": CONFIG_MAPS.kind, "metadata": meta, "data": data}


async def with_processes(
    hub: ApiClient, objects: Sequence[dict[str, Any]]
) -> Sequence[dict[str, Any]]:
    """Return manifests of an install with a process more than shards, as the ConfigMap has them.

    Raises TransportError.
    """
    processes = next((each for each in objects if _named(each, DEPLOYMENTS.kind)), None)
    if processes is None:
        return objects
    config = next((each for each in objects if _named(each, CONFIG_MAPS.kind)), None)
    if config is not None:
        shards = shards_of(_said(config))
    else:
        shards = await number(hub, processes["metadata"]["namespace"])
    return objects if shards is None else sized(objects, shards)


async def number(hub: ApiClient, namespace: str) -> int | None:
    """Return how many shards the ConfigMap says; None without one, and for what is no number.

    Raises TransportError.
    """
    return shards_of(_said(await hub.find(CONFIG_MAPS, PROPAGATOR_CONFIG, namespace=namespace)))


def sized(objects: Iterable[dict[str, Any]], shards: int) -> list[dict[str, Any]]:
    """Return manifests of an install with a process more than shards, and their budget."""
    given: dict[str, dict[str, Any]] = {
        DEPLOYMENTS.kind: {"replicas": shards + 1},
        _BUDGETS.kind: {"minAvailable": shards},
    }
    return [
        {**each, "spec": {**each["spec"], **given[each["kind"]]}}
        if any(_named(each, kind) for kind in given)
        else each
        for each in objects
    ]


def _named(manifest: Mapping[str, Any], kind: str) -> bool:
    return bool(manifest["kind"] == kind and manifest["metadata"]["name"] == NAME)


def table_rows(sharding: Sharding, to: int | None, loads: Loads) -> list[dict[str, Any]]:
    """Return what a table shows; with `to`, what becomes of it with that number of shards."""
    blank = {None: "-", "": "-"}
    listed = sharding.to_dict(to)["shards"]
    rows = [{k: blank.get(v, v) for k, v in row.items()} | loads.texts(row) for row in listed]
    if to is None:
        return rows
    for shard, row in enumerate(rows):
        if shard >= sharding.shards:
            spare = shard - sharding.shards < len(sharding.spares)
            row["state"] = "would be taken by the spare" if spare else "needs a process"
        members, becomes = row["members"], row["becomes"]
        row["members"] = members if members == becomes else f"{members} → {becomes}"
    return rows
