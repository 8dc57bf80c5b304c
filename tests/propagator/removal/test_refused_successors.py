"""A refused object: what it may replace stays, also where everything else was applied."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.api.resources import WORKLOADS
from tests.propagator.memory import SPACE, World
from tests.propagator.test_in_memory import edit, on
from tests.propagator.test_one_shard import propagated, ready, runs, workload

pytestmark = pytest.mark.usefixtures("steady")
Json = dict[str, Any]


def service(name: str) -> Json:
    meta = {"name": name}
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


@pytest.mark.proves("A5")
async def test_a_service_stays_while_the_one_of_its_new_name_is_refused() -> None:
    world = World("m1")
    async with world.propagating():
        await ready(world)
        body = workload("web")
        body["spec"]["manifests"] = [service("front")]
        world.put(WORKLOADS, body)
        world.place("web", m1=1)
        await world.until(lambda: runs(world, "web", m1=1))
        await world.calm(3)
        theirs = service("entry")
        theirs["metadata"] |= {"namespace": SPACE, "uid": "another", "resourceVersion": "5"}
        world.members["m1"].objects["services"][SPACE, "entry"] = theirs
        edit(world, manifests=[service("entry")])
        await world.until(lambda: propagated(world, "web") == "AlreadyExists")
        await world.calm(10)
        assert "front" in on(world, "m1", "services")
        world.members["m1"].delete("services", (SPACE, "entry"))
        await world.until(lambda: set(on(world, "m1", "services")) == {"entry"})
        await world.until(lambda: runs(world, "web", m1=1))
