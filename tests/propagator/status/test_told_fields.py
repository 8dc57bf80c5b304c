"""The values of a member's object that its kind and the Workload want told on the hub."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Raw, convert, json, structs

from machinery.api.resources import Resource
from machinery.kinds import table
from machinery.kinds.profile import Profile, Told
from propagator.agent.assigned import Assigned
from propagator.apply.render import render
from propagator.members.objects import ANNOTATION_TOLD, managed
from propagator.pull.bundle import packed
from propagator.status.observation import told_fields
from propagator.types.assignment import Assignment
from propagator.types.workload import Workload, workload_of
from tests.propagator.apply.memberfacts import member_facts

GEARS = Resource("gears.dev", "v1", "gears", "Gear")
GEAR = Profile(
    group="gears.dev",
    kind="Gear",
    versions=("v1",),
    status_fields=(
        Told("ip", "status.head.ip"),
        Told("teeth", "size(status.teeth)"),
        Told("wanted", "spec.size"),
        Told("phase", "status.phase"),
        Told("oiled", "conditions.Oiled"),
    ),
)


@pytest.fixture(autouse=True)
def of_hub() -> Iterator[None]:
    before = table.from_hub()
    table.use([*before, GEAR])
    yield
    table.use(before)


def workload(**spec: Any) -> Workload:
    main = {"apiVersion": "gears.dev/v1", "kind": "Gear", "metadata": {"name": "g"}}
    meta = {"namespace": "shop", "name": "w", "uid": "u"}
    return workload_of({"metadata": meta, "spec": {"template": main, **spec}})


def told(asked: str, name: str = "g", **status: Any) -> Any:
    meta = {"name": name, "namespace": "shop", "annotations": {ANNOTATION_TOLD: asked}}
    return managed(GEARS, {"metadata": meta, "spec": {"size": 3}, "status": status})


@pytest.mark.proves("KD69")
def test_values_of_the_kind_stand_beside_those_of_the_author_who_names_them_first() -> None:
    found = told('{"phase": "status.word"}', head={"ip": "10.0.0.1"}, teeth=[1, 2], word="Turning")
    of = workload(statusFields=[{"name": "phase", "path": "status.word"}])
    assert told_fields(of, [(GEARS, found)]) == {
        "ip": "10.0.0.1",
        "phase": "Turning",
        "teeth": "2",
        "wanted": "3",
    }


@pytest.mark.proves("KD69")
def test_a_condition_is_told_by_its_type_and_not_of_an_older_generation() -> None:
    meta = {"name": "g", "namespace": "shop", "generation": 2}
    for about, said in (({}, "True"), ({"observedGeneration": 1}, None)):
        oiled = {"type": "Oiled", "status": "True", **about}
        body = {"metadata": meta, "spec": {"size": 3}, "status": {"conditions": [oiled]}}
        assert told_fields(workload(), [(GEARS, managed(GEARS, body))]).get("oiled") == said


@pytest.mark.proves("KD69")
def test_one_that_fails_is_left_out_and_another_object_of_the_kind_tells_nothing() -> None:
    found, other = told("", teeth=7, phase="x" * 300), told("", name="other", phase="other")
    said = told_fields(workload(), [(GEARS, other), (GEARS, found)])
    assert said.keys() == {"phase", "wanted"}
    assert len(said["phase"]) == 256
    assert told_fields(workload(), [(GEARS, other)]) == {}


@pytest.mark.proves("KD69")
def test_a_name_that_the_author_gives_to_another_object_is_not_the_kinds() -> None:
    other = told('{"phase": "status.word"}', name="other", word="Turning")
    target = {"kind": "Gear", "name": "other"}
    of = workload(statusFields=[{"name": "phase", "path": "status.word", "target": target}])
    for known in (of, as_an_agent_reads(of, "other")):
        for objects in ([told("", phase="x"), other], [other, told("", phase="x")]):
            assert told_fields(known, [(GEARS, each) for each in objects])["phase"] == "Turning"


def as_an_agent_reads(workload: Workload, manifest: str) -> Workload:
    """The Workload of the Assignment that its agent gets, with that Gear among its manifests."""
    body = {"apiVersion": "gears.dev/v1", "kind": "Gear", "metadata": {"name": manifest}}
    spec = structs.replace(workload.spec, manifests=[Raw(json.encode(body))])
    whole = structs.replace(workload, spec=spec)
    pieces = render(whole, replicas=1, first_ordinal=0, secrets=[], member=member_facts())
    text, _ = packed("u", pieces, whole.kinds())
    of = {"namespace": "shop", "name": "w", "uid": "u", "generation": 1}
    asks = {"workload": of, "order": "Apply", "targetNamespace": "shop", "bundle": text}
    found = {"metadata": {"name": "u"}, "spec": {**asks, "digest": "d", "decided": "1"}}
    return Assigned(convert(found, Assignment), "m1").workload
