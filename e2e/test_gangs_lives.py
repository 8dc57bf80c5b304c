"""Gangs after their start: their kinds, their edits, and the other rules that bound them.

Room and members as in `test_gangs`: each test makes the room that it needs.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from crds.names import LABEL_POLICY
from e2e.gangs import Yard
from e2e.harness import steady, wait
from e2e.stage import MEMBERS

pytestmark = pytest.mark.long
ZONE = "topology.kubernetes.io/zone"


@pytest.mark.proves("G3", "G24")
def test_a_gang_that_runs_is_edited_scaled_and_outlives_its_group(yard: Yard) -> None:
    yard.room(3, 3, 3)
    yard.group(4)
    yard.workers("worker", 4)
    yard.until_running("worker", 4)
    assert yard.until(phase="Running").get("quorumTime")
    uids = yard.uids("worker")

    yard.workers("worker", 4, tag="3.9")
    for member in uids:
        wait(f"the new image on {member}", lambda m=member: image(yard, m).endswith(":3.9"))
    yard.until_running("worker", 4)
    assert yard.uids("worker") == uids, "a roll-out is no new start"

    yard.workers("worker", 8, tag="3.9")
    yard.until_running("worker", 8)
    yard.until(scheduled=8, running=8)
    yard.workers("worker", 2, tag="3.9")  # below the quorum: it has run, nothing is torn down
    yard.until_running("worker", 2)
    steady(yard.stage, "two stay", lambda: yard.pods("worker").total() == 2)
    yard.workers("worker", 4, tag="3.9")
    yard.until_running("worker", 4)

    kept = yard.uids("worker")
    yard.delete("wg", "batch")
    steady(yard.stage, "what runs outlives its group", lambda: yard.uids("worker") == kept)
    yard.group(4)
    yard.until(phase="Running", running=4)
    steady(yard.stage, "and is taken over by a new one", lambda: yard.uids("worker") == kept)
    yard.delete("wl", "worker")
    wait("the members to be empty", lambda: yard.nothing("worker"))
    yard.until(phase="Pending", workloads=0, scheduled=0, running=0)


def image(yard: Yard, member: str) -> str:
    """Return the image of the worker's Deployment on that member."""
    found = yard.stage.seen(member, yard.space, "worker") or {}
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])


@pytest.mark.proves("G24")
def test_one_that_goes_after_the_quorum_takes_nobody_with_it(yard: Yard) -> None:
    yard.room(2, 2, 2)
    yard.group(4)
    yard.workers("driver", 1)
    yard.workers("worker", 3)
    yard.until(phase="Running", running=4)
    uids = yard.uids("worker")
    yard.stage.signal("member-1", "freeze")
    try:
        wait("member-1 to be away", lambda: yard.stage.ready("member-1")["reason"] == "Unreachable")
        others = {m: uid for m, uid in uids.items() if m != "member-1"}
        assert others

        def stand() -> bool:
            for member, uid in others.items():
                found = yard.stage.seen(member, yard.space, "worker") or {}
                assert found["metadata"]["uid"] == uid
            return yard.told().get("gate") == "Open"

        steady(yard.stage, "the others stand", stand)
    finally:
        yard.stage.signal("member-1", "thaw")
    yard.delete("wl", "driver")
    steady(yard.stage, "the workers stand", lambda: yard.uids("worker") == uids)


@pytest.mark.proves("G25", "G26")
def test_two_jobs_in_a_group_end(yard: Yard) -> None:
    yard.room(2, 2, 0)
    yard.group(4)
    yard.workers("first", 2, template=yard.job("first", 2), distribution="Single")
    steady(yard.stage, "one Job alone does not start", yard.nothing)
    yard.workers("second", 2, template=yard.job("second", 2), distribution="Single")
    yard.until(phase="Finished", succeeded=4, failed=0)
    assert yard.until(phase="Finished").get("quorumTime")
    ended = 0
    for member in MEMBERS:
        for job in yard.stage.members[member].items("jobs", yard.space):
            ended += job["status"].get("succeeded", 0)
    assert ended == 4


@pytest.mark.proves("G25", "G26")
def test_a_custom_kind_goes_through_the_phases(yard: Yard) -> None:
    kind = f"{yard.space}.example.com"
    for member in MEMBERS:
        yard.stage.members[member].apply(crd(kind))
        yard.stage.members[member](
            "wait", "--for=condition=Established", f"crd/trainings.{kind}", "--timeout=60s"
        )
    yard.group(4)
    yard.until(phase="Pending")
    yard.workers("left", 2, **training(kind, "left", "member-1"))
    yard.until(phase="Pending", desired=2)
    cordon(yard, "member-2", closed=True)
    try:
        yard.workers("right", 2, **training(kind, "right", "member-2"))
        yard.until(phase="Scheduling", desired=4, scheduled=0)
    finally:
        cordon(yard, "member-2", closed=False)
    yard.until(scheduled=4)

    def say(name: str, member: str, **status: int) -> None:
        at = ("-n", yard.space, "patch", f"trainings.{kind}", name, "--subresource=status")
        patch = json.dumps({"status": status})
        wait(
            f"{name} on {member}",
            lambda: yard.stage.members[member](*at, "--type=merge", "-p", patch),
        )

    yard.until(phase="Scheduled", running=0)
    say("left", "member-1", readyReplicas=2)
    yard.until(phase="Scheduled", running=2)
    say("right", "member-2", readyReplicas=2)
    yard.until(phase="Running", running=4)
    for name, member in (("left", "member-1"), ("right", "member-2")):
        say(name, member, readyReplicas=0, succeeded=2)
    yard.until(phase="Finished", succeeded=4, running=0)


def cordon(yard: Yard, member: str, *, closed: bool) -> None:
    """Cordon a member, or uncordon it; return once the controller knows."""
    patch = json.dumps({"spec": {"unschedulable": closed}})
    yard.hub("patch", "mc", member, "--type=merge", "-p", patch)
    generation = yard.hub.get("mc", member)["metadata"]["generation"]
    wait(
        f"the controller to know {member}",
        lambda: yard.stage.ask(f"/apis/v1/clusters/{member}")["generation"] >= generation,
    )


def crd(group: str) -> dict[str, Any]:
    """Return a kind whose status only the test writes: nothing is ready until it does."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    status = {**anything, "default": {"readyReplicas": 0}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {**anything, "properties": {"status": status}}},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"trainings.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "trainings", "singular": "training", "kind": "Training"},
            "versions": [version],
        },
    }


def training(group: str, name: str, member: str) -> dict[str, Any]:
    """Return the spec of a Workload with an object of that kind, on that member."""
    body = {
        "apiVersion": f"{group}/v1",
        "kind": "Training",
        "metadata": {"name": name},
        "spec": {"replicas": 2},
    }
    return {
        "template": body,
        "replicasPath": "spec.replicas",
        "distribution": "Single",
        "targetCluster": {"name": member},
    }


@pytest.mark.proves("G25")
def test_a_group_of_the_same_name_elsewhere_is_another_one(yard: Yard) -> None:
    yard.room(2, 2, 2)
    other = yard.beside(f"{yard.space}-b")
    yard.hub("create", "namespace", other.space)
    try:
        other.group(4)
        other.workers("worker", 3)
        yard.group(4)
        yard.workers("worker", 4)
        yard.until_running("worker", 4)
        yard.until(phase="Running", running=4, workloads=1)
        other.until_refused("worker", "has 3 replicas in all its Workloads, minMember is 4")
        status = other.told()
        assert status.get("phase") in ("Pending", "Scheduling")
        assert not status.get("running")
        assert other.nothing()
    finally:
        other.hub("-n", other.space, "delete", "wl,wg", "--all", timeout=180)


@pytest.mark.proves("G13", "K3")
def test_the_quota_of_a_policy_counts_before_the_quorum(yard: Yard) -> None:
    yard.room(3, 3, 3)
    yard.hub.apply(policy(yard.space, 1, 1, 1))
    yard.group(4)
    yard.workers("worker", 4, labels={LABEL_POLICY: "zones"})
    wait("a refusal", lambda: yard.says("worker")["reason"] in REFUSALS)
    steady(yard.stage, "three of four do not start", yard.nothing)
    yard.hub.apply(policy(yard.space, 1, 2, 1))
    assert yard.until_running("worker", 4) == {"member-1": 1, "member-2": 2, "member-3": 1}
    yard.until(phase="Running", scheduled=4)


REFUSALS = ("GroupDenied", "WaitingForGroup", "ReplicasReached")


def policy(namespace: str, *quotas: int) -> dict[str, Any]:
    """Return a Required policy with so many units in each zone."""
    allocation = [{"name": f"zone-{n}", "replicas": q} for n, q in enumerate(quotas, start=1)]
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadPolicy",
        "metadata": {"name": "zones", "namespace": namespace},
        "spec": {
            "topologyKey": ZONE,
            "labelSelector": {"matchLabels": {"app": "worker"}},
            "allocationType": "Required",
            "allocationPolicy": allocation,
        },
    }


@pytest.mark.proves("G3", "W2")
def test_a_gang_under_a_spread_fills_its_first_pool_first(yard: Yard) -> None:
    yard.room(3, 3, 3)
    pools = [("member-1", {"maxReplicas": 1}), ("member-2", {"maxReplicas": 2}), ("member-3", {})]
    subsets = [
        {
            "name": member,
            "requiredNodeSelectorTerm": {
                "matchExpressions": [
                    {"key": "stowage.dev/cluster", "operator": "In", "values": [member]}
                ]
            },
            **cap,
        }
        for member, cap in pools
    ]
    target = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": "worker"}
    yard.hub.apply(
        {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "WorkloadSpread",
            "metadata": {"name": "worker", "namespace": yard.space},
            "spec": {"targetRef": target, "subsets": subsets},
        }
    )
    yard.group(4)
    yard.workers("worker", 4)
    assert yard.until_running("worker", 4) == {"member-1": 1, "member-2": 2, "member-3": 1}
    yard.until(phase="Running", scheduled=4)


@pytest.mark.proves("G4")
def test_a_gang_of_one_zone_is_whole_in_it_or_not_at_all(yard: Yard) -> None:
    yard.room(3, 3, 3)
    yard.group(4, topology={"topologyKey": ZONE, "mode": "Required"})
    yard.workers("driver", 1)
    yard.workers("worker", 3)
    wait("a refusal", lambda: yard.says("worker")["reason"] in REFUSALS)
    steady(yard.stage, "no zone has room for all", yard.nothing)
    yard.offer("member-2", 4)
    assert yard.until_running("worker", 3) == {"member-2": 3}
    assert yard.until_running("driver", 1) == {"member-2": 1}
