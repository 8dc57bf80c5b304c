"""The facts of Karmada's code that a migration stands on, each of the small peer of the tests."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.api.resources import NAMESPACES, Resource
from stowage.migrating.peers.karmada import BINDINGS, MANAGED, POLICIES, WORKS
from tests.stowage.migrating.world import DEPLOYMENTS, Fleet

_WEB = "/apis/apps/v1/namespaces/shop/deployments/web"


@pytest.fixture
def fleet() -> Fleet:
    made = Fleet()
    made.run("web", 6, m1=4, m2=2)
    made.sync()
    return made


def suspend(fleet: Fleet, **spec: Any) -> None:
    fleet.theirs.edit(POLICIES, "web", {"spec": {"suspension": {"dispatching": True}, **spec}})
    fleet.sync()


def unlabel(fleet: Fleet, name: str = "m1", res: Resource = DEPLOYMENTS, what: str = "web") -> None:
    patch = {"metadata": {"labels": {MANAGED: None}}}
    fleet.members[name].edit(res, what, patch)


def drift(fleet: Fleet, image: str = "other") -> None:
    fleet.members["m1"].edit(DEPLOYMENTS, "web", {"spec": {"paused": image == "other"}})
    fleet.theirs.edit(DEPLOYMENTS, "web", {"spec": {"paused": False}})


def live(fleet: Fleet, name: str = "m1") -> Any:
    return fleet.members[name].read(DEPLOYMENTS, "web")


def test_it_sends_each_cluster_its_replicas_with_its_label(fleet: Fleet) -> None:
    assert [live(fleet, n)["spec"]["replicas"] for n in ("m1", "m2")] == [4, 2]
    assert live(fleet)["metadata"]["labels"][MANAGED] == "true"
    assert fleet.members["m1"].read(NAMESPACES, "shop")["metadata"]["labels"][MANAGED] == "true"


def test_it_repairs_drift(fleet: Fleet) -> None:
    drift(fleet)
    fleet.sync()
    assert live(fleet)["spec"]["paused"] is False


def test_a_suspended_work_says_so_and_writes_nothing(fleet: Fleet) -> None:
    suspend(fleet)
    drift(fleet)
    fleet.sync()
    assert live(fleet)["spec"]["paused"] is True
    work = fleet.theirs.read(WORKS, "web-deployment", "karmada-es-m1")
    assert {"type": "Dispatching", "status": "False"} in work["status"]["conditions"]


def test_a_suspended_work_is_not_made_again(fleet: Fleet) -> None:
    suspend(fleet)
    fleet.members["m1"].remove(DEPLOYMENTS, "web")
    fleet.sync()
    assert _WEB not in fleet.members["m1"].state()


def test_the_deletion_of_a_suspended_work_is_carried_out(fleet: Fleet) -> None:
    suspend(fleet)
    fleet.theirs.remove(DEPLOYMENTS, "web")
    fleet.sync()
    assert _WEB not in fleet.members["m1"].state()


def test_what_lacks_the_label_is_not_deleted(fleet: Fleet) -> None:
    suspend(fleet)
    unlabel(fleet)
    fleet.theirs.remove(DEPLOYMENTS, "web")
    fleet.sync()
    assert _WEB in fleet.members["m1"].state()
    assert _WEB not in fleet.members["m2"].state()


def test_what_lacks_the_label_is_not_written(fleet: Fleet) -> None:
    unlabel(fleet)
    drift(fleet)
    fleet.sync()
    assert live(fleet)["spec"]["paused"] is True
    assert MANAGED not in live(fleet)["metadata"]["labels"]


def test_under_overwrite_it_is_written_and_labelled_again(fleet: Fleet) -> None:
    fleet.theirs.edit(POLICIES, "web", {"spec": {"conflictResolution": "Overwrite"}})
    unlabel(fleet)
    drift(fleet)
    fleet.sync()
    assert live(fleet)["spec"]["paused"] is False
    assert live(fleet)["metadata"]["labels"][MANAGED] == "true"


def test_a_namespace_goes_with_its_label_alone(fleet: Fleet) -> None:
    suspend(fleet)
    unlabel(fleet, "m1", NAMESPACES, "shop")
    fleet.theirs.remove(NAMESPACES, "shop")
    fleet.sync()
    assert "/api/v1/namespaces/shop" in fleet.members["m1"].state()
    assert "/api/v1/namespaces/shop" not in fleet.members["m2"].state()


def test_a_binding_outlives_its_policy_and_not_its_template(fleet: Fleet) -> None:
    fleet.theirs.remove(POLICIES, "web")
    fleet.sync()
    assert fleet.theirs.all(BINDINGS)
    fleet.theirs.remove(DEPLOYMENTS, "web")
    fleet.sync()
    assert not fleet.theirs.all(BINDINGS)


def test_a_dependency_is_not_suspended_with_its_policy() -> None:
    fleet = Fleet()
    fleet.follow("web", "conf", m1=1)
    fleet.sync()
    suspend(fleet)
    work = fleet.theirs.read(WORKS, "conf-configmap", "karmada-es-m1")
    assert {"type": "Dispatching", "status": "True"} in work["status"]["conditions"]
