"""Makes a trace of each written decision from what one `schedule_one` recorded.

A trace runs from the key being ready to the last PostBind. Permit plugins cause two traces, for the
wait and for the write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from controller.binding.statuspatch import decision_id
from controller.model.objects import Workload
from controller.model.placed import SchedulableLister
from controller.queue.scheduling_queue import SchedulingQueue
from crds.workload import ScheduledReason, WorkloadCondition
from machinery import tracing
from machinery.clock import stopwatch
from machinery.tracing import TraceIds, Tracer, TraceSpan, Value
from machinery.types import conditions
from machinery.types.metadata import Key

WORKLOAD, UID, DECISION = "stowage.workload", "stowage.uid", "stowage.decision"
RESULT, TRIGGER, ATTEMPT = "stowage.result", "stowage.trigger", "stowage.attempt"
SET = "stowage.set"
"""The trace of the set that the Workload was decided in."""
FAILURES = frozenset({ScheduledReason.PLUGIN_ERROR.value, ScheduledReason.SCHEDULE_TIMEOUT.value})
WRITE = "write"


def exemplar(workload: Workload) -> dict[str, str] | None:
    """Return the decision's exemplar; None without a tracer."""
    if tracing.tracer() is None:
        return None
    return tracing.exemplar(workload.metadata.uid, decision_id(workload))


def writing(workload: Workload, patch: Mapping[str, Any], decision: str) -> tracing.span:
    return tracing.span(WRITE, _told(workload, patch, decision) if tracing.recorded() else None)


def _told(workload: Workload, patch: Mapping[str, Any], decision: str) -> dict[str, Value]:
    meta, status = workload.metadata, patch["status"]
    told: dict[str, Value] = {WORKLOAD: "/".join(meta.key), UID: meta.uid, DECISION: decision}
    scheduled = conditions.among(status.get("conditions"), WorkloadCondition.SCHEDULED.value)
    if scheduled:
        told[RESULT] = scheduled["reason"]
    if status.get("history"):
        told[TRIGGER] = status["history"][-1]["cause"]
    return told


class DecisionTraces:
    def __init__(
        self,
        schedule_one: Callable[[Key], Awaitable[float | None]],
        *,
        queue: SchedulingQueue,
        workloads: SchedulableLister,
        tracer: Tracer,
    ) -> None:
        self._schedule_one = schedule_one
        self._queue = queue
        self._workloads = workloads
        self._tracer = tracer

    async def schedule_one(self, key: Key) -> float | None:
        """Call the scheduler's `schedule_one`. Raises what it raises."""
        attempt, now = self._queue.attempt(key), stopwatch()
        began = now - self._queue.active.waited(key)
        whole = TraceSpan("place", began, children=[TraceSpan("queue", began, now)])
        try:
            with tracing.recording(whole):
                return await self._schedule_one(key)
        finally:
            self._finish(key, whole, attempt)

    def _finish(self, key: Key, whole: TraceSpan, attempt: int) -> None:
        whole.attributes = {WORKLOAD: "/".join(key), ATTEMPT: attempt}
        writes = [each for each in whole.children if each.name == WRITE]
        if not writes:
            self._finish_unwritten(key, whole)
            return
        own = [each for each in writes if each.attributes[WORKLOAD] == "/".join(key)]
        last = (own or writes)[-1]  # an earlier one only settled whether a previous write landed
        lead, before = _ids(last), whole.attributes
        whole.children = [each for each in whole.children if each is last or each.name != WRITE]
        for write in writes:
            place = whole if write is last else _one_of_set(whole.began, write, lead)
            # The attributes of the write apply to the whole trace.
            place.attributes = {**before, **place.attributes, **write.attributes}
            place.error = place.error or write.error or _failure(write)
            ids, write.attributes = _ids(write), {}
            self._tracer.finish(ids, place)

    def _finish_unwritten(self, key: Key, whole: TraceSpan) -> None:
        workload = self._workloads.get(key)
        if whole.error and workload is not None:
            ids = TraceIds.of(workload.metadata.uid, decision_id(workload))
            self._tracer.finish(ids, whole)


def _ids(write: TraceSpan) -> TraceIds:
    return TraceIds.of(str(write.attributes[UID]), str(write.attributes[DECISION]))


def _failure(write: TraceSpan) -> str:
    result = str(write.attributes.get(RESULT, ""))
    return result if result in FAILURES else ""


def _one_of_set(began: float, write: TraceSpan, lead: TraceIds) -> TraceSpan:
    before = TraceSpan("set", began, write.began)
    told: dict[str, Value] = {SET: f"{lead.trace:032x}"}
    return TraceSpan("place", began, write.ended, attributes=told, children=[before, write])
