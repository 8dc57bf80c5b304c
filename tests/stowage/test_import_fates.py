"""The fate of every field: each leaf of each peer's kinds has an entry in the report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stowage.importing.command import SYSTEMS
from stowage.importing.shapes import FOLDER, leaves
from stowage.importing.systems import kubefed
from tests.stowage.importing import Files, Made, run

pytestmark = pytest.mark.proves("IM2")

PEERS = {each.stem: json.loads(each.read_text()) for each in sorted(FOLDER.glob("*.json"))}
VALUES: Mapping[str, Any] = {
    "string": "x",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "int-or-string": "1",
    "object": {"a": "b"},
    "any": "x",
}


def whole(shape: Any) -> Any:
    """A value with every leaf of a shape."""
    if isinstance(shape, dict):
        return {key.replace("*", "k"): whole(inner) for key, inner in shape.items()}
    return [whole(shape[0])] if isinstance(shape, list) else VALUES[shape]


def alone(path: str, kind: str) -> dict[str, Any]:
    """An object with that leaf and nothing else."""
    value: Any = VALUES[kind]
    for key in reversed(path.split(".")):
        value = [value] if key.endswith("[]") else value
        value = {key.removesuffix("[]").replace("*", "k"): value}
    found: dict[str, Any] = value
    return found


def document(group_kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    group, _, kind = group_kind.partition("/")
    metadata = {"name": "x", "namespace": "shop"}
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, **body}


def fields(value: Any, path: str = "") -> Iterator[str]:
    """The paths of a body's leaves, as the report has them."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from fields(each, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for n, each in enumerate(value):
            yield from fields(each, f"{path}[{n}]")
    else:
        yield path


def all_kinds() -> Iterator[tuple[str, Any]]:
    yield "types.kubefed.io/FederatedDeployment", kubefed.SHAPE
    for peer in PEERS.values():
        yield from peer["kinds"].items()


def silent(body: Mapping[str, Any]) -> list[str]:
    """The leaves of a document without a fate of their own, or of the whole of it."""
    told = {each["field"]: each for each in Made(body, checked=False).report}
    assert all(each["fate"] in ("carried", "noted", "lost") for each in told.values())
    assert all(each["text"] or each["becomes"] for each in told.values()), told
    return [] if "" in told else [each for each in fields(body) if each not in told]


def test_each_leaf_of_a_kind_has_an_entry() -> None:
    found = {kind: silent(document(kind, whole(shape))) for kind, shape in all_kinds()}
    assert {kind: fields for kind, fields in found.items() if fields} == {}


@pytest.mark.long
def test_each_leaf_alone_has_an_entry() -> None:
    for kind, shape in all_kinds():
        for path, type_ in leaves(shape):
            assert silent(document(kind, alone(path, type_))) == [], (kind, path)


def test_the_data_say_what_they_are_of() -> None:
    named = {name: (peer["module"], peer["version"]) for name, peer in PEERS.items()}
    assert named == {
        "karmada": ("github.com/karmada-io/karmada", "v1.18.1"),
        "kubefed": ("sigs.k8s.io/kubefed", "v0.10.0"),
        "kubefleet": ("github.com/kubefleet-dev/kubefleet", "v0.1.2"),
        "ocm": ("open-cluster-management.io/api", "v1.3.0"),
    }
    assert sum(len(list(leaves(shape))) for _, shape in all_kinds()) > 1600


def test_each_kind_of_the_data_is_known_by_name() -> None:
    tables = {key for system in SYSTEMS for key in system.tables}
    known = {tuple(kind.split("/")) for peer in PEERS.values() for kind in peer["kinds"]}
    assert known <= tables


def test_a_table_names_no_field_that_its_kind_lacks() -> None:
    """A misspelt row would never be met: each path of a table is one of the shape's."""
    old = {"spec.placementRefs.rolloutStrategy.rolloutType"}
    for peer in PEERS.values():
        for kind, shape in peer["kinds"].items():
            table = next(
                t for s in SYSTEMS for k, t in s.tables.items() if k == tuple(kind.split("/"))
            )
            known = {path.replace("[]", "").replace(".*", "") for path, _ in leaves(shape)}
            above = {p.rsplit(".", n)[0] for p in known for n in range(p.count(".") + 1)}
            rows = {p for p in table if p.startswith(("spec", "data"))} - {"spec"}
            assert rows - above - old == set(), kind


def test_the_report_is_written_also_where_something_is_lost(tmp_path: Path) -> None:
    policy = document("policy.karmada.io/PropagationPolicy", {"spec": {"new": 1}})
    file = tmp_path / "report.json"
    result = run("import", "-f", Files(tmp_path).write(policy), "--report", file)
    assert (result.exit_code, result.stdout) == (1, "")
    [entry] = [each for each in json.loads(file.read_text()) if each["field"] == "spec.new"]
    assert entry == {
        "file": str(tmp_path / "in.yaml"),
        "document": 1,
        "kind": "PropagationPolicy",
        "namespace": "shop",
        "name": "x",
        "field": "spec.new",
        "fate": "lost",
        "becomes": "",
        "text": "is not known to this version of Stowage, so that nothing was made of it",
    }
