"""Both forms of a selector of clusters, on a real hub with its admission policies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controller.live import deciding, world_on

ZONE = "topology.kubernetes.io/zone"


def _alone(**labels: str) -> dict[str, Any]:
    return labels


def _selector(**labels: str) -> dict[str, Any]:
    return {"matchLabels": labels}


def _expressions(**labels: str) -> dict[str, Any]:
    found = ({"key": k, "operator": "In", "values": [v]} for k, v in labels.items())
    return {"matchExpressions": [*found]}


@pytest.mark.proves("Q9")
async def test_each_form_chooses_clusters_and_divides_by_weight(controller_hub: Any) -> None:
    async with world_on(controller_hub, "shop") as world:
        for number in range(2):
            await world.cluster(f"m{number}", labels={ZONE: f"z{number}"})
        forms = {"alone": _alone, "selector": _selector, "expressions": _expressions}
        for name, form in forms.items():
            await world.workload(f"one-{name}", replicas=2, clusterSelector=form(**{ZONE: "z1"}))
            weights = [
                {"clusterSelector": form(**{ZONE: "z0"}), "weight": 3},
                {"clusterSelector": {}, "weight": 1},
            ]
            await world.workload(
                f"parts-{name}", replicas=4, distribution="Divided", distributionWeights=weights
            )
        async with deciding(world):
            for name in forms:
                assert await world.placed(f"one-{name}") == {"m1": 2}
                assert await world.placed(f"parts-{name}") == {"m0": 3, "m1": 1}
