"""Ranges of ordinals are written with the placements, and outlive whatever becomes of a status."""

from __future__ import annotations

from typing import Any

import pytest

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.scheduling.cycle import decide
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from tests.controller import make
from tests.controller.memory import Stage


def ranges(stage: Stage) -> dict[str, int]:
    status = stage.hub.read(WORKLOADS, "db")["status"]
    return {each["cluster"]: each["start"] for each in status.get("ordinals", ())}


def told(stage: Stage, **starts: int | None) -> None:
    """What the propagator would report."""
    shares: list[dict[str, Any]] = []
    for name, start in starts.items():
        share = {"name": name, "replicas": 2, "ready": 2, "scheduled": 2, "state": "Running"}
        shares.append(share if start is None else {**share, "start": start})
    stage.hub.edit(WORKLOADS, "db", {"status": {"clusters": shares}}, status=True)


@pytest.mark.proves("A4", "KD49", "KD52")
async def test_ranges_come_with_the_placements_and_are_put_right_by_what_runs() -> None:
    stage = Stage("m1", "m2", cpu="100")
    template = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {"ordinals": {"start": 1000}},
    }
    how = {"targetDeployment": None, "template": template, "distribution": "Divided"}
    async with stage.leading():
        stage.workload("db", replicas=4, **how)
        await stage.until(lambda: stage.placed("db") == {"m1": 2, "m2": 2})
        assert ranges(stage) == {"m1": 1000, "m2": 2000}
        # The members have others, as where a backup was restored; then the note is lost as well.
        told(stage, m1=5000, m2=0)
        await stage.until(lambda: ranges(stage) == {"m1": 5000, "m2": 0})
        stage.hub.edit(WORKLOADS, "db", {"status": {"ordinals": []}}, status=True)
        await stage.until(lambda: ranges(stage) == {"m1": 5000, "m2": 0})
        assert stage.placed("db") == {"m1": 2, "m2": 2}
    # By the next leader too, which gives nothing new before each share has told its own.
    told(stage, m1=5000, m2=None)
    stage.hub.edit(WORKLOADS, "db", {"status": {"ordinals": []}}, status=True)
    stage.cluster("m3", cpu="1000")
    async with stage.leading(identity="two"):
        stage.hub.edit(WORKLOADS, "db", {"spec": {"replicas": 20}})
        await stage.until(lambda: "m3" in stage.placed("db"))
        assert ranges(stage) == {"m1": 5000}
        told(stage, m1=5000, m2=0)
        await stage.until(lambda: ranges(stage) == {"m1": 5000, "m2": 0, "m3": 1000})
        stage.hub.edit(MEMBER_CLUSTERS, "m3", {"spec": {"unschedulable": True}})
        stage.hub.edit(WORKLOADS, "db", {"spec": {"replicas": 4}})
        await stage.until(lambda: sum(stage.placed("db").values()) == 4)
        assert ranges(stage) == {"m1": 5000, "m2": 0, "m3": 1000}, "a cluster keeps its own"


@pytest.mark.proves("KD53", "B4")
@pytest.mark.parametrize("distribution", ["Divided", "Duplicated"])
def test_no_more_clusters_are_used_than_may_have_ranges(distribution: str) -> None:
    clusters = [make.cluster(f"m{n:05}") for n in range(1100)]
    info = make.info(
        kind="StatefulSet",
        distribution=distribution,
        replicas=1500 if distribution == "Divided" else 2,
    )
    about = info, PlacementIndex(), default_profile(), make.NOW
    decision = decide(make.snapshot(*clusters), *about)
    assert len(decision.placements) == 1000
    kept = dict.fromkeys([f"m{n:05}" for n in range(1050)], 1)
    info = make.info(kind="StatefulSet", distribution="Divided", replicas=1050, present=kept)
    decision = decide(make.snapshot(*clusters), info, *about[1:])
    assert decision.placements == kept, "what runs stays"
