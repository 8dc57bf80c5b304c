"""A migration where somebody errs, or something changes between two steps."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from crds.names import OWNER_PREFIX, SYSTEM_NAMESPACE
from machinery.api.resources import CONFIG_MAPS, MEMBER_CLUSTERS, NAMESPACES, SECRETS, WORKLOADS
from stowage.importing.pieces import Placed
from stowage.migrating import kept
from stowage.migrating.clusters import uid_of
from stowage.migrating.kept import Step
from stowage.migrating.peers.karmada import MANAGED, POLICIES
from stowage.migrating.peers.kubefleet import PLACEMENTS, WORKS
from stowage.migrating.peers.ocm import SETS
from stowage.migrating.peers.works import replicas_of
from tests.stowage.migrating.test_migrate import Kills, ready, steps, without_versions
from tests.stowage.migrating.test_migrate_works import KubeFleetFleet, OcmFleet
from tests.stowage.migrating.world import DEPLOYMENTS, HPAS, Fleet, Killed, Server
from tests.stowage.test_import_karmada import select


@pytest.fixture
def fleet() -> Fleet:
    """Karmada runs `web` on both members, four replicas and two."""
    made = Fleet()
    made.run("web", 6, m1=4, m2=2)
    made.sync()
    return made


def shared(fleet: Fleet) -> None:
    """Have the policy of `web` place `api` too, on the same clusters."""
    fleet.run("api", 6, m1=4, m2=2)
    fleet.theirs.remove(POLICIES, "api")
    selectors = [select(name="web"), select(name="api")]
    fleet.theirs.edit(POLICIES, "web", {"spec": {"resourceSelectors": selectors}})
    fleet.sync()


def hpa(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "cpu", "namespace": "shop"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": name}},
    }


def fault(fleet: Fleet, step: str, name: str = "web", **asked: Any) -> str:
    return fleet.step(step, **asked)[name].fault


# --- wrong clusters -------------------------------------------------------------------------------


@pytest.mark.proves("IM20")
def test_a_kubeconfig_of_another_cluster_is_found_out(fleet: Fleet) -> None:
    steps(fleet, "adopt")
    fleet.members["m1"], fleet.members["m2"] = fleet.members["m2"], fleet.members["m1"]
    held = fleet.on_members()
    said = fault(fleet, "release")
    assert "the kubeconfig of paris leads to another cluster" in said
    assert "uid-m2, and the MemberCluster's uid-m1" in said
    assert fleet.on_members() == held
    assert not fleet.hub.all(SECRETS)


@pytest.mark.proves("IM20")
@pytest.mark.parametrize(
    ("status", "uid"),
    [
        ({"clusterID": "u"}, "u"),
        ({"clusterID": "set", "clusterUID": "u"}, "u"),
        ({"clusterID": "set", "clusterUID": ""}, ""),  # kube-system may not be read there
        ({}, ""),
    ],
)
def test_a_cluster_is_known_by_its_kube_system_alone(status: dict[str, str], uid: str) -> None:
    assert uid_of({"status": status}) == uid


@pytest.mark.proves("IM20")
@pytest.mark.parametrize("step", ["take", "undo", "finish", "release"])
def test_another_hub_of_the_peer_proves_nothing(fleet: Fleet, step: str) -> None:
    steps(fleet, "adopt", "release")
    if step == "finish":
        steps(fleet, "take")
        ready(fleet)
    fleet.theirs.uid = "another"
    held = fleet.on_members()
    assert "another hub than the one that it was released from" in fault(fleet, step)
    assert fleet.on_members() == held
    assert fleet.hub.all(SECRETS)


@pytest.mark.parametrize("ends", ["undo", "finish"])
def test_rules_of_one_name_on_two_hubs_of_the_peer_are_two(fleet: Fleet, ends: str) -> None:
    steps(fleet, "adopt", "release")
    (secret,) = fleet.hub.all(SECRETS)
    record = kept._decoded(secret).record
    other = msgspec.structs.replace(record, hub="another", workload=("other", "web"), clusters={})
    asyncio.run(kept.keep(fleet.hub, SYSTEM_NAMESPACE, "u", other))
    if ends == "finish":
        steps(fleet, "take")
        ready(fleet)
    steps(fleet, ends)
    assert bool(fleet.theirs.all(POLICIES)) is (ends == "undo")
    assert [each["metadata"]["name"] for each in fleet.hub.all(SECRETS)] == ["migration-u"]


# --- what is placed together goes together --------------------------------------------------------


@pytest.mark.proves("IM27")
def test_a_rule_is_not_released_while_one_that_it_places_is_in_the_way(fleet: Fleet) -> None:
    shared(fleet)
    steps(fleet, "adopt")
    fleet.members["m1"].put(HPAS, hpa("api"))
    held = fleet.on_members()
    found = fleet.step("release")
    assert "HorizontalPodAutoscaler cpu" in found["api"].fault
    text = "PropagationPolicy shop/web places others too that cannot go on"
    assert text in found["web"].fault
    assert text in fleet.plan().text()
    assert fleet.on_members() == held
    assert not fleet.hub.all(SECRETS)


@pytest.mark.proves("IM27")
def test_a_rule_is_not_released_while_one_that_it_places_is_not_adopted(fleet: Fleet) -> None:
    shared(fleet)
    steps(fleet, "adopt")
    fleet.hub.remove(WORKLOADS, "api")
    found = fleet.step("release")
    assert "adopt it first" in found["api"].fault
    assert "places others too that are not released" in found["web"].fault
    assert not fleet.hub.all(SECRETS)


@pytest.mark.proves("IM26")
def test_a_rule_is_not_given_back_while_one_that_it_places_is_not(fleet: Fleet) -> None:
    shared(fleet)
    steps(fleet, "adopt", "release", "take", "undo")
    mark = {"metadata": {"annotations": {f"{OWNER_PREFIX}u": "shop/api"}}}
    fleet.members["m1"].edit(DEPLOYMENTS, "api", mark)
    held = fleet.on_members()
    found = fleet.step("undo")
    assert "carries Stowage's marks still" in found["api"].fault
    assert "holds other Workloads too" in found["web"].fault
    assert fleet.on_members() == held
    assert fleet.theirs.read(POLICIES, "web")["spec"]["suspension"]["dispatching"] is True


# --- undo -----------------------------------------------------------------------------------------


@pytest.mark.proves("IM26")
def test_nothing_is_given_back_where_the_rule_is_gone(fleet: Fleet) -> None:
    steps(fleet, "adopt", "release")
    fleet.theirs.remove(POLICIES, "web")
    held = fleet.on_members()
    assert "PropagationPolicy shop/web is gone: a backup" in fault(fleet, "undo")
    assert fleet.on_members() == held


@pytest.mark.proves("IM26")
def test_what_the_peer_places_elsewhere_by_now_is_not_left_to_nobody(fleet: Fleet) -> None:
    steps(fleet, "adopt", "release")
    fleet.peer.where["Deployment", "web"] = {"m1": 6}
    fleet.sync()
    held = fleet.on_members()
    said = fault(fleet, "undo")
    assert "Karmada does not place it on m2 any more, where it runs" in said
    assert fleet.on_members() == held
    fleet.peer.where["Deployment", "web"] = {"m1": 4, "m2": 2}
    fleet.sync()
    steps(fleet, "undo", "undo")


@pytest.mark.proves("IM26")
def test_a_delivery_does_not_end_where_it_runs_on_other_members(fleet: Fleet) -> None:
    steps(fleet, "adopt", "release", "take")
    moved = [{"cluster": "paris", "replicas": 4}, {"cluster": "oslo", "replicas": 2}]
    fleet.hub.edit(WORKLOADS, "web", {"status": {"placements": moved}}, status=True)
    assert "it runs on oslo too, where Karmada has not placed it" in fault(fleet, "undo")
    assert fleet.workload()["spec"]["delivery"] == "Push"


@pytest.mark.proves("IM26")
def test_an_undo_ends_only_when_the_peer_has_read_its_rule() -> None:
    """One reading of the peer serves all who wait: it has to begin after the change of each."""
    fleet = Fleet()
    fleet.run("web", 1, m1=1)
    fleet.run("api", 2, m1=1, m2=1)  # has more to be put back, so its rule is later
    fleet.sync()
    steps(fleet, "adopt", "release")
    fleet.clock.during = None  # the peer does not answer
    outcomes = fleet.step("undo")
    assert all("is suspended still" in each.fault for each in outcomes.values()), outcomes
    assert len(fleet.hub.all(SECRETS)) == 2


@pytest.mark.proves("IM26")
def test_a_workload_that_was_deleted_meanwhile_is_given_back(fleet: Fleet) -> None:
    before = fleet.theirs.read(POLICIES, "web")["spec"]
    steps(fleet, "adopt", "release")
    fleet.hub.remove(WORKLOADS, "web")
    assert "was deleted after its release" in fault(fleet, "status")
    assert "undo gives back what that took" in fault(fleet, "adopt")
    assert not fleet.hub.all(WORKLOADS)
    steps(fleet, "undo")
    assert fleet.theirs.read(POLICIES, "web")["spec"] == before
    label = fleet.members["m1"].read(DEPLOYMENTS, "web")["metadata"]["labels"][MANAGED]
    assert label == "true"
    assert not fleet.hub.all(SECRETS)
    steps(fleet, "adopt", "release", "take")


@pytest.mark.proves("IM26")
def test_an_owner_that_is_gone_is_not_put_back() -> None:
    """The garbage collector deletes what names one."""
    fleet = KubeFleetFleet()
    steps(fleet, "adopt", "release")
    for places in (["m1"], ["m1", "m2"]):  # the AppliedWork is another one then
        fleet.small.where["all"] = places
        fleet.sync(2)
    uid = fleet.members["m2"].read(DEPLOYMENTS, "web")["metadata"]["uid"]
    fleet.clock.during = None
    fleet.step("undo")
    assert not fleet.members["m2"].read(DEPLOYMENTS, "web")["metadata"].get("ownerReferences")
    fleet.clock.during = fleet.small.sync
    assert not fault(fleet, "undo")
    fleet.sync()
    found = fleet.members["m2"].read(DEPLOYMENTS, "web")["metadata"]
    assert found["uid"] == uid
    assert found["ownerReferences"]


def test_a_placement_that_chooses_otherwise_by_now_is_not_given_back() -> None:
    fleet = KubeFleetFleet()
    steps(fleet, "adopt", "release")
    fleet.small.where["all"] = ["m1"]
    fleet.sync(2)
    assert [each["metadata"]["namespace"] for each in fleet.theirs.all(WORKS)] == [
        "fleet-member-m1"
    ]
    held = fleet.on_members()
    assert "KubeFleet does not place it on m2 any more" in fault(fleet, "undo")
    assert fleet.on_members() == held
    strategy = fleet.theirs.read(PLACEMENTS, "all")["spec"]["strategy"]["applyStrategy"]
    assert strategy["type"] == "ReportDiff"


@pytest.mark.proves("IM26")
def test_what_was_cut_off_anywhere_is_taken_back_without_a_trace() -> None:
    for at in itertools.count():
        fleet = Fleet()
        fleet.run("web", 3, m1=2, m2=1)
        fleet.sync()
        before = everything(fleet)
        kill = Kills(fleet, at)
        with suppress(Killed):
            steps(fleet, "adopt", "release", "take")
        killed = kill.end()
        while fleet.hub.all(WORKLOADS):
            steps(fleet, "undo")
        fleet.sync()
        assert everything(fleet) == before, f"killed after the write {at}"
        assert not fleet.hub.all(SECRETS)
        if not killed:
            break
    assert at > 15


def everything(fleet: Fleet) -> Any:
    """The objects of peer and members, but for what servers count."""
    states = [fleet.theirs.state(), *fleet.on_members().values()]
    return [without_versions(each) for each in states]


# --- what changes between two steps ---------------------------------------------------------------


def test_a_template_that_was_changed_since_it_was_adopted_is_in_the_way(fleet: Fleet) -> None:
    fleet.theirs.edit(DEPLOYMENTS, "web", {"spec": {"paused": False}})
    fleet.sync()
    steps(fleet, "adopt")
    fleet.theirs.edit(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    fleet.sync()
    assert "differs in spec.paused (false here, true there)" in fault(fleet, "release")
    assert not fleet.hub.all(SECRETS)


def test_a_template_that_is_gone_since_it_was_adopted_is_told(fleet: Fleet) -> None:
    steps(fleet, "adopt")
    fleet.theirs.remove(DEPLOYMENTS, "web")
    fleet.theirs.remove(POLICIES, "web")
    fleet.sync()
    assert "Karmada runs it no more: undo it" in fault(fleet, "release")


def test_a_peer_that_writes_again_is_told_by_status(fleet: Fleet) -> None:
    steps(fleet, "adopt", "release", "take")
    ready(fleet)
    assert not fault(fleet, "status")
    fleet.theirs.edit(POLICIES, "web", {"spec": {"suspension": None}})  # such as by GitOps
    fleet.sync()
    assert "is not suspended" in fault(fleet, "status")


def test_a_release_that_was_cut_off_before_it_was_noted_is_told(fleet: Fleet) -> None:
    steps(fleet, "adopt")
    fleet.clock.during = None
    assert fault(fleet, "release")
    fleet.sync()
    for server in fleet.members.values():
        for res, name in ((DEPLOYMENTS, "web"),):
            server.edit(res, name, {"metadata": {"labels": {MANAGED: None}}})
        server.edit(NAMESPACES, "shop", {"metadata": {"labels": {MANAGED: None}}})
    assert fault(fleet, "status") == "was cut off: run the step again"


def test_two_workloads_that_need_one_object_of_the_peer_are_both_adopted() -> None:
    fleet = Fleet()
    for name in ("web", "api"):
        fleet.follow(name, "conf", m1=1)
    fleet.sync()
    steps(fleet, "adopt")
    assert fleet.workload("api")["spec"]["dependencies"] == "Follow"
    assert [each["metadata"]["name"] for each in fleet.hub.all(CONFIG_MAPS)] == ["conf"]


@pytest.mark.proves("IM19")
def test_what_pods_start_without_and_nobody_has_is_not_in_the_way() -> None:
    fleet = Fleet()
    fleet.follow("web", "conf", m1=1)
    fleet.theirs.remove(CONFIG_MAPS, "conf")
    fleet.sync()
    (each,) = fleet.plan().candidates
    assert any("ConfigMap shop/conf is not on the hub" in way for way in each.ways)
    volumes = [{"name": "conf", "configMap": {"name": "conf", "optional": True}}]
    fleet.theirs.edit(DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"volumes": volumes}}}})
    fleet.sync()
    (each,) = fleet.plan().candidates
    assert each.ways == []
    steps(fleet, "adopt", "release", "take")


@pytest.mark.proves("IM25")
def test_what_goes_along_is_compared_too() -> None:
    fleet = Fleet()
    fleet.follow("web", "conf", m1=1)
    fleet.sync()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "other"}}
    body["metadata"] = {"name": "conf", "namespace": "shop"}
    fleet.put(fleet.hub, body)
    assert "ConfigMap conf differs in data.a" in fleet.plan().text()
    steps(fleet, "adopt")
    assert "ConfigMap conf differs in data.a" in fault(fleet, "release")


def test_an_object_that_a_rule_places_since_it_was_adopted_is_in_the_way(fleet: Fleet) -> None:
    steps(fleet, "adopt")
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"selector": {"app": "web"}}}
    fleet.put(fleet.theirs, {**service, "metadata": {"name": "web", "namespace": "shop"}})
    selectors = [select(name="web"), select("Service", "v1")]
    fleet.theirs.edit(POLICIES, "web", {"spec": {"resourceSelectors": selectors}})
    fleet.peer.where["Service", "web"] = {"m1": 1, "m2": 1}
    fleet.sync()
    text = "Service shop/web was added or removed since it was adopted: undo, and adopt it again"
    assert text in fault(fleet, "release")
    assert not fleet.hub.all(SECRETS)


def test_two_rules_that_make_one_name_are_in_the_way() -> None:
    fleet = OcmFleet()
    other = fleet.theirs.read(SETS, "web", "ocm")
    meta = {"name": "web", "namespace": "other"}
    fleet.theirs.put(SETS, {**other, "metadata": meta})
    found = [each.fault for each in fleet.step("adopt", lossy=True).values()]
    text = "ManifestWorkReplicaSet ocm/web, ManifestWorkReplicaSet other/web make a Workload of one"
    assert any(text in each for each in found), found
    assert not fleet.hub.all(WORKLOADS)


def test_a_member_that_is_not_registered_any_more_is_named(fleet: Fleet) -> None:
    steps(fleet, "adopt", "release")
    fleet.hub.remove(MEMBER_CLUSTERS, "tokyo")
    assert fault(fleet, "take") == "the hub has no MemberCluster tokyo any more"


def test_replicas_are_where_the_kind_has_them() -> None:
    def count(path: str, kind: str, spec: dict[str, Any]) -> int:
        body = {"spec": {"replicasPath": path} if path else {}}
        manifest = {"apiVersion": "batch/v1" if kind == "Job" else "x.io/v1", "kind": kind}
        return replicas_of(Placed(None, body, None, "", None, []), {**manifest, "spec": spec})  # type: ignore[arg-type] # no source is asked for

    assert count("spec.workers.count", "Ring", {"workers": {"count": 3}, "replicas": 9}) == 3
    assert count("", "Job", {"parallelism": 2}) == 2
    assert count("", "Ring", {"replicas": 9}) == 1


# --- a member that lies, and many -----------------------------------------------------------------


class Liar(Server):
    """A member that tells something else of the Deployment `web`."""

    def __init__(self, honest: Server, lie: dict[str, Any]) -> None:
        super().__init__(honest.clock, honest.uid)
        self._honest, self._lie = honest, lie

    def _answer(self, method: str, path: str, params: Any, body: Any) -> dict[str, Any]:
        found = self._honest._answer(method, path, params, body)
        if method != "GET" or not path.endswith("/deployments/web"):
            return found
        metadata = self._lie.get("metadata", {})
        if metadata:
            metadata = {**found["metadata"], **metadata}
        return {**found, **self._lie, "metadata": found["metadata"] if metadata == {} else metadata}


@pytest.mark.proves("IM31")
@pytest.mark.parametrize(
    "lie",
    [
        {"metadata": {"ownerReferences": ["x"]}},
        {"metadata": {"labels": {"a": 1}}},
        {"metadata": {"annotations": ["a"]}},
        {"metadata": None},
        {"spec": {"ordinals": {"start": "x"}}},
    ],
)
def test_a_member_that_lies_stops_its_own_workloads_alone(lie: dict[str, Any]) -> None:
    fleet = Fleet()
    fleet.run("web", 1, m1=1)
    fleet.run("api", 1, m2=1)
    fleet.sync()
    steps(fleet, "adopt")
    fleet.members = {**fleet.members, "m1": Liar(fleet.members["m1"], lie)}
    found = fleet.step("release")
    assert found["api"].step is Step.RELEASED
    assert found["web"].fault


def test_finish_asks_the_hub_no_more_for_each_workload_the_more_there_are() -> None:
    counts = []
    for many in (2, 6):
        fleet = Fleet()
        for n in range(many):
            fleet.run(f"w{n}", 2, m1=1, m2=1)
        fleet.sync()
        steps(fleet, "adopt", "release", "take")
        for n in range(many):
            ready(fleet, f"w{n}")
        fleet.hub.requests.clear()
        steps(fleet, "finish")
        lists = [path for method, path, _ in fleet.hub.requests if path.endswith("/secrets")]
        counts.append(len(lists))
        assert not fleet.hub.all(SECRETS)
    assert counts[0] == counts[1]


def test_autoscalers_are_listed_once_for_each_member() -> None:
    fleet = Fleet()
    for n in range(4):
        fleet.run(f"w{n}", 2, m1=1, m2=1)
    fleet.sync()
    steps(fleet, "adopt")
    asked = [
        path for server in fleet.members.values() for _, path, _ in server.requests
        if path.endswith("/horizontalpodautoscalers")
    ]  # fmt: skip
    assert len(asked) == 2


def test_the_rule_goes_with_the_last_that_it_places(fleet: Fleet) -> None:
    shared(fleet)
    steps(fleet, "adopt", "release", "take")
    ready(fleet, "api")
    assert fleet.step("finish")["api"].step is Step.FINISHED
    assert fleet.theirs.all(POLICIES)
    ready(fleet, "web")
    steps(fleet, "finish")
    assert not fleet.theirs.all(POLICIES)


@pytest.mark.proves("IM28")
def test_a_finish_that_was_cut_off_ends_nothing_that_the_peer_holds_again(fleet: Fleet) -> None:
    """Its rules were applied anew from Git before the step was run again."""
    fleet.theirs.edit(POLICIES, "web", {"spec": {"conflictResolution": "Overwrite"}})
    fleet.sync()
    before = fleet.theirs.read(POLICIES, "web")["spec"]
    steps(fleet, "adopt", "release", "take")
    ready(fleet)
    kill = Kills(fleet, 0)
    with pytest.raises(Killed):
        fleet.step("finish")
    kill.end()
    assert fleet.step("status")["web"].step is Step.FINISHING
    anew = {"suspension": None, "conflictResolution": before["conflictResolution"]}
    fleet.theirs.edit(POLICIES, "web", {"spec": anew})
    fleet.sync()

    async def syncs(method: str, path: str, _: Any) -> None:
        """Karmada answers a change on a member at once."""
        if method == "PATCH" and path.endswith("/web"):
            after, server.after = server.after, []
            await fleet.peer.sync()
            server.after = after

    server = fleet.members["m1"]
    server.after.append(syncs)
    told = fault(fleet, "finish")
    assert told.startswith("Karmada holds it again since finish was cut off: ")
    assert MANAGED in told
    server.after.clear()
    fleet.sync()
    for member in fleet.members.values():
        assert member.all(DEPLOYMENTS)
    assert fleet.theirs.all(DEPLOYMENTS)
    released = {"suspension": {"dispatching": True}, "conflictResolution": "Abort"}
    fleet.theirs.edit(POLICIES, "web", {"spec": released})
    fleet.sync()
    for member in fleet.members.values():
        member.edit(DEPLOYMENTS, "web", {"metadata": {"labels": {MANAGED: None}}})
        member.edit(NAMESPACES, "shop", {"metadata": {"labels": {MANAGED: None}}})
    steps(fleet, "finish")
    assert not fleet.theirs.all(DEPLOYMENTS)


@pytest.mark.proves("IM26")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("adopt", "release"), ("take", "undo", "undo")),
        (("adopt", "release", "take"), ("finish",)),
        (("adopt", "release"), ("release", "undo")),
    ],
)
def test_a_migration_goes_on_under_the_new_name_of_a_member(
    fleet: Fleet, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    steps(fleet, *before)
    cluster = fleet.hub.read(MEMBER_CLUSTERS, "paris")
    fleet.hub.remove(MEMBER_CLUSTERS, "paris")
    spec = {"formerNames": ["paris"]}
    status = cluster["status"]
    fleet.hub.put(
        MEMBER_CLUSTERS, {"metadata": {"name": "lutetia"}, "spec": spec, "status": status}
    )
    fleet.named = {**fleet.named, "m1": "lutetia"}
    shares = [{"cluster": "lutetia", "replicas": 4}, {"cluster": "tokyo", "replicas": 2}]
    fleet.hub.edit(WORKLOADS, "web", {"status": {"placements": shares}}, status=True)
    for step in after:
        if step == "finish":
            ready(fleet)
        steps(fleet, step)
    assert not fleet.hub.all(SECRETS)
    held = fleet.members["m1"].read(DEPLOYMENTS, "web")["metadata"].get("labels", {})
    assert (MANAGED in held) is ("finish" not in after)
