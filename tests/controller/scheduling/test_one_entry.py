"""Live path, plan and diagnosis ask one entry: of any world they say the same."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from controller.config import default_profile
from controller.eventhandlers import known
from controller.model.objects import MemberCluster, Workload
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from stowage.simulation.rehearsal import Rehearsal
from tests.controller.make import NOW, REQUIRED, ZONE, beside
from tests.controller.memory import Stage
from tests.examples import examples

NAMES = ("w0", "w1", "w2", "w3")
CLUSTERS = ("a", "b", "c")
UNREADABLE: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {},
    "spec": {"template": "x"},
}
"""A template that the schema lets in and nobody can read."""


@st.composite
def workloads(draw: Any) -> list[dict[str, Any]]:
    """Specs of some Workloads that require each other, or bring a fault along."""
    made = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True)):
        spec: dict[str, Any] = {"replicas": draw(st.integers(0, 5))}
        wanted = draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
        if wanted:
            key = draw(st.sampled_from([ZONE, "stowage.dev/cluster"]))
            spec["workloadAffinity"] = {REQUIRED: [beside(app, key) for app in wanted]}
        spec["distribution"] = draw(st.sampled_from(["Single", "Single", "Divided", "Duplicated"]))
        if draw(st.sampled_from([False, False, False, True])):
            spec["targetDeployment"] = {**UNREADABLE, "apiVersion": "apps/v1"}
        spec["priority"] = draw(st.integers(0, 2))
        made.append({"name": name, "cpu": draw(st.sampled_from(["1", "3"])), **spec})
    return made


@st.composite
def clusters(draw: Any) -> list[dict[str, Any]]:
    """Some clusters in two zones, the larger and the smaller."""
    names = draw(st.lists(st.sampled_from(CLUSTERS), min_size=1, unique=True))
    return [
        {
            "name": name,
            "cpu": draw(st.sampled_from(["0", "2", "4", "8"])),
            ZONE: draw(st.sampled_from(["x", "y"])),
        }
        for name in names
    ]


def planned(stage: Stage) -> dict[str, tuple[dict[str, int], str, str]]:
    """(placements, reason, message) of each Workload, as a plan of the hub's objects says."""
    listed = [msgspec.convert(each, MemberCluster) for each in stage.hub.all(MEMBER_CLUSTERS)]
    found = [known(msgspec.convert(each, Workload)) for each in stage.hub.all(WORKLOADS)]
    profile = default_profile()
    rehearsal = Rehearsal(
        {profile.scheduler_name: profile}, clusters=listed, workloads=found, objects=(), now=NOW
    )
    rehearsal.run(each.metadata.key for each in found)
    return {
        key[1]: (dict(d.placements), d.reason.value, d.message)
        for key, d in rehearsal.decisions.items()
    }


async def compared(members: list[dict[str, Any]], asked: list[dict[str, Any]]) -> None:
    """Play it live, and hold plan and diagnosis against what came of it."""
    stage = Stage()
    for each in members:
        stage.cluster(**each)
    for number, each in enumerate(asked):
        stage.workload(**each, created=number)
    expected = planned(stage)
    async with stage.leading() as controller:
        await stage.until(lambda: all(stage.says(each["name"])[0] for each in asked))
        await stage.calm(2)
        for each in asked:
            name = each["name"]
            status, reason, message = stage.says(name)
            assert expected[name] == (stage.placed(name), reason, message)
            told = await controller.diagnosis(("shop", name))
            assert told is not None
            shares = {share["cluster"]: share["replicas"] for share in told["placements"]}
            assert (shares, told["reason"], told["message"]) == expected[name]
            assert (told["reason"] == "Scheduled") == (status == "True")


@pytest.mark.proves("L1", "L8")
@examples(25, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), workloads())
def test_live_plan_and_diagnosis_say_the_same(
    members: list[dict[str, Any]], asked: list[dict[str, Any]]
) -> None:
    asyncio.run(compared(members, asked))


@pytest.mark.proves("L1")
async def test_a_faulty_workload_is_nobodys_partner() -> None:
    stage = Stage("a")
    front = {REQUIRED: [beside("back")]}
    stage.workload("back", workloadAffinity={REQUIRED: [beside("front")]})
    broken = {**UNREADABLE, "apiVersion": "apps/v1"}
    stage.workload("front", workloadAffinity=front, targetDeployment=broken)
    assert planned(stage)["front"][1] == "InvalidWorkload"
    async with stage.leading() as controller:
        await stage.until(lambda: stage.says("front")[0] and stage.says("back")[0])
        await stage.calm(2)
        assert stage.says("front")[1] == "InvalidWorkload"
        assert stage.says("back")[1] == "FailedToSchedule"
        assert stage.placed("front") == stage.placed("back") == {}
        told = await controller.diagnosis(("shop", "front"))
        assert told is not None
        assert told["message"] == stage.says("front")[2]
        assert told["placements"] == []


@pytest.mark.proves("L8")
async def test_diagnosis_knows_what_waits_and_who_is_not_ours() -> None:
    stage = Stage("a")
    stage.workload("theirs", schedulerName="another")
    async with stage.leading() as controller:
        await stage.calm(1)
        assert await controller.diagnosis(("shop", "theirs")) is None
        assert await controller.diagnosis(("shop", "nobody")) is None
