"""The review of Workloads on a hub that refuses none itself, for the propagator to act on.

Where the validating policy is in force the reviewer does nothing. Elsewhere every Workload, with
whatever scheduler name, is judged as admission would have judged it, once for each edit, and the
verdict is written to status.review: the propagator pushes no edit without a verdict, and none that
was refused. A verdict names its generation, and is written on top of the version that was judged: a
Workload deleted and created again under the same name begins at the same generation.
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
from machinery.types.api import ReviewVerdict
from machinery.types.metadata import Key

LOG = logs.get(__name__)
RIGHTS_SECONDS = 30.0
"""Rights on the hub change without an event."""
REFUSAL_LIMIT = 4096
_WORKERS = 4


class Reviewer:
    """The reviews of one term of leadership. `needed` says whether the hub judges none itself."""

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
        """ReviewVerdict, beginning with every Workload, until cancelled."""
        self.add(self._workloads.values())
        await work(self._queue, self.review, workers=_WORKERS, log=LOG)

    def changed(self, old: Workload | None, new: Workload | None) -> None:
        """Handle an informer's change: queue what was edited or has no verdict yet."""
        if new is None:
            return
        edited = old is not None and old.metadata.generation != new.metadata.generation
        if edited or new.status.review.generation != new.metadata.generation:
            self.add([new])

    def add(self, workloads: Iterable[Workload]) -> None:
        """Queue these Workloads for review, where the hub judges none itself."""
        if self._needed():
            for workload in workloads:
                self._queue.add(workload.metadata.key)

    async def review(self, key: Key) -> float | None:
        """Judge a Workload and write the verdict; return the seconds to the next review or None."""
        workload = self._workloads.get(key)
        if workload is None or workload.metadata.deleting or not self._needed():
            return None
        meta, said = workload.metadata, workload.status.review
        if said.generation == meta.generation and not said.refusal:
            return None
        objection = await self._admission.review(meta)
        if objection is None and not self._admission.reviewed(meta):
            return None  # changed meanwhile, by us or by others, and queued again
        verdict = ReviewVerdict(
            meta.generation, objection.message[:REFUSAL_LIMIT] if objection else ""
        )
        if verdict != said:
            await self._write(workload, verdict)
        return RIGHTS_SECONDS if objection is not None and not objection.lasting else None

    async def _write(self, workload: Workload, verdict: ReviewVerdict) -> None:
        """Raises Conflict where another version is stored: then that one comes again."""
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
