"""Writes a status and announces it: one PATCH, an Event, a log line.

Every write follows a check of the Lease and carries the version that was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from controller.binding import moving
from controller.binding.decision_traces import exemplar, writing
from controller.binding.statuspatch import Kept, decision_id, is_news, patch_of, short_patch
from controller.framework.statuswriter import for_good
from controller.model.objects import Workload
from controller.model.placed import SchedulableLister
from controller.scheduling.decision import Decision
from crds.workload import EventReason, ScheduledReason
from machinery import logs, metrics, tracing
from machinery.api.verbs import MERGE_PATCH, Verbs
from machinery.clock import Clock, microtime
from machinery.errors import (
    NOTHING_SENT,
    ApiError,
    Conflict,
    NotFound,
    ServerError,
    TransportError,
    Unreachable,
)
from machinery.runtime.event_recorder import EventRecorder, one_cluster
from machinery.types.metadata import Key

LOG = logs.get(__name__)
NOTED_CLUSTERS = 20

WRITE_SECONDS = metrics.histogram("stowage_decision_write_seconds", "Time of the status write")


class StatusUpdater:
    """Writes statuses and Events. `check` raises LeaseLost."""

    def __init__(
        self,
        client: Verbs,
        *,
        workloads: SchedulableLister,
        recorder: EventRecorder,
        clock: Clock,
        check: Callable[[], float | None],
    ) -> None:
        self._client = client
        self._workloads = workloads
        self._recorder = recorder
        self._clock = clock
        self._check = check
        # Versions on which a write may still land, because no answer came.
        self._unconfirmed: dict[Key, str] = {}

    async def update(self, decision: Decision) -> None:
        """Write a decision on the newest version, if it changes anything.

        Raises LeaseLost and TransportError.
        """
        workload = self._workloads.get(decision.workload.key)
        if workload is None or workload.info.version != decision.workload.version:
            return  # edited during the pass: the edit requeues it
        patch = self.patch(decision, workload)
        if patch is not None:
            await self.write(workload, patch)
            self.record(decision, patch, workload)

    async def update_verdict(self, decision: Decision, workload: Workload) -> None:
        """Write the verdict alone, after the hub refused the full status.

        Raises LeaseLost and TransportError.
        """
        key = workload.metadata.key
        patch = short_patch(decision, workload, kept=self._kept(key))
        if patch is None:
            return
        try:
            await self.write(workload, patch)
        except TransportError as e:
            if not for_good(e):
                raise
            about = {"object": "/".join(key)}
            LOG.warning("nor does it take a shorter one: %s", e, extra=about)
        self.record(decision, patch, workload)

    def patch(self, decision: Decision, workload: Workload) -> dict[str, Any] | None:
        # After an unconfirmed write, always write. The hub takes one write per version, so this one
        # settles whether the other landed.
        always = self.unconfirmed(workload)
        kept = self._kept(workload.metadata.key)
        with tracing.span("patch"):
            return patch_of(decision, workload, always=always, kept=kept)

    def _kept(self, key: Key) -> Kept:
        return partial(self._workloads.status, key)

    def unconfirmed(self, workload: Workload) -> bool:
        return self._unconfirmed.get(workload.metadata.key) == workload.metadata.resource_version

    async def overtake(self, workload: Workload) -> None:
        """Rewrite that version unchanged.

        No-op without an unconfirmed write, or if a newer version is known. Raises LeaseLost, and
        TransportError while the hub does not answer.
        """
        if not self.unconfirmed(workload):
            return
        stored, meta = workload.status.decision, workload.metadata
        status = {"decision": {"hash": stored.hash, "time": microtime(self._clock.now())}}
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        with suppress(Conflict):
            await self.write(workload, patch)

    async def write(self, workload: Workload, patch: Mapping[str, Any]) -> bool:
        """PATCH the status of that version once; False if the Workload is gone.

        Raises LeaseLost, and TransportError except NotFound.
        """
        self._check()
        started, decision = self._clock.monotonic(), decision_id(workload)
        with writing(workload, patch, decision):
            written = await self._send(workload.metadata.key, patch, decision)
        WRITE_SECONDS.observe(self._clock.monotonic() - started, exemplar(workload))
        return written

    async def _send(self, key: Key, patch: Mapping[str, Any], decision: str) -> bool:
        path, status = self._workloads.path(key), patch["status"]
        body = {**patch, "status": self._workloads.status(key, status)}
        written = False
        with suppress(NotFound):  # deleted; the informer will report it
            try:
                answer = await self._client.request(
                    "PATCH",
                    f"{path}/status",
                    body=body,
                    content_type=MERGE_PATCH,
                    agent=f"decision/{decision}",
                )
            except (ApiError, Unreachable) as e:
                refused = isinstance(e, ApiError) and not isinstance(e, ServerError)
                if not (refused or isinstance(e, NOTHING_SENT)):
                    self._add_unconfirmed(key, patch)
                if not isinstance(e, Conflict):
                    raise
                # The next attempt needs the version that won, and the watch may be behind.
                answer = await self._client.request("GET", path)
                self._workloads.upsert(key, answer)
                raise
            self._workloads.upsert(key, answer, patch)
            written = True
        self._unconfirmed.pop(key, None)
        return written

    def _add_unconfirmed(self, key: Key, patch: Mapping[str, Any]) -> None:
        # Entries of deleted Workloads must not accumulate.
        gone = [each for each in self._unconfirmed if self._workloads.get(each) is None]
        for each in gone:
            del self._unconfirmed[each]
        self._unconfirmed[key] = patch["metadata"]["resourceVersion"]

    def record(
        self,
        decision: Decision,
        patch: Mapping[str, Any],
        before: Workload,
        *,
        message: bool = True,
    ) -> None:
        """Without `message`, a changed message alone is not recorded."""
        with tracing.span("record"):
            self._record_moves(decision, patch, before)
            self._record_decision(decision, patch, before, message=message)

    def _record_decision(
        self, decision: Decision, patch: Mapping[str, Any], before: Workload, *, message: bool
    ) -> None:
        if not is_news(patch, before, message=message):
            return
        good, (namespace, name) = decision.scheduled, decision.workload.key
        waits = decision.reason is ScheduledReason.WAITING_ON_PERMIT
        reason = EventReason.SCHEDULED if good else EventReason.FAILED_SCHEDULING
        reason = EventReason.WAITING_ON_PERMIT if waits else reason
        note = f"assigned {_shares(decision) or 'no replicas'}" if good else decision.message
        LOG.info("%s: %s", reason.value, note, extra={"object": f"{namespace}/{name}"})
        self._recorder.event(
            self._workloads.reference(decision.workload.key, decision.workload.uid),
            type="Normal" if good or waits else "Warning",
            reason=reason.value,
            note=note,
            action="Scheduling",
            related=one_cluster(decision.placements) if good else None,
        )
        for key in decision.incomplete:
            self._record_incomplete(key, decision)

    def _record_moves(self, decision: Decision, patch: Mapping[str, Any], before: Workload) -> None:
        key = decision.workload.key
        moving.count(patch["status"], before)
        left = moving.left_by(patch["status"], before)
        for event in moving.events_of(patch["status"], before):
            LOG.info("%s: %s", event.reason.value, event.note, extra={"object": "/".join(key)})
            self._recorder.event(
                self._workloads.reference(key, decision.workload.uid),
                type="Warning" if event.warning else "Normal",
                reason=event.reason.value,
                note=event.note,
                action="Moving",
                related=one_cluster(left),
            )

    def _record_incomplete(self, key: Key, decision: Decision) -> None:
        running = self._workloads.get(key)
        if running is None:
            return
        self._recorder.event(
            self._workloads.reference(key, running.metadata.uid),
            type="Warning",
            reason=EventReason.INCOMPLETE_SET.value,
            note=f"runs without {'/'.join(decision.workload.key)}, which it requires and which has "
            f"no cluster: {decision.reason.value}",
            action="Scheduling",
        )


def _shares(decision: Decision) -> str:
    shares = [f"{cluster}={replicas}" for cluster, replicas in decision.placements.items()]
    more = len(shares) - NOTED_CLUSTERS
    return ", ".join(shares[:NOTED_CLUSTERS]) + (f" and {more} more" if more > 0 else "")
