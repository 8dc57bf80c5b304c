"""`stowage shards`: who serves which members, and how many processes share them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from crds.names import ANNOTATION_SHARDS, PROPAGATOR_CONFIG, PROPAGATOR_LEASE
from machinery.api.client import ApiClient
from machinery.api.resources import CONFIG_MAPS, DEPLOYMENTS, LEASES, MEMBER_CLUSTERS, Resource
from machinery.clock import stored_time
from machinery.errors import NotFound
from machinery.types.shards import MOST_SHARDS, lease_name, owner, shards_of

_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
NAME = "stowage-propagator"
"""Of the Deployment and of its PodDisruptionBudget."""
SILENT_SECONDS = 25
"""Twice a Lease and more: clocks of two machines differ."""


@dataclass(frozen=True)
class Sharding:
    """What the hub says of the shards."""

    shards: int
    """As many as the Lease of shard 0 announces."""
    wanted: int | None
    """What the ConfigMap says; None without one, or with one that says no number."""
    fault: str
    """What is wrong with the ConfigMap; empty if nothing is."""
    leases: Mapping[int, Mapping[str, Any]]
    members: Sequence[str]
    spares: int
    """Ready processes beyond those that hold a shard; 0 without a Deployment."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def rows(self) -> list[dict[str, Any]]:
        counts = [0] * self.shards
        for name in self.members:
            counts[owner(name, self.shards)] += 1
        return [self._row(shard, counts[shard]) for shard in range(self.shards)]

    def moved(self, shards: int) -> int:
        """Return how many members change their shard with another number of them."""
        return sum(owner(each, self.shards) != owner(each, shards) for each in self.members)

    def _row(self, shard: int, members: int) -> dict[str, Any]:
        spec = self.leases.get(shard, {}).get("spec") or {}
        renewed = stored_time(str(spec.get("renewTime") or ""))
        silent = (self.now - renewed).total_seconds() if renewed is not None else None
        held = bool(spec.get("holderIdentity")) and silent is not None
        held = held and silent is not None and silent <= SILENT_SECONDS
        return {
            "shard": shard,
            "holder": str(spec.get("holderIdentity") or "") if held else "",
            "term": int(spec.get("leaseTransitions") or 0),
            "members": members,
            "state": "Held" if held else "Unheld",
        }


async def read(hub: ApiClient, namespace: str) -> Sharding:
    """Raises TransportError."""
    listed = (await hub.list(LEASES, namespace=namespace))["items"]
    by_name = {each["metadata"]["name"]: each for each in listed}
    found = {shard: by_name.get(lease_name(shard), {}) for shard in range(MOST_SHARDS)}
    notes = (by_name.get(PROPAGATOR_LEASE, {}).get("metadata") or {}).get("annotations") or {}
    config = await _found(hub, CONFIG_MAPS, PROPAGATOR_CONFIG, namespace)
    said = str(((config or {}).get("data") or {}).get("shards", ""))
    wanted = shards_of(said)
    fault = (
        ""
        if config is None or wanted is not None
        else (
            f"the ConfigMap {namespace}/{PROPAGATOR_CONFIG} says shards: {said!r}, which is no "
            f"number of 1 to {MOST_SHARDS}: the last number stands; `stowage shards N` sets one"
        )
    )
    clusters = (await hub.list(MEMBER_CLUSTERS))["items"]
    deployment = await _found(hub, DEPLOYMENTS, NAME, namespace)
    ready = int(((deployment or {}).get("status") or {}).get("readyReplicas") or 0)
    sharding = Sharding(
        shards_of(str(notes.get(ANNOTATION_SHARDS, ""))) or 1,
        wanted,
        fault,
        found,
        sorted(each["metadata"]["name"] for each in clusters),
        0,
    )
    held = sum(each["state"] == "Held" for each in sharding.rows())
    return Sharding(sharding.shards, wanted, fault, found, sharding.members, max(ready - held, 0))


async def set_number(
    hub: ApiClient, namespace: str, shards: int, *, say: Callable[[str], object]
) -> None:
    """Set how many there are: the ConfigMap, one process more than shards, and their budget.

    The processes come first: a shard without a process serves nobody. Raises TransportError.
    """
    if await _found(hub, DEPLOYMENTS, NAME, namespace) is None:
        say(
            f"There is no Deployment {namespace}/{NAME}: the ConfigMap alone is written. Run "
            f"{shards + 1} processes"
        )
    else:
        replicas = {"spec": {"replicas": shards + 1}}
        await hub.merge_patch(DEPLOYMENTS, NAME, replicas, namespace=namespace)
        say(
            f"deployment.apps/{NAME} has {shards + 1} replicas: a spare takes the place of a holder"
        )
        if await _found(hub, _BUDGETS, NAME, namespace) is not None:
            budget = {"spec": {"minAvailable": shards}}
            await hub.merge_patch(_BUDGETS, NAME, budget, namespace=namespace)
            say(f"poddisruptionbudget.policy/{NAME} keeps {shards} available")
    config = config_map(namespace, shards)
    if await _found(hub, CONFIG_MAPS, PROPAGATOR_CONFIG, namespace) is None:
        await hub.create(CONFIG_MAPS, config)
    else:
        patch = {"data": config["data"]}
        await hub.merge_patch(CONFIG_MAPS, PROPAGATOR_CONFIG, patch, namespace=namespace)
    say(f"configmap/{PROPAGATOR_CONFIG} says {shards} shards")


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
    if config is None:
        namespace = processes["metadata"]["namespace"]
        config = await _found(hub, CONFIG_MAPS, PROPAGATOR_CONFIG, namespace)
    shards = shards_of(str(((config or {}).get("data") or {}).get("shards", "")))
    if shards is None:
        return objects
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


def table_rows(sharding: Sharding, to: int | None) -> list[dict[str, Any]]:
    """Return what a table shows; with `to`, what becomes of it with that number of shards."""
    rows = [{**each, "holder": each["holder"] or "-"} for each in sharding.rows()]
    if to is None:
        return rows
    counts = [0] * to
    for name in sharding.members:
        counts[owner(name, to)] += 1
    spare = sharding.spares > 0
    found = []
    for shard in range(max(to, sharding.shards)):
        before = rows[shard] if shard < len(rows) else {}
        new = {"shard": shard, "holder": "-", "term": "-", "members": 0}
        becomes = counts[shard] if shard < to else 0
        members = before.get("members", 0)
        state = before.get("state") or ("taken by the spare" if spare else "needs a process")
        said = f"{members} → {becomes}" if members != becomes else members
        found.append({**new, **before, "members": said, "state": state})
    return found


async def _found(
    hub: ApiClient, resource: Resource, name: str, namespace: str
) -> dict[str, Any] | None:
    try:
        return await hub.get(resource, name, namespace=namespace)
    except NotFound:
        return None
