"""Controllers of plugins: begun with the term, ended with it, run again, and chosen by name."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from controller import catalogue
from controller.hosting.arguments import NoArgs
from controller.hosting.controllers import AGAIN_SECONDS, Controllers
from controller.hosting.handle import Handle
from machinery.errors import ConfigurationError, LeaseLost

from .memory import Stage

TWO_PROFILES = """apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
profiles:
- schedulerName: stowage
  plugins: {postBind: {enabled: [{name: Prices}]}}
- schedulerName: second
  plugins: {postBind: {enabled: [{name: Prices}]}}
"""


class Reader:
    """A controller that is run."""

    name = "reader"

    def __init__(self, handle: Handle, log: list[str], fails: int) -> None:
        self._handle, self._log, self._fails = handle, log, fails

    async def run(self) -> None:
        self._handle.check()
        self._log.append(f"{self._handle.holder} runs")
        if self._fails:
            self._fails -= 1
            raise RuntimeError("out of order")
        try:
            await asyncio.Event().wait()
        finally:
            self._log.append(f"{self._handle.holder} ended")


class Starter:
    """One that is started, and wants to know the end."""

    name = "starter"

    def __init__(self, handle: Handle, log: list[str]) -> None:
        self._handle, self._log = handle, log

    def start(self) -> None:
        self._log.append(f"{self._handle.holder} started")

    def stop(self) -> None:
        self._log.append(f"{self._handle.holder} stopped")


class Prices:
    """A plugin with controllers."""

    name = "Prices"
    log: list[str]
    fails = 0

    def __init__(self, _args: NoArgs, handle: Handle) -> None:
        self.handle = handle

    def post_bind(self, state: Any, unit: Any, placements: Any) -> None:
        """Nothing depends on it."""

    def controllers(self) -> Sequence[Any]:
        return [Reader(self.handle, self.log, self.fails), Starter(self.handle, self.log), object()]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(Prices, "log", said, raising=False)
    return said


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "scheduler.yaml"
    file.write_text(TWO_PROFILES)
    return file


@pytest.mark.proves("E3", "E12", "E31")
async def test_they_run_where_the_leader_is_once_for_all_profiles(
    config: Path, log: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    stage, plugins = Stage(), {"Prices": Prices}
    async with AsyncExitStack() as first, AsyncExitStack() as second:
        await first.enter_async_context(stage.configured(config, plugins=plugins, identity="one"))
        await stage.until(lambda: len(log) == 2)
        assert sorted(log) == ["one runs", "one started"]
        other = await second.enter_async_context(
            stage.configured(config, plugins=plugins, identity="two", standby=True)
        )
        await stage.calm(5)
        assert len(log) == 2, "a standby runs none"
        handle = next(p for p in other._handle.plugins if isinstance(p, Prices)).handle
        with pytest.raises(LeaseLost):
            handle.check()
        await first.aclose()
        assert sorted(log[2:]) == ["one ended", "one stopped"]
        await stage.until(lambda: len(log) == 6)
        assert sorted(log[4:]) == ["two runs", "two started"]
        handle.check()
    assert "a controller needs a name, and run() or start()" in caplog.text


@pytest.mark.proves("E12")
async def test_one_that_fails_is_run_again(
    config: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Prices, "fails", 1)
    stage = Stage()
    stage.cluster("a")
    async with stage.configured(config, plugins={"Prices": Prices}) as controller:
        await stage.until(lambda: "one runs" in log)
        await stage.calm(AGAIN_SECONDS - 2)
        assert log.count("one runs") == 1
        await stage.until(lambda: log.count("one runs") == 2)
        assert controller.leading
        stage.workload("demo")
        await stage.until(lambda: stage.placed("demo"))


@pytest.mark.proves("E14")
async def test_they_are_chosen_by_name(
    config: Path, log: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    stage, chosen = Stage(), "*,-Prices"
    async with stage.configured(config, plugins={"Prices": Prices}, controller_plugins=chosen):
        await stage.calm(2)
    assert not log
    said = {r.getMessage() for r in caplog.records if r.getMessage().startswith("the controller")}
    assert said == {
        "the controller Prices/reader is skipped",
        "the controller Prices/starter is skipped",
        "the controller WorkloadPolicy runs",
        "the controller WorkloadSpread runs",
    }


@pytest.mark.proves("E13", "E14")
@pytest.mark.parametrize(
    ("chosen", "runs"),
    [
        ("*", ["WorkloadPolicy", "WorkloadSpread"]),
        ("*,-WorkloadSpread", ["WorkloadPolicy"]),
        (" WorkloadSpread ", ["WorkloadSpread"]),
        ("-WorkloadSpread,*", ["WorkloadPolicy"]),
    ],
)
def test_what_features_run_is_chosen_in_the_same_way(chosen: str, runs: list[str]) -> None:
    found = Controllers(catalogue.features(), [], chosen)
    assert [part.plugin for part in found._parts] == runs


@pytest.mark.proves("E14")
@pytest.mark.parametrize("chosen", ["*,-Nobody", "Nobody", "", "*,,", "-*"])
def test_a_name_without_controllers_is_an_error(chosen: str) -> None:
    text = f"--controller-plugins {chosen}: no plugin "
    with pytest.raises(ConfigurationError, match=re.escape(text)) as fault:
        Controllers(catalogue.features(), [], chosen)
    assert "known: WorkloadPolicy, WorkloadSpread" in str(fault.value)
