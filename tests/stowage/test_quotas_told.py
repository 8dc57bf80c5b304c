"""Quotas as the commands tell them: a plan of files, and status from what stands on the hub."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from machinery.types.metadata import Meta
from stowage.report.features import QUOTAS, QuotaSummary, QuotaSummarySpec, QuotaSummaryStatus
from stowage.report.findings import Finding, Report
from tests.stowage.test_plan import Write, cluster, plan, run, shares, workload, write

__all__ = ["write"]

pytestmark = pytest.mark.proves("N4")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUOTA = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "WorkloadQuota",
    "metadata": {"name": "team", "namespace": "shop"},
    "spec": {"hard": {"units": "3", "requests.cpu": "2"}},
}


def test_a_plan_of_files_honours_the_quotas_among_them(write: Write) -> None:
    fleet, free = (
        write("fleet.yaml", cluster("a")),
        write("free.yaml", workload("demo", replicas=5)),
    )
    files = write("w.yaml", workload("demo", replicas=5, distribution="Divided"), QUOTA)
    told = plan(files, fleet)["demo"]
    assert (shares(told), told["pending"]) == ({"a": 3}, 2)
    assert plan(free, fleet)["demo"]["pending"] == 0
    whole = write("whole.yaml", workload("demo", replicas=5), QUOTA)
    said = run("plan", "-f", whole, "--fleet", fleet).stdout
    assert "WorkloadQuota team: units 0 of 3 used, 5 replicas ask for 5" in said
    helps = run("explain", "wl/demo", "-n", "shop", "-f", files, "--fleet", fleet).stdout
    assert "more of hard.units in WorkloadQuota team" in helps


def quota(name: str = "team", namespace: str = "shop", used: str = "3") -> QuotaSummary:
    meta = Meta(name=name, namespace=namespace)
    return QuotaSummary(
        meta,
        QuotaSummarySpec({"units": "3", "requests.cpu": "2"}),
        QuotaSummaryStatus({"units": used}),
    )


def waiting(name: str = "shop/demo") -> Finding:
    text = "0/1 clusters: WorkloadQuota team: units 3 of 3 used, a replica asks for 1"
    return Finding(name, "QuotaExceeded", units="2 of 5", message=text, help="more")


def test_status_names_quotas_that_are_full_and_those_that_keep_units_out() -> None:
    report = Report(pending=[waiting(), waiting("shop/second"), waiting("other/demo")])
    idle = quota("full", namespace="idle")
    QUOTAS.take(report, [quota(), quota("spare", used="1"), idle], NOW)
    kept, full = report.findings["quotas"]
    assert (kept.name, kept.state, kept.units, kept.urgent) == (
        "shop/team",
        "KeepsOut",
        "4 pending",
        False,
    )
    assert kept.message == "units 3 of 3 used; 2 objects wait for it"
    assert (full.name, full.state, full.urgent) == ("idle/full", "Full", False)
    assert [each.help for each in report.pending] == ["", "", "more"], "it is told of the quota"
    assert report.urgent == 0, "a limit that holds is as it should be"
