"""What plan says of what a Workload brings along, from files; with a hub see the propagator's tests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stowage.simulation import dependencies
from tests.stowage.test_plan import Write, cluster, run, workload, write

__all__ = ["write"]


def mounting(name: str, **pod: Any) -> dict[str, Any]:
    """A patch of the pods with a ConfigMap, and more."""
    volume = {"name": "settings", "configMap": {"name": name}}
    return {"spec": {"template": {"spec": {"volumes": [volume], **pod}}}}


def following(name: str, pods: dict[str, Any], **spec: Any) -> dict[str, Any]:
    body = workload(name, dependencies="Follow", **spec)
    main = body["spec"].get("template") or body["spec"]["targetDeployment"]
    main["spec"]["template"]["spec"] |= pods["spec"]["template"]["spec"]
    return body


@pytest.mark.proves("DP1")
def test_a_plan_names_what_goes_along_below_its_workload(write: Write) -> None:
    pods = mounting("settings", serviceAccountName="runner", imagePullSecrets=[{"name": "pull"}])
    bodies = [following("web", pods), workload("plain")]
    files = ("-f", write("w.yaml", *bodies), "--fleet", write("f.yaml", cluster("a")))
    lines = run("plan", *files).stdout.splitlines()
    (at,) = [n for n, line in enumerate(lines) if line.startswith("shop/web ")]
    along = "ServiceAccount runner, Secret pull, ConfigMap settings"
    assert lines[at + 1] == f"  brings along: {along}"
    assert sum("brings along" in line for line in lines) == 1
    told = json.loads(run("plan", *files, "-o", "json").stdout)["workloads"]
    by_name = {each["name"]: each.get("bringsAlong") for each in told}
    assert by_name["plain"] is None
    assert [each["name"] for each in by_name["web"]] == ["runner", "pull", "settings"]


@pytest.mark.proves("DP8", "DP17")
def test_what_is_named_is_that_of_the_clusters_that_are_used(write: Write) -> None:
    override = {
        "name": "eu",
        "clusterSelector": {"matchLabels": {"region": "eu"}},
        "patch": mounting("settings-eu"),
    }
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}}
    pods = mounting("settings")
    pods["spec"]["template"]["spec"]["volumes"].append(
        {"name": "own", "configMap": {"name": "own"}}
    )
    body = following(
        "web", pods, overrides=[override], manifests=[manifest], distribution="Duplicated"
    )
    fleet = [cluster("a", labels={"region": "eu"}), cluster("b", labels={"region": "us"})]
    said = run("plan", "-f", write("w.yaml", body), "--fleet", write("f.yaml", *fleet)).stdout
    (line,) = [each.strip() for each in said.splitlines() if "brings along" in each]
    names = {each.split()[1] for each in line.removeprefix("brings along: ").split(", ")}
    assert names == {"settings-eu", "settings"}


def test_a_line_names_states_and_few_clusters() -> None:
    found = [dependencies.Along("ConfigMap", "c", "found"), dependencies.Along("Secret", "s")]
    assert dependencies.line(found) == "brings along: ConfigMap c (found), Secret s"
    on = [f"m{n}" for n in range(12)]
    assert dependencies.line(found, on=on).startswith(
        "brings along on m0, m1, m2, m3, m4, m5, m6, m7, m8, m9 and 2 more: "
    )
    assert dependencies.line([]) == ""
