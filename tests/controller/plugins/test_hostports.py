"""Host ports: one of each on a node, in use or free, and never promised to two pods."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.explain.pending import remedies
from controller.features.workloadspread.patches import patched
from controller.framework.events import Action, of_cluster
from controller.framework.room import room
from controller.model.load import Load
from controller.model.requests import request_of
from controller.model.unit import WorkloadInfo
from controller.scheduling.affinityset import _roomy
from controller.scheduling.cycle import decide
from controller.snapshot.builder import Snapshot, with_cluster
from controller.snapshot.inflight import entries
from controller.snapshot.snapshot import amounts_of, rendered
from machinery.types import hostports
from tests.controller.cache.test_assumed import Request, fits, worst
from tests.controller.make import NOW, ROOMY, builder, cluster, info, snapshot
from tests.examples import examples

HTTP, DNS = "hostport/TCP/8080", "hostport/UDP/53"
PORTS = (HTTP, DNS)


def pod(*ports: Any, **spec: Any) -> dict[str, Any]:
    """A pod that asks for these ports of its node; a number is one of TCP."""
    told = [{"containerPort": 80, "hostPort": p} if isinstance(p, int) else p for p in ports]
    return {"containers": [{"name": "main", "ports": told}], **spec}


def asked(spec: dict[str, Any]) -> list[str]:
    return [name for name in request_of(spec) if name.startswith("hostport/")]


class TestWhatAPodTakes:
    """As kube-scheduler's NodePorts counts it."""

    def test_each_port_of_the_host_once_by_protocol_and_port(self) -> None:
        two = [8080, 8080, {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]
        assert asked(pod(*two)) == [HTTP, DNS]
        assert request_of(pod(*two))["pods"] == 1
        assert set(request_of(pod(*two)).values()) == {1}

    def test_ports_of_containers_alone_take_none(self) -> None:
        assert asked(pod({"containerPort": 80}, {"containerPort": 81, "hostPort": 0})) == []

    def test_who_shares_the_network_of_its_node_takes_its_ports(self) -> None:
        assert asked(pod({"containerPort": 8080}, hostNetwork=True)) == [HTTP]
        assert asked(pod({"containerPort": 8080, "hostPort": 8080}, hostNetwork=True)) == [HTTP]

    def test_sidecars_count_and_what_runs_only_at_the_start_does_not(self) -> None:
        ports = pod(8080)["containers"][0]
        started = {"initContainers": [{**ports, "name": "first"}], **pod()}
        assert asked(started) == []
        beside = {"initContainers": [{**ports, "restartPolicy": "Always"}], **pod()}
        assert asked(beside) == [HTTP]

    def test_the_address_of_the_node_is_left_aside(self) -> None:
        here = {"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}
        assert asked(pod(here)) == [HTTP]

    def test_of_very_many_the_first_are_counted(self) -> None:
        found = asked(pod(*range(9000, 9500)))
        assert found == [f"hostport/TCP/{n}" for n in range(9000, 9000 + hostports.MOST_OF_ONE)]

    @pytest.mark.parametrize(
        ("port", "says"),
        [
            ({"hostPort": 70000}, "containers[0].ports[0].hostPort: 70000 is no port"),
            ({"hostPort": -1}, "hostPort: -1 is no port"),
            ({"hostPort": "http"}, "hostPort"),
            ({"hostPort": 80, "protocol": "tcp"}, "protocol: 'tcp' is none of TCP, UDP, SCTP"),
        ],
    )
    def test_what_is_no_port_is_told_with_its_field(self, port: Any, says: str) -> None:
        with pytest.raises(ValueError, match=re.escape(says)):
            info(pod=pod(port))

    def test_no_resource_is_mistaken_for_a_port(self) -> None:
        claimed = {"containers": [{"resources": {"requests": {HTTP: "5"}}}]}
        with pytest.raises(ValueError, match="is no resource; name a port as the container's"):
            request_of(claimed)

    def test_other_ports_are_another_shape_and_other_rules_are_not(self) -> None:
        one, other = info(pod=pod(8080)), info(pod=pod(8081))
        assert one.shape != other.shape, "what was learnt of the one says nothing of the other"
        assert one.constraints == other.constraints

    def test_a_patch_of_a_subset_may_change_them(self) -> None:
        plain = info(pod=pod({"containerPort": 8080}))
        assert patched(plain, {"spec": {"hostNetwork": True}})[0] == {HTTP: 1, "pods": 1}
        other = {"name": "main", "ports": [{"containerPort": 8080, "hostPort": 9090}]}
        request, _ = patched(plain, {"spec": {"containers": [other]}})
        assert request == {"hostport/TCP/9090": 1, "pods": 1}

    def test_a_pod_that_only_keeps_room_asks_for_nothing(self) -> None:
        keeps = pod(8080, priorityClassName="stowage-placeholder")
        keeps["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
        assert request_of(keeps, placeholder=True) == {}

    @pytest.mark.proves("N7")
    def test_the_class_of_such_a_pod_is_nobody_elses(self) -> None:
        said = "priorityClassName: the PriorityClass stowage-placeholder is for pods that keep"
        keeps = pod(8080, priorityClassName="stowage-placeholder")
        with pytest.raises(ValueError, match=f"^spec.template.spec.{said}"):
            info(pod=keeps)
        plain = info(pod=keeps | {"priorityClassName": "high"})
        with pytest.raises(ValueError, match=f"^spec.{said}"):
            patched(plain, {"spec": {"priorityClassName": "stowage-placeholder"}})

    def test_a_load_knows_its_ports_however_it_was_made(self) -> None:
        request = {HTTP: 1, "pods": 1}
        assert Load(tuple(sorted(request.items())), None).ports == Load.of(request).ports != set()


def group(count: int, used: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    return {"count": count, "free": ROOMY | dict.fromkeys(used, "0"), **more}


def with_port(**more: Any) -> WorkloadInfo:
    return info("web", pod=pod(8080), distribution="Divided", **more)


def decided(on: Snapshot, of: WorkloadInfo) -> Any:
    return decide(on, of, PlacementIndex(), default_profile(), NOW)


@pytest.mark.proves("E28")
class TestRoom:
    """Each node has one of every port that its cluster does not say is in use."""

    def test_a_unit_a_node(self) -> None:
        made = snapshot(cluster("a", groups=[group(3)]))
        assert list(room(with_port(), made)) == [3]
        assert decided(made, with_port(replicas=5)).placements == {"a": 3}

    def test_nodes_on_which_it_is_in_use_take_none(self) -> None:
        made = snapshot(cluster("a", groups=[group(2, (HTTP,)), group(1, (DNS,)), group(4)]))
        assert list(room(with_port(), made)) == [5]

    def test_that_one_is_free_may_be_said_too(self) -> None:
        made = snapshot(cluster("a", groups=[{"count": 2, "free": ROOMY | {HTTP: "7"}}]))
        assert list(room(with_port(), made)) == [2]
        assert HTTP not in made.groups.free, "ports are no columns, there may be thousands"

    def test_units_on_their_way_hold_their_port(self) -> None:
        made = builder([cluster("a", groups=[group(3)]), cluster("b")])
        made.assume("a", with_port().load, 2)
        assert list(room(with_port(), made.snapshot())) == [1, 1]
        other = info("other", pod=pod(9090))
        assert room(other, made.snapshot())[0] == 3, "another port is nobody's"

    def test_a_port_that_is_held_is_nobody_elses_until_it_is_given_back(self) -> None:
        made = builder([cluster("a", groups=[group(3)])])
        load = with_port().load
        made.hold("a", load, 2)
        made.assume("a", info("else", pod=pod(9090)).load, 1)
        held = made.snapshot()
        assert list(room(with_port(), held)) == [1]
        assert list(room(with_port(), held.releasing({"a": {load: 1}}))) == [2]
        assert list(room(info("other", pod=pod(9091)), held)) == [3]

    def test_units_on_their_way_cannot_lie_where_the_port_is_in_use(self) -> None:
        made = builder([cluster("a", groups=[group(1, (HTTP,)), group(1, (DNS,))])])
        dns = info("dns", pod=pod({"hostPort": 53, "protocol": "UDP"}))
        made.assume("a", with_port().load, 1)
        assert list(room(dns, made.snapshot())) == [1], "that one lies on the other node"

    def test_what_can_lie_nowhere_for_its_port_takes_nothing(self) -> None:
        asks = {"cpu": 1000}
        small = {"count": 1, "free": {"cpu": "1", HTTP: "0"}}
        made = builder([cluster("a", groups=[small])])
        made.assume("a", Load.of(asks | {HTTP: 1}), 1)
        assert fits(made.snapshot(), asks) == 1
        made.assume("a", Load.of(asks | {DNS: 1}), 1)
        assert fits(made.snapshot(), asks) == 0

    def test_ports_of_what_is_told_together_are_held_all_the_same(self) -> None:
        loads = {Load.of({"cpu": n, port: 1}): 1 for n, port in ((5, "hostport/TCP/1"), (1, HTTP))}
        (entry,) = entries(0, loads, 1)
        assert entry[1].ports == Load.of({"hostport/TCP/1": 1, HTTP: 1}).ports

    def test_who_is_there_already_is_counted_once(self) -> None:
        made = snapshot(cluster("a", groups=[group(2, (HTTP,)), group(1)]))
        assert list(room(with_port(present={"a": 2}), made)) == [3]

    def test_a_virtual_cluster_is_not_asked(self) -> None:
        made = snapshot(cluster("a", groups=[group(1, (HTTP,))], virtual=True))
        assert decided(made, with_port(replicas=9)).placements == {"a": 9}

    def test_what_a_cluster_says_is_forgotten_with_it(self) -> None:
        made = builder([cluster("a", groups=[group(1, (HTTP,))]), cluster("b", groups=[group(1)])])
        assert list(room(with_port(), made.snapshot())) == [0, 1]
        made.upsert(cluster("a", groups=[group(1)]))
        assert list(room(with_port(), made.snapshot())) == [1, 1]
        assert made.snapshot().groups.port_sets == (frozenset(),)
        changed = with_cluster(made.snapshot(), cluster("b", groups=[group(1, (HTTP,))]))
        assert list(room(with_port(), changed)) == [1, 0]
        made.remove("a")
        assert list(room(with_port(), made.snapshot())) == [1]

    def test_a_set_of_workloads_finds_the_clusters_that_have_enough_nodes(self) -> None:
        made = snapshot(cluster("a", groups=[group(2)]), cluster("b", groups=[group(3)]))
        assert list(_roomy(made, [with_port(replicas=3), info("client", pod=pod())])) == [
            False,
            True,
        ]


def drawn(dice: random.Random) -> tuple[Any, Any, Any]:
    def request() -> Request:
        some = {r: dice.randint(1, 6) for r in ("cpu", "memory")}
        return some | dict.fromkeys(dice.sample(PORTS, dice.choice([0, 1, 1, 2])), 1)

    def node() -> Request:
        some = {"cpu": dice.randint(0, 16), "memory": dice.randint(0, 16)}
        return some | {port: dice.choice([0, 1, 1]) for port in PORTS}

    nodes = [node() for _ in range(dice.randint(1, 3))]
    flying = [(request(), dice.randint(1, 2)) for _ in range(dice.randint(0, 2))]
    return nodes, flying, request()


def promised(nodes: Any, flying: Any, asks: Request) -> int:
    """The room that is told of one cluster that says which ports are in use, and nothing of others."""
    told = [{r: n for r, n in node.items() if r not in PORTS or not n} for node in nodes]
    shown = [{r: f"{n}m" if r == "cpu" else str(n) for r, n in node.items()} for node in told]
    made = builder([cluster("a", groups=[{"count": 1, "free": free} for free in shown])])
    for request, units in flying:
        made.assume("a", Load.of(request), units)
    return fits(made.snapshot(), asks)


@pytest.mark.proves("R14", "E28")
@examples(400)
@given(st.integers(0, 2**32))
def test_no_port_is_promised_that_the_worst_case_takes_away(seed: int) -> None:
    nodes, flying, asks = drawn(random.Random(seed))
    left, told = worst(nodes, flying, asks), promised(nodes, flying, asks)
    assert told <= left
    if not flying:
        assert told == left


class TestWords:
    """People read the port, not the name of a resource."""

    def test_refusal_and_remedy(self) -> None:
        made = snapshot(cluster("a", groups=[group(3, (HTTP,))]))
        found = decided(made, with_port(replicas=2))
        assert found.placements == {}
        assert found.message == "0/1 clusters: 1 no free host port 8080/TCP"
        assert [note.text for note in remedies(found)] == [
            "2 more replicas need a node each whose port 8080/TCP is free on a"
        ]

    def test_several_ports_and_other_resources(self) -> None:
        spec = pod(8080, {"hostPort": 53, "protocol": "UDP"})
        spec["containers"][0]["resources"] = {"requests": {"memory": "1Gi"}}
        made = snapshot(
            cluster("a", groups=[{"count": 1, "free": {HTTP: "0", DNS: "0", "cpu": "8"}}])
        )
        (note,) = remedies(decided(made, info("both", pod=spec, replicas=1)))
        assert note.text == (
            "the replica needs 1Gi memory and a node whose ports 8080/TCP and 53/UDP are free on a"
        )

    def test_numbers_over_http(self) -> None:
        made = builder([cluster("a", groups=[group(2, (HTTP,)), group(3, (HTTP, DNS)), group(1)])])
        made.assume("a", with_port().load, 1)
        made.hold("a", info("dns", pod=pod({"hostPort": 53, "protocol": "UDP"})).load, 2)
        amounts = amounts_of(made.snapshot(), "a")
        assert amounts is not None
        told = {name: rendered(each) for name, each in amounts._asdict().items()}
        http = {name: each.get("host port 8080/TCP") for name, each in told.items()}
        assert http == {"allocatable": "6", "requested": "6", "reserved": None, "remaining": "0"}
        dns = {name: each.get("host port 53/UDP") for name, each in told.items()}
        assert dns == {"allocatable": "6", "requested": "5", "reserved": "2", "remaining": "1"}
        assert not [name for each in told.values() for name in each if name.startswith("hostport")]


class TestEvents:
    """Who waits for a port is woken when one may be free, and by nothing else of it."""

    @staticmethod
    def happened(before: list[Any], after: list[Any]) -> Action:
        return of_cluster(cluster("a", groups=before), cluster("a", groups=after))

    def test_a_port_comes_free(self) -> None:
        assert self.happened([group(1, (HTTP,))], [group(1)]) is Action.ROOM
        two = [group(1, (HTTP,)), group(1)]
        assert self.happened([group(2, (HTTP,))], two) is Action.ROOM

    def test_a_port_is_taken(self) -> None:
        assert self.happened([group(1)], [group(1, (HTTP,))]) is Action.WORSE

    def test_one_that_is_said_to_be_free_was_free_before(self) -> None:
        free = {"count": 1, "free": ROOMY | {HTTP: "1"}}
        assert self.happened([group(1)], [free]) is Action.WORSE
        assert self.happened([group(1, (HTTP,))], [free]) is Action.ROOM


@pytest.mark.proves("R14")
def test_clusters_without_ports_keep_no_more_than_before() -> None:
    made = snapshot(*(cluster(f"c{n}", groups=[group(2)]) for n in range(50)))
    assert made.groups.port_sets == (frozenset(),)
    assert set(made.groups.free) == set(ROOMY)
