"""Deletion costs: which pods get which, and which pods queue a share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.names import ANNOTATION_DELETION_COST, LABEL_WORKLOAD_UID, POD_DELETION_COST
from machinery.runtime.store import Cache
from machinery.types.metadata import Meta, Object
from propagator.deletion_costs import CostWriter, changes
from propagator.members.capacity.kept import Pod, WirePod, slim_pod
from propagator.members.pod_index import PodIndex
from propagator.members.pods import PodClaim
from propagator.types.workload import workload_of
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context

READY = {"node": "n1", "ready": True}


def pod(name: str, *, age: int = 0, uid: str = "u1", ends: bool = False, **more: Any) -> Pod:
    made = f"2026-01-01T00:00:{59 - age:02}Z"
    meta = Meta(
        name=name,
        namespace="shop",
        uid=f"{name}-{uid}",
        creation_timestamp=made,
        deletion_timestamp="ends" if ends else None,
    )
    claim = PodClaim(uid, "shop", "apps", "ReplicaSet", "web-1", "1")
    return Pod(metadata=meta, claim=claim, **more)


def costing(cost: int | None, marked: bool = True, **more: Any) -> dict[str, Any]:
    return {"cost": cost, "marked": marked, **READY, **more}


def given_to(pods: Iterable[Pod], *costs: tuple[int, int]) -> dict[str, int | None]:
    return {change.pod.metadata.name: change.cost for change in changes(list(pods), tuple(costs))}


def after(pods: Sequence[Pod], *costs: tuple[int, int]) -> list[Pod]:
    """The pods once everything has been written."""
    news = {change.pod.metadata.name: change.cost for change in changes(pods, tuple(costs))}
    return [
        msgspec.structs.replace(p, cost=(cost := news[p.metadata.name]), marked=cost is not None)
        if p.metadata.name in news
        else p
        for p in pods
    ]


@pytest.mark.proves("W14")
def test_the_ready_and_oldest_pods_are_kept_the_longest() -> None:
    pods = [
        pod("young", age=1, **READY),
        pod("old", age=9, **READY),
        pod("starting", age=20, node="n1"),
        pod("waiting", age=30),
    ]
    assert given_to(pods, (200, 2), (100, 1), (-100, 1)) == {
        "old": 200,
        "young": 200,
        "starting": 100,
        "waiting": -100,
    }
    written = [change.cost for change in changes(pods, ((200, 2), (100, 1), (-100, 1)))]
    assert written == [-100, 100, 200, 200], "those that go next are written first"


def test_nothing_is_written_while_nothing_changes() -> None:
    pods = [pod(f"p{n}", age=n, **READY) for n in range(5)]
    settled = after(pods, (200, 3), (-100, 2))
    assert given_to(settled, (200, 3), (-100, 2)) == {}
    assert given_to(reversed(settled), (200, 3), (-100, 2)) == {}


def test_a_pod_that_was_unready_does_not_take_its_cost_back() -> None:
    a, b = pod("a", age=9, **costing(200)), pod("b", age=1, **costing(-100))
    unready = msgspec.structs.replace(a, ready=False)
    swapped = after([unready, b], (200, 1), (-100, 1))
    assert [each.cost for each in swapped] == [-100, 200]
    ready = [msgspec.structs.replace(each, ready=True) for each in swapped]
    assert given_to(ready, (200, 1), (-100, 1)) == {}


@pytest.mark.proves("W15")
def test_a_cap_that_falls_marks_the_newest_pods_anew() -> None:
    pods = [pod(f"p{n}", age=n, **costing(200)) for n in range(4)]
    assert given_to(pods, (200, 3), (-100, 1)) == {"p0": -100}


@pytest.mark.proves("W13", "W14")
def test_while_a_share_shrinks_the_pods_that_go_keep_their_low_cost() -> None:
    kept = [pod(f"k{n}", age=n, **costing(200)) for n in range(2)]
    going = [pod(f"g{n}", age=30 + n, **costing(-100)) for n in range(3)]
    assert given_to([*kept, *going], (200, 2)) == {}, "the member has not removed them yet"
    assert given_to([*kept, *going], (200, 3)) == {"g2": 200}


@pytest.mark.proves("W34")
def test_a_rollout_keeps_the_numbers_and_every_new_pod_gets_its_cost() -> None:
    costs = ((200, 3), (-100, 1))
    old = after([pod(f"old{n}", age=50 + n, **READY) for n in range(4)], *costs)
    pods = old
    for number in range(4):
        pods = after([*pods, pod(f"new{number}", age=9 - number, **READY)], *costs)
        pods.remove(next(each for each in pods if each.metadata.name.startswith("old")))
        pods = after(pods, *costs)
        assert Counter(each.cost for each in pods) == {200: 3, -100: 1}
    assert {each.metadata.name for each in pods} == {f"new{number}" for number in range(4)}


def test_pods_beyond_the_units_get_the_lowest_cost() -> None:
    pods = [pod("a", age=9, **costing(200)), pod("surge", **READY)]
    assert given_to(pods, (200, 1)) == {"surge": 200}
    assert given_to(pods, (200, 1), (100, 0)) == {"surge": 100}
    assert given_to([], (200, 1)) == {}


def test_what_ends_counts_no_more() -> None:
    pods = [pod("ends", age=9, ends=True, node="n1", cost=200, marked=True), pod("new", **READY)]
    assert given_to(pods, (200, 1), (-100, 1)) == {"new": 200}


def test_without_costs_ours_go_and_nobody_elses() -> None:
    pods = [
        pod("ours", **costing(200)),
        pod("spoilt", **costing(None)),
        pod("none", **READY),
    ]
    assert given_to(pods) == {"ours": None, "spoilt": None}


@given(
    st.lists(
        st.builds(
            lambda age, ready, node, cost: {
                "age": age,
                "ready": ready,
                "node": "n1" if node or ready else "",
                "cost": cost,
                "marked": cost is not None,
            },
            st.integers(0, 59),
            st.booleans(),
            st.booleans(),
            st.sampled_from([None, 200, 100, -100]),
        ),
        max_size=12,
    ),
    st.lists(st.tuples(st.sampled_from([200, 100, -100]), st.integers(0, 6)), max_size=3),
)
def test_the_numbers_are_those_that_were_asked_for(
    shapes: list[dict[str, Any]], costs: list[tuple[int, int]]
) -> None:
    wanted = tuple(sorted(dict(costs).items(), reverse=True))
    pods = [pod(f"p{n}", **shape) for n, shape in enumerate(shapes)]
    settled = after(pods, *wanted)
    assert given_to(settled, *wanted) == {}
    if sum(units for _, units in wanted) == len(pods):
        had = Counter(each.cost for each in settled)
        assert had == Counter({cost: units for cost, units in wanted if units})


# --- what is kept of a pod ------------------------------------------------------------------------


def wire(**annotations: str) -> WirePod:
    return msgspec.convert(
        {
            "metadata": {
                "name": "a",
                "namespace": "shop",
                "uid": "a-1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {LABEL_WORKLOAD_UID: "u1"},
                "annotations": annotations,
            }
        },
        WirePod,
    )


@pytest.mark.parametrize(
    ("mark", "value", "kept"),
    [
        (None, None, (None, False)),
        (None, "200", (None, False)),
        ("200", "200", (200, True)),
        ("-100", "-100", (-100, True)),
        ("200", "7", (None, True)),
        ("200", None, (None, True)),
        ("1e3", "1e3", (None, True)),
        ("9" * 5000, "9" * 5000, (None, True)),
    ],
)
def test_a_cost_is_ours_only_where_we_said_so(
    mark: str | None, value: str | None, kept: tuple[int | None, bool]
) -> None:
    annotations = {ANNOTATION_DELETION_COST: mark, POD_DELETION_COST: value}
    found = slim_pod(wire(**{key: text for key, text in annotations.items() if text is not None}))
    assert isinstance(found, Pod)
    assert (found.cost, found.marked) == kept
    assert found.metadata.creation_timestamp == "2026-01-01T00:00:00Z"


# --- which pods queue a share ---------------------------------------------------------------------


def test_only_pods_with_a_mark_or_of_a_share_with_costs_queue_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costly, plain = (
        workload_of(
            {
                "metadata": {"namespace": "shop", "name": uid, "uid": uid},
                "spec": {"replicas": 1},
                "status": {"placements": [{"cluster": "m1", "replicas": 1}], **status},
            }
        )
        for uid, status in (
            ("u1", {"overrides": [{"name": "a", "clusters": [COSTS]}]}),
            ("u2", {}),
        )
    )
    hub = SimpleNamespace(
        by_uid={"u1": costly, "u2": plain}.get,
        touching=lambda _: [],
        listed=True,
    )
    shown: Cache[Object] = Cache()
    link = Namespace(pods=shown, counted=True, pod_index=PodIndex(clock=FakeClock()))
    shown.add_handler(lambda old, new: link.pod_index.replace(cast("Pod", old), cast("Pod", new)))
    session = SimpleNamespace(link=link, ready=True)
    registry = SimpleNamespace(on_change=lambda _: None, get=lambda _: session)
    context: Any = Context(registry=registry, clock=FakeClock(), fresh=lambda: True)
    shown.replace(pod("before", uid="u2", marked=True))
    shown.replace(pod("gone", uid="u3", marked=True))
    shown.replace(pod("plain", uid="u2"))
    writer = CostWriter(context, workloads=cast("Any", hub), may_write=lambda _: True)
    queued: list[str] = []
    monkeypatch.setattr(writer, "_enqueue", lambda member, of, after=0.0: queued.append(of.uid))
    writer._member_changed("m1", None)
    assert set(queued) == {"u2"}, "one with a mark, whoever has costs"
    queued.clear()
    shown.replace(pod("of-costly"))
    assert queued == ["u1"]
    shown.replace(pod("of-costly", requests=(("cpu", 1),)))
    assert queued == ["u1"], "that is no matter here"
    shown.replace(pod("plain", uid="u2", ready=True))
    assert queued == ["u1"]
    shown.lose(pod("of-costly", requests=(("cpu", 1),)))
    assert queued == ["u1", "u1"]


COSTS = {"name": "m1", "deletionCosts": [{"cost": 200, "replicas": 1}]}


class Namespace(SimpleNamespace):
    """One that can be hashed, and referred to weakly."""

    __hash__ = object.__hash__
