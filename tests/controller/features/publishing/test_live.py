"""What is published, on a real API server: its schemas take it, and its list options find it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from machinery.api.resources import (
    CLUSTER_DECISIONS,
    CRDS,
    PLACEMENT_DECISIONS,
    WORKLOADS,
)
from machinery.errors import NotFound, TransportError
from stowage.setup import install
from tests import kstatus
from tests.controller.features.publishing.duckgenerator import generated, resource_of
from tests.controller.features.publishing.test_publishing import ON
from tests.controller.live import World, condition, deciding, deployment
from tests.patience import until

DEFINITION = Path(__file__).resolve().parents[3] / "data" / "placementdecisions.yaml"
MANY = 110


@pytest.fixture
async def argo(world: World) -> AsyncIterator[World]:
    """Argo CD's namespace on the hub, and nothing that is published left of other tests."""
    argo = await world.space("argocd")
    yield argo
    for kind in (CLUSTER_DECISIONS, PLACEMENT_DECISIONS):
        with suppress(NotFound):
            for each in (await argo.client.list(kind, namespace="argocd"))["items"]:
                await argo.client.delete(kind, each["metadata"]["name"], namespace="argocd")
    with suppress(NotFound):
        await argo.client.delete(CRDS, "placementdecisions.multicluster.x-k8s.io")


async def publishing(world: World, name: str, **spec: Any) -> None:
    body = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {"delivery": "None", "targetDeployment": deployment(name, "100m"), **spec},
    }
    await world.client.create(WORKLOADS, body)


@pytest.mark.long
@pytest.mark.proves("CT4", "CT5")
async def test_argo_reads_what_stands_there_from_the_first_moment_on(argo: World) -> None:
    settings = install.manifests(namespace="stowage-system", crds_only=True, argocd="argocd")
    (data,) = (each["data"] for each in settings if each["kind"] == "ConfigMap")
    group, version, plural = resource_of(data)
    known = {"m1": "https://m1", "m2": "https://m2"}

    async def applications() -> list[dict[str, str]]:
        found = await argo.client.request(
            "GET",
            f"/apis/{group}/{version}/namespaces/argocd/{plural}",
            params={"fieldSelector": "metadata.name=web"},
        )
        return generated(data, json.loads(found)["items"], known)

    bare = {
        "apiVersion": CLUSTER_DECISIONS.api_version,
        "kind": CLUSTER_DECISIONS.kind,
        "metadata": {"name": "web", "namespace": "argocd"},
        "spec": {},
    }
    made = await argo.client.create(CLUSTER_DECISIONS, bare)
    assert made["status"] == {"observedGeneration": -1, "decisions": []}
    assert kstatus.compute(made) == kstatus.IN_PROGRESS
    assert await applications() == []
    await argo.client.delete(CLUSTER_DECISIONS, "web", namespace="argocd")
    for name in known:
        await argo.cluster(name, labels={"pool": name})
    publish = {"clusterDecision": True, "labels": ["pool"]}
    await publishing(argo, "web", clusterSelector={"pool": "m1"}, publish=publish)
    async with deciding(argo):

        async def servers(wanted: list[str]) -> bool:
            with suppress(LookupError):
                return [each["server"] for each in await applications()] == wanted
            return False

        await until(lambda: servers(["https://m1"]))
        (one,) = await applications()
        assert (one["label.pool"], one["replicas"], one["rank"]) == ("m1", "1", "1")
        patch = {"spec": {"clusterSelector": {"pool": "m2"}}}
        await argo.client.merge_patch(WORKLOADS, "web", patch, namespace="argocd")
        await until(lambda: servers(["https://m2"]))
        found = await argo.client.get(CLUSTER_DECISIONS, "web", namespace="argocd")
        assert kstatus.compute(found) == kstatus.CURRENT
        row = argo.hub.kubectl("-n", "argocd", "get", "cd", "web", "--no-headers").split()
        assert row[:2] == ["web", "True"]


@pytest.mark.long
@pytest.mark.proves("CT6", "CT7")
async def test_slices_are_valid_by_the_definition_that_comes_while_it_runs(
    argo: World, tmp_path: Path
) -> None:
    file = tmp_path / "stowage.yaml"
    file.write_text(ON)
    await asyncio.gather(*(argo.cluster(f"c{number:03}") for number in range(MANY)))
    spec = {"distribution": "Duplicated", "publish": {"placementDecision": True}}
    async with deciding(argo, config_file=file):
        await publishing(argo, "web", **spec)

        async def said(status: str, reason: str) -> bool:
            found = await argo.client.get(WORKLOADS, "web", namespace="argocd")
            with suppress(KeyError):
                told = condition(found.get("status", {}), "Published")
                return (told["status"], told["reason"]) == (status, reason)
            return False

        await until(lambda: said("False", "NotServed"))
        found = await argo.client.get(WORKLOADS, "web", namespace="argocd")
        assert len(found["status"]["placements"]) == MANY
        await argo.client.create(CRDS, yaml.safe_load(DEFINITION.read_text()))

        async def sizes(wanted: dict[str, int]) -> bool:
            try:
                listed = await argo.client.list(PLACEMENT_DECISIONS, namespace="argocd")
            except TransportError:
                return False
            found = {each["metadata"]["name"]: len(each["decisions"]) for each in listed["items"]}
            return found == wanted

        await until(lambda: sizes({"web-0": 100, "web-1": MANY - 100}), seconds=60)
        await until(lambda: said("True", "Published"))
        patch = {"spec": {"clusterSelector": {"stowage.dev/cluster": "c007"}}}
        await argo.client.merge_patch(WORKLOADS, "web", patch, namespace="argocd")
        await until(lambda: sizes({"web-0": 1}))
