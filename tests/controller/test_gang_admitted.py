"""What a real hub takes of groups and of labels, and what the controller makes of it.

The schema lets through what only somebody can tell who knows the numbers, or both labels: that is a
condition, which names the field or the labels, and goes once it is mended.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from crds.names import GROUP_ALIASES, LABEL_GROUP
from machinery.api.resources import WORKLOAD_GROUPS
from tests.patience import until

from .grouping import group
from .live import World, condition, deciding, deployment, placements

FIRST, SECOND = GROUP_ALIASES


async def begin(world: World, name: str = "batch", least: int = 2, **spec: Any) -> None:
    body = group(name, least, **spec)
    body["metadata"]["namespace"] = world.namespace
    await world.client.create(WORKLOAD_GROUPS, body)


async def says(world: World, reason: str, name: str = "batch") -> str:
    """The message of a group, as soon as it gives that reason."""
    found: Mapping[str, Any] = {}

    async def true() -> bool:
        nonlocal found
        stored = await world.client.get(WORKLOAD_GROUPS, name, namespace=world.namespace)
        with suppress(KeyError):
            found = condition(stored.get("status", {}), "Scheduled")
        return found.get("reason") == reason

    await until(true, what=lambda: found)
    return str(found["message"])


@pytest.mark.proves("G2")
async def test_labels_at_three_places_and_of_three_names_make_one_gang(world: World):
    await world.cluster("m1")
    pods = deployment("pods", "1")
    pods["spec"]["template"]["metadata"]["labels"][SECOND] = "batch"
    body = deployment("body", "1")
    body["metadata"]["labels"] = {FIRST: "batch"}
    async with deciding(world):
        await begin(world, least=3)
        await world.workload("pods", targetDeployment=pods)
        await world.workload("body", targetDeployment=body)
        assert "has 2 units" in (await world.refused("body", "GroupDenied"))["message"]
        await world.workload("own", labels={LABEL_GROUP: "batch"})
        for name in ("pods", "body", "own"):
            assert await world.placed(name) == {"m1": 1}
        assert await says(world, "Scheduled")


@pytest.mark.proves("G2")
@pytest.mark.parametrize("below", [False, True], ids=["both on it", "one on its pods"])
async def test_two_labels_that_differ_keep_it_out_of_both_groups(world: World, below: bool):
    await world.cluster("m1")
    inner = deployment("torn", "1")
    labels = {FIRST: "batch"} if below else {FIRST: "batch", SECOND: "other"}
    if below:
        inner["spec"]["template"]["metadata"]["labels"][LABEL_GROUP] = "other"
    async with deciding(world):
        await begin(world, least=1)
        await begin(world, "other", least=1)
        await world.workload("torn", labels=labels, targetDeployment=inner)
        said = (await world.refused("torn", "AmbiguousGroup"))["message"]
        assert "batch and other" in said
        await world.settle()
        assert not placements(await world.get("torn"))
        for name in ("batch", "other"):
            stored = await world.client.get(WORKLOAD_GROUPS, name, namespace=world.namespace)
            assert not stored.get("status", {}).get("workloads")
        if below:
            template = {"template": {"metadata": {"labels": {LABEL_GROUP: "batch"}}}}
            await world.edit("torn", {"spec": {"targetDeployment": {"spec": template}}})
        else:
            await world.edit("torn", {"metadata": {"labels": {SECOND: None}}})
        assert await world.placed("torn") == {"m1": 1}
        assert await says(world, "Scheduled")


@pytest.mark.proves("G1")
@pytest.mark.parametrize("amount", ["9e40", "9" * 60, "999E"])
async def test_an_amount_that_no_cluster_has_is_a_condition_that_names_it(
    world: World, amount: str
):
    """The schema takes it: it is a quantity."""
    await world.cluster("m1")
    async with deciding(world):
        await begin(world, least=1, minResources={"cpu": "1", "memory": amount})
        await world.workload("one", labels={LABEL_GROUP: "batch"})
        said = (await world.refused("one", "InvalidGroup"))["message"]
        assert "spec.minResources.memory" in said
        assert "spec.minResources.memory" in await says(world, "InvalidGroup")
        assert not placements(await world.get("one"))
        mended = {"spec": {"minResources": {"memory": "1Gi"}}}
        await world.client.merge_patch(WORKLOAD_GROUPS, "batch", mended, namespace=world.namespace)
        assert await world.placed("one") == {"m1": 1}
        assert await says(world, "Scheduled")
