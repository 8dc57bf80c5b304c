"""What generic tools read of a Workload at every moment: kstatus words and observed generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from crds.fields.rollout import RolledOutReason
from crds.workload import WAITING, PropagatedReason, ScheduledReason
from machinery.api.resources import DEPLOYMENTS, Resource
from machinery.kinds.builtin import DEPLOYMENT
from machinery.kinds.readiness import counts_of
from machinery.types import conditions
from propagator.members.health import Contact
from propagator.members.objects import ManagedObject, managed
from propagator.outcome import DesiredShare, Outcome
from propagator.status.aggregation import seconds_to_ready, status_of
from propagator.status.cluster_share import ReportedShare, Word, share_of
from propagator.types.workload import workload_of
from tests import kstatus
from tests.propagator.status.test_cluster_share import RAN, main, seen

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def stored(generation: int = 1, **status: Any) -> dict[str, Any]:
    """A Workload as the hub has it."""
    return {
        "metadata": {"name": "web", "namespace": "shop", "generation": generation},
        "spec": {"targetDeployment": {"apiVersion": "apps/v1", "kind": "Deployment"}},
        "status": {"observedGeneration": -1, **status},
    }


def scheduled(reason: ScheduledReason, generation: int = 1) -> dict[str, Any]:
    good = str(reason is ScheduledReason.SCHEDULED)
    return {
        "type": "Scheduled",
        "status": good,
        "reason": reason.value,
        "observedGeneration": generation,
    }


def decided(
    reason: ScheduledReason = ScheduledReason.SCHEDULED, generation: int = 1, **status: Any
) -> dict[str, Any]:
    """The fields that a decision writes."""
    said = [scheduled(reason, generation)]
    return {"observed": {"controller": generation}, "desired": 3, "conditions": said, **status}


def reported(found: Mapping[str, Any], *shares: ReportedShare) -> dict[str, Any]:
    """The Workload once the propagator has written what it says of it."""
    workload = workload_of(found)
    said = status_of(workload, [each.told for each in shares], NOW)
    observed = {**found["status"].get("observed", {}), **said["observed"]}
    after = {**found, "status": {**found["status"], **said, "observed": observed}}
    assert kstatus.exclusive(after)
    return after


def share(generation: int = 1, **what: Any) -> ReportedShare:
    """One of which all is written and known."""
    written = Outcome(DesiredShare("u1", generation, 3))
    one = seen(generation=generation, outcome=written, **what)
    return share_of(one, DEPLOYMENT, RAN, said=0)


PLACED = {"placements": [{"cluster": "m1", "replicas": 3}]}


@pytest.mark.proves("CT1")
def test_one_that_has_been_seen_by_nobody_is_in_progress() -> None:
    assert kstatus.compute(stored()) == kstatus.IN_PROGRESS
    assert kstatus.compute(stored(**decided(**PLACED))) == kstatus.IN_PROGRESS


@pytest.mark.proves("CT1")
def test_it_is_current_once_every_unit_of_this_generation_is_placed_and_ready() -> None:
    running = share(main=main())
    assert (
        kstatus.compute(reported(stored(**decided(**PLACED)), share(main=main(2)))) == "InProgress"
    )
    done = reported(stored(**decided(**PLACED)), running)
    assert kstatus.compute(done) == kstatus.CURRENT
    assert done["status"]["observedGeneration"] == 1
    assert done["status"]["observed"] == {"controller": 1, "propagator": 1}
    some = reported(stored(**decided(**PLACED, pending=2)), running)
    assert kstatus.compute(some) == kstatus.IN_PROGRESS, "two units have no cluster"


def ready(status: str, at: str) -> dict[str, Any]:
    return {"type": "Ready", "status": status, "lastTransitionTime": at}


@pytest.mark.parametrize(
    ("before", "after", "seconds"),
    [
        ([ready("False", "2025-12-31T23:59:30Z")], "True", 30.0),
        ([ready("True", "2025-12-31T23:59:30Z")], "True", None),
        ([ready("False", "2025-12-31T23:59:30Z")], "False", None),
        ([{**ready("True", "2025-12-31T23:59:50Z"), "type": "Scheduled"}], "True", 10.0),
        ([ready("False", "2026-01-01T00:00:09Z")], "True", 0.0),
        ([ready("False", "0001-01-01T00:00:00+23:59")], "True", None),
        ([ready("False", "soon")], "True", None),
        ([], "True", None),
    ],
)
def test_the_time_to_ready_counts_from_when_it_was_not(
    before: list[dict[str, Any]], after: str, seconds: float | None
) -> None:
    workload = workload_of(stored(conditions=before))
    status = {"conditions": [ready(after, "2026-01-01T00:00:00Z")]}
    assert seconds_to_ready(workload, status, NOW) == seconds


def counted(**status: Any) -> ManagedObject:
    """The main object, as its own controller counts."""
    there = {
        "metadata": {"name": "web", "generation": 7},
        "status": {"observedGeneration": 7, **status},
    }
    return managed(DEPLOYMENTS, there)


def daemon_set(**status: Any) -> ManagedObject:
    said = {"observedGeneration": 7, **status}
    resource = Resource("apps", "v1", "daemonsets", "DaemonSet")
    return managed(resource, {"metadata": {"generation": 7}, "status": said})


OLD_ONES = {"replicas": 4, "readyReplicas": 3, "updatedReplicas": 3}
"""Three are ready, one of them of the old template, in place of a new one that is not."""


@pytest.mark.proves("CT1", "CT2")
@pytest.mark.parametrize(
    "status",
    [OLD_ONES, {"replicas": 3, "readyReplicas": 3}],
    ids=["a surge", "none is updated yet"],
)
def test_no_unit_of_an_older_template_stands_in(status: dict[str, int]) -> None:
    found = stored(**decided(**PLACED))
    assert kstatus.compute(reported(found, share(main=counted(**status)))) == kstatus.IN_PROGRESS
    done = {**status, "replicas": 3, "updatedReplicas": 3}
    assert kstatus.compute(reported(found, share(main=counted(**done)))) == kstatus.CURRENT


@pytest.mark.proves("CT1")
@pytest.mark.parametrize(
    ("strategy", "old", "word"),
    [
        ({"type": "OnDelete"}, 3, kstatus.CURRENT),
        ({"rollingUpdate": {"partition": 2}}, 2, kstatus.CURRENT),
        ({"rollingUpdate": {"partition": 1}}, 2, kstatus.IN_PROGRESS),
        ({"rollingUpdate": {"partition": "x"}}, 1, kstatus.IN_PROGRESS),
        ({"rollingUpdate": 7}, 1, kstatus.IN_PROGRESS),
        ("x", 1, kstatus.IN_PROGRESS),
    ],
)
def test_units_that_keep_their_template_as_their_author_wants_it(
    strategy: Any, old: int, word: str
) -> None:
    found = stored(**decided(**PLACED))
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"updateStrategy": strategy}}
    found["spec"] = {"template": body}
    counts = {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3 - old}
    assert kstatus.compute(reported(found, share(main=counted(**counts)))) == word


@pytest.mark.proves("CT1")
def test_a_daemonset_is_ready_once_each_node_has_the_new_pod() -> None:
    counts = {"desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 1}
    assert counts_of(daemon_set(**counts).judged, 1).outdated == 1
    counts["updatedNumberScheduled"] = 2
    assert counts_of(daemon_set(**counts).judged, 1).outdated == 0


@pytest.mark.proves("CT1")
def test_a_new_process_calls_nothing_ready_that_was_not_before_it_has_looked() -> None:
    """Whether old units are among those that are ready is a part of the status."""
    old = share(main=counted(**OLD_ONES))
    waits = reported(stored(**decided(**PLACED)), old)
    connecting = share_of(seen(Contact.CONNECTING), DEPLOYMENT, old.entry, said=1)
    assert connecting.word is Word.STANDS
    assert kstatus.compute(reported(waits, connecting)) == kstatus.IN_PROGRESS
    connecting = share_of(seen(Contact.CONNECTING), DEPLOYMENT, RAN, said=1)
    done = reported(stored(**decided(**PLACED)), share(main=main()))
    assert kstatus.compute(reported(done, connecting)) == kstatus.CURRENT


@pytest.mark.proves("CT1")
@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (RolledOutReason.SOAKING, kstatus.IN_PROGRESS),
        (RolledOutReason.AWAITING_APPROVAL, kstatus.IN_PROGRESS),
        (RolledOutReason.HEALTH_CHECK_FAILED, kstatus.FAILED),
    ],
)
def test_a_rollout_that_is_not_through(reason: RolledOutReason, word: str) -> None:
    found = decided(**PLACED)
    said = {"type": "RolledOut", "status": "False", "reason": reason.value, "observedGeneration": 1}
    found["conditions"].append(said)
    assert kstatus.compute(reported(stored(**found), share(main=main()))) == word


@pytest.mark.proves("CT1")
def test_a_report_that_is_faster_than_the_decision_is_not_current() -> None:
    early = reported(stored(2, **decided(**PLACED)), share(2, main=main()))
    assert early["status"]["observedGeneration"] == 1
    assert conditions.find(early["status"], "Ready")["status"] == "False", (
        "kubectl wait reads it alone"
    )


@pytest.mark.proves("CT1")
def test_a_report_that_is_slower_than_the_decision_is_not_current() -> None:
    before = reported(stored(**decided(**PLACED)), share(main=main()))
    status = {**before["status"], **decided(generation=2)}
    status["conditions"] = [
        *before["status"]["conditions"][1:],
        scheduled(ScheduledReason.SCHEDULED, 2),
    ]
    status["observed"] = {**before["status"]["observed"], "controller": 2}
    assert kstatus.compute({**stored(2), "status": status}) == kstatus.IN_PROGRESS


@pytest.mark.proves("CT1")
@pytest.mark.parametrize("reason", ScheduledReason)
def test_a_refusal_of_the_scheduler(reason: ScheduledReason) -> None:
    after = reported(stored(**decided(reason, pending=3)))
    says = (
        kstatus.IN_PROGRESS if reason in {*WAITING, ScheduledReason.SCHEDULED} else kstatus.FAILED
    )
    assert kstatus.compute(after) == says
    assert not conditions.find(after["status"], "Propagated"), "nothing has ever been placed"
    if says == kstatus.FAILED:
        stalled = conditions.find(after["status"], "Stalled")
        assert stalled["reason"] == reason
        assert "condition Scheduled" in stalled["message"]


@pytest.mark.proves("CT1")
def test_a_refusal_of_an_older_generation_fails_nothing() -> None:
    old = decided(ScheduledReason.POLICY_NOT_FOUND, pending=3)
    after = reported(stored(2, **old))
    assert conditions.find(after["status"], "Reconciling")["reason"] == "ReplicasNotReady"


@pytest.mark.proves("CT1")
@pytest.mark.parametrize("reason", PropagatedReason)
def test_a_refusal_of_a_member(reason: PropagatedReason) -> None:
    said = {
        "type": "Propagated",
        "status": "False",
        "reason": reason.value,
        "observedGeneration": 1,
    }
    found = decided(**PLACED)
    found["conditions"].append(said)
    after = reported(
        stored(**found), share_of(seen(), DEPLOYMENT, {"state": "Failed", "replicas": 3}, said=1)
    )
    assert conditions.find(after["status"], "Propagated")["reason"] == reason, "it stands"
    says = kstatus.IN_PROGRESS if reason in {*WAITING} else kstatus.FAILED
    assert kstatus.compute(after) == says


@pytest.mark.proves("CT1")
def test_one_that_shall_have_no_units_is_current_once_none_is_left() -> None:
    nothing = decided(desired=0)
    assert kstatus.compute(reported(stored(**nothing))) == kstatus.CURRENT
    leaving = share_of(replace(seen(main=main()), leaving=True), DEPLOYMENT, RAN, said=0)
    assert kstatus.compute(reported(stored(**nothing), leaving)) == kstatus.IN_PROGRESS
    assert kstatus.compute(reported(stored())) == kstatus.IN_PROGRESS, "of another scheduler"


@pytest.mark.proves("J15")
def test_one_that_shall_have_no_units_from_the_first_decision_on_has_every_condition() -> None:
    """Scaled to 0 before its first object was written: nothing is ever placed."""
    after = reported(stored(**decided(desired=0)))
    said = {each["type"]: each["status"] for each in after["status"]["conditions"]}
    assert said == {"Scheduled": "True", "Propagated": "True", "Ready": "True"}
    assert conditions.find(after["status"], "Propagated")["message"] == "nothing to do"
    early = reported(stored(2, **decided(desired=0)))
    assert not conditions.find(early["status"], "Propagated"), "it may want some by now"
    assert reported(after) == after


@pytest.mark.proves("CT1")
def test_of_another_scheduler_the_placements_are_believed() -> None:
    after = reported(stored(**PLACED), share(main=main()))
    assert kstatus.compute(after) == kstatus.CURRENT
    assert after["status"]["observed"] == {"propagator": 1}


@pytest.mark.proves("CT1")
def test_what_was_said_is_not_said_again() -> None:
    once = reported(stored(**decided(ScheduledReason.INSUFFICIENT_CAPACITY, pending=3)))
    assert reported(once) == once
    placed = {**once, "status": {**once["status"], **decided(**PLACED, pending=0)}}
    placed["status"]["conditions"] = [
        *once["status"]["conditions"][1:],
        scheduled(ScheduledReason.SCHEDULED),
    ]
    done = reported(placed, share(main=main()))
    assert {each["type"] for each in done["status"]["conditions"]} == {
        "Scheduled",
        "Propagated",
        "Ready",
    }
    assert reported(done, share(main=main())) == done
