"""examples/plugin-ocm in a whole controller: a Placement chooses clusters, a score prefers one."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controller import catalogue
from machinery.api.resources import WORKLOADS
from machinery.clock import timestamp
from tests.controller.memory import Stage

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugin-ocm"


class Ocm:
    """The package, and a hub in memory with what Open Cluster Management says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(str(EXAMPLE))
        self._feature = importlib.import_module("stowage_ocm.feature")
        self._objects = importlib.import_module("stowage_ocm.objects")
        self.stage = Stage()

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        features = [*catalogue.features(), self._feature.OpenClusterManagement()]
        async with self.stage.configured(EXAMPLE / "scheduler.yaml", features=features):
            yield

    def decision(self, name: str, placement: str, *clusters: str) -> None:
        label = {"cluster.open-cluster-management.io/placement": placement}
        meta = {"name": name, "namespace": "shop", "labels": label}
        status = {"decisions": [{"clusterName": each, "reason": ""} for each in clusters]}
        self.stage.hub.put(self._objects.PLACEMENT_DECISIONS, {"metadata": meta, "status": status})

    def score(self, cluster: str, value: int, *, seconds: float | None = None) -> None:
        status: dict[str, Any] = {"scores": [{"name": "cpuAvailable", "value": value}]}
        if seconds is not None:
            until = self.stage.clock.now() + timedelta(seconds=seconds)
            status["validUntil"] = timestamp(until)
        meta = {"name": "resource-usage-score", "namespace": cluster}
        self.stage.hub.put(self._objects.SCORES, {"metadata": meta, "status": status})


@pytest.fixture
def ocm(monkeypatch: pytest.MonkeyPatch) -> Ocm:
    return Ocm(monkeypatch)


def asking(ocm: Ocm, name: str, placement: str) -> None:
    annotations = {"metadata": {"annotations": {"stowage.dev/ocm-placement": placement}}}
    ocm.stage.hub.edit(WORKLOADS, name, annotations)


@pytest.mark.proves("CT12")
@pytest.mark.parametrize("best", ["c1", "c2"])
async def test_the_greater_score_flips_the_choice_and_an_expired_one_does_not(ocm: Ocm, best: str):
    stage = ocm.stage
    stage.cluster("c1")
    stage.cluster("c2")
    for name in ("c1", "c2"):
        ocm.score(name, 80 if name == best else -20, seconds=60)
    async with ocm.leading():
        stage.workload("early", replicas=1)
        await stage.until(lambda: stage.placed("early"))
        assert stage.placed("early") == {best: 1}
        before = {"c1": "c2", "c2": "c1"}[best]
        await stage.calm(61)
        stage.hub.bookmark()
        stage.workload("late", replicas=1)
        await stage.until(lambda: stage.placed("late"))
        # without scores the emptier one is better, which the first Workload is not on
        assert stage.placed("late") == {before: 1}


@pytest.mark.proves("CT12")
async def test_new_units_go_where_the_placement_says_and_nowhere_before_it_does(ocm: Ocm):
    stage = ocm.stage
    for name in ("c1", "c2", "c3"):
        stage.cluster(name)
    async with ocm.leading():
        stage.workload("free", replicas=1)
        await stage.until(lambda: stage.placed("free"))
        stage.workload("late", replicas=3, distribution="Duplicated")
        asking(ocm, "late", "production")
        ocm.decision("other-1", "staging", "c1")
        await stage.calm(2)
        assert stage.says("late")[2].count("Placement production has decided nothing") == 1
        ocm.decision("production-1", "production", "c3")
        ocm.decision("production-2", "production", "c2", "unknown")
        await stage.until(lambda: stage.placed("late"))
        assert stage.placed("late") == {"c2": 3, "c3": 3}
        asking(ocm, "late", "staging")
        await stage.until(lambda: "c1" in stage.placed("late"))
        assert stage.placed("late") == {"c1": 3, "c2": 3, "c3": 3}, "what runs stays"
