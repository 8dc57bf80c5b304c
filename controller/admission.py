"""Admission checks for hubs without the admission policies of `crds`.

Without the mutating policy (before Kubernetes 1.36) the controller patches labels and finalizer.
The author is unknown here, so a foreign targetNamespace and guarded kinds are checked against the
rights of the namespace's service accounts.

`Reviewer` judges every Workload, whatever its scheduler, once per edit. The propagator applies no
edit without a verdict in status.review.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.model.objects import Workload
from controller.model.placed import is_workload
from crds import names
from crds.admission import validation
from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS
from machinery.api.verbs import MERGE_PATCH, Verbs
from machinery.clock import Clock
from machinery.discovery.access_reviews import namespace_may_use
from machinery.errors import Forbidden, NotFound
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types.metadata import Key, Meta, Object
from machinery.types.workload_api import ReviewVerdict

UNCOMPLETED = (
    "its labels and defaults are not filled in: the hub's mutating policy is not in force, and the "
    "controller may not write Workloads; run `stowage install`: {}"
)


@dataclass(frozen=True, slots=True)
class Objection:
    """If `lasting`, only an edit helps; otherwise a change of rights may."""

    message: str
    lasting: bool


class Admission:
    """`normalises` returns whether the hub has the mutating policy, `refuses` the validating one.

    `learn` gets the answer to each write.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        normalises: Callable[[], bool],
        refuses: Callable[[], bool],
        learn: Callable[[bytes], None],
    ) -> None:
        self._client = client
        self._normalises = normalises
        self._refuses = refuses
        self._learn = learn
        self._passed: dict[Key, bytes] = {}
        self._objections: dict[Key, tuple[bytes, str]] = {}

    def objection(self, meta: Meta) -> str:
        about, message = self._objections.get(meta.key, (b"", ""))
        return message if message and about == _fingerprint(meta) else ""

    def reviewed(self, meta: Meta) -> bool:
        """Whether admission has passed this version, on the hub or here."""
        by_the_hub = self._normalises() and self._refuses()
        if by_the_hub or not is_workload(meta.key):
            return True
        return self._passed.get(meta.key) == _fingerprint(meta)

    async def review(self, meta: Meta) -> Objection | None:
        """Normalise the Workload's labels. Return an objection to placing it, or None.

        Raises TransportError.
        """
        if self.reviewed(meta):
            return None
        path = WORKLOADS.path(meta.namespace, meta.name)
        whole = msgspec.json.decode(await self._client.request("GET", path))
        found = whole["metadata"]
        # Another generation gets its own review. No decision on this one can overwrite it.
        if (found["uid"], found["generation"]) != (meta.uid, meta.generation):
            return None
        patch = {} if self._normalises() else validation.admitted(whole)
        if patch:
            try:
                answer = await self._patch(path, patch, found["resourceVersion"])
            except Forbidden as e:  # the right is granted only for hubs without the mutating policy
                return Objection(UNCOMPLETED.format(e), lasting=False)
            self._learn(answer)
            meta = msgspec.convert(msgspec.json.decode(answer)["metadata"], Meta)
        # An admitted Workload is not judged again: the author's rights are unknown here.
        objection = None if self._refuses() else await self._judge(whole)
        self._objections.pop(meta.key, None)
        if objection is None:
            self._passed[meta.key] = _fingerprint(meta)
        else:
            self._objections[meta.key] = (_fingerprint(meta), objection.message)
        return objection

    def workload_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._passed.pop(old.metadata.key, None)
            self._objections.pop(old.metadata.key, None)

    async def _patch(self, path: str, patch: Mapping[str, Any], version: str) -> bytes:
        """Raises Conflict if another version is stored."""
        metadata = {**patch.get("metadata", {}), "resourceVersion": version}
        return await self._client.request(
            "PATCH", path, body={**patch, "metadata": metadata}, content_type=MERGE_PATCH
        )

    async def _judge(self, whole: Mapping[str, Any]) -> Objection | None:
        violations = validation.violations(whole)
        if violations:
            return Objection("; ".join(violations), lasting=True)
        own = whole["metadata"]["namespace"]
        for right in validation.rights_needed(whole):
            if not await namespace_may_use(
                self._client, own, right.resource, right.name, verb=right.verb, group=right.group
            ):
                said = f"{right.field}: namespace {own} may not {right}"
                return Objection(said, lasting=False)
        return None


def _fingerprint(meta: Meta) -> bytes:
    marks = {k: v for k, v in meta.annotations.items() if k.startswith(names.NORMALISED_PREFIX)}
    about = (meta.uid, meta.generation, meta.labels, marks)
    return msgspec.json.encode(about, order="deterministic")


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
