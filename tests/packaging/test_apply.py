"""install.yaml on real API servers, by kubectl alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import crds
from crds.definition import KEPT
from machinery.api.resources import CRDS
from stowage.playground import flags
from stowage.playground.cluster import Cluster
from tests.patience import hold_on

from .rendering import DEPLOY, read

FOLDER = Path(crds.__file__).parent
NEW = DEPLOY / "install" / "install.yaml"
OLDER = DEPLOY / "install" / "install-1.30.yaml"
WORKLOAD = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"template": {"apiVersion": "batch/v1", "kind": "Job", "spec": {}}},
}


def kinds() -> list[str]:
    """The names of the kinds of Stowage."""
    return [name for kind, _, name in read(NEW.read_text()) if kind == CRDS.kind]


def applied_twice(hub: Cluster, file: Path, *how: str) -> None:
    """Nothing is left to apply after the first time, by the server's own judgement."""
    hub.kubectl("apply", *how, "-f", str(file))
    assert hub.kubectl("diff", *how, "-f", str(file)) == ""


@pytest.fixture(scope="module")
def installed(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A hub on which kubectl has applied install.yaml, as a person does."""
    hub = make_cluster("packaged")
    applied_twice(hub, NEW)
    return hub


@pytest.mark.proves("PK3")
def test_kubectl_installs_all_of_it_at_once(installed: Cluster) -> None:
    found = installed.kubectl("get", "-f", str(NEW), "-o", "name").split()
    assert len(found) == len(read(NEW.read_text()))


@pytest.mark.proves("PK22")
@pytest.mark.parametrize("what", [("crd", "workloads.stowage.dev"), ("-f", str(FOLDER))])
def test_a_command_that_would_take_the_kinds_is_refused(
    installed: Cluster, what: tuple[str, ...]
) -> None:
    told = 'workloads.stowage.dev: run "stowage uninstall", or annotate the CRD with stowage.dev/'
    how = ("--dry-run=server", "--ignore-not-found")  # the guard judges each object for itself
    hold_on(lambda: told in installed.kubectl("delete", *what, *how, check=False))


@pytest.mark.proves("PK6")
def test_the_kinds_and_their_objects_outlive_all_else_that_was_applied(
    installed: Cluster, tmp_path: Path
) -> None:
    # Policies refuse a kind that the server has not come to serve yet.
    told, body = "workload.stowage.dev/web created", json.dumps(WORKLOAD)
    hold_on(lambda: told in installed.kubectl("create", "-f", "-", input=body, check=False))
    rest = [each for key, each in read(NEW.read_text()).items() if key[0] != CRDS.kind]
    assert len(rest) > 40
    file = tmp_path / "rest.yaml"
    file.write_text(yaml.safe_dump_all(rest))
    installed.kubectl("delete", "--wait=false", "-f", str(file))
    for name in kinds():
        found = json.loads(installed.kubectl("get", "crd", name, "-o", "json"))["metadata"]
        assert "deletionTimestamp" not in found
        assert found["annotations"].items() >= KEPT.items()
    workload = json.loads(installed.kubectl("get", "workload", "web", "-o", "json"))
    assert "deletionTimestamp" not in workload["metadata"]


@pytest.mark.long
@pytest.mark.proves("PK3")
def test_on_the_server_as_well(make_cluster: Callable[..., Cluster]) -> None:
    applied_twice(make_cluster("packaged-by-server"), NEW, "--server-side")


@pytest.mark.long
@pytest.mark.proves("PK3")
@pytest.mark.parametrize("how", [(), ("--server-side",)])
def test_on_a_hub_without_mutating_policies(
    make_cluster: Callable[..., Cluster], how: tuple[str, ...]
) -> None:
    hub = make_cluster(f"packaged-older{len(how)}", server_flags=flags.BEFORE_1_36)
    applied_twice(hub, OLDER, *how)
    may = hub.kubectl("auth", "can-i", "patch", "workloads.stowage.dev", "--as=system:serviceaccount:stowage-system:stowage-controller", check=False)  # fmt: skip
    assert may.strip() == "yes"
