"""Manifests alone: a Workload without an object that runs replicas, on real members."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.api.resources import WORKLOADS
from machinery.errors import Invalid
from tests.propagator.stage import CONFIGMAPS, Stage, configmap, deployment
from tests.propagator.waits import until


async def ready(stage: Any) -> tuple[str, str]:
    said = await stage.condition("settings", "Ready")
    return said.get("status", ""), said.get("message", "")


@pytest.mark.long
@pytest.mark.proves("KD80")
async def test_manifests_alone_are_a_copy_on_each_cluster_and_ready_by_their_objects(
    stage: Stage,
):
    body = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "settings", "namespace": stage.namespace},
        "spec": {
            "schedulerName": "the-test",
            "distribution": "Duplicated",
            "manifests": [configmap("one", key="a"), deployment("web")],
        },
    }
    for spec in ({"distribution": "Divided"}, {"manifests": []}):
        wrong = {**body, "spec": {**body["spec"], **spec}}
        with pytest.raises(Invalid):
            await stage.hub.create(WORKLOADS, wrong)
    await stage.hub.create(WORKLOADS, body)
    await stage.place("settings", m1=1, m2=1)
    await stage.propagated("settings")
    for member in ("m1", "m2"):
        assert await stage.on(member, "one", kind=CONFIGMAPS)
    await stage.fares("settings", "m1", "Creating")
    assert (await ready(stage))[0] == "False"
    await stage.make_ready("m1")
    await stage.make_ready("m2")
    await stage.fares("settings", "m1", "Running")

    async def is_ready() -> bool:
        return await ready(stage) == ("True", "every replica is ready")

    await until(is_ready)
    assert (await stage.status("settings"))["readySummary"] == "2/2"

    await stage.place("settings", m1=1)
    await stage.goes("m2", "one", kind=CONFIGMAPS)
    await stage.goes("m2")
    edit = {"spec": {"manifests": [configmap("one", key="b")]}}
    await stage.patch("settings", edit)
    await stage.goes("m1")
    assert (await stage.on("m1", "one", kind=CONFIGMAPS))["data"] == {"key": "b"}
