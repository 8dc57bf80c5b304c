"""`stowage shards`, with a hub in memory."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from crds.names import SYSTEM_NAMESPACE
from machinery.api.resources import CONFIG_MAPS, DEPLOYMENTS, LEASES, MEMBER_CLUSTERS
from machinery.clock import microtime
from machinery.types.shards import lease_name, owner
from stowage.setup import shards
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub

MEMBERS = [f"m{n}" for n in range(40)]


def hub_of(number: int, *, held: int) -> MemoryHub:
    hub = MemoryHub(clock=FakeClock(), admission=False)
    for name in MEMBERS:
        kind = {"apiVersion": "stowage.dev/v1alpha1", "kind": "MemberCluster"}
        hub.put(MEMBER_CLUSTERS, {**kind, "metadata": {"name": name}})
    for shard in range(number):
        notes = {"stowage.dev/shards": str(number)}
        meta = {"name": lease_name(shard), "namespace": SYSTEM_NAMESPACE, "annotations": notes}
        spec: dict[str, Any] = {"leaseTransitions": 7, "leaseDurationSeconds": 10}
        if shard < held:
            spec |= {"holderIdentity": f"p{shard}", "renewTime": microtime(datetime.now(UTC))}
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        hub.put(LEASES, {**kind, "metadata": meta, "spec": spec})
    return hub


@pytest.mark.proves("SC8", "SC31")
async def test_each_shard_is_shown_with_its_holder_and_members() -> None:
    found = await shards.read(cast("Any", hub_of(3, held=2)), SYSTEM_NAMESPACE)
    rows = found.rows()
    assert [row["state"] for row in rows] == ["Held", "Held", "Unheld"]
    assert [row["holder"] for row in rows] == ["p0", "p1", ""]
    for row in rows:
        assert row["members"] == sum(owner(name, 3) == row["shard"] for name in MEMBERS)
    assert set(rows[0]) == {"shard", "holder", "term", "members", "state"}
    assert not found.fault


@pytest.mark.proves("SC21")
@pytest.mark.parametrize("number", [1, 2, 4, 5])
async def test_a_dry_run_shows_what_moves(number: int) -> None:
    found = await shards.read(cast("Any", hub_of(3, held=3)), SYSTEM_NAMESPACE)
    moves = [n for n in MEMBERS if owner(n, 3) != owner(n, number)]
    assert found.moved(number) == len(moves) > 0
    rows = shards.table_rows(found, number)
    assert len(rows) == max(number, 3)
    for row in rows:
        before, _, after = str(row["members"]).rpartition(" → ")
        assert int(after) == sum(
            row["shard"] < number and owner(n, number) == row["shard"] for n in MEMBERS
        )
        assert before in ("", str(sum(owner(n, 3) == row["shard"] for n in MEMBERS)))


@pytest.mark.proves("SC10")
async def test_a_number_is_set_with_its_processes() -> None:
    hub, said = hub_of(1, held=1), list[str]()
    await shards.set_number(cast("Any", hub), SYSTEM_NAMESPACE, 3, say=said.append)
    assert "There is no Deployment" in said[0]
    meta = {"name": "stowage-propagator", "namespace": SYSTEM_NAMESPACE}
    kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
    hub.put(DEPLOYMENTS, {**kind, "metadata": meta, "spec": {"replicas": 2}})
    await shards.set_number(cast("Any", hub), SYSTEM_NAMESPACE, 5, say=said.append)
    assert hub.read(DEPLOYMENTS, meta["name"], SYSTEM_NAMESPACE)["spec"]["replicas"] == 6
    config = hub.read(CONFIG_MAPS, meta["name"], SYSTEM_NAMESPACE)
    assert config["data"] == {"shards": "5"}
    hub.edit(CONFIG_MAPS, meta["name"], {"data": {"shards": "65"}}, namespace=SYSTEM_NAMESPACE)
    found = await shards.read(cast("Any", hub), SYSTEM_NAMESPACE)
    assert "'65', which is no number of 1 to 64" in found.fault


async def test_an_install_keeps_the_processes_of_the_shards() -> None:
    hub = hub_of(1, held=1)
    meta = {"name": "stowage-propagator", "namespace": SYSTEM_NAMESPACE}
    given = [
        {"kind": "Deployment", "metadata": meta, "spec": {"replicas": 2, "selector": {}}},
        {"kind": "PodDisruptionBudget", "metadata": meta, "spec": {"minAvailable": 1}},
        {"kind": "Deployment", "metadata": {**meta, "name": "other"}, "spec": {"replicas": 2}},
    ]
    assert await shards.with_processes(cast("Any", hub), given) == given
    await shards.set_number(cast("Any", hub), SYSTEM_NAMESPACE, 4, say=lambda _: None)
    found = await shards.with_processes(cast("Any", hub), given)
    assert found[0]["spec"] == {"replicas": 5, "selector": {}}
    assert found[1]["spec"] == {"minAvailable": 4}
    assert found[2] == given[2]
