"""`stowage plugins`: what a configuration makes of the plugins that are installed here."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from controller.config import default_profile
from controller.framework.profile import PROTOCOLS
from machinery.errors import ConfigurationError
from stowage.cli import cli

from .conftest import Stowage

HEAD = "apiVersion: stowage.dev/v1alpha1\nkind: SchedulerConfiguration\n"
PACKAGE = "carbon_rules"
CODE = """
from pydantic import BaseModel
from controller.framework.runtime.arguments import Args, Plain
from controller.framework.runtime.feature import Enabled
from controller.framework.runtime.services import Route


class CarbonArgs(Args):
    region: str = "eu"
    grams_at_most: int = 400
    hours: tuple[int, int] = (8, 18)


class CarbonPrice:
    name = "CarbonPrice"

    def __init__(self, args: CarbonArgs, handle):
        self.region = args.region

    def score(self, state, unit, fleet, bound):
        raise NotImplementedError

    def post_bind(self, state, unit, placements):
        pass


class CarbonReader:
    name = "reader"

    async def run(self):
        raise NotImplementedError


class CarbonRules(CarbonPrice):
    name = "CarbonRules"

    def before_pre_filter(self, state, unit, fleet, bound):
        return unit, False

    def before_score(self, state, unit, fleet, bound, feasible):
        return unit, feasible, False

    def routes(self):
        return [Route("GET", "/of/:cluster", self.before_score), Route("PUT", "/of", self.score)]

    def controllers(self):
        return [CarbonReader()]


class CarbonNotes:
    name = "CarbonNotes"

    def post_bind(self, state, unit, placements):
        pass


class Rules:
    ledgers = watches = ()
    plugins = {"CarbonNotes": Plain(CarbonNotes)}
    defaults = [Enabled("postBind", "CarbonNotes")]

    def lead(self, term):
        return None

    def stop_leading(self):
        pass


class Needy(BaseModel):
    url: str
    retries: int = 3


def needing(args: Needy, handle):
    raise AssertionError("nobody enables it")


class Loose(CarbonNotes):
    name = "Loose"

    def __init__(self, args, handle):
        pass
"""
POINTS = f"""[stowage.plugins]
CarbonPrice = {PACKAGE}:CarbonPrice
Needing = {PACKAGE}:needing
[stowage.features]
carbon = {PACKAGE}:Rules
"""


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["plugins", *args])


def listed(*args: str) -> dict[str, Any]:
    result = run(*args, "-o", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def plugins(profile: dict[str, Any], point: str) -> list[dict[str, Any]]:
    (found,) = [each["plugins"] for each in profile["points"] if each["point"] == point]
    assert isinstance(found, list)
    return found


def names(profile: dict[str, Any], point: str) -> list[str]:
    return [each["name"] for each in plugins(profile, point)]


def written(folder: Path, text: str, *, head: str = HEAD) -> str:
    file = folder / "scheduler.yaml"
    file.write_text(head + text)
    return str(file)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of somebody else in a folder of its own, which is on the path."""
    folder = tmp_path / "site"
    (folder / f"{PACKAGE}-2.1.dist-info").mkdir(parents=True)
    (folder / f"{PACKAGE}.py").write_text(CODE)
    told = "Metadata-Version: 2.1\nName: carbon-rules\nVersion: 2.1\n"
    (folder / f"{PACKAGE}-2.1.dist-info" / "METADATA").write_text(told)
    (folder / f"{PACKAGE}-2.1.dist-info" / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    return folder


@pytest.mark.proves("U2")
def test_without_a_file_the_default_profile_is_told_in_the_order_of_a_pass() -> None:
    (profile,) = listed()["profiles"]
    assert profile["schedulerName"] == "stowage"
    assert [each["point"] for each in profile["points"]] == list(PROTOCOLS)
    runs = default_profile()
    assert names(profile, "filter") == [plugin.name for plugin in runs.filter]
    assert names(profile, "assign") == [plugin.name for plugin in runs.assign]
    weights = {each["name"]: each["weight"] for each in plugins(profile, "score")}
    assert weights == runs.weights
    assert all("weight" not in each for each in plugins(profile, "filter"))


def test_ours_are_told_apart_from_those_of_features_and_arguments_have_their_defaults() -> None:
    found = listed()
    (profile,) = found["profiles"]
    origins = {each["name"]: each["origin"] for each in plugins(profile, "filter")}
    assert origins["ClusterReady"] == "stowage"
    assert origins["WorkloadPolicy"] == "feature workloadpolicy"
    assert origins["WorkloadSpread"] == "feature workloadspread"
    args = {each["name"]: each["args"] for each in plugins(profile, "assign")}
    assert args["Divided"] == {"unschedulableSeconds": 60}
    assert args["WorkloadSpread"] == {"markSeconds": 300}
    assert args["Single"] == {}
    assert [each["name"] for each in found["unused"]] == [
        "ClusterCost", "ClusterLatency", "ClusterReliability", "PrioritySort",
    ]  # fmt: skip


def test_the_table_for_people() -> None:
    result = run()
    assert result.exit_code == 0
    above, beside, below = result.stdout.split("\n\n")
    lines = [line.split() for line in above.splitlines()]
    assert lines[0] == ["Profile", "stowage:"]
    assert lines[1] == ["POINT", "PLUGIN", "WEIGHT", "FROM", "ARGS"]
    assert lines[2][:5] == ["queueSort", "Coscheduling", "-", "feature", "workloadgroup"]
    assert lines[2][5:] == ["deniedSeconds=3", "patienceSeconds=300"]
    assert ["score", "TaintToleration", "3", "stowage", "-"] in lines
    assert ["assign", "Divided", "-", "stowage", "unschedulableSeconds=60"] in lines
    *_, bare, limit = above.splitlines()
    assert bare == "No plugin at scoreHook."
    assert limit == "Each call of a plugin: at most 2000 ms."
    assert beside.splitlines()[0] == "Beside the points, once for all profiles:"
    rows = [line.split(maxsplit=2) for line in beside.splitlines()]
    room = "GET /apis/v1/plugins/ClusterResources/available/:name"
    assert ["ClusterResources", "routes", room] in rows
    assert ["WorkloadPolicy", "controllers", "WorkloadPolicy"] in rows
    gang = "GET /apis/v1/plugins/Coscheduling/gang/:namespace/:name"
    assert ["Coscheduling", "routes", gang] in rows
    assert below.splitlines()[0] == "Installed, and enabled by no profile:"
    assert ["ClusterCost", "stowage", "-"] in [line.split() for line in below.splitlines()]


def test_yaml_is_the_same_as_json() -> None:
    assert yaml.safe_load(run("-o", "yaml").stdout) == listed()


@pytest.mark.proves("G21", "E31")
def test_a_file_disables_weighs_orders_and_gives_arguments_by_profile(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """profiles:
- plugins:
    score: {disabled: [{name: TaintToleration}], enabled: [{name: ClusterCost, weight: 7}]}
    filter: {disabled: [{name: "*"}], enabled: [{name: ClusterReady}, {name: ClusterSelector}]}
  pluginConfig: [{name: Divided, args: {unschedulableSeconds: 5}}]
- schedulerName: bare
  plugins: {score: {disabled: [{name: "*"}]}}
""",
    )
    ours, bare = listed("--config", file)["profiles"]
    assert names(ours, "filter") == ["ClusterReady", "ClusterSelector"]
    weights = {each["name"]: each["weight"] for each in plugins(ours, "score")}
    assert weights["ClusterCost"] == 7
    assert "TaintToleration" not in weights
    assert plugins(bare, "score") == []
    assert len(names(bare, "filter")) > 2

    def patience(profile: dict[str, Any]) -> object:
        (divided,) = [each for each in plugins(profile, "assign") if each["name"] == "Divided"]
        return divided["args"]["unschedulableSeconds"]

    assert (patience(ours), patience(bare)) == (5, 60)
    table = run("--config", file).stdout
    assert "Profile stowage:\n" in table
    assert "\n\nProfile bare:\n" in table
    assert "unschedulableSeconds=5\n" in table
    assert "ClusterCost" not in table.split("enabled by no profile:")[1]


def test_arguments_of_a_plugin_that_a_profile_does_not_enable_are_noted(tmp_path: Path) -> None:
    text = """profiles:
- plugins: {assign: {disabled: [{name: Divided}]}}
  pluginConfig: [{name: Divided, args: {unschedulableSeconds: 5}}]
"""
    result = run("--config", written(tmp_path, text))
    assert result.exit_code == 0
    assert result.stderr == (
        "note: profile stowage gives args to Divided, and no point of it enables Divided\n"
    )
    assert "Divided" in result.stdout.split("enabled by no profile:")[1]


@pytest.mark.proves("E1")
def test_a_package_of_somebody_else_is_named_with_its_version(
    installed: Path, tmp_path: Path
) -> None:
    found = listed()
    (unused,) = [each for each in found["unused"] if each["name"] == "CarbonPrice"]
    assert unused == {
        "name": "CarbonPrice",
        "origin": "package carbon-rules 2.1",
        "args": {"region": "eu", "gramsAtMost": 400, "hours": [8, 18]},
    }
    assert plugins(found["profiles"][0], "postBind")[-1] == {
        "name": "CarbonNotes", "origin": "package carbon-rules 2.1", "args": {},
    }  # fmt: skip
    text = """profiles:
- plugins:
    score: {enabled: [{name: CarbonPrice, weight: 4}]}
    postBind: {enabled: [{name: CarbonPrice}]}
  pluginConfig: [{name: CarbonPrice, args: {region: north}}]
"""
    file = written(tmp_path, text)
    found = listed("--config", file)
    (profile,) = found["profiles"]
    args = {"region": "north", "gramsAtMost": 400, "hours": [8, 18]}
    assert plugins(profile, "score")[-1] == {
        "name": "CarbonPrice", "origin": "package carbon-rules 2.1", "args": args, "weight": 4,
    }  # fmt: skip
    assert names(profile, "postBind") == [
        "Coscheduling",
        "StagedRollout",
        "CarbonNotes",
        "CarbonPrice",
    ]
    assert "CarbonPrice" not in [each["name"] for each in found["unused"]]
    assert 'region="north" gramsAtMost=400 hours=[8, 18]' in run("--config", file).stdout


@pytest.mark.proves("E5", "E14", "E20", "E24")
@pytest.mark.usefixtures("installed")
def test_hooks_endpoints_and_controllers_of_each_are_told_once(tmp_path: Path) -> None:
    points = "{preFilterHook: {enabled: [&one {name: CarbonRules}]}, scoreHook: {enabled: [*one]}}"
    text = f"""profiles:
- plugins: {points}
  pluginTimeoutMilliseconds: 350
- schedulerName: second
  plugins: {{scoreHook: {{enabled: [{{name: CarbonRules}}]}}}}
  pluginTimeoutMilliseconds: 0
"""
    about = ("--plugin", f"{PACKAGE}:CarbonRules", "--config", written(tmp_path, text))
    found = listed(*about)
    assert [each["pluginTimeoutMilliseconds"] for each in found["profiles"]] == [350, 0]
    assert [each for each in found["plugins"] if each["name"] == "CarbonRules"] == [
        {
            "name": "CarbonRules",
            "hooks": ["preFilterHook", "scoreHook"],
            "routes": [
                "GET /apis/v1/plugins/CarbonRules/of/:cluster",
                "PUT /apis/v1/plugins/CarbonRules/of",
            ],
            "controllers": ["CarbonRules/reader"],
        }
    ]
    table = run(*about).stdout
    assert "Each call of a plugin: at most 350 ms." in table
    assert "Each call of a plugin: as long as it takes." in table


@pytest.mark.usefixtures("installed")
def test_of_arguments_that_must_be_given_the_others_are_told() -> None:
    (needing,) = [each for each in listed()["unused"] if each["name"] == "Needing"]
    assert needing["args"] == {"retries": 3}


@pytest.mark.proves("E1")
@pytest.mark.usefixtures("installed")
def test_a_plugin_by_module_and_factory_is_named_by_these(tmp_path: Path) -> None:
    reference = f"{PACKAGE}:Loose"
    (unused,) = [
        each for each in listed("--plugin", reference)["unused"] if each["name"] == "Loose"
    ]
    assert unused == {"name": "Loose", "origin": reference, "args": {}}
    text = """profiles:
- plugins: {postBind: {enabled: [{name: Loose}]}}
  pluginConfig: [{name: Loose, args: {since: 2026-01-01, of: {any: [kind, 1.5, null, .nan]}}}]
"""
    found = listed("--plugin", reference, "--config", written(tmp_path, text))
    assert plugins(found["profiles"][0], "postBind")[-1] == {
        "name": "Loose",
        "origin": reference,
        "args": {"since": "2026-01-01", "of": {"any": ["kind", 1.5, None, "nan"]}},
    }


def test_a_package_that_cannot_be_imported_is_named(installed: Path) -> None:
    (installed / f"{PACKAGE}.py").write_text("import no_such_module")
    result = run()
    assert isinstance(result.exception, ConfigurationError)
    assert "No module named 'no_such_module'" in str(result.exception)
    assert result.stdout == ""


WRONG = {
    "unknown plugin": "profiles:\n- plugins:\n    filter: {enabled: [{name: Klusterselector}]}\n",
    "no queue sort": (
        "profiles:\n- plugins:\n    queueSort:\n      enabled: [{name: ClusterReady}]\n"
    ),
    "wrong args": "profiles:\n- pluginConfig:\n  - {name: Divided, args: {seconds: 1}}\n",
    "not YAML": "profiles: [\n",
}


@pytest.mark.proves("G21")
@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_refused_with_its_line_and_nothing_is_printed(
    text: str, tmp_path: Path
) -> None:
    file = written(tmp_path, text)
    result = run("--config", file)
    assert isinstance(result.exception, ConfigurationError)
    assert str(result.exception).startswith(f"{file}:")
    assert result.stdout == ""


@pytest.mark.long
@pytest.mark.proves("G21")
def test_a_wrong_file_is_refused_as_the_controller_refuses_it(
    stowage: Stowage, tmp_path: Path
) -> None:
    text = "profiles:\n- pluginConfig:\n  - {name: Divided, args: {unschedulableSeconds: -1}}\n"
    file = written(tmp_path, text)
    kubeconfig = tmp_path / "hub.kubeconfig"
    cluster = {"name": "hub", "cluster": {"server": "https://127.0.0.1:9"}}
    context = {"name": "hub", "context": {"cluster": "hub", "user": "hub"}}
    user = {"name": "hub", "user": {"token": "secret"}}
    document = {
        "current-context": "hub", "clusters": [cluster], "users": [user], "contexts": [context],
    }  # fmt: skip
    kubeconfig.write_text(yaml.safe_dump(document))
    here = stowage("plugins", f"--config={file}")
    there = stowage.process("controller", f"--kubeconfig={kubeconfig}", f"--config={file}")
    assert (here.code, here.out) == (1, "")
    assert here.err.startswith(f"error: {file}:5: profiles[0].pluginConfig[0].args")
    assert "Divided" in here.err
    assert (there.code, there.err) == (1, here.err)


def test_a_file_that_can_be_read_but_once_will_do(tmp_path: Path) -> None:
    text = (
        f"{HEAD}profiles:\n- pluginConfig: [{{name: Divided, args: {{unschedulableSeconds: 7}}}}]\n"
    )
    once = tmp_path / "once"
    os.mkfifo(once)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(once.write_text, text)
        done = run("--config", str(once))
    assert done.exit_code == 0, done.output
    assert "unschedulableSeconds=7" in done.stdout


@pytest.mark.parametrize("args", [["-o", "csv"], ["--nonsense"], ["more"]])
def test_wrong_usage_is_two(args: list[str]) -> None:
    assert run(*args).exit_code == 2


@pytest.mark.long
def test_it_needs_no_hub_and_none_of_what_talks_to_one(tmp_path: Path) -> None:
    heavy = ("aiohttp", "cryptography", "kubernetes", "networkx", "rich", "tenacity")
    code = f"""
import sys
from stowage.cli import cli
cli(["plugins"], standalone_mode=False)
print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)
"""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.startswith("Profile stowage:\n")
    assert done.stderr.strip() == "[]"
