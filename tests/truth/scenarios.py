"""Scenarios of a fleet of three clusters, m1 to m3, each a zone with room for ten replicas."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from crds.names import TAINT_DRAIN, TAINT_OUT_OF_SERVICE
from machinery.api.resources import (
    MEMBER_CLUSTERS,
    RESERVATIONS,
    WORKLOAD_GROUPS,
    WORKLOAD_POLICIES,
    WORKLOAD_QUOTAS,
    WORKLOAD_SPREADS,
    WORKLOADS,
    Resource,
)
from tests.controller.features.evacuation.movingfleet import Members
from tests.controller.features.rollout.fleet import RolloutFleet
from tests.controller.live import deployment
from tests.controller.memory import Stage
from tests.truth.recording import Scenario

ZONE = "topology.kubernetes.io/zone"
DIVIDED = {"distribution": "Divided"}


def put(stage: Stage, res: Resource, name: str, labels: Any = None, **spec: Any) -> None:
    meta = {"name": name, "labels": dict(labels or {})}
    stage.hub.put(res, {"metadata": meta, "spec": {"schedulerName": "stowage", **spec}})


def edit(stage: Stage, name: str, **spec: Any) -> None:
    stage.hub.edit(WORKLOADS, name, {"spec": spec})


def labelled(stage: Stage, cluster: str, **labels: str) -> None:
    stage.hub.edit(MEMBER_CLUSTERS, cluster, {"metadata": {"labels": labels}})


def template(name: str, kind: str, api: str = "apps/v1", **spec: Any) -> dict[str, Any]:
    made = deployment(name, "1")
    made |= {"kind": kind, "apiVersion": api}
    made["spec"] |= spec
    if kind in ("Job", "CronJob"):
        del made["spec"]["selector"]
    return made


# --- one Workload -----------------------------------------------------------------------------


async def single(stage: Stage, members: Members) -> None:
    stage.workload("web", replicas=3)
    await stage.calm(5)


async def single_too_large(stage: Stage, members: Members) -> None:
    stage.workload("web", replicas=11)
    await stage.calm(5)


async def duplicated(stage: Stage, members: Members) -> None:
    stage.workload("web", replicas=3, distribution="Duplicated")
    await stage.calm(5)
    edit(stage, "web", replicas=4)
    await stage.calm(5)


async def divided(stage: Stage, members: Members) -> None:
    stage.workload("web", replicas=7, **DIVIDED)
    await stage.calm(5)


async def divided_beyond_the_room(stage: Stage, members: Members) -> None:
    stage.workload("web", replicas=33, **DIVIDED)
    await stage.calm(5)
    stage.hub.edit(MEMBER_CLUSTERS, "m1", {"metadata": {"labels": {"size": "xl"}}})
    await stage.calm(5)


async def divided_by_weight(stage: Stage, members: Members) -> None:
    weights = [
        {"clusterSelector": {"matchLabels": {ZONE: "m1"}}, "weight": 3},
        {"clusterSelector": {}, "weight": 1, "maxReplicas": 2},
    ]
    stage.workload("web", replicas=8, distributionWeights=weights, **DIVIDED)
    await stage.calm(5)


async def packed(stage: Stage, members: Members) -> None:
    stage.workload("web", replicas=4, packing="Fewest", **DIVIDED)
    await stage.calm(5)


async def spread_over_two(stage: Stage, members: Members) -> None:
    rule = {"topologyKey": "stowage.dev/cluster", "minDomains": 2, "maxDomains": 2}
    stage.workload("web", replicas=6, spreadConstraints=[rule], **DIVIDED)
    await stage.calm(5)


async def spread_over_zones_and_clusters(stage: Stage, members: Members) -> None:
    rules = [
        {"topologyKey": ZONE, "minDomains": 2, "maxDomains": 3},
        {"topologyKey": "stowage.dev/cluster", "minDomains": 1, "maxDomains": 2},
    ]
    stage.workload("web", replicas=6, spreadConstraints=rules, **DIVIDED)
    await stage.calm(5)


async def selected(stage: Stage, members: Members) -> None:
    stage.workload("web", clusterSelector={ZONE: "m2"})
    stage.workload("none", clusterSelector={ZONE: "m9"})
    await stage.calm(5)
    labelled(stage, "m3", **{ZONE: "m9"})
    await stage.calm(5)


async def preferred(stage: Stage, members: Members) -> None:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["m3"]}]}
    affinity = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "preference": term}]
    }
    stage.workload("web", clusterAffinity=affinity)
    await stage.calm(5)


async def named_cluster(stage: Stage, members: Members) -> None:
    stage.workload("web", targetCluster={"name": "m2"})
    stage.workload("lost", targetCluster={"name": "m7"})
    await stage.calm(5)


async def affinity_and_anti_affinity(stage: Stage, members: Members) -> None:
    def terms(app: str) -> dict[str, Any]:
        term = {
            "labelSelector": {"matchLabels": {"app": app}},
            "topologyKey": "stowage.dev/cluster",
        }
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}

    stage.workload("db", created=1)
    await stage.calm(2)
    stage.workload("near", workloadAffinity=terms("db"), created=2)
    stage.workload("apart", workloadAntiAffinity=terms("db"), created=3)
    await stage.calm(5)


async def mutual_affinity(stage: Stage, members: Members) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        term = {
            "labelSelector": {"matchLabels": {"app": other}},
            "topologyKey": "stowage.dev/cluster",
        }
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        stage.workload(name, workloadAffinity=rule)
    await stage.calm(5)


async def tainted(stage: Stage, members: Members) -> None:
    stage.hub.edit(
        MEMBER_CLUSTERS,
        "m1",
        {"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}},
    )
    stage.workload("web", replicas=6, **DIVIDED)
    stage.workload(
        "gpu",
        replicas=6,
        tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        **DIVIDED,
    )
    await stage.calm(5)


async def by_priority(stage: Stage, members: Members) -> None:
    stage.workload("low", replicas=20, priority=1, created=1, **DIVIDED)
    stage.workload("high", replicas=20, priority=9, created=2, **DIVIDED)
    await stage.calm(8)


async def scaled(stage: Stage, members: Members) -> None:
    stage.workload("web", replicas=4, **DIVIDED)
    await stage.calm(4)
    for number in (9, 2, 0, 5):
        edit(stage, "web", replicas=number)
        await stage.calm(4)


async def rules_edited(stage: Stage, members: Members) -> None:
    stage.workload("web", replicas=4, **DIVIDED)
    await stage.calm(4)
    edit(stage, "web", clusterSelector={ZONE: "m1"})
    await stage.calm(12)


async def another_scheduler(stage: Stage, members: Members) -> None:
    stage.workload("web", schedulerName="somebody")
    await stage.calm(4)


async def deleted(stage: Stage, members: Members) -> None:
    stage.workload("web", replicas=20, created=1, **DIVIDED)
    stage.workload("waits", replicas=15, created=2, **DIVIDED)
    await stage.calm(4)
    stage.hub.remove(WORKLOADS, "web")
    del members.shares["web"]
    await stage.calm(6)


async def wrong_input(stage: Stage, members: Members) -> None:
    stage.workload("web", cpu="one")
    stage.workload("other", tolerations=[{"operator": "Exists", "key": "a"}])
    await stage.calm(4)


async def overridden(stage: Stage, members: Members) -> None:
    big = {"name": "main", "resources": {"requests": {"cpu": "5"}}}
    rules = [
        {
            "name": "big",
            "clusterSelector": {"matchLabels": {ZONE: "m1"}},
            "patch": {"spec": {"template": {"spec": {"containers": [big]}}}},
        }
    ]
    stage.workload("web", replicas=12, overrides=rules, **DIVIDED)
    await stage.calm(5)


async def placement_only(stage: Stage, members: Members) -> None:
    stage.workload("web", replicas=3, delivery="None", **DIVIDED)
    await stage.calm(5)


# --- kinds --------------------------------------------------------------------------------------


async def a_stateful_set(stage: Stage, members: Members) -> None:
    stage.workload(
        "db", replicas=5, targetDeployment=None, template=template("db", "StatefulSet"), **DIVIDED
    )
    await stage.calm(4)
    edit(stage, "db", replicas=8)
    await stage.calm(4)
    members.taint("m1", TAINT_DRAIN)
    await stage.calm(15)


async def a_job(stage: Stage, members: Members) -> None:
    job = template("sum", "Job", "batch/v1", parallelism=3, completions=6)
    stage.workload("sum", targetDeployment=None, template=job, **DIVIDED)
    await stage.calm(4)


async def a_cron_job(stage: Stage, members: Members) -> None:
    job = template("tick", "Job", "batch/v1")["spec"]
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}},
    }
    stage.workload("tick", replicas=1, targetDeployment=None, template=cron)
    await stage.calm(4)


async def a_daemon_set(stage: Stage, members: Members) -> None:
    agent = template("agent", "DaemonSet")
    stage.workload(
        "agent", replicas=1, targetDeployment=None, template=agent, distribution="Duplicated"
    )
    await stage.calm(4)


async def a_custom_kind(stage: Stage, members: Members) -> None:
    kind = {
        "apiVersion": "example.com/v1",
        "kind": "Database",
        "metadata": {"name": "db"},
        "spec": {"size": 3},
    }
    stage.workload("db", replicas=1, targetDeployment=None, template=kind)
    await stage.calm(4)


# --- movement -----------------------------------------------------------------------------------


async def _web(stage: Stage, members: Members, **spec: Any) -> None:
    stage.workload("web", replicas=6, **{**DIVIDED, **spec})
    await stage.calm(4)


async def drained(stage: Stage, members: Members) -> None:
    await _web(stage, members)
    members.taint("m1", TAINT_DRAIN)
    await stage.calm(20)
    members.taint("m1")
    await stage.calm(5)


async def drained_one_by_one(stage: Stage, members: Members) -> None:
    await _web(stage, members, movement={"maxSurge": 1, "maxUnavailable": 0})
    members.taint("m1", TAINT_DRAIN)
    await stage.calm(20)


async def drained_without_room(stage: Stage, members: Members) -> None:
    stage.workload("full", replicas=20, targetCluster=None, created=1, **DIVIDED)
    await _web(stage, members)
    members.taint("m1", TAINT_DRAIN)
    await stage.calm(20)


async def lost(stage: Stage, members: Members) -> None:
    await _web(stage, members)
    members.lose("m1")
    await stage.calm(20)
    members.back("m1")
    await stage.calm(10)


async def lost_for_a_moment(stage: Stage, members: Members) -> None:
    await _web(stage, members)
    members.lose("m1")
    await stage.calm(3)
    members.back("m1")
    await stage.calm(5)


async def lost_beyond_the_brake(stage: Stage, members: Members) -> None:
    await _web(stage, members)
    members.lose("m1", "m2")
    await stage.calm(15)


async def lost_and_fenced(stage: Stage, members: Members) -> None:
    db = template("db", "StatefulSet")
    stage.workload("db", replicas=4, targetDeployment=None, template=db, **DIVIDED)
    await stage.calm(4)
    members.lose("m1")
    await stage.calm(10)
    members.taint("m1", TAINT_OUT_OF_SERVICE, value="nodeshutdown")
    await stage.calm(15)


async def not_tolerated_for_long(stage: Stage, members: Members) -> None:
    rule = {
        "key": "stowage.dev/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 10,
    }
    await _web(stage, members, tolerations=[rule])
    members.lose("m1")
    await stage.calm(8)
    await stage.calm(15)


async def no_longer_registered(stage: Stage, members: Members) -> None:
    await _web(stage, members)
    found = members.unregister("m1")
    await stage.calm(4)
    members.register(*found.values())
    await stage.calm(8)


async def given_up(stage: Stage, members: Members) -> None:
    await _web(stage, members)
    stage.give_up("m1")
    await stage.calm(10)


async def renamed(stage: Stage, members: Members) -> None:
    await _web(stage, members)
    (body,) = members.unregister("m1").values()
    members.register(body, name="n1")
    await stage.calm(10)


async def never_ready_elsewhere(stage: Stage, members: Members) -> None:
    await _web(stage, members)
    members.stuck.update(("m2", "m3"))
    members.taint("m1", TAINT_DRAIN)
    await stage.calm(15)


async def drained_whole(stage: Stage, members: Members) -> None:
    stage.workload("web", replicas=3)
    await stage.calm(4)
    (there,) = stage.placed("web")
    members.taint(there, TAINT_DRAIN)
    await stage.calm(15)


# --- policies, spreads, quotas, reservations, gangs ---------------------------------------------


def _policy(stage: Stage, kind: str) -> None:
    put(
        stage,
        WORKLOAD_POLICIES,
        "ratio",
        allocationType=kind,
        topologyKey=ZONE,
        labelSelector={"matchLabels": {}},
        allocationPolicy=[{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 3}],
    )


async def a_policy_prefers(stage: Stage, members: Members) -> None:
    _policy(stage, "Preferred")
    labels = {"stowage.dev/workload-policy": "ratio"}
    for at, name in enumerate(("a", "b", "c", "d", "e")):
        stage.workload(name, replicas=1, labels=labels, created=at)
        await stage.calm(1)


async def a_policy_requires(stage: Stage, members: Members) -> None:
    _policy(stage, "Required")
    labels = {"stowage.dev/workload-policy": "ratio"}
    stage.workload("web", replicas=6, labels=labels)
    await stage.calm(4)
    edit(stage, "web", replicas=3)
    await stage.calm(4)


def _subset(name: str, zone: str, most: Any = None, **more: Any) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    made = {"name": name, "requiredNodeSelectorTerm": term, **more}
    return made if most is None else {**made, "maxReplicas": most}


def _spread(stage: Stage, *subsets: dict[str, Any], **spec: Any) -> None:
    about = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": "web"}
    put(stage, WORKLOAD_SPREADS, "web", targetRef=about, subsets=list(subsets), **spec)


async def a_spread_fills_in_order(stage: Stage, members: Members) -> None:
    _spread(stage, _subset("own", "m1", 3), _subset("elastic", "m2"))
    stage.workload("web", replicas=7)
    await stage.calm(5)
    edit(stage, "web", replicas=2)
    await stage.calm(8)


async def a_spread_of_parts(stage: Stage, members: Members) -> None:
    _spread(stage, _subset("a", "m1", "20%"), _subset("b", "m2", "30%"), _subset("c", "m3", "50%"))
    stage.workload("web", replicas=10)
    await stage.calm(5)


async def a_spread_adapts(stage: Stage, members: Members) -> None:
    members.stuck.add("m1")
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 5}}
    _spread(stage, _subset("own", "m1", 8), _subset("elastic", "m2"), scheduleStrategy=strategy)
    stage.workload("web", replicas=4)
    await stage.calm(20)


async def a_quota(stage: Stage, members: Members) -> None:
    put(stage, WORKLOAD_QUOTAS, "team", hard={"units": "5", "requests.cpu": "4"})
    stage.workload("first", replicas=3, created=1, **DIVIDED)
    stage.workload("second", replicas=3, created=2, **DIVIDED)
    await stage.calm(5)
    stage.hub.edit(WORKLOAD_QUOTAS, "team", {"spec": {"hard": {"units": "6", "requests.cpu": "6"}}})
    await stage.calm(8)


def _reserve(stage: Stage, name: str, replicas: int, **spec: Any) -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
    put(
        stage,
        RESERVATIONS,
        name,
        replicas=replicas,
        owners=[{"labelSelector": {"matchLabels": {"app": "web"}}}],
        template={"spec": {"containers": [container]}},
        **spec,
    )


async def a_reservation_is_used(stage: Stage, members: Members) -> None:
    _reserve(stage, "peak", 8)
    await stage.calm(4)
    stage.workload("other", replicas=25, created=1, **DIVIDED)
    await stage.calm(4)
    stage.workload("web", replicas=5, created=2)
    await stage.calm(5)


async def a_reservation_is_shared_and_expires(stage: Stage, members: Members) -> None:
    _reserve(stage, "peak", 6, allocateOnce=False, hold="Books", ttl="20s")
    await stage.calm(3)
    stage.workload("web", replicas=2)
    await stage.calm(30)


def _gang(stage: Stage, **spec: Any) -> None:
    put(stage, WORKLOAD_GROUPS, "train", **{"minMember": 6, "scheduleTimeoutSeconds": 30, **spec})


GANG = {"stowage.dev/workload-group": "train"}


async def a_gang(stage: Stage, members: Members) -> None:
    _gang(stage)
    stage.workload("driver", replicas=1, labels=GANG, created=1)
    await stage.calm(3)
    stage.workload("workers", replicas=5, labels=GANG, created=2, **DIVIDED)
    await stage.calm(6)


async def a_gang_without_room(stage: Stage, members: Members) -> None:
    stage.workload("other", replicas=26, created=0, **DIVIDED)
    await stage.calm(3)
    _gang(stage)
    stage.workload("driver", replicas=1, labels=GANG, created=1)
    stage.workload("workers", replicas=5, labels=GANG, created=2, **DIVIDED)
    await stage.calm(8)
    stage.hub.remove(WORKLOADS, "other")
    del members.shares["other"]
    await stage.calm(10)


async def a_gang_in_one_zone(stage: Stage, members: Members) -> None:
    _gang(stage, topology={"topologyKey": ZONE, "mode": "Required"})
    stage.workload("driver", replicas=1, labels=GANG, created=1)
    stage.workload("workers", replicas=5, labels=GANG, created=2, **DIVIDED)
    await stage.calm(6)


async def two_gangs(stage: Stage, members: Members) -> None:
    for at, name in enumerate(("one", "two")):
        put(stage, WORKLOAD_GROUPS, name, minMember=18, scheduleTimeoutSeconds=10)
        labels = {"stowage.dev/workload-group": name}
        stage.workload(f"{name}-workers", replicas=18, labels=labels, created=at, **DIVIDED)
    await stage.calm(30)


# --- rollouts -----------------------------------------------------------------------------------


async def a_rollout(fleet: RolloutFleet) -> None:
    fleet.web()
    await fleet.comes_to("Complete")
    fleet.image("v2")
    await fleet.comes_to("Complete")


async def a_rollout_that_fails(fleet: RolloutFleet) -> None:
    fleet.web(onFailure="Rollback", progressDeadlineSeconds=5)
    await fleet.comes_to("Complete")
    fleet.sick.add("c1")
    fleet.image("v2")
    await fleet.goes_on(30)


async def a_rollout_that_is_paused(fleet: RolloutFleet) -> None:
    fleet.web()
    await fleet.comes_to("Complete")
    fleet.pace(paused=True)
    fleet.image("v2")
    await fleet.goes_on(5)
    fleet.pace(paused=False)
    await fleet.comes_to("Complete")


async def a_rollout_of_a_lost_canary(fleet: RolloutFleet) -> None:
    fleet.web()
    await fleet.comes_to("Complete")
    fleet.loses("c1")
    fleet.image("v2")
    await fleet.goes_on(20)
    fleet.loses("c1", ready=True)
    await fleet.comes_to("Complete")


def _of(parameter: str) -> dict[str, Any]:
    """The scenarios of this module that are played on that, by name."""
    made = {name: each for name, each in globals().items() if inspect.iscoroutinefunction(each)}
    return {
        name: each
        for name, each in made.items()
        if parameter in each.__annotations__ and not name.startswith("_")
    }


SCENARIOS: dict[str, Scenario] = _of("stage")
ROLLOUTS: dict[str, Callable[[RolloutFleet], Awaitable[None]]] = _of("fleet")
