"""Plugins of others: how they are found, made with their args and a handle, and what that gives."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from controller import catalogue
from controller.config import parse
from controller.framework.events import Action
from controller.framework.percluster import PerClusterFilter
from controller.framework.runtime import registry as registries
from controller.framework.runtime.arguments import Args
from controller.framework.runtime.handle import DryRunHandle, Handle
from machinery import metrics
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.errors import ConfigurationError
from stowage.simulation.plan import Where, make
from tests.controller.live import deployment
from tests.controller.memory import Stage
from tests.fakeclock import FakeClock

HEAD = "apiVersion: stowage.dev/v1alpha1\nkind: SchedulerConfiguration\n"
ENABLED = """profiles:
- plugins: {filter: {enabled: [{name: Banned}]}}
  pluginConfig:
  - name: Banned
    args:
      clusters: [a]
"""


class BannedArgs(Args):
    """Clusters that nothing shall go to."""

    clusters: tuple[str, ...]


class Banned(PerClusterFilter):
    """A filter that a platform team might write."""

    name = "Banned"

    def __init__(self, args: BannedArgs, handle: Handle) -> None:
        self.args, self.handle = args, handle
        self.asked = handle.metrics.counter(
            "test_banned", "Clusters that were refused", ("cluster",), zero=[args.clusters]
        )

    def fits(self, info: Any, cluster: Any) -> str:
        name = cluster.metadata.name
        if name not in self.args.clusters:
            return ""
        self.asked.labels(name).inc()
        return f"banned among {len(self.handle.snapshot())}"


def known() -> registries.Registry:
    return catalogue.registry().with_plugin("Banned", Banned)


def configured(handle: Handle | None = None, text: str = ENABLED) -> Any:
    return parse(HEAD + text, known(), handle, name="scheduler.yaml").profiles["stowage"]


@pytest.mark.proves("E2", "E3")
def test_a_factory_is_given_its_args_and_the_handle() -> None:
    handle = DryRunHandle(clock=FakeClock(), holder="me")
    plugin = configured(handle).filter[-1]
    assert plugin.args == BannedArgs(clusters=("a",))
    assert plugin.handle is handle
    assert (handle.holder, handle.client, len(handle.snapshot())) == ("me", None, 0)
    assert not handle.plugins, "they are being made"
    assert b'test_banned_total{cluster="a"} ' in metrics.exposition(), "there from the start"


@pytest.mark.proves("E2")
def test_a_handle_without_a_hub_remembers_what_it_is_asked() -> None:
    handle = DryRunHandle()
    handle.look([("shop", "a")])
    handle.announce("Price", ("shop", "b"), Action.SPEC)
    ref = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    handle.recorder.event(ref, type="Normal", reason="Said", note="so", action="Say")
    assert list(handle.looked) == [("shop", "a")]
    assert list(handle.announced) == [("Price", ("shop", "b"), Action.SPEC)]
    assert [(each.reason, each.note) for each in handle.events] == [("Said", "so")]


@pytest.mark.proves("E2")
async def test_in_a_process_it_has_hub_fleet_and_configuration(tmp_path: Path) -> None:
    stage, made, config = Stage(), list[Banned](), tmp_path / "scheduler.yaml"
    config.write_text(HEAD + ENABLED)

    def factory(args: Mapping[str, Any], handle: Handle) -> Banned:
        made.append(Banned(BannedArgs.model_validate(args), handle))
        return made[0]

    for name in ("a", "b"):
        stage.cluster(name)
    async with stage.configured(config, plugins={"Banned": factory}) as controller:
        stage.workload("demo")
        await stage.until(lambda: stage.placed("demo"))
        assert stage.placed("demo").keys() == {"b"}
        handle = made[0].handle
        assert handle.client is stage.hub
        assert handle.clock.monotonic() == stage.clock.monotonic()
        assert handle.clock.now() == stage.clock.now()
        stage.set_clock(3600)
        assert (stage.clock.now() - handle.clock.now()).total_seconds() == pytest.approx(
            3600, abs=1
        )
        assert handle.holder == controller.identity
        assert set(handle.snapshot().row) == {"a", "b"}
        assert made[0] in handle.plugins
        assert handle.index() is controller.cache.index
        assert made[0] in handle.configuration.profiles["stowage"].filter


@pytest.mark.proves("E2")
def test_a_plan_makes_the_plugin_and_needs_no_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries.Registry, "with_installed", lambda self: self)
    config = tmp_path / "scheduler.yaml"
    config.write_text(HEAD + ENABLED)
    files = [tmp_path / "fleet.json", tmp_path / "demo.json"]
    for path, text in zip(files, (_clusters("a", "b"), _workload()), strict=True):
        path.write_text(text)
    where = Where("shop", [str(files[0])], None, config, [f"{__name__}:Banned"])
    made = make([str(files[1])], where, clock=FakeClock())
    assert "banned among 2" in str(made.to_dict())


def _clusters(*names: str) -> str:
    stage = Stage()
    for name in names:
        stage.cluster(name)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": stage.hub.all(MEMBER_CLUSTERS)})


def _workload() -> str:
    spec = {"schedulerName": "stowage", "replicas": 2, "targetDeployment": deployment("demo", "1")}
    meta = {"name": "demo", "namespace": "shop"}
    head = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload"}
    return json.dumps({**head, "metadata": meta, "spec": spec})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            ENABLED.replace("clusters: [a]", "clusters: [a, 3]"),
            "scheduler.yaml:8: profiles[0].pluginConfig[0].args.clusters[1]: plugin Banned: ",
        ),
        (
            ENABLED.replace("clusters", "cluster"),
            "scheduler.yaml:7: profiles[0].pluginConfig[0].args.clusters: plugin Banned: Required value",
        ),
        (
            "profiles:\n- plugins: {filter: {enabled: [{name: Banned}]}}\n",
            "scheduler.yaml:4: profiles[0].pluginConfig.clusters: plugin Banned: Required value",
        ),
        (
            "profiles:\n- pluginConfig:\n  - name: ClusterReady\n    args: {a: 1}\n",
            "scheduler.yaml:6: profiles[0].pluginConfig[0].args.a: plugin ClusterReady: unknown field",
        ),
    ],
)
@pytest.mark.proves("E3")
def test_wrong_args_name_file_line_plugin_and_field(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match="^" + re.escape(message)):
        configured(text=text)


def _raises(_args: Any, _handle: Any) -> None:
    raise RuntimeError("no licence server")


def _refuses(_args: Any, _handle: Any) -> None:
    raise ValueError("the region is unknown")


def test_a_factory_of_another_form_or_one_that_fails_is_named() -> None:
    many = {"Old": lambda seconds=3: seconds, "Fails": _raises, "Refuses": _refuses}
    made = catalogue.registry()
    for name, factory in many.items():
        made.with_plugin(name, factory)
    for name, text in (
        ("Old", "plugin Old: its factory must take (args, handle): too many positional arguments"),
        ("Fails", "plugin Fails could not be made: RuntimeError: no licence server"),
        ("Refuses", "plugin Refuses: does not take these args: the region is unknown"),
    ):
        with pytest.raises(ConfigurationError, match=re.escape(text)):
            made.make(name, {}, DryRunHandle())


@pytest.mark.proves("E1")
def test_a_plugin_is_named_by_module_and_factory() -> None:
    made = catalogue.registry().with_modules([f"{__name__}:Banned", f"{__name__}:_raises"])
    assert "Banned" in made
    assert "_raises" in made


@pytest.mark.proves("E1", "E4")
@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("no_such_module_here:Banned", "no_such_module_here:Banned cannot be imported: ModuleNot"),
        (f"{__name__}:Nobody", f"{__name__} has no factory Nobody"),
        (f"{__name__}:HEAD", f"{__name__} has no factory HEAD"),
        ("Banned", "--plugin Banned: write it as module:factory"),
        (":Banned", "--plugin :Banned: write it as module:factory"),
        (f"{__name__}:", "write it as module:factory"),
        (f"{__name__}:Banned", "there is a plugin named Banned already"),
    ],
)
def test_one_that_is_not_there_is_an_error_of_the_configuration(
    reference: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        known().with_modules([reference])


@pytest.mark.proves("E1")
def test_an_installed_package_brings_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    here = [EntryPoint("Theirs", f"{__name__}:Banned", registries.ENTRY_POINTS)]
    monkeypatch.setattr(registries, "installed", lambda _: here)
    assert "Theirs" in catalogue.registry().with_installed()
    here[0] = EntryPoint("Theirs", f"{__name__}.gone:Banned", registries.ENTRY_POINTS)
    with pytest.raises(ConfigurationError, match="plugin Theirs cannot be imported: ModuleNot"):
        catalogue.registry().with_installed()


def test_one_metric_serves_all_who_ask_for_it() -> None:
    shared = metrics.SHARED
    first = shared.counter("test_asked_twice", "Twice", ("a",), zero=[("x",)])
    assert shared.counter("test_asked_twice", "Twice", ("a",), zero=[("y",)]) is first
    assert b'test_asked_twice_total{a="y"} 0.0' in metrics.exposition()
    with pytest.raises(ValueError, match="there is a metric test_asked_twice already"):
        shared.gauge("test_asked_twice", "Twice", ("a",))
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        shared.gauge("stowage_pending_workloads", "Ours")
