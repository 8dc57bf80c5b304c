"""Helm 3 and Helm 4 against a hub: an installation is adopted, and a wrapped chart runs.

Helm is built from its Go modules, so this is `long`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds.definition import KEPT
from stowage.playground.cluster import Cluster
from tests.stowage.conftest import Stowage
from tests.stowage.test_wrap import CHART as OBJECTS
from tests.stowage.test_wrap import HOOK, unmarked

from .rendering import CHART, DEPLOY, HOME, Helm
from .test_apply import kinds

pytestmark = [pytest.mark.long, pytest.mark.long_group("helm")]
OURS = (
    "deployments,roles,rolebindings,serviceaccounts,networkpolicies,poddisruptionbudgets,leases,"
    "clusterroles,clusterrolebindings,priorityclasses,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings"
)


def fourth(helm: Helm) -> bool:
    return "helm4" in str(helm.program)


@pytest.mark.proves("PK8", "PK6")
def test_an_installation_becomes_a_release(
    helm: Helm, make_cluster: Callable[..., Cluster], stowage: Stowage
) -> None:
    hub = make_cluster(f"adopted-{4 if fourth(helm) else 3}")
    at = f"--kubeconfig={hub.kubeconfig}"

    def names() -> set[str]:
        listed = hub.kubectl("get", OURS, "-A", "-o", "name").split()
        return {each for each in listed if "stowage" in each or "kinds" in each}

    def helms(*command: object) -> None:
        code, said = helm.run(*command, at, "-n", HOME)
        assert code == 0, said

    stowage.succeed("install", at, "--wait=false")
    assert len(names()) > 20
    stowage.succeed("install", at, "--adopt-helm", "stowage")
    helms("install", "stowage", CHART)
    for name in ("stowage-controller", "stowage-propagator"):
        hub.kubectl("annotate", "lease", name, "-n", HOME, "stowage.dev/release=0.1.0", "--overwrite")  # fmt: skip
    hub.kubectl("delete", "pdb", "--all", "-n", HOME)
    hub.kubectl("scale", "deployment", "stowage-controller", "--replicas=1", "-n", HOME)
    told = stowage("upgrade", at, "--timeout=1s")  # no pod runs here
    assert "PodDisruptionBudget stowage-controller" in told.out, told.err
    assert "`helm upgrade` keeps its values" in told.err
    helms("upgrade", "stowage", CHART, "--set=controller.replicas=3")
    found = json.loads(hub.kubectl("get", "deployment", "stowage-controller", "-n", HOME, "-o", "json"))  # fmt: skip
    assert found["spec"]["replicas"] == 3
    helms("uninstall", "stowage")
    assert names() == set()
    hub.kubectl("get", "namespace", HOME)
    for name in kinds():
        kept = json.loads(hub.kubectl("get", "crd", name, "-o", "json"))["metadata"]
        assert kept["annotations"].items() >= KEPT.items()


# --- a wrapped chart ------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A chart with a template for each object."""
    folder = tmp_path / "shop"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("{apiVersion: v2, name: shop, version: 0.1.0}")
    for each in [*OBJECTS, HOOK]:
        name = f"{each['metadata']['name']}-{each['kind'].lower()}.yaml"
        (folder / "templates" / name).write_text(yaml.safe_dump(each))
    return folder


@pytest.fixture
def wrapping(helm: Helm, tmp_path: Path) -> tuple[str, ...]:
    """The options by which this Helm runs `stowage wrap`, which it finds on its PATH."""
    script = tmp_path / "bin" / "stowage"
    script.parent.mkdir()
    root = Path(__file__).parents[2]
    script.write_text(f'#!/bin/sh\ncd {root} && exec {sys.executable} -m stowage "$@"\n')
    script.chmod(0o755)
    helm._env["PATH"] = f"{script.parent}:{os.environ['PATH']}"
    if not fourth(helm):
        return ("--post-renderer=stowage", "--post-renderer-args=wrap")
    helm._env["HELM_DATA_HOME"] = str(tmp_path / "data")
    code, said = helm.run("plugin", "install", DEPLOY / "helm-plugin")
    assert code == 0, said
    return ("--post-renderer=stowage-wrap",)


def rendered(helm: Helm, chart: Path, *options: str) -> list[dict[str, Any]]:
    code, said = helm.run("template", "shop", chart, *options)
    assert code == 0, said
    return [each for each in yaml.safe_load_all(said) if each]


@pytest.mark.proves("IM17")
def test_both_render_what_a_pipe_gives(
    helm: Helm, shop: Path, wrapping: tuple[str, ...], stowage: Stowage, tmp_path: Path
) -> None:
    plain = tmp_path / "plain.yaml"
    plain.write_text(yaml.safe_dump_all(rendered(helm, shop)))
    piped = list(yaml.safe_load_all(stowage.succeed("wrap", "-f", str(plain))))
    found = rendered(helm, shop, *wrapping)
    assert sorted(map(json.dumps, unmarked(found))) == sorted(map(json.dumps, piped))
    hooks = [each for each in found if each["metadata"]["name"] == "migrate"]
    assert [each["kind"] for each in hooks] == ["Job"]
    code, said = helm.run("template", "shop", shop, "--no-hooks", *wrapping)
    assert code == 0
    assert "migrate" not in said


@pytest.mark.proves("IM17")
def test_a_wrapped_release_applies_and_is_upgraded(
    helm: Helm,
    shop: Path,
    wrapping: tuple[str, ...],
    make_cluster: Callable[..., Cluster],
    stowage: Stowage,
) -> None:
    hub = make_cluster(f"wrapped-{4 if fourth(helm) else 3}")
    at = f"--kubeconfig={hub.kubeconfig}"
    stowage.succeed("install", at, "--crds-only")
    (shop / "templates" / "migrate-job.yaml").unlink()  # no pod runs on this hub
    where = (at, "-n", "shop")
    code, said = helm.run("install", "shop", shop, *where, "--create-namespace", *wrapping)
    assert code == 0, said
    listed = hub.kubectl("get", "wl,secret,sa,hpa,deploy,sts", "-n", "shop", "-o", "name").split()
    kinds = [each.partition("/")[0] for each in listed if "sh.helm" not in each]
    assert kinds.count("workload.stowage.dev") == 4
    assert not {"deployment.apps", "statefulset.apps"} & set(kinds)
    hub.kubectl("scale", "workload", "web", "--replicas=5", "-n", "shop")
    force = ("--force-conflicts",) if fourth(helm) else ()
    code, said = helm.run("upgrade", "shop", shop, *where, *wrapping)
    assert code == (1 if fourth(helm) else 0), said
    code, said = helm.run("upgrade", "shop", shop, *where, *wrapping, *force)
    assert code == 0, said
    found = json.loads(hub.kubectl("get", "workload", "web", "-n", "shop", "-o", "json"))
    assert found["spec"]["replicas"] == (2 if fourth(helm) else 5)
    code, said = helm.run("uninstall", "shop", *where)
    assert code == 0, said
    # No propagator runs here, which would let them go.
    left = json.loads(hub.kubectl("get", "wl", "-n", "shop", "-o", "json"))["items"]
    assert len(left) == 4
    assert all("deletionTimestamp" in each["metadata"] for each in left)
