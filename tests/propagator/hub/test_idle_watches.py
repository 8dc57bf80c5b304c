"""Watches over kinds that nobody needs end, whoever wrote down that they are needed."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from crds.names import ANNOTATION_CLUSTERS, ANNOTATION_KINDS
from machinery.api.resources import Resource
from machinery.tasks import SLICE
from machinery.types.api import Placement
from machinery.types.metadata import Meta
from machinery.types.written_clusters import digest
from propagator.hub.watched_kinds import FEW, IdleKinds
from propagator.hub.workloads import clusters_of, touches
from propagator.members.noted_kinds import without_kinds
from propagator.types.workload import MOST_KINDS, Workload, WorkloadStatus
from tests.propagator.contexts import Context
from tests.propagator.stage import Stage, configmap, settled
from tests.propagator.waits import until

BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "keep"},
    "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


def watched(stage: Stage) -> set[str]:
    """The kinds over which m1 is watched for objects of ours, by its own connections."""
    link = stage.process.term.registry.get("m1").link
    streams = set(link.informers)
    assert streams >= set(link.watches)
    streams.discard(link.quotas.informer)
    return {informer.resource.kind for informer in streams} - {"Node", "Pod"}


async def sweep(stage: Stage) -> None:
    await stage.process.term.workloads._idle.sweep()


@pytest.mark.proves("S14")
@pytest.mark.long
async def test_a_kind_is_watched_while_somebody_uses_it(stage: Stage):
    await stage.bring("demo", {"m1": 1}, manifests=[BUDGET])
    await sweep(stage)
    await sweep(stage)
    assert "PodDisruptionBudget" in watched(stage)
    await stage.patch("demo", {"spec": {"manifests": [configmap("conf")]}})
    await stage.goes("m1", "keep", kind=BUDGETS)
    await stage.propagated("demo")
    await until(lambda: not stage.process.term.registry.get("m1").tracked(BUDGETS).values())
    await settled(stage)  # what is written at the same time as the notes is looked at later
    await sweep(stage)
    assert "PodDisruptionBudget" in watched(stage), "once is not enough"
    await sweep(stage)
    assert "PodDisruptionBudget" not in watched(stage)
    noted = (await stage.workload("demo"))["metadata"]["annotations"][ANNOTATION_KINDS]
    assert "PodDisruptionBudget" not in noted
    assert "ConfigMap" in noted
    await stage.patch("demo", {"spec": {"manifests": [BUDGET]}})
    await stage.appears("m1", "keep", kind=BUDGETS)


def noting(*kinds: str) -> Workload:
    return Workload(metadata=Meta(annotations={ANNOTATION_KINDS: ",".join(kinds)}))


@pytest.mark.proves("S14", "S3")
def test_what_is_remembered_is_bounded_and_well_formed():
    good = ("apps/v1", "Deployment")
    assert noting("apps/v1/Deployment", "../x?/v1/A", "v1/", "/", "").remembered() == {good}
    assert noting(*(f"v1/K{n}" for n in range(MOST_KINDS + 1))).remembered() == set()
    assert len(noting(*(f"v1/K{n}" for n in range(MOST_KINDS))).remembered()) == MOST_KINDS


def test_taking_off_a_kind_that_is_not_there_writes_nothing():
    assert without_kinds(noting("v1/A"), {("v1", "B")}) == {}
    assert without_kinds(noting("v1/A"), {("v1", "A")}) == {"annotations": {ANNOTATION_KINDS: ""}}


@pytest.mark.proves("L7")
async def test_others_run_while_many_members_are_looked_at(monkeypatch: pytest.MonkeyPatch):
    names = [f"m{number}" for number in range(10 * FEW)]
    looked: list[str] = []
    monkeypatch.setattr(IdleKinds, "_end_idle", lambda self, session: looked.append(session))
    registry = SimpleNamespace(names=lambda: names, get=lambda name: name)
    context: Any = Context(clock=None, fresh=lambda: True, registry=registry)
    hub: Any = SimpleNamespace(informer={})
    sweeping = asyncio.create_task(IdleKinds(context, workloads=hub, inventory=hub).sweep())
    seen = []
    while not sweeping.done():
        await asyncio.sleep(0)
        seen.append(len(looked))
    assert looked == names
    assert max(after - before for before, after in pairwise([0, *seen])) <= FEW


@pytest.mark.proves("L7")
async def test_others_run_while_one_workload_is_looked_for_on_many_members():
    names = [f"m{number}" for number in range(10 * SLICE)]
    asked: list[str] = []
    session: Any = SimpleNamespace(link=None)
    registry = SimpleNamespace(names=lambda: names, get=lambda name: asked.append(name) or session)
    context: Any = Context(clock=None, fresh=lambda: True, registry=registry)
    wide = msgspec.structs.replace(noting("v1/A"), status=placed(*names))
    inventory: Any = SimpleNamespace(holders=lambda uid: set(), knows=lambda session, of: True)
    hub: Any = SimpleNamespace(informer={wide.metadata.key: wide})
    idle = IdleKinds(context, workloads=hub, inventory=inventory)
    looking = asyncio.create_task(idle._idle(wide))
    seen = []
    while not looking.done():
        await asyncio.sleep(0)
        seen.append(len(asked))
    assert await looking == {("v1", "A")}
    assert sorted(asked) == sorted(names)
    assert max(after - before for before, after in pairwise([0, *seen])) <= SLICE


@pytest.mark.parametrize("noted", ["m1", digest("m1"), "*"])
def test_whom_a_workload_touches_is_found_without_a_list_of_all(noted: str):
    marks = Meta(annotations={ANNOTATION_CLUSTERS: noted})
    workload = Workload(metadata=marks, status=placed("m2"))
    for name in ("m1", "m2", "m3"):
        listed = clusters_of(workload, lambda: ["m1", "m2", "m3"])
        assert touches(workload, name) == (name in listed)


def placed(*names: str) -> WorkloadStatus:
    return WorkloadStatus(placements=[Placement(name, 1) for name in names])
