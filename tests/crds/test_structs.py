"""The structs that are generated from the models, and those that are written by hand instead."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime

import msgspec
import pytest

from crds import structs
from crds.fields import labels
from machinery.types import api, workload_api
from machinery.types.taints import Taint


@pytest.mark.parametrize("name", sorted(structs.WRITTEN.keys() - {"ClusterSelector"}))
def test_a_struct_with_methods_has_the_fields_of_its_model(name: str) -> None:
    written = getattr(importlib.import_module(structs.WRITTEN[name]), name)
    assert set(written.__struct_fields__) == {
        each.name for each in structs.fields(getattr(labels, name))
    }


def test_no_two_models_share_the_name_of_a_struct() -> None:
    lines = "".join(structs.modules().values()).splitlines()
    declared = [line for line in lines if line.startswith("class ")]
    assert len({line.partition("(")[0] for line in declared}) == len(declared)


def test_what_a_process_does_not_know_is_ignored_and_what_is_missing_has_its_default() -> None:
    found = msgspec.convert(
        {"taints": [{"key": "a", "effect": "NoExecute", "since": "long"}], "younger": 1},
        api.MemberClusterSpec,
    )
    assert found == api.MemberClusterSpec(taints=[Taint("a", "NoExecute")])
    assert found.namespaces.allow == ["*"]
    assert Taint("a", "NoExecute").text == "a:NoExecute"


def test_names_are_those_of_the_stored_object() -> None:
    stored = {
        "clusterID": "1",
        "capacity": {"nodes": 1},
        "evacuation": {"causes": [{"name": "a", "since": "b"}]},
    }
    assert msgspec.to_builtins(msgspec.convert(stored, api.MemberClusterStatus)) == stored
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": []}
    assert msgspec.convert(affinity, api.ClusterAffinity).preferred == []
    rule = {"from": "docker.io", "to": "registry.example.com"}
    assert msgspec.to_builtins(msgspec.convert(rule, api.ImageRule)) == rule


def test_a_time_that_is_computed_with_is_one() -> None:
    stored = {"cluster": "m1", "startTime": "2026-01-02T03:04:05Z"}
    found = msgspec.convert(stored, workload_api.ClusterUpdate)
    assert found == workload_api.ClusterUpdate("m1", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
