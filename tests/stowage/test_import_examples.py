"""Examples of each peer import, and `plan --fleet` places what they become."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowage.fleet import manifests
from stowage.importing.command import SYSTEMS
from tests.stowage.importing import Files, Made, cluster, run
from website.importfields import import_fields

pytestmark = pytest.mark.proves("IM15")

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "import"
KINDS = [
    "apiextensions.k8s.io/CustomResourceDefinition",
    "core/Namespace",
    "rbac.authorization.k8s.io/ClusterRole",
    "rbac.authorization.k8s.io/ClusterRoleBinding",
]


def member(name: str, **labels: str) -> dict[str, Any]:
    """A cluster that takes what rules a cluster."""
    return {**cluster(name, **labels), "spec": {"allowedKinds": KINDS}}


FLEET = [
    member("paris", region="europe", stage="canary"),
    member("tokyo", region="asia"),
    member("lima", **{"cluster.open-cluster-management.io/clusterset": "edge", "stage": "canary"}),
]
WHERE: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    "karmada": {"web": {"paris": 4, "tokyo": 2}, "roles": {"lima": 1, "paris": 1, "tokyo": 1}},
    "ocm": {"agent": {"lima": 1}},
    "kubefleet": {"web": {"lima": 2, "paris": 2, "tokyo": 2}},
    "kubefed": {"web": {"paris": 4, "tokyo": 6}},
}


def placed(folder: Path, output: str, fleet: Sequence[Any]) -> dict[str, dict[str, int]]:
    """Where a plan puts each Workload of an import's output, its own stubs left out."""
    bodies = [b for b in yaml.safe_load_all(output) if b["kind"] != "MemberCluster"]
    files = Files(folder)
    out, there = files.write(*bodies, name="out.yaml"), files.write(*fleet, name="fleet.yaml")
    plan = run("plan", "-f", out, "--fleet", there, "-o", "json")
    assert plan.exit_code == 0, plan.output
    return {
        each["name"]: {p["cluster"]: p["replicas"] for p in each["placements"]}
        for each in json.loads(plan.stdout)["workloads"]
    }


@pytest.mark.parametrize("name", WHERE)
def test_an_example_imports_and_is_placed(tmp_path: Path, name: str) -> None:
    result = run("import", "-f", EXAMPLES / f"{name}.yaml")
    assert result.exit_code == 0, result.stderr
    assert placed(tmp_path, result.stdout, FLEET) == WHERE[name]


def test_the_example_of_argo_cd_is_a_stub() -> None:
    [body] = Made(*(each.body for each in manifests.read([str(EXAMPLES / "argocd.yaml")]))).bodies
    assert body["metadata"] == {"name": "paris", "labels": {"region": "europe"}}


def test_the_tables_of_fields_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "import-fields.md").read_text()
    assert page == import_fields()
    for system in SYSTEMS:
        for table in system.tables.values():
            for path in table:
                assert f"`{path}`" in page or path.split(".")[0] in ("", "metadata", "status",
                                                                     "apiVersion", "kind")  # fmt: skip
