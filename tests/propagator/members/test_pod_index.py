"""What is read of the pods of a member: counts, and which have been ready for long enough."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from machinery.runtime.store import Cache
from machinery.types.metadata import Meta, Object
from propagator.members.capacity.kept import Pod
from propagator.members.pod_index import Availability, PodCounts, PodIndex
from propagator.members.pods import Main, PodClaim
from tests.fakeclock import FakeClock

T0 = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def main(workload: str) -> Main:
    return Main(workload, "demo", "apps", "StatefulSet", "web")


def pod(
    name: str,
    *,
    workload: str = "u1",
    node: str = "",
    ready: bool = False,
    unschedulable: datetime | None = None,
    trouble: str = "",
    labels: tuple[tuple[str, str], ...] = (),
) -> Pod:
    return Pod(
        metadata=Meta(name=name, namespace="demo"),
        claim=PodClaim(workload, "demo", "apps", "StatefulSet", "web", "") if workload else None,
        node=node,
        ready=ready,
        unschedulable=unschedulable,
        trouble=trouble,
        labels=labels,
    )


def uids(claims: set[PodClaim]) -> set[str]:
    return {claim.uid for claim in claims}


@pytest.mark.proves("KD12")
async def test_counts_are_of_whole_replicas_and_one_with_pods_in_part_is_on_its_way() -> None:
    clock = FakeClock()
    index = PodIndex(clock=clock)
    asked = [pod(f"p{n}", node="n" if n < 7 else "", ready=n < 6) for n in range(8)]
    asked += [pod("waits", unschedulable=T0)]
    for each in asked:
        meta = Meta(name=each.metadata.name, namespace="demo", uid=each.metadata.name)
        index.replace(None, msgspec.structs.replace(each, metadata=meta))
    index.publish(index.placed(), 3)
    counts = index.counts(main("u1"), each=4)
    assert (counts.scheduled, counts.ready, counts.current) == (1, 1, 3)
    assert (counts.unschedulable, counts.capacity_version) == (1, 3)
    whole = index.counts(main("u1"), each=12)
    assert (whole.scheduled, whole.ready, whole.current, whole.capacity_version) == (0, 0, 1, None)
    assert index.available(main("u1"), 10, each=4) == Availability(0, 1, 10)
    await clock.advance(10)
    assert index.available(main("u1"), 10, each=4) == Availability(1)
    assert index.available(main("u1"), 10, each=12) == Availability(0)


@pytest.mark.proves("KD67")
def test_labels_are_those_of_the_pods_that_are_there() -> None:
    index, old, new = PodIndex(clock=FakeClock()), (("track", "canary"),), (("track", "stable"),)
    index.replace(None, pod("a", labels=old))
    index.replace(None, pod("b", labels=old))
    index.replace(None, pod("c", workload="u2", labels=(("app", "other"),)))
    index.replace(None, pod("d", labels=new))
    assert index.labels(main("u1")) == {old, new}
    for name in "ab":
        index.replace(pod(name, labels=old), None)
    assert index.labels(main("u1")) == {new}
    index.replace(pod("d", labels=new), pod("d", labels=old))
    assert index.labels(main("u1")) == {old}, "somebody labels a pod"


def test_units_are_counted_by_workload():
    index = PodIndex(clock=FakeClock())
    assert uids(index.replace(None, pod("a", node="n1", ready=True))) == {"u1"}
    assert uids(index.replace(None, pod("b", node="n1"))) == {"u1"}
    other = pod("c", workload="u2", node="n1", ready=True)
    assert uids(index.replace(None, other)) == {"u2"}
    assert index.replace(None, pod("stranger", workload="", node="n1")) == set()
    assert uids(index.publish(index.placed(), None)) == {"u1", "u2"}
    assert index.counts(main("u1")) == PodCounts(scheduled=2, ready=1, current=2)
    assert index.counts(main("u2")) == PodCounts(scheduled=1, ready=1, current=1)
    assert index.counts(main("u3")) == PodCounts()


@pytest.mark.proves("KD62")
def test_the_newest_pod_is_so_by_its_creation():
    index = PodIndex(clock=FakeClock())
    for name, made in (("a", "2026-01-03T00:00:00Z"), ("b", "2026-01-02T00:00:00Z"), ("c", "")):
        meta = Meta(name=name, namespace="demo", uid=name, creation_timestamp=made)
        index.replace(None, msgspec.structs.replace(pod(name), metadata=meta))
    assert index.newest(main("u1")) == datetime(2026, 1, 3, tzinfo=UTC)
    assert index.newest(main("u2")) is None


@pytest.mark.proves("KD62")
def test_a_replica_with_pods_in_part_lacks_some():
    index = PodIndex(clock=FakeClock())
    for number, (current, in_part) in enumerate([(1, 1), (1, 0), (2, 1), (2, 0)]):
        index.replace(None, pod(f"p{number}"))
        counts = index.counts(main("u1"), each=2)
        assert (counts.current, counts.in_part) == (current, in_part)
        assert index.counts(main("u1")).in_part == 0


def test_waiting_units_tell_since_when():
    index = PodIndex(clock=FakeClock())
    older, newer = T0, T0 + timedelta(seconds=30)
    index.replace(None, pod("a", unschedulable=newer))
    index.replace(None, pod("b", unschedulable=older))
    assert index.counts(main("u1")) == PodCounts(
        None, unschedulable=2, oldest_unschedulable=older, current=2
    )
    touched = index.replace(pod("b", unschedulable=older), pod("b", node="n1"))
    assert uids(touched) == {"u1"}
    index.publish(index.placed(), None)
    assert index.counts(main("u1")) == PodCounts(
        scheduled=1, unschedulable=1, oldest_unschedulable=newer, current=2
    )
    index.replace(pod("a", unschedulable=newer), None)
    assert index.counts(main("u1")) == PodCounts(scheduled=1, current=1)


@pytest.mark.proves("T7")
def test_the_trouble_of_most_units_is_told_until_it_is_over():
    index = PodIndex(clock=FakeClock())
    pulls, crashes = "container main: ImagePullBackOff", "no node: Insufficient cpu"
    for name in "ab":
        index.replace(None, pod(name, trouble=pulls))
    index.replace(None, pod("c", trouble=crashes))
    assert index.counts(main("u1")).trouble == pulls
    assert uids(index.replace(pod("a", trouble=pulls), pod("a", trouble=crashes))) == {"u1"}
    assert index.counts(main("u1")).trouble == crashes
    for name, said in (("a", crashes), ("b", pulls), ("c", crashes)):
        index.replace(pod(name, trouble=said), pod(name, ready=True))
    assert index.counts(main("u1")).trouble == ""


def test_a_unit_holds_room_for_us_once_the_hub_knows_that_it_is_taken():
    index = PodIndex(clock=FakeClock())
    index.replace(None, pod("a", node="n1", ready=True))
    assert index.counts(main("u1")) == PodCounts(scheduled=None, ready=1, current=1), (
        "nothing was told yet"
    )
    index.publish({}, None)
    assert index.counts(main("u1")) == PodCounts(scheduled=0, ready=1, current=1), "still in flight"
    taken = index.placed()
    index.replace(None, pod("b", node="n1"))
    assert uids(index.publish(taken, None)) == {"u1"}
    assert index.counts(main("u1")).scheduled == 1, "the second one is in no capacity yet"
    assert uids(index.publish(index.placed(), None)) == {"u1"}
    assert index.counts(main("u1")).scheduled == 2
    assert index.publish(index.placed(), None) == set()
    index.replace(pod("a", node="n1", ready=True), None)
    assert index.counts(main("u1")).scheduled == 1, "what is gone counts no longer, told or not"


def test_a_change_that_counts_nowhere_tells_nobody():
    index = PodIndex(clock=FakeClock())
    index.replace(None, pod("a", node="n1"))
    assert index.replace(pod("a", node="n1"), pod("a", node="n1")) == set()


shapes = st.builds(
    pod,
    st.just("x"),
    workload=st.sampled_from(["", "u1", "u2"]),
    node=st.sampled_from(["", "n1"]),
    ready=st.booleans(),
    unschedulable=st.sampled_from([None, T0, T0 + timedelta(hours=1)]),
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.none() | shapes), max_size=60))
def test_counting_change_by_change_equals_counting_all(changes):
    index = PodIndex(clock=FakeClock())
    held: dict[int, Pod] = {}
    for number, shape in changes:
        new = shape and pod(
            f"p{number}",
            workload=shape.claim.uid if shape.claim else "",
            node=shape.node,
            ready=shape.ready,
            unschedulable=shape.unschedulable,
        )
        old = held.pop(number, None)
        if new:
            held[number] = new
        touched = index.replace(old, new)
        assert uids(touched) <= {"u1", "u2"}
    index.publish(index.placed(), None)
    for uid in ("u1", "u2"):
        pods = [each for each in held.values() if each.claim and each.claim.uid == uid]
        waiting = [each.unschedulable for each in pods if each.unschedulable]
        assert index.counts(main(uid)) == PodCounts(
            scheduled=sum(bool(each.node) for each in pods),
            ready=sum(each.ready for each in pods),
            unschedulable=len(waiting),
            oldest_unschedulable=min(waiting, default=None),
            current=len(pods),
        )


# --- how long pods have been ready ---------------------------------------------------------------


MAIN = Main("u", "ns", "apps", "StatefulSet", "db")
CLAIM = PodClaim("u", "ns", "apps", "StatefulSet", "db", "")


class Pods(Cache[Object]):
    """The pods of a member, put there by hand, and their index."""

    def __init__(self, index: PodIndex) -> None:
        super().__init__()
        self.add_handler(lambda old, new: index.replace(cast("Pod", old), cast("Pod", new)))

    def put(self, name: str, *, ready: bool, uid: str = "", claim: PodClaim = CLAIM) -> None:
        meta = Meta(name=name, namespace="ns", uid=uid or name)
        held = self.get(meta.key)
        if held is not None and held.metadata.uid != meta.uid:
            self.lose(held)
        self.observe(Pod(metadata=meta, claim=claim, ready=ready))


async def pods_at(clock: FakeClock) -> tuple[Pods, PodIndex]:
    index = PodIndex(clock=clock)
    assert index.available(MAIN, 10) == Availability(0)
    await clock.advance(1)
    return Pods(index), index


@pytest.mark.proves("M10")
async def test_a_pod_that_flaps_starts_anew() -> None:
    clock = FakeClock()
    pods, index = await pods_at(clock)
    pods.put("db-0", ready=True)
    await clock.advance(4)
    pods.put("db-1", ready=True)
    pods.put("other", ready=True, claim=CLAIM._replace(uid="v"))
    await clock.advance(5)
    assert index.available(MAIN, 10) == Availability(0, 0, 1.0)
    await clock.advance(1)
    assert index.available(MAIN, 10) == Availability(1, 0, 4.0)
    pods.put("db-1", ready=False)
    pods.put("db-1", ready=True)
    assert index.available(MAIN, 10) == Availability(1, 0, 10.0)
    await clock.advance(9.5)
    pods.put("db-0", ready=True, uid="another")
    assert index.available(MAIN, 10) == Availability(0, 0, 0.5)
    await clock.advance(0.5)
    assert index.available(MAIN, 10) == Availability(1, 0, 9.5)


@pytest.mark.proves("M10")
async def test_a_member_that_was_away_was_not_watched() -> None:
    clock = FakeClock()
    pods, index = await pods_at(clock)
    pods.put("db-0", ready=True)
    await clock.advance(60)
    assert index.available(MAIN, 10) == Availability(1)
    index.restart()
    pods.put("db-1", ready=True)
    assert index.available(MAIN, 10) == Availability(0, 2, 10.0)
    await clock.advance(1)
    pods.put("db-2", ready=True)
    assert index.available(MAIN, 10) == Availability(0, 2, 9.0), "the third is known to be new"
    await clock.advance(9)
    assert index.available(MAIN, 10) == Availability(2, 0, 1.0)


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["ready", "unready", "gone"]), st.booleans()),
    max_size=30,
)


@pytest.mark.proves("M10")
@given(STEPS, st.integers(1, 4))
def test_whatever_pods_do_only_an_unbroken_time_counts(
    steps: list[tuple[str, str, bool]], seconds: int
) -> None:
    clock = FakeClock()
    index = PodIndex(clock=clock)
    pods = Pods(index)
    index.available(MAIN, seconds)
    since: dict[str, float] = {}
    for name, state, waits in steps:
        if state == "gone":
            since.pop(name, None)
            if (held := pods.get(("ns", name))) is not None:
                pods.lose(held)
        else:
            pods.put(name, ready=state == "ready")
            if state == "ready":
                since.setdefault(name, clock.monotonic())
            else:
                since.pop(name, None)
        clock._elapsed += waits
        now = clock.monotonic()
        want = sum(now - each >= seconds for each in since.values())
        assert index.available(MAIN, seconds).pods == want
    for name in "abc":
        if (held := pods.get(("ns", name))) is not None:
            pods.lose(held)
    assert not index._ready_since
    assert not index._claims
