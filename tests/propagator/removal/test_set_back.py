"""What a hub that was set back to an older state has removed of Workloads that it knows: nothing that runs."""

from __future__ import annotations

from typing import Any

import pytest

from crds.names import ANNOTATION_HUB_VERSION
from tests.propagator.stage import DEPLOYMENTS, Stage, settled
from tests.propagator.waits import until


async def running_on(stage: Stage, name: str, member: str) -> dict[str, Any]:
    """The Workload runs there, and the hub says so; its status."""
    await stage.place(name, **{member: 1})
    await stage.make_ready(member)

    async def told() -> bool:
        shares = (await stage.status(name)).get("clusters", [])
        return [(each["name"], each["state"]) for each in shares] == [(member, "Running")]

    await until(told)
    return await stage.status(name)


@pytest.mark.long
@pytest.mark.proves("N11")
async def test_a_copy_goes_when_another_is_seen_to_run_and_not_when_an_old_status_says_so(
    stage: Stage,
):
    await stage.create("demo")
    backup = await running_on(stage, "demo", "m1")
    await running_on(stage, "demo", "m2")
    await stage.goes("m1")
    await stage.stop()
    told = {key: backup[key] for key in ("placements", "clusters", "conditions")}
    await stage.patch("demo", {"status": told}, subresource="status")
    copy = await stage.on("m2")
    assert copy is not None
    stage.start()
    await stage.ready()
    await stage.appears("m1")
    await settled(stage)
    found = await stage.on("m2")
    assert found is not None, "the last copy that runs was taken away"
    assert found["metadata"]["uid"] == copy["metadata"]["uid"]
    await stage.make_ready("m1")
    await stage.goes("m2")


@pytest.mark.long
@pytest.mark.proves("N11")
async def test_what_a_younger_decision_made_stays_until_the_hub_decides_again(stage: Stage):
    await stage.create("demo")
    await running_on(stage, "demo", "m1")
    younger = {"metadata": {"annotations": {ANNOTATION_HUB_VERSION: "9000000000"}}}
    where = {"namespace": stage.namespace}
    await stage.members["m1"].merge_patch(DEPLOYMENTS, "web", younger, **where)
    await stage.stop()
    await stage.patch("demo", {"spec": {"replicas": 0}})  # as the hub had it an hour ago
    await stage.place("demo")
    stage.start()
    await stage.ready()
    await settled(stage)
    assert await stage.on("m1"), "an old decision removed what a younger one made"
    (share,) = (await stage.status("demo"))["clusters"]
    assert share["state"] == "Leaving"
    assert "an edit of the Workload decides" in share["message"]
    await stage.patch("demo", {"spec": {"replicas": 1}})
    await stage.patch("demo", {"spec": {"replicas": 0}})
    await stage.goes("m1")


@pytest.mark.long
@pytest.mark.proves("N11")
async def test_a_share_that_is_to_be_lowered_says_that_a_younger_decision_made_it(
    stage: Stage,
):
    """Its successor waits for it: else nobody would say what both of them wait for."""
    await stage.run("demo", {"m1": 2}, movement={"maxSurge": 0}, replicas=2)
    await stage.make_ready("m1")
    await stage.fares("demo", "m1", "Running")
    await stage.stop()
    younger = {"metadata": {"annotations": {ANNOTATION_HUB_VERSION: "9000000000"}}}
    where = {"namespace": stage.namespace}
    await stage.members["m1"].merge_patch(DEPLOYMENTS, "web", younger, **where)
    await stage.place("demo", m2=2)
    stage.start()
    await stage.ready()

    async def told() -> bool:
        share = await stage.share("demo", "m1")
        return "an edit of the Workload decides" in share["message"]

    await until(told)
    assert (await stage.on("m1"))["spec"]["replicas"] == 2
    assert await stage.on("m2") is None
    await stage.patch("demo", {"spec": {"priority": 1}})
    await stage.becomes("m1", "web", 1, "replicas")
