"""Values of a cluster that was left, in the objects of the next one."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.api.resources import WORKLOADS
from tests.propagator.stage import Stage, changes, deployment, settled

CARRY: dict[str, Any] = {
    "statusFields": [{"name": "savepoint", "path": "status.savepoint"}],
    "movement": {"carry": ["savepoint"]},
    "overrides": [
        {
            "name": "resume",
            "clusterSelector": {},
            "patch": {"metadata": {"annotations": {"from": "$(stowage.carried:savepoint)"}}},
        }
    ],
}


async def carried(stage: Stage, value: str) -> None:
    """As the controller writes it beside the placements."""
    status = {"status": {"carried": {"savepoint": value}}}
    about: dict[str, Any] = {"namespace": stage.namespace, "subresource": "status"}
    await stage.hub.merge_patch(WORKLOADS, "web", status, **about)


async def source(stage: Stage, member: str) -> str | None:
    found = await stage.on(member)
    assert found is not None
    annotations: dict[str, str] = found["metadata"]["annotations"]
    return annotations.get("from")


@pytest.mark.long
@pytest.mark.proves("KD76")
async def test_a_new_object_has_the_value_and_what_stands_keeps_its_own(
    stage: Stage,
) -> None:
    await stage.bring("web", {"m1": 1}, targetDeployment=deployment(), **CARRY)
    await carried(stage, "s3://b/7")
    await stage.place("web", m1=1, m2=1)
    await stage.appears("m2")
    assert await source(stage, "m2") == "s3://b/7"
    before = await changes(stage.members["m1"]) + await changes(stage.members["m2"])
    await carried(stage, "s3://b/9")
    await stage.restarted()
    await settled(stage)
    assert await changes(stage.members["m1"]) + await changes(stage.members["m2"]) == before
    assert await source(stage, "m1") is None, "without a value the override is left out"
    assert await source(stage, "m2") == "s3://b/7"
    await stage.patch("web", {"spec": {"targetDeployment": deployment(minReadySeconds=5)}})
    for member in ("m1", "m2"):
        await stage.becomes(member, "web", 5, "minReadySeconds")
    assert await source(stage, "m1") is None
    assert await source(stage, "m2") == "s3://b/7"
