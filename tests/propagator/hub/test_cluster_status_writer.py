"""The status of a MemberCluster has two writers, and each leaves the other's part as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from crds.names import TAINT_DRAIN
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.types.conditions import find
from stowage.playground.controlplanes import Cluster
from tests.propagator.waits import until

DRAIN = {"key": TAINT_DRAIN, "effect": "NoExecute"}
RACES = 3
PARTS = ("status", "reason", "message")


async def evacuating(client: ApiClient, message: str, reason: str = "Draining") -> None:
    """Write the controller's part, as the controller does."""
    stored = await client.get(MEMBER_CLUSTERS, "m1")
    others = [each for each in stored["status"]["conditions"] if each["type"] != "Evacuating"]
    condition = {
        "type": "Evacuating",
        "status": "True" if reason == "Draining" else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-11-26T03:00:00Z",
    }
    metadata = {"resourceVersion": stored["metadata"]["resourceVersion"]}
    since = "2026-11-26T03:00:00Z"
    evacuation = {"causes": [{"name": message, "since": since}], "units": 4}
    status = {"conditions": [*others, condition], "evacuation": evacuation}
    patch = {"metadata": metadata, "status": status}
    await client.merge_patch(MEMBER_CLUSTERS, "m1", patch, subresource="status")


@pytest.mark.long
async def test_a_lost_race_loses_neither_readiness_nor_what_the_controller_wrote(
    rig_on: Callable[..., Any], hub: Cluster, m1: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_on() as rig, ApiClient(hub.connection()) as controller:
        await rig.connect("m1", m1)
        merge_patch, asked = rig.hub.merge_patch, 0

        async def raced(res: Any, name: str, patch: Any, **how: Any) -> Any:
            nonlocal asked
            if "conditions" in patch.get("status", {}):
                asked += 1
                if asked <= RACES:
                    await evacuating(controller, f"race {asked}")
            return await merge_patch(res, name, patch, **how)

        monkeypatch.setattr(rig.hub, "merge_patch", raced)
        await rig.change("m1", {"kubeconfig": "none"})

        async def told() -> bool:
            return find((await rig.cluster("m1"))["status"], "Ready")["status"] == "False"

        await until(told)
        status = (await rig.cluster("m1"))["status"]
        assert find(status, "Ready")["reason"] == "InvalidKubeconfig"
        assert find(status, "Stalled")["reason"] == "InvalidKubeconfig", "no time heals it"
        assert [find(status, "Evacuating")[part] for part in PARTS] == [
            "True",
            "Draining",
            f"race {RACES}",
        ]
        assert asked == RACES + 1, "each lost race is run again once"
        await until(lambda: rig.told("m1", "Disconnected"))
        await evacuating(controller, "last")
        await rig.change("m1", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("m1", "Connected")
        status = (await rig.cluster("m1"))["status"]
        assert find(status, "Evacuating")["message"] == "last"
        assert status["evacuation"]["causes"][0]["name"] == "last"


@pytest.mark.long
@pytest.mark.proves("Q20")
async def test_kubectl_shows_a_cordon_and_a_drain_as_it_does_of_nodes(
    rig_on: Callable[..., Any], hub: Cluster, m1: Cluster
) -> None:
    async with rig_on() as rig, ApiClient(hub.connection()) as admin:
        await rig.connect("m1", m1)

        async def shown(state: str) -> None:
            async def told() -> bool:
                return (await rig.cluster("m1"))["status"].get("state") == state

            await until(told)

        async def edit(spec: dict[str, Any]) -> None:
            await admin.merge_patch(MEMBER_CLUSTERS, "m1", {"spec": spec})

        await shown("Ready")
        await edit({"unschedulable": True})
        await shown("Ready,SchedulingDisabled")
        await edit({"taints": [DRAIN]})
        await shown("Ready,Draining")
        await evacuating(admin, "everything that had to leave has left", "Drained")
        await shown("Ready,Drained")
        row = (await asyncio.to_thread(hub.kubectl, "get", "mc", "m1")).splitlines()[1]
        assert row.split()[:2] == ["m1", "Ready,Drained"]
        await edit({"unschedulable": False, "taints": []})
        await shown("Ready")
        await rig.change("m1", {"kubeconfig": "none"})
        await shown("NotReady")
