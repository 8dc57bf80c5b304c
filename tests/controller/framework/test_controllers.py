"""Controllers of plugins: begun with the term, ended with it, run again, and chosen by name."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from controller import catalogue
from controller.framework.runtime.arguments import NoArgs
from controller.framework.runtime.controllers import AGAIN_SECONDS, Controllers
from controller.framework.runtime.fencing import END_SECONDS
from controller.framework.runtime.handle import Handle
from crds.names import LABEL_POLICY
from machinery.api.resources import WORKLOAD_POLICIES, WORKLOAD_QUOTAS, WORKLOAD_SPREADS
from machinery.errors import ConfigurationError, LeaseLost
from tests.controller.memory import Stage
from tests.fakeclock import FakeClock

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

    def post_bind(self, state: Any, info: Any, placements: Any) -> None:
        """Nothing depends on it."""

    def controllers(self) -> Sequence[Any]:
        return [Reader(self.handle, self.log, self.fails), Starter(self.handle, self.log), object()]


POLICY = {
    "metadata": {"name": "even", "namespace": "shop", "generation": 1},
    "spec": {
        "topologyKey": "zone",
        "labelSelector": {},
        "allocationPolicy": [{"name": "1", "replicas": 9}],
        "allocationType": "Required",
        "allocationMethod": "Fill",
    },
}
SPREAD = {
    "metadata": {"name": "even", "namespace": "shop", "generation": 1},
    "spec": {
        "targetRef": {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "Workload",
            "name": "workloadspread",
        },
        "subsets": [{"name": "all"}],
    },
}


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
    stage = Stage("a")
    async with stage.configured(config, plugins={"Prices": Prices}) as controller:
        await stage.until(lambda: "one runs" in log)
        await stage.calm(AGAIN_SECONDS - 2)
        assert log.count("one runs") == 1
        await stage.until(lambda: log.count("one runs") == 2)
        assert controller.leading
        stage.workload("demo")
        await stage.until(lambda: stage.placed("demo"))


class Deaf:
    """One that goes on after it was told to end, and would write."""

    name = "deaf"

    def __init__(self, handle: Handle, log: list[str], free: asyncio.Event) -> None:
        self._handle, self._log, self._free = handle, log, free

    async def run(self) -> None:
        self._log.append(f"{self._handle.holder} runs")
        while not self._free.is_set():
            try:
                await self._free.wait()
            except asyncio.CancelledError:
                self._log.append("told to end")
        try:
            await asyncio.create_task(self._write())
        except LeaseLost as e:
            self._log.append(str(e))

    async def _write(self) -> None:
        self._handle.check()
        self._log.append("written")


class DeafPrices(Prices):
    """A plugin whose controller does not end."""

    free: asyncio.Event

    def controllers(self) -> Sequence[Any]:
        return [Deaf(self.handle, self.log, self.free)]


@pytest.mark.proves("E12")
async def test_one_that_does_not_end_holds_nobody_up_and_writes_no_more(
    config: Path,
    log: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = asyncio.Event()
    monkeypatch.setattr(DeafPrices, "free", free, raising=False)
    stage, plugins = Stage(), {"Prices": DeafPrices}
    stage.cluster("a")
    async with stage.configured(config, plugins=plugins, identity="one") as controller:
        await stage.until(lambda: log == ["one runs"])
        controller._elector._until = -math.inf  # as when renewals fail
        await stage.until(lambda: not controller.leading, seconds=END_SECONDS + 5)
        assert "told to end" in log
        assert (
            "did not end in 5 s: it is left alone, and the lease is left to run out" in caplog.text
        )
        await stage.until(lambda: controller.leading, seconds=60)
        stage.workload("demo")
        await stage.until(lambda: stage.placed("demo"))
        assert log.count("one runs") == 1, "it does not run twice"
        free.set()
        await stage.until(lambda: log.count("one runs") == 2)
        assert "the term that this task belongs to is over" in log, "though this instance leads"
        await stage.until(lambda: log[-1] == "written")


@pytest.mark.proves("E12")
async def test_the_lease_of_one_that_does_not_end_is_not_handed_on(
    config: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    free = asyncio.Event()
    monkeypatch.setattr(DeafPrices, "free", free, raising=False)
    stage, plugins = Stage(), {"Prices": DeafPrices}
    async with AsyncExitStack() as first, AsyncExitStack() as second:
        one = await first.enter_async_context(
            stage.configured(config, plugins=plugins, identity="one")
        )
        await stage.until(lambda: log == ["one runs"])
        two = await second.enter_async_context(
            stage.configured(config, plugins=plugins, identity="two", standby=True)
        )
        ending = asyncio.create_task(first.aclose())
        since = stage.clock.monotonic()
        await stage.until(lambda: two.leading, seconds=60)
        assert stage.clock.monotonic() - since > END_SECONDS + 2, "it waits for the lease to end"
        assert not one.leading
        await ending
        free.set()
        await stage.until(lambda: "the term that this task belongs to is over" in log)


@pytest.mark.proves("E14")
@pytest.mark.parametrize("kind", ["WorkloadPolicy", "WorkloadSpread"])
@pytest.mark.usefixtures("log")
async def test_a_kind_whose_controller_is_switched_off_says_so(config: Path, kind: str) -> None:
    stage = Stage("a", zone="1")
    stage.hub.put(WORKLOAD_POLICIES, POLICY)
    stage.hub.put(WORKLOAD_SPREADS, SPREAD)
    settings = {"plugins": {"Prices": Prices}, "controller_plugins": f"*,-{kind}"}
    async with stage.configured(config, **settings):
        stage.workload("workloadpolicy", labels={LABEL_POLICY: "even"})
        stage.workload("workloadspread")
        stage.workload("plain")
        await stage.until(lambda: stage.placed("plain"))
        other = {"WorkloadPolicy": "workloadspread", "WorkloadSpread": "workloadpolicy"}[kind]
        await stage.until(lambda: stage.placed(other))
        await stage.until(lambda: "--controller-plugins" in stage.says(kind.lower())[2])
        assert stage.placed(kind.lower()) == {}
        status, _, message = stage.says(kind.lower())
        assert status == "False"
        assert f"takes no replicas: the controller of plugin {kind} is switched off" in message
    async with stage.configured(config, plugins={"Prices": Prices}, identity="two"):
        await stage.until(lambda: stage.placed(kind.lower()))


@pytest.mark.proves("E14", "N4")
@pytest.mark.usefixtures("log")
async def test_quotas_that_nobody_claims_bind_their_namespace_alone(config: Path) -> None:
    stage = Stage("a", zone="1")
    settings = {"plugins": {"Prices": Prices}, "controller_plugins": "*,-WorkloadQuota"}
    async with stage.configured(config, **settings):
        stage.workload("plain")
        await stage.until(lambda: stage.placed("plain"))
        stage.hub.put(
            WORKLOAD_QUOTAS,
            {
                "metadata": {"namespace": "shop", "name": "team"},
                "spec": {"hard": {"units": "9"}},
            },
        )
        stage.workload("bounded")
        await stage.until(lambda: "--controller-plugins" in stage.says("bounded")[2])
        assert stage.placed("bounded") == {}


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
        "the controller Reservation runs",
        "the controller Coscheduling runs",
        "the controller WorkloadQuota runs",
        "the controller TaintEviction runs",
        "the controller Shards runs",
        "the controller StagedRollout runs",
        "the controller ClusterProfiles runs",
        "the controller Publishing runs",
        "the controller WorkloadKinds runs",
    }


EVERY = [
    "WorkloadPolicy",
    "WorkloadSpread",
    "Reservation",
    "Coscheduling",
    "WorkloadQuota",
    "TaintEviction",
    "Shards",
    "StagedRollout",
    "ClusterProfiles",
    "Publishing",
    "WorkloadKinds",
]


@pytest.mark.proves("E13", "E14")
@pytest.mark.parametrize(
    ("chosen", "runs"),
    [
        ("*", EVERY),
        ("*,-WorkloadSpread", [each for each in EVERY if each != "WorkloadSpread"]),
        (" WorkloadSpread ", ["WorkloadSpread"]),
        (
            "-WorkloadSpread,*,-Reservation",
            [each for each in EVERY if each not in ("WorkloadSpread", "Reservation")],
        ),
    ],
)
def test_what_features_run_is_chosen_in_the_same_way(chosen: str, runs: list[str]) -> None:
    found = Controllers(catalogue.features(), [], chosen, clock=FakeClock())
    assert [part.plugin for part in found._parts] == runs


@pytest.mark.proves("E14")
@pytest.mark.parametrize("chosen", ["*,-Nobody", "Nobody", "", "*,,", "-*"])
def test_a_name_without_controllers_is_an_error(chosen: str) -> None:
    text = f"--controller-plugins {chosen}: no plugin "
    with pytest.raises(ConfigurationError, match=re.escape(text)) as fault:
        Controllers(catalogue.features(), [], chosen, clock=FakeClock())
    assert f"known: {', '.join(sorted(EVERY))}" in str(fault.value)
