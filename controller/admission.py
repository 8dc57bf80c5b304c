"""What admission would have done, on a hub where no admission policy does it.

With the policies of `crds` installed (the rule), the API server itself refuses a wrong Workload and
brings its labels into their one form, and nothing here costs anything. Without them the
controller does the same, later: it patches the labels, and what admission would have refused
becomes a condition with the same words. The author is unknown by then, so a foreign targetNamespace
is asked for in the name of the Workload's own namespace: the group of its service accounts stands
for the tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.access import allowed
from crds import names, validation
from machinery.objects import Key, Meta, Object
from machinery.resources import WORKLOADS
from machinery.transport import ApiClient
from machinery.verbs import MERGE_PATCH


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a Workload may not be placed.

    `lasting` until it is edited; otherwise rights may change it.
    """

    message: str
    lasting: bool


class Admission:
    """The checks of admission, made by the controller where the hub makes none.

    `installed` says whether the hub has the policies; it is asked each time, as they may come and
    go. `learn` is given the answer to each write made here.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        installed: Callable[[], bool],
        learn: Callable[[bytes], None],
    ) -> None:
        self._client = client
        self._installed = installed
        self._learn = learn
        self._passed: dict[Key, bytes] = {}

    def reviewed(self, meta: Meta) -> bool:
        """Whether admission, the hub's or ours, has let it pass as it is now."""
        return self._installed() or self._passed.get(meta.key) == _fingerprint(meta)

    async def review(self, meta: Meta) -> Objection | None:
        """Bring the labels into their one form; None unless something speaks against placing it.

        Reads the whole object (informers keep only parts), once for each version that passes.
        Another generation than the one asked about is left to its own review: nothing decided on
        this one can be written on top of it. Raises TransportError.
        """
        if self.reviewed(meta):
            return None
        path = WORKLOADS.path(meta.namespace, meta.name)
        whole = msgspec.json.decode(await self._client.request("GET", path))
        found = whole["metadata"]
        if (found["uid"], found["generation"]) != (meta.uid, meta.generation):
            return None
        patch = validation.normalised(whole)
        if patch:
            answer = await self._patch(path, patch, found["resourceVersion"])
            self._learn(answer)
            meta = msgspec.convert(msgspec.json.decode(answer)["metadata"], Meta)
        objection = await self._judge(whole)
        if objection is None:
            self._passed[meta.key] = _fingerprint(meta)
        return objection

    def workload_changed(self, old: Object | None, new: Object | None) -> None:
        """An informer's handler: what is gone needs not be remembered."""
        if new is None and old is not None:
            self._passed.pop(old.metadata.key, None)

    async def _patch(self, path: str, patch: Mapping[str, Any], version: str) -> bytes:
        """A merge patch on top of that version. Raises Conflict when it is another by now."""
        metadata = {**patch.get("metadata", {}), "resourceVersion": version}
        return await self._client.request(
            "PATCH", path, body={**patch, "metadata": metadata}, content_type=MERGE_PATCH
        )

    async def _judge(self, whole: Mapping[str, Any]) -> Objection | None:
        violations = validation.violations(whole)
        if violations:
            return Objection("; ".join(violations), lasting=True)
        own = whole["metadata"]["namespace"]
        for target, field in validation.foreign_namespaces(whole).items():
            if not await self._may_use(own, target):
                right = f"{names.VERB_USE} {names.TARGET_NAMESPACES}.{names.GROUP} {target}"
                return Objection(f"{field}: namespace {own} may not {right}", lasting=False)
        return None

    async def _may_use(self, namespace: str, target: str) -> bool:
        attributes = {
            "group": names.GROUP,
            "resource": names.TARGET_NAMESPACES,
            "name": target,
            "verb": names.VERB_USE,
        }
        groups = [f"system:serviceaccounts:{namespace}"]
        return await allowed(self._client, {"groups": groups, "resourceAttributes": attributes})


def _fingerprint(meta: Meta) -> bytes:
    """What a review was about: everything that admission reads, by version or in full."""
    marks = {k: v for k, v in meta.annotations.items() if k.startswith(names.NORMALISED_PREFIX)}
    about = (meta.uid, meta.generation, meta.labels, marks)
    return msgspec.json.encode(about, order="deterministic")
