"""A migration from Open Cluster Management: the facts it stands on, and its steps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from machinery.api.resources import NAMESPACES, SECRETS, WORKLOADS
from stowage.fleet.manifests import Document
from stowage.migrating.kept import Step
from stowage.migrating.peers import ocm
from stowage.migrating.peers.ocm import CLUSTERS, SETS, WORKS
from tests.stowage.importing import deployment
from tests.stowage.migrating.smallocm import SmallOcm
from tests.stowage.migrating.test_migrate import ready, steps, without_versions
from tests.stowage.migrating.world import DEPLOYMENTS, Fleet
from tests.stowage.test_import_peers import placement


class OcmFleet(Fleet):
    """OCM runs `web` on both members by a set, in the namespace `shop` there."""

    def __init__(self) -> None:
        super().__init__()
        self.system = ocm.PEER
        self.ocm = SmallOcm(self.theirs, self.members)
        self.clock.during = self.ocm.sync
        for name in self.members:
            claims = [{"name": "id.k8s.io", "value": f"uid-{name}"}]
            self.theirs.put(CLUSTERS, {
                "apiVersion": CLUSTERS.api_version, "kind": CLUSTERS.kind,
                "metadata": {"name": name}, "status": {"clusterClaims": claims},
            })  # fmt: skip
        self.rule = self.theirs.put(SETS, {
            "apiVersion": SETS.api_version, "kind": SETS.kind,
            "metadata": {"name": "web", "namespace": "ocm"},
            "spec": {
                "placementRefs": [{"name": "all"}],
                "manifestWorkTemplate": {"workload": {"manifests": [self._namespace(), self._web()]}},
            },
        })  # fmt: skip
        self.ocm.where["web"] = ["m1", "m2"]
        for _ in range(2):
            asyncio.run(self.ocm.sync())

    def _namespace(self) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}

    def _web(self) -> dict[str, Any]:
        body = deployment(replicas=2)
        body["metadata"] = {"name": "web", "namespace": "shop"}
        body["spec"]["selector"] = {"matchLabels": {"app": "web"}}
        return body

    def documents(self, namespace: str) -> list[Document]:
        assert namespace == "", "rules of OCM are in other namespaces than their objects"
        where = placement(predicates=[], clusterSets=["global"])
        where["metadata"] = {"name": "all", "namespace": "ocm"}
        bodies = [where]
        for res in (CLUSTERS, SETS, WORKS):
            head = {"apiVersion": res.api_version, "kind": res.kind}
            bodies += [{**each, **head} for each in self.theirs.all(res)]
        return [Document("ocm", n, body) for n, body in enumerate(bodies, 1)]

    def sync(self) -> None:
        asyncio.run(self.ocm.sync())


@pytest.fixture
def fleet() -> OcmFleet:
    return OcmFleet()


def owners(fleet: OcmFleet) -> list[Any]:
    found = [server.read(DEPLOYMENTS, "web")["metadata"] for server in fleet.members.values()]
    return [each.get("ownerReferences") for each in found]


def test_what_has_an_owner_goes_with_its_work_and_an_orphan_stays(fleet: OcmFleet) -> None:
    assert all(owners(fleet))
    option = {"spec": {"manifestWorkTemplate": {"deleteOption": {"propagationPolicy": "Orphan"}}}}
    fleet.theirs.edit(SETS, "web", option, namespace="ocm")
    fleet.sync()
    fleet.ocm.where["web"] = ["m1"]
    fleet.sync()
    assert owners(fleet) == [[], []]
    fleet.theirs.edit(SETS, "web", {
        "spec": {"manifestWorkTemplate": {"deleteOption": {"propagationPolicy": "Foreground"}}}
    }, namespace="ocm")  # fmt: skip
    fleet.sync()
    fleet.theirs.remove(SETS, "web", "ocm")
    for _ in range(2):
        fleet.sync()
    assert [len(s.all(DEPLOYMENTS)) for s in fleet.members.values()] == [0, 1]


def test_an_orphan_that_the_agent_has_not_seen_counts_for_nothing(fleet: OcmFleet) -> None:
    fleet.ocm.asleep = {"m2"}
    steps(fleet, "adopt")
    outcome = fleet.step("release")["web"]
    assert outcome.step is Step.RELEASING
    assert "the agent of m2 has not written since ManifestWork m2/web was changed" in outcome.fault
    assert "is releasing: release has not ended" in fleet.step("take")["web"].fault
    fleet.ocm.asleep = set()
    steps(fleet, "release")
    assert owners(fleet) == [[], []]


@pytest.mark.proves("IM20", "IM22", "IM23", "IM24")
def test_nothing_on_members_changes_but_the_owner(fleet: OcmFleet) -> None:
    writes = fleet.member_writes()
    assert [each.by for each in fleet.plan().matches] == ["cluster ID", "cluster ID"]
    assert fleet.plan().possible == 1
    steps(fleet, "adopt")
    assert fleet.workload()["status"]["placements"] == [
        {"cluster": "paris", "replicas": 2},
        {"cluster": "tokyo", "replicas": 2},
    ]
    assert fleet.member_writes() == writes
    specs = {n: s.read(DEPLOYMENTS, "web")["spec"] for n, s in fleet.members.items()}
    steps(fleet, "release", "release")
    work = fleet.theirs.read(WORKS, "web", "m1")
    assert {c["updateStrategy"]["type"] for c in work["spec"]["manifestConfigs"]} == {"ReadOnly"}
    held = fleet.on_members()
    steps(fleet, "take")
    fleet.ocm.where["web"] = ["m1"]
    for act in (lambda: None, lambda: fleet.theirs.remove(SETS, "web", "ocm")):
        act()
        for _ in range(2):
            fleet.sync()
        assert fleet.on_members() == held
    assert {n: s.read(DEPLOYMENTS, "web")["spec"] for n, s in fleet.members.items()} == specs
    assert not [each for each in fleet.member_writes() if each[0] == "DELETE"]


@pytest.mark.proves("IM26")
def test_undo_puts_the_set_back_and_the_agent_repairs_drift_again(fleet: OcmFleet) -> None:
    before = without_versions({"set": fleet.rule})
    steps(fleet, "adopt", "release", "undo")
    found = fleet.theirs.read(SETS, "web", "ocm")
    assert without_versions({"set": found}) == before
    assert all(owners(fleet))
    fleet.members["m1"].edit(DEPLOYMENTS, "web", {"spec": {"replicas": 9}})
    fleet.sync()
    assert fleet.members["m1"].read(DEPLOYMENTS, "web")["spec"]["replicas"] == 2
    steps(fleet, "undo")
    assert not [*fleet.hub.all(WORKLOADS), *fleet.hub.all(SECRETS)]


@pytest.mark.proves("IM27")
def test_another_work_with_the_object_is_in_the_way(fleet: OcmFleet) -> None:
    other = {
        "apiVersion": WORKS.api_version,
        "kind": WORKS.kind,
        "metadata": {"name": "other", "namespace": "m2"},
        "spec": {"workload": {"manifests": [fleet._web()]}},
    }
    fleet.theirs.put(WORKS, other)
    fleet.sync()
    faults = [each.fault for each in fleet.step("adopt", lossy=True).values()]
    text = "Deployment shop/web is in ManifestWork m2/other too, which would take it along"
    assert any(text in fault for fault in faults)


@pytest.mark.proves("IM28")
def test_finish_takes_the_set_and_the_marks(fleet: OcmFleet) -> None:
    steps(fleet, "adopt", "release", "take")
    ready(fleet)
    notes = {
        "open-cluster-management.io/config-spec-hash": "1",
        "operator.openshift.io/spec-hash": "2",
    }
    fleet.members["m1"].edit(DEPLOYMENTS, "web", {"metadata": {"annotations": notes}})
    steps(fleet, "finish")
    for _ in range(2):
        fleet.sync()
    assert not [*fleet.theirs.all(SETS), *fleet.theirs.all(WORKS)]
    found = fleet.members["m1"].read(DEPLOYMENTS, "web")
    assert not found["metadata"].get("annotations")
    assert "shop" in {each["metadata"]["name"] for each in fleet.members["m1"].all(NAMESPACES)}
