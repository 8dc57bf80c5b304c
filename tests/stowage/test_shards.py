"""`stowage shards`, with a hub in memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from crds.names import SYSTEM_NAMESPACE
from machinery.api.resources import (
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    MEMBER_CLUSTERS,
    PODS,
    WORKLOADS,
    Resource,
)
from machinery.clock import microtime
from machinery.types.shards import lease_name, owner
from stowage.setup import install, shards, upgrade
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
            spec |= {"holderIdentity": f"p{shard}_7_ab", "renewTime": microtime(datetime.now(UTC))}
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        hub.put(LEASES, {**kind, "metadata": meta, "spec": spec})
    return hub


@pytest.mark.proves("SC8", "SC31")
async def test_each_shard_is_shown_with_its_holder_and_members() -> None:
    found = await shards.read(cast("Any", hub_of(3, held=2)), SYSTEM_NAMESPACE)
    rows = found.rows()
    assert [row["state"] for row in rows] == ["Held", "Held", "Unheld"]
    assert [row["holder"] for row in rows] == ["p0_7_ab", "p1_7_ab", ""]
    for row in rows:
        assert row["members"] == sum(owner(name, 3) == row["shard"] for name in MEMBERS)
    assert set(rows[0]) == {"shard", "holder", "term", "members", "state"}


@pytest.mark.proves("SC31")
async def test_a_ready_process_without_a_shard_is_a_spare() -> None:
    hub = hub_of(2, held=2)
    for name in ("p0", "p00", "p1", "starting", "ending", "other"):
        meta = {"name": name, "namespace": SYSTEM_NAMESPACE}
        meta["labels"] = {"app": "other" if name == "other" else "stowage-propagator"}
        if name == "ending":
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        ready = [{"type": "Ready", "status": str(name != "starting")}]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
        hub.put(PODS, {**pod, "status": {"conditions": ready}})
    found = await shards.read(cast("Any", hub), SYSTEM_NAMESPACE)
    *held, spare = found.rows()
    assert [row["state"] for row in held] == ["Held", "Held"]
    assert spare == {"shard": None, "holder": "p00", "term": None, "members": 0, "state": "Spare"}
    none = shards.Loads()
    assert [row["shard"] for row in shards.table_rows(found, None, none)] == [0, 1, "-"]
    states = [row["state"] for row in shards.table_rows(found, 4, none)]
    assert states == ["Held", "Held", "would be taken by the spare", "needs a process"]


@pytest.mark.proves("SC31")
async def test_the_table_has_the_workloads_of_each_shard_and_the_memory_of_its_process() -> None:
    hub = hub_of(2, held=2)
    of = [next(name for name in MEMBERS if owner(name, 2) == shard) for shard in (0, 1)]
    placed = {"web": [of[0]], "both": of, "none": []}
    for name, clusters in placed.items():
        placements = [{"cluster": each, "replicas": 1} for each in clusters[:1]]
        entries = [{"name": each} for each in clusters[1:]]
        body = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload"}
        status = {"placements": placements, "clusters": entries}
        hub.put(WORKLOADS, {**body, "metadata": {"name": name}, "spec": {}, "status": status})
    found = await shards.read(cast("Any", hub), SYSTEM_NAMESPACE)
    loads = await shards.loads(cast("Any", hub), SYSTEM_NAMESPACE, found.shards)
    rows = shards.table_rows(found, 3, loads)
    assert [row["workloads"] for row in rows] == ["2", "1", "-"]
    assert [row["memory"] for row in rows] == ["-"] * 3, "the hub measures none"
    labels = {"app": "stowage-propagator"}
    used = {
        "metadata": {"name": "p1", "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "containers": [{"usage": {"memory": "629145Ki"}}],
    }
    hub.put(Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics"), used)
    loads = await shards.loads(cast("Any", hub), SYSTEM_NAMESPACE, found.shards)
    rows = shards.table_rows(found, None, loads)
    assert [row["memory"] for row in rows] == ["-", "0.6 GiB"]


@pytest.mark.proves("SC10")
async def test_a_config_map_that_is_gone_or_says_no_number_is_named() -> None:
    hub, where = hub_of(3, held=3), f"{SYSTEM_NAMESPACE}/stowage-propagator"
    found = await shards.read(cast("Any", hub), SYSTEM_NAMESPACE)
    assert found.fault.startswith(f"the ConfigMap {where} is gone: the last N stands, which is 3")
    config = shards.config_map(SYSTEM_NAMESPACE, 3)
    hub.put(CONFIG_MAPS, config)
    for said, wrong in (("3", ""), ("x", "says shards: 'x', which is no number of 1 to 64")):
        name = config["metadata"]["name"]
        hub.edit(CONFIG_MAPS, name, {"data": {"shards": said}}, namespace=SYSTEM_NAMESPACE)
        found = await shards.read(cast("Any", hub), SYSTEM_NAMESPACE)
        assert wrong in found.fault
        assert bool(found.fault) is bool(wrong)
    assert not (await shards.read(cast("Any", hub_of(1, held=1)), SYSTEM_NAMESPACE)).fault


@pytest.mark.proves("SC21")
@pytest.mark.parametrize("number", [1, 2, 4, 5])
async def test_a_dry_run_shows_what_moves(number: int) -> None:
    found = await shards.read(cast("Any", hub_of(3, held=3)), SYSTEM_NAMESPACE)
    moves = [n for n in MEMBERS if owner(n, 3) != owner(n, number)]
    assert found.moved(number) == len(moves) > 0
    said = found.to_dict(number)
    assert said["moved"] == len(moves)
    rows = shards.table_rows(found, number, shards.Loads())
    assert len(rows) == max(number, 3)
    assert [row["becomes"] for row in said["shards"]] == [row["becomes"] for row in rows]
    assert sum(row["becomes"] for row in said["shards"]) == len(MEMBERS)
    assert {row["state"] for row in said["shards"][3:]} <= {"Unheld"}
    assert "becomes" not in found.to_dict(None)["shards"][0]
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
    sized = install.manifests(namespace=SYSTEM_NAMESPACE, image="i", number=5)
    (budget,) = (o for o in sized if o["kind"] == "PodDisruptionBudget" and o["metadata"] == meta)
    assert budget["spec"]["minAvailable"] == 5


@pytest.mark.proves("SC10")
async def test_no_shard_is_without_a_process_wherever_the_command_ends() -> None:
    meta = {"name": "stowage-propagator", "namespace": SYSTEM_NAMESPACE}
    kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
    for before, after in ((1, 5), (5, 1), (5, 5), (2, 3)):
        for steps in range(4):
            hub, said = hub_of(before, held=before), list[str]()
            hub.put(DEPLOYMENTS, {**kind, "metadata": meta, "spec": {"replicas": before + 1}})
            hub.put(CONFIG_MAPS, shards.config_map(SYSTEM_NAMESPACE, before))

            def say(line: str, said: list[str] = said, steps: int = steps) -> None:
                said.append(line)
                if len(said) == steps:
                    raise KeyboardInterrupt

            with suppress(KeyboardInterrupt):
                await shards.set_number(cast("Any", hub), SYSTEM_NAMESPACE, after, say=say)
            config = hub.read(CONFIG_MAPS, meta["name"], SYSTEM_NAMESPACE)["data"]
            found = hub.read(DEPLOYMENTS, meta["name"], SYSTEM_NAMESPACE)["spec"]["replicas"]
            assert found > int(config["shards"])


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


@pytest.mark.proves("PK8", "PK15")
async def test_an_upgrade_wants_the_shards_that_the_hub_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it wanted otherwise, a check would show for ever, and Helm would not be given."""
    hub = hub_of(1, held=1)

    async def all_served(_: Any) -> list[str]:
        return []

    monkeypatch.setattr(install, "unserved_policies", all_served)
    hub.put(CRDS, {"metadata": {"name": "workloads.stowage.dev"}})
    installed = install.manifests(namespace=SYSTEM_NAMESPACE, image="stowage:1", number=3)
    for each in installed:
        if each["kind"] == DEPLOYMENTS.kind:
            hub.put(DEPLOYMENTS, each)
        elif each["kind"] == CONFIG_MAPS.kind:
            hub.put(CONFIG_MAPS, each)
    wanted = await upgrade.wanted(
        cast("Any", hub), home=SYSTEM_NAMESPACE, image="stowage:1", ours="1", running=()
    )
    assert _placed(wanted) == _placed(installed)
    config = hub.read(CONFIG_MAPS, shards.NAME, SYSTEM_NAMESPACE)["metadata"]["name"]
    hub.edit(CONFIG_MAPS, config, {"data": {"shards": "many"}}, namespace=SYSTEM_NAMESPACE)
    wanted = await upgrade.wanted(
        cast("Any", hub), home=SYSTEM_NAMESPACE, image="stowage:1", ours="1", running=()
    )
    assert "ConfigMap" not in {each["kind"] for each in wanted}, "what a person mistyped stays"


def _placed(objects: Sequence[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}
