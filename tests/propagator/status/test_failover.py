"""Of a share's health: what spec.movement.unhealthySeconds goes by, and pods that crash."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from crds.fields.shares import ClusterShare, ShareHealth, ShareState
from crds.names import LABEL_WORKLOAD_UID
from machinery.api.client import ApiClient
from machinery.kinds.builtin import DAEMON_SET, DEPLOYMENT, JOB
from machinery.kinds.readiness import Readiness, crashed
from machinery.types.metadata import Meta
from propagator.hub.revisions import Revisions
from propagator.members.capacity.kept import Pod, WirePod, slim_pod
from propagator.members.health import Contact
from propagator.members.pod_index import PodIndex
from propagator.members.pods import Main, PodClaim
from propagator.shares import ShareTable
from propagator.status.failover import Patience, of_seen, of_silent, over_in
from propagator.status.observation import Survey
from propagator.types.workload import workload_of
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context
from tests.propagator.stage import deployment

T0 = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WELL = {"revision": "a", "replicas": 4, "seconds": 0}


def at(seconds: float, *, revision: str = "a") -> Patience:
    return Patience(30, revision, T0 + timedelta(seconds=seconds))


def seen(
    stored: Any,
    ready: int,
    when: float = 0,
    *,
    asked: int = 4,
    available: int | None = None,
    revision: str = "a",
    **counts: Any,
) -> Any:
    whole = ready >= asked and counts.get("observed", True)
    return of_seen(
        at(when, revision=revision),
        stored,
        msgspec.structs.replace(Readiness(ready, ready), **counts),
        asked=asked,
        available=available,
        state=ShareState.RUNNING if whole else ShareState.CREATING,
        written=True,
    )


@pytest.mark.proves("KD72")
def test_the_clock_begins_once_fewer_are_ready_than_were_and_is_told_at_its_end() -> None:
    assert seen(None, 3) is None, "never ready"
    assert seen(None, 4) == WELL
    began = seen(WELL, 3)
    assert began == {**WELL, "since": "2026-01-02T03:04:05Z"}
    assert over_in(at(10), began) == 20
    assert seen(began, 1, 29.9) == began, "no write while it counts"
    over = seen(began, 1, 30)
    assert over == {**began, "seconds": 30}
    assert over_in(at(30), over) is None
    assert seen(over, 0, 300) == over
    assert seen(over, 4, 301) == WELL
    ClusterShare.model_validate({"name": "m1", "failover": over})


@pytest.mark.proves("KD72", "KD86")
def test_degraded_counts_too_and_less_than_was_ready_does_not() -> None:
    degraded = seen(WELL, 4, health=ShareHealth.DEGRADED)
    assert "since" in degraded
    assert seen(WELL, 4, asked=6) == WELL, "scaled up, and two have not begun"
    assert seen(WELL, 2, asked=2)["replicas"] == 2, "scaled down"
    assert seen(WELL, 0, health=ShareHealth.SUSPENDED) == WELL
    assert seen(WELL, 3, outdated=1) == WELL, "it is being replaced"
    assert seen(degraded, 0, observed=False) == degraded, "its counts are of before"


@pytest.mark.proves("KD73")
def test_another_revision_begins_without_a_record() -> None:
    began = seen(WELL, 0)
    assert seen(began, 0, 60, revision="b") is None
    assert seen(None, 4, revision="b") == {**WELL, "revision": "b"}
    assert of_silent(at(0, revision="b"), began) is None


@pytest.mark.proves("KD74")
def test_silence_stops_the_clock_and_another_process_goes_on_with_it() -> None:
    began = seen(WELL, 0)
    silent = of_silent(at(20), began)
    assert silent == {**WELL, "seconds": 20}
    assert of_silent(at(80), silent) == silent
    again = seen(silent, 0, 80)
    assert again == {**WELL, "since": "2026-01-02T03:05:05Z", "seconds": 20}
    assert over_in(at(80), again) == 10
    assert seen(again, 0, 90)["seconds"] == 30
    assert of_silent(at(0), None) is None
    assert seen({**began, "since": "2027-01-01T00:00:00Z"}, 0)["seconds"] == 0, "a clock set back"


@pytest.mark.proves("KD74")
async def test_a_silent_member_is_counted_up_to_its_last_answer() -> None:
    clock = FakeClock()
    told = {"name": "m1", "failover": {"revision": "a", "replicas": 4}}
    about = workload_of(
        {
            "metadata": {"namespace": "shop", "name": "web", "uid": "u"},
            "spec": {"template": deployment(), "movement": {"unhealthySeconds": 30}},
            "status": {"placements": [{"cluster": "m1", "replicas": 4}], "clusters": [told]},
        }
    )
    away = SimpleNamespace(
        contact=Contact.AWAY, message="gone", answered=clock.monotonic(), former=()
    )
    context: Any = Context(
        registry=SimpleNamespace(get=lambda _name: away, names=lambda: ["m1"]),
        clusters=SimpleNamespace(),
        clock=clock,
    )
    held: Any = SimpleNamespace(holders=lambda _uid: set(), may_hold=lambda *_: True)
    revisions = Revisions(cast("ApiClient", None), ShareTable())
    survey = Survey(context, inventory=held, revisions=revisions)
    await clock.advance(17)
    (found,) = [each async for each in survey.seen(about, {})]
    assert found.patience is not None
    assert clock.now() - found.patience.now == timedelta(seconds=17)


@pytest.mark.proves("KD72")
def test_replicas_that_fall_before_they_have_proven_themselves_reset_nothing() -> None:
    began = seen(WELL, 0, available=0)
    stands = seen(began, 4, 20, available=0)
    assert stands == {**WELL, "seconds": 20}
    assert over_in(at(30), seen(stands, 0, 30, available=0)) == 10
    assert seen(stands, 4, 50, available=4) == WELL


def pod(uid: str, *, ready: bool = False, trouble: str = "", fell: bool = False) -> Pod:
    claim = PodClaim("u", "demo", "apps", "StatefulSet", "web", "")
    meta = Meta(name="web-0", namespace="demo", uid=uid)
    return Pod(metadata=meta, claim=claim, ready=ready, trouble=trouble, fell=fell)


CRASH = "container main: CrashLoopBackOff"
MAIN = Main("u", "demo", "apps", "StatefulSet", "web")


async def crashing(index: PodIndex, clock: FakeClock, *states: Pod) -> list[int]:
    """Return how many crash after each state, 40 s apart."""
    found, before = [], None
    for each in states:
        index.replace(before, each)
        await clock.advance(40)
        found.append(index.counts(MAIN).crashing)
        before = each
    return found


@pytest.mark.proves("KD71")
async def test_pods_that_were_ready_and_wait_for_a_minute_crash() -> None:
    clock = FakeClock()
    index = PodIndex(clock=clock)
    ready, bad, gone = pod("a", ready=True), pod("a", trouble=CRASH), pod("a")
    assert await crashing(index, clock, ready, gone, bad, bad, ready) == [0, 0, 0, 1, 0]
    assert await crashing(index, clock, pod("b", trouble=CRASH), bad, bad) == [0, 0, 0], "never"
    restarted = pod("c", trouble=CRASH, fell=True)
    assert await crashing(index, clock, restarted, restarted) == [0, 1]
    assert index.counts(MAIN).crashing_in is None
    waits = pod("d", trouble="no node: Insufficient cpu")
    assert await crashing(index, clock, pod("d", ready=True), waits, waits, waits) == [0] * 4


@pytest.mark.proves("KD71")
@pytest.mark.parametrize(
    ("began", "changed", "fell"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z", True),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", False),
        ("2026-01-01T00:00:00Z", "a while ago", False),
        (None, "2026-01-01T00:05:00Z", False),
    ],
)
def test_a_pod_that_was_ready_before_it_was_watched_is_known_by_its_own_times(
    began: str | None, changed: str, fell: bool
) -> None:
    owner = {"kind": "StatefulSet", "name": "web", "uid": "s", "apiVersion": "apps/v1"}
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": changed}
    waits = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    wire = {
        "metadata": {
            "name": "web-0",
            "namespace": "demo",
            "labels": {LABEL_WORKLOAD_UID: "u"},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "status": {"startTime": began, "conditions": [unready], "containerStatuses": [waits]},
    }
    found = slim_pod(msgspec.convert(wire, WirePod))
    assert isinstance(found, Pod)
    assert found.fell is fell


@pytest.mark.proves("KD71")
def test_pods_that_crash_degrade_what_runs_on_and_no_job() -> None:
    well = Readiness(1, 1)
    assert crashed(DEPLOYMENT, well).health is ShareHealth.DEGRADED
    assert crashed(DAEMON_SET, well).health is ShareHealth.DEGRADED
    assert crashed(JOB, well) is well
    rests = Readiness(0, 0, health=ShareHealth.SUSPENDED)
    assert crashed(DEPLOYMENT, rests) is rests
