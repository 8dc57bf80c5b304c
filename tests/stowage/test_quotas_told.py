"""Quotas as the commands tell them: a plan of files, and status from what stands on the hub."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from machinery.types.metadata import Meta
from stowage.cli import cli
from stowage.report.features import QUOTAS, QuotaSummary, QuotaSummarySpec, QuotaSummaryStatus
from stowage.report.findings import Finding, Report

pytestmark = pytest.mark.proves("N4")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUOTA = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "WorkloadQuota",
    "metadata": {"name": "team", "namespace": "shop"},
    "spec": {"hard": {"units": "3", "requests.cpu": "2"}},
}


def demo(**spec: Any) -> dict[str, Any]:
    pods = {"containers": [{"name": "m", "resources": {"requests": {"cpu": "500m"}}}]}
    template = {"metadata": {"labels": {"app": "demo"}}, "spec": pods}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "demo"}}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "demo", "namespace": "shop"},
        "spec": {
            "replicas": 5,
            "targetDeployment": {**body, "spec": {"template": template}},
            **spec,
        },
    }


FLEET = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "MemberCluster",
    "metadata": {"name": "a"},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeGroups": [{"count": 1, "free": {"cpu": "16", "memory": "64Gi", "pods": "110"}}],
    },
}


def run(tmp_path: Path, command: str, *objects: Any, more: tuple[str, ...] = ()) -> Any:
    fleet, files = tmp_path / "fleet.yaml", tmp_path / "objects.yaml"
    fleet.write_text(yaml.safe_dump(FLEET))
    files.write_text(yaml.safe_dump_all(objects))
    where = ("-f", str(files), "--fleet", str(fleet), "-n", "shop")
    return CliRunner().invoke(cli, [command, *more, *where])


def test_a_plan_of_files_honours_the_quotas_among_them(tmp_path: Path) -> None:
    found = run(tmp_path, "plan", demo(distribution="Divided"), QUOTA, more=("-o", "json"))
    [planned] = json.loads(found.stdout)["workloads"]
    assert (planned["placements"][0]["replicas"], planned["pending"]) == (3, 2)
    said = run(tmp_path, "plan", demo(), QUOTA).stdout
    assert "WorkloadQuota team: units 0 of 3 used, 5 units ask for 5" in said
    free = run(tmp_path, "plan", demo(), more=("-o", "json"))
    assert json.loads(free.stdout)["workloads"][0]["pending"] == 0


def test_explain_advises_more_of_the_amount(tmp_path: Path) -> None:
    told = run(tmp_path, "explain", demo(distribution="Divided"), QUOTA, more=("wl/demo",)).stdout
    assert "more of hard.units in WorkloadQuota team" in told


def quota(name: str = "team", namespace: str = "shop", used: str = "3") -> QuotaSummary:
    meta = Meta(name=name, namespace=namespace)
    return QuotaSummary(
        meta,
        QuotaSummarySpec({"units": "3", "requests.cpu": "2"}),
        QuotaSummaryStatus({"units": used}),
    )


def waiting(name: str = "shop/demo") -> Finding:
    text = "0/1 clusters: WorkloadQuota team: units 3 of 3 used, a unit asks for 1"
    return Finding(name, "QuotaExceeded", units="2 of 5", message=text, help="more", urgent=True)


def test_status_names_quotas_that_are_full_and_those_that_keep_units_out() -> None:
    report = Report(pending=[waiting(), waiting("shop/second"), waiting("other/demo")])
    idle = quota("full", namespace="idle")
    QUOTAS.take(report, [quota(), quota("spare", used="1"), idle], NOW)
    kept, full = report.findings["quotas"]
    assert (kept.name, kept.state, kept.units, kept.urgent) == (
        "shop/team",
        "KeepsOut",
        "4 pending",
        True,
    )
    assert kept.message == "units 3 of 3 used; 2 objects wait for it"
    assert (full.name, full.state, full.urgent) == ("idle/full", "Full", False)
    assert [each.urgent for each in report.pending] == [False, False, True]
    assert report.urgent == 2, "the quota, once, and those whose quota is not listed"
