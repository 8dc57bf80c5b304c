"""The steps of a migration, over a peer, a hub and members in memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from controller.eventhandlers import SchedulerCache, known
from controller.framework.runtime import framework as runtime
from controller.model.objects import Workload
from crds.names import ANNOTATION_MIGRATION, DEFAULT_SCHEDULER, OWNER_PREFIX
from machinery.api.resources import MEMBER_CLUSTERS, NAMESPACES, SECRETS, WORKLOADS
from machinery.errors import ConfigurationError
from stowage.fleet import inventory
from stowage.migrating import command
from stowage.migrating.command import peer_named
from stowage.migrating.kept import Step
from stowage.migrating.peers import karmada
from stowage.migrating.peers.karmada import BINDINGS, CLUSTERS, MANAGED, POLICIES
from stowage.migrating.releasing import _without_values
from stowage.migrating.survey import Asked, World
from stowage.simulation.plan import Where
from tests.stowage.importing import runs
from tests.stowage.migrating.world import (
    DEPLOYMENTS,
    HPAS,
    STATEFUL_SETS,
    Fleet,
    Killed,
    Stored,
)
from tests.stowage.test_import_karmada import names, policy, select


@pytest.fixture
def fleet() -> Fleet:
    """Karmada runs `web` on both members, four replicas and two."""
    made = Fleet()
    made.run("web", 6, m1=4, m2=2)
    made.sync()
    return made


def steps(fleet: Fleet, *wanted: str) -> None:
    """Do steps that have to succeed."""
    for name in wanted:
        for each in fleet.step(name).values():
            assert not each.fault, (name, each)


def ready(fleet: Fleet, name: str = "web") -> None:
    """Have the propagator say that a Workload was Ready long ago."""
    workload = fleet.workload(name)
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    observed = {"propagator": workload["metadata"]["generation"]}
    conditions = [*workload["status"]["conditions"], condition]
    patch = {"status": {"conditions": conditions, "observed": observed}}
    fleet.hub.edit(WORKLOADS, name, patch, status=True)


def without_versions(state: Mapping[str, Any]) -> Any:
    """Objects without what the server counts."""
    made = copy.deepcopy(dict(state))
    for body in made.values():
        for key in ("resourceVersion", "generation", "uid", "creationTimestamp"):
            body["metadata"].pop(key, None)
    return made


# --- plan -----------------------------------------------------------------------------------------


@pytest.mark.proves("IM19")
def test_a_plan_writes_nothing_and_says_what_would_be(fleet: Fleet) -> None:
    fleet.theirs.edit(
        POLICIES, "web", {"spec": {"failover": {"application": {"purgeMode": "Never"}}}}
    )
    servers = [fleet.hub, fleet.theirs, *fleet.members.values()]
    before = [server.state() for server in servers]
    writes = [len(server.writes("")) for server in servers]
    made = fleet.plan()
    assert [server.state() for server in servers] == before
    assert [len(server.writes("")) for server in servers] == writes
    text = made.text()
    assert "shop/web   6          paris=4,tokyo=2   2 of 2" in text
    assert "lost: " in text
    assert "spec.failover.application" in text
    assert "If the rules decided anew: shop/web 1 of 6 replicas would move (paris=3,tokyo=3)" in (
        _evenly(fleet)
    )
    assert "0 of 1 Workload can be migrated" in text
    assert made.possible < len(made.candidates)
    assert fleet.plan(lossy=True).possible == 1


def _evenly(fleet: Fleet) -> str:
    """What the plan says once the rules would divide otherwise than the binding."""
    spec = fleet.theirs.read(POLICIES, "web")["spec"]
    rules = spec["placement"]["replicaScheduling"]["weightPreference"]["staticWeightList"]
    rules = [{**rule, "weight": 1} for rule in rules]
    placement = {"replicaScheduling": {"weightPreference": {"staticWeightList": rules}}}
    fleet.theirs.edit(POLICIES, "web", {"spec": {"placement": placement}})
    return fleet.plan().text()


@pytest.mark.proves("IM19")
def test_a_plan_names_what_differs(fleet: Fleet) -> None:
    fleet.members["m2"].edit(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    fleet.theirs.edit(DEPLOYMENTS, "web", {"spec": {"paused": False}})
    made = fleet.plan()
    (each,) = made.candidates
    assert each.ways == [
        "tokyo: Deployment web differs in spec.paused (false here, true there)"
    ] or ("tokyo: Deployment web differs in spec.paused (false here, true there)" in each.ways)
    assert made.to_dict()["workloads"][0]["alike"] == 0


def test_a_system_without_a_migration_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="kubefed can be imported and not migrated"):
        peer_named("kubefed")


# --- clusters -------------------------------------------------------------------------------------


@pytest.mark.proves("IM20")
def test_clusters_are_known_by_their_kube_system() -> None:
    fleet = Fleet({"m1": "paris", "tokyo": "tokyo"})
    fleet.run("web", 2, m1=1, tokyo=1)
    fleet.sync()
    assert [(m.name, m.member, m.by) for m in fleet.plan().matches] == [
        ("m1", "paris", "cluster ID"),
        ("tokyo", "tokyo", "cluster ID"),
    ]
    # a name tells nothing where the UIDs tell otherwise
    fleet.theirs.edit(CLUSTERS, "tokyo", {"spec": {"id": "another"}})
    (_, other) = fleet.plan().matches
    assert (other.member, other.by) == ("", "")
    assert "is another cluster: its kube-system has the UID uid-tokyo, not another" in other.says
    (_, other) = fleet.plan(clusters={"tokyo": "tokyo"}).matches
    assert other.member == ""
    (web,) = fleet.plan().candidates
    assert [way for way in web.ways if way.startswith("tokyo: ")]


@pytest.mark.proves("IM20")
def test_a_cluster_without_a_uid_is_named(fleet: Fleet) -> None:
    fleet.theirs.edit(CLUSTERS, "m2", {"spec": {"id": ""}})
    (_, other) = fleet.plan().matches
    assert other.member == ""
    assert "--map m2=MEMBER" in other.says
    (_, other) = fleet.plan(clusters={"m2": "tokyo"}).matches
    assert (other.member, other.by, other.says) == ("tokyo", "--map", "ready")
    for wrong, text in (
        ({"m3": "tokyo"}, "the peer has no cluster m3"),
        ({"m2": "oslo"}, "the hub has no MemberCluster oslo"),
        ({"m2": "paris"}, "m1 and m2 are both the MemberCluster paris"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            fleet.plan(clusters=wrong)


@pytest.mark.proves("IM20")
def test_rules_name_the_member_clusters(fleet: Fleet) -> None:
    steps(fleet, "adopt")
    text = msgspec.json.encode(fleet.workload()["spec"]).decode()
    assert "paris" in text
    assert '"m1"' not in text


def test_a_namespace_that_was_not_given_is_named(fleet: Fleet) -> None:
    status = {"status": {"namespaces": {"given": ["other"]}}}
    fleet.hub.edit(MEMBER_CLUSTERS, "tokyo", status, status=True)
    text = "namespace shop was not given: stowage join tokyo --target-namespace shop"
    assert text in fleet.plan().text()


# --- adopt ----------------------------------------------------------------------------------------


@pytest.mark.proves("IM22")
def test_adopted_placements_are_the_peers_and_outlast_a_restart(fleet: Fleet) -> None:
    full = [{"count": 1, "free": {"cpu": "0", "memory": "0", "pods": 0}}]
    for name in fleet.named.values():
        fleet.hub.edit(MEMBER_CLUSTERS, name, {"status": {"nodeGroups": full}}, status=True)
    writes = fleet.member_writes()
    steps(fleet, "adopt")
    workload = fleet.workload()
    assert workload["status"]["placements"] == [
        {"cluster": "paris", "replicas": 4},
        {"cluster": "tokyo", "replicas": 2},
    ]
    assert workload["status"]["conditions"][0]["reason"] == "Imported"
    assert workload["status"]["history"][0]["cause"] == "Imported"
    assert workload["spec"]["delivery"] == "None"
    assert workload["spec"]["adoption"] == "IfNoDiff"
    assert workload["spec"]["onDelete"] == "Orphan"
    assert workload["metadata"]["annotations"] == {ANNOTATION_MIGRATION: "karmada"}
    assert fleet.member_writes() == writes
    assert not _restarted(fleet).needs_decision(known(msgspec.convert(workload, Workload)))


def _restarted(fleet: Fleet) -> SchedulerCache:
    """The cache of a controller that has just read the hub."""
    profiles = Where("default").configuration().profiles
    cache = SchedulerCache(
        profiles.keys(),
        sort=runtime.Ranking(profiles[DEFAULT_SCHEDULER]),
        reviewed=lambda _: True,
        fields=runtime.telling(profiles),
    )
    found = inventory.of_hub(Stored(fleet.hub))  # type: ignore[arg-type]
    for each in found.clusters:
        cache.cluster_changed(None, each)
    for workload in found.workloads.values():
        cache.workload_changed(None, workload)
    return cache


def test_placements_that_the_rules_would_not_keep_are_in_the_way(fleet: Fleet) -> None:
    fleet.theirs.edit(DEPLOYMENTS, "web", {"spec": {"replicas": 9}})
    outcome = fleet.step("adopt")["web"]
    assert outcome.step is Step.NONE
    assert "its rules would have it run on" in outcome.fault
    assert not fleet.hub.all(WORKLOADS)


def test_what_else_an_import_makes_is_told(fleet: Fleet) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    fleet.beside.append({
        "apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA",
        "metadata": {"name": "cpu", "namespace": "shop"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9},
    })  # fmt: skip
    groups = [{"affinityName": "a", **names("m1")}]
    groups[0]["overflowAffinities"] = [{"affinityName": "b", **names("m2")}]
    placement = {"clusterAffinity": None, "clusterAffinities": groups}
    fleet.theirs.edit(POLICIES, "web", {"spec": {"placement": placement}})
    text = fleet.plan(lossy=True).text()
    assert "later: HorizontalPodAutoscaler shop/cpu scales shop/web" in text
    assert "the hub has no WorkloadSpread shop/web, which rules it" in text


def test_no_value_of_a_secret_is_kept(fleet: Fleet) -> None:
    kept = _without_values({"kind": "X", "spec": [{"kind": "Secret", "data": {"a": "canary"}}]})
    assert kept == {"kind": "X", "spec": [{"kind": "Secret"}]}
    steps(fleet, "adopt", "release")
    assert fleet.hub.all(SECRETS)


def test_a_workload_of_that_name_is_not_written_over(fleet: Fleet) -> None:
    spec = {"template": {"apiVersion": "batch/v1", "kind": "Job"}}
    body = {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}
    fleet.hub.put(WORKLOADS, {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", **body})
    assert "the hub has a Workload shop/web already" in fleet.step("adopt")["web"].fault


# --- release, take --------------------------------------------------------------------------------


@pytest.mark.proves("IM23", "IM24")
def test_nothing_on_members_changes_but_the_label(fleet: Fleet) -> None:
    before = fleet.on_members()
    steps(fleet, "adopt", "release")
    for name, state in fleet.on_members().items():
        for path, body in state.items():
            was = copy.deepcopy(before[name][path])
            was["metadata"]["labels"].pop(MANAGED)
            was["metadata"]["resourceVersion"] = body["metadata"]["resourceVersion"]
            assert body == was
    assert not [each for each in fleet.member_writes() if each[0] == "DELETE"]
    _peer_does_its_worst(fleet)
    # as if the peer had never had them: take goes by what was kept
    steps(fleet, "take")
    assert fleet.workload()["spec"]["delivery"] == "Push"


def _peer_does_its_worst(fleet: Fleet) -> None:
    """The peer reschedules, loses a cluster, and all of its objects, and syncs after each."""
    held = fleet.on_members()
    fleet.peer.where["Deployment", "web"] = {"m2": 6}
    worst: list[Callable[[], object]] = [
        lambda: None,
        lambda: fleet.theirs.remove(POLICIES, "web"),
        lambda: fleet.theirs.remove(DEPLOYMENTS, "web"),
        lambda: fleet.theirs.remove(NAMESPACES, "shop"),
    ]
    for act in worst:
        act()
        fleet.sync()
        assert fleet.on_members() == held


@pytest.mark.proves("IM24")
def test_after_take_the_peer_changes_nothing_either(fleet: Fleet) -> None:
    steps(fleet, "adopt", "release", "take")
    _peer_does_its_worst(fleet)


def test_a_template_that_overwrites_is_told_not_to(fleet: Fleet) -> None:
    note = {"work.karmada.io/conflict-resolution": "overwrite"}
    fleet.theirs.edit(DEPLOYMENTS, "web", {"metadata": {"annotations": note}})
    fleet.theirs.edit(POLICIES, "web", {"spec": {"conflictResolution": "Overwrite"}})
    fleet.sync()
    steps(fleet, "adopt", "release")
    held = fleet.on_members()
    fleet.theirs.edit(POLICIES, "web", {"spec": {"suspension": None}})
    fleet.sync()
    assert fleet.on_members() == held
    assert "is not suspended" in fleet.step("take")["web"].fault


def test_a_label_that_comes_back_is_no_proof(fleet: Fleet) -> None:
    steps(fleet, "adopt", "release")
    fleet.members["m1"].edit(DEPLOYMENTS, "web", {"metadata": {"labels": {MANAGED: "true"}}})
    outcome = fleet.step("take")["web"]
    assert outcome.step is Step.RELEASED
    assert "paris: Deployment shop/web has karmada.io/managed" in outcome.fault
    assert fleet.workload()["spec"]["delivery"] == "None"


@pytest.mark.proves("IM25")
def test_one_field_that_differs_stops_its_workload_alone(fleet: Fleet) -> None:
    fleet.run("api", 2, m1=2)
    fleet.sync()
    steps(fleet, "adopt", "release")
    fleet.members["m2"].edit(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    template = {"spec": {"targetDeployment": {"spec": {"paused": False}}}}
    fleet.hub.edit(WORKLOADS, "web", template)
    held = fleet.on_members()
    outcomes = fleet.step("take")
    assert outcomes["api"].step is Step.TAKEN
    assert outcomes["web"].step is Step.RELEASED
    assert "tokyo: Deployment web differs in spec.paused" in outcomes["web"].fault
    assert fleet.workload("web")["spec"]["delivery"] == "None"
    assert fleet.on_members() == held
    assert "is released: take it first" in fleet.step("finish", "web")["web"].fault


# --- undo, and what is cut off --------------------------------------------------------------------


@pytest.mark.proves("IM26")
def test_undo_puts_all_back_and_the_peer_repairs_drift_again(fleet: Fleet) -> None:
    theirs, theirs_on = without_versions(fleet.theirs.state()), fleet.on_members()
    steps(fleet, "adopt", "release", "take", "undo")
    assert fleet.workload()["spec"]["delivery"] == "None"
    steps(fleet, "undo")
    assert without_versions(fleet.theirs.state()) == theirs
    assert {n: without_versions(s) for n, s in fleet.on_members().items()} == {
        n: without_versions(s) for n, s in theirs_on.items()
    }
    fleet.members["m1"].edit(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
    fleet.sync()
    assert fleet.members["m1"].read(DEPLOYMENTS, "web")["spec"]["replicas"] == 4
    steps(fleet, "undo")
    assert not fleet.hub.all(WORKLOADS)
    assert not fleet.hub.all(SECRETS)


def test_undo_waits_until_our_marks_are_off(fleet: Fleet) -> None:
    steps(fleet, "adopt", "release", "take", "undo")
    mark = {"metadata": {"annotations": {f"{OWNER_PREFIX}u": "shop/web"}}}
    fleet.members["m1"].edit(DEPLOYMENTS, "web", mark)
    held = fleet.on_members()
    assert "carries Stowage's marks still" in fleet.step("undo")["web"].fault
    assert fleet.on_members() == held


class Kills:
    """Ends the process right after one write, which is before the next one as well."""

    def __init__(self, fleet: Fleet, at: int) -> None:
        self._left = at
        self.servers = [fleet.hub, fleet.theirs, *fleet.members.values()]
        for server in self.servers:
            server.after.append(self._count)

    async def _count(self, method: str, path: str, _: Any) -> None:
        del path
        if method == "GET":
            return
        self._left -= 1
        if self._left < 0:
            raise Killed

    def end(self) -> bool:
        """Have no further fault; return whether the process was killed."""
        for server in self.servers:
            server.after.clear()
        return self._left < 0


@pytest.mark.proves("IM26")
@pytest.mark.parametrize("ends", [("adopt", "release", "take", "finish"), ("undo", "undo", "undo")])
def test_a_step_that_is_cut_off_anywhere_is_run_again(ends: tuple[str, ...]) -> None:
    whole = _run(ends, kills=-1)[1]
    at = 0
    while True:
        killed, found = _run(ends, kills=at)
        assert found == whole, f"killed after the write {at}"
        if not killed:
            break
        at += 1
    assert at > len(ends)


def _run(ends: tuple[str, ...], *, kills: int) -> tuple[bool, Any]:
    """Run the steps, each again where it was killed; return whether, and how it all ended."""
    fleet = Fleet()
    fleet.run("web", 3, m1=2, m2=1)
    fleet.sync()
    if ends[0] == "undo":
        steps(fleet, "adopt", "release", "take")
    kill = Kills(fleet, kills) if kills >= 0 else None
    killed = False
    for name in ends:
        if name == "finish":
            ready(fleet)
        try:
            steps(fleet, name)
        except Killed:
            killed = kill.end() if kill else False
            steps(fleet, name)
    if kill:
        kill.end()
    states = [fleet.hub.state(), fleet.theirs.state(), *fleet.on_members().values()]
    return killed, [_comparable(each) for each in states]


def _comparable(state: Mapping[str, Any]) -> Any:
    made = without_versions(state)
    return {
        path.partition("migration-")[0]: {
            k: v for k, v in body.items() if k not in ("data", "status")
        }
        for path, body in made.items()
    }


# --- what is in the way ---------------------------------------------------------------------------


@pytest.mark.proves("IM27")
@pytest.mark.parametrize(
    ("res", "name", "patch", "text"),
    [
        (
            BINDINGS,
            "web-deployment",
            {"spec": {"gracefulEvictionTasks": [{"fromCluster": "m2"}]}},
            "ResourceBinding shop/web-deployment evicts from m2",
        ),
        (
            POLICIES,
            "web",
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "PropagationPolicy shop/web is being deleted",
        ),
        (
            DEPLOYMENTS,
            "web",
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "Deployment shop/web is being deleted",
        ),
        (
            POLICIES,
            "web",
            {"spec": {"activationPreference": "Lazy"}},
            "spec.activationPreference: Lazy",
        ),
    ],
)
def test_what_is_under_way_is_refused_by_name(
    fleet: Fleet, res: Any, name: str, patch: Any, text: str
) -> None:
    fleet.clock.during = None
    steps(fleet, "adopt")
    fleet.theirs.edit(res, name, patch)
    assert text in fleet.step("release", lossy=True)["web"].fault
    assert not fleet.hub.all(SECRETS)
    steps(fleet, "undo")
    assert text in fleet.step("adopt", lossy=True)["web"].fault
    assert not fleet.hub.all(WORKLOADS)


@pytest.mark.proves("IM27")
def test_a_policy_is_released_with_all_that_it_places(fleet: Fleet) -> None:
    fleet.run("api", 2, m1=2)
    fleet.theirs.remove(POLICIES, "api")
    selectors = [select(name="web"), select(name="api")]
    fleet.theirs.edit(POLICIES, "web", {"spec": {"resourceSelectors": selectors}})
    fleet.sync()
    fault = fleet.step("adopt", "web")["web"].fault
    assert "PropagationPolicy shop/web places Deployment shop/api too: name them as well" in fault
    fleet.peer.where["Deployment", "api"] = {"m1": 1, "m2": 1}
    fleet.theirs.edit(BINDINGS, "api-deployment", {
        "spec": {"clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 1}]}
    })  # fmt: skip
    fleet.sync()
    steps(fleet, "adopt", "release", "take")
    steps(fleet, *["undo"] * 1)
    assert "holds other Workloads too" in fleet.step("undo", "web")["web"].fault
    fleet.sync()
    steps(fleet, "undo")
    assert fleet.theirs.read(POLICIES, "web")["spec"].get("suspension") is None


@pytest.mark.proves("IM27")
def test_a_dependency_that_others_overwrite_is_in_the_way() -> None:
    fleet = Fleet()
    fleet.follow("web", "conf", m1=1)
    fleet.follow("api", "conf", m1=1)
    fleet.sync()
    fleet.theirs.edit(BINDINGS, "conf-configmap", {"spec": {"conflictResolution": "Overwrite"}})
    fault = fleet.step("adopt", "web")["web"].fault
    assert "ConfigMap shop/conf is needed by ResourceBinding shop/api-deployment too" in fault


@pytest.mark.proves("IM27")
def test_what_others_need_of_a_workload_is_in_the_way(fleet: Fleet) -> None:
    need = {"namespace": "shop", "name": "api-deployment", "clusters": [{"name": "m2"}]}
    fleet.theirs.edit(BINDINGS, "web-deployment", {"spec": {"requiredBy": [need]}})
    fault = fleet.step("adopt")["web"].fault
    assert "Deployment shop/web is needed by ResourceBinding shop/api-deployment too" in fault


# --- finish ---------------------------------------------------------------------------------------


@pytest.mark.proves("IM28")
def test_finish_waits_and_then_leaves_no_mark_of_the_peer(fleet: Fleet) -> None:
    steps(fleet, "adopt", "release", "take")
    assert "is not Ready" in fleet.step("finish")["web"].fault
    ready(fleet)
    fleet.unreachable.add("tokyo")
    assert "tokyo does not answer" in fleet.step("finish")["web"].fault
    fleet.unreachable.clear()
    left = {
        "labels": {"clusterpropagationpolicy.karmada.io/permanent-id": "1", "app": "web"},
        "annotations": {"work.karmada.io/conflict-resolution": "overwrite", "mine": "1"},
        "finalizers": ["karmada.io/execution-controller", "example.com/mine"],
    }
    fleet.members["m1"].edit(DEPLOYMENTS, "web", {"metadata": left})
    assert fleet.theirs.all(DEPLOYMENTS)
    steps(fleet, "finish")
    assert not [*fleet.theirs.all(DEPLOYMENTS), *fleet.theirs.all(POLICIES)]
    fleet.sync()
    for name in fleet.members:
        for body in fleet.on_members()[name].values():
            keys = [*body["metadata"].get("labels", {}), *body["metadata"].get("annotations", {})]
            assert not [key for key in keys if "karmada.io" in key], body
    meta = fleet.members["m1"].read(DEPLOYMENTS, "web")["metadata"]
    assert meta["finalizers"] == ["example.com/mine"]
    assert meta["annotations"] == {"mine": "1"}
    assert "/api/v1/namespaces/shop" in fleet.theirs.state()
    workload = fleet.workload()
    assert workload["metadata"]["annotations"] == {ANNOTATION_MIGRATION: "karmada/finished"}
    assert "onDelete" not in workload["spec"]
    assert not fleet.hub.all(SECRETS)
    assert fleet.step("status")["web"].step is Step.FINISHED
    assert "only a backup" in fleet.step("undo")["web"].fault


@pytest.mark.proves("IM28")
@pytest.mark.parametrize("lately", ["Ready", "Propagated"])
def test_a_minute_of_ready_is_asked_for(fleet: Fleet, lately: str) -> None:
    """Ready by what Stowage brings: it was Ready before, as the peer had brought it."""
    steps(fleet, "adopt", "release", "take")
    ready(fleet)
    began = {"status": "True", "lastTransitionTime": fleet.clock.now().isoformat()}
    conditions = [
        *(each for each in fleet.workload()["status"]["conditions"] if each["type"] != lately),
        {"type": lately, **began},
    ]
    fleet.hub.edit(WORKLOADS, "web", {"status": {"conditions": conditions}}, status=True)
    assert "has to be Ready for 60 s first" in fleet.step("finish")["web"].fault
    fleet.clock.elapsed += 60
    steps(fleet, "finish")


@pytest.mark.proves("IM31")
@pytest.mark.parametrize("step", ["adopt", "release", "take", "finish", "undo"])
def test_a_step_without_a_workload_to_go_on_with_fails_and_a_look_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], step: str
) -> None:
    async def world(*_: Any) -> World:
        return Fleet().world()

    monkeypatch.setattr(command, "_world", world)

    def run(name: str) -> bool:
        servers: Any = None
        return command.run(name, karmada.PEER, servers, Asked(namespace="shop"), "table")

    with pytest.raises(ConfigurationError, match=r"in shop") as told:
        run(step)
    assert ("adopt it first" in str(told.value)) is (step not in ("adopt", "release"))
    assert run("status")
    assert "no Workload" in capsys.readouterr().out
    assert run("plan")


# --- ordinals, autoscalers, many ------------------------------------------------------------------


def stateful(fleet: Fleet, **where: int) -> None:
    """Have Karmada run a StatefulSet, all of it on each cluster or divided."""
    body = runs("apps/v1", "StatefulSet", replicas=sum(where.values()), serviceName="db")
    body["metadata"] = {"name": "db", "namespace": "shop"}
    body["spec"] |= {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "pg"}]},
        },
    }
    fleet.put(fleet.theirs, body)
    scheduling = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
    placement = {"clusterAffinity": names(*where), "replicaScheduling": scheduling}
    rule = policy(select("StatefulSet", name="db"), name="db", placement=placement)
    fleet.put(fleet.theirs, rule)
    fleet.peer.where["StatefulSet", "db"] = where
    fleet.sync()


@pytest.mark.proves("IM29")
def test_each_member_keeps_its_first_ordinal(fleet: Fleet) -> None:
    stateful(fleet, m1=2, m2=2)
    fleet.members["m2"].edit(STATEFUL_SETS, "db", {"spec": {"ordinals": {"start": 5}}})
    steps(fleet, "adopt")
    assert fleet.workload("db")["status"]["ordinals"] == [
        {"cluster": "paris", "start": 0},
        {"cluster": "tokyo", "start": 5},
    ]


@pytest.mark.proves("IM29")
def test_an_ordinal_that_runs_twice_is_in_the_way(fleet: Fleet) -> None:
    stateful(fleet, m1=2, m2=2)
    fault = fleet.step("adopt", "db")["db"].fault
    assert "ordinal 0 runs on paris and on tokyo" in fault


@pytest.mark.proves("IM30")
def test_an_autoscaler_on_a_member_is_in_the_way(fleet: Fleet) -> None:
    body = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "cpu", "namespace": "shop"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}},
    }
    fleet.members["m1"].put(HPAS, body)
    fault = fleet.step("adopt")["web"].fault
    assert fault == "paris: HorizontalPodAutoscaler cpu there holds the replicas"


@pytest.mark.proves("IM31")
def test_one_that_fails_stops_no_other() -> None:
    fleet = Fleet({f"m{n}": f"paris-{n}" for n in range(3)})
    for n in range(8):
        fleet.run(f"w{n}", 2, **{f"m{n % 3}": 1, f"m{(n + 1) % 3}": 1})
    fleet.sync()
    _one_fails(fleet, "w5", 8)


def _one_fails(fleet: Fleet, which: str, total: int) -> None:
    first = next(iter(fleet.peer.where["Deployment", which]))
    steps(fleet, "adopt", "release")
    fleet.members[first].edit(DEPLOYMENTS, which, {"spec": {"paused": True}})
    fleet.hub.edit(WORKLOADS, which, {"spec": {"targetDeployment": {"spec": {"paused": False}}}})
    outcomes = fleet.step("take")
    assert [name for name, each in outcomes.items() if each.fault] == [which]
    assert sum(each.step is Step.TAKEN for each in outcomes.values()) == total - 1
    found = fleet.step("status")
    assert sum(each.step is Step.TAKEN for each in found.values()) == total - 1
    assert found[which].step is Step.RELEASED
