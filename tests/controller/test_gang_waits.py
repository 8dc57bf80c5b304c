"""A gang that lacks its last few units: held for as long as the group says, and not again for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS

from .memory import Stage

LABEL = "stowage.dev/workload-group"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The default profile, made by the process itself: its features keep what its plugins read."""
    found = tmp_path / "scheduler.yaml"
    found.write_text(
        "apiVersion: stowage.dev/v1alpha1\n"
        "kind: SchedulerConfiguration\n"
        "profiles: [{schedulerName: stowage}]\n"
    )
    return found


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.cluster("a", cpu="9")
    made.hub.put(
        WORKLOAD_GROUPS,
        {
            "metadata": {"name": "crew", "namespace": "shop", "generation": 1},
            "spec": {"minMember": 10, "scheduleTimeoutSeconds": 10},
        },
    )
    made.workload("one", replicas=10, labels={LABEL: "crew"}, distribution="Divided")
    return made


@pytest.mark.proves("G6")
@pytest.mark.proves("G16")
async def test_what_was_held_for_too_long_is_not_held_again_until_something_is_new(
    stage: Stage, file: Path
) -> None:
    async with stage.configured(file) as controller:

        def flying() -> int:
            return int(controller.world.fleet().flights.units.sum())

        await stage.until(lambda: stage.says("one")[1] == "WaitingForGroup")
        assert flying() == 9
        await stage.until(lambda: stage.says("one")[1] == "ScheduleTimeout", seconds=12)
        said = stage.says("one")
        assert "was held for 10 s (scheduleTimeoutSeconds)" in said[2]
        writes = len(stage.hub.writes("/workloads/one/status"))
        for second in range(30):
            stage.cluster(f"full-{second}", cpu="100m")  # comes, and helps it not
            await stage.calm(1)
            assert flying() == 0
        assert stage.says("one") == said
        assert len(stage.hub.writes("/workloads/one/status")) == writes
        stage.cluster("b", cpu="1")
        await stage.until(lambda: stage.placed("one") == {"a": 9, "b": 1})


@pytest.mark.proves("G6")
async def test_an_edit_lets_it_be_held_once_more(stage: Stage, file: Path) -> None:
    async with stage.configured(file) as controller:
        await stage.until(lambda: stage.says("one")[1] == "ScheduleTimeout", seconds=15)
        stage.hub.edit(
            WORKLOAD_GROUPS,
            "crew",
            {"metadata": {"generation": 2}, "spec": {"scheduleTimeoutSeconds": 20}},
        )
        await stage.until(lambda: stage.says("one")[1] == "WaitingForGroup")
        assert int(controller.world.fleet().flights.units.sum()) == 9
        stage.hub.edit(WORKLOADS, "one", {"metadata": {"generation": 2}, "spec": {"replicas": 9}})
        await stage.until(lambda: "minMember is 10" in stage.says("one")[2])
        assert int(controller.world.fleet().flights.units.sum()) == 0
