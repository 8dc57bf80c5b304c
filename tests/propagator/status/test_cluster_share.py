"""What is said of a share: what is known, else what was said; never the old as the new."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from crds.fields.shares import BlockedReason, ClusterShare, ShareHealth, ShareState
from crds.workload import PropagatedReason, WorkloadCondition
from machinery.api.client import ApiClient
from machinery.api.resources import DEPLOYMENTS, Resource
from machinery.clock import timestamp
from machinery.kinds.builtin import DEPLOYMENT
from machinery.kinds.readiness import Judged
from machinery.kinds.table import profile_of
from machinery.types.conditions import RECONCILING, STALLED, find
from machinery.types.metadata import Meta
from propagator.hub.revisions import Revisions
from propagator.members.context import ControllerContext
from propagator.members.health import Contact
from propagator.members.inventory import OwnedObjects
from propagator.members.objects import ManagedObject, Refused, managed
from propagator.members.pod_index import PodCounts
from propagator.outcome import DesiredShare, Outcome
from propagator.shares import ShareTable
from propagator.status.aggregation import status_of
from propagator.status.cluster_share import ReportedShare, Word, share_of
from propagator.status.observation import STRANGERS, Survey
from propagator.status.observed_share import ObservedShare, missing_pods
from propagator.status.refusals import ToldRefusal
from propagator.types.cluster import MemberCluster, MemberClusterSpec
from propagator.types.movement import Blocked
from propagator.types.workload import Workload, workload_of
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context

T0 = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SINCE = "2026-01-01T00:00:00Z"
RAN = {
    "name": "m1",
    "replicas": 3,
    "scheduled": 3,
    "ready": 3,
    "unschedulable": 0,
    "updated": 3,
    "current": 0,
    "finished": 0,
    "observedGeneration": 1,
    "state": "Running",
    "message": "",
    "loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]},
}
WAITS = RAN | {
    "health": "Progressing",
    "ready": 1,
    "unschedulable": 2,
    "unschedulableSince": SINCE,
    "state": "Creating",
}

NO_ROLLOUT = Revisions(cast("ApiClient", None), ShareTable())
"""Of Workloads without one nothing is asked."""


def workload(
    *, generation: int = 1, uid: str = "u1", deleting: bool = False, **status: Any
) -> Workload:
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    meta = {"namespace": "shop", "name": "w", "uid": uid, "generation": generation, **going}
    return workload_of(
        {
            "metadata": meta,
            "spec": {"targetDeployment": {"apiVersion": "apps/v1", "kind": "Deployment"}},
            "status": {"placements": [{"cluster": "m1", "replicas": 3}], **status},
        },
    )


def main(ready: int = 3, *, generation: int = 7, observed: int = 7) -> ManagedObject:
    status = {"readyReplicas": ready, "updatedReplicas": 3, "observedGeneration": observed}
    there = {"metadata": {"name": "web", "generation": generation}, "status": status}
    return managed(DEPLOYMENTS, there)


REFUSES = {
    "type": "ReplicaFailure",
    "status": "True",
    "reason": "FailedCreate",
    "message": 'pods "web-" is forbidden: exceeded quota: team, used: pods=2, limited: pods=2',
    "lastTransitionTime": SINCE,
}


def refusing(**condition: Any) -> ManagedObject:
    status = {"readyReplicas": 2, "updatedReplicas": 2, "observedGeneration": 7}
    body = {"metadata": {"name": "web", "generation": 7}, "status": status}
    status["conditions"] = cast("Any", [7, {"type": "Available"}, REFUSES | condition])
    return managed(DEPLOYMENTS, body)


@pytest.mark.proves("KD82")
def test_why_a_share_stays_is_told_until_its_object_says_otherwise() -> None:
    aborted = ManagedObject(metadata=Meta(name="web"), judged=Judged(holds="it knows more"))
    share, _ = told(seen(main=aborted), {})
    assert share.entry["holds"] == "it knows more"
    ClusterShare.model_validate(share.entry)
    away, _ = told(seen(Contact.AWAY), dict(share.entry))
    assert away.entry["holds"] == "it knows more", "a lost cluster says nothing else"
    for main in (ManagedObject(metadata=Meta(name="web")), None):
        again, _ = told(seen(main=main), dict(share.entry))
        assert "holds" not in again.entry


@pytest.mark.proves("KD62")
def test_pods_that_a_member_refuses_are_counted_with_its_words() -> None:
    two = PodCounts(scheduled=2, ready=2, current=2)
    share, _ = told(seen(main=refusing(), pods=two), {})
    entry = share.entry
    assert (entry["refused"], entry["unschedulable"], entry["unschedulableSince"]) == (1, 0, SINCE)
    assert entry["message"] == f"pods are refused: {REFUSES['message']}"
    ClusterShare.model_validate(entry)
    waiting = PodCounts(1, 1, 1, T0 - timedelta(days=30), 2)
    share, _ = told(seen(main=refusing(), pods=waiting), {})
    assert share.entry["unschedulableSince"] == "2025-12-03T03:04:05Z", "the older of both"
    three = PodCounts(scheduled=3, ready=3, current=3)
    share, _ = told(seen(main=refusing(), pods=three), dict(entry))
    assert not {"refused", "unschedulableSince"} & share.entry.keys(), "none is missing"


@pytest.mark.proves("KD62")
@pytest.mark.parametrize(
    "condition",
    [
        {"status": "False"},
        {"reason": "FailedDelete"},
        {"reason": 7},
        {"message": None},
        {"lastTransitionTime": "soon"},
        {"lastTransitionTime": 5},
        {"lastTransitionTime": None},
    ],
)
def test_what_is_no_refusal_counts_for_nothing(condition: dict[str, Any]) -> None:
    assert refusing(**condition).refused is None


@pytest.mark.proves("KD62")
def test_what_events_tell_counts_as_a_condition_and_stands_until_a_new_process_has_read_them() -> (
    None
):
    status = {"readyReplicas": 2, "updatedReplicas": 2, "observedGeneration": 7}
    body = {"metadata": {"name": "web", "generation": 7}, "status": status}
    main, two = managed(DEPLOYMENTS, body), PodCounts(scheduled=2, ready=2, current=2)
    since = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    share, _ = told(seen(main=main, pods=two, events=ToldRefusal(Refused(since, "over quota"))), {})
    entry = dict(share.entry)
    assert (entry["refused"], entry["unschedulableSince"]) == (1, timestamp(since))
    assert entry["message"] == "pods are refused: over quota"
    unread, _ = told(seen(main=main, pods=two, events=ToldRefusal(unread=True)), entry)
    assert unread.entry == entry
    over, _ = told(seen(main=main, pods=two), entry)
    assert not {"refused", "unschedulableSince"} & over.entry.keys()
    assert over.entry["message"] == ""


@pytest.mark.proves("KD62")
def test_pods_that_have_ended_are_not_missing() -> None:
    body: dict[str, Any] = {"metadata": {"name": "sums"}, "spec": {"completions": 5}}
    body["spec"]["parallelism"] = 5
    body["status"] = {"succeeded": 3, "active": 0, "ready": 0}
    job = managed(Resource("batch", "v1", "jobs", "Job"), body)
    one = seen(main=job, pods=PodCounts(), units_asked=5)
    assert missing_pods(one) == 2
    assert missing_pods(replace(one, pods=PodCounts(current=2))) == 0
    assert missing_pods(replace(one, pods=None)) == 0
    assert missing_pods(replace(one, main=None)) == 0


def seen(contact: Contact = Contact.SERVING, *, generation: int = 1, **what: Any) -> ObservedShare:
    desired = DesiredShare("u1", generation, what.pop("units_asked", 3))
    return ObservedShare(name="m1", desired=desired, leaving=False, contact=contact, **what)


def told(
    one: ObservedShare,
    before: Mapping[str, Any],
    *,
    generation: int = 1,
    said: Mapping[str, Any] = {},
) -> tuple[ReportedShare, dict[str, Any]]:
    """The share, and the status that comes of it where Propagated was said like that."""
    share = share_of(one, DEPLOYMENT, before, said=said.get("observedGeneration", 0))
    conditions = [{"type": "Propagated", "lastTransitionTime": SINCE, **said}] if said else []
    about = workload(generation=generation, conditions=conditions)
    return share, status_of(about, [share.told], T0)


GOOD = {
    "status": "True",
    "reason": "Propagated",
    "message": "all objects are on m1",
    "observedGeneration": 1,
}
REFUSED = {
    "status": "False",
    "reason": "Rejected",
    "message": "m1: no",
    "observedGeneration": 1,
}


def propagated(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return find(status, WorkloadCondition.PROPAGATED)


def ready(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return find(status, WorkloadCondition.READY)


@pytest.mark.proves("R4")
@pytest.mark.parametrize("contact", Contact)
def test_an_entry_has_all_that_the_hub_would_add_by_itself(contact: Contact):
    """Else it looks like news each time that it is compared with what is there."""
    share, _ = told(seen(contact, trouble="m1 is away"), {})
    defaults = {
        field.alias or name
        for name, field in ClusterShare.model_fields.items()
        if not field.is_required() and field.default is not None
    }
    assert defaults <= share.entry.keys()


@pytest.mark.proves("R5")
@pytest.mark.parametrize(
    ("before", "said"),
    [
        (RAN, GOOD),
        (WAITS, GOOD),
        (RAN | {"state": "Failed", "message": "m1: no"}, REFUSED),
        (
            RAN | {"state": "Unreachable", "message": "m1 is away"},
            REFUSED | {"reason": "ClusterUnreachable", "message": "m1 is away"},
        ),
    ],
)
def test_of_a_member_that_is_connecting_everything_stands_as_it_was_said(
    before: dict[str, Any], said: dict[str, Any]
):
    share, status = told(seen(Contact.CONNECTING), before, said=said)
    assert share.word is Word.STANDS
    assert share.entry == before
    assert propagated(status) == {"type": "Propagated", "lastTransitionTime": SINCE, **said}


@pytest.mark.proves("A28")
def test_units_of_a_cluster_that_does_not_answer_are_unknown():
    away = RAN | {"state": "Unreachable", "message": "m1 is away"}
    for contact, before in ((Contact.AWAY, RAN), (Contact.CONNECTING, away)):
        share, status = told(seen(contact, trouble="m1 is away"), before, said=GOOD)
        assert share.entry["ready"] == 3, "as it answered last"
        assert (status["ready"], status["readySummary"]) == (0, "0/3")
        assert ready(status)["status"] == "False"
    ended = RAN | {"succeeded": 3, "finished": 3}
    _, status = told(seen(Contact.AWAY, trouble="m1 is away"), ended, said=GOOD)
    assert status["readySummary"] == "3/3", "what has ended well ends no second time"


@pytest.mark.proves("R5", "R10")
def test_what_is_not_known_of_a_serving_member_keeps_its_last_number():
    share, status = told(seen(main=main(1)), WAITS, said=GOOD)
    assert share.entry == WAITS, "neither pods nor Services have been listed, nothing is synced"
    assert propagated(status)["status"] == "True"
    counted = PodCounts(None, unschedulable=1, oldest_unschedulable=T0)
    share, _ = told(seen(main=main(1), pods=counted), WAITS, said=GOOD)
    assert share.entry["scheduled"] == 3, "which pods the hub's capacity counts is not known"
    assert share.entry["unschedulable"] == 1
    assert share.entry["unschedulableSince"] == "2026-01-02T03:04:05Z"
    share, _ = told(seen(main=main(3), pods=PodCounts(3), load_balancer={}), WAITS, said=GOOD)
    assert "unschedulableSince" not in share.entry
    assert "loadBalancer" not in share.entry


@pytest.mark.proves("SC14", "A28")
def test_by_which_decision_a_share_is_stands_until_a_new_process_has_reconciled_it():
    """Else each restart would take it back, for the other shards, and write it again."""
    before = {**WAITS, "decision": "d1"}
    share, _ = told(seen(main=main(1)), before, said=GOOD)
    assert share.shared(before, None)["decision"] == "d1"
    share, _ = told(replace(seen(main=main(1)), leaving=True), before, said=GOOD)
    assert share.shared(before, None)["decision"] == "d1"
    end = {"result": "Succeeded", "time": SINCE, "object": "Job shop/w"}
    share, _ = told(replace(seen(), end=end), before, said=GOOD)
    assert share.shared(before, None)["decision"] == "d1"
    share, _ = told(
        seen(main=main(1), outcome=Outcome(DesiredShare("u1", 1, 3))), before, said=GOOD
    )
    assert share.word is Word.KNOWN
    assert "decision" not in share.shared(before, None), "nobody waits for it any more"
    assert share.shared(before, "d2")["decision"] == "d2"


@pytest.mark.proves("T7")
def test_what_keeps_pods_from_being_ready_is_told_while_it_does():
    waits = PodCounts(2, trouble="container main: ImagePullBackOff")
    share, _ = told(seen(main=main(1), pods=waits), RAN, said=GOOD)
    assert share.entry["message"] == "pods are not ready: container main: ImagePullBackOff"
    share, _ = told(seen(main=main(3), pods=waits), RAN, said=GOOD)
    assert share.entry["message"] == "", "it has as many as it needs, and none is an old one"


@pytest.mark.proves("J14")
def test_why_pods_have_no_node_is_told_with_the_share():
    waits = PodCounts(2, unschedulable=1, trouble="no node: Insufficient cpu")
    share, _ = told(seen(main=main(1), pods=waits), RAN, said=GOOD)
    assert share.entry["message"] == "pods are not ready: no node: Insufficient cpu"


@pytest.mark.proves("Q4")
def test_a_member_that_does_not_let_a_share_go_is_told_in_the_condition():
    why = 'm1: deployments.apps "web" is forbidden: no right to delete it'
    for reason in (PropagatedReason.REJECTED, PropagatedReason.CONFLICT):
        one = replace(seen(main=main()), leaving=True)
        one = replace(one, outcome=Outcome(one.desired, reason, why))
        share, status = told(one, RAN, said=GOOD)
        said = find(status, WorkloadCondition.PROPAGATED)
        assert (share.entry["state"], share.entry["message"]) == ("Leaving", why)
        assert (said["status"], said["reason"], said["message"]) == ("False", reason.value, why)
    under_way = replace(one, outcome=Outcome(one.desired, PropagatedReason.PROPAGATING, "it ends"))
    assert find(told(under_way, RAN, said=GOOD)[1], WorkloadCondition.PROPAGATED)["message"] != why


@pytest.mark.proves("Q21")
def test_ready_and_drifted_always_say_something():
    for ready, text in ((1, "1 of 3 replicas are ready"), (3, "every replica is ready")):
        _, status = told(seen(main=main(ready), outcome=Outcome(seen().desired)), RAN, said=GOOD)
        assert find(status, WorkloadCondition.READY)["message"] == text
        assert all(each["message"] for each in status["conditions"])
    judged = msgspec.structs.replace(main().judged, updated=1, outdated=2)
    old = msgspec.structs.replace(main(), judged=judged)
    _, status = told(seen(main=old), RAN, said=GOOD)
    assert find(status, WorkloadCondition.READY)["message"].startswith("3 of 3 replicas are ready,")


@pytest.mark.proves("W24", "W25")
def test_pods_that_no_other_number_counts_are_told():
    ending = PodCounts(2, unschedulable=1, current=5)
    share, _ = told(seen(main=main(3), pods=ending), RAN, said=GOOD)
    assert share.entry["current"] == 5, "two end, or wait for nobody knows what"
    share, _ = told(seen(Contact.AWAY), dict(share.entry), said=GOOD)
    assert share.entry["current"] == 5, "nothing else is known of them"
    usual = PodCounts(2, unschedulable=1, current=3)
    share, _ = told(seen(main=main(3), pods=usual), RAN, said=GOOD)
    assert share.entry["current"] == 0, "they are what the other numbers say"


@pytest.mark.proves("R5")
@pytest.mark.parametrize("contact", Contact)
@pytest.mark.parametrize("before", [{}, RAN, WAITS])
def test_an_entry_is_as_the_hub_gives_it_back(contact: Contact, before: dict[str, Any]):
    """What the schema's defaults would add would look like news at each look."""
    share, _ = told(seen(contact, main=main(), trouble="away"), before)
    stored = ClusterShare.model_validate(share.entry).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    assert stored == share.entry


@pytest.mark.proves("R6")
@pytest.mark.parametrize("contact", Contact)
@pytest.mark.parametrize(
    "outcome", [None, Outcome(DesiredShare("u1", 2, 3), PropagatedReason.REJECTED, "no")]
)
def test_nothing_true_of_the_last_generation_is_said_of_the_next(
    contact: Contact, outcome: Outcome | None
):
    edited = seen(contact, generation=2, main=main(), outcome=outcome, trouble="m1 is away")
    share, status = told(edited, RAN, generation=2, said=GOOD)
    assert share.entry["observedGeneration"] == 1
    assert share.entry["state"] != ShareState.RUNNING.value
    good = [each for each in status["conditions"] if each["type"] not in (RECONCILING, STALLED)]
    for each in good:
        assert (each["status"], each["observedGeneration"]) != ("True", 2)


@pytest.mark.proves("R6")
def test_ready_is_said_once_the_members_own_controller_has_seen_what_was_written():
    written = Outcome(DesiredShare("u1", 2, 3))
    early = seen(generation=2, main=main(observed=6), outcome=written)
    share, status = told(early, RAN, generation=2, said=GOOD)
    assert propagated(status)["status"] == "True"
    assert propagated(status)["observedGeneration"] == 2
    assert share.entry["observedGeneration"] == 2
    assert ready(status)["status"] == "False"
    share, status = told(seen(generation=2, main=main(), outcome=written), RAN, generation=2)
    assert share.entry["state"] == "Running"
    assert (ready(status)["status"], ready(status)["observedGeneration"]) == ("True", 2)


@pytest.mark.proves("R6")
def test_units_that_were_asked_for_since_are_on_their_way():
    scaled = seen(main=main(), units_asked=5)
    share, status = told(scaled, RAN, said=GOOD)
    assert share.word is Word.ON_ITS_WAY
    assert propagated(status)["reason"] == "Propagating"


@pytest.mark.proves("R6")
async def test_a_workload_made_anew_shows_nothing_of_the_one_before():
    survey = Survey(ground_of(Contact.SERVING), inventory=nothing_held(), revisions=NO_ROLLOUT)
    old = Outcome(DesiredShare("u1", 1, 3), PropagatedReason.REJECTED, "no")
    found = [each async for each in survey.seen(workload(uid="u2"), {"m1": old})]
    assert [each.outcome for each in found] == [None]
    found = [each async for each in survey.seen(workload(), {"m1": old})]
    assert [each.outcome for each in found] == [old]


@pytest.mark.proves("R5")
def test_an_object_that_went_while_nobody_looked_is_not_called_written():
    share, status = told(seen(main=None), RAN, said=GOOD)
    assert share.word is Word.ON_ITS_WAY
    assert propagated(status)["reason"] == "Propagating"


@pytest.mark.proves("B21")
def test_why_a_share_does_not_go_on_is_told_in_one_word():
    """The controller tells a gang's failure from it, and not from the message."""
    refused = Outcome(DesiredShare("u1", 1, 3), PropagatedReason.REJECTED, "m1: no")
    share, _ = told(seen(outcome=refused), RAN)
    assert (share.entry["state"], share.entry["reason"]) == ("Failed", "Rejected")
    share, _ = told(seen(Contact.CONNECTING), share.entry, said=REFUSED)
    assert (share.word, share.entry["reason"]) == (Word.STANDS, "Rejected")
    share, _ = told(seen(Contact.AWAY, trouble="m1 is away"), share.entry)
    assert (share.entry["state"], share.entry["reason"]) == ("Unreachable", "ClusterUnreachable")
    share, _ = told(seen(outcome=Outcome(DesiredShare("u1", 1, 3)), main=main()), share.entry)
    assert "reason" not in share.entry


@pytest.mark.proves("M20")
@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (
            BlockedReason.NOT_READY_ELSEWHERE,
            "kept until the other clusters are ready: 2 of 5 are ready on other clusters",
        ),
        (BlockedReason.DISRUPTION_BUDGET, "disruption budget shop/web allows 0"),
    ],
)
def test_a_share_that_left_the_placements_says_that_it_stays_and_why(
    reason: BlockedReason, message: str
):
    blocked = Blocked(reason, message.rpartition(": ")[2])
    desired = DesiredShare("u1", 1, 0)
    kept = Outcome(desired, PropagatedReason.PROPAGATING, "m1: 3 beyond 0", 3, blocked)
    leaves = replace(seen(outcome=kept, main=main()), leaving=True)
    share, status = told(leaves, RAN)
    assert (share.entry["state"], share.entry["message"]) == ("Leaving", message)
    assert propagated(status)["reason"] == "Propagating"
    _, after_a_restart = told(replace(leaves, outcome=None), share.entry)
    assert propagated(after_a_restart)["reason"] == "Propagating", "it stays for the same reason"


@pytest.mark.proves("R5")
def test_a_new_trouble_is_told_though_something_else_stands():
    stands = share_of(seen(Contact.CONNECTING), DEPLOYMENT, RAN | {"state": "Failed"}, said=1)
    other = ObservedShare(
        name="m2",
        desired=DesiredShare("u1", 1, 3),
        leaving=False,
        contact=Contact.SERVING,
        outcome=Outcome(DesiredShare("u1", 1, 3), PropagatedReason.REJECTED, "m2: another thing"),
    )
    shares = [stands, share_of(other, DEPLOYMENT, {}, said=1)]
    conditions = [{"type": "Propagated", "lastTransitionTime": SINCE, **REFUSED}]
    status = status_of(workload(conditions=conditions), [each.told for each in shares], T0)
    assert propagated(status)["message"] == "m2: another thing"


def ground_of(contact: Contact | None, *, lists: bool = False) -> ControllerContext:
    """Every cluster has a session in that contact, or there are neither sessions nor clusters.

    `lists`: the list of its objects is still under way.
    """
    session = None
    if contact is not None:
        informer = SimpleNamespace(trusted=not lists)
        watches = SimpleNamespace(concerning=lambda *_, **__: [informer])
        session = SimpleNamespace(
            contact=contact,
            former=(),
            counting=False,
            link=SimpleNamespace(watches=watches) if lists else None,
            message="away",
            pod_counts=lambda uid: None,
        )
    registry = SimpleNamespace(get=lambda name: session, names=list)
    clusters = SimpleNamespace(synced=True, get=lambda key: None, by_index=lambda *_: [])
    parts = {"registry": registry, "clusters": clusters, "clock": FakeClock()}
    return cast("ControllerContext", Context(**parts))


@pytest.mark.proves("R5")
def test_a_member_that_answers_and_lists_nothing_in_time_has_lost_no_replica() -> None:
    survey = Survey(
        ground_of(Contact.SERVING, lists=True), inventory=nothing_held(), revisions=NO_ROLLOUT
    )
    late = "cluster m1 cannot be reached (deployments were not listed in time)"
    desired = DesiredShare.of(workload(), "m1")
    outcome = Outcome(desired, PropagatedReason.CLUSTER_UNREACHABLE, late)
    share = share_of(survey.observe(workload(), "m1", outcome), DEPLOYMENT, RAN, said=GOOD)
    assert share.entry["ready"] == RAN["ready"] > 0
    assert (share.entry["state"], share.entry["message"]) == ("Unreachable", late)


@pytest.mark.proves("N2", "R5")
@pytest.mark.parametrize("asked", [False, True])
def test_what_was_kept_is_told_until_its_kind_is_listed(asked: bool):
    """After a restart members serve before all kinds of a Workload have been listed there."""
    inventory = SimpleNamespace(holders=lambda uid: {"m1"}, asked=lambda session, w, kind="": asked)
    survey = Survey(
        ground_of(Contact.SERVING), inventory=cast("OwnedObjects", inventory), revisions=NO_ROLLOUT
    )
    told = [{"cluster": "m1", "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "d"}]
    assert survey.kept(workload(kept=told)) == ([] if asked else told)


@pytest.mark.proves("N2", "N3")
@pytest.mark.parametrize("listed", [False, True])
def test_what_was_kept_on_a_cluster_that_was_renamed_is_told_by_its_new_name(listed: bool):
    claim = {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "d"}
    session = SimpleNamespace()
    renamed = MemberCluster(Meta(name="new"), spec=MemberClusterSpec(former_names=["old"]))
    context = Context(
        registry=SimpleNamespace(get={"new": session}.get, names=lambda: ["new"]),
        clusters=SimpleNamespace(
            get=lambda _: None, by_index=lambda _, name: [renamed] if name == "old" else []
        ),
        clock=FakeClock(),
    )
    inventory = SimpleNamespace(holders=lambda uid: set(), asked=lambda session, w, kind="": listed)
    survey = Survey(
        cast("ControllerContext", context),
        inventory=cast("OwnedObjects", inventory),
        revisions=NO_ROLLOUT,
    )
    told = [{"cluster": "gone"} | claim, {"cluster": "old"} | claim]
    there = [] if listed else [{"cluster": "new"} | claim]
    assert survey.kept(workload(kept=told)) == [{"cluster": "gone"} | claim, *there]


def nothing_held(*, known: bool = True) -> OwnedObjects:
    return cast(
        "OwnedObjects",
        SimpleNamespace(
            holders=lambda uid: set(),
            may_hold=lambda w, name: not known,
            asked=lambda session, w, kind="": known,
        ),
    )


@pytest.mark.proves("N2", "R5")
@pytest.mark.parametrize(("deleting", "told"), [(False, ["m2"]), (True, ["m1", "m2"])])
@pytest.mark.parametrize("contact", Contact)
async def test_a_cluster_that_only_kept_something_is_told_when_the_workload_ends(
    contact: Contact, deleting: bool, told: list[str]
):
    """And not after a restart, while it is not known whether more is there."""
    survey = Survey(ground_of(contact), inventory=nothing_held(known=False), revisions=NO_ROLLOUT)
    kept = [{"cluster": "m1", "kind": "ConfigMap", "namespace": "shop", "name": "c"}]
    moved = workload(
        placements=[{"cluster": "m2", "replicas": 1}],
        clusters=[{"name": "m2", "state": "Running", "replicas": 1}],
        kept=kept,
        footprint={"clusters": "m1,m2"},
        deleting=deleting,
    )
    assert [each.name async for each in survey.seen(moved, {})] == told


@pytest.mark.proves("R5", "M51")
@pytest.mark.parametrize(
    ("contact", "lists", "told"),
    [
        (Contact.CONNECTING, False, ["m1", "m2"]),
        (Contact.SERVING, True, ["m1", "m2"]),
        (Contact.SERVING, False, ["m2"]),
        (Contact.AWAY, False, ["m2"]),
    ],
)
async def test_what_leaves_is_told_after_a_restart_though_nothing_says_that_it_was_sent(
    contact: Contact, *, lists: bool, told: list[str]
):
    """As on a hub that was set back; a moment later the member shows whether something is there."""
    ground = ground_of(contact, lists=lists)
    survey = Survey(ground, inventory=nothing_held(known=False), revisions=NO_ROLLOUT)
    words = "kept until the other clusters are ready"
    left = {"name": "m1", "state": "Leaving", "replicas": 0, "current": 1, "message": words}
    moved = workload(
        placements=[{"cluster": "m2", "replicas": 1}],
        clusters=[left, {"name": "m2", "state": "Running", "replicas": 1}],
        footprint={"clusters": "m2"},
    )
    found = {each.name: each async for each in survey.seen(moved, {})}
    assert sorted(found) == told
    for each in [found["m1"]] if "m1" in found else []:
        entry = share_of(each, moved.profile, left, said=0).entry
        assert {name: entry[name] for name in left} == left


@pytest.mark.proves("KD19")
@pytest.mark.parametrize("contact", Contact)
async def test_a_cluster_that_only_kept_something_is_told_while_it_is_open_what_it_has_done(
    contact: Contact,
):
    survey = Survey(ground_of(contact), inventory=nothing_held(known=False), revisions=NO_ROLLOUT)
    moved = workload(
        placements=[{"cluster": "m2", "replicas": 1}],
        clusters=[{"name": "m2", "state": "Running", "replicas": 1}],
        kept=[{"cluster": "m1", "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "c"}],
        leaving=[{"cluster": "m1", "replicas": 1, "completions": 3}],
        footprint={"clusters": "m1,m2"},
    )
    assert [each.name async for each in survey.seen(moved, {})] == ["m1", "m2"]


@pytest.mark.proves("G24", "R5")
@pytest.mark.parametrize("contact", [Contact.SERVING, Contact.AWAY])
async def test_a_cluster_that_has_shown_its_end_is_no_longer_spoken_of(contact: Contact):
    """Though nobody knows what more it may hold, as not all kinds are listed there."""
    survey = Survey(ground_of(contact), inventory=nothing_held(known=False), revisions=NO_ROLLOUT)
    left = [{"name": "m1", "state": "Leaving", "replicas": 0}]
    taken_back = workload(placements=[], clusters=left, footprint={"clusters": "m2"})
    assert [each.name async for each in survey.seen(taken_back, {})] == ["m2"]


@pytest.mark.proves("S9")
@pytest.mark.parametrize("contact", [None, Contact.AWAY])
async def test_ten_thousand_placements_leave_room_for_others(contact: Contact | None):
    many = 10_000
    placements = [{"cluster": f"c{number}", "replicas": 1} for number in range(many)]
    wide = workload(placements=placements)
    survey, turns = Survey(ground_of(contact), inventory=nothing_held(), revisions=NO_ROLLOUT), 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    shares = [share_of(each, DEPLOYMENT, {}, said=0) async for each in survey.seen(wide, {})]
    beside.cancel()
    assert turns >= many / 400, "others run after every few hundred"
    assert wide.placements is wide.placements, "it is put together once"
    status = status_of(wide, [each.told for each in shares], T0)
    assert len(propagated(status)["message"]) <= 4096
    if contact is None:
        assert len(shares) == STRANGERS, "clusters that do not exist are told in one entry"
        assert f"{many - STRANGERS} more" in shares[-1].entry["message"]
        assert "MemberCluster" in propagated(status)["message"]
    else:
        assert len(shares) == many


@pytest.mark.proves("A24", "KD41")
@pytest.mark.parametrize(("wanted", "runs"), [(0, False), (2, True)])
async def test_copies_that_run_nothing_stand_in_for_none_that_leaves(
    wanted: int, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though each of them is ready: no node of their clusters takes a pod of the DaemonSet."""
    spec = {"template": {"apiVersion": "apps/v1", "kind": "DaemonSet"}}
    placed = {"placements": [{"cluster": "m1", "replicas": 1}]}
    agent = workload_of({"metadata": {"name": "agent"}, "spec": spec, "status": placed})
    status = {
        "observedGeneration": 7,
        **dict.fromkeys(("desiredNumberScheduled", "numberReady"), wanted),
        "updatedNumberScheduled": wanted,
    }
    there = managed(
        Resource("apps", "v1", "daemonsets", "DaemonSet"),
        {"metadata": {"name": "agent", "generation": 7}, "status": status},
    )
    one = seen(main=there, units_asked=1)
    survey = Survey(ground_of(None), inventory=nothing_held(), revisions=NO_ROLLOUT)
    written = replace(one, outcome=Outcome(one.desired))
    monkeypatch.setattr(survey, "observe", lambda *_: written)
    assert share_of(written, agent.profile, {}, said=0).entry["state"] == "Running"
    assert await survey.runs(agent, {}) is runs


@pytest.mark.proves("KD5")
def test_the_known_versions_of_a_kind_are_told_where_another_one_says_nothing() -> None:
    spec = {"template": {"apiVersion": "ray.io/v1alpha1", "kind": "RayCluster"}}
    placed = {"placements": [{"cluster": "m1", "replicas": 1}]}
    meta = {"name": "ray", "namespace": "shop", "uid": "u1", "generation": 1}
    cluster = workload_of({"metadata": meta, "spec": spec, "status": placed})
    resource = Resource("ray.io", "v1alpha1", "rayclusters", "RayCluster")
    one = seen(main=managed(resource, {"metadata": {"name": "ray"}}), units_asked=1)
    share = share_of(replace(one, outcome=Outcome(one.desired)), cluster.profile, {}, said=1)
    ready = find(status_of(cluster, [share.told], T0), "Ready")
    assert (ready["reason"], ready["message"]) == (
        "ReadinessUnknown",
        "m1: RayCluster ray says nothing; known versions of a RayCluster are v1",
    )


@pytest.mark.proves("KD34", "A3")
def test_a_share_that_says_nothing_is_unknown_and_the_condition_tells_what_to_do() -> None:
    spec = {
        "template": {"apiVersion": "example.com/v1", "kind": "Widget"},
        "replicasPath": "spec.size",
    }
    placed = {"placements": [{"cluster": "m1", "replicas": 3}]}
    meta = {"name": "w", "namespace": "shop", "uid": "u1", "generation": 1}
    widget = workload_of({"metadata": meta, "spec": spec, "status": placed})
    resource = Resource("example.com", "v1", "widgets", "Widget")

    def told_of(status: Any) -> dict[str, Any]:
        there = managed(resource, {"metadata": {"name": "w"}, "status": status})
        one = seen(main=there)
        share = share_of(replace(one, outcome=Outcome(one.desired)), widget.profile, {}, said=1)
        return status_of(widget, [share.told], T0)

    silent = told_of({"replicas": 3, "readyReplicas": 3})
    (entry,) = silent["clusters"]
    assert (entry["health"], entry["ready"], entry["state"]) == ("Unknown", 0, "Creating")
    assert silent["readySummary"] == "0/3"
    ready = find(silent, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ReadinessUnknown")
    assert ready["message"] == (
        "m1: Widget w says nothing; ready of a WorkloadKind widget.example.com says when it is "
        "ready"
    )
    assert find(silent, RECONCILING)["status"] == "True"
    # A new process says the same until it has looked.
    after = {"placements": placed["placements"], **silent}
    known = workload_of({"metadata": meta, "spec": spec, "status": after})
    connecting = share_of(seen(Contact.CONNECTING), known.profile, entry, said=1)
    assert find(status_of(known, [connecting.told], T0), "Ready") == ready
    says = told_of({"conditions": [{"type": "Ready", "status": "True"}]})
    assert (says["clusters"][0]["health"], says["state"]) == ("Healthy", "Running")
    assert find(says, "Ready")["status"] == "True"
    not_yet = told_of({"conditions": [{"type": "Ready", "status": "False"}]})
    assert not_yet["clusters"][0]["health"] == "Progressing"
    assert find(not_yet, "Ready")["reason"] == "ReplicasNotReady"


@pytest.mark.proves("KD38")
def test_a_share_that_is_stuck_is_degraded_with_the_words_of_its_member() -> None:
    stuck = {"type": "Stalled", "status": "True", "message": "no such volume"}
    resource = Resource("example.com", "v1", "widgets", "Widget")
    body = {"metadata": {"name": "w"}, "status": {"conditions": [stuck]}}
    one = seen(main=managed(resource, body))
    profile = profile_of("example.com/v1", "Widget")
    entry = share_of(replace(one, outcome=Outcome(one.desired)), profile, {}, said=1).entry
    assert (entry["health"], entry["message"]) == ("Degraded", "no such volume")


@pytest.mark.proves("KD35", "A3")
def test_ready_says_what_an_object_that_runs_whole_waits_for() -> None:
    template = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": {}}
    placed = {"placements": [{"cluster": "m1", "replicas": 1}]}
    meta = {"name": "ray", "namespace": "shop", "uid": "u1", "generation": 1}
    ray = workload_of({"metadata": meta, "spec": {"template": template}, "status": placed})
    resource = Resource("ray.io", "v1", "rayclusters", "RayCluster")
    one = seen(main=managed(resource, {"metadata": {"name": "ray"}}), units_asked=1)
    share = share_of(replace(one, outcome=Outcome(one.desired)), ray.profile, {}, said=1)
    assert ready(status_of(ray, [share.told], T0))["message"] == (
        "0 of 1 replicas are ready; m1: conditions.RayClusterProvisioned is missing"
    )


@pytest.mark.proves("KD57")
def test_ready_says_that_pods_keep_the_template_of_before() -> None:
    """The entry alone tells it, so other tellers say it too."""
    judged = Judged(ShareHealth.HEALTHY)
    main = ManagedObject(metadata=Meta(name="web"), kind="RayCluster", judged=judged)
    for kept, said in ((0, ""), (1, "1 pod keeps"), (2, "2 pods keep")):
        one = seen(main=main, kept_pods=kept)
        share, status = told(replace(one, outcome=Outcome(one.desired)), {})
        message = f"RayCluster web: template not rolled out, {said} that of before"
        assert share.entry["message"] == (message if kept else "")
        assert ready(status)["message"].endswith(f"; m1: {message}") is bool(kept)


@pytest.mark.proves("CT1", "M32", "Q30")
def test_what_a_lost_cluster_still_holds_is_no_part_of_the_state() -> None:
    written = Outcome(DesiredShare("u1", 1, 3))
    good = share_of(seen(main=main(), outcome=written), DEPLOYMENT, RAN, said=0)
    lost = replace(seen(Contact.AWAY, trouble="m2 is away"), name="m2", leaving=True)
    away = share_of(lost, DEPLOYMENT, {"state": "Running", "replicas": 2, "ready": 2}, said=1)
    assert away.entry["state"] == "Unreachable"
    alone = status_of(workload(desired=3), [good.told], T0)
    both = status_of(workload(desired=3), [good.told, away.told], T0)
    assert (both["state"], both["readySummary"]) == ("Running", "3/3")
    assert ready(both)["status"] == ready(alone)["status"] == "True"
    assert propagated(both)["reason"] == "ClusterUnreachable", "what is there has to go"
    placed = workload(desired=5, placements=[{"cluster": n, "replicas": 3} for n in ("m1", "m2")])
    wanted = status_of(placed, [good.told, away.told], T0)
    assert (wanted["state"], ready(wanted)["status"]) == ("Unreachable", "False")
    silent = status_of(workload(desired=3), [{**good.told, "state": "Unreachable"}], T0)
    assert silent["state"] == "Unreachable", "nothing is being created there"
