"""A plugin that raises where nobody decides yet, or any more: told or logged, and the term goes on.

Those around the write are in `test_permit`.
"""

from __future__ import annotations

from typing import Any

import pytest

from controller.config import default_profile
from controller.framework.events import MEMBER_CLUSTER, Action, on
from controller.framework.status import SUCCESS, Status, unschedulable
from controller.plugins.defaults import PrioritySort
from machinery.api.resources import MEMBER_CLUSTERS
from tests.controller.memory import Stage


class Learner:
    """Learns nothing, and raises at one of the points where it is asked beside a pass."""

    name = "Learner"

    def __init__(self, point: str) -> None:
        self.point = point
        self.failed = 0

    def serves(self, *_: Any) -> bool:
        return False

    def assign(self, *_: Any) -> Any:
        raise AssertionError

    def settled(self, info: Any, *_: Any) -> Any:
        return self._do("settled", info)

    def next_look(self, *_: Any) -> Any:
        return self._do("next_look", None)

    def status_fields(self, *_: Any) -> Any:
        return self._do("status_fields", {})

    def _do(self, point: str, answer: Any) -> Any:
        if point == self.point:
            self.failed += 1
            raise RuntimeError("out of order")
        return answer


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.cluster("a")
    return made


async def test_one_that_fails_to_learn_is_named(stage: Stage) -> None:
    plugin = Learner("settled")
    async with stage.leading(assign=[*default_profile().assign, plugin]):
        stage.workload("demo")
        await stage.until(lambda: stage.says("demo")[1] == "PluginError")
        assert "plugin Learner failed at Settle: RuntimeError" in stage.says("demo")[2]
        plugin.point = ""
        await stage.until(lambda: stage.placed("demo") == {"a": 2}, seconds=60)


@pytest.mark.parametrize("point", ["next_look", "status_fields"])
async def test_one_that_fails_beside_a_decision_ends_no_term(stage: Stage, point: str) -> None:
    stage.workload("before")
    plugin = Learner(point)
    async with stage.leading(assign=[*default_profile().assign, plugin]) as controller:
        stage.workload("demo")
        await stage.until(lambda: stage.placed("demo") and stage.placed("before"))
        await stage.calm(5)
        failed = plugin.failed
        await stage.calm(15)
        assert controller.leading
        assert plugin.failed == failed, "it is asked again only when there is a reason"


async def test_one_that_fails_to_rank_keeps_nobody_from_being_decided(stage: Stage) -> None:
    class Sort(PrioritySort):
        def rank(self, info: Any) -> Any:
            if info.name == "odd":
                raise RuntimeError("out of order")
            return super().rank(info)

    stage.workload("odd")
    async with stage.leading(queue_sort=Sort()):
        stage.workload("even")
        await stage.until(lambda: stage.placed("odd") and stage.placed("even"))


@pytest.mark.parametrize("broken", ["hint", "about"])
async def test_one_whose_hint_fails_keeps_nobody_waiting(stage: Stage, broken: str) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("out of order")

    class Shut:
        name = "Shut"
        open = False

        def pre_filter(self, *_: Any) -> Status:
            return SUCCESS if self.open else unschedulable(self.name, "shut")

        def events_to_register(self) -> Any:
            action = Action.LABELS
            return [on(MEMBER_CLUSTER, action, **{broken: fails})]

    plugin = Shut()
    async with stage.leading(pre_filter=[plugin]) as controller:
        stage.workload("demo")
        await stage.until(lambda: stage.says("demo")[2].endswith("shut"))
        plugin.open = True
        stage.hub.edit(MEMBER_CLUSTERS, "a", {"metadata": {"labels": {"tier": "gold"}}})
        await stage.until(lambda: stage.placed("demo") == {"a": 2})
        assert controller.leading
