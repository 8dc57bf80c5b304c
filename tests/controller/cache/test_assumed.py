"""Units on their way: never is more promised than is left, whatever their member makes of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.eventhandlers import SchedulerCache, known
from controller.framework.events import freed
from controller.model.load import Load
from controller.model.objects import ClusterShare, Workload
from controller.model.place import Place
from controller.plugins.defaults import PrioritySort
from controller.scheduling.cycle import decide
from controller.snapshot.builder import Snapshot
from machinery.types.taints import Toleration
from tests.controller.make import NOW, builder, cluster, info, workload
from tests.examples import examples

Request = dict[str, int]


def group(free: Mapping[str, int], count: int = 1, **more: Any) -> dict[str, Any]:
    told = {r: f"{n}m" if r == "cpu" else str(n) for r, n in free.items()}
    return {"count": count, "free": told, **more}


def promised(
    nodes: Sequence[Mapping[str, int]], flying: Sequence[tuple[Request, int]], asks: Request
) -> int:
    """The room that the columns tell of one cluster with these nodes."""
    made = builder([cluster("a", groups=[group(node) for node in nodes])])
    for request, units in flying:
        made.assume("a", Load.of(request), units)
    return fits(made.snapshot(), asks)


def fits(snapshot: Snapshot, asks: Request, **about: Any) -> int:
    return int(snapshot.fitting(asks, Place(**about))[0])


def slots(node: Mapping[str, int], asks: Request) -> int:
    return min(node.get(r, 0) // n for r, n in asks.items())


def worst(
    nodes: Sequence[Mapping[str, int]], flying: Sequence[tuple[Request, int]], asks: Request
) -> int:
    """The room that is left when the member puts all units where they hurt the most: all ways."""
    singles = [request for request, units in flying for _ in range(units)]
    least = sum(slots(node, asks) for node in nodes)
    for places in product(range(len(nodes) + 1), repeat=len(singles)):  # the last: no node yet
        left = [dict(node) for node in nodes]
        for request, place in zip(singles, places, strict=True):
            if place < len(nodes):
                for resource, n in request.items():
                    left[place][resource] = left[place].get(resource, 0) - n
        if all(n >= 0 for node in left for n in node.values()):
            least = min(least, sum(slots(node, asks) for node in left))
    return least


def drawn(dice: random.Random) -> tuple[Any, Any, Any]:
    def request() -> Request:
        some = {r: dice.randint(1, 6) for r in ("cpu", "memory")}
        return some | ({"gpu": 1} if dice.random() < 0.3 else {})

    def node() -> Request:
        gpus = dice.choice([0, 0, 1, 2])
        return {"cpu": dice.randint(0, 16), "memory": dice.randint(0, 16), "gpu": gpus}

    nodes = [node() for _ in range(dice.randint(1, 3))]
    flying = [(request(), dice.randint(1, 2)) for _ in range(dice.randint(0, 2))]
    return nodes, flying, request()


@pytest.mark.proves("R14")
@examples(400)
@given(st.integers(0, 2**32))
def test_room_is_never_promised_that_the_worst_case_takes_away(seed: int) -> None:
    nodes, flying, asks = drawn(random.Random(seed))
    assert promised(nodes, flying, asks) <= worst(nodes, flying, asks)


class TestWhatIsExact:
    """Cases in which nothing at all is given away."""

    @pytest.mark.proves("R14")
    @given(st.integers(0, 40), st.integers(1, 5), st.integers(1, 3))
    def test_units_like_those_that_are_asked_for(self, flying: int, each: int, nodes: int) -> None:
        asks = {"cpu": each, "memory": 2}
        room = [{"cpu": 17, "memory": 31}] * nodes
        free = sum(slots(node, asks) for node in room)
        assert promised(room, [(asks, flying)] if flying else [], asks) == max(free - flying, 0)

    @pytest.mark.proves("R14")
    def test_what_can_lie_nowhere_takes_nothing(self) -> None:
        room = [{"cpu": 4000, "memory": 100}]
        assert promised(room, [({"cpu": 9000}, 5), ({"gpu": 1, "cpu": 1}, 5)], {"cpu": 1000}) == 4

    @pytest.mark.proves("R14")
    def test_what_lies_only_where_the_others_cannot_takes_nothing(self) -> None:
        room = [{"cpu": 4000, "gpu": 2}, {"cpu": 64000, "gpu": 0}]
        assert promised(room, [({"cpu": 9000}, 7)], {"cpu": 1000, "gpu": 1}) == 2

    @pytest.mark.proves("R14")
    def test_nodes_that_do_not_let_it_in_are_safe_from_it(self) -> None:
        taints = [{"key": "gpu", "effect": "NoSchedule"}]
        arm, x86 = {"kubernetes.io/arch": "arm64"}, {"kubernetes.io/arch": "amd64"}
        free = {"cpu": 4000, "pods": 10}
        made = builder(
            [cluster("a", groups=[group(free, taints=taints, labels=arm), group(free, labels=x86)])]
        )
        asks = {"cpu": 1000, "pods": 1}
        borne = (Toleration(key="gpu", operator="Exists"),)
        made.assume("a", Load.of(asks), 9)
        assert fits(made.snapshot(), asks, tolerations=borne) == 4, "the tainted node is untouched"
        made.assume("a", Load.of(asks, Place(tuple(arm.items()), borne)), 9)
        assert fits(made.snapshot(), asks, tolerations=borne) == 0
        made.assume("a", Load.of(asks), -9)
        assert fits(made.snapshot(), asks, tolerations=borne) == 4, "the other architecture is"


@pytest.mark.proves("R14")
def test_plain_units_on_their_way_leave_accelerators_to_those_who_ask_for_them() -> None:
    free = {"cpu": "8", "memory": "32Gi", "pods": "110", "example.com/gpu": "1"}
    made = builder(
        [
            cluster("a", groups=[{"count": 2, "free": free}]),
            cluster("b", groups=[{"count": 3, "free": free}]),
        ]
    )
    plain = info("plain", replicas=6, distribution="Divided")
    first = decide(made.snapshot(), plain, PlacementIndex(), default_profile(), NOW)
    assert sum(first.placements.values()) == 6
    for name, units in first.placements.items():
        made.assume(name, plain.load, units)
    asks = {"cpu": "500m", "example.com/gpu": "1"}
    pod = {"containers": [{"name": "main", "resources": {"requests": asks}}]}
    fast = info("fast", replicas=5, distribution="Divided", pod=pod)
    assert decide(made.snapshot(), fast, PlacementIndex(), default_profile(), NOW).placements == {
        "a": 2,
        "b": 3,
    }


@pytest.mark.proves("R14")
def test_very_many_templates_cost_little_and_promise_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dice = random.Random(3)
    monkeypatch.setattr("controller.snapshot.inflight.MOST_PAIRS", 1)
    monkeypatch.setattr("controller.snapshot.inflight.LEAST_LOADS", 2)
    for _ in range(100):
        nodes, _, asks = drawn(dice)
        flying = [({"cpu": dice.randint(1, 4), "memory": dice.randint(1, 4)}, 1) for _ in range(4)]
        assert promised(nodes, flying, asks) <= worst(nodes, flying, asks)


@pytest.mark.proves("R14")
def test_what_landed_is_forgotten() -> None:
    made = builder([cluster("a")])
    for cpu in range(1, 1000):
        load = Load.of({"cpu": cpu, "pods": 1})
        made.assume("a", load, 3)
        found = made.snapshot().flights
        assert len(found) == 1
        made.assume("a", load, -3)
        made.snapshot()
    assert len(found.codes) < 100


@pytest.mark.proves("L6")
def test_what_has_finished_is_on_its_way_no_more_and_leaves_its_room() -> None:
    def job(**told: int) -> Workload:
        made = workload("job", kind="Job", replicas=16, present={"a": 16})
        share = ClusterShare("a", replicas=16, **told)
        status = msgspec.structs.replace(made.status, clusters=[share])
        return known(msgspec.structs.replace(made, status=status))

    world = SchedulerCache({"stowage"}, sort=PrioritySort(), reviewed=lambda _: True)
    world.cluster_changed(None, cluster("a"))
    asks = job().info.request
    begun, ended = job(), job(finished=16)
    world.workload_changed(None, begun)
    assert fits(world.snapshot(), asks) == 0
    world.workload_changed(begun, ended)
    assert fits(world.snapshot(), asks) == 16
    assert freed(begun, ended) == {"a"}, "whoever waits for room is woken"
