"""A migration from KubeFleet: the facts it stands on, and its steps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from machinery.api.resources import NAMESPACES, SECRETS, WORKLOADS
from stowage.fleet.manifests import Document
from stowage.migrating.peers import kubefleet
from stowage.migrating.peers.kubefleet import CLUSTERS, PLACEMENTS, RUNS, WORKS
from tests.stowage.importing import deployment
from tests.stowage.migrating.smallkubefleet import SmallKubeFleet
from tests.stowage.migrating.test_migrate import ready, steps, without_versions
from tests.stowage.migrating.world import DEPLOYMENTS, Fleet

NAMED = {"m1": "paris", "m2": "tokyo"}


class KubeFleetFleet(Fleet):
    """KubeFleet runs all of the namespace `shop` on both members."""

    def __init__(self) -> None:
        super().__init__()
        self.system = kubefleet.PEER
        self.kubefleet = SmallKubeFleet(self.theirs, self.members)
        self.clock.during = self.kubefleet.sync
        for name in self.members:
            self.theirs.put(CLUSTERS, {
                "apiVersion": CLUSTERS.api_version, "kind": CLUSTERS.kind,
                "metadata": {"name": name},
                "spec": {"identity": {"kind": "User", "name": name}},
            })  # fmt: skip
        web = deployment(replicas=2)
        web["metadata"] = {"name": "web", "namespace": "shop"}
        web["spec"]["selector"] = {"matchLabels": {"app": "web"}}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        self.kubefleet.selected = [space, web]
        self.put(self.theirs, web)
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
        self.rule = self.theirs.put(PLACEMENTS, {
            "apiVersion": PLACEMENTS.api_version, "kind": PLACEMENTS.kind,
            "metadata": {"name": "all"},
            "spec": {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}},
        })  # fmt: skip
        self.kubefleet.where["all"] = ["m1", "m2"]
        for _ in range(2):
            self.sync()

    def documents(self, namespace: str) -> list[Document]:
        del namespace
        bodies = []
        for res in (CLUSTERS, PLACEMENTS, NAMESPACES, DEPLOYMENTS):
            head = {"apiVersion": res.api_version, "kind": res.kind}
            bodies += [{**each, **head} for each in self.theirs.all(res)]
        return [Document("kubefleet", n, body) for n, body in enumerate(bodies, 1)]

    def sync(self) -> None:
        asyncio.run(self.kubefleet.sync())


@pytest.fixture
def fleet() -> KubeFleetFleet:
    return KubeFleetFleet()


def owners(fleet: Fleet) -> list[Any]:
    metas = [
        server.read(res, name)["metadata"]
        for server in fleet.members.values()
        for res, name in ((DEPLOYMENTS, "web"), (NAMESPACES, "shop"))
    ]
    return [each.get("ownerReferences") for each in metas]


def strategy(fleet: Fleet, **said: str) -> None:
    fleet.theirs.edit(PLACEMENTS, "all", {"spec": {"strategy": {"applyStrategy": said}}})


def test_report_diff_alone_takes_ownership_and_its_end_deletes(fleet: KubeFleetFleet) -> None:
    assert all(owners(fleet))
    strategy(fleet, type="ReportDiff", whenToTakeOver="Always")
    fleet.sync()
    fleet.members["m1"].edit(DEPLOYMENTS, "web", {"metadata": {"ownerReferences": None}})
    fleet.sync()
    assert all(owners(fleet))
    fleet.theirs.remove(PLACEMENTS, "all")
    for _ in range(2):
        fleet.sync()
    assert not [each for server in fleet.members.values() for each in server.all(NAMESPACES)]


def test_with_never_it_writes_nothing(fleet: KubeFleetFleet) -> None:
    strategy(fleet, type="ReportDiff", whenToTakeOver="Never")
    fleet.sync()
    edit = {"metadata": {"ownerReferences": None}, "spec": {"paused": True}}
    fleet.members["m1"].edit(DEPLOYMENTS, "web", edit)
    held = fleet.on_members()
    fleet.sync()
    assert fleet.on_members() == held


@pytest.mark.proves("IM20", "IM22", "IM23", "IM24")
def test_nothing_on_members_changes_but_the_owner(fleet: KubeFleetFleet) -> None:
    assert [m.member for m in fleet.plan().matches] == ["", ""]
    assert fleet.plan(clusters=NAMED).possible == 1
    writes = fleet.member_writes()
    assert not fleet.step("adopt", clusters=NAMED)["web"].fault
    assert fleet.workload()["status"]["placements"] == [
        {"cluster": "paris", "replicas": 2},
        {"cluster": "tokyo", "replicas": 2},
    ]
    assert fleet.member_writes() == writes
    specs = {n: s.read(DEPLOYMENTS, "web")["spec"] for n, s in fleet.members.items()}
    assert not fleet.step("release", clusters=NAMED)["web"].fault
    assert not any(owners(fleet))
    paths = [path.rpartition("/")[2] for _, path in fleet.member_writes()[len(writes) :]]
    assert paths.index("shop") < paths.index("web")  # a Namespace would take all along
    held = fleet.on_members()
    steps(fleet, "take")
    fleet.kubefleet.where["all"] = ["m1"]
    for act in (lambda: None, lambda: fleet.theirs.remove(PLACEMENTS, "all")):
        act()
        for _ in range(2):
            fleet.sync()
        assert fleet.on_members() == held
    assert {n: s.read(DEPLOYMENTS, "web")["spec"] for n, s in fleet.members.items()} == specs
    assert not [each for each in fleet.member_writes() if each[0] == "DELETE"]


@pytest.mark.proves("IM26")
def test_undo_puts_the_placement_back_and_the_agent_repairs_drift_again(
    fleet: KubeFleetFleet,
) -> None:
    before, owned = without_versions({"rule": fleet.rule}), owners(fleet)
    for step in ("adopt", "release", "undo"):
        assert not fleet.step(step, clusters=NAMED)["web"].fault
    found = fleet.theirs.read(PLACEMENTS, "all")
    assert without_versions({"rule": found}) == before
    assert owners(fleet) == owned
    fleet.members["m1"].edit(DEPLOYMENTS, "web", {"spec": {"replicas": 9}})
    fleet.sync()
    assert fleet.members["m1"].read(DEPLOYMENTS, "web")["spec"]["replicas"] == 2
    steps(fleet, "undo")
    assert not [*fleet.hub.all(WORKLOADS), *fleet.hub.all(SECRETS)]


@pytest.mark.proves("IM26")
def test_a_placement_of_server_side_apply_is_released_as_its_webhook_takes_it(
    fleet: KubeFleetFleet,
) -> None:
    """It refuses serverSideApplyConfig beside any other type."""
    said = {"type": "ServerSideApply", "serverSideApplyConfig": {"force": True}}
    fleet.theirs.edit(PLACEMENTS, "all", {"spec": {"strategy": {"applyStrategy": said}}})
    fleet.sync()
    for step in ("adopt", "release"):
        assert not fleet.step(step, clusters=NAMED)["web"].fault
    now = fleet.theirs.read(PLACEMENTS, "all")["spec"]["strategy"]["applyStrategy"]
    assert now == {"type": "ReportDiff", "whenToTakeOver": "Never"}
    assert not fleet.step("undo", clusters=NAMED)["web"].fault
    assert fleet.theirs.read(PLACEMENTS, "all")["spec"]["strategy"]["applyStrategy"] == said


@pytest.mark.proves("IM27")
def test_a_staged_run_in_the_middle_is_in_the_way(fleet: KubeFleetFleet) -> None:
    fleet.theirs.put(RUNS, {
        "apiVersion": RUNS.api_version, "kind": RUNS.kind, "metadata": {"name": "run"},
        "spec": {"placementName": "all"}, "status": {},
    })  # fmt: skip
    fault = fleet.step("adopt", clusters=NAMED)["web"].fault
    assert "ClusterStagedUpdateRun run is under way" in fault


@pytest.mark.proves("IM28")
def test_finish_takes_the_placement_and_the_marks(fleet: KubeFleetFleet) -> None:
    for step in ("adopt", "release"):
        assert not fleet.step(step, clusters=NAMED)["web"].fault
    steps(fleet, "take")
    ready(fleet)
    note = {"kubernetes-fleet.io/last-applied-configuration": "1", "mine": "2"}
    fleet.members["m1"].edit(DEPLOYMENTS, "web", {"metadata": {"annotations": note}})
    steps(fleet, "finish")
    for _ in range(2):
        fleet.sync()
    assert not [*fleet.theirs.all(PLACEMENTS), *fleet.theirs.all(WORKS)]
    found = fleet.members["m1"].read(DEPLOYMENTS, "web")
    assert found["metadata"]["annotations"] == {"mine": "2"}
    assert "shop" in {each["metadata"]["name"] for each in fleet.members["m1"].all(NAMESPACES)}
