"""Reviews Workloads on a hub without the validating policy.

Every Workload, whatever its scheduler, is judged once per edit, and the propagator applies no edit
without a verdict in status.review.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from controller.admission import Admission
from controller.model.objects import Workload
from machinery import logs
from machinery.api.resources import WORKLOADS
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import NotFound
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types.metadata import Key
from machinery.types.workload_api import ReviewVerdict

LOG = logs.get(__name__)
RIGHTS_SECONDS = 30.0
"""Rights on the hub change without an event."""
REFUSAL_LIMIT = 4096
_WORKERS = 4


class Reviewer:
    """The reviews of one term. `needed` returns whether the hub lacks the policy."""

    def __init__(
        self,
        client: Verbs,
        *,
        workloads: Informer[Workload],
        admission: Admission,
        needed: Callable[[], bool],
        clock: Clock,
        check: Callable[[], float | None],
    ) -> None:
        self._client = client
        self._workloads = workloads
        self._admission = admission
        self._needed = needed
        self._check = check
        self._queue: WorkQueue[Key] = WorkQueue(name="reviews", clock=clock)

    async def run(self) -> None:
        self.add(self._workloads.values())
        await work(self._queue, self.review, workers=_WORKERS, log=LOG)

    def changed(self, old: Workload | None, new: Workload | None) -> None:
        """Queue what was edited or has no verdict yet."""
        if new is None:
            return
        edited = old is not None and old.metadata.generation != new.metadata.generation
        if edited or new.status.review.generation != new.metadata.generation:
            self.add([new])

    def add(self, workloads: Iterable[Workload]) -> None:
        if self._needed():
            for workload in workloads:
                self._queue.add(workload.metadata.key)

    async def review(self, key: Key) -> float | None:
        """Judge a Workload. Return the seconds to the next review or None."""
        workload = self._workloads.get(key)
        if workload is None or workload.metadata.deleting or not self._needed():
            return None
        meta, said = workload.metadata, workload.status.review
        if said.generation == meta.generation and not said.refusal:
            return None
        objection = await self._admission.review(meta)
        if objection is None and not self._admission.reviewed(meta):
            return None  # changed during the review, and queued again
        verdict = ReviewVerdict(
            meta.generation, objection.message[:REFUSAL_LIMIT] if objection else ""
        )
        if verdict != said:
            await self._write(workload, verdict)
        return RIGHTS_SECONDS if objection is not None and not objection.lasting else None

    async def _write(self, workload: Workload, verdict: ReviewVerdict) -> None:
        """Raises Conflict for another version, which is reviewed in turn."""
        review: dict[str, Any] = {
            "generation": verdict.generation,
            "refusal": verdict.refusal or None,
        }
        namespace, name = workload.metadata.key
        version = {"resourceVersion": workload.metadata.resource_version}
        patch = {"metadata": version, "status": {"review": review}}
        self._check()
        with suppress(NotFound):
            await self._client.merge_patch(
                WORKLOADS, name, patch, namespace=namespace, subresource="status"
            )
