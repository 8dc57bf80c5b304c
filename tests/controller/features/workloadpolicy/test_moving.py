"""The quota of a cluster that is drained: what has not left it yet still holds it."""

from __future__ import annotations

import pytest

from crds.names import LABEL_POLICY, TAINT_DRAIN
from machinery.api.resources import WORKLOAD_POLICIES, WORKLOADS
from tests.controller.features.evacuation.movingfleet import fleet, leaving

QUOTA = 4
ZONE = "topology.kubernetes.io/zone"


@pytest.mark.proves("K14", "M1")
@pytest.mark.parametrize("first", ["web", "late"])
async def test_units_that_come_back_when_a_drain_is_undone_find_their_quota(first: str) -> None:
    """The other Workload waits for quota, and is decided first or second once it can be placed."""
    async with fleet("m1", "m2") as (stage, members):
        picked = {"key": "app", "operator": "In", "values": ["web", "late"]}
        spec = {
            "topologyKey": ZONE,
            "labelSelector": {"matchExpressions": [picked]},
            "allocationType": "Required",
            "allocationPolicy": [{"name": name, "replicas": QUOTA} for name in ("m1", "m2")],
        }
        meta = {"name": "strict", "namespace": "shop"}
        stage.hub.put(WORKLOAD_POLICIES, {"metadata": meta, "spec": spec})
        ranks = {name: 5 if name == first else 0 for name in ("web", "late")}
        bound = {LABEL_POLICY: "strict"}

        def start(name: str, **more: object) -> None:
            labels = {"app": name, **bound}
            stage.workload(
                name, replicas=QUOTA, labels=labels, distribution="Divided",
                priority=ranks[name], **more,
            )  # fmt: skip

        start("web", movement={"maxSurge": "100%"}, targetCluster={"name": "m1"})
        await stage.until(lambda: stage.placed("web") == {"m1": QUOTA})
        await stage.until(lambda: members.looks["web"][-1].ready == QUOTA)
        members.stuck.add("m2")
        stage.hub.edit(WORKLOADS, "web", {"spec": {"targetCluster": None}})
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: stage.placed("web") == {"m2": QUOTA})
        assert leaving(stage, "web") == {"m1": (QUOTA, "Drained")}
        start("late")
        await stage.until(lambda: stage.says("late")[0] == "False")
        for name in ("web", "late"):
            members.looks[name].clear()
        members.taint("m1")
        await stage.calm(10)
        for looks in zip(members.looks["web"], members.looks["late"], strict=False):
            for member in ("m1", "m2"):
                assert sum(look.placements.get(member, 0) for look in looks) <= QUOTA
        placed = [stage.placed(name) for name in ("web", "late")]
        assert sum(sum(each.values()) for each in placed) == 2 * QUOTA, "and both are placed"
