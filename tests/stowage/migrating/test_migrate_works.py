"""Migrations from Open Cluster Management and KubeFleet: the facts they stand on, and their steps.

Both make works for their clusters, whose agents own what they apply (`smallworks`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from machinery.api.resources import NAMESPACES, SECRETS, WORKLOADS, Resource
from stowage.fleet.manifests import Document
from stowage.migrating.kept import Step
from stowage.migrating.outcomes import Outcome
from stowage.migrating.peer import Peer
from stowage.migrating.peers import kubefleet, ocm
from tests.stowage.importing import deployment
from tests.stowage.migrating.smallkubefleet import SmallKubeFleet
from tests.stowage.migrating.smallocm import SmallOcm
from tests.stowage.migrating.smallworks import Body, SmallWorks
from tests.stowage.migrating.test_migrate import ready, steps, without_versions
from tests.stowage.migrating.world import DEPLOYMENTS, Fleet
from tests.stowage.test_import_peers import placement

NAMED = {"m1": "paris", "m2": "tokyo"}
SPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
WEB = {
    **deployment(replicas=2),
    "metadata": {"name": "web", "namespace": "shop"},
}
WEB["spec"]["selector"] = {"matchLabels": {"app": "web"}}


class WorksFleet(Fleet):
    """The peer runs the Deployment `web` of the namespace `shop` on both members, by one rule."""

    rules: Resource
    of: tuple[str, str]
    """The rule's name, and its namespace if its kind has one."""
    read: tuple[Resource, ...]
    """What an import reads of its hub."""
    matched: tuple[str, str]
    """By what each of its clusters is matched with ours."""
    marks: tuple[str, ...]
    """Annotations that it leaves on what it runs."""

    def __init__(self, peer: Peer, small: Callable[..., SmallWorks], works: Resource) -> None:
        super().__init__()
        self.system, self.works = peer, works
        self.small = small(self.theirs, self.members)
        self.clock.during = self.small.sync

    def begin(self, clusters: Resource, said: Callable[[str], Body], rule: Body) -> None:
        for name in self.members:
            self.theirs.put(clusters, head(clusters, {"name": name}) | said(name))
        name, namespace = self.of
        where = {"namespace": namespace} if self.rules.namespaced else {}
        body = head(self.rules, {"name": name, **where}) | {"spec": rule}
        self.rule = self.theirs.put(self.rules, body)
        self.small.where[name] = ["m1", "m2"]
        self.sync(2)

    def documents(self, namespace: str) -> list[Document]:
        del namespace
        bodies = [*self.beside]
        for res in self.read:
            bodies += [{**each, **head(res)} for each in self.theirs.all(res)]
        return [Document(self.system.name, n, body) for n, body in enumerate(bodies, 1)]

    def sync(self, times: int = 1) -> None:
        for _ in range(times):
            asyncio.run(self.small.sync())

    def edit(self, spec: Body) -> None:
        """Edit the rule."""
        name, namespace = self.of
        self.theirs.edit(self.rules, name, {"spec": spec}, namespace=namespace)

    def remove(self) -> None:
        """Delete the rule."""
        name, namespace = self.of
        self.theirs.remove(self.rules, name, namespace)

    def now(self) -> Body:
        """The rule, as it is."""
        name, namespace = self.of
        return self.theirs.read(self.rules, name, namespace)


def head(res: Resource, metadata: Body | None = None) -> Body:
    made: Body = {"apiVersion": res.api_version, "kind": res.kind}
    return made if metadata is None else {**made, "metadata": metadata}


class OcmFleet(WorksFleet):
    """By a set in a namespace of its own."""

    rules, of = ocm.SETS, ("web", "ocm")
    read = (ocm.CLUSTERS, ocm.SETS, ocm.WORKS)
    matched = ("cluster ID", "cluster ID")
    marks = ("open-cluster-management.io/config-spec-hash", "operator.openshift.io/spec-hash")

    def __init__(self) -> None:
        super().__init__(ocm.PEER, SmallOcm, ocm.WORKS)
        where = placement(predicates=[], clusterSets=["global"])
        where["metadata"] = {"name": "all", "namespace": "ocm"}
        self.beside = [where]
        self.begin(
            ocm.CLUSTERS,
            lambda name: {
                "status": {"clusterClaims": [{"name": ocm.CLAIM, "value": f"uid-{name}"}]}
            },
            {
                "placementRefs": [{"name": "all"}],
                "manifestWorkTemplate": {"workload": {"manifests": [SPACE, WEB]}},
            },
        )

    def documents(self, namespace: str) -> list[Document]:
        assert namespace == "", "rules of OCM are in other namespaces than their objects"
        return super().documents(namespace)


class KubeFleetFleet(WorksFleet):
    """By a placement of all that the namespace has; its clusters tell no UID."""

    rules, of = kubefleet.PLACEMENTS, ("all", "")
    read = (kubefleet.CLUSTERS, kubefleet.PLACEMENTS, NAMESPACES, DEPLOYMENTS)
    matched = ("", "")
    marks = ("kubernetes-fleet.io/last-applied-configuration",)

    def __init__(self) -> None:
        super().__init__(kubefleet.PEER, SmallKubeFleet, kubefleet.WORKS)
        self.small.selected = [SPACE, WEB]
        self.put(self.theirs, WEB)
        self.begin(
            kubefleet.CLUSTERS,
            lambda name: {"spec": {"identity": {"kind": "User", "name": name}}},
            {
                "resourceSelectors": [
                    {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
                ],
                "policy": {"placementType": "PickAll"},
            },
        )

    def step(self, name: str, *names_: str, **asked: Any) -> dict[str, Outcome]:
        return super().step(name, *names_, **{"clusters": NAMED, **asked})

    def strategy(self, **said: Any) -> None:
        self.edit({"strategy": {"applyStrategy": said}})


def owners(fleet: Fleet) -> list[Any]:
    metas = [
        server.read(res, name)["metadata"]
        for server in fleet.members.values()
        for res, name in ((DEPLOYMENTS, "web"), (NAMESPACES, "shop"))
    ]
    return [each.get("ownerReferences") for each in metas]


BOTH = pytest.mark.parametrize("make", [OcmFleet, KubeFleetFleet])
Make: TypeAlias = Callable[[], WorksFleet]


@pytest.mark.proves("IM20", "IM22", "IM23", "IM24")
@BOTH
def test_nothing_on_members_changes_but_the_owner(make: Make) -> None:
    fleet = make()
    assert tuple(each.by for each in fleet.plan().matches) == fleet.matched
    assert fleet.plan(clusters=NAMED).possible == 1
    writes = fleet.member_writes()
    steps(fleet, "adopt")
    assert fleet.workload()["status"]["placements"] == [
        {"cluster": "paris", "replicas": 2},
        {"cluster": "tokyo", "replicas": 2},
    ]
    assert fleet.member_writes() == writes
    specs = {n: s.read(DEPLOYMENTS, "web")["spec"] for n, s in fleet.members.items()}
    steps(fleet, "release", "release")
    assert not any(owners(fleet))
    held = fleet.on_members()
    steps(fleet, "take")
    fleet.small.where[fleet.of[0]] = ["m1"]
    for act in (lambda: None, fleet.remove):
        act()
        fleet.sync(2)
        assert fleet.on_members() == held
    assert {n: s.read(DEPLOYMENTS, "web")["spec"] for n, s in fleet.members.items()} == specs
    assert not [each for each in fleet.member_writes() if each[0] == "DELETE"]


@pytest.mark.proves("IM19")
@BOTH
def test_what_asks_for_no_replicas_is_not_migrated(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No member holds anything of such a Workload: Stowage would not take it over."""
    monkeypatch.setitem(WEB["spec"], "replicas", 0)
    fleet = make()
    (each,) = fleet.plan(clusters=NAMED).candidates
    told = "it asks for no replicas, and no member would hold it: scale it up at the peer first"
    assert each.ways == [told]
    assert fleet.step("adopt", clusters=NAMED)["web"].fault == told


@pytest.mark.proves("IM26")
@BOTH
def test_undo_puts_the_rule_back_and_the_agent_repairs_drift_again(make: Make) -> None:
    fleet = make()
    before, owned = without_versions({"rule": fleet.rule}), owners(fleet)
    assert all(owned)
    steps(fleet, "adopt", "release", "undo")
    assert without_versions({"rule": fleet.now()}) == before
    assert owners(fleet) == owned
    fleet.members["m1"].edit(DEPLOYMENTS, "web", {"spec": {"replicas": 9}})
    fleet.sync()
    assert fleet.members["m1"].read(DEPLOYMENTS, "web")["spec"]["replicas"] == 2
    steps(fleet, "undo")
    assert not [*fleet.hub.all(WORKLOADS), *fleet.hub.all(SECRETS)]


@pytest.mark.proves("IM28")
@BOTH
def test_finish_takes_the_rule_and_the_marks(make: Make) -> None:
    fleet = make()
    steps(fleet, "adopt", "release", "take")
    ready(fleet)
    notes = {**dict.fromkeys(fleet.marks, "1"), "mine": "3"}
    fleet.members["m1"].edit(DEPLOYMENTS, "web", {"metadata": {"annotations": notes}})
    steps(fleet, "finish")
    fleet.sync(2)
    assert not [*fleet.theirs.all(fleet.rules), *fleet.theirs.all(fleet.works)]
    found = fleet.members["m1"].read(DEPLOYMENTS, "web")
    assert found["metadata"]["annotations"] == {"mine": "3"}
    assert "shop" in {each["metadata"]["name"] for each in fleet.members["m1"].all(NAMESPACES)}


# --- Open Cluster Management ----------------------------------------------------------------------


def test_what_has_an_owner_goes_with_its_work_and_an_orphan_stays() -> None:
    fleet = OcmFleet()
    assert all(owners(fleet))
    fleet.edit({"manifestWorkTemplate": {"deleteOption": {"propagationPolicy": "Orphan"}}})
    fleet.sync()
    fleet.small.where["web"] = ["m1"]
    fleet.sync()
    assert not any(owners(fleet))
    fleet.edit({"manifestWorkTemplate": {"deleteOption": {"propagationPolicy": "Foreground"}}})
    fleet.sync()
    fleet.remove()
    fleet.sync(2)
    assert [len(s.all(DEPLOYMENTS)) for s in fleet.members.values()] == [0, 1]


def test_an_orphan_that_the_agent_has_not_seen_counts_for_nothing() -> None:
    fleet = OcmFleet()
    fleet.small.asleep = {"m2"}
    steps(fleet, "adopt")
    outcome = fleet.step("release")["web"]
    assert outcome.step is Step.RELEASING
    assert "the agent of m2 has not written since ManifestWork m2/web was changed" in outcome.fault
    assert "is releasing: release has not ended" in fleet.step("take")["web"].fault
    fleet.small.asleep = set()
    steps(fleet, "release", "release")
    assert not any(owners(fleet))
    work = fleet.theirs.read(ocm.WORKS, "web", "m1")
    assert {c["updateStrategy"]["type"] for c in work["spec"]["manifestConfigs"]} == {"ReadOnly"}


@pytest.mark.proves("IM27")
def test_another_work_with_the_object_is_in_the_way() -> None:
    fleet = OcmFleet()
    other = head(ocm.WORKS, {"name": "other", "namespace": "m2"})
    fleet.theirs.put(ocm.WORKS, other | {"spec": {"workload": {"manifests": [WEB]}}})
    fleet.sync()
    faults = [each.fault for each in fleet.step("adopt", lossy=True).values()]
    text = "Deployment shop/web is in ManifestWork m2/other too, which would take it along"
    assert any(text in fault for fault in faults)


# --- KubeFleet ------------------------------------------------------------------------------------


def test_report_diff_alone_takes_ownership_and_its_end_deletes() -> None:
    fleet = KubeFleetFleet()
    assert all(owners(fleet))
    fleet.strategy(type="ReportDiff", whenToTakeOver="Always")
    fleet.sync()
    fleet.members["m1"].edit(DEPLOYMENTS, "web", {"metadata": {"ownerReferences": None}})
    fleet.sync()
    assert all(owners(fleet))
    fleet.remove()
    fleet.sync(2)
    assert not [each for server in fleet.members.values() for each in server.all(NAMESPACES)]


def test_with_never_it_writes_nothing() -> None:
    fleet = KubeFleetFleet()
    fleet.strategy(type="ReportDiff", whenToTakeOver="Never")
    fleet.sync()
    edit = {"metadata": {"ownerReferences": None}, "spec": {"paused": True}}
    fleet.members["m1"].edit(DEPLOYMENTS, "web", edit)
    held = fleet.on_members()
    fleet.sync()
    assert fleet.on_members() == held


@pytest.mark.proves("IM26")
def test_a_placement_of_server_side_apply_is_released_as_its_webhook_takes_it() -> None:
    """It refuses serverSideApplyConfig beside any other type. A Namespace is freed first."""
    fleet = KubeFleetFleet()
    said = {"type": "ServerSideApply", "serverSideApplyConfig": {"force": True}}
    fleet.strategy(**said)
    fleet.sync()
    writes = len(fleet.member_writes())
    steps(fleet, "adopt", "release")
    paths = [path.rpartition("/")[2] for _, path in fleet.member_writes()[writes:]]
    assert paths.index("shop") < paths.index("web")  # a Namespace would take all along
    now = fleet.now()["spec"]["strategy"]["applyStrategy"]
    assert now == {"type": "ReportDiff", "whenToTakeOver": "Never"}
    steps(fleet, "undo")
    assert fleet.now()["spec"]["strategy"]["applyStrategy"] == said


@pytest.mark.proves("IM27")
def test_a_staged_run_in_the_middle_is_in_the_way() -> None:
    fleet, runs = KubeFleetFleet(), kubefleet.RUNS
    run = head(runs, {"name": "run"}) | {"spec": {"placementName": "all"}, "status": {}}
    fleet.theirs.put(runs, run)
    fault = fleet.step("adopt")["web"].fault
    assert "ClusterStagedUpdateRun run is under way" in fault
