"""`stowage plan --diff` and `explain --rendered`: what differs, each result once, and no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from machinery.errors import ConfigurationError
from stowage.simulation import dependencies
from tests.stowage.test_plan import Write, cluster, run, workload, write

__all__ = ["write"]
EU = {"matchLabels": {"region": "eu"}}


def override(name: str = "eu", **said: Any) -> dict[str, Any]:
    return {"name": name, "clusterSelector": EU, **said}


def main(**container: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", **container}]}}}}


def fleet(write: Write, *regions: str, **parts: Any) -> str:
    """Clusters m1, m2 … in these regions; `parts` are those of the first one."""
    bodies = [cluster(f"m{n}", labels={"region": r}) for n, r in enumerate(regions, 1)]
    bodies[0]["spec"] |= parts
    return write("fleet.yaml", *bodies)


def diff(write: Write, members: str, *bodies: Any) -> list[str]:
    found = run("plan", "-f", write("files.yaml", *bodies), "--fleet", members, "--diff")
    assert found.exit_code == 0, found.output
    return found.stdout.splitlines()


@pytest.mark.proves("O3")
def test_each_cluster_is_shown_with_what_makes_it_differ(write: Write) -> None:
    images = [{"from": "docker.io", "to": "mirror.example"}]
    members = fleet(write, "eu", "us", "asia", images=images)
    said = override(patch=main(args=["--eu"]))
    assert diff(write, members, workload("web", overrides=[said])) == [
        "shop/web on m1 (override eu; images of the cluster): 1 of 3 clusters",
        "--- template",
        "+++ m1",
        "@@ Deployment web",
        "-        image: app:1",
        "+        image: mirror.example/library/app:1",
        "+        args:",
        "+        - --eu",
        "shop/web on 2 other clusters: as the template",
    ]


@pytest.mark.proves("O3")
def test_without_any_difference_that_is_said(write: Write) -> None:
    assert diff(write, fleet(write, "eu", "us"), workload("web")) == [
        "shop/web on all 2 clusters: as the template"
    ]


@pytest.mark.proves("O5")
def test_where_an_override_does_not_fit_is_noted(write: Write) -> None:
    path = "/spec/template/spec/containers/3/image"
    said = override(jsonPatch=[{"op": "replace", "path": path, "value": "x"}])
    assert diff(write, fleet(write, "eu", "us"), workload("web", overrides=[said])) == [
        f"shop/web on m1: override eu does not fit: {path}: no such item",
        "shop/web on m2: as the template",
    ]


@pytest.mark.proves("O16")
def test_of_a_thousand_clusters_each_distinct_result_is_printed_once(write: Write) -> None:
    regions = ["eu" if n % 4 == 0 else "us" for n in range(1000)]
    said = [override(patch=main(args=["--eu"]))]
    lines = diff(write, fleet(write, *regions), workload("web", overrides=said))
    (head,) = [line for line in lines if line.endswith(": 250 of 1000 clusters")]
    assert head.startswith("shop/web on m1, m101, m105, ")
    assert head.count("m") < 20
    assert "and 240 more" in head
    assert lines[-1] == "shop/web on 750 other clusters: as the template"
    assert len(lines) < 10


@pytest.mark.proves("O4")
def test_no_value_of_a_secret_is_printed(write: Write, tmp_path: Path) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "keys"},
        "stringData": {"a": "canary-1", "b": "canary-2"},
    }
    said = override(
        target={"kind": "Secret", "name": "keys"}, patch={"stringData": {"a": "canary-3"}}
    )
    body = workload("web", overrides=[said], manifests=[secret], resources=[{"name": "db"}])
    lines = diff(write, fleet(write, "eu", "us"), body)
    assert "+  a: (not shown, differs)" in lines
    assert not any("canary" in line or "b:" in line for line in lines)
    stored = write("stored.yaml", body)
    both = ["--fleet", tmp_path / "fleet.yaml", "--fleet", stored]
    found = run("explain", "wl/web", "-n", "shop", *both, "--cluster", "m1", "--rendered")
    assert found.exit_code == 0, found.output
    assert "canary" not in found.output
    objects = {
        f"{each['kind']} {each['metadata']['name']}": each
        for each in yaml.safe_load_all(found.stdout)
    }
    assert list(objects) == ["Secret db", "Secret keys", "Deployment web"]
    assert objects["Secret keys"]["stringData"] == dict.fromkeys("ab", "(not shown)")


def rendered(*args: object) -> str:
    found = run("explain", "wl/web", "-n", "shop", *args)
    assert isinstance(found.exception, ConfigurationError), found.output
    return str(found.exception)


@pytest.mark.proves("O4")
def test_rendered_says_what_there_is_not(write: Write) -> None:
    said = override(patch=main(args=["$(stowage.label:zone)"]))
    both = [
        "--fleet",
        fleet(write, "eu"),
        "--fleet",
        write("w.yaml", workload("web", overrides=[said])),
    ]
    assert rendered(*both, "--rendered", "--cluster", "m1") == (
        "override eu, cluster m1: $(stowage.label:zone): the cluster has no label zone"
    )
    assert rendered(*both, "--rendered", "--cluster", "m9") == "there is no MemberCluster m9"
    assert "web" in rendered(*both[:2], "--rendered", "--cluster", "m1")
    assert run("explain", "wl/web", *both, "--rendered").exit_code == 2
    assert run("explain", "wl/web", *both, "--cluster", "m1").exit_code == 2
    assert run("plan", "-f", both[-1], "--fleet", both[1], "--diff", "-o", "json").exit_code == 2


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


@pytest.mark.proves("DP1")
def test_a_plan_says_what_of_it_the_files_bring(write: Write) -> None:
    pods = mounting("settings", serviceAccountName="runner")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "imagePullSecrets": [{"name": "pull"}]}
    bodies = [
        following("web", pods),
        {**account, "metadata": {"name": "runner", "namespace": "shop"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}},
    ]
    files = ("-f", write("w.yaml", *bodies), "--fleet", write("f.yaml", cluster("a")))
    along = "ServiceAccount runner (in these files), Secret pull, ConfigMap settings"
    made = run("plan", *files)
    assert f"  brings along: {along}\n" in made.stdout
    assert made.stderr == "note: ignored, as it has no say in this: ConfigMap settings\n"
    along += " (in these files)"
    made = run("plan", *files, "-n", "shop")
    assert f"  brings along: {along}\n" in made.stdout
    assert not made.stderr, "what is brought along is not told as ignored"


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
