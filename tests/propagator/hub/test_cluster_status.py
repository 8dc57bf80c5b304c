"""Whatever a member says of itself, what becomes of it is something that the hub's schemas take."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crds.fields.shares import ClusterShare
from crds.membercluster import MemberClusterStatus
from machinery.api.resources import Resource
from machinery.types.bounds import TooMuch
from machinery.types.selectors import label_value
from propagator.members.capacity.kept import Node, Pod, WireNode, WirePod, slim_node, slim_pod
from propagator.members.capacity.ledger import CapacityLedger
from propagator.members.health import UNKNOWN_PROVIDER, provider_of
from propagator.members.objects import managed
from propagator.members.readiness import readiness_of
from propagator.members.sanitize import object_status, resources

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")

NASTY = st.sampled_from(
    [
        "",
        "a",
        "\x1b[31m",
        "x" * 10_000,
        "a b",
        "\u202e",
        "1e999",
        "-1",
        "9" * 400,
        "NoSchedule",
        "é",
        "0",
        "1",
        "cpu",
    ]
)
TEXT = NASTY | st.text(max_size=8)
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
AMOUNTS = st.dictionaries(TEXT | st.sampled_from(["cpu", "memory", "pods", "x.y/z"]), TEXT | NUMBER)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
READY = [{"type": "Ready", "status": "True"}]


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    labels = st.sampled_from(["topology.kubernetes.io/zone", "kubernetes.io/arch"])
    taint = st.fixed_dictionaries({"key": TEXT, "effect": TEXT, "value": TEXT})
    return {
        "metadata": {"name": draw(TEXT), "labels": draw(st.dictionaries(labels, TEXT))},
        "spec": {"providerID": draw(TEXT) + "://x", "taints": draw(st.lists(taint, max_size=3))},
        "status": {"allocatable": draw(AMOUNTS), "conditions": READY},
    }


def taken(said: list[dict[str, Any]]) -> CapacityLedger:
    """As an informer takes them: what cannot be read is left out."""
    ledger = CapacityLedger()
    for each in said:
        with suppress(ValueError, TooMuch):
            node = slim_node(msgspec.json.decode(json.dumps(each), type=WireNode))
            assert isinstance(node, Node)
            ledger.replace_node(None, node)
    return ledger


def told(ledger: CapacityLedger) -> dict[str, Any]:
    status = {
        "nodeGroups": ledger.groups(),
        "capacity": ledger.capacity(),
        "provider": provider_of(ledger.nodes),
    }
    MemberClusterStatus.model_validate(status)
    assert json.dumps(status).isascii()
    return status


@pytest.mark.proves("S10")
@settings(deadline=None)
@given(st.lists(nodes(), max_size=4))
def test_any_nodes_make_a_status_that_the_hub_takes(said: list[dict[str, Any]]) -> None:
    status = told(taken(said))
    assert label_value(status["provider"]) == status["provider"]


@pytest.mark.proves("S10")
def test_ten_thousand_resources_labels_and_taints_are_bounded() -> None:
    many = {f"r{n}.example/x": "1" for n in range(10_000)}
    node = {
        "metadata": {"name": "n", "labels": many},
        "spec": {"providerID": "\x1b[31mevil://x"},
        "status": {"allocatable": {"cpu": "4", **many}, "conditions": READY},
    }
    status = told(taken([node]))
    (group,) = status["nodeGroups"]
    assert len(group["free"]) == 64
    assert group["free"]["cpu"] == "4"
    assert status["provider"] == UNKNOWN_PROVIDER
    taint = {"key": "k", "effect": "NoSchedule", "value": "v"}
    for taints in ([{**taint, "key": f"k{n}"} for n in range(65)], [{**taint, "key": "a b"}]):
        node["spec"] = {"taints": taints}
        status = told(taken([node]))
        assert status["capacity"]["nodes"] == 0, "room behind a taint that cannot be told is none"
    distinct = [
        {
            **node,
            "metadata": {"name": f"n{k}"},
            "spec": {},
            "status": {"allocatable": {f"r{k}-{n}": "1" for n in range(60)}, "conditions": READY},
        }
        for k in range(5)
    ]
    assert len(told(taken(distinct))["capacity"]["allocatable"]) == 64


@pytest.mark.proves("S10")
@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "readyReplicas",
                "ready",
                "conditions",
                "loadBalancer",
                "numberReady",
                "observedGeneration",
                "updatedReplicas",
                "succeeded",
            ]
        )
        | TEXT,
        JSON,
    ),
    st.sampled_from(["Deployment", "Job", "DaemonSet", "CronJob", "Odd"]),
)
def test_any_status_of_an_object_makes_a_share_that_the_hub_takes(
    said: dict[str, Any], kind: str
) -> None:
    found = managed(CONFIG_MAPS, {"status": said})
    readiness = readiness_of(kind, found, 3)
    share: dict[str, Any] = {"name": "m", "ready": readiness.ready, "updated": readiness.updated}
    share["finished"] = readiness.finished
    if "loadBalancer" in found.status:
        share["loadBalancer"] = found.status["loadBalancer"]
    ClusterShare.model_validate(share)
    text = json.dumps(found.status, ensure_ascii=False)
    assert len(text) < 100_000
    assert not any(c < " " or "\x7f" <= c <= "\x9f" for c in text)


@pytest.mark.proves("L6")
@pytest.mark.parametrize(
    ("status", "finished"),
    [
        ({"ready": 3}, 0),
        ({"ready": 1, "succeeded": 2}, 2),
        ({"succeeded": 9}, 3),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, 3),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, 3),
        ({"conditions": [{"type": "Failed", "status": "False"}]}, 0),
    ],
)
def test_units_of_a_job_that_ended_are_told(status: dict[str, Any], finished: int) -> None:
    found = managed(CONFIG_MAPS, {"status": status})
    assert readiness_of("Job", found, 3).finished == finished
    assert readiness_of("Deployment", found, 3).finished == 0


def holding(*kinds: str, **more: Any) -> dict[str, Any]:
    return {"conditions": [{"type": each, "status": "True"} for each in kinds], **more}


@pytest.mark.proves("G25", "G26")
@pytest.mark.parametrize(
    ("kind", "status", "completions", "told"),
    [
        ("Job", {"ready": 3}, None, (3, 0, 0)),
        ("Job", {"ready": 1, "succeeded": 2, "failed": 4}, None, (3, 2, 0)),
        ("Job", {"ready": 3, "succeeded": 5}, 10, (3, 0, 0)),
        ("Job", {"ready": 1, "succeeded": 9}, 10, (3, 2, 0)),
        ("Job", {"ready": 1, "succeeded": 1}, 2, (2, 1, 0)),
        ("Job", holding("Complete", succeeded=1), None, (3, 3, 0)),
        ("Job", holding("Failed", succeeded=1, failed=6), None, (1, 1, 2)),
        ("Job", holding("Failed", failed=6), None, (0, 0, 3)),
        ("Odd", {}, None, (3, 0, 0)),
        ("Odd", {"phase": "Running"}, None, (3, 0, 0)),
        ("Odd", {"phase": "Succeeded"}, None, (3, 3, 0)),
        ("Odd", {"phase": "Failed", "succeeded": 1}, None, (1, 1, 2)),
        ("Odd", {"phase": {"Failed": 1}}, None, (3, 0, 0)),
        ("Odd", holding("Succeeded"), None, (3, 3, 0)),
        ("Odd", holding("Failed"), None, (0, 0, 3)),
        ("Odd", {"readyReplicas": 2, "succeeded": 1}, None, (3, 1, 0)),
        ("Odd", {"succeeded": 2**40}, None, (3, 3, 0)),
        ("Deployment", holding("Failed", succeeded=3, readyReplicas=2), None, (2, 0, 0)),
    ],
)
def test_how_units_ended_is_told(
    kind: str, status: dict[str, Any], completions: int | None, told: tuple[int, int, int]
) -> None:
    """Pods that a Job makes anew are no failed units, and one that ended may make room for more."""
    found = managed(CONFIG_MAPS, {"status": status})
    said = readiness_of(kind, found, 3, completions)
    assert (said.ready, said.succeeded, said.failed) == told
    assert said.finished == said.succeeded + said.failed


@pytest.mark.proves("S10")
def test_the_addresses_of_a_load_balancer_are_kept() -> None:
    ingress = [{"ip": "192.0.2.1", "ports": [{"port": 80, "protocol": "TCP"}]}, {"hostname": "h"}]
    assert object_status({"loadBalancer": {"ingress": ingress}, "more": [[[]]]}) == {
        "loadBalancer": {"ingress": ingress}
    }
    endless = object_status({"loadBalancer": {"ingress": [{"ip": "x" * 9999}] * 1000}})
    assert len(endless["loadBalancer"]["ingress"]) == 32
    assert len(json.dumps(endless)) < 10_000


@pytest.mark.proves("S10")
@given(AMOUNTS, TEXT, TEXT)
def test_any_pod_is_read_or_left_out(asked: dict[str, Any], node: str, uid: str) -> None:
    said = {
        "metadata": {"name": "p", "labels": {"stowage.dev/workload-uid": uid}},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": asked}}]},
    }
    with suppress(ValueError, TooMuch):
        pod = slim_pod(msgspec.json.decode(json.dumps(said), type=WirePod))
        assert isinstance(pod, Pod)
        assert len(pod.node) <= 253
        assert set(dict(pod.requests)) <= set(resources(asked))


def test_labels_beyond_what_kubernetes_takes_make_an_object_unreadable() -> None:
    large = {"metadata": {"annotations": {"a": "x" * 600_000}}}
    with pytest.raises(TooMuch):
        managed(CONFIG_MAPS, large)
