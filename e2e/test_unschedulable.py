"""Units that a member's own scheduler finds no node for: they go to other members."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import deployment, wait, workload
from e2e.stage import Stage

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def patient(running: Stage, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Yield a stage whose controller waits so many seconds for nodes; None: the default."""
    if request.param is None:
        yield running
        return
    args = {"unschedulableSeconds": request.param}
    file = tmp_path / "scheduler.json"  # JSON is YAML
    file.write_text(
        json.dumps(
            {
                "apiVersion": "stowage.dev/v1alpha1",
                "kind": "SchedulerConfiguration",
                "profiles": [{"pluginConfig": [{"name": "Divided", "args": args}]}],
            }
        )
    )
    controller = running.processes["controller"]
    controller.kill(signal.SIGTERM)  # SIGTERM releases its lease
    try:
        running.process("controller", "", None, f"--config={file}")
        yield running
    finally:
        controller.kill(signal.SIGTERM)
        running.process("controller")


def alone_on_its_node(name: str) -> dict[str, Any]:
    """Return a Deployment of which each node runs one pod, whatever room it has."""
    found = deployment(name)
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    found["spec"]["template"]["spec"]["affinity"] = {"podAntiAffinity": required}
    return found


def weight(zone: str, number: int) -> dict[str, Any]:
    return {"clusterSelector": {"matchLabels": {ZONE: zone}}, "weight": number}


@pytest.mark.long
@pytest.mark.proves("D3", "Y4")
@pytest.mark.parametrize(
    "patient",
    [15, None],
    ids=["soon", "by-default"],
    indirect=True,
)
def test_units_that_find_no_node_go_where_there_is_one(patient: Stage, space: str) -> None:
    # As many nodes as a member has, which is one on kind: all units go to the first, half too many.
    nodes = len(patient.members["member-1"].items("nodes"))
    weights = [weight("zone-1", 100), weight("zone-2", 1)]
    patient.hub.apply(
        workload(
            "picky",
            space,
            targetDeployment=alone_on_its_node("picky"),
            template=None,
            replicas=2 * nodes,
            distribution="Divided",
            distributionWeights=weights,
        )
    )

    def crowded() -> bool:
        shares = patient.status(space, "picky").get("clusters", [])
        waits = {each["name"]: each.get("unschedulable", 0) for each in shares}
        return waits.get("member-1") == nodes

    wait("units without a node", crowded)
    assert patient.placements(space, "picky") == {"member-1": 2 * nodes}
    (share,) = [
        each for each in patient.status(space, "picky")["clusters"] if each["name"] == "member-1"
    ]
    assert share["unschedulableSince"]

    wait(
        "the limit of member-1",
        lambda: patient.status(space, "picky").get("limits"),
        timeout=100,
    )
    status = patient.until_running(space, "picky")
    assert patient.placements(space, "picky") == {"member-1": nodes, "member-2": nodes}
    assert [(each["cluster"], each["replicas"]) for each in status["limits"]] == [
        ("member-1", nodes)
    ]
    assert status["readySummary"] == f"{2 * nodes}/{2 * nodes}"
    for member in ("member-1", "member-2"):
        found = patient.seen(member, space, "picky")
        assert found is not None
        assert (found["spec"]["replicas"], found["status"]["readyReplicas"]) == (nodes, nodes)
