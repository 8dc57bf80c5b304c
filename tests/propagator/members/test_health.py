"""What is seen of a member: verdicts, health, providers, and units counted pod by pod."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crds.membercluster import ReadyReason
from machinery.errors import (
    ApiError,
    KubeconfigError,
    StowageError,
    TLSVerificationFailed,
    Unreachable,
)
from machinery.types.metadata import Meta
from propagator.members.capacity.kept import Node, Pod
from propagator.members.health import (
    CONNECTED,
    LATENCY_ANSWERS,
    HealthProbe,
    PodCounts,
    PodLedger,
    provider_of,
    settled,
    verdict_of,
)
from propagator.members.pods import Main, PodClaim

T0 = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def api_error(code: int) -> ApiError:
    return ApiError.of(code=code, reason="", message="said no")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Unreachable("no route"), ReadyReason.UNREACHABLE),
        (api_error(500), ReadyReason.UNREACHABLE),
        (api_error(404), ReadyReason.UNREACHABLE),
        (api_error(401), ReadyReason.UNAUTHORIZED),
        (TLSVerificationFailed("unknown CA"), ReadyReason.TLS_VERIFICATION_FAILED),
        (KubeconfigError("users[0].user.exec", "runs a program"), ReadyReason.INVALID_KUBECONFIG),
        (api_error(403), ReadyReason.CONNECTED),
        (api_error(429), ReadyReason.CONNECTED),
    ],
)
@pytest.mark.proves("D1")
def test_each_fault_has_its_reason(fault: StowageError, reason: ReadyReason):
    assert verdict_of(fault).reason is reason
    assert verdict_of(fault).ready is (reason is ReadyReason.CONNECTED)


@pytest.mark.proves("D1")
def test_what_is_wrong_is_told_in_a_sentence_that_names_the_cluster_and_the_cure():
    refused = verdict_of(Unreachable("https://10.0.0.1:6443: Connection refused"))
    assert refused.sentence("m1") == (
        "cluster m1 cannot be reached (https://10.0.0.1:6443: Connection refused): check that its "
        "API server runs and that its Secret names an address which the propagator can reach"
    )
    revoked = verdict_of(api_error(401))
    assert revoked.sentence("m1") == "m1: the credential is refused: said no"
    assert CONNECTED.sentence("m1") == "the API server answers"


def answers(health: HealthProbe, *milliseconds: float) -> None:
    """Each probe answered after so long."""
    for each in milliseconds:
        health.record(answered=True, seconds=each / 1000)


def test_latency_is_that_of_the_fastest_of_a_round_and_failures_leave_it_alone():
    health = HealthProbe()
    assert health.latency_milliseconds is None
    answers(health, 100, *[300] * (LATENCY_ANSWERS - 2))
    assert health.latency_milliseconds == 100
    health.record(answered=False, seconds=5.0)
    answers(health, 80)
    assert health.latency_milliseconds == 80
    answers(health, *[300] * (LATENCY_ANSWERS - 1))
    assert health.latency_milliseconds == 80
    answers(health, 300)
    assert health.latency_milliseconds == 300


def test_the_time_to_connect_is_no_latency():
    health = HealthProbe()
    health.record(answered=True, seconds=0.5, cold=True)
    assert health.latency_milliseconds == 500
    health.record(answered=True, seconds=0.01)
    health.record(answered=True, seconds=0.4, cold=True)
    assert health.latency_milliseconds == 10


@given(
    rounds=st.lists(
        st.tuples(
            st.integers(0, LATENCY_ANSWERS - 1),
            st.lists(st.integers(0, 5000), min_size=LATENCY_ANSWERS, max_size=LATENCY_ANSWERS),
        ),
        max_size=5,
    )
)
@pytest.mark.proves("R11")
def test_what_holds_up_all_answers_but_one_of_a_round_changes_no_latency(
    rounds: list[tuple[int, list[int]]],
):
    health = HealthProbe()
    health.recall(latency_milliseconds=40, ready_percent=100)
    for free, delays in rounds:
        for number, delay in enumerate(delays):
            answers(health, 40 + (number != free) * delay)
            assert health.latency_milliseconds == 40


def test_reliability_falls_with_failures_and_recovers():
    health = HealthProbe()
    assert health.ready_percent is None, "nobody has asked"
    health.record(answered=True, seconds=0.01)
    assert health.ready_percent == 100
    for _ in range(50):
        health.record(answered=False, seconds=5.0)
    low = health.ready_percent
    assert 30 < low < 45
    for _ in range(500):
        health.record(answered=True, seconds=0.01)
    assert health.ready_percent == 100


def test_noise_is_not_news():
    assert settled(None, 7, step=5) == 7
    assert settled(100, 104, step=5) == 100
    assert settled(100, 105, step=5) == 105
    assert settled(100, 95, step=5) == 95


def nodes(*provider_ids: str) -> list[Node]:
    return [Node(provider_id=each) for each in provider_ids]


@pytest.mark.parametrize(
    ("provider_ids", "provider"),
    [
        (["kind://docker/member-1/control-plane"], "kind"),
        (["kwok://node-0", "kwok://node-1"], "kwok"),
        (["aws:///eu-west-1a/i-0123"], "aws"),
        (["gce://project/zone/vm"], "gcp"),
        (["azure:///subscriptions/x"], "azure"),
        (["AWS:///eu/i-1"], "aws"),
        (["aws:///a/i-1", "kwok://virtual", "aws:///a/i-2"], "aws"),
        (["kwok://virtual", "aws:///a/i-1"], "aws"),
        (["", "aws:///a/i-1"], "aws"),
        (["", ""], "unknown"),
        ([], "unknown"),
    ],
)
@pytest.mark.proves("C10")
def test_the_provider_is_what_most_nodes_release_or_report(
    provider_ids: Sequence[str], provider: str
):
    assert provider_of(nodes(*provider_ids)) == provider


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
) -> Pod:
    return Pod(
        metadata=Meta(name=name, namespace="demo"),
        claim=PodClaim(workload, "demo", "apps", "StatefulSet", "web", "") if workload else None,
        node=node,
        ready=ready,
        unschedulable=unschedulable,
        trouble=trouble,
    )


def uids(claims: set[PodClaim]) -> set[str]:
    return {claim.uid for claim in claims}


def test_units_are_counted_by_workload():
    ledger = PodLedger()
    assert uids(ledger.replace(None, pod("a", node="n1", ready=True))) == {"u1"}
    assert uids(ledger.replace(None, pod("b", node="n1"))) == {"u1"}
    other = pod("c", workload="u2", node="n1", ready=True)
    assert uids(ledger.replace(None, other)) == {"u2"}
    assert ledger.replace(None, pod("stranger", workload="", node="n1")) == set()
    assert uids(ledger.publish(ledger.placed(), None)) == {"u1", "u2"}
    assert ledger.counts(main("u1")) == PodCounts(scheduled=2, ready=1, current=2)
    assert ledger.counts(main("u2")) == PodCounts(scheduled=1, ready=1, current=1)
    assert ledger.counts(main("u3")) == PodCounts()


def test_waiting_units_tell_since_when():
    ledger = PodLedger()
    older, newer = T0, T0 + timedelta(seconds=30)
    ledger.replace(None, pod("a", unschedulable=newer))
    ledger.replace(None, pod("b", unschedulable=older))
    assert ledger.counts(main("u1")) == PodCounts(
        None, unschedulable=2, oldest_unschedulable=older, current=2
    )
    touched = ledger.replace(pod("b", unschedulable=older), pod("b", node="n1"))
    assert uids(touched) == {"u1"}
    ledger.publish(ledger.placed(), None)
    assert ledger.counts(main("u1")) == PodCounts(
        scheduled=1, unschedulable=1, oldest_unschedulable=newer, current=2
    )
    ledger.replace(pod("a", unschedulable=newer), None)
    assert ledger.counts(main("u1")) == PodCounts(scheduled=1, current=1)


@pytest.mark.proves("T7")
def test_the_trouble_of_most_units_is_told_until_it_is_over():
    ledger = PodLedger()
    pulls, crashes = "container main: ImagePullBackOff", "no node: Insufficient cpu"
    for name in "ab":
        ledger.replace(None, pod(name, trouble=pulls))
    ledger.replace(None, pod("c", trouble=crashes))
    assert ledger.counts(main("u1")).trouble == pulls
    assert uids(ledger.replace(pod("a", trouble=pulls), pod("a", trouble=crashes))) == {"u1"}
    assert ledger.counts(main("u1")).trouble == crashes
    for name, said in (("a", crashes), ("b", pulls), ("c", crashes)):
        ledger.replace(pod(name, trouble=said), pod(name, ready=True))
    assert ledger.counts(main("u1")).trouble == ""


def test_a_unit_holds_room_for_us_once_the_hub_knows_that_it_is_taken():
    ledger = PodLedger()
    ledger.replace(None, pod("a", node="n1", ready=True))
    assert ledger.counts(main("u1")) == PodCounts(scheduled=None, ready=1, current=1), (
        "nothing was told yet"
    )
    ledger.publish({}, None)
    assert ledger.counts(main("u1")) == PodCounts(scheduled=0, ready=1, current=1), (
        "still in flight"
    )
    taken = ledger.placed()
    ledger.replace(None, pod("b", node="n1"))
    assert uids(ledger.publish(taken, None)) == {"u1"}
    assert ledger.counts(main("u1")).scheduled == 1, "the second one is in no capacity yet"
    assert uids(ledger.publish(ledger.placed(), None)) == {"u1"}
    assert ledger.counts(main("u1")).scheduled == 2
    assert ledger.publish(ledger.placed(), None) == set()
    ledger.replace(pod("a", node="n1", ready=True), None)
    assert ledger.counts(main("u1")).scheduled == 1, "what is gone counts no longer, told or not"


def test_a_change_that_counts_nowhere_tells_nobody():
    ledger = PodLedger()
    ledger.replace(None, pod("a", node="n1"))
    assert ledger.replace(pod("a", node="n1"), pod("a", node="n1")) == set()


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
    ledger = PodLedger()
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
        touched = ledger.replace(old, new)
        assert uids(touched) <= {"u1", "u2"}
    ledger.publish(ledger.placed(), None)
    for uid in ("u1", "u2"):
        pods = [each for each in held.values() if each.claim and each.claim.uid == uid]
        waiting = [each.unschedulable for each in pods if each.unschedulable]
        assert ledger.counts(main(uid)) == PodCounts(
            scheduled=sum(bool(each.node) for each in pods),
            ready=sum(each.ready for each in pods),
            unschedulable=len(waiting),
            oldest_unschedulable=min(waiting, default=None),
            current=len(pods),
        )
