"""Whose pods count: by who made them, on paper and with the controllers of a real control plane."""

from __future__ import annotations

import pytest

from crds.names import LABEL_WORKLOAD_UID
from machinery.api.resources import SERVICES, Resource
from machinery.types.metadata import Meta, OwnerReference
from propagator.members.objects import ManagedObject, managed
from propagator.members.pods import (
    Main,
    OtherLabels,
    PodClaim,
    claim_of,
    made_by,
    replica_set,
)
from propagator.status.observation import balancer
from propagator.types.workload import workload_of

LONG = "x" * 253
LABEL = LABEL_WORKLOAD_UID
KEY = ("shop", "web")


def made(group: str, kind: str, name: str, digest: str = "", *, uid: str = "u", where: str = "ns"):
    return PodClaim(uid, where, group, kind, name, digest)


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
    bare = Meta(namespace="ns", labels={"pod-template-hash": "5d9"}, owner_references=owners)
    assert claim_of(bare) == made("apps", "ReplicaSet", "web-5d9", "5d9", uid="")
    node = OwnerReference(name="n1", controller=True, api_version="v1", kind="Node", uid="1")
    for others in ([], [node], owners[:1]):
        assert claim_of(Meta(labels={"pod-template-hash": "5d9"}, owner_references=others)) is None


@pytest.mark.proves("X6")
def test_pods_of_what_was_taken_over_are_known_by_their_owners():
    web, other = (Main(uid, "ns", "apps", "Deployment", "web") for uid in ("u", "v"))
    pods = made("apps", "ReplicaSet", "web-5d9", "5d9", uid="")
    taken = OtherLabels()
    assert taken.labelled(web) == web
    assert not taken.keys(pods)
    taken.note(web, KEY, "u")
    assert taken.labelled(web) == web
    taken.note(web, KEY, "")
    assert made_by(pods, taken.labelled(web))
    assert taken.labelled(other) == other
    assert taken.keys(pods) == {KEY}
    assert not taken.keys(pods._replace(name="api-5d9"))
    assert not taken.keys(pods._replace(namespace="b"))
    taken.note(web, KEY, "old")
    assert not taken.keys(pods)
    assert taken.keys(pods._replace(uid="old")) == {KEY}
    taken.note(web, KEY, "u")
    assert not taken.keys(pods._replace(uid="old"))


@pytest.mark.proves("KD43", "X6")
def test_pods_without_a_label_are_of_a_custom_object_by_the_name_of_what_made_them():
    """It was taken over; all others in its namespace lack the label too."""
    robot = Main("u", "ns", "x.dev", "Robot", "r2")
    taken = OtherLabels()
    taken.note(robot, KEY, "")
    for group, kind, name, its in (
        ("apps", "ReplicaSet", "web-5d9", False),
        ("apps", "ReplicaSet", "r21-5d9", False),
        ("", "", "", False),
        ("trainer.kubeflow.org", "TrainJob", "r2", False),
        ("apps", "ReplicaSet", "r2-5d9", True),
        ("batch", "Job", "r2", True),
    ):
        pods = made(group, kind, name, uid="")
        assert made_by(pods, taken.labelled(robot)) is its
        assert taken.keys(pods) == ({KEY} if its else set())
    assert made_by(made("x.dev", "Arm", "left"), robot)


@pytest.mark.proves("KD43")
def test_pods_that_another_controller_makes_are_known_by_the_label_with_the_name():
    """Those of a TrainJob: it has no template, and a Job of its JobSet controls them."""
    owner = OwnerReference(
        api_version="batch/v1", kind="Job", name="fit-node-0", uid="1", controller=True
    )
    named = {"jobset.sigs.k8s.io/jobset-name": "fit"}
    pods = claim_of(Meta(namespace="ns", labels=named, owner_references=[owner]))
    assert pods is not None
    fit = Main("u", "ns", "trainer.kubeflow.org", "TrainJob", "fit")
    known = OtherLabels()
    assert made_by(pods, known.labelled(fit)), "also by a process that never saw the object"
    known.note(fit, KEY, "")
    assert known.keys(pods) == {KEY}
    assert made_by(pods, known.labelled(fit))
    for other in (
        fit._replace(name="fit-node"),
        fit._replace(namespace="b"),
        fit._replace(kind="JobSet", group="jobset.x-k8s.io"),
    ):
        assert not made_by(pods, other._replace(uid=""))
    labelled = claim_of(
        Meta(namespace="ns", labels={**named, LABEL: "v"}, owner_references=[owner])
    )
    assert labelled is not None
    assert labelled.uid == "v", "a JobSet of its own Workload"
    pool = Main("u", "ns", "kafka.strimzi.io", "KafkaNodePool", "brokers")
    broker = claim_of(Meta(namespace="ns", labels={"strimzi.io/pool-name": "brokers"}))
    assert broker is not None
    assert made_by(broker, known.labelled(pool))
    assert not made_by(broker, known.labelled(pool._replace(name="controllers")))


def test_no_more_is_remembered_of_what_was_taken_over_than_a_member_may_have(monkeypatch):
    monkeypatch.setattr("propagator.members.pods.MOST_OTHERS", 2)
    taken = OtherLabels()
    mains = [Main(f"u{number}", "ns", "apps", "Deployment", f"w{number}") for number in range(3)]
    for main in (mains[0], mains[1], mains[0], mains[2]):
        taken.note(main, KEY, "")
    assert taken.labelled(mains[1]) == mains[1], "it was seen the longest time ago"
    assert [taken.labelled(each).uid for each in (mains[0], mains[2])] == ["", ""]
    for main in mains:
        taken.note(main, KEY, main.uid)
    assert not taken._noted
    assert not taken._mains


@pytest.mark.proves("X6")
@pytest.mark.parametrize(
    ("kind", "spec", "uid"),
    [
        (("apps", "Deployment"), {"template": {"metadata": {"labels": {LABEL: "u"}}}}, "u"),
        (("apps", "DaemonSet"), {"template": {"metadata": {"labels": {"app": "a"}}}}, ""),
        (("batch", "Job"), {"template": {"metadata": {}}}, ""),
        (("batch", "Job"), {"template": {"metadata": [1]}}, ""),
        (("batch", "Job"), {"template": {"metadata": {"labels": "?"}}}, ""),
        (("batch", "Job"), {"template": {"metadata": {"labels": {LABEL: 7}}}}, ""),
        (("batch", "Job"), {"template": {"metadata": {"labels": {LABEL: "x" * 64}}}}, ""),
        (
            ("batch", "CronJob"),
            {"jobTemplate": {"spec": {"template": {"metadata": {"labels": {LABEL: "u"}}}}}},
            "u",
        ),
        (("batch", "CronJob"), {"jobTemplate": {"spec": 1}}, ""),
        (("apps", "StatefulSet"), {"template": "?"}, ""),
        (("apps", "StatefulSet"), "?", ""),
        (("x.dev", "Deployment"), {"template": {"metadata": {"labels": {LABEL: "u"}}}}, "u"),
        (("x.dev", "Deployment"), {"template": {"metadata": {"labels": {"app": "a"}}}}, None),
    ],
)
def test_the_label_on_its_pods_is_read_from_an_object(kind, spec, uid):
    resource = Resource(kind[0], "v1", "things", kind[1])
    found = managed(resource, {"metadata": {"name": "a"}, "spec": spec})
    assert found.pods_uid == uid


@pytest.mark.proves("S4")
def test_an_address_is_taken_of_a_service_that_is_rendered_alone():
    def service(namespace: str, name: str, ip: str) -> tuple[Resource, ManagedObject]:
        meta = Meta(name=name, namespace=namespace)
        return SERVICES, ManagedObject(metadata=meta, load_balancer={"ingress": [{"ip": ip}]})

    meta = {"name": "victim", "namespace": "shop", "uid": "u"}
    extra = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "b", "namespace": "x"}}
    spec = {"targetService": {"apiVersion": "v1", "kind": "Service"}, "manifests": [extra]}
    victim = workload_of({"metadata": meta, "spec": spec})
    impostors = [service("evil", "victim", "6.6.6.6"), service("shop", "b", "6.6.6.7")]
    assert balancer(victim, impostors) == {}
    for namespace, name in (("shop", "victim"), ("x", "b")):
        found = balancer(victim, [*impostors, service(namespace, name, "10.0.0.1")])
        assert found == {"ingress": [{"ip": "10.0.0.1"}]}
