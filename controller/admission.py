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
from machinery.objects import Key, Meta
from machinery.resources import WORKLOADS
from machinery.transport import ApiClient


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
    go.
    """

    def __init__(self, client: ApiClient, *, installed: Callable[[], bool]) -> None:
        self._client = client
        self._installed = installed
        self._passed: dict[Key, tuple[str, int]] = {}

    async def objection(self, meta: Meta) -> Objection | None:
        """None when the Workload may be placed, or another generation of it exists by now.

        Reads the whole object (informers keep only parts), once for each generation that passes.
        Raises TransportError.
        """
        if self._installed() or self._passed.get(meta.key) == (meta.uid, meta.generation):
            return None
        answer = await self._client.request("GET", WORKLOADS.path(meta.namespace, meta.name))
        whole = msgspec.json.decode(answer)
        found = whole["metadata"]
        if (found["uid"], found["generation"]) != (meta.uid, meta.generation):
            return None  # no harm: a write on top of the older version fails, and is judged anew
        patch = validation.normalised(whole)
        if patch:
            await self._client.merge_patch(
                WORKLOADS,
                meta.name,
                _on_top_of(patch, meta.resource_version),
                namespace=meta.namespace,
            )
        objection = await self._judge(whole)
        if objection is None:
            self._passed[meta.key] = (meta.uid, meta.generation)
        return objection

    def forget(self, key: Key) -> None:
        """The Workload is gone."""
        self._passed.pop(key, None)

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


def _on_top_of(patch: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The patch, valid for that version of the object only."""
    metadata = {**patch.get("metadata", {}), "resourceVersion": version}
    return {**patch, "metadata": metadata}
