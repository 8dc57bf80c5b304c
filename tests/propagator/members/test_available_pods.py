"""Pods that have been ready for long enough, by the time of this process alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machinery.runtime.store import Cache
from machinery.types.metadata import Meta, Object
from propagator.members.available_pods import Availability, AvailablePods
from propagator.members.capacity.kept import Pod
from propagator.members.pods import Main, PodClaim
from tests.fakeclock import FakeClock

MAIN = Main("u", "ns", "apps", "StatefulSet", "db")
CLAIM = PodClaim("u", "ns", "apps", "StatefulSet", "db", "")


class Pods(Cache[Object]):
    """The pods of a member, put there by hand."""

    def put(self, name: str, *, ready: bool, uid: str = "", claim: PodClaim = CLAIM) -> None:
        meta = Meta(name=name, namespace="ns", uid=uid or name)
        held = self.get(meta.key)
        if held is not None and held.metadata.uid != meta.uid:
            self.lose(held)
        self.observe(Pod(metadata=meta, claim=claim, ready=ready))


async def pods_at(clock: FakeClock) -> tuple[Pods, AvailablePods]:
    pods = Pods()
    available = AvailablePods(pods, clock=clock)
    assert available.of(MAIN, 10) == Availability(0)
    await clock.advance(1)
    return pods, available


@pytest.mark.proves("M10")
async def test_a_pod_that_flaps_starts_anew() -> None:
    clock = FakeClock()
    pods, available = await pods_at(clock)
    pods.put("db-0", ready=True)
    await clock.advance(4)
    pods.put("db-1", ready=True)
    pods.put("other", ready=True, claim=CLAIM._replace(uid="v"))
    await clock.advance(5)
    assert available.of(MAIN, 10) == Availability(0, 0, 1.0)
    await clock.advance(1)
    assert available.of(MAIN, 10) == Availability(1, 0, 4.0)
    pods.put("db-1", ready=False)
    pods.put("db-1", ready=True)
    assert available.of(MAIN, 10) == Availability(1, 0, 10.0)
    await clock.advance(9.5)
    pods.put("db-0", ready=True, uid="another")
    assert available.of(MAIN, 10) == Availability(0, 0, 0.5)
    await clock.advance(0.5)
    assert available.of(MAIN, 10) == Availability(1, 0, 9.5)


@pytest.mark.proves("M10")
async def test_a_member_that_was_away_was_not_watched() -> None:
    clock = FakeClock()
    pods, available = await pods_at(clock)
    pods.put("db-0", ready=True)
    await clock.advance(60)
    assert available.of(MAIN, 10) == Availability(1)
    available.restart()
    pods.put("db-1", ready=True)
    assert available.of(MAIN, 10) == Availability(0, 2, 10.0)
    await clock.advance(1)
    pods.put("db-2", ready=True)
    assert available.of(MAIN, 10) == Availability(0, 2, 9.0), "the third is known to be new"
    await clock.advance(9)
    assert available.of(MAIN, 10) == Availability(2, 0, 1.0)


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
    pods = Pods()
    available = AvailablePods(pods, clock=clock)
    available.of(MAIN, seconds)
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
        assert available.of(MAIN, seconds).pods == want
    for name in "abc":
        if (held := pods.get(("ns", name))) is not None:
            pods.lose(held)
    assert not available._since
    assert not available._claims
