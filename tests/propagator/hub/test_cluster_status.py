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
from machinery.api.resources import SERVICES
from machinery.kinds.readiness import counts_of
from machinery.types.bounds import TooMuch
from machinery.types.selectors import label_value
from propagator.hub import cluster_status
from propagator.members.capacity.kept import Node, Pod, WireNode, WirePod, slim_node, slim_pod
from propagator.members.capacity.ledger import CapacityLedger
from propagator.members.health import UNKNOWN_PROVIDER, provider_of
from propagator.members.objects import managed
from propagator.members.sanitize import load_balancer, resources
from propagator.types.cluster import MemberCluster

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
DRAIN = {"key": "stowage.dev/drain", "value": "maintenance", "effect": "NoExecute"}
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
    st.dictionaries(st.sampled_from(["conditions", "loadBalancer", "readyReplicas"]) | TEXT, JSON)
)
def test_any_status_of_an_object_makes_a_share_that_the_hub_takes(said: dict[str, Any]) -> None:
    found = managed(SERVICES, {"status": said})
    readiness = counts_of(found.judged, 3)
    share: dict[str, Any] = {"name": "m", "ready": readiness.ready, "updated": readiness.updated}
    share["loadBalancer"] = found.load_balancer
    ClusterShare.model_validate(share)
    text = json.dumps(found.load_balancer, ensure_ascii=False)
    assert len(text) < 100_000
    assert not any(c < " " or "\x7f" <= c <= "\x9f" for c in text)


@pytest.mark.proves("S10")
def test_the_addresses_of_a_load_balancer_are_kept() -> None:
    ingress = [{"ip": "192.0.2.1", "ports": [{"port": 80, "protocol": "TCP"}]}, {"hostname": "h"}]
    assert load_balancer({"ingress": ingress, "more": [[[]]]}) == {"ingress": ingress}
    endless = load_balancer({"ingress": [{"ip": "x" * 9999}] * 1000})
    assert endless is not None
    assert len(endless["ingress"]) == 32
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
        managed(SERVICES, large)


@pytest.mark.proves("Q20")
@pytest.mark.parametrize(
    ("ready", "spec", "said", "state"),
    [
        ("True", {}, "", "Ready"),
        ("False", {}, "", "NotReady"),
        ("True", {"unschedulable": True}, "", "Ready,SchedulingDisabled"),
        ("True", {"unschedulable": True, "taints": [DRAIN]}, "", "Ready,Draining"),
        ("True", {"unschedulable": True, "taints": [DRAIN]}, "Draining", "Ready,Draining"),
        ("True", {"taints": [DRAIN]}, "Drained", "Ready,Drained"),
    ],
)
def test_a_cordon_and_a_drain_are_shown_as_of_nodes(
    ready: str, spec: dict[str, Any], said: str, state: str
) -> None:
    cluster = msgspec.convert({"metadata": {"name": "m1"}, "spec": spec}, MemberCluster)
    told = [{"type": "Ready", "status": ready}, {"type": "Evacuating", "reason": said}]
    assert cluster_status._state(cluster, {"conditions": told}) == state
