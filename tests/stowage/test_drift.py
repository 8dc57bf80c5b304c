"""`stowage drift`: rows from statuses, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stowage.cli import cli
from tests.stowage.plain_hub import PlainHub, serving

IMAGE = {"path": "spec.image", "hub": "nginx:1", "member": "nginx:2", "manager": "kubectl-edit"}
KEY = {"path": "data.key"}


def drifted(state: str, *paths: dict[str, str], kind: str = "Deployment") -> dict[str, Any]:
    where = {"cluster": "m1", "kind": kind, "namespace": "shop", "name": "web"}
    return {**where, "since": "2026-01-02T03:04:05Z", "state": state, "paths": [*paths]}


def workload(name: str, *drift: dict[str, Any], namespace: str = "shop") -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace}
    return {"metadata": meta, "spec": {}, "status": {"drift": [*drift]} if drift else {}}


def asked(folder: Path, workloads: list[dict[str, Any]], *args: str) -> Result:
    there = PlainHub()
    there.workloads = workloads
    with serving(there.answer, folder) as kubeconfig:
        return CliRunner().invoke(cli, ["drift", "--kubeconfig", str(kubeconfig), *args])


@pytest.mark.proves("X2", "X5")
@pytest.mark.parametrize(
    ("state", "code"), [("Repaired", 0), ("Reported", 1), ("Contended", 1)], ids=str
)
def test_a_row_for_each_field_and_the_exit_code_of_what_stands(
    tmp_path: Path, state: str, code: int
):
    hub = [
        workload("demo", drifted(state, IMAGE, KEY)),
        workload("well"),
        workload("other", drifted("Reported", KEY), namespace="else"),
    ]
    done = asked(tmp_path, hub, "-n", "shop")
    assert done.exit_code == code
    head, image, key = done.stdout.splitlines()
    assert " ".join(head.split()) == "WORKLOAD CLUSTER OBJECT PATH HUB MEMBER BY SINCE STATE"
    row = " ".join(image.split())
    assert row.startswith(
        "shop/demo m1 Deployment shop/web spec.image nginx:1 nginx:2 kubectl-edit"
    )
    assert row.endswith(state)
    assert "data.key" in key


@pytest.mark.proves("X2")
def test_all_namespaces_one_workload_and_programs(tmp_path: Path):
    hub = [workload("demo", drifted("Repaired", IMAGE)), workload("x", namespace="else")]
    done = asked(tmp_path, hub, "-A", "-o", "json")
    assert done.exit_code == 0
    [row] = json.loads(done.stdout)["drift"]
    assert (row["workload"], row["by"], row["state"]) == ("shop/demo", "kubectl-edit", "Repaired")
    assert "nobody has changed anything" in asked(tmp_path, hub, "-n", "else").stdout
    assert "spec.image" in asked(tmp_path, hub, "-n", "shop", "wl/demo").stdout
    missing = asked(tmp_path, hub, "-n", "shop", "wl/none")
    assert (missing.exit_code, "there is no Workload shop/none" in missing.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "word"),
    [(("-A", "-n", "x"), "-A goes with"), (("rsv/pool", "-n", "x"), "told of Workloads")],
)
def test_what_cannot_be_asked(tmp_path: Path, args: tuple[str, ...], word: str):
    done = asked(tmp_path, [], *args)
    assert (done.exit_code, word in done.stderr) == (2, True)
