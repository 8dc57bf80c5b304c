"""What a share's end leaves in the status: it stays there, whatever became of its object."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from crds.workload import WorkloadCondition
from machinery.api.resources import Resource
from machinery.kinds.builtin import JOB
from machinery.types.conditions import RECONCILING, STALLED, find
from propagator.members.health import Contact
from propagator.members.objects import ManagedObject, managed
from propagator.members.pod_index import PodCounts
from propagator.outcome import DesiredShare
from propagator.status.aggregation import status_of
from propagator.status.cluster_share import share_of
from propagator.status.observed_share import ObservedShare
from propagator.types.workload import Workload, workload_of

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
JOBS = Resource("batch", "v1", "jobs", "Job")
END = {"result": "Succeeded", "time": "2026-01-02T03:04:05Z", "object": "Job shop/bill"}
BAD = {**END, "result": "Failed", "message": "Job has reached the specified backoff limit"}


def workload(name: str = "bill", **status: Any) -> Workload:
    meta = {"namespace": "shop", "name": "bill", "uid": "u1", "generation": 1}
    main = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {}}
    return workload_of({"metadata": meta, "spec": {"template": main}, "status": status})


def job(condition: str = "", *, suspend: bool = False, **status: Any) -> ManagedObject:
    said = [{"type": condition, "status": "True"}] if condition else []
    body = {"spec": {"suspend": suspend}, "status": {"conditions": said, **status}}
    return managed(JOBS, {"metadata": {"name": "bill"}, **body})


def told(
    *shares: tuple[str, Mapping[str, Any] | None, ManagedObject | None],
    before: Mapping[str, Mapping[str, Any]] = {},
    contact: Contact = Contact.SERVING,
) -> dict[str, Any]:
    """The status of shares of two units: (cluster, its end, its object)."""
    placements = [{"cluster": name, "replicas": 2} for name, *_ in shares]
    found = [
        share_of(
            ObservedShare(
                name=name,
                desired=DesiredShare("u1", 1, 2),
                leaving=False,
                contact=contact,
                main=main,
                end=end,
            ),
            JOB,
            before.get(name, {}),
            said=0,
        )
        for name, end, main in shares
    ]
    return status_of(workload(placements=placements), [each.told for each in found], NOW)


@pytest.mark.proves("A1", "KD27")
@pytest.mark.parametrize("contact", Contact)
def test_a_share_that_has_ended_stays_complete_without_its_object(contact: Contact) -> None:
    first = told(("m1", END, job("Complete", succeeded=2)))
    entry = first["clusters"][0]
    assert (entry["state"], entry["ended"], entry["succeeded"]) == ("Complete", END, 2)
    assert (first["state"], first["readySummary"]) == ("Complete", "2/2")
    ready = find(first, WorkloadCondition.READY)
    assert (ready["status"], ready["reason"]) == ("True", "Completed")
    later = told(("m1", END, None), before={"m1": entry}, contact=contact)
    assert {**later["clusters"][0], "health": None} == {**entry, "health": None}
    assert find(later, WorkloadCondition.READY)["reason"] == "Completed"


@pytest.mark.proves("KD24")
def test_a_share_that_failed_is_named_with_its_reason() -> None:
    shares = ("m1", BAD, job("Failed", succeeded=1)), ("m2", END, job("Complete"))
    status = told(*shares)
    assert [each["state"] for each in status["clusters"]] == ["Failed", "Complete"]
    assert (status["clusters"][0]["failed"], status["clusters"][0]["succeeded"]) == (1, 1)
    assert status["state"] == "Failed"
    ready = find(status, WorkloadCondition.READY)
    assert (ready["status"], ready["reason"]) == ("False", "Failed")
    assert ready["message"].startswith("m1: Job has reached the specified backoff limit")
    assert find(status, STALLED)


@pytest.mark.proves("KD32")
def test_the_message_says_how_to_run_it_again() -> None:
    for end in (END, BAD):
        ready = find(told(("m1", end, None)), WorkloadCondition.READY)
        assert "spec.template.metadata.name" in ready["message"]
    share = {"name": "m1", "ended": END}
    assert workload(clusters=[share]).ends == {"m1": END}
    assert workload("bill-2", clusters=[share]).ends == {}


@pytest.mark.proves("KD19")
def test_what_a_share_that_leaves_has_done_is_told_until_its_object_is_gone_and_after() -> None:
    def leaving(before: Mapping[str, Any], **seen: Any) -> Mapping[str, Any]:
        desired = DesiredShare("u1", 1, 0, placed=False)
        one = ObservedShare(
            name="m1", desired=desired, leaving=True, contact=Contact.SERVING, **seen
        )
        return share_of(one, JOB, before, said=0).entry

    none, some = PodCounts(scheduled=0, unschedulable=0), job(succeeded=2)
    there = leaving({}, main=some, pods=none)
    assert (there["completed"], there["current"]) == (2, 1), "it may start pods yet"
    gone = leaving(there, last=some.judged, pods=none)
    assert (gone["completed"], gone["current"], gone["state"]) == (2, 0, "Leaving")
    assert leaving(gone, pods=none)["completed"] == 2
    desired = DesiredShare("u1", 1, 1)
    again = ObservedShare(name="m1", desired=desired, leaving=False, contact=Contact.SERVING)
    assert "completed" not in share_of(again, JOB, gone, said=0).entry, "it is yet to be made"


@pytest.mark.proves("KD19")
def test_what_is_not_seen_since_it_is_to_leave_is_not_said_to_leave() -> None:
    desired = DesiredShare("u1", 1, 0, placed=False)
    connecting = ObservedShare(name="m1", desired=desired, leaving=True, contact=Contact.CONNECTING)
    for before, state in (({"state": "Creating"}, "Creating"), ({}, "Pending")):
        assert share_of(connecting, JOB, before, said=0).entry["state"] == state
    told = {"state": "Leaving", "current": 1}
    entry = share_of(connecting, JOB, told, said=0).entry
    assert (entry["state"], entry["current"]) == ("Leaving", 1)
    pods = {"pods": None, "main": job(succeeded=1)}
    seen = ObservedShare(name="m1", desired=desired, leaving=True, contact=Contact.SERVING, **pods)
    assert share_of(seen, JOB, {}, said=0).entry["current"] == 1


@pytest.mark.proves("KD17")
def test_what_is_suspended_waits_and_is_not_stalled() -> None:
    status = told(("m1", None, job(suspend=True)))
    assert status["clusters"][0]["health"] == "Suspended"
    ready = find(status, WorkloadCondition.READY)
    assert (ready["status"], ready["reason"]) == ("False", "Suspended")
    assert find(status, RECONCILING)
    assert not find(status, STALLED)
