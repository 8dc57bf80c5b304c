"""A unit: how many are wanted, what one asks for, and what a decision's hash reads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.eventhandlers import known
from controller.model.objects import Workload, WorkloadStatus
from controller.model.unit import restated, workload_info
from tests.controller.make import (
    REQUIRED,
    api_version,
    beside,
    cluster,
    decided,
    expression,
    info,
    required_terms,
    workload,
)

GI = 2**30


def container(cpu: str = "", memory: str = "", **more: Any) -> dict[str, Any]:
    asked = {r: q for r, q in (("cpu", cpu), ("memory", memory)) if q}
    return {"resources": {"requests": asked}, **more}


def request(**pod: Any) -> dict[str, int]:
    return dict(info(pod=pod).request)


class TestRequest:
    """What one unit asks of a node, as kube-scheduler adds it up."""

    def test_containers_add_up_and_a_pod_takes_one_place(self) -> None:
        pods = [container("500m", "1Gi"), container("250m", "1Gi")]
        assert request(containers=pods) == {"cpu": 750, "memory": 2 * GI, "pods": 1}

    def test_an_init_container_counts_if_it_is_greater(self) -> None:
        found = request(
            containers=[container("500m", "3Gi")],
            initContainers=[container("2", "1Gi"), container("1", "2Gi")],
        )
        assert found == {"cpu": 2000, "memory": 3 * GI, "pods": 1}

    def test_a_sidecar_runs_beside_the_containers_and_the_later_init_containers(self) -> None:
        sidecar = container("300m", restartPolicy="Always")
        found = request(
            containers=[container("500m")],
            initContainers=[container("900m"), sidecar, container("600m")],
        )
        assert found["cpu"] == 900
        later = request(
            containers=[container("500m")],
            initContainers=[sidecar, container("900m")],
        )
        assert later["cpu"] == 1200
        assert request(containers=[container("500m")], initContainers=[sidecar])["cpu"] == 800

    def test_overhead_comes_on_top(self) -> None:
        found = request(containers=[container("500m")], overhead={"cpu": "100m", "memory": "64Mi"})
        assert found == {"cpu": 600, "memory": 2**26, "pods": 1}

    def test_a_limit_without_a_request_is_the_request(self) -> None:
        limited = {
            "resources": {"limits": {"cpu": "1", "memory": "2Gi"}, "requests": {"cpu": "1m"}}
        }
        assert request(containers=[limited]) == {"cpu": 1, "memory": 2 * GI, "pods": 1}

    def test_what_the_pod_asks_for_as_a_whole_stands_for_its_containers(self) -> None:
        found = request(
            containers=[container("500m", "1Gi"), container("500m")],
            resources={"requests": {"cpu": "3"}},
            overhead={"cpu": "100m"},
        )
        assert found == {"cpu": 3100, "memory": GI, "pods": 1}

    def test_extended_resources_count(self) -> None:
        gpu = {"resources": {"limits": {"example.com/gpu": 2}}}
        assert request(containers=[gpu, container()]) == {"example.com/gpu": 2, "pods": 1}

    @pytest.mark.parametrize(
        ("pod", "field"),
        [
            (
                {"containers": [container("lots")]},
                r"spec\.template\.spec\.containers\[0\]\.resources",
            ),
            (
                {"containers": [container()], "initContainers": [container("1"), container("1x")]},
                r"spec\.template\.spec\.initContainers\[1\]\.resources",
            ),
            (
                {"containers": [container()], "overhead": {"cpu": "-"}},
                r"spec\.template\.spec\.overhead",
            ),
            (
                {"containers": [container()], "resources": {"requests": {"cpu": "no"}}},
                r"spec\.template\.spec\.resources",
            ),
        ],
    )
    def test_a_quantity_that_is_none_is_named(self, pod: dict[str, Any], field: str) -> None:
        with pytest.raises(ValueError, match=f"^{field}: not a quantity"):
            info(pod=pod)


class TestReplicas:
    """How many units are wanted."""

    @pytest.mark.proves("W1")
    @pytest.mark.parametrize(
        ("kind", "spec"),
        [
            ("Deployment", {"replicas": 7}),
            ("StatefulSet", {"replicas": 7}),
            ("ReplicaSet", {"replicas": 7}),
            ("Job", {"parallelism": 7}),
        ],
    )
    def test_the_templates_own_number(self, kind: str, spec: dict[str, int]) -> None:
        found = workload(
            replicas=None, template={"apiVersion": api_version(kind), "kind": kind, "spec": spec}
        )
        assert workload_info(found).replicas == 7

    def test_the_workloads_number_goes_before_it(self) -> None:
        template = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 7}}
        found = workload(replicas=3, template=template)
        assert workload_info(found).replicas == 3

    def test_neither_means_one(self) -> None:
        assert info(replicas=None).replicas == 1

    def test_a_custom_kind_has_a_path(self) -> None:
        template = {"kind": "Engine", "spec": {"pool": {"size": 4}}}
        found = workload_info(
            workload(replicas=None, template=template, replicasPath="spec.pool.size")
        )
        assert (found.replicas, found.request, found.counted) == (4, {}, True)

    @pytest.mark.parametrize("value", [-1, "4", True, [4]])
    def test_a_path_that_leads_to_no_number_is_named(self, value: Any) -> None:
        template = {"kind": "Engine", "spec": {"size": value}}
        with pytest.raises(ValueError, match=r"^spec\.template\.spec\.size: "):
            workload_info(workload(replicas=None, template=template, replicasPath="spec.size"))

    @pytest.mark.parametrize("kind", ["DaemonSet", "CronJob"])
    def test_kinds_without_replicas_count_one_for_each_cluster(self, kind: str) -> None:
        found = info(kind=kind, replicas=9)
        assert (found.replicas, found.counted) == (1, False)


class TestLabels:
    """Which labels others select it by."""

    def test_those_of_the_pods_and_of_the_workload(self) -> None:
        made = workload(labels={"app": "pods", "tier": "web"})
        meta = msgspec.structs.replace(made.metadata, labels={"app": "own"})
        found = workload_info(msgspec.structs.replace(made, metadata=meta))
        assert found.labels == {"app": "own", "tier": "web"}

    def test_a_cronjobs_pods_are_deep_inside(self) -> None:
        pods = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container("1")]}}
        spec = {"jobTemplate": {"spec": {"template": pods}}}
        template = {"apiVersion": "batch/v1", "kind": "CronJob", "spec": spec}
        found = workload_info(workload(template=template))
        assert (found.labels, found.request["cpu"]) == ({"app": "x"}, 1000)


BASE: dict[str, Any] = {"clusterSelector": {"tier": "gold"}}
EDITS: dict[str, dict[str, Any]] = {
    "selector": {"clusterSelector": {"tier": "iron"}},
    "empty value": {"clusterSelector": {"tier": "gold", "ssd": ""}},
    "affinity": {**BASE, "clusterAffinity": required_terms([expression("a", "Exists")])},
    "workload affinity": {**BASE, "workloadAffinity": {REQUIRED: [beside("x")]}},
    "workload anti-affinity": {**BASE, "workloadAntiAffinity": {REQUIRED: [beside("x")]}},
    "tolerations": {**BASE, "tolerations": [{"operator": "Exists"}]},
    "target": {**BASE, "targetCluster": {"name": "a"}},
    "target namespace": {**BASE, "targetNamespace": "other"},
    "distribution": {**BASE, "distribution": "Duplicated"},
    "weights": {**BASE, "distributionWeights": [{"clusterSelector": {}, "weight": 2}]},
    "packing": {**BASE, "packing": "Fewest"},
}


class TestHash:
    """What a decision was made on."""

    @pytest.mark.parametrize("spec", EDITS.values(), ids=EDITS.keys())
    def test_an_edit_of_a_rule_changes_the_rules_part(self, spec: dict[str, Any]) -> None:
        before, after = info(**BASE), info(**spec)
        assert before.constraints != after.constraints
        assert before.demand == after.demand

    def test_a_number_or_a_request_changes_the_other_part(self) -> None:
        before = info(**BASE)
        for after in (info(replicas=9, **BASE), info(pod={"containers": [container("1")]}, **BASE)):
            assert before.constraints == after.constraints
            assert before.demand != after.demand

    def test_what_placement_does_not_read_changes_nothing(self) -> None:
        assert info(**BASE).hash == info(priority=7, adoption="IfUnowned", created="", **BASE).hash

    def test_it_is_the_same_in_every_process_and_release(self) -> None:
        """Other values here mean that an upgrade decides every Workload anew."""
        plain, ruled = info(), info(**EDITS["affinity"])
        assert plain.hash == "df0f05e08c231637-c4bd1cf6d0d77e92-160b80643d3f0bad"
        assert ruled.constraints == "004d3990847570b1"

    def test_what_only_a_members_scheduler_reads_has_a_part_of_its_own(self) -> None:
        """Limits learnt of the pods as they were say nothing about others."""
        pod = {"containers": [{"name": "main", "image": "registry.example/a"}]}
        plain, wide = info(pod=pod), info(pod={**pod, "nodeSelector": {"disk": "ssd"}})
        newer = info(pod={"containers": [{"name": "main", "image": "registry.example/b"}]})
        assert (plain.constraints, plain.demand) == (wide.constraints, wide.demand)
        assert plain.shape == newer.shape != wide.shape

    def test_the_order_of_a_mapping_does_not_matter(self) -> None:
        assert info(clusterSelector={"a": "1", "b": "2"}).hash == (
            info(clusterSelector={"b": "2", "a": "1"}).hash
        )

    def test_it_comes_back_with_the_placements(self) -> None:
        again = info(present={"a": 2}, **BASE)
        assert "-".join(again.decided) == again.hash
        assert not again.edited
        assert info(present={"a": 2}, edited=True, **BASE).edited
        assert not info(edited=True, **BASE).edited


def test_a_field_that_is_no_part_of_the_model_is_skipped() -> None:
    decoded = msgspec.json.decode(
        b'{"spec": {"novelty": {"deep": [1]}}, "extra": 1}', type=Workload
    )
    assert decoded == Workload()


@pytest.mark.proves("C7")
def test_a_decision_needs_nothing_but_dicts() -> None:
    assert decided(info(), cluster("a")).placements == {"a": 2}


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"placements": [{"cluster": "a", "replicas": 2}], "decision": {"hash": "x-y-z"}},
        {
            "placements": [{"cluster": "a", "replicas": 3}, {"cluster": "b", "replicas": 1}],
            "clusters": [{"name": "a", "replicas": 3, "scheduled": 2, "unschedulable": 1}],
            "limits": [
                {"cluster": "a", "replicas": 2, "until": "2026-01-01T00:00:00Z", "holdSeconds": 9}
            ],
            "reservations": [
                {"namespace": "n", "name": "r", "uid": "u", "cluster": "a", "replicas": 1}
            ],
            "reasons": [{"cluster": "a", "steps": [{"units": 3}]}],
        },
    ],
)
@pytest.mark.parametrize("distribution", ["Single", "Divided"])
def test_another_status_is_read_as_if_all_were_compiled_again(
    status: dict[str, Any], distribution: str
) -> None:
    before = workload(present={"a": 1}, decided="old-old-old", distribution=distribution)
    shape = known(before).info.shape
    if "limits" in status:  # those of another shape do not count
        status = {**status, "decision": {"hash": f"x-y-{shape}"}}
    meta = msgspec.structs.replace(before.metadata, resource_version="7")
    after = msgspec.convert(status, WorkloadStatus)
    whole = known(msgspec.structs.replace(before, metadata=meta, status=after))
    assert restated(known(before), meta, after) == whole
    assert known(whole) is whole


@pytest.mark.proves("A31")
def test_an_autoscaler_of_its_own_object_is_refused_with_its_place() -> None:
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}},
    }
    with pytest.raises(ValueError, match=r"^spec\.manifests\[0\]: it scales Deployment web, whose"):
        workload_info(workload("web", manifests=[scaler]))
    scaler["spec"] = {"scaleTargetRef": {"kind": "Deployment", "name": "other"}}
    assert workload_info(workload("web", manifests=[scaler]))


@pytest.mark.proves("KD4")
@pytest.mark.parametrize(
    ("own", "refused"),
    [
        ({}, False),
        ({"replicas": 1}, False),
        ({"replicas": 3, "replicasPath": "spec.size"}, False),
        ({"replicas": 3}, True),
        ({"replicas": 0}, True),
    ],
)
def test_a_number_of_replicas_is_refused_where_nothing_says_which_field_has_it(
    own: dict[str, Any], refused: bool
) -> None:
    template = {"apiVersion": "example.com/v1", "kind": "Odd", "spec": {"size": 1}}
    odd = workload("it", **{"replicas": None, "template": template, **own})
    if not refused:
        assert workload_info(odd)
        return
    with pytest.raises(ValueError, match=r"^spec\.replicas: an Odd runs whole.*remove the field"):
        workload_info(odd)
