"""A plugin or a feature that raises beside a decision: told or logged, and the term goes on.

Plugins that raise around the write are in `test_permit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import pytest

from controller import catalogue
from controller.config import default_profile
from controller.framework.events import MEMBER_CLUSTER, Action, on
from controller.framework.runtime.controllers import AGAIN_SECONDS
from controller.framework.status import SUCCESS, Status, unschedulable
from controller.plugins.defaults import PrioritySort
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
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
    return Stage("a")


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


class Broken:
    """A feature, its work and its ledger in one, which raises at one point."""

    plugins: Mapping[str, Any] = {}
    defaults = ()
    watches = ()

    def __init__(self, point: str) -> None:
        self.ledgers = (self,)
        self.point = point
        self.failed = 0

    def attach(self, _handle: Any) -> None:
        pass

    def lead(self, _term: Any) -> Self:
        self._do("lead")
        return self

    async def run(self) -> None:
        self._do("run")

    def stop_leading(self) -> None:
        self._do("rest")

    def put(self, *_: Any) -> None:
        self._do("put")

    def drop(self, _key: Any) -> None:
        self._do("drop")

    def overlay(self, _placed: Any) -> Self:
        return self

    def _do(self, point: str) -> None:
        if point == self.point:
            self.failed += 1
            raise RuntimeError("out of order")


@pytest.mark.parametrize("point", ["lead", "run", "rest", "put", "drop"])
async def test_a_feature_that_raises_ends_no_term(
    point: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage, broken = Stage(), Broken(point)
    usual = catalogue.features()
    monkeypatch.setattr(catalogue, "features", lambda: [*usual, broken])
    stage.cluster("a", cpu="3")
    async with stage.leading() as controller:
        stage.workload("first")
        await stage.until(lambda: stage.placed("first"))
        stage.workload("second")
        await stage.until(lambda: stage.says("second")[0] == "False")
        stage.hub.remove(WORKLOADS, "first")
        await stage.until(lambda: stage.placed("second"))
        assert controller.leading
        if point == "run":
            failed = broken.failed
            await stage.calm(AGAIN_SECONDS + 1)
            assert broken.failed == failed + 1, "it is run again, and not at once"
    assert broken.failed
    assert [r for r in caplog.records if "Broken" in r.getMessage() and r.levelname == "ERROR"]


class Doorless:
    """A Permit plugin that cannot take the waiting Workloads."""

    name = "Doorless"

    def use_waiting_workloads(self, _waiting: Any) -> None:
        raise RuntimeError("out of order")

    def permit(self, *_: Any) -> Status:
        return SUCCESS


async def test_a_plugin_that_cannot_take_the_waiting_workloads_ends_no_term(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage("a")
    async with stage.leading(permit=[*default_profile().permit, Doorless()]):
        stage.workload("demo")
        await stage.until(lambda: stage.placed("demo"))
    assert "plugin Doorless did not take the waiting Workloads" in caplog.text
