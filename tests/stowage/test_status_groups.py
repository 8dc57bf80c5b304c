"""`stowage status` of WorkloadGroups: which are told, once for all their Workloads, and for whom."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import Result

from crds.groups.workloadgroup import GroupScheduledReason
from machinery.clock import timestamp
from stowage.report import advice
from tests.stowage.plain_hub import hub_of
from tests.stowage.test_status import LONG_AGO, Hub, condition, good, run, workload

pytestmark = pytest.mark.proves("U4")


hub = hub_of(Hub)


def group(
    name: str, phase: str = "Pending", conditions: list[dict[str, Any]] | None = None, **status: Any
) -> dict[str, Any]:
    """One that needs four units, made long ago."""
    told = {"phase": phase, "conditions": conditions or [], **status}
    meta = {"name": name, "namespace": "shop", "creationTimestamp": LONG_AGO}
    return {"metadata": meta, "spec": {"minMember": 4}, "status": told}


def ago(seconds: float) -> str:
    return timestamp(datetime.now(UTC) - timedelta(seconds=seconds))


def said(reason: str, message: str = "so it is", since: str = LONG_AGO) -> list[dict[str, Any]]:
    [told] = condition("Scheduled", reason, message)
    return [{**told, "lastTransitionTime": since}]


def rows(result: Result) -> list[str]:
    listed = result.output[result.output.index("Groups that wait") :].split("\n\n")[0]
    return [" ".join(line.split()) for line in listed.splitlines()[1:]]


def test_groups_that_are_well_are_counted_and_not_listed(hub: Hub) -> None:
    hub.groups = [
        group("runs", "Running", good("Scheduled")),
        group("done", "Finished", said("GroupDenied")),
        group("new"),
    ]
    hub.groups[2]["metadata"]["creationTimestamp"] = ago(1)
    del hub.groups[2]["status"]
    result = run(hub.file)
    assert result.exit_code == 0
    assert "WorkloadGroups: 1 Running, 1 Finished, 1 Undecided\n" in result.output
    assert "Groups that wait" not in result.output


@pytest.mark.proves("G4", "G17")
@pytest.mark.parametrize(
    "reason", [r.value for r in GroupScheduledReason if r.value != "Scheduled"]
)
def test_a_group_that_waits_for_long_needs_a_person(reason: str, hub: Hub) -> None:
    hub.groups = [group("batch", conditions=said(reason), scheduled=3)]
    result = run(hub.file)
    assert result.exit_code == 1
    assert rows(result) == [
        "NAME REPLICAS STATE SINCE WHY",
        f"shop/batch 3 of 4 {reason} 3d so it is",
        f"what helps: {advice.named(advice.GROUPS[reason], 'shop/batch')}",
    ]


@pytest.mark.proves("G12", "G16")
def test_one_that_holds_units_or_waits_since_a_moment_ago_needs_nobody(hub: Hub) -> None:
    hub.groups = [
        group("holds", "Scheduling", said("WaitingForGroup"), waiting=3, scheduled=0),
        group("young", "Pending", said("WaitingForGroup", since=ago(2)), scheduled=1),
    ]
    result = run(hub.file)
    assert result.exit_code == 0
    assert [row.split(" ")[:5] for row in rows(result)[1:]] == [
        ["shop/holds", "3", "of", "4", "WaitingForGroup"],
        ["shop/young", "1", "of", "4", "WaitingForGroup"],
    ]


@pytest.mark.proves("G24")
def test_one_that_was_taken_away_says_why_and_when_it_is_tried_again(hub: Hub) -> None:
    soon = timestamp(datetime.now(UTC) + timedelta(seconds=100))
    why = said("PropagationFailed", "worker is Unreachable on member-2", ago(20))
    hub.groups = [
        group("batch", conditions=why, gate="Closed", failures=1, retryTime=soon),
        group("going", conditions=why, gate="Closed", failures=1, retryTime=ago(5)),
        group("gone", conditions=why, failures=1, retryTime=soon),
        group("wrong", conditions=said("InvalidGroup", "is wrong"), failures=1, retryTime=soon),
        group("again", conditions=said("GroupDenied"), failures=1, retryTime=ago(5)),
    ]
    result = run(hub.file)
    assert result.exit_code == 1
    told = "\n".join(rows(result))
    assert "is wrong; tried again in 9" in told
    assert "worker is Unreachable on member-2; tried again when all is gone" in told
    assert told.count("; tried again ") == 2, "PropagationFailed says by itself when"
    assert advice.GROUPS["PropagationFailed"] in told


@pytest.mark.proves("G25")
def test_one_whose_quorum_is_out_of_reach_needs_a_person(hub: Hub) -> None:
    hub.groups = [group("lost", "Failed", good("Scheduled"), scheduled=4, failed=2)]
    result = run(hub.file)
    assert result.exit_code == 1
    assert rows(result)[1].startswith("shop/lost 4 of 4 Failed")
    assert rows(result)[2] == f"what helps: {advice.GROUPS['Failed']}"
    told = json.loads(run(hub.file, "-o", "json").output)
    assert told["workloadGroups"] == {"Failed": 1}
    assert [each["name"] for each in told["groups"]] == ["shop/lost"]


LABELS = {"stowage.dev/workload-group": "batch"}


def waiting(
    name: str,
    reason: str,
    message: str = "so it is",
    since: str = LONG_AGO,
    place: str = "itself",
) -> dict[str, Any]:
    """A Workload of the group that says so, by a label in that place."""
    made = workload(name, "Pending", assigned=0, pending=4, conditions=said(reason, message, since))
    pods = {"metadata": {"labels": LABELS}} if place == "pods" else {}
    template = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": pods}}
    if place == "itself":
        made["metadata"]["labels"] = LABELS
    elif place == "template":
        template["metadata"] = {"labels": LABELS}
    made["spec"]["targetDeployment" if place == "deployment" else "template"] = template
    if place == "deployment":
        template |= {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": LABELS}}
    return made


@pytest.mark.parametrize("place", ["itself", "template", "pods", "deployment"])
@pytest.mark.parametrize(
    ("reason", "of_group"),
    [
        ("GroupDenied", "GroupDenied"),
        ("WaitingForGroup", "WaitingForGroup"),
        ("ScheduleTimeout", "ScheduleTimeout"),
        ("InvalidGroup", "InvalidGroup"),
        ("InvalidGroup", "TooManyWorkloads"),
        ("GroupDenied", "PropagationFailed"),
    ],
)
def test_a_gang_counts_once_however_many_workloads_it_has(
    reason: str, of_group: str, place: str, hub: Hub
) -> None:
    hub.groups = [group("batch", conditions=said(of_group))]
    hub.workloads = [waiting(f"w{n}", reason, place=place) for n in range(100)]
    result = run(hub.file)
    assert "; 1 thing needs a person" in result.output
    assert result.output.count("what helps: ") == 1
    hub.faults = {"workloadgroups": 403}
    assert "; 100 things need a person" in run(hub.file).output, "nobody else tells of it"


@pytest.mark.parametrize(
    "reason", ["GroupDenied", "WaitingForGroup", "ScheduleTimeout", "InvalidGroup"]
)
def test_a_workload_that_waits_beside_a_group_that_is_well_needs_a_person(
    reason: str, hub: Hub
) -> None:
    ran = {"gate": "Open", "quorumTime": LONG_AGO}
    hub.groups = [
        group("batch", "Running", good("Scheduled"), scheduled=4, **ran),
        group("other", conditions=said(reason)),
    ]
    hub.workloads = [waiting("late", reason)]
    result = run(hub.file)
    assert "; 2 things need a person" in result.output
    assert f"what helps: {advice.named(advice.SCHEDULED[reason], 'shop/late')}" in result.output
    hub.groups.pop()
    assert run(hub.file).exit_code == 1
    hub.workloads = [waiting("new", reason, since=ago(2))]
    assert run(hub.file).exit_code == (0 if reason == "WaitingForGroup" else 1)


@pytest.mark.proves("G12")
def test_who_has_just_begun_to_wait_for_siblings_needs_nobody_yet(hub: Hub) -> None:
    text = "WorkloadGroup shop/batch has 3 replicas in all its Workloads, minMember is 4"
    for since, code in ((ago(2), 0), (LONG_AGO, 1)):
        hub.groups = [group("batch", "Pending", said("GroupIncomplete", text, since=since))]
        hub.workloads = [waiting("first", "GroupIncomplete", text, since=since)]
        result = run(hub.file)
        assert result.exit_code == code
        assert ("what helps: the Workloads that are missing" in result.output) == (code == 1)
        assert "things need" not in result.output
        hub.groups.clear()
        assert run(hub.file).exit_code == code
