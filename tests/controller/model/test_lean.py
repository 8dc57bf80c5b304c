"""What a cache keeps of decoded objects: equal values, and one object for all that are alike."""

from __future__ import annotations

from typing import Any

import msgspec

from benchmarks.memory import running
from controller.eventhandlers import known
from controller.model.objects import Workload, WorkloadStatus
from machinery.types.lean import LONGEST_SHARED, lean


def decoded(number: int) -> Any:
    return msgspec.json.decode(msgspec.json.encode(running(number)), type=Workload)


def test_it_is_equal_to_what_was_decoded() -> None:
    for number in range(3):
        assert lean(decoded(number)) == decoded(number)
    assert lean(WorkloadStatus()) == WorkloadStatus()


def test_what_is_alike_is_one_object() -> None:
    one, two = lean(decoded(1)), lean(decoded(4))  # both on member-1
    assert one.status.placements[0].cluster is two.status.placements[0].cluster
    assert one.status.conditions[0]["message"] is two.status.conditions[0]["message"]
    assert one.spec.cluster_affinity is two.spec.cluster_affinity
    assert one.status.leaving is two.status.leaving
    assert one.status.leaving == []


def test_names_and_long_texts_are_kept_as_they_are() -> None:
    text = "x" * (LONGEST_SHARED + 1)
    assert lean([text])[0] is text
    one = decoded(1)
    assert lean(one).metadata.uid is one.metadata.uid


def test_the_compiled_form_is_of_what_is_kept() -> None:
    workload = known(decoded(1))
    assert workload.fault == ""
    assert workload.info.request["pods"] == 1
    assert workload.info.key is workload.info.key, "made once"
