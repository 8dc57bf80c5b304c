"""What is seen of a member: verdicts, health and providers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.membercluster import ReadyReason
from machinery.errors import (
    ApiError,
    KubeconfigError,
    StowageError,
    TLSVerificationFailed,
    Unreachable,
)
from propagator.members.capacity.kept import Node
from propagator.members.health import (
    CONNECTED,
    LATENCY_ANSWERS,
    HealthProbe,
    provider_of,
    settled,
    verdict_of,
)


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
