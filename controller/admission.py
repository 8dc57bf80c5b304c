"""Admission checks for hubs without the admission policies of `crds`.

Without the mutating policy (before Kubernetes 1.36) the controller patches labels and finalizer.
The author is unknown here, so a foreign targetNamespace and guarded kinds are checked against the
rights of the namespace's service accounts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.model.placed import is_workload
from crds import names
from crds.admission import validation
from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS
from machinery.api.verbs import MERGE_PATCH
from machinery.discovery.access_reviews import namespace_may_use
from machinery.errors import Forbidden
from machinery.types.metadata import Key, Meta, Object

UNCOMPLETED = (
    "its labels and defaults are not filled in: the hub's mutating policy is not in force, and the "
    "controller may not write Workloads; run `stowage install`: {}"
)


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a Workload may not be placed.

    If `lasting`, only an edit helps; otherwise a change of rights may.
    """

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
        """Return the last review's objection to this version, or empty."""
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
