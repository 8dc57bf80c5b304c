"""The chart as Helm 3 and Helm 4 render it. Helm is built from its Go modules, so this is `long`."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from controller.config import ConfigurationFile
from stowage.cli import cli
from stowage.packaging import forms
from stowage.setup import install, tenants

from .rendering import CHART, DEPLOY, HOME, NEWEST, Helm, Objects, listed, read
from .test_forms import ANOTHER, leaves

pytestmark = [pytest.mark.long, pytest.mark.long_group("helm")]
SECRET = "--set=ui.session.existingSecret=session"


def without_namespace(objects: Objects) -> Objects:
    return {key: each for key, each in objects.items() if key[0] != "Namespace"}


def command(*arguments: str) -> Objects:
    run = CliRunner().invoke(
        cli, ["install", "--dry-run", "--kubeconfig=/none", *arguments], catch_exceptions=False
    )
    return without_namespace(read(run.stdout))


@pytest.mark.proves("PK1")
def test_it_renders_what_the_command_applies(helm: Helm) -> None:
    assert read(helm.template()) == command()


@pytest.mark.proves("PK1")
@pytest.mark.parametrize("number", [1, 4])
def test_with_shards(helm: Helm, number: int) -> None:
    assert read(helm.template(f"--set=propagator.shards={number}")) == command(f"--shards={number}")
    more = read(helm.template("--set=propagator.shards=4", "--set=propagator.replicas=7"))
    assert more["Deployment", HOME, "stowage-propagator"]["spec"]["replicas"] == 7
    assert "shards" in helm.refused("--set=propagator.shards=65")


@pytest.mark.proves("PK1")
def test_in_another_namespace_too(helm: Helm) -> None:
    assert read(helm.template(home="placing")) == command("--system-namespace=placing")
    assert read(helm.template(home="123")) == command("--system-namespace=123")


@pytest.mark.proves("PK1")
@pytest.mark.parametrize("image", [ANOTHER, f"r/s@sha256:{'0' * 64}", f"r/s:1@sha256:{'0' * 64}"])
def test_with_another_image_by_values_and_by_a_print_of_its_own(
    helm: Helm, image: str, tmp_path: Path
) -> None:
    name, _, digest = image.partition("@")
    repository, _, tag = name.rpartition(":") if ":" in name.rpartition("/")[2] else (name, "", "")
    values = (
        f"--set=image.repository={repository}",
        f"--set-string=image.tag={tag}",
        f"--set=image.digest={digest}",
    )
    wanted = command(f"--image={image}")
    assert read(helm.template(*values)) == wanted
    for path, text in forms.printed(image).items():
        if path.startswith("charts/"):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
    assert read(helm.template(chart=tmp_path / "charts/stowage")) == wanted


@pytest.mark.proves("PK1")
def test_what_the_options_of_the_command_add_the_values_add(helm: Helm) -> None:
    assert read(
        helm.template("--set=tenants.all=true", "--set=argocd.namespace=gitops")
    ) == command("--all-namespaces", "--argocd=gitops")
    with_page = read(helm.template("--set=ui.enabled=true", "--set=ui.session.existingSecret=stowage-ui-session"))  # fmt: skip
    assert with_page == command("--ui")
    some = read(helm.template("--set=tenants.namespaces={shop,web}"))
    bound = listed(each for name in ("shop", "web") for each in tenants.bindings(name, home=HOME))
    assert some == {**command(), **bound}


@pytest.mark.proves("PK4")
def test_it_lints_with_the_defaults_and_each_boolean_flipped(helm: Helm) -> None:
    flips = [
        f"--set={name}={str(not each.default).lower()}"
        for name, each in sorted(leaves().items())
        if each.schema.get("type") == "boolean"
    ]
    policies = [
        f"--set=admission.{kind}={to}"
        for kind in ("validating", "mutating")
        for to in ("true", "false")
    ]
    assert len(flips) >= 7
    default = read(helm.template())
    for flip in ("", *flips, *policies):
        more = [flip, SECRET] if flip else []
        code, said = helm.run("lint", "--strict", NEWEST, "-n", HOME, CHART, *more)
        assert code == 0, said
        changed = read(helm.template(*more)) != default
        assert changed is (flip != "" and flip not in policies[::2]), flip


@pytest.mark.proves("PK4")
@pytest.mark.parametrize(
    ("version", "kinds"),
    [
        ("1.28", set()),
        ("1.29.14-eks-1234", set()),
        ("v1.30.2+k3s1", {install.VALIDATING}),
        ("1.33", {install.VALIDATING}),
        ("1.35.9-gke.100", {install.VALIDATING}),
        ("1.36", {install.VALIDATING, install.MUTATING}),
        ("1.36.0-rc.1", {install.VALIDATING, install.MUTATING}),
    ],
)
def test_policies_are_those_that_the_hub_serves(helm: Helm, version: str, kinds: set[str]) -> None:
    found = read(helm.template(version=f"--kube-version={version}"))
    all_ = read((DEPLOY / "install/install.yaml").read_text())
    older = read((DEPLOY / "install/install-1.30.yaml").read_text())
    policies = {key for key in all_ if "AdmissionPolicy" in key[0]}
    assert {key for key in found if "AdmissionPolicy" in key[0]} == {
        key for key in policies if key[0].removesuffix("Binding") in kinds
    }
    binding = ("ClusterRoleBinding", "", install.DEFAULTS)
    assert (binding in found) is (install.MUTATING not in kinds)
    if kinds == {install.VALIDATING}:
        assert found == without_namespace(older)


@pytest.mark.proves("PK5")
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("controller.replica=3", "replica"),
        ("contrller.replicas=3", "contrller"),
        ("controller.replicas=many", "replicas"),
        ("ui.enabled=sometimes", "enabled"),
        ("image.digest=latest", "digest"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("tenants.namespaces=shop", "namespaces"),
        ("admission.validating=maybe", "validating"),
        ("admission.APIVersions=true", "APIVersions"),
        ("controller.podLabels.app=other", "podLabels"),
        ("propagator.config.kind=x", "config"),
        ("controller.resources.request.cpu=1", "request"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(helm: Helm, given: str, named: str) -> None:
    said = helm.refused(f"--set={given}")
    assert re.search(rf"\b{named}\b", said), said
    assert "template:" not in said, "the schema says it, and no template"


@pytest.mark.proves("PK5")
def test_a_configuration_is_checked_too_and_becomes_a_file(helm: Helm, tmp_path: Path) -> None:
    body: dict[str, Any] = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "SchedulerConfiguration",
        "movement": {"dwellSeconds": 30},
        "profiles": [{"schedulerName": "a", "pluginConfig": [{"name": "x", "args": {"limit": 1}}]}],
    }
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"controller": {"config": body}}))
    found = read(helm.template(f"--values={values}"))
    text = found["ConfigMap", HOME, "stowage-controller-config"]["data"]["config.yaml"]
    assert yaml.safe_load(text) == body
    assert ConfigurationFile.model_validate(yaml.safe_load(text)).movement.dwell_seconds == 30
    pod = found["Deployment", HOME, "stowage-controller"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    assert container["args"][-1] == f"--config={mount['mountPath']}/config.yaml"
    assert pod["spec"]["volumes"] == [
        {"name": mount["name"], "configMap": {"name": "stowage-controller-config"}}
    ]
    before = pod["metadata"]["annotations"]
    body["movement"]["dwell"] = 30
    values.write_text(yaml.safe_dump({"controller": {"config": body}}))
    assert "dwell" in helm.refused(f"--values={values}")
    body["movement"] = {"dwellSeconds": 31}
    values.write_text(yaml.safe_dump({"controller": {"config": body}}))
    again = read(helm.template(f"--values={values}"))["Deployment", HOME, "stowage-controller"]
    assert again["spec"]["template"]["metadata"]["annotations"] != before


@pytest.mark.proves("PK5")
def test_the_examples_render(helm: Helm, tmp_path: Path) -> None:
    (argo,) = yaml.safe_load_all((DEPLOY / "gitops/argocd.yaml").read_text())
    _, flux = yaml.safe_load_all((DEPLOY / "gitops/flux.yaml").read_text())
    for given in (argo["spec"]["source"]["helm"]["valuesObject"], flux["spec"]["values"]):
        values = tmp_path / "values.yaml"
        values.write_text(yaml.safe_dump(given))
        found = read(helm.template(f"--values={values}"))
        assert ("RoleBinding", "shop", "stowage-propagator-tenant") in found


def test_each_value_of_a_process_reaches_its_pods(helm: Helm, tmp_path: Path) -> None:
    toleration = {"key": "hub", "operator": "Exists"}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    own = {
        "replicas": 1,
        "resources": {"limits": {"memory": "4Gi"}},
        "extraArgs": ["--log-level=debug"],
        "nodeSelector": {"role": "hub"},
        "tolerations": [toleration],
        "affinity": affinity,
        "topologySpreadConstraints": [],
        "podLabels": {"team": "a"},
        "podAnnotations": {"note": "b"},
    }
    values = tmp_path / "values.yaml"
    secrets = [{"name": "registry"}]
    values.write_text(
        yaml.safe_dump({"controller": own, "propagator": own, "imagePullSecrets": secrets})
    )
    found = read(helm.template(f"--values={values}", "--set=image.pullPolicy=Always"))
    for name in ("stowage-controller", "stowage-propagator"):
        spec = found["Deployment", HOME, name]["spec"]
        pod, meta = spec["template"]["spec"], spec["template"]["metadata"]
        (container,) = pod["containers"]
        assert spec["replicas"] == 1
        assert ("PodDisruptionBudget", HOME, name) not in found, "it would hold back each drain"
        assert container["resources"] == {"limits": {"memory": "4Gi"}, "requests": {"cpu": "100m", "memory": "192Mi"}}  # fmt: skip
        assert container["args"][-1] == "--log-level=debug"
        assert container["imagePullPolicy"] == "Always"
        assert pod["nodeSelector"] == {"role": "hub"}
        assert pod["tolerations"] == [toleration]
        assert pod["affinity"] == affinity
        assert "topologySpreadConstraints" not in pod
        assert pod["imagePullSecrets"] == secrets
        assert meta["labels"] == {"app": name, "team": "a"}
        assert meta["annotations"] == {"note": "b"}


def test_rules_and_dashboard_are_those_of_the_repository(helm: Helm) -> None:
    added = read(helm.template("--set=monitoring.rules=true", "--set=monitoring.dashboard=true"))
    (rule,) = install.load("monitoring/stowage-prometheusrule.yaml")
    assert added["PrometheusRule", HOME, "stowage"] == rule
    dashboard = added["ConfigMap", HOME, "stowage-dashboard"]["data"]["stowage.json"]
    assert dashboard.strip() == (DEPLOY / "monitoring/dashboard.json").read_text().strip()


@pytest.mark.proves("PK6")
def test_a_part_of_another_chart_and_one_without_kinds(helm: Helm, tmp_path: Path) -> None:
    without = read(helm.template("--set=crds.install=false"))
    assert not [key for key in without if key[0] == "CustomResourceDefinition"]
    whole = tmp_path / "whole"
    shutil.copytree(CHART, whole / "charts" / "stowage")
    (whole / "Chart.yaml").write_text("apiVersion: v2\nname: whole\nversion: 1.0.0\n")
    (whole / "values.yaml").write_text("global: {region: eu}\n")
    assert read(helm.template(chart=whole)) == command()


@pytest.mark.proves("PK9")
def test_the_page_needs_its_secret_and_two_renderings_are_equal(helm: Helm) -> None:
    said = helm.refused("--set=ui.enabled=true")
    assert (
        f"kubectl -n {HOME} create secret generic stowage-ui-session --from-literal=current="
        in said
    )
    with_it = ("--set=ui.enabled=true", SECRET)
    first = helm.template(*with_it)
    assert helm.template(*with_it) == first
    pod = read(first)["Deployment", HOME, "stowage-ui"]["spec"]["template"]["spec"]
    assert pod["volumes"][0]["secret"] == {"secretName": "session"}


def packaged(helm: Helm) -> Iterator[Mapping[str, int]]:
    """The size of the chart's archive."""
    with tempfile.TemporaryDirectory() as folder:
        code, said = helm.run("package", CHART, "--destination", folder)
        assert code == 0, said
        (made,) = Path(folder).glob("*.tgz")
        yield {made.name: made.stat().st_size}


def test_it_fits_the_secret_of_a_release(helm: Helm) -> None:
    """Helm keeps manifest and chart in it, packed; an object has at most 1 MiB."""
    (sizes,) = packaged(helm)
    assert list(sizes) == ["stowage-0.1.0.tgz"]
    assert sizes["stowage-0.1.0.tgz"] < 256 * 1024
