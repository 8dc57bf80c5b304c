"""The propagator's spans in the trace of a decision: `apply MEMBER`, and `ready`.

The Workload's UID and the decision's id identify the trace (`machinery.tracing`). An apply that
sends nothing makes no span; a repair of drift joins the trace of the present decision.
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
