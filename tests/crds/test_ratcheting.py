"""For which lists the page promises that an item that is not valid any more hinders no other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from crds import FILES, definition_of

PAGE = Path(__file__).parents[2] / "docs" / "admission.md"
KINDS = ("MemberCluster", "Reservation", "Workload", "WorkloadPolicy", "WorkloadSpread")
OTHERS = (
    "WorkloadGroup",
    "WorkloadKind",
    "WorkloadQuota",
    "ClusterDecision",
    "Assignment",
    "MemberReport",
)
_ROW = re.compile(r"^\| `(\w+)` \| (`spec\..*`) \|$", re.MULTILINE)


def keyed(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """The lists below that are known item by item."""
    if schema.get("x-kubernetes-list-type") == "map":
        yield path
    for name, inner in schema.get("properties", {}).items():
        yield from keyed(inner, f"{path}.{name}")
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, Mapping):
            yield from keyed(inner, path)


@pytest.mark.proves("RB11")
def test_the_page_lists_each_list_for_which_ratcheting_holds_item_by_item() -> None:
    policies = {"admission.yaml", "zz-guard.yaml"}
    assert {f"{each.lower()}.yaml" for each in (*KINDS, *OTHERS)} == {*FILES} - policies
    told = {
        kind: set(re.findall(r"`([^`]+)`", paths)) for kind, paths in _ROW.findall(PAGE.read_text())
    }
    found = {}
    for kind in (*KINDS, *OTHERS):
        (version,) = definition_of(kind)["spec"]["versions"]
        spec = version["schema"]["openAPIV3Schema"]["properties"].get("spec", {})
        if lists := set(keyed(spec, "spec")):
            found[kind] = lists
    assert found == told
    assert "spec.taints" in told["MemberCluster"], "drains of different people share it"
