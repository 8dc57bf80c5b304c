"""What the hub refuses of a WorkloadKind, and Python alike; and what a profile reads of one."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from crds.admission import validation
from crds.workloadkind import WorkloadKindSpec
from machinery.kinds.profile import Profile
from machinery.kinds.wellknown import WELL_KNOWN

from .bodies import dry

GOOD: dict[str, Any] = {
    "group": "ray.io",
    "kind": "RayCluster",
    "versions": ["v1"],
    "pods": [
        {"name": "head", "template": "spec.headGroupSpec.template", "or": "spec.template"},
        {"each": "spec.workerGroupSpecs", "name": "item.groupName", "template": "item.template"},
        {"name": "extra", "requests": {"cpu": "spec.extra.cpu", "memory": "javaMemory('1g')"}},
    ],
    "ready": {"observedGeneration": "", "when": ["conditions.HeadPodReady == 'True'"]},
    "suspended": "spec.suspend",
    "strip": ['metadata.annotations["a.b/c"]', "spec.jobs[*].ttl"],
    "ignoreFields": ["spec.suspend", "spec.workerGroupSpecs[*].replicas"],
    "statusFields": [{"name": "ip", "value": "status.head.serviceIP"}],
    "edits": "NewPods",
    "orphan": "its pods run on",
    "warns": [{"path": "spec.size", "text": "every group ends"}],
    "names": {"max": 63},
}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("group", {"group": "apps"}),
    ("group", {"group": "batch"}),
    ("group", {"group": ""}),
    ("group", {"group": "stowage.dev"}),
    ("metadata.name", {"kind": "RayService"}),
    ("versions", {"versions": []}),
    ("versions", {"versions": [f"v{n}" for n in range(1, 10)]}),
    ("replicas.path", {"replicas": {"path": "size"}}),
    ("replicas.path", {"replicas": {"path": "spec.a + 1"}}),
    ("pods[0].template", {"pods": [{"template": "spec.a ? spec.b : spec.c"}]}),
    ("pods[0]", {"pods": [{"name": "a"}]}),
    ("pods[0]", {"pods": [{"template": "spec.a", "requests": {"cpu": "1"}}]}),
    ("pods", {"pods": [{"template": "spec.a"}] * 17}),
    ("pods[0].count", {"pods": [{"template": "spec.a", "count": "other.a"}]}),
    ("ready", {"ready": {"exists": True, "when": ["status.a"]}}),
    ("ready", {"ready": {"exists": True, "replicas": "status.a"}}),
    ("ready.when", {"ready": {"when": ["status.a"] * 9}}),
    ("ready.when[0]", {"ready": {"when": ["x" * 1025]}}),
    ("degraded", {"degraded": "phase"}),
    ("data", {"data": {"claims": "spec.claims", "always": True}}),
    ("strip", {"strip": ["status.a"]}),
    ("strip", {"strip": ["spec.a == 'b'"]}),
    ("names.max", {"names": {"max": 0}}),
    ("edits", {"edits": "Never"}),
    ("ignoreFields", {"ignoreFields": ["spec.selector.matchLabels"]}),
    ("ignoreFields", {"ignoreFields": ["spec.size"], "replicas": {"path": "spec.size"}}),
    ("ignoreFields", {"ignoreFields": ["spec.size"], "replicas": {"path": "spec.size.n"}}),
    ("ignoreFields", {"ignoreFields": ['metadata.labels["stowage.dev/workload-uid"]']}),
    ("ignoreFields", {"ignoreFields": ["metadata.name"]}),
    ("ignoreFields", {"ignoreFields": ["spec.a + spec.b"]}),
    ("statusFields", {"statusFields": [{"name": "a b", "value": "status.a"}]}),
    ("statusFields", {"statusFields": [{"name": f"a{n}", "value": "status.a"} for n in range(17)]}),
]


def kind(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadKind",
        "metadata": {"name": "raycluster.ray.io"},
        "spec": {**copy.deepcopy(GOOD), **spec},
    }


@pytest.mark.proves("KD3", "KD58")
def test_the_hub_and_python_refuse_what_no_kind_can_be(asking: Any) -> None:
    assert dry(asking, kind()) == ""
    assert validation.object_violations("WorkloadKind", kind()) == []
    wrong = {}
    for field, spec in REFUSED:
        made = kind(**spec)
        if "group" in spec:
            made["metadata"]["name"] = f"raycluster.{spec['group']}"
        answer, found = dry(asking, made), validation.object_violations("WorkloadKind", made)
        if field.partition("[")[0] not in answer or not any(field in each for each in found):
            wrong[f"{field} {spec}"[:80]] = {"the server": answer, "Python": found}
    assert not wrong


OF_BUILT_IN = {
    "known",
    "fault",
    "everywhere",
    "made_by",
    "once_when",
    "service",
    "joined",
    "ready.present",
    "ready.wanted",
    "ready.replaces",
    "ready.at_rest",
    "ready.gives_up",
    "ended.done",
    "replicas.why",
    "settled",
    "settled_when",
}
"""Fields that the profiles of `machinery.kinds.builtin` alone have."""


def test_a_profile_has_the_fields_of_a_workload_kind() -> None:
    told = set(_of_model(WorkloadKindSpec))
    assert set(_of_struct(Profile)) - told == OF_BUILT_IN
    assert told <= set(_of_struct(Profile))


@pytest.mark.parametrize("known", WELL_KNOWN, ids=lambda each: f"{each.kind}.{each.group}")
def test_a_well_known_kind_could_be_written_as_a_workload_kind(known: Profile) -> None:
    spec = _said(msgspec.to_builtins(known))
    body = {**kind(), "metadata": {"name": f"{known.kind.lower()}.{known.group}"}, "spec": spec}
    assert validation.object_violations("WorkloadKind", body) == []
    again = msgspec.convert(spec, Profile)
    assert msgspec.to_builtins(again) == msgspec.to_builtins(known)


def _said(value: Any) -> Any:
    """Without what is as it is by default."""
    if isinstance(value, dict):
        said = {key: _said(each) for key, each in value.items()}
        empty = ("", None, [], {}, False)
        other = said.keys() & {
            "observedGeneration",
            "requests",
        }  # whose default is not the empty one
        kept = {k: v for k, v in said.items() if v not in empty or (k in other and v is not None)}
        return {k: v for k, v in kept.items() if k not in ("known", "names")}
    return [_said(each) for each in value] if isinstance(value, list | tuple) else value


def _of_struct(struct: type[Any], path: str = "") -> Any:
    for field in msgspec.structs.fields(struct):
        yield path + field.name
        for inner in _inside(field.type, msgspec.Struct):
            if f"{path}{field.name}" != "made_by":
                yield from _of_struct(inner, f"{path}{field.name}.")


def _of_model(model: type[BaseModel], path: str = "") -> Any:
    for name, field in model.model_fields.items():
        yield path + name
        for inner in _inside(field.annotation, BaseModel):
            yield from _of_model(inner, f"{path}{name}.")


def _inside(type_: Any, base: type[Any]) -> list[Any]:
    if isinstance(type_, type) and issubclass(type_, base):
        return [type_]
    return [found for each in getattr(type_, "__args__", ()) for found in _inside(each, base)]
