"""`stowage unjoin` on a hub without processes: what it counts, marks and waits for."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from crds.names import (
    ANNOTATION_CLUSTERS,
    ANNOTATION_MEMBER_NAMESPACE,
    ANNOTATION_UNJOIN,
    GIVEN_UP,
    LABEL_MEMBER_NAMESPACE,
    MEMBER_NAMESPACE_PREFIX,
    SYSTEM_NAMESPACE,
)
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, NAMESPACES, WORKLOADS
from machinery.errors import AlreadyExists, ConfigurationError, Forbidden, NotFound, StowageError
from stowage.playground.controlplanes import Cluster
from stowage.setup import join
from stowage.setup.holders import Standing, standing
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub

PLAN = join.Unjoin(name="here", namespace=SYSTEM_NAMESPACE)
FORCED = join.Unjoin(name="here", namespace=SYSTEM_NAMESPACE, force=True)


@pytest.mark.proves("A8")
@pytest.mark.parametrize(
    ("status", "notes", "found", "words"),
    [
        ({"placements": [{"cluster": "here", "replicas": 2}]}, {}, Standing(replicas=2), ""),
        (
            {"leaving": [{"cluster": "here", "replicas": 2}]},
            {},
            Standing(leaving=2),
            "2 leaving",
        ),
        (
            {"footprint": {"clusters": "here,other"}},
            {},
            Standing(sent=True),
            "not seen to be gone",
        ),
        ({}, {ANNOTATION_CLUSTERS: "here"}, Standing(sent=True), "not seen to be gone"),
        ({"kept": [{"cluster": "here"}]}, {}, Standing(kept=1), "1 kept object"),
        ({"placements": [{"cluster": "other", "replicas": 2}]}, {}, Standing(), ""),
        (
            {
                "placements": [{"cluster": "here", "replicas": 2}],
                "clusters": [{"name": "here", "ended": {"result": "Succeeded"}}],
                "footprint": {"clusters": "here"},
            },
            {},
            Standing(ended=2, sent=True),
            "2 ended",
        ),
    ],
)
def test_what_a_workload_has_on_a_cluster(
    status: dict[str, Any], notes: dict[str, str], found: Standing, words: str
) -> None:
    body = {"metadata": {"name": "web", "annotations": notes}, "status": status}
    assert standing(body, "here") == found
    assert standing(body, "here").words == words
    # What has ended keeps its share, and so unjoin does not wait for it.
    assert found.runs is (found.shared and not found.ended)


async def _cluster(client: ApiClient, **annotations: str) -> None:
    meta = {"name": "here", "annotations": annotations}
    body = {"apiVersion": MEMBER_CLUSTERS.api_version, "kind": "MemberCluster"}
    try:
        await client.create(MEMBER_CLUSTERS, {**body, "metadata": meta, "spec": {}})
    except AlreadyExists:
        return
    note = {"status": {"clusterID": "id"}}
    await client.merge_patch(MEMBER_CLUSTERS, "here", note, subresource="status")


async def _refusal(client: ApiClient) -> str:
    try:
        await client.delete(MEMBER_CLUSTERS, "here")
    except Forbidden as e:
        return str(e)
    return ""


async def _status(client: ApiClient, **status: Any) -> None:
    patch = {"status": status}
    await client.merge_patch(WORKLOADS, "web", patch, namespace="default", subresource="status")


@pytest.mark.proves("A8", "A29")
async def test_only_unjoin_gives_a_cluster_up_once_nothing_names_it(
    hub: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join, "GIVEN_UP_SECONDS", 0.0)
    async with ApiClient(hub.connection()) as client:
        for _ in range(100):  # a policy that was made a moment ago may not be in force yet
            await _cluster(client)
            said = await _refusal(client)
            if said:
                break
            await asyncio.sleep(0.1)
        assert "run `stowage unjoin here`" in said
        template = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {}}
        body = {"apiVersion": WORKLOADS.api_version, "kind": "Workload"}
        meta = {"name": "web", "namespace": "default"}
        made = {**body, "metadata": meta, "spec": {"template": template}}
        await client.create(WORKLOADS, made, namespace="default")
        try:
            since = "2026-01-01T00:00:00Z"
            left = {"cluster": "here", "replicas": 2, "cause": "Drained", "since": since}
            await _status(client, leaving=[left])
            with pytest.raises(ConfigurationError, match=r"default/web \(2 leaving\)"):
                await join.unjoin(client, PLAN, say=lambda _: None)
            with pytest.raises(StowageError, match="shares of default/web still name here"):
                await join.unjoin(client, FORCED, say=lambda _: None)
            marked = await client.get(MEMBER_CLUSTERS, "here")
            assert marked["metadata"]["annotations"][ANNOTATION_UNJOIN] == GIVEN_UP
            ended = {"result": "Succeeded", "time": since, "object": "Job default/j"}
            share = {"name": "here", "replicas": 2, "state": "Complete", "ended": ended}
            placements = [{"cluster": "here", "replicas": 2}]
            await _status(client, leaving=[], placements=placements, clusters=[share])
            with pytest.raises(ConfigurationError, match=r"default/web \(2 ended\)"):
                await join.unjoin(client, PLAN, say=lambda _: None)
            await join.unjoin(client, FORCED, say=lambda _: None)
            with pytest.raises(NotFound):
                await client.get(MEMBER_CLUSTERS, "here")
            await _status(client, clusters=[])
            with pytest.raises(StowageError, match="still name here"):  # it is away: made anew
                await join.unjoin(client, FORCED, say=lambda _: None)
            marked = await client.get(MEMBER_CLUSTERS, "here")
            assert marked["metadata"]["annotations"] == {ANNOTATION_UNJOIN: GIVEN_UP}
            await _status(client, placements=[])
            await join.unjoin(client, PLAN, say=lambda _: None)
        finally:
            await client.delete(WORKLOADS, "web", namespace="default")
            free = {"metadata": {"finalizers": None}}
            await client.merge_patch(WORKLOADS, "web", free, namespace="default")


@pytest.mark.proves("A29")
@pytest.mark.parametrize("invited", [True, False])
async def test_what_a_member_that_is_invited_again_meanwhile_has_stays(invited: bool) -> None:
    memory = MemoryHub(clock=FakeClock())
    space = f"{MEMBER_NAMESPACE_PREFIX}here-x7k2p"
    notes = {ANNOTATION_MEMBER_NAMESPACE: space}
    kind = {"kind": "MemberCluster", "apiVersion": MEMBER_CLUSTERS.api_version}
    meta = {"name": "here", "annotations": notes}
    memory.put(MEMBER_CLUSTERS, {**kind, "metadata": meta, "spec": {"mode": "Pull"}})
    labels = {LABEL_MEMBER_NAMESPACE: "here"}
    memory.put(NAMESPACES, {"metadata": {"name": space, "labels": labels}})

    async def invite(method: str, path: str, _body: Any) -> None:
        if invited and method == "GET" and "/workloads" in path:
            no_mark = {"metadata": {"annotations": {ANNOTATION_UNJOIN: None}}}
            memory.edit(MEMBER_CLUSTERS, "here", no_mark)

    memory.faults.append(invite)
    done = join.unjoin(cast("ApiClient", memory), FORCED, say=lambda _: None)
    if not invited:
        await done
        assert not memory.all(NAMESPACES)
        assert not memory.all(MEMBER_CLUSTERS)
        return
    with pytest.raises(StowageError, match="invited"):
        await done
    assert memory.read(NAMESPACES, space)
    assert memory.read(MEMBER_CLUSTERS, "here")
