"""Nodes and pods become node groups: never too many, never more room than there is."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.names import LABEL_WORKLOAD_UID
from machinery.types import quantities
from propagator.members.capacity.kept import Node, Pod, WireNode, WirePod, slim_node, slim_pod
from propagator.members.capacity.ledger import MAX_GROUPS, CapacityLedger
from tests.examples import examples

READY = [{"type": "Ready", "status": "True"}]


def node(name: str, *, room: dict[str, str] | None = None, **more: Any) -> Node:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"} if room is None else room
    wire = {
        "metadata": {"name": name, "labels": more.get("labels", {})},
        "spec": {
            "unschedulable": more.get("cordoned", False),
            "taints": more.get("taints", []),
            "providerID": more.get("provider_id", ""),
        },
        "status": {"allocatable": allocatable, "conditions": more.get("conditions", READY)},
    }
    slim = slim_node(msgspec.json.decode(json.dumps(wire), type=WireNode))
    assert isinstance(slim, Node)
    return slim


def pod(
    name: str, *, spec: dict[str, Any], status: dict[str, Any] | None = None, **meta: Any
) -> Pod:
    wire = {
        "metadata": {"name": name, "namespace": "demo", **meta},
        "spec": spec,
        "status": status or {},
    }
    slim = slim_pod(msgspec.json.decode(json.dumps(wire), type=WirePod))
    assert isinstance(slim, Pod)
    return slim


@pytest.mark.proves("KD67")
@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({}, 2),
        ({f"k{n}": "v" for n in range(62)}, 64),
        ({f"k{n}": "v" for n in range(63)}, None),
        ({"k": "v" * 9000}, None),
    ],
)
def test_a_pod_of_ours_keeps_its_labels_within_bounds(more, kept) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": True}
    labels = {LABEL_WORKLOAD_UID: "u", "app": "web", **more}
    ours = pod("a", spec={}, labels=labels, ownerReferences=[{**owner, "uid": "r"}])
    assert (ours.labels and len(ours.labels)) == kept
    assert pod("b", spec={}, labels=more).labels == ()


def container(**requests: str) -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": requests}}


def bound(name: str, to: str, **requests: str) -> Pod:
    return pod(name, spec={"nodeName": to, "containers": [container(**requests)]})


def requested(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    return dict(pod("x", spec={"nodeName": "n", **spec}, status=status).requests)


def test_a_pod_asks_for_all_its_containers():
    asked = requested({"containers": [container(cpu="250m", memory="1Gi"), container(cpu="1.5")]})
    assert asked == {"cpu": 1750, "memory": 2**30}


def test_init_containers_run_one_after_the_other():
    spec = {
        "initContainers": [container(cpu="3"), container(cpu="2", memory="1Gi")],
        "containers": [container(cpu="1", memory="512Mi")],
    }
    assert requested(spec) == {"cpu": 3000, "memory": 2**30}


def test_sidecars_run_beside_everything_started_after_them():
    sidecar = container(cpu="500m") | {"restartPolicy": "Always"}
    spec = {
        "initContainers": [container(cpu="2"), sidecar, container(cpu="2")],
        "containers": [container(cpu="1")],
    }
    assert requested(spec) == {"cpu": 2500}


def test_overhead_comes_on_top_and_pod_level_requests_replace_the_sum():
    spec = {
        "containers": [container(cpu="1", **{"nvidia.com/gpu": "1"})],
        "resources": {"requests": {"cpu": "3"}},
        "overhead": {"cpu": "100m"},
    }
    assert requested(spec) == {"cpu": 3100, "nvidia.com/gpu": 1}


def test_what_a_container_still_holds_while_it_shrinks_counts():
    status = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "2"}}]}
    assert requested({"containers": [container(cpu="1")]}, status) == {"cpu": 2000}


def test_each_container_counts_with_the_more_of_what_it_asks_for_and_holds():
    """One grows while the other shrinks, and a sidecar shrinks as well."""
    shrinks = {"name": "a", "resources": {"requests": {"cpu": "1"}}}
    grows = {"name": "b", "resources": {"requests": {"cpu": "3"}}}
    beside = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    status = {
        "containerStatuses": [
            {"name": "a", "allocatedResources": {"cpu": "2"}},
            {"name": "b", "allocatedResources": {"cpu": "1"}},
        ],
        "initContainerStatuses": [{"name": "s", "allocatedResources": {"cpu": "4"}}],
    }
    spec = {"containers": [shrinks, grows], "initContainers": [beside]}
    assert requested(spec, status) == {"cpu": 9000}


def test_a_pod_without_a_node_holds_no_room():
    waiting = pod("x", spec={"containers": [container(cpu="1")]})
    assert waiting.requests == ()


def test_free_room_follows_the_pods():
    ledger = CapacityLedger()
    first = bound("a", "n1", cpu="1", memory="1Gi")
    ledger.replace_pod(None, first)  # before its node is known
    ledger.replace_node(None, node("n1"))
    assert ledger.groups() == [
        {
            "count": 1,
            "labels": {},
            "taints": [],
            "free": {"cpu": "3", "memory": "7Gi", "pods": "109"},
        }
    ]
    bigger = bound("a", "n1", cpu="2500m", memory="1Gi")
    ledger.replace_pod(first, bigger)
    assert ledger.groups()[0]["free"]["cpu"] == "1500m"
    ledger.replace_pod(bigger, None)
    assert ledger.groups()[0]["free"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}


def test_an_overcommitted_node_has_no_free_room_and_takes_none_from_others():
    ledger = CapacityLedger()
    ledger.replace_node(None, node("n1"))
    ledger.replace_node(None, node("n2"))
    ledger.replace_pod(None, bound("a", "n1", cpu="9"))
    free = sorted(group["free"]["cpu"] for group in ledger.groups())
    assert free == ["0", "4"]


def test_alike_means_labels_that_matter_taints_and_room():
    ledger = CapacityLedger()
    zone = {"topology.kubernetes.io/zone": "a"}
    gpu = {"key": "gpu", "effect": "NoSchedule"}
    for each in (
        node("n1", labels=zone | {"kubernetes.io/hostname": "n1"}),
        node("n2", labels=zone | {"kubernetes.io/hostname": "n2"}),
        node("n3", labels=zone, taints=[gpu, {"key": "soft", "effect": "PreferNoSchedule"}]),
        node("n4", labels=zone, room={"cpu": "1", "memory": "1Gi", "pods": "10"}),
    ):
        ledger.replace_node(None, each)
    groups = {(g["count"], len(g["taints"]), g["free"]["cpu"]) for g in ledger.groups()}
    assert groups == {(2, 0, "4"), (1, 1, "4"), (1, 0, "1")}
    tainted = next(g for g in ledger.groups() if g["taints"])
    assert tainted["taints"] == [{"key": "gpu", "value": "", "effect": "NoSchedule"}]
    assert tainted["labels"] == zone


@pytest.mark.parametrize(
    "why",
    [
        {"cordoned": True},
        {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        {"conditions": []},
    ],
)
def test_a_node_that_takes_no_pods_counts_nowhere(why):
    ledger = CapacityLedger()
    usable = node("n1")
    ledger.replace_node(None, usable)
    ledger.replace_node(usable, node("n1", **why))
    assert ledger.groups() == []
    assert ledger.capacity()["nodes"] == 0
    assert ledger.capacity()["allocatable"]["cpu"] == "0"


def test_totals_include_extended_resources():
    ledger = CapacityLedger()
    room = {"cpu": "8", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "4"}
    ledger.replace_node(None, node("n1", room=room))
    ledger.replace_pod(None, bound("a", "n1", cpu="1", **{"nvidia.com/gpu": "3"}))
    assert ledger.capacity() == {
        "nodes": 1,
        "allocatable": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "4", "pods": "110"},
        "requested": {"cpu": "1", "memory": "0", "nvidia.com/gpu": "3", "pods": "1"},
        "summary": {"cpu": "8", "memory": "16Gi"},
    }
    assert ledger.groups()[0]["free"]["nvidia.com/gpu"] == "1"


@pytest.mark.proves("Y5")
def test_what_the_table_shows_is_written_as_people_do_and_the_rest_stays_exact():
    ledger = CapacityLedger()
    room = {"cpu": "3950m", "memory": "8228028Ki", "pods": "110"}
    for number in range(3):
        ledger.replace_node(None, node(f"n{number}", room=room))
    found = ledger.capacity()
    assert found["summary"] == {"cpu": "11.8", "memory": "23.5Gi"}
    assert found["allocatable"] == {"cpu": "11850m", "memory": "24684084Ki", "pods": "330"}


def test_a_node_that_goes_takes_its_room_along():
    ledger = CapacityLedger()
    gone = node("n1")
    ledger.replace_node(None, gone)
    ledger.replace_node(gone, None)
    assert ledger.groups() == []


def told(group: dict[str, Any]) -> dict[str, int]:
    return {res: quantities.amount(res, text) for res, text in group["free"].items()}


rooms = st.fixed_dictionaries(
    {
        "cpu": st.integers(0, 64000).map(lambda n: f"{n}m"),
        "memory": st.integers(0, 2**38).map(str),
        "pods": st.integers(0, 250).map(str),
    }
)


@examples(60)
@given(st.lists(rooms, min_size=1, max_size=300), st.integers(1, 80))
def test_groups_are_few_and_never_overstate(each, kinds):
    ledger = CapacityLedger()
    for number, room in enumerate(each):
        labels = {"topology.kubernetes.io/zone": f"z{number % kinds}"}
        ledger.replace_node(None, node(f"n{number}", room=room, labels=labels))
    groups = ledger.groups()
    assert len(groups) <= MAX_GROUPS
    assert sum(group["count"] for group in groups) <= len(each)
    for res in ("cpu", "memory", "pods"):
        real = sorted((quantities.amount(res, room[res]) for room in each), reverse=True)
        said = sorted((told(g)[res] for g in groups for _ in range(g["count"])), reverse=True)
        assert all(claim <= actual for claim, actual in zip(said, real, strict=False))


@pytest.mark.long
def test_a_cluster_of_a_thousand_nodes_still_tells_most_of_its_room():
    chance = random.Random(4)
    ledger = CapacityLedger()
    for number in range(1000):
        room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        ledger.replace_node(None, node(f"n{number}", room=room))
        for each in range(chance.randint(0, 25)):
            asked = {
                "cpu": f"{chance.randint(50, 900)}m",
                "memory": f"{chance.randint(64, 3000)}Mi",
            }
            ledger.replace_pod(None, bound(f"p{number}-{each}", f"n{number}", **asked))
    totals = ledger.capacity()
    for res, least in (("cpu", 0.75), ("memory", 0.75)):
        held = quantities.amount(res, totals["requested"][res])
        free = quantities.amount(res, totals["allocatable"][res]) - held
        said = sum(told(group)[res] * group["count"] for group in ledger.groups())
        assert least * free <= said <= free


@pytest.mark.long
def test_one_small_pod_changes_nothing_that_a_large_cluster_publishes():
    chance = random.Random(4)
    ledger = CapacityLedger()
    for number in range(500):
        room = {
            "cpu": f"{chance.randint(1000, 64000)}m",
            "memory": f"{chance.randint(1, 256)}Gi",
            "pods": "110",
        }
        ledger.replace_node(None, node(f"n{number}", room=room))
    before = ledger.groups()
    unchanged = 0
    for number in range(100):
        small = bound("small", f"n{number}", cpu="10m", memory="16Mi")
        ledger.replace_pod(None, small)
        unchanged += ledger.groups() == before
        ledger.replace_pod(small, None)
    assert unchanged >= 50


@pytest.mark.parametrize("text", ["1Zi", "", "NaN"])
def test_a_quantity_that_is_none_is_said_so(text):
    with pytest.raises(ValueError, match=text or "quantity"):
        bound("a", "n1", cpu=text)


def taking(name: str, to: str, *ports: int, namespace: str = "demo", **spec: Any) -> Pod:
    """A bound pod that takes these ports of its node."""
    main = container(cpu="1") | {"ports": [{"containerPort": n, "hostPort": n} for n in ports]}
    return pod(name, spec={"nodeName": to, "containers": [main], **spec}, namespace=namespace)


def three_nodes() -> CapacityLedger:
    ledger = CapacityLedger()
    for number in range(3):
        ledger.replace_node(None, node(f"n{number}"))
    return ledger


def used(group: dict[str, Any]) -> dict[str, str]:
    return {name: text for name, text in group["free"].items() if name.startswith("hostport")}


@pytest.mark.proves("E28")
class TestHostPorts:
    """What pods take of their nodes is told, in few groups, and of nobody else's cluster."""

    def test_a_pod_takes_ports_of_its_node_while_it_is_there(self):
        ledger, first = three_nodes(), taking("a", "n0", 8080, 53)
        before = ledger.groups()
        ledger.replace_pod(None, first)
        assert {g["count"]: used(g) for g in ledger.groups()} == {
            2: {},
            1: {"hostport/TCP/53": "0", "hostport/TCP/8080": "0"},
        }
        assert not [res for res in ledger.capacity()["requested"] if res.startswith("hostport")]
        ledger.replace_pod(first, None)
        assert ledger.groups() == before

    def test_two_pods_with_one_port_under_two_addresses(self):
        ledger = three_nodes()
        first, other = (taking(name, "n0", 8080) for name in "ab")
        ledger.replace_pod(None, first)
        ledger.replace_pod(None, other)
        ledger.replace_pod(first, None)
        assert sum(bool(used(group)) for group in ledger.groups()) == 1

    def test_containers_sidecars_and_protocols(self):
        port = {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}
        spec = {
            "nodeName": "n0",
            "initContainers": [
                container() | {"restartPolicy": "Always", "ports": [port]},
                container() | {"ports": [{"containerPort": 1, "hostPort": 1}]},
            ],
            "containers": [container() | {"ports": [{"containerPort": 80}]}],
        }
        ledger = three_nodes()
        ledger.replace_pod(None, pod("a", spec=spec))
        assert [used(g) for g in ledger.groups() if used(g)] == [{"hostport/UDP/53": "0"}]

    def test_what_no_server_says_is_no_port(self):
        ports = [
            {"hostPort": 70000},
            {"hostPort": -1},
            {"hostPort": 8080, "protocol": "tcp"},
            {"hostPort": 2**70},
        ]
        strange = pod("a", spec={"nodeName": "n0", "containers": [container() | {"ports": ports}]})
        assert strange.ports == ()

    def test_a_pod_without_a_node_takes_none(self):
        main = container() | {"ports": [{"containerPort": 80, "hostPort": 80}]}
        assert pod("a", spec={"containers": [main]}).ports == ()

    def test_the_ports_of_tenants_come_before_those_of_the_system(self, monkeypatch):
        monkeypatch.setattr("propagator.members.capacity.ledger.MOST_REPORTED", 2)
        ledger = three_nodes()
        for number in range(3):
            everywhere = taking(f"s{number}", f"n{number}", 10, 11, namespace="kube-system")
            ledger.replace_pod(None, everywhere)
        ledger.replace_pod(None, taking("a", "n0", 8080))
        ledger.replace_pod(None, taking("b", "n0", 9090))
        ledger.replace_pod(None, taking("c", "n1", 9090))
        found = {port for group in ledger.groups() for port in used(group)}
        assert found == {"hostport/TCP/8080", "hostport/TCP/9090"}

    def test_a_cluster_in_which_every_node_is_another_tells_its_room_all_the_same(self):
        ledger, silent = CapacityLedger(), CapacityLedger()
        for number in range(1000):
            for each in (ledger, silent):
                each.replace_node(None, node(f"n{number}"))
            for port in (9100, 7000 + number, 7000 + (number * 7) % 1000):
                at = f"n{number}"
                ledger.replace_pod(None, taking(f"p{number}-{port}", at, port))
                silent.replace_pod(None, taking(f"p{number}-{port}", at))
        groups = ledger.groups()
        assert len(groups) <= MAX_GROUPS
        assert sum(group["count"] for group in groups) == 1000
        assert all("hostport/TCP/9100" in group["free"] for group in groups)
        said, plain = (
            sum(told(group)["cpu"] * group["count"] for group in each)
            for each in (groups, silent.groups())
        )
        assert said == plain, "no room is lost for it"

    def test_one_node_tells_few(self):
        ledger = CapacityLedger()
        ledger.replace_node(None, node("n0"))
        for number in range(100):
            ledger.replace_pod(None, taking(f"p{number}", "n0", 7000 + number))
        (group,) = ledger.groups()
        assert list(used(group)) == [f"hostport/TCP/{n}" for n in range(7000, 7016)]

    def test_a_node_of_very_many_resources_tells_fewer(self):
        room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        room |= {f"example.com/r{number}": "1" for number in range(57)}
        ledger = CapacityLedger()
        ledger.replace_node(None, node("n0", room=room))
        ledger.replace_pod(None, taking("p", "n0", *range(7000, 7010)))
        (group,) = ledger.groups()
        assert len(group["free"]) == 64
        assert len(used(group)) == 4

    def test_what_was_too_much_to_keep_is_forgotten_whole(self, monkeypatch):
        monkeypatch.setattr("propagator.members.capacity.ledger.MOST_KEPT", 5)
        ledger, chance = three_nodes(), random.Random(7)
        before = ledger.groups()
        pods = [
            taking(f"p{n}", f"n{chance.randrange(3)}", *chance.sample(range(1, 9), 3))
            for n in range(20)
        ]
        for each in pods:
            ledger.replace_pod(None, each)
        assert sum(len(used(group)) for group in ledger.groups()) <= 5
        for each in chance.sample(pods, 20):
            ledger.replace_pod(each, None)
        assert ledger.groups() == before
        ledger.replace_pod(None, taking("last", "n0", 1, 2, 3, 4, 5))
        assert sum(len(used(group)) for group in ledger.groups()) == 5


@examples(100)
@given(
    st.lists(
        st.tuples(st.integers(0, 11), st.sets(st.integers(8000, 8005), max_size=3), st.booleans()),
        max_size=25,
    ),
    st.integers(1, 4),
)
def test_every_port_that_is_told_is_in_use_and_in_a_small_cluster_all_are(pods, kinds):
    ledger = CapacityLedger()
    for number in range(12):
        labels = {"topology.kubernetes.io/zone": f"z{number % kinds}"}
        ledger.replace_node(None, node(f"n{number}", labels=labels))
    real: dict[int, set[int]] = {number: set() for number in range(12)}
    for at, (number, ports, stays) in enumerate(pods):
        each = taking(f"p{at}", f"n{number}", *ports)
        ledger.replace_pod(None, each)
        if stays:
            real[number] |= ports
        else:
            ledger.replace_pod(each, None)
    says = sorted(
        tuple(sorted(used(group))) for group in ledger.groups() for _ in range(group["count"])
    )
    assert says == sorted(
        tuple(sorted(f"hostport/TCP/{port}" for port in ports)) for ports in real.values()
    )


class TestPlaceholders:
    """Pods that keep room for somebody give way to all others: the room is there."""

    def placeholder(self, made: dict[str, Any] | None = None, **spec: Any) -> Pod:
        maker = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "later-hold-7d4f"}
        marks = {
            "stowage.dev/workload-uid": "u-hold",
            "reservation-hold": "later",
            "pod-template-hash": "7d4f",
        }
        meta = {"labels": marks, "ownerReferences": [{**maker, "uid": "u", "controller": True}]}
        main = container(cpu="1") | {"ports": [{"containerPort": 8080, "hostPort": 8080}]}
        whole = {"nodeName": "n0", "containers": [main], "priorityClassName": "stowage-placeholder"}
        return pod("hold", spec=whole | spec, **(meta | (made or {})))

    def test_they_hold_nothing(self):
        ledger = three_nodes()
        before, sums = ledger.groups(), ledger.capacity()
        held = self.placeholder(priority=-1_000_000_000)
        ledger.replace_pod(None, held)
        assert (ledger.groups(), ledger.capacity()) == (before, sums)
        ledger.replace_pod(held, None)
        assert (ledger.groups(), ledger.capacity()) == (before, sums)

    @pytest.mark.parametrize(
        "spec",
        [
            {"priority": 0},
            {},
            {"priority": -1_000_000_000, "priorityClassName": "low"},
            {"priority": -999_999_999},
        ],
    )
    def test_a_class_of_that_name_may_be_somebody_elses(self, spec):
        ledger = three_nodes()
        before = ledger.groups()
        ledger.replace_pod(None, self.placeholder(**spec))
        assert ledger.groups() != before

    @pytest.mark.proves("N7")
    @pytest.mark.parametrize(
        "made",
        [
            {"labels": {}},
            {"ownerReferences": []},
            {"labels": {"stowage.dev/workload-uid": "u-hold", "pod-template-hash": "7d4f"}},
            {"labels": {"reservation-hold": "later", "pod-template-hash": "7d4f"}},
            {
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "name": "web-7d4f",
                        "uid": "u",
                        "controller": True,
                    }
                ]
            },
        ],
        ids=["bare", "of nobody", "of a Workload", "of no Workload", "of another Deployment"],
    )
    def test_only_what_was_made_for_a_reservation_is_left_out(self, made):
        ledger = three_nodes()
        before = ledger.capacity()
        ledger.replace_pod(None, self.placeholder(made, priority=-1_000_000_000))
        assert ledger.capacity()["requested"]["cpu"] == "1"
        assert ledger.capacity() != before


OURS = {"labels": {"stowage.dev/workload-uid": "u1"}}


@pytest.mark.proves("T7")
@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        ({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "a secret"}}}, "container main: ImagePullBackOff"),
        ({"state": {"waiting": {"reason": "ErrImagePull"}}}, "container main: ImagePullBackOff"),
        ({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3}, "container main: CrashLoopBackOff"),
        ({"state": {"running": {}}, "restartCount": 1}, "container main: CrashLoopBackOff"),
        ({"state": {"running": {}}, "restartCount": 1, "ready": True}, ""),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, ""),
        ({"state": {"waiting": {"reason": "<script> " + 99 * "x"}}}, ""),
        ({}, ""),
    ],
)  # fmt: skip
def test_a_pod_tells_in_a_word_why_it_is_not_ready(status: dict[str, Any], trouble: str) -> None:
    where: dict[str, Any] = {"containerStatuses": [{"name": "main", **status}]}
    spec = {"containers": [{"name": "main"}]}
    assert pod("a", spec=spec, status=where, **OURS).trouble == trouble
    assert not pod("a", spec=spec, status=where).trouble, "nothing is kept of others' pods"
    ready = {**where, "conditions": [{"type": "Ready", "status": "True"}]}
    assert not pod("a", spec=spec, status=ready, **OURS).trouble


NODES_FULL = (
    "0/4 nodes are available: 1 node(s) had untolerated taint {a: b}, 3 Insufficient cpu. "
    "preemption: 0/4 nodes are available: 4 No preemption victims found."
)


@pytest.mark.proves("J14")
@pytest.mark.parametrize(
    ("reason", "message", "trouble"),
    [
        (
            "Unschedulable",
            NODES_FULL,
            "no node: Insufficient cpu, node(s) had untolerated taint {a: b}",
        ),
        ("Unschedulable", "pod has unbound immediate PersistentVolumeClaims.",
         "no node: pod has unbound immediate PersistentVolumeClaims"),
        ("Unschedulable", "", "no node: Unschedulable"),
        ("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates",
         "no node: SchedulingGated"),
        ("<script>", "x", ""),
    ],
)  # fmt: skip
def test_a_pod_without_a_node_tells_why_in_words_that_stay(
    reason: str, message: str, trouble: str
) -> None:
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    said = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        **since,
    }
    found = pod("a", spec={}, status={"conditions": [said]}, **OURS)
    assert found.trouble == trouble
    more = {**said, "message": message.replace("0/4", "0/5").replace("3 Ins", "4 Ins")}
    assert pod("a", spec={}, status={"conditions": [more]}, **OURS).trouble == trouble, (
        "and is no news"
    )
    assert not pod(
        "a", spec={}, status={"conditions": [{**said, "status": "True"}]}, **OURS
    ).trouble
