"""A gang on real members and a process that is killed: all of it, or nothing.

The test plays the schedulers, the group's controller, and the kubelets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from crds.groups.gate import decision_of
from crds.names import LABEL_GROUP
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS
from stowage.playground.controlplanes import Cluster
from tests.propagator.stage import CONFIGMAPS, DEPLOYMENTS, MakeStage, Stage, deployment
from tests.propagator.test_kills import outside
from tests.propagator.waits import until

NAMES = ("driver", "worker")


async def found(stage: Stage, *, name: str = "batch") -> None:
    """A WorkloadGroup that nothing was said of yet."""
    await stage.hub.create(
        WORKLOAD_GROUPS,
        {
            "apiVersion": WORKLOAD_GROUPS.api_version,
            "kind": WORKLOAD_GROUPS.kind,
            "metadata": {"name": name, "namespace": stage.namespace},
            "spec": {"minMember": 3},
        },
    )


async def join(stage: Stage, name: str, *, group: str = "batch", **spec: Any) -> None:
    """A Workload of that group, whoever schedules it."""
    await stage.hub.create(
        WORKLOADS,
        {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "metadata": {
                "name": name,
                "namespace": stage.namespace,
                "labels": {LABEL_GROUP: group},
            },
            "spec": {"schedulerName": "the-test", "targetDeployment": deployment(name), **spec},
        },
    )


async def gate(stage: Stage, *released: str, state: str | None = "Open", **more: Any) -> None:
    """What the group's controller writes: these Workloads at their present placements."""
    decisions = dict([await entry(stage, name) for name in released])
    status = {"gate": state, "decisions": decisions or None, **more}
    await stage.hub.merge_patch(
        WORKLOAD_GROUPS,
        "batch",
        {"status": status},
        namespace=stage.namespace,
        subresource="status",
    )


async def entry(stage: Stage, name: str) -> tuple[str, str]:
    found = await stage.workload(name)
    assert found is not None
    placed = {each["cluster"]: each["replicas"] for each in found["status"]["placements"]}
    return found["metadata"]["uid"], decision_of(placed)


async def gang(stage: Stage, *, group: bool = True, **shares: Mapping[str, int]) -> None:
    """A driver on m1, workers on both, placed by somebody and released by nobody."""
    if group:
        await found(stage)
    for name, placed in (shares or {"driver": {"m1": 1}, "worker": {"m1": 1, "m2": 2}}).items():
        await join(stage, name)
        await stage.place(name, **placed)


async def held(stage: Stage, *names: str, words: str = "WorkloadGroup") -> None:
    """Wait until that is told of all of them."""
    for name in names or NAMES:
        said: dict[str, Any] = {}

        async def so(name: str = name, said: dict[str, Any] = said) -> bool:
            said.update(await stage.condition(name, "Propagated"))
            return said.get("reason") == "WaitingForGroup" and words in said["message"]

        await until(so, what=lambda said=said: said)


async def standing(stage: Stage, *, only: str = "") -> Counter[str]:
    """Objects of the tenant on each member, of the kinds that these tests write."""
    there: Counter[str] = Counter()
    for member, client in stage.members.items():
        if only not in ("", member):
            continue
        for kind in (DEPLOYMENTS, CONFIGMAPS):
            listed = await client.list(kind, namespace=stage.namespace)
            names = [each["metadata"]["name"] for each in listed["items"]]
            there[member] += len([name for name in names if name != "kube-root-ca.crt"])
    return there


async def stand(stage: Stage, **number: int) -> None:
    """Wait until exactly so many objects are on the members."""
    wanted = Counter(number)

    async def so() -> bool:
        return +(await standing(stage)) == +wanted

    await until(so)


@pytest.mark.long
@pytest.mark.proves("G24")
async def test_a_process_killed_at_any_moment_goes_on_by_what_the_gate_says(
    stage_on: MakeStage, hub: Cluster, m2: Cluster, tmp_path: Path
):
    """Killed while it is held, in the midst of a start, and then while everything leaves."""
    async with stage_on() as stage, outside(stage, hub, tmp_path) as process:
        await gang(stage)
        await held(stage)
        process.kill()
        await gate(stage, *NAMES)
        await stand(stage, m1=1)  # the Workload that showed the process at work
        m2.freeze()
        try:
            await process.start()
            await stage.refused("driver", "ClusterUnreachable", within=60)
            process.kill()
            assert +(await standing(stage, only="m1")) == Counter(m1=1), "m2 was never connected"
        finally:
            m2.thaw()
        await process.start()
        await stage.appears("m2", "worker")
        process.kill()
        await gate(stage, *NAMES, state="Closed")
        m2.freeze()
        try:
            await process.start()
            await stage.goes("m1", "driver")
            await stage.goes("m1", "worker")
            process.kill()
            await gate(stage, *NAMES, state="Closed", failures=1)
        finally:
            m2.thaw()
        await process.start()
        await stand(stage, m1=1)
