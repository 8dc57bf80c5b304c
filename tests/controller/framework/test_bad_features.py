"""A feature that raises wherever it is called: it is named in the log, and everything else goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import pytest

from controller import catalogue
from controller.config import default_profile
from controller.framework.runtime.controllers import AGAIN_SECONDS
from controller.framework.status import SUCCESS, Status
from machinery.api.resources import WORKLOADS
from tests.controller.memory import Stage


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
    stage = Stage()
    stage.cluster("a")
    async with stage.leading(permit=[*default_profile().permit, Doorless()]):
        stage.workload("demo")
        await stage.until(lambda: stage.placed("demo"))
    assert "plugin Doorless did not take the waiting Workloads" in caplog.text
