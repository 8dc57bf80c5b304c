"""A profile changes: nothing is written for a Workload that is still read by the former one."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.api.resources import WORKLOADS
from tests.propagator.memory import SPACE, World

KEY = (SPACE, "web")


def workload() -> dict[str, Any]:
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": pod}
    template = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    meta = {"name": "web", "namespace": SPACE, "generation": 1}
    return {"metadata": meta, "spec": {"template": template, "replicas": 1}}


@pytest.mark.proves("KD4")
async def test_nothing_is_written_before_a_workload_is_read_anew() -> None:
    world = World("m1")
    async with world.propagating() as process:
        world.put(WORKLOADS, workload())
        world.place("web", m1=1)
        await world.until(lambda: world.deployments("m1"))
        await world.calm(10)
        term = process.term
        assert term is not None
        kinds, former = term.workloads.kinds, term.workloads._workloads.informer.get(KEY)

        kinds.rereading.changed("apps", "Deployment")
        assert not term.hub_fresh()
        assert term.stale() == "", "the hub is heard all the same"
        assert await term.workloads._reporter._report(KEY) is not None, "it is reported later"

        await world.until(term.hub_fresh)
        held = term.workloads._workloads.informer.get(KEY)
        assert held is not former, "read anew"
        assert await term.workloads._reporter._report(KEY) is None
