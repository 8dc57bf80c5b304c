"""Objects with absurd numbers beside ordinary ones: they cost themselves, and nobody else.

Everything goes in as the JSON that the hub stores, past any schema: what is stored may be older
than its rules, and a status has other writers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.binding.statuspatch import patch_of
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.eventhandlers import SchedulerCache, known
from controller.explain.record import record
from controller.features.workloadpolicy.counts import Tally, WorkloadPolicy
from controller.features.workloadpolicy.feature import WorkloadPolicies, status_of
from controller.framework.runtime import framework as runtime
from controller.model.objects import MemberCluster, Workload
from controller.plugins.defaults import PrioritySort
from controller.scheduling.cycle import decide
from tests.controller.make import NOW, ROOMY, ZONE
from tests.examples import examples

pytestmark = pytest.mark.proves("S2")

PROFILE = default_profile()
INT64 = 2**63 - 1
COUNTS = [0, 1, -1, 2**31 - 1, 2**31, 2**53, INT64, INT64 + 1, 2**70, -(2**70)]
counts = st.sampled_from(COUNTS)
amounts = st.sampled_from(
    ["0", "1n", "9E", "8Ei", str(INT64), "9" * 60, "0." + "9" * 58, "1e999", "1e-999", "1e999999",
     "-1", "-9E", "", "NaN", "9" * 5000, "100m"]
)  # fmt: skip
asked = st.one_of(amounts, counts, st.sampled_from([1.5, 1e300, True, None, {}, []]))
requests = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "example.com/gpu"]), asked)
moments = st.sampled_from(
    ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00",
     "0001-01-01T00:00:00+14:00", "2026-01-02T03:04:05Z"]
)  # fmt: skip


def wire(kind: Any, document: Mapping[str, Any]) -> Any:
    """The object as an informer decodes it."""
    return msgspec.json.decode(json.dumps(document).encode(), type=kind)


def member(name: str, groups: Any, **status: Any) -> MemberCluster:
    ready = {"type": "Ready", "status": "True"}
    return wire(
        MemberCluster,
        {
            "metadata": {"name": name, "labels": {ZONE: name}},
            "status": {"conditions": [ready], "nodeGroups": groups, **status},
        },
    )


def workload(name: str, status: Mapping[str, Any] | None = None, **spec: Any) -> Workload:
    pod = {"containers": [{"name": "main", "resources": {"requests": spec.pop("requests", {})}}]}
    body = {"template": {"metadata": {"labels": {"app": name}}, "spec": pod}}
    template = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": body}
    metadata = {"name": name, "namespace": spec.pop("namespace", "shop"), "uid": f"uid-{name}"}
    metadata["labels"] = spec.pop("labels", {})
    return wire(
        Workload,
        {
            "metadata": metadata,
            "spec": {"schedulerName": "stowage", "template": template, **spec},
            "status": status or {},
        },
    )


@st.composite
def wild_members(draw: st.DrawFn) -> MemberCluster:
    groups = [
        {
            "count": draw(counts),
            "free": draw(st.dictionaries(st.sampled_from(list(ROOMY)), amounts)),
        }
        for _ in range(draw(st.integers(0, 3)))
    ]
    return member(
        "wild",
        groups,
        capacity={
            "nodes": draw(counts),
            "allocatable": draw(st.dictionaries(st.sampled_from(list(ROOMY)), amounts)),
            "requested": draw(st.dictionaries(st.sampled_from(list(ROOMY)), amounts)),
        },
        latencyMilliseconds=draw(counts),
        reliability={"readyPercent": draw(counts)},
    )


@st.composite
def wild_statuses(draw: st.DrawFn) -> dict[str, Any]:
    there = st.lists(st.sampled_from(["wild", "nowhere", "c-1"]), unique=True)
    shares = st.sampled_from([0, 1, 2**31 - 1, 2**40, 2**70, -5])
    return {
        "placements": [{"cluster": c, "replicas": draw(shares)} for c in draw(there)],
        "clusters": [
            {
                "name": c,
                "replicas": draw(shares),
                "scheduled": draw(shares),
                "unschedulable": draw(shares),
                "unschedulableSince": draw(moments),
            }
            for c in draw(there)
        ],
        "limits": [
            {
                "cluster": c,
                "replicas": draw(shares),
                "until": draw(moments),
                "holdSeconds": draw(counts),
            }
            for c in draw(there)
        ],
    }


@st.composite
def wild_workloads(draw: st.DrawFn) -> Workload:
    spec: dict[str, Any] = {
        "replicas": draw(counts),
        "priority": draw(counts),
        "distribution": draw(st.sampled_from(["Single", "Divided", "Duplicated"])),
        "requests": draw(requests),
        "labels": draw(st.sampled_from([{}, {"stowage.dev/workload-policy": "wild"}])),
        "distributionWeights": [
            {"weight": draw(counts), "minReplicas": draw(counts), "maxReplicas": draw(counts)}
            for _ in range(draw(st.integers(0, 2)))
        ],
        "spreadConstraints": [
            {"topologyKey": ZONE, "minDomains": draw(counts), "maxDomains": draw(counts)}
            for _ in range(draw(st.integers(0, 1)))
        ],
        # Everywhere but on the ordinary clusters: their room is not its to take.
        "clusterSelector": {ZONE: "wild"},
    }
    status = draw(wild_statuses())
    status["placements"] = [s for s in status["placements"] if s["cluster"] != "c-1"]
    return workload("wild", status, namespace=draw(st.sampled_from(["shop", "wild"])), **spec)


@st.composite
def wild_policies(draw: st.DrawFn) -> WorkloadPolicy:
    domains = [{"name": n, "replicas": draw(counts)} for n in ("wild", "c-1")]
    spec = {
        "topologyKey": ZONE,
        "labelSelector": {"matchLabels": {"app": "wild"}},
        "allocationPolicy": domains,
        "allocationType": draw(st.sampled_from(["Required", "Preferred"])),
        "allocationMethod": draw(st.sampled_from(["Fill", "Balance"])),
    }
    return wire(WorkloadPolicy, {"metadata": {"name": "wild", "namespace": "shop"}, "spec": spec})


ORDINARY = [
    workload("single", replicas=3, requests={"cpu": "500m"}, distribution="Single"),
    workload("divided", replicas=5, requests={"memory": "1Gi"}, distribution="Divided"),
    workload("everywhere", replicas=1, requests={"cpu": "1"}, distribution="Duplicated"),
    workload("moved", {"placements": [{"cluster": "c-1", "replicas": 2}]}, replicas=4,
             requests={"cpu": "100m"}, distribution="Divided"),
]  # fmt: skip
CLUSTERS = [member(f"c-{n}", [{"count": 2, "free": ROOMY}]) for n in range(3)]


def world_of(clusters: Any, workloads: Any, policies: Any = ()) -> SchedulerCache:
    """A world that has just started with these."""
    feature = WorkloadPolicies()
    ledgers = feature.ledgers
    world = SchedulerCache(
        {"stowage"}, sort=PrioritySort(), reviewed=lambda _: True, ledgers=ledgers
    )
    for policy in policies:
        feature.policy_changed(None, policy)
    for each in workloads:
        world.workload_changed(None, known(each))
    for each in clusters:
        world.cluster_changed(None, each)
    return world


@examples(300)
@given(wild_members(), wild_workloads(), wild_policies())
def test_ordinary_workloads_are_placed_as_if_the_absurd_were_not_there(
    cluster: MemberCluster, absurd: Workload, policy: WorkloadPolicy
) -> None:
    ordinary = [known(each) for each in ORDINARY]
    # The absurd cluster is cordoned, as its room is by right part of every plan.
    cordoned = msgspec.structs.replace(
        cluster, spec=msgspec.structs.replace(cluster.spec, unschedulable=True)
    )
    with_it = world_of([*CLUSTERS, cordoned], [*ORDINARY, absurd], [policy])
    without = world_of(CLUSTERS, ORDINARY)
    for each in ordinary:
        worlds = (with_it, without)
        mine, theirs = (decide(w.snapshot(), each.info, w.index, PROFILE, NOW) for w in worlds)
        assert mine.placements == theirs.placements
        assert mine.reason == theirs.reason
        assert sum(mine.placements.values()) == mine.desired


@examples(300)
@given(wild_members(), wild_workloads(), wild_policies())
def test_what_is_absurd_gets_a_condition_that_the_hub_takes(
    cluster: MemberCluster, absurd: Workload, policy: WorkloadPolicy
) -> None:
    world = world_of([*CLUSTERS, cluster], [*ORDINARY, absurd], [policy])
    read = known(absurd)
    info = runtime.settled(PROFILE, read.info, NOW, PlacementIndex())
    runtime.next_look(PROFILE, info, NOW)
    if not read.fault:
        decision = decide(world.snapshot(), info, world.index, PROFILE, NOW)
        record(decision)
        patch = patch_of(decision, read)
        told = dict(patch["status"]) if patch else {}
        steps = told.pop("reasons", [])  # units that went are less than nothing
        assert all(0 <= number < 2**31 for number in _numbers(told))
        assert all(-(2**31) < number < 2**31 for number in _numbers(steps))
        world.assume(info, decision.placements)
    for each in ORDINARY:  # on a cluster with absurd room, too, decisions go on
        decide(world.snapshot(), known(each).info, world.index, PROFILE, NOW)
    told = status_of(policy, [], world.index.ledger(Tally), world.snapshot(), NOW)
    assert all(0 <= number < 2**31 for number in _numbers(told))
    arrays = (*world.snapshot().allocatable.values(), *world.snapshot().groups.free.values())
    assert all((column >= 0).all() for column in arrays)


@pytest.mark.parametrize(
    ("asks", "told"),
    [
        ({"memory": "9E"}, "'memory' is more than any node offers (64Pi)"),
        ({"cpu": "-1"}, "'cpu' is negative"),
        ({"cpu": True}, "not a quantity: True"),
        ({"cpu": {}}, "not a quantity: a dict"),
        ({"cpu": "1" * 70}, "not a quantity: '1111"),
        ({f"example.com/{n}": "1" for n in range(100)}, "ask for 100 resources; 63 at most"),
    ],
)
def test_a_request_that_nobody_could_serve_is_told_with_its_field(asks: Any, told: str) -> None:
    read = known(workload("absurd", replicas=1, requests=asks))
    assert read.fault.startswith("spec.template.spec.")
    assert told in read.fault


def _numbers(status: Any) -> list[int]:
    """Every number that a patch tells."""
    if isinstance(status, dict):
        return [n for value in status.values() for n in _numbers(value)]
    if isinstance(status, list):
        return [n for value in status for n in _numbers(value)]
    return [status] if isinstance(status, int) and not isinstance(status, bool) else []
