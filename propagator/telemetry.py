"""The propagator's spans in the trace of a decision, and gauges of its members.

An apply that sends nothing makes no span. Series of a member exist while this instance has a
session with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from crds.assignment import AssignmentState
from crds.membercluster import ReadyReason
from machinery import metrics, tracing
from machinery.clock import Clock, stopwatch
from machinery.tracing import TraceIds, TraceSpan, Value
from propagator.credentials.tokens import Life
from propagator.members.pulled import PullSession
from propagator.members.session import MemberSession
from propagator.types.workload import Workload

SEND = "send"


@contextmanager
def applying(member: str, workload: Workload) -> Iterator[None]:
    tracer, decision = tracing.tracer(), workload.status.decision.id
    if tracer is None or not decision:
        yield
        return
    told = {**_about(workload), "stowage.member": member}
    whole = TraceSpan(f"apply {member}", stopwatch(), attributes=told)
    try:
        with tracing.recording(whole):
            yield
    finally:
        if whole.error or any(each.name == SEND for each in whole.children):
            tracer.join(TraceIds.of(workload.uid, decision), whole)


def sending(object_: str) -> tracing.span:
    return tracing.span(SEND, {"stowage.object": object_} if tracing.recorded() else None)


def exemplar(workload: Workload) -> dict[str, str] | None:
    decision = workload.status.decision.id
    return tracing.exemplar(workload.uid, decision) if decision else None


def ready(workload: Workload, seconds: float) -> None:
    """The wait alone does not make a trace kept: starting units takes time."""
    tracer, decision = tracing.tracer(), workload.status.decision.id
    ids = TraceIds.of(workload.uid, decision)
    if tracer is None or not decision or not tracer.samples(ids):
        return
    now = stopwatch()
    tracer.join(ids, TraceSpan("ready", now - seconds, now, attributes=_about(workload)))


def _about(workload: Workload) -> dict[str, Value]:
    return {"stowage.workload": workload.owner, "stowage.decision": workload.status.decision.id}


_CREDENTIAL = ("member_cluster", "renewed")

LAST_SEEN = metrics.GaugeFunc(
    "stowage_member_last_seen_timestamp_seconds",
    "When the member answered a probe last, in Unix time; 0: not since this process connects to it",
    ("member_cluster",),
)
EXPIRY = metrics.GaugeFunc(
    "stowage_certificate_expiry_seconds",
    "Seconds until the token or client certificate for a member ends, by whether it is renewed",
    _CREDENTIAL,
)
LIFETIME = metrics.GaugeFunc(
    "stowage_certificate_lifetime_seconds",
    "Seconds from the beginning to the end of the token or client certificate for a member",
    _CREDENTIAL,
)
AGENT_SILENT = metrics.GaugeFunc(
    "stowage_agent_silent_seconds",
    "Seconds since the agent of a member in mode Pull was last seen to renew its Lease",
    ("member_cluster",),
)
ASSIGNMENTS = metrics.GaugeFunc(
    "stowage_assignments",
    "Shares of members in mode Pull, by the state that their agents tell",
    ("state",),
    zero=[(each.value,) for each in AssignmentState],
)


def begin(sessions: Callable[[], Iterable[MemberSession]], *, clock: Clock) -> None:
    LAST_SEEN.set_function(lambda: _last_seen(sessions(), clock))
    EXPIRY.set_function(lambda: _expiry(sessions(), clock))
    LIFETIME.set_function(lambda: _lifetime(sessions()))
    AGENT_SILENT.set_function(lambda: _silent(sessions()))
    ASSIGNMENTS.set_function(lambda: _assignments(sessions()))


def _last_seen(sessions: Iterable[MemberSession], clock: Clock) -> metrics.Samples:
    # Times before the epoch become 0, also that of a member without an answer.
    began = clock.now().timestamp() - clock.monotonic()
    return {(each.name,): max(began + each.answered, 0.0) for each in sessions}


def _silent(sessions: Iterable[MemberSession]) -> metrics.Samples:
    """Of members that have an agent, or should."""
    return {
        (each.name,): each.silent_seconds
        for each in sessions
        if isinstance(each, PullSession) and not _revoked(each)
    }


def _revoked(session: PullSession) -> bool:
    return session.verdict is not None and session.verdict.reason is ReadyReason.AGENT_REVOKED


def _assignments(sessions: Iterable[MemberSession]) -> metrics.Samples:
    found = Counter[tuple[str, ...]]()
    for session in sessions:
        if isinstance(session, PullSession):
            states = (each.status.state for each in session.assignments.values())
            found.update((state or AssignmentState.PENDING.value,) for state in states)
    return {labels: float(number) for labels, number in found.items()}


def _expiry(sessions: Iterable[MemberSession], clock: Clock) -> metrics.Samples:
    now = clock.now()
    return {labels: (life.expires - now).total_seconds() for labels, life in _lives(sessions)}


def _lifetime(sessions: Iterable[MemberSession]) -> metrics.Samples:
    return {
        labels: (life.expires - life.issued).total_seconds() for labels, life in _lives(sessions)
    }


def _lives(sessions: Iterable[MemberSession]) -> Iterator[tuple[tuple[str, str], Life]]:
    for each in sessions:
        credentials = each.credentials
        if credentials is not None and credentials.life is not None:
            renewed = credentials.account is not None and bool(credentials.connection.token)
            yield (each.name, str(renewed).lower()), credentials.life
