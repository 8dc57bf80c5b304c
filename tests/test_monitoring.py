"""The alert rules and the dashboard: they name what the processes expose, and fire when they shall."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from crds.workload import ScheduledReason, WorkloadState
from tests.promql import STALE, Series, firing
from website import monitoring

pytestmark = pytest.mark.xdist_group("monitoring")  # one worker starts the processes

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "deploy" / "monitoring"
RULES = yaml.safe_load((FOLDER / monitoring.RULES).read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((FOLDER / monitoring.DASHBOARD).read_text())
TARGET_LABELS = {"namespace", "job", "instance"}
"""Those that Prometheus gives to all series of a target."""
OPEN_LABELS = {"member_cluster", "client", "queue", "plugin"}
"""Series come with what these name, so a process that has just begun may have none."""

FRESH = {
    "controller": """
from controller.app import Controller, ControllerSettings
connection = Connection("http://127.0.0.1:1")
made = lambda client: Controller(ControllerSettings(connection=connection), client)
""",
    "propagator": """
from propagator.app import Propagator
from propagator.settings import PropagatorSettings
connection = Connection("http://127.0.0.1:1")
made = lambda client: Propagator(client, settings=PropagatorSettings())
""",
}
TELL = """
import asyncio, json
from machinery import metrics
from machinery.api.client import ApiClient
from machinery.config.kubeconfig import Connection
{made}
async def tell():
    async with ApiClient(connection, name="hub") as client:
        process = made(client)
        told = {{}}
        for collector, names in metrics.REGISTRY._collector_to_names.items():
            labels = getattr(collector, "_labelnames", getattr(collector, "labels", ()))
            samples = [each for family in collector.collect() for each in family.samples]
            for name in names:
                values = [sample.labels for sample in samples if sample.name == name]
                le = ["le"] if name.endswith("_bucket") else []
                told[name] = {{"labels": [*labels, *le], "series": values}}
        print(json.dumps(told))
asyncio.run(tell())
"""


@cache
def fresh() -> dict[str, Any]:
    """Labels and series of each metric that processes of both roles have before they lead."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", TELL.format(made=made)], stdout=subprocess.PIPE, cwd=ROOT
        )
        for made in FRESH.values()
    ]
    told: dict[str, Any] = {}
    for run in runs:
        answer, _ = run.communicate(timeout=120)
        assert run.returncode == 0
        told |= json.loads(answer)
    return told


def expressions() -> list[tuple[str, str]]:
    """Each expression, with the text that names its labels."""
    ruled = [(each["expr"], each["annotations"]["summary"]) for each in RULES]
    targets = [target for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return ruled + [(each["expr"], each["legendFormat"]) for each in targets]


def nodes(node: Any) -> Iterator[Any]:
    yield node
    below = [getattr(node, name, None) for name in ("lhs", "rhs", "expr", "vector_selector")]
    for each in (*below, *getattr(node, "args", ())):
        if each is not None:
            yield from nodes(each)


@pytest.mark.proves("CT14")
@pytest.mark.parametrize(("expression", "text"), expressions())
def test_what_an_expression_names_is_exposed_from_the_start(expression: str, text: str) -> None:
    found = list(nodes(promql.parse(expression)))
    selectors = [each for each in found if isinstance(each, promql.VectorSelector)]
    assert selectors
    labels = set(TARGET_LABELS)
    for selector in selectors:
        metric = fresh()[selector.name]
        labels |= set(metric["labels"])
        assert metric["series"] or OPEN_LABELS & set(metric["labels"]), f"{selector.name} at zero"
        for matcher in selector.matchers.matchers:
            assert matcher.name in metric["labels"]
            known = {each[matcher.name] for each in metric["series"]}
            if matcher.name in ("state", "reason", "scope", "cause"):
                assert set(matcher.value.split("|")) <= known
    grouped = [
        name
        for each in found
        if isinstance(each, promql.AggregateExpr) and each.modifier
        for name in each.modifier.labels
    ]
    assert set(grouped) <= labels
    assert set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", text)) <= set(grouped)


@pytest.mark.proves("CT14")
def test_metrics_of_the_fleet_are_at_zero_before_anything_is_known() -> None:
    expected = {
        "stowage_workloads": len(WorkloadState) * (len(ScheduledReason) + 1),
        "stowage_units": 4,
        "stowage_cluster_capacity": 4,
        "stowage_time_to_ready_seconds_bucket": 12,
    }
    assert {name: len(fresh()[name]["series"]) for name in expected} == expected


def test_what_is_generated_is_up_to_date() -> None:
    assert monitoring.main(["--check"]) == 0
    operator = yaml.safe_load((FOLDER / monitoring.OPERATOR_RULES).read_text())
    assert operator["spec"]["groups"][0]["rules"] == RULES


def test_a_change_is_told_and_then_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / monitoring.RULES).write_text("groups: []\n")
    assert monitoring.main(["--check"], folder=tmp_path) == 1
    assert monitoring.DASHBOARD in capsys.readouterr().out
    assert monitoring.main([], folder=tmp_path) == 0
    assert monitoring.main(["--check"], folder=tmp_path) == 0


def test_panels_do_not_overlap_and_read_the_chosen_data_source() -> None:
    places = [tuple(panel["gridPos"].values()) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
    assert all(x + width <= 24 for x, _, width, _ in places)
    (variable,) = DASHBOARD["templating"]["list"]
    sources = {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]}
    assert sources == {f"${{{variable['name']}}}"}


# --- each alert on samples of half an hour, and on their calm twin

MINUTES = 31


def steady(value: float) -> list[float]:
    return [value] * MINUTES


def rising(a_minute: float) -> list[float]:
    return [a_minute * at for at in range(MINUTES)]


def since(minutes: int, value: float, *, before: float) -> list[float]:
    """A value that has stood for so many minutes."""
    return [before] * (MINUTES - minutes - 1) + [value] * (minutes + 1)


def leaders(process: str, *values: Sequence[float]) -> Series:
    name = f"stowage_{process}_leader"
    return {f'{name}{{job="{process}",instance="{at}"}}': each for at, each in enumerate(values)}


def shards(*held: str) -> Series:
    """What propagators tell of the shards that they hold."""
    return {
        f'stowage_shard{{job="propagator",instance="{at}",shard="{each}",state="Held"}}': steady(1)
        for at, each in enumerate(held)
    }


def decisions(slow: float) -> Series:
    name = "stowage_decision_seconds_bucket"
    bounds = {"0.1": 100 - slow, "1.0": 100 - slow, "5.0": 100, "+Inf": 100}
    return {f'{name}{{le="{bound}"}}': rising(count) for bound, count in bounds.items()}


def requests(client: str, **codes: float) -> Series:
    name = "stowage_api_requests_total"
    return {
        f'{name}{{client="{client}",verb="GET",code="{code[1:]}"}}': rising(count)
        for code, count in codes.items()
    }


def workloads(reason: str, values: Sequence[float]) -> Series:
    return {f'stowage_workloads{{state="Pending",reason="{reason}"}}': values}


def credential(days: float, *, renewed: str, life: float = 30) -> Series:
    labels = f'{{member_cluster="m1",renewed="{renewed}"}}'
    return {
        f"stowage_certificate_expiry_seconds{labels}": steady(days * 86400),
        f"stowage_certificate_lifetime_seconds{labels}": steady(life * 86400),
    }


ON, OFF = steady(1), steady(0)
CASES: dict[tuple[str, int], tuple[Series, Series]] = {
    ("StowageNoLeader", 0): (
        leaders("controller", since(2, 0, before=1), OFF),
        leaders("controller", since(1, 0, before=1), OFF),
    ),
    ("StowageNoLeader", 1): (leaders("controller", ON), leaders("propagator", OFF, ON)),
    ("StowageTwoLeaders", 0): (
        leaders("controller", ON, since(2, 1, before=0)),
        leaders("controller", ON, since(1, 1, before=0)),
    ),
    ("StowageTwoLeaders", 1): (shards("0", "0"), shards("0", "1")),
    ("StowageShardUnheld", 0): (
        {"stowage_shards_unheld": since(1, 1, before=0)},
        {"stowage_shards_unheld": OFF},
    ),
    ("StowageAgentSilent", 0): (
        {'stowage_agent_silent_seconds{member_cluster="m1"}': since(5, 61, before=0)},
        {'stowage_agent_silent_seconds{member_cluster="m1"}': steady(60)},
    ),
    ("StowageAgentOld", 0): (
        {'stowage_agent_old{member_cluster="m1"}': since(15, 1, before=0)},
        {'stowage_agent_old{member_cluster="m1"}': since(14, 1, before=0)},
    ),
    ("StowageMemberUnreachable", 0): (
        {'stowage_cluster_ready{member_cluster="m1"}': since(5, 0, before=1)},
        {'stowage_cluster_ready{member_cluster="m1"}': since(4, 0, before=1)},
    ),
    ("StowageWorkloadsPending", 0): (
        workloads("QuotaExceeded", since(15, 2, before=0)),
        workloads("Scheduled", steady(9))
        | workloads("Unknown", ON)
        | workloads("QuotaExceeded", since(14, 2, before=0)),
    ),
    ("StowageQueueOld", 0): (
        {'stowage_queue_oldest_seconds{queue="member"}': steady(61)},
        {'stowage_queue_oldest_seconds{queue="member"}': steady(60)},
    ),
    ("StowageDecisionSlow", 0): (decisions(slow=2), decisions(slow=0.5)),
    ("StowageApiErrors", 0): (
        requests("m1", c200=90, c503=10),
        requests("m1", c200=97, c503=3) | requests("m2", c404=100),
    ),
    ("StowageApiErrors", 1): (requests("hub", c0=13), requests("hub", c0=11)),
    ("StowageLoopStalled", 0): (
        {'stowage_loop_longest_step_seconds{job="a",instance="b"}': since(10, 0.3, before=0)},
        {'stowage_loop_longest_step_seconds{job="a",instance="b"}': since(9, 0.3, before=0)},
    ),
    ("StowageRefusedInput", 0): (
        {'stowage_refused_input_total{client="m1",what="list"}': since(8, 1, before=0)},
        {'stowage_refused_input_total{client="m1",what="list"}': since(11, 1, before=0)},
    ),
    ("StowageTokenExpiring", 0): (
        credential(6.9, renewed="false"),
        credential(7.1, renewed="false") | credential(0.3, renewed="true", life=1),
    ),
    ("StowageTokenExpiring", 1): (
        credential(0.19, renewed="true", life=1),
        credential(0.21, renewed="true", life=1),
    ),
    ("StowageFailoverBraked", 0): (
        {'stowage_brake{scope="fleet"}': since(1, 1, before=0)},
        {'stowage_brake{scope="fleet"}': since(0, 1, before=0)},
    ),
    ("StowagePluginFails", 0): (
        {'stowage_plugin_errors_total{plugin="P",point="Filter"}': rising(1)},
        {'stowage_plugin_errors_total{plugin="P",point="Filter"}': steady(7)},
    ),
    ("StowageClocksDiffer", 0): (
        {"stowage_hub_clock_ahead_seconds": steady(-31)},
        {"stowage_hub_clock_ahead_seconds": steady(30)},
    ),
}
CALM = leaders("controller", ON, OFF) | leaders("propagator", ON, OFF)


def rule(alert: str, number: int) -> dict[str, Any]:
    return [each for each in RULES if each["alert"] == alert][number]


@pytest.mark.proves("CT15")
@pytest.mark.parametrize(("alert", "number"), CASES)
def test_an_alert_fires_on_its_samples_and_not_on_their_calm_twin(alert: str, number: int) -> None:
    bad, calm = CASES[alert, number]
    assert firing(rule(alert, number), bad)
    assert not firing(rule(alert, number), calm)


@pytest.mark.proves("CT15")
@pytest.mark.parametrize(("alert", "number"), CASES)
def test_the_calm_twin_fires_no_other_alert_either(alert: str, number: int) -> None:
    calm = CALM | CASES[alert, number][1]
    assert [each["alert"] for each in RULES if firing(each, calm)] == []


def missed(series: Series, *, faster: float = 1) -> Series:
    """Each fourth scrape never came, the last one among them. Counters of requests rise `faster`."""
    gone = range(MINUTES - 1, -1, -4)
    return {
        name: [
            None if at in gone else value * faster if "_requests_total" in name else value
            for at, value in enumerate(values)
        ]
        for name, values in series.items()
    }


@pytest.mark.proves("RB21")
@pytest.mark.parametrize(("alert", "number"), CASES)
def test_missed_scrapes_neither_end_an_alert_nor_fire_one(alert: str, number: int) -> None:
    bad, calm = CASES[alert, number]
    # what a missed scrape leaves open at an end of its range is taken for half a minute
    assert firing(rule(alert, number), missed(bad, faster=1.5))
    assert [each["alert"] for each in RULES if firing(each, missed(CALM | calm))] == []


@pytest.mark.proves("RB21")
@pytest.mark.parametrize("process", ["controller", "propagator"])
def test_a_failed_scrape_of_the_leader_is_no_lack_of_one(process: str) -> None:
    for failed in (1, 2):
        led = [*steady(1)[failed:], *[STALE] * failed]
        told = CALM | leaders(process, led, OFF)
        assert [each["alert"] for each in RULES if firing(each, told)] == []
    gone = [*steady(1)[3:], *[STALE] * 3]
    assert firing(rule("StowageNoLeader", process == "propagator"), leaders(process, gone, OFF))


@pytest.mark.proves("RB21")
def test_a_process_that_starts_again_fires_no_alert_of_counters() -> None:
    again = {
        "stowage_plugin_errors_total": '{plugin="P",point="Filter"}',
        "stowage_refused_input_total": '{client="m1",what="list"}',
    }
    told = {name + labels: since(5, 0, before=7) for name, labels in again.items()}
    assert [each["alert"] for each in RULES if firing(each, CALM | told)] == []


@pytest.mark.proves("CT15")
def test_each_alert_has_its_samples() -> None:
    names = [each["alert"] for each in RULES]
    assert sorted((name, names[:at].count(name)) for at, name in enumerate(names)) == sorted(CASES)
