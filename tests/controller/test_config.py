"""SchedulerConfiguration: what a good file gives, and how a wrong one is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from controller import catalogue
from controller.config import default_profile, load, parse
from controller.framework.profile import PROTOCOLS, SchedulerConfiguration
from controller.framework.runtime.arguments import Args, Plain
from controller.framework.runtime.handle import DryRunHandle, Handle
from controller.framework.runtime.registry import Registry
from controller.model.moving import BrakeConfiguration, MovementConfiguration
from controller.model.unit import WorkloadInfo
from controller.plugins.defaults import PrioritySort
from machinery.errors import ConfigurationError

from .make import info

HEAD = "apiVersion: stowage.dev/v1alpha1\nkind: SchedulerConfiguration\n"


class Youngest:
    """A queueSort plugin of somebody else."""

    name = "Youngest"

    def rank(self, info: WorkloadInfo) -> tuple[Any, ...]:
        return (info.created,)


class PickyArgs(Args):
    """What Picky takes."""

    seconds: int = Field(default=3, ge=0)


class Picky:
    """A plugin with args, one of which may be wrong."""

    def __init__(self, args: PickyArgs, handle: Handle) -> None:
        self.seconds = args.seconds
        self.handle = handle
        self.name = "Picky"

    def post_bind(self, state: Any, info: WorkloadInfo, placements: Any) -> None:
        """Nothing to do."""


@dataclass(frozen=True)
class Frozen:
    """A plugin that nothing can be set on."""

    name: str = "Frozen"


def registry() -> Registry:
    known = catalogue.registry().with_plugin("Youngest", Plain(Youngest))
    return known.with_plugin("Picky", Picky)


def parsed(text: str, *, head: str = HEAD) -> SchedulerConfiguration:
    return parse(head + text, registry(), name="scheduler.yaml")


def names(plugins: Any) -> list[str]:
    return [plugin.name for plugin in plugins]


class TestGood:
    """Files that are accepted."""

    def test_an_empty_one_gives_the_default_profile(self) -> None:
        found = parsed("")
        profile = found.profiles["stowage"]
        assert found.leader_elect
        assert names(profile.filter) == [name for name, _ in registry().defaults["filter"]]
        assert names(default_profile().score) == names(profile.score)

    def test_movement_is_read_and_has_defaults(self) -> None:
        assert parsed("").movement == MovementConfiguration(not_ready_toleration_seconds=300)
        given = """movement:
  notReadyTolerationSeconds: 86400
  dwellSeconds: 0
  maxMoving: 3
  brake: {maxLost: 1, topologyKey: zone, maxLostDomains: 0}
"""
        brake = BrakeConfiguration(1, "zone", 0)
        assert parsed(given).movement == MovementConfiguration(86400, 0, 3, brake)
        never = parsed("movement: {notReadyTolerationSeconds: -1, brake: {maxLost: 0%}}\n").movement
        assert never == MovementConfiguration(-1, brake=BrakeConfiguration(max_lost="0%"))

    @pytest.mark.proves("CT9", "CT10")
    def test_the_inventory_is_read_and_is_absent_otherwise(self) -> None:
        assert parsed("").cluster_profiles is None
        given = """clusterProfiles:
  import:
  - namespace: fleet
    selector: {matchExpressions: [{key: env, operator: In, values: [prod]}]}
    properties: [tier, topology.kubernetes.io/zone]
  export: true
"""
        found = parsed(given).cluster_profiles
        assert found is not None
        assert found.export
        assert found.rule("fleet", {"env": "test"}) is None
        rule = found.rule("fleet", {"env": "prod"})
        assert rule is not None
        assert rule.properties == ("tier", "topology.kubernetes.io/zone")
        assert found.rule("shop", {"env": "prod"}) is None

    @pytest.mark.proves("G22")
    def test_leader_election_may_be_switched_off(self) -> None:
        assert not parsed("leaderElection: {leaderElect: false}\n").leader_elect

    @pytest.mark.proves("E31")
    def test_profiles_have_plugin_sets_of_their_own(self) -> None:
        found = parsed(
            """profiles:
- schedulerName: stowage
- schedulerName: cheap
  plugins:
    score:
      disabled: [{name: "*"}]
      enabled: [{name: ClusterCost, weight: 5}]
"""
        )
        assert list(found.profiles) == ["stowage", "cheap"]
        assert names(found.profiles["cheap"].score) == ["ClusterCost"]
        assert dict(found.profiles["cheap"].weights) == {"ClusterCost": 5}
        assert len(found.profiles["stowage"].score) == len(registry().defaults["score"])

    def test_one_default_may_be_disabled_and_another_weighed_anew(self) -> None:
        found = parsed(
            """profiles:
- plugins:
    score:
      disabled: [{name: TaintToleration}]
      enabled: [{name: ClusterAffinity, weight: 9}]
"""
        ).profiles["stowage"]
        assert found.weights == {
            "WorkloadAffinity": 2,
            "ClusterResources": 1,
            "WorkloadPolicy": 1,
            "Reservation": 3,
            "ClusterAffinity": 9,
        }

    def test_args_reach_the_plugin_and_one_plugin_serves_all_its_points(self) -> None:
        found = parsed(
            """profiles:
- plugins: {postBind: {enabled: [{name: Picky}]}}
  pluginConfig: [{name: Picky, args: {seconds: 7}}]
"""
        ).profiles["stowage"]
        assert found.post_bind[-1].seconds == 7
        affinity = next(p for p in found.filter if p.name == "ClusterAffinity")
        assert affinity in found.score

    def test_a_file_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "scheduler.yaml"
        path.write_text(HEAD)
        assert "stowage" in load(path, registry()).profiles

    @pytest.mark.proves("G21")
    def test_another_queue_sort_may_take_the_place(self) -> None:
        found = parsed(
            """profiles:
- plugins: {queueSort: {enabled: [{name: Youngest}], disabled: [{name: "*"}]}}
"""
        )
        assert isinstance(found.profiles["stowage"].queue_sort, Youngest)

    @pytest.mark.proves("G21")
    def test_the_plain_order_has_its_place_back_where_it_alone_is_named(self) -> None:
        found = parsed("profiles:\n- plugins: {queueSort: {enabled: [{name: PrioritySort}]}}\n")
        assert isinstance(found.profiles["stowage"].queue_sort, PrioritySort)


WRONG = {
    "two queue sorts of ours": (
        (
            "profiles:\n- plugins:\n    queueSort:\n"
            "      enabled: [{name: PrioritySort}, {name: Coscheduling}]\n"
        ),
        (
            "scheduler.yaml:5: profiles[0].plugins.queueSort: exactly one plugin must be enabled, "
            "found: PrioritySort, Coscheduling"
        ),
    ),
    "two queue sorts": (
        "profiles:\n- plugins:\n    queueSort:\n      enabled: [{name: Youngest}]\n",
        (
            "scheduler.yaml:5: profiles[0].plugins.queueSort: exactly one plugin must be enabled, "
            "found: Coscheduling, Youngest"
        ),
    ),
    "no queue sort": (
        'profiles:\n- plugins:\n    queueSort: {disabled: [{name: "*"}]}\n',
        (
            "scheduler.yaml:5: profiles[0].plugins.queueSort: exactly one plugin must be enabled, "
            "found: none"
        ),
    ),
    "queue sorts that differ": (
        (
            "profiles:\n- schedulerName: a\n- schedulerName: b\n  plugins:\n    queueSort:\n"
            '      enabled: [{name: Youngest}]\n      disabled: [{name: "*"}]\n'
        ),
        "scheduler.yaml:4: profiles[0].plugins.queueSort: there is one queue",
    ),
    "unknown plugin": (
        (
            "profiles:\n- plugins:\n    filter:\n      enabled:\n      - {name: ClusterReady}\n"
            "      - {name: Klusterselector}\n"
        ),
        (
            "scheduler.yaml:8: profiles[0].plugins.filter.enabled[1].name: no plugin named "
            "Klusterselector; known: AllowedKinds, ClusterAffinity, "
        ),
    ),
    "unknown plugin disabled": (
        "profiles:\n- plugins:\n    filter:\n      disabled: [{name: Nobody}]\n",
        "scheduler.yaml:6: profiles[0].plugins.filter.disabled[0].name: no plugin named Nobody",
    ),
    "unknown point": (
        "profiles:\n- plugins:\n    flter: {}\n",
        "scheduler.yaml:5: profiles[0].plugins.flter: no such extension point; known: queueSort, ",
    ),
    "plugin at a point that it does not serve": (
        "profiles:\n- plugins:\n    score: {enabled: [{name: ClusterReady}]}\n",
        "scheduler.yaml:5: profiles[0].plugins.score.enabled: ClusterReady is no score plugin",
    ),
    "the same scheduler twice": (
        "profiles:\n- schedulerName: a\n- schedulerName: a\n",
        "scheduler.yaml:5: profiles[1].schedulerName: a has a profile already",
    ),
    "unknown field": (
        "profiles:\n- schedulername: a\n",
        'scheduler.yaml:4: profiles[0].schedulername: unknown field, did you mean "schedulerName"?',
    ),
    "weight out of bounds": (
        (
            "profiles:\n- plugins:\n    score:\n      enabled:\n      - name: ClusterAffinity\n"
            "        weight: 101\n"
        ),
        "scheduler.yaml:8: profiles[0].plugins.score.enabled[0].weight: ",
    ),
    "a weight where nothing is weighed": (
        "profiles:\n- plugins:\n    postBind: {enabled: [{name: Picky, weight: 2}]}\n",
        "scheduler.yaml:5: profiles[0].plugins.postBind.enabled[0].weight: only score plugins have",
    ),
    "enabled twice": (
        "profiles:\n- plugins:\n    postBind: {enabled: [{name: Picky}, {name: Picky}]}\n",
        "scheduler.yaml:5: profiles[0].plugins.postBind.enabled[1].name: Picky is enabled twice",
    ),
    "args of nobody": (
        "profiles:\n- pluginConfig: [{name: Nobody}]\n",
        "scheduler.yaml:4: profiles[0].pluginConfig[0].name: no plugin named Nobody",
    ),
    "args twice": (
        "profiles:\n- pluginConfig: [{name: Picky}, {name: Picky}]\n",
        "scheduler.yaml:4: profiles[0].pluginConfig[1].name: Picky has its args already",
    ),
    "args that the plugin does not take": (
        (
            "profiles:\n- plugins: {postBind: {enabled: [{name: Picky}]}}\n"
            "  pluginConfig: [{name: Picky, args: {minutes: 3}}]\n"
        ),
        ("scheduler.yaml:5: profiles[0].pluginConfig[0].args.minutes: plugin Picky: unknown field"),
    ),
    "args that the plugin refuses": (
        (
            "profiles:\n- plugins: {postBind: {enabled: [{name: Picky}]}}\n"
            "  pluginConfig:\n  - {name: Picky, args: {\n      seconds: -3}}\n"
        ),
        (
            "scheduler.yaml:7: profiles[0].pluginConfig[0].args.seconds: "
            "plugin Picky: Invalid value: -3: must be greater than or equal to 0"
        ),
    ),
    "a field twice": (
        "profiles:\n- schedulerName: a\n  schedulerName: b\n",
        "scheduler.yaml:5: profiles[0].schedulerName: stands here twice",
    ),
    **{
        f"movement of {given}": (
            f"movement:\n  {given}\n",
            f"scheduler.yaml:4: movement.{given.split(':')[0]}: {told}",
        )
        for given, told in {
            "notReadyTolerationSeconds: 0": "must be from 1 to 86400 seconds, or -1 for never",
            "notReadyTolerationSeconds: -2": "must be from 1 to 86400 seconds, or -1 for never",
            "notReadyTolerationSeconds: 86401": "must be from 1 to 86400 seconds, or -1 for never",
            "notReadyTolerationSeconds: soon": 'Invalid value: "soon": must be of type integer',
            "dwellSeconds: -1": "Invalid value: -1: must be greater than or equal to 0",
            "dwellSeconds: 86401": "Invalid value: 86401: must be less than or equal to 86400",
            "maxMoving: 0": "must be more than 0, or nothing could ever move",
            "maxMoving: 101%": "not a number of units; write it as 2, or in whole percents",
            "maxMoving: 1.5": "not a number of units; write it as 2, or in whole percents",
            "maxMovin: 1": 'unknown field, did you mean "maxMoving"?',
        }.items()
    },
    "a brake of many": (
        "movement:\n  brake:\n    maxLost: many\n",
        "scheduler.yaml:5: movement.brake.maxLost: not a number of units; write it as 2, or in",
    ),
    "a brake of no domain": (
        "movement:\n  brake:\n    maxLostDomains: -1\n",
        "scheduler.yaml:5: movement.brake.maxLostDomains: Invalid value: -1: must be",
    ),
    "a brake of no key": (
        'movement:\n  brake:\n    topologyKey: ""\n',
        'scheduler.yaml:5: movement.brake.topologyKey: Invalid value: "": must have at least 1 char',
    ),
    "an inventory of no namespace": (
        "clusterProfiles:\n  import:\n  - properties: [tier]\n",
        "scheduler.yaml:5: clusterProfiles.import[0].namespace: Required value",
    ),
    "a property that is no label": (
        "clusterProfiles:\n  import:\n  - namespace: fleet\n    properties: [-tier]\n",
        'scheduler.yaml:6: clusterProfiles.import[0].properties[0]: Invalid value: "-tier": must',
    ),
    "a selector without values": (
        (
            "clusterProfiles:\n  import:\n  - namespace: fleet\n"
            "    selector: {matchExpressions: [{key: env, operator: In}]}\n"
        ),
        "scheduler.yaml:6: clusterProfiles.import[0].selector.matchExpressions[0]",
    ),
    "no profile": ("profiles: []\n", "scheduler.yaml:3: profiles: "),
    "not YAML": ("profiles: [\n", "scheduler.yaml: not YAML: "),
}


@pytest.mark.proves("G21")
@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_file_names_line_and_field(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as fault:
        parsed(text)
    assert str(fault.value).startswith(message)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("kind: SchedulerConfiguration\n", "scheduler.yaml:1: apiVersion: Required value"),
        ("apiVersion: v1\nkind: SchedulerConfiguration\n", "scheduler.yaml:1: apiVersion: "),
        (HEAD.replace("SchedulerC", "SchedulingC"), "scheduler.yaml:2: kind: "),
        ("", "scheduler.yaml:1: "),
        ("- a\n", "scheduler.yaml:1: "),
    ],
)
def test_another_kind_of_file_is_refused(head: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as fault:
        parsed("", head=head)
    assert str(fault.value).startswith(message)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.yaml: No such file or directory"):
        load(tmp_path / "none.yaml", registry())


@pytest.mark.proves("E4")
def test_a_name_is_taken_once() -> None:
    with pytest.raises(ConfigurationError, match="a plugin named Picky already"):
        registry().with_plugin("Picky", Picky)
    with pytest.raises(ConfigurationError, match="a plugin named ClusterReady already"):
        registry().with_plugin("ClusterReady", Picky)


def test_every_default_is_built_in_and_serves_its_point() -> None:
    known = registry()
    assert {"filter", "score", "assign"} <= known.defaults.keys()
    for point, plugins in known.defaults.items():
        for name, _ in plugins:
            assert isinstance(known.make(name, {}, DryRunHandle()), PROTOCOLS[point])


@pytest.mark.proves("G7")
def test_the_queue_goes_by_priority_then_age_then_name() -> None:
    rank = default_profile().queue_sort.rank
    units = [
        info("d", created="2026-01-02T00:00:00Z", priority=5),
        info("c", created="2026-01-01T00:00:00Z"),
        info("b", created="2026-01-03T00:00:00Z", priority=5),
        info("a", created="2026-01-01T00:00:00Z"),
        info("a", namespace="bank", created="2026-01-01T00:00:00Z"),
        info("e", created="2020-01-01T00:00:00Z", priority=-1),
    ]
    order = [(each.namespace, each.name) for each in sorted(units, key=rank)]
    assert order == [
        ("shop", "d"), ("shop", "b"), ("bank", "a"), ("shop", "a"), ("shop", "c"), ("shop", "e"),
    ]  # fmt: skip


@pytest.mark.proves("L15")
def test_a_frozen_plugin_is_taken_as_it_is_and_under_no_other_name() -> None:
    known = registry().with_plugin("Frozen", Plain(Frozen)).with_plugin("Other", Plain(Frozen))
    assert known.make("Frozen", {}, DryRunHandle()) == Frozen()
    with pytest.raises(ConfigurationError, match="plugin Other calls itself Frozen"):
        known.make("Other", {}, DryRunHandle())
