"""What a cache keeps of decoded objects: equal values, and one object for all that are alike."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from benchmarks.memory import running
from controller.cache.assumed import AssumedPlacements
from controller.cache.placements import PlacementIndex
from controller.eventhandlers import known
from controller.model import placed
from controller.model.objects import Workload, WorkloadStatus
from controller.snapshot.builder import SnapshotBuilder
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


def _workload(number: int) -> bytes:
    body = running(number)
    steps = [{"rule": "Room", "clusters": 3, "message": f"room of load-{number}"}]
    change = {"time": "2026-01-01T00:00:00Z", "cause": "Created", "moves": []}
    body["status"] |= {
        "reasons": steps,
        "history": [change],
        "decision": {"id": f"d-{number}", "hash": ""},
    }
    return msgspec.json.encode(body)


def _bytes(made: Callable[[bytes], Workload]) -> float:
    """What one more Workload takes."""
    answers = [_workload(number) for number in range(300)]
    kept = [made(answer) for answer in answers[:50]]
    gc.collect()
    tracemalloc.start()
    try:
        kept += [made(answer) for answer in answers[50:]]
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / 250
    finally:
        tracemalloc.stop()


@pytest.mark.perf
@pytest.mark.proves("SC26")
def test_what_is_answered_to_a_decision_takes_no_more_than_what_is_listed() -> None:
    def listed(answer: bytes) -> Workload:
        return known(placed._decoder.decode(answer))

    def answered(answer: bytes) -> Workload:
        stored = SimpleNamespace(get=lambda _: listed(answer))
        lister = placed.SchedulableLister(cast("Any", stored))
        version = msgspec.json.decode(answer)["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}}
        after = answer.replace(f'"{version}"'.encode(), b'"999999"')
        return lister._answered(("", ""), after, patch)

    assert _bytes(answered) <= 1.1 * _bytes(listed) <= 1.1 * 6 * 1024


def test_the_stored_shares_are_kept_once() -> None:
    workload = known(decoded(1))
    assumed = AssumedPlacements(PlacementIndex(), SnapshotBuilder())
    assumed.take(workload)
    held = assumed.get(workload.info.key)
    assert held is not None
    assert held.placements is workload.placements
    given = dict(workload.placements)
    assumed.assume(workload.info, given)
    held = assumed.get(workload.info.key)
    assert held is not None
    assert held.placements == given
    assert held.placements is not given, "who decided may change it"
