"""spec.suspend on real members: nothing is written there, and the rest goes on."""

from __future__ import annotations

import pytest

from tests.propagator.stage import (
    CONFIGMAPS,
    DEPLOYMENTS,
    Stage,
    changes,
    configmap,
    deployment,
    settled,
)
from tests.propagator.waits import until

M2 = {"suspend": {"clusterSelector": {"stowage.dev/cluster": "m2"}}}


@pytest.mark.proves("KD77", "KD79")
async def test_nothing_is_written_on_a_suspended_cluster_until_that_ends(stage: Stage):
    spec = {"targetDeployment": deployment(), "manifests": [configmap("old"), configmap("cut")]}
    await stage.bring("web", {"m1": 1, "m2": 1}, **spec)
    await stage.patch("web", {"spec": M2})
    await stage.fares("web", "m2", "Suspended")
    m2 = stage.members["m2"]
    edited = {"metadata": {"labels": {"by": "hand"}}, "spec": {"paused": True}}
    await m2.merge_patch(DEPLOYMENTS, "web", edited, namespace=stage.namespace)
    await m2.delete(CONFIGMAPS, "old", namespace=stage.namespace)
    before = await changes(m2)

    edit = {
        "targetDeployment": deployment(image="pause:2"),
        "manifests": [configmap("old"), configmap("new")],
    }
    await stage.patch("web", {"spec": edit})
    await stage.place("web", m1=2, m2=3)
    await stage.becomes("m1", "web", 2, "replicas")
    await stage.appears("m1", "new", kind=CONFIGMAPS)
    await stage.goes("m1", "cut", kind=CONFIGMAPS)
    await stage.make_ready("m1")
    await stage.make_ready("m2")
    message = await stage.refused("web", "Suspended", "m2", "spec.suspend")
    ready = await stage.condition("web", "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "False",
        "Suspended",
        message,
    )
    assert (await stage.condition("web", "Reconciling"))["status"] == "True"
    assert (await stage.status("web"))["state"] == "Suspended"

    async def goes_on() -> bool:
        return bool((await stage.share("web", "m2"))["ready"] == 1)

    await until(goes_on)
    await stage.restarted()
    await settled(stage)
    assert await stage.on("m2", "old", kind=CONFIGMAPS) is None
    made = (await changes(m2)) - before
    assert made == {("PATCH", "deployments"): 1}, "that of this test alone"

    await stage.patch("web", {"spec": {"suspend": None}})
    await stage.becomes("m2", "web", 3, "replicas", within=10)
    await stage.appears("m2", "old", kind=CONFIGMAPS)
    await stage.make_ready("m2")
    await stage.goes("m2", "cut", kind=CONFIGMAPS)
    await stage.patch("web", {"spec": M2})
    await stage.fares("web", "m2", "Suspended")
    await stage.end("web")
    assert await stage.on("m2") is None, "the deletion ends the suspension"
