"""The ranges of ordinals that a status gets: from itself, from what clusters tell, and new ones."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from controller.model.objects import ClusterShare, Workload
from controller.model.unit import workload_info
from controller.model.work import ordinals_of
from machinery.types.workload_api import OrdinalRange
from tests.controller import make


def database(
    noted: dict[str, int] | None = None,
    told: dict[str, int | None] | None = None,
    *,
    start: int = 0,
    annotated: str = "",
    placed: tuple[str, ...] = ("a", "b"),
    state: str = "Running",
) -> Workload:
    template = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "spec": {"ordinals": {"start": start}} if start else {},
    }
    stored = make.workload(template=template, present=dict.fromkeys(placed, 2))
    status = msgspec.structs.replace(
        stored.status,
        ordinals=[OrdinalRange(name, n) for name, n in (noted or {}).items()],
        clusters=[ClusterShare(name, state=state, start=n) for name, n in (told or {}).items()],
    )
    meta = stored.metadata
    if annotated:
        meta = msgspec.structs.replace(meta, annotations={"stowage.dev/ordinals": annotated})
    return msgspec.structs.replace(stored, metadata=meta, status=status)


def dealt(workload: Workload, *placed: str) -> dict[str, int]:
    info = workload_info(workload)
    about = dict.fromkeys(placed or info.present, 2), info.ranges, info.first_ordinal
    found = ordinals_of(workload, *about)
    return {each.cluster: each.start for each in found}


@pytest.mark.proves("B3", "KD50")
def test_the_first_ranges_begin_where_the_template_does() -> None:
    assert dealt(database()) == {"a": 0, "b": 1000}
    assert dealt(database(start=1000), "a", "b", "c") == {"a": 1000, "b": 2000, "c": 3000}
    assert dealt(database({"b": 0})) == {"a": 1000, "b": 0}


@pytest.mark.proves("A4", "KD49")
def test_what_a_status_lost_is_taken_from_the_clusters() -> None:
    told: dict[str, Any] = {"a": 1000, "b": 0}
    assert dealt(database({}, told)) == told
    # Another one, as of a backup, is put right, and what was given beside it is given anew.
    assert dealt(database({"a": 0, "b": 1000, "c": 2000}, told)) == {**told, "c": 2000}
    assert dealt(database({"c": 0}, told), "a", "b", "c") == {**told, "c": 2000}


@pytest.mark.proves("A4", "KD49")
def test_no_new_range_is_given_before_each_cluster_has_told_its_own() -> None:
    told: dict[str, int | None] = {"a": 1000, "b": None}
    assert dealt(database({}, told), "a", "b", "c") == {"a": 1000}
    assert dealt(database({}, told, state="Pending"), "a", "b") == {"a": 1000, "b": 0}
    # A kind that counted no pods before has nothing to tell.
    assert dealt(database({}, {"a": None, "b": None})) == {"a": 0, "b": 1000}


@pytest.mark.proves("KD10", "KD49")
def test_the_annotation_of_an_earlier_release_is_read_and_may_be_anything() -> None:
    noted = json.dumps({"a": 1000, "b": 0})
    assert dealt(database(annotated=noted)) == {"a": 1000, "b": 0}
    assert dealt(database({"a": 3000}, annotated=noted)) == {"a": 3000, "b": 0}
    # Its first range left the template's own start in place.
    assert dealt(database(start=5, annotated='{"a": 0, "b": 1000}')) == {"a": 5, "b": 1000}
    for spoilt in ("[]", "{", '{"a": "x", "b": -1}', "null"):
        assert dealt(database(annotated=spoilt)) == {"a": 0, "b": 1000}


@pytest.mark.proves("KD53")
def test_a_status_names_a_thousand_ranges_and_those_first_that_are_needed() -> None:
    many = {f"m{n:05}": n * 1000 for n in range(1200)}
    found = dealt(database(many), "m01198", "m01199")
    assert len(found) == 1000
    assert {"m01198", "m01199"} <= found.keys()
    assert found.items() <= many.items()
