"""Makes the Grafana dashboard, and a PrometheusRule of the rules, in `deploy/monitoring/`.

Run `python -m website.monitoring` after a change of either. A panel is a line of `PANELS`,
and the grid follows from their order. `--check` writes nothing and says which file differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from stowage.setup import install

SCHEMA_VERSION = 39
"""That of Grafana 10.4; later releases read it too."""
RULES, OPERATOR_RULES = "stowage-rules.yaml", "stowage-prometheusrule.yaml"
DASHBOARD = "dashboard.json"
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 3


class Panel(NamedTuple):
    """A time series panel: its expressions by legend, and Grafana's name of the unit."""

    title: str
    unit: str
    expressions: Mapping[str, str]


PANELS = (
    Panel(
        "Leaders",
        "short",
        {
            "controller": "sum(stowage_controller_leader)",
            "propagator": "sum(stowage_propagator_leader)",
        },
    ),
    Panel("Workloads by state", "short", {"{{state}}": "sum by (state) (stowage_workloads)"}),
    Panel(
        "Workloads that wait, by reason",
        "short",
        {"{{reason}}": 'sum by (reason) (stowage_workloads{reason!~"Scheduled|Imported"}) > 0'},
    ),
    Panel("Replicas", "short", {"{{state}}": "sum by (state) (stowage_units)"}),
    Panel(
        "Requested of capacity",
        "percentunit",
        {
            "{{resource}}": "sum by (resource) (stowage_cluster_requested)"
            " / sum by (resource) (stowage_cluster_capacity)"
        },
    ),
    Panel(
        "Clusters that are not Ready",
        "short",
        {"{{member_cluster}}": "max by (member_cluster) (stowage_cluster_ready) == 0"},
    ),
    Panel(
        "Time to ready",
        "s",
        {
            f"p{percent}": f"histogram_quantile(0.{percent},"
            " sum by (le) (rate(stowage_time_to_ready_seconds_bucket[10m])))"
            for percent in (50, 99)
        },
    ),
    Panel(
        "Decisions by reason",
        "ops",
        {"{{reason}}": "sum by (reason) (rate(stowage_decisions_total[5m]))"},
    ),
    Panel(
        "Time of a decision, p99",
        "s",
        {
            "pass": "histogram_quantile(0.99,"
            " sum by (le) (rate(stowage_decision_seconds_bucket[5m])))",
            "write": "histogram_quantile(0.99,"
            " sum by (le) (rate(stowage_decision_write_seconds_bucket[5m])))",
        },
    ),
    Panel(
        "Oldest key of a queue", "s", {"{{queue}}": "max by (queue) (stowage_queue_oldest_seconds)"}
    ),
    Panel(
        "Requests by code",
        "reqps",
        {"{{code}}": "sum by (code) (rate(stowage_api_requests_total[5m]))"},
    ),
    Panel(
        "Longest step of the event loop",
        "s",
        {"{{job}} {{instance}}": "max by (job, instance) (stowage_loop_longest_step_seconds)"},
    ),
    Panel(
        "Since a member answered",
        "s",
        {
            "{{member_cluster}}": "time() - max by (member_cluster)"
            " (stowage_member_last_seen_timestamp_seconds > 0)"
        },
    ),
    Panel(
        "Until a credential ends",
        "s",
        {"{{member_cluster}}": "min by (member_cluster) (stowage_certificate_expiry_seconds)"},
    ),
    Panel("Replicas that move", "short", {"{{cause}}": "sum by (cause) (stowage_moving_units)"}),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "title": "Stowage",
        "uid": "stowage",
        "schemaVersion": SCHEMA_VERSION,
        "tags": ["stowage"],
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Data source",
                    "type": "datasource",
                    "query": "prometheus",
                }
            ]
        },
        "panels": [_panel(number, each) for number, each in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    targets = enumerate(panel.expressions.items())
    return {
        "id": number + 1,
        "title": panel.title,
        "type": "timeseries",
        "datasource": _DATASOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "expr": expr,
                "legendFormat": legend,
                "exemplar": "_bucket[" in expr,
            }
            for at, (legend, expr) in targets
        ],
    }


def prometheus_rule(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rules as an object of the Prometheus Operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "stowage", "namespace": "stowage-system"},
        "spec": dict(rules),
    }


def rendered(folder: Path) -> dict[str, str]:
    """Return the text of each generated file, by its name in the folder of the rules."""
    rules = yaml.safe_load((folder / RULES).read_text(encoding="utf-8"))
    return {
        DASHBOARD: json.dumps(dashboard(), indent=1) + "\n",
        OPERATOR_RULES: yaml.safe_dump(prometheus_rule(rules), sort_keys=False, width=120),
    }


def main(arguments: Sequence[str] | None = None, *, folder: Path | None = None) -> int:
    """Write the files, or with `--check` name those that differ; 1 when one does."""
    parser = argparse.ArgumentParser(prog="python -m website.monitoring", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, 1 on a difference")
    check, differ = parser.parse_args(arguments).check, False
    folder = folder or install.folder() / "monitoring"
    for name, text in rendered(folder).items():
        path = folder / name
        if check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            sys.stdout.write(f"{path} is not what is generated\n")
            differ = True
        elif not check:
            path.write_text(text, encoding="utf-8")
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
