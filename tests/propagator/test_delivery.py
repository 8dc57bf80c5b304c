"""`delivery: None` on real members: nothing is written there, what stood there is let go of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from crds.names import LABEL_WORKLOAD_UID
from machinery.types.metadata import Meta, OwnerReference
from propagator.hub.workloads import touches
from propagator.members.pod_index import PodCounts
from propagator.members.pods import Main, OtherLabels, claim_of
from propagator.reconciler import WorkloadReconciler
from propagator.status.aggregation import OthersShare, undelivered_status
from propagator.types.workload import Workload, workload_of
from tests import kstatus
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context, OneWorkload

pytestmark = pytest.mark.proves("CT8")

NONE: dict[str, Any] = {"delivery": "None"}


# --- pure -----------------------------------------------------------------------------------------


def workload(**status: Any) -> Workload:
    return workload_of(
        {
            "metadata": {"namespace": "shop", "name": "web", "uid": "u", "generation": 2},
            "spec": {**NONE, "template": {"apiVersion": "apps/v1", "kind": "Deployment"}},
            "status": {
                "observed": {"controller": 2},
                "desired": 3,
                "placements": [{"cluster": "m1", "replicas": 3}],
                **status,
            },
        }
    )


def told(of: Workload, *seen: OthersShare) -> dict[str, Any]:
    return undelivered_status(of, seen, FakeClock().now())


def ready(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


def test_ready_is_that_the_present_generation_is_decided() -> None:
    share = OthersShare("m1", 3, PodCounts())
    assert ready(told(workload(), share)) == {"Ready": ("True", "Decided")}
    old = told(workload(observed={"controller": 1}), share)
    assert ready(old) == {
        "Ready": ("False", "NotDecided"),
        "Reconciling": ("True", "NotDecided"),
    }
    assert old["observedGeneration"] == 1
    meta = {"generation": 2}
    new = told(workload(), share)
    assert kstatus.compute({"metadata": meta, "status": new}) == kstatus.CURRENT
    assert kstatus.compute({"metadata": meta, "status": old}) == kstatus.IN_PROGRESS
    refused = {
        "type": "Scheduled",
        "status": "False",
        "reason": "InsufficientCapacity",
        "observedGeneration": 2,
    }
    found = ready(told(workload(conditions=[refused], placements=[], pending=3)))
    assert found["Stalled"] == ("True", "InsufficientCapacity")
    propagated = {"type": "Propagated", "status": "True", "reason": "Propagated"}
    assert "Propagated" not in ready(told(workload(conditions=[propagated]), share))


def test_an_entry_says_what_is_seen_and_else_what_was_said_before() -> None:
    seen = told(workload(), OthersShare("m1", 3, PodCounts(3, 3, current=3, capacity_version=7)))
    (entry,) = seen["clusters"]
    assert (entry["scheduled"], entry["capacityVersion"], entry["state"]) == (3, 7, "Running")
    assert (seen["state"], seen["readySummary"]) == ("Running", "3/3")
    again = workload(clusters=[entry])
    assert told(again, OthersShare("m1", 3, None))["clusters"] == [entry]
    (away,) = told(again, OthersShare("m1", 3, None, "m1: no route"))["clusters"]
    assert (away["state"], away["message"], away["scheduled"]) == ("Unreachable", "m1: no route", 3)


@pytest.mark.parametrize("sent", [True, False])
async def test_only_a_member_that_was_sent_something_is_looked_at(sent: bool) -> None:
    of = workload(footprint={"clusters": "m1" if sent else ""})
    assert touches(of, "m1") is sent
    did: list[str] = []

    async def remove(*_: Any) -> None:
        did.append("remove")

    async def sweep(*_: Any) -> None:
        pass

    parts: dict[str, Any] = {
        "workloads": OneWorkload(of),
        "judged": SimpleNamespace(known=True),
        "gates": SimpleNamespace(starting=lambda _: False),
        "revisions": SimpleNamespace(known=lambda found, _: found),
        "inventory": SimpleNamespace(holds=lambda *_: False),
        "shares": SimpleNamespace(remove=remove),
        "guard": None,
        "once": None,
        "orphans": SimpleNamespace(sweep=sweep),
        "claims": None,
        "leftovers": None,
        "reporter": None,
    }
    context = cast("Any", Context(clock=FakeClock(), registry=None, fresh=lambda: True))
    session = cast("Any", SimpleNamespace(name="m1", facts=SimpleNamespace(labels={})))
    await WorkloadReconciler(context, **parts).reconcile(session, of.metadata.key)
    assert did == (["remove"] if sent else [])
    assert of.ended
    assert of.orphans


@pytest.mark.parametrize(
    ("uid", "name", "namespace", "ours"),
    [
        ("", "web-5d7f", "shop", True),
        ("u", "web-5d7f", "shop", True),
        ("another", "web-5d7f", "shop", False),
        ("", "other-5d7f", "shop", False),
        ("", "web-5d7f", "elsewhere", False),
    ],
)
def test_a_pod_is_known_by_its_controller(uid: str, name: str, namespace: str, ours: bool) -> None:
    objects = OtherLabels()
    objects.note(Main("u", "shop", "apps", "Deployment", "web"), ("shop", "web"), "u", "")
    labels = {"pod-template-hash": "5d7f", **({LABEL_WORKLOAD_UID: uid} if uid else {})}
    owner = OwnerReference("ReplicaSet", name, "r", "apps/v1", controller=True)
    claim = claim_of(Meta(namespace=namespace, labels=labels, owner_references=[owner]))
    assert claim is not None
    assert objects.keys(claim) == ({("shop", "web")} if ours else set())
