"""The models take every field of spec and status, and give it back unchanged."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from crds.admission import validation
from crds.fields.placing import Distribution, Packing
from crds.membercluster import MemberCluster, ReadyReason
from crds.names import forbidden_namespace
from crds.workload import Adoption, ScheduledReason, Workload, WorkloadState, WorkloadStatus

from .bodies import body, examples, read

FULL = read("full.yaml")
STATUS = read("full_status.yaml")
CLUSTER = read("full_membercluster.yaml")


@pytest.mark.proves("C2")
def test_a_workload_with_every_field_survives_the_model():
    whole = FULL | {"status": STATUS}
    assert Workload.model_validate(whole).manifest() == whole
    assert validation.violations(whole) == []


def test_every_field_of_the_spec_and_status_is_tried():
    spec = {f.alias for f in type(Workload.model_validate(FULL).spec).model_fields.values()}
    assert spec - set(FULL["spec"]) == {"template"}
    assert {f.alias for f in WorkloadStatus.model_fields.values()} == set(STATUS)


def test_a_membercluster_with_every_field_survives_the_model():
    assert MemberCluster.model_validate(CLUSTER).manifest() == CLUSTER


def test_the_examples_are_good():
    found = examples("Workload")
    assert len(found) > 20
    for example in found:
        assert validation.violations(example) == []
        assert Workload.model_validate(example).manifest() == example


@pytest.mark.proves("C21")
def test_defaults():
    spec = Workload.model_validate(
        {"spec": {"targetDeployment": {"apiVersion": "apps/v1", "kind": "Deployment"}}}
    ).spec
    assert (spec.scheduler_name, spec.priority) == ("stowage", 0)
    assert (spec.distribution, spec.packing) == (Distribution.SINGLE, Packing.PROPORTIONAL)
    assert spec.adoption is Adoption.NEVER


def test_reasons_and_states_are_spelt_as_people_read_them():
    assert list(WorkloadState) == [
        *("Pending", "Scheduled", "Creating", "Running", "Complete", "Failed"),
        *("Suspended", "Unreachable"),
    ]
    assert ScheduledReason.FAILED_TO_SCHEDULE == "FailedToSchedule"
    assert ReadyReason.TLS_VERIFICATION_FAILED == "TLSVerificationFailed"


@pytest.mark.parametrize(
    ("kind", "api_version", "path"),
    [
        ("Deployment", "apps/v1", None),
        ("StatefulSet", "apps/v1", "spec.replicas"),
        ("ReplicaSet", "apps/v1", None),
        ("DaemonSet", "apps/v1", None),
        ("Job", "batch/v1", "spec.parallelism"),
        ("CronJob", "batch/v1", None),
        ("Robot", "example.com/v1beta2", "spec.fleet.size"),
    ],
)
@pytest.mark.proves("D4")
def test_kinds_that_run_units(kind, api_version, path):
    spec = {"template": {"apiVersion": api_version, "kind": kind}}
    assert validation.violations({"spec": spec | ({"replicasPath": path} if path else {})}) == []


DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment"}
DAEMONS = {"apiVersion": "apps/v1", "kind": "DaemonSet"}


@pytest.mark.proves("C2")
@pytest.mark.parametrize(
    ("spec", "good"),
    [
        ({"template": DEPLOYMENT, "distribution": "Divided"}, True),
        ({"template": DEPLOYMENT, "distribution": "Duplicated"}, True),
        ({"template": DAEMONS}, True),
        ({"template": DEPLOYMENT, "distribution": "Single"}, False),
        ({"targetDeployment": DEPLOYMENT}, False),
    ],
)
def test_one_cluster_is_not_many_domains(spec, good):
    bound = [{"topologyKey": "zone", "minDomains": 2}]
    text = (
        "spec.spreadConstraints: minDomains above 1 never holds where all units go to one cluster: "
        "remove it, or set spec.distribution to Divided or Duplicated"
    )
    found = validation.violations({"spec": spec | {"spreadConstraints": bound}})
    assert found == ([] if good else [text])
    fewer = [{"topologyKey": "zone", "minDomains": 1, "maxDomains": 2}]
    assert validation.violations({"spec": spec | {"spreadConstraints": fewer}}) == []


def test_a_wrong_amount_of_a_node_group_is_refused():
    with pytest.raises(ValidationError):
        MemberCluster.model_validate(
            {"status": {"nodeGroups": [{"count": 1, "free": {"cpu": "a lot"}}]}}
        )


@pytest.mark.proves("C29")
@pytest.mark.parametrize(
    ("namespace", "forbidden"),
    [("kube-system", True), ("kube-x", True), ("stowage-system", True), ("kubernetes", False)],
)
def test_forbidden_namespaces(namespace, forbidden):
    assert forbidden_namespace(namespace) is forbidden


def test_foreign_namespaces_are_those_that_need_the_verb():
    def manifest(namespace: str | None) -> dict:
        metadata = {"name": "a"} | ({"namespace": namespace} if namespace else {})
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    workload = {
        "metadata": {"namespace": "shop"},
        "spec": {
            "targetNamespace": "demo",
            "manifests": [manifest("shop"), manifest(None), manifest("demo"), manifest("other")],
        },
    }
    assert validation.target_namespace(workload) == "demo"
    assert validation.foreign_namespaces(workload) == {
        "demo": "spec.targetNamespace",
        "other": "spec.manifests",
    }
    assert validation.foreign_namespaces({"metadata": {"namespace": "shop"}, "spec": {}}) == {}


@pytest.mark.proves("N4")
def test_a_status_of_a_quota_as_the_controller_writes_it() -> None:
    claim = {
        "workload": "shop/reservations/room",
        "uid": "u",
        "holder": "one",
        "time": "2026-01-02T03:04:05.000000Z",
        "placements": [{"cluster": "a", "replicas": 2}],
    }
    status = {
        "observedGeneration": 1,
        "hard": {"units": "5"},
        "used": {"units": "3"},
        "claims": [claim],
        "conditions": [{"type": "Ready", "status": "True", "reason": "Valid"}],
    }
    assert (
        validation.object_violations("WorkloadQuota", body("WorkloadQuota") | {"status": status})
        == []
    )
