"""What a configuration file says, seen at work: the points of plugins, their order, the lease."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from controller import catalogue
from controller.config import parse
from controller.framework import interface
from controller.framework.profile import PROTOCOLS
from controller.framework.runtime.arguments import Plain
from machinery.api.resources import LEASES

from .live import World, configured, deciding
from .make import cluster, decided, info
from .memory import Stage

NAME = "Everywhere"


class Everywhere:
    """A plugin that serves every point."""

    name = NAME
    ignored_during_execution = True


def _nothing(*_: Any) -> None:
    """Never called: what is asked is where the plugin stands."""


for _protocol in (*PROTOCOLS.values(), interface.Assign):
    for _method in vars(_protocol) if isinstance(_protocol, type) else ():
        if not _method.startswith("_") and callable(vars(_protocol)[_method]):
            setattr(Everywhere, _method, _nothing)


@pytest.mark.proves("G21")
@pytest.mark.parametrize("point", PROTOCOLS)
def test_a_plugin_stands_at_the_points_where_the_file_enables_it_and_at_no_other(
    point: str,
) -> None:
    profile = parse(written(point, [NAME]), registry()).profiles["stowage"]
    assert [at for at, names in profile.names.items() if NAME in names] == [point]
    standing = [plugin for plugin in profile.every_plugin() if plugin.name == NAME]
    assert len(standing) == 1, "a pass would call it at that point"
    assert profile.names[point] == (NAME,), "the file took the default ones away"


def registry() -> Any:
    return catalogue.registry().with_plugin(NAME, Plain(Everywhere))


def written(point: str, plugins: list[str]) -> str:
    """A file that enables these at a point, and nothing else there."""
    enabled = [{"name": name} for name in plugins]
    chosen = {point: {"disabled": [{"name": "*"}], "enabled": enabled}}
    document = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "SchedulerConfiguration",
        "profiles": [{"plugins": chosen}],
    }
    return json.dumps(document)


@pytest.mark.proves("E32")
@pytest.mark.parametrize(
    ("order", "said"),
    [
        (["ClusterReady", "ClusterSelector"], "not ready"),
        (["ClusterSelector", "ClusterReady"], "didn't match clusterSelector"),
    ],
)
def test_the_filter_that_the_file_names_first_gives_the_reason(order: list[str], said: str) -> None:
    profile = parse(written("filter", order), catalogue.registry()).profiles["stowage"]
    asked = info(clusterSelector={"tier": "gold"})
    decision = decided(asked, cluster("a", ready=False), profile=profile)
    assert decision.message == f"0/1 clusters: 1 {said}"
    assert [refusal.plugin for refusal in decision.refusals] == order


def leases(found: dict[str, Any]) -> list[str]:
    return [each["metadata"]["name"] for each in found["items"]]


@pytest.mark.proves("G22")
@pytest.mark.parametrize(("elect", "kept"), [(True, 1), (False, 0)])
async def test_without_leader_election_it_decides_and_keeps_no_lease(
    world: World, tmp_path: Path, elect: bool, kept: int
) -> None:
    """Under a scheduler name of its own, whose lease nobody else takes."""
    scheduler = f"elects-{elect}".lower()
    file = configured(tmp_path, names=(scheduler,))
    file.write_text(
        json.dumps(json.loads(file.read_text()) | {"leaderElection": {"leaderElect": elect}})
    )
    await world.cluster("member-1")
    async with deciding(world, config_file=file):
        await world.workload("demo", schedulerName=scheduler)
        assert await world.placed("demo") == {"member-1": 1}
        names = leases(await world.client.list(LEASES))
    assert len([name for name in names if name.endswith(scheduler)]) == kept


@pytest.mark.proves("E32")
async def test_the_order_of_the_filters_is_in_the_debug_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="controller.scheduler")
    stage = Stage("member-1")
    order = ["ClusterResources", "ClusterReady", "AllowedKinds"]
    names = {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in order]}
    async with stage.configured(configured(tmp_path, {"filter": names})):
        stage.workload("demo")
        await stage.until(lambda: stage.placed("demo"))
    assert f"filters in their order: {' '.join(order)}" in caplog.messages
