"""Whose pods count: by who made them, on paper and with the controllers of a real control plane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crds.names import LABEL_WORKLOAD_UID
from machinery.api.resources import PODS, SERVICES, Resource
from machinery.types.metadata import Meta, OwnerReference
from propagator.hub.workload_types import workload_of
from propagator.members.connection import Link
from propagator.members.objects import ManagedObject
from propagator.members.pods import Claim, Main, claim_of, made_by, replica_set
from propagator.status.observation import balancer
from stowage.playground.controlplanes import Cluster
from tests.patience import until

from .stage import Stage, staged, swept

LONG = "x" * 253


def made(group: str, kind: str, name: str, digest: str = "", *, uid: str = "u", where: str = "ns"):
    return Claim(uid, where, group, kind, name, digest)


@pytest.mark.proves("S4")
@pytest.mark.parametrize(
    ("main", "claim", "ours"),
    [
        (("apps", "Deployment", "web"), made("apps", "ReplicaSet", "web-5d9", "5d9"), True),
        (("apps", "Deployment", "web"), made("apps", "ReplicaSet", "web-5d9", "777"), False),
        (("apps", "Deployment", "web"), made("apps", "ReplicaSet", "web-5d9"), False),
        (("apps", "Deployment", "web"), made("apps", "ReplicaSet", "web-a-5d9", "5d9"), False),
        (("apps", "Deployment", "web"), made("apps", "Deployment", "web"), False),
        (("apps", "Deployment", "web"), made("x.dev", "ReplicaSet", "web-5d9", "5d9"), False),
        (("apps", "Deployment", "web"), made("", "", ""), False),
        (
            ("apps", "Deployment", LONG),
            made("apps", "ReplicaSet", LONG[4:-5] + "x-5d9", "5d9"),
            False,
        ),
        (("apps", "Deployment", LONG), made("apps", "ReplicaSet", LONG[4:] + "-5d9", "5d9"), True),
        (("apps", "StatefulSet", "db"), made("apps", "StatefulSet", "db"), True),
        (("apps", "StatefulSet", "db"), made("apps", "StatefulSet", "other"), False),
        (("apps", "StatefulSet", "db"), made("apps", "DaemonSet", "db"), False),
        (("apps", "ReplicaSet", "rs"), made("apps", "ReplicaSet", "rs"), True),
        (("batch", "Job", "once"), made("batch", "Job", "once"), True),
        (("batch", "CronJob", "tick"), made("batch", "Job", "tick-29345678"), True),
        (("batch", "CronJob", "tick"), made("batch", "Job", "tick-tock-29345678"), False),
        (("batch", "CronJob", "tick"), made("batch", "Job", "29345678"), False),
        (("x.dev", "Robot", "r2"), made("x.dev", "Arm", "left"), True),
        (("apps", "StatefulSet", "db"), made("apps", "StatefulSet", "db", where="b"), False),
        (("x.dev", "Robot", "r2"), made("x.dev", "Arm", "left", where="b"), False),
        (("apps", "StatefulSet", "db"), made("apps", "StatefulSet", "db", uid="v"), False),
    ],
)
def test_only_what_the_main_object_made_is_its_own(main, claim, ours):
    assert made_by(claim, Main("u", "ns", *main)) is ours


def test_a_long_name_is_cut_as_kubernetes_cuts_it():
    assert len(replica_set(LONG, "5d9f7c8b6d")) == 253
    assert replica_set("web", "5d9") == "web-5d9"


def test_a_claim_is_read_from_labels_and_the_controller():
    owner = {"api_version": "apps/v1", "kind": "ReplicaSet", "uid": "1"}
    owners = [
        OwnerReference(name="other", **owner),
        OwnerReference(name="web-5d9", controller=True, **owner),
    ]
    labels = {LABEL_WORKLOAD_UID: "u", "pod-template-hash": "5d9"}
    meta = Meta(name="p", namespace="ns", labels=labels, owner_references=owners)
    assert claim_of(meta) == made("apps", "ReplicaSet", "web-5d9", "5d9")
    assert claim_of(Meta(labels={LABEL_WORKLOAD_UID: "u"})) == made("", "", "", where="")
    assert claim_of(Meta(labels={"pod-template-hash": "5d9"}, owner_references=owners)) is None


@pytest.fixture
def managed_member(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A member whose controllers make pods."""
    return make_cluster("lineage", controller_manager=True, scheduler=True, kwok=True, nodes=1)


def impostor(uid: str, namespace: str) -> dict[str, Any]:
    """A pod that says it is the victim's, as far as anybody may say so.

    On a node that there is: the collector of orphans takes away what lies on any other.
    """
    meta = {"name": "impostor", "namespace": namespace, "labels": {LABEL_WORKLOAD_UID: uid}}
    container = {"name": "main", "image": "pause"}
    spec = {"containers": [container], "nodeName": "node-0", "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def link_of(stage: Stage) -> Link | None:
    """The member's present link; another one after each new term or credential."""
    session = stage.process.term.fleet.get("m1") if stage.process.term else None
    return session.link if session else None


@pytest.mark.proves("S4")
async def test_pods_of_others_are_not_a_victims(hub: Cluster, managed_member: Cluster):
    with swept(hub):
        async with staged(hub, {"m1": managed_member}) as stage:
            member = stage.members["m1"]
            await stage.create("victim")
            await stage.place("victim", m1=2)

            async def told(*counts: int) -> bool:
                share = await stage.share("victim", "m1")
                return (share.get("ready"), share.get("scheduled")) == counts

            def placed() -> int:
                link = link_of(stage)
                claims = link.units.placed() if link is not None else {}
                return sum(pods for claim, pods in claims.items() if claim.uid == uid)

            uid = (await stage.workload("victim"))["metadata"]["uid"]
            await until(lambda: told(2, 2), seconds=60)
            for namespace in (stage.namespace, "default"):
                await member.create(PODS, impostor(uid, namespace))
            await until(lambda: placed() == 4, seconds=60, what=placed)
            await stage.place("victim", m1=3)
            await until(lambda: told(3, 3), seconds=60)
            assert placed() == 5
            main = Main(uid, stage.namespace, "apps", "Deployment", "web")
            assert link_of(stage).units.counts(main).scheduled == 3
            for namespace in (stage.namespace, "default"):
                await member.delete(PODS, "impostor", namespace=namespace)


@pytest.mark.proves("S4")
def test_an_address_is_taken_of_a_service_that_is_rendered_alone():
    def service(namespace: str, name: str, ip: str) -> tuple[Resource, ManagedObject]:
        status = {"loadBalancer": {"ingress": [{"ip": ip}]}}
        meta = Meta(name=name, namespace=namespace)
        return SERVICES, ManagedObject(metadata=meta, status=status)

    meta = {"name": "victim", "namespace": "shop", "uid": "u"}
    extra = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "b", "namespace": "x"}}
    spec = {"targetService": {"apiVersion": "v1", "kind": "Service"}, "manifests": [extra]}
    victim = workload_of({"metadata": meta, "spec": spec})
    impostors = [service("evil", "victim", "6.6.6.6"), service("shop", "b", "6.6.6.7")]
    assert balancer(victim, impostors) == {}
    for namespace, name in (("shop", "victim"), ("x", "b")):
        found = balancer(victim, [*impostors, service(namespace, name, "10.0.0.1")])
        assert found == {"ingress": [{"ip": "10.0.0.1"}]}
