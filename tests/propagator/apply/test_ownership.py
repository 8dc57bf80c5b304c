"""Whose doing it is that an object on a member is gone, on real ones."""

from __future__ import annotations

from contextlib import suppress

import pytest

from machinery.api.resources import WORKLOADS
from machinery.errors import NotFound
from tests.propagator.stage import CONFIGMAPS, Stage, configmap
from tests.propagator.status.test_conditions import conditions, watched
from tests.propagator.waits import until


@pytest.mark.long
@pytest.mark.proves("N5")
async def test_a_removal_of_ours_is_told_as_no_fight(stage: Stage):
    """A share goes and comes back while somebody's finalizer holds an object of it."""
    await stage.bring("demo", {"m1": 1}, manifests=[configmap("conf")])
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    where = {"namespace": stage.namespace}
    held = await stage.members["m1"].merge_patch(CONFIGMAPS, "conf", hold, **where)
    await stage.place("demo", m2=1)
    await stage.make_ready("m2")

    async def leaves() -> bool:
        found = await stage.on("m1", "conf", kind=CONFIGMAPS)
        return found is not None and "deletionTimestamp" in found["metadata"]

    await until(leaves)
    before = await stage.on("m1", "conf", kind=CONFIGMAPS)
    assert before is not None
    async with watched(stage.hub, WORKLOADS) as states:
        await stage.place("demo", m1=1, m2=1)
        told = await stage.refused("demo", "Propagating", "example.com/hold")
        assert "ConfigMap" in told
        assert "made again when it is gone" in told
        lying = await stage.on("m1", "conf", kind=CONFIGMAPS)
        assert lying is not None
        assert lying["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        free = {"metadata": {"finalizers": None}}
        await stage.members["m1"].merge_patch(CONFIGMAPS, "conf", free, **where)
        await stage.propagated("demo")
    found = await stage.appears("m1", "conf", kind=CONFIGMAPS)
    assert found["metadata"]["uid"] != held["metadata"]["uid"]
    said = {each["reason"] for state in states for each in conditions(state, "Propagated")}
    assert "Conflict" not in said


@pytest.mark.long
@pytest.mark.proves("N5")
async def test_who_deletes_again_and_again_is_told_until_it_ends(stage: Stage):
    await stage.bring("demo", {"m1": 1}, manifests=[configmap("conf")])

    async def told() -> bool:
        with suppress(NotFound):  # it is left alone for ever longer
            await stage.members["m1"].delete(CONFIGMAPS, "conf", namespace=stage.namespace)
        found = await stage.condition("demo", "Propagated")
        return bool(found["reason"] == "Conflict")

    await until(told, every=0.2)
    message = (await stage.condition("demo", "Propagated"))["message"]
    assert "ConfigMap" in message
    assert "is deleted each time it is written, by somebody" in message
    # Nobody deletes it any more: the condition ends with that.
    await stage.propagated("demo")
    assert await stage.on("m1", "conf", kind=CONFIGMAPS)
