"""A status that is written, and the news of it: one PATCH, an Event, a line of the log.

Every write stands behind the check of the lease, carries the version that was read, and hands the
hub's answer to the informer, so that the next decision does not have to wait for the watch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from controller.binding.statuspatch import Kept, is_news, patch_of, short_patch
from controller.model.objects import Workload
from controller.model.placed import SchedulableLister
from controller.scheduling.decision import Decision
from crds.workload import EventReason, ScheduledReason
from machinery import logs, metrics
from machinery.api.client import ApiClient
from machinery.api.verbs import MERGE_PATCH
from machinery.clock import Clock, microtime
from machinery.errors import ApiError, Conflict, NotFound, ServerError, Unreachable
from machinery.runtime.event_recorder import EventRecorder
from machinery.types.metadata import Key

LOG = logs.get(__name__)
NOTED_CLUSTERS = 20
"""Shares that an Event names; the others are in the status."""

WRITE_SECONDS = metrics.histogram("stowage_decision_write_seconds", "Time of the status write")


class StatusUpdater:
    """Writes statuses of what is placed and tells people of them; `check` raises LeaseLost."""

    def __init__(
        self,
        client: ApiClient,
        *,
        workloads: SchedulableLister,
        recorder: EventRecorder,
        clock: Clock,
        check: Callable[[], None],
    ) -> None:
        self._client = client
        self._workloads = workloads
        self._recorder = recorder
        self._clock = clock
        self._check = check
        self._doubtful: dict[Key, str] = {}

    def patch(self, decision: Decision, workload: Workload) -> dict[str, Any] | None:
        """What is to be written of a decision, as of a Workload; None where nothing is."""
        key, anew = workload.metadata.key, self.doubtful(workload)
        return patch_of(decision, workload, anew=anew, kept=self._kept(key))

    def short_patch(self, decision: Decision, workload: Workload) -> dict[str, Any] | None:
        """No more than the verdict; see `controller.binding.statuspatch.short_patch`."""
        return short_patch(decision, workload, kept=self._kept(workload.metadata.key))

    def _kept(self, key: Key) -> Kept:
        return partial(self._workloads.status, key)

    def doubtful(self, workload: Workload) -> bool:
        """Whether a write of ours on this version may still land, as nobody said what became of it.

        Then the next write is made whatever it says: of two writes on one version the hub takes
        one. Until then what the first one takes stays taken.
        """
        return self._doubtful.get(workload.metadata.key) == workload.metadata.resource_version

    async def overtake(self, workload: Workload) -> None:
        """Write once more on that version, and nothing new: then no write before it can land.

        Returns once that is so, or a newer version is known. Raises LeaseLost, and TransportError
        while nobody can say.
        """
        if not self.doubtful(workload):
            return
        said, meta = workload.status.decision, workload.metadata
        status = {"decision": {"hash": said.hash, "time": microtime(self._clock.now())}}
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        with suppress(Conflict):
            await self.write(meta.key, patch)

    async def write(self, key: Key, patch: Mapping[str, Any]) -> bool:
        """One PATCH of the status; False for a Workload that is gone.

        Raises LeaseLost, and TransportError but for NotFound.

        On a conflict the object is read, so that the next attempt stands on what is there now and
        does not have to wait for a watch that is behind.
        """
        self._check()
        started = self._clock.monotonic()
        path, status = self._workloads.path(key), patch["status"]
        body = {**patch, "status": self._workloads.status(key, status)}
        written = False
        with suppress(NotFound):  # deleted meanwhile; the informer will say so
            try:
                answer = await self._client.request(
                    "PATCH", f"{path}/status", body=body, content_type=MERGE_PATCH
                )
            except (ApiError, Unreachable) as e:
                if not isinstance(e, ApiError) or isinstance(e, ServerError):
                    self._doubt(key, patch)
                if not isinstance(e, Conflict):
                    raise
                answer = await self._client.request("GET", path)
                self._workloads.upsert(key, answer)
                raise
            self._workloads.upsert(key, answer, status)
            written = True
        self._doubtful.pop(key, None)
        WRITE_SECONDS.observe(self._clock.monotonic() - started)
        return written

    def _doubt(self, key: Key, patch: Mapping[str, Any]) -> None:
        held = {each: self._workloads.get(each) for each in self._doubtful}
        self._doubtful = {each: self._doubtful[each] for each, w in held.items() if w is not None}
        self._doubtful[key] = patch["metadata"]["resourceVersion"]

    def tell(
        self,
        decision: Decision,
        patch: Mapping[str, Any],
        before: Workload,
        *,
        words: bool = True,
    ) -> None:
        """An Event and a line of the log, where people do not know yet.

        Without `words` another message alone is no news: the condition has it.
        """
        if not is_news(patch, before, words=words):
            return
        good, (namespace, name) = decision.scheduled, decision.unit.key
        waits = decision.reason is ScheduledReason.WAITING_ON_PERMIT
        reason = EventReason.SCHEDULED if good else EventReason.FAILED_SCHEDULING
        reason = EventReason.WAITING_ON_PERMIT if waits else reason
        note = f"assigned {_shares(decision) or 'no units'}" if good else decision.message
        LOG.info("%s: %s", reason.value, note, extra={"object": f"{namespace}/{name}"})
        self._recorder.event(
            self._workloads.reference(decision.unit.key, decision.unit.uid),
            type="Normal" if good or waits else "Warning",
            reason=reason.value,
            note=note,
            action="Scheduling",
        )
        for key in decision.incomplete:
            self._tell_incomplete(key, decision)

    def _tell_incomplete(self, key: Key, decision: Decision) -> None:
        """One that runs is told that another one, which it requires, does not."""
        running = self._workloads.get(key)
        if running is None:
            return
        self._recorder.event(
            self._workloads.reference(key, running.metadata.uid),
            type="Warning",
            reason=EventReason.INCOMPLETE_SET.value,
            note=f"runs without {'/'.join(decision.unit.key)}, which it requires and which has no "
            f"cluster: {decision.reason.value}",
            action="Scheduling",
        )


def _shares(decision: Decision) -> str:
    shares = [f"{cluster}={units}" for cluster, units in decision.placements.items()]
    more = len(shares) - NOTED_CLUSTERS
    return ", ".join(shares[:NOTED_CLUSTERS]) + (f" and {more} more" if more > 0 else "")
