"""The propagator's spans in the trace of a decision: `apply MEMBER`, and `ready`.

The trace is found by the Workload's UID and the id of the decision in its status
(`machinery.tracing`), so the controller passes nothing. An apply that sends the member nothing, as
after a restart, makes no span; a repair of what somebody changed there joins the trace of the
decision that stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from machinery import tracing
from machinery.clock import stopwatch
from machinery.tracing import TraceIds, TraceSpan, Value
from propagator.types.workload import Workload

SEND = "send"


@contextmanager
def applying(member: str, workload: Workload) -> Iterator[None]:
    """Measure what is done within as the apply of a share."""
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
    """Measure a request that writes an object."""
    return tracing.span(SEND, {"stowage.object": object_} if tracing.recorded() else None)


def exemplar(workload: Workload) -> dict[str, str] | None:
    """Return what a histogram keeps beside an observation of the Workload."""
    decision = workload.status.decision.id
    return tracing.exemplar(workload.uid, decision) if decision else None


def ready(workload: Workload, seconds: float) -> None:
    """Tell that a Workload became Ready now, after so many seconds.

    Units take their time, so the wait alone keeps no trace that is not kept anyway.
    """
    tracer, decision = tracing.tracer(), workload.status.decision.id
    ids = TraceIds.of(workload.uid, decision)
    if tracer is None or not decision or not tracer.samples(ids):
        return
    now = stopwatch()
    tracer.join(ids, TraceSpan("ready", now - seconds, now, attributes=_about(workload)))


def _about(workload: Workload) -> dict[str, Value]:
    return {"stowage.workload": workload.owner, "stowage.decision": workload.status.decision.id}
