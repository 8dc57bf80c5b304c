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
from machinery.resources import STOWAGE_GROUP, WORKLOADS
from machinery.transport import ApiClient

USE = "use"
TARGET_NAMESPACES = "targetnamespaces"


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a Workload may not be placed.

    `lasting` until it is edited; otherwise rights may change it.
    """

    message: str
    lasting: bool


def normalised(labels: Mapping[str, str]) -> dict[str, str] | None:
    """The labels that are missing for older names of ours to be read, or None when all is well.

    Two names that disagree are left as they are: which one was meant is the author's to say.
    """
    missing = {
        label: values.pop()
        for label, aliases in (
            (names.LABEL_POLICY, names.POLICY_ALIASES),
            (names.LABEL_GROUP, names.GROUP_ALIASES),
        )
        if label not in labels
        and len(values := {labels[alias] for alias in aliases if alias in labels}) == 1
    }
    return missing or None


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
        target = whole.get("spec", {}).get("targetNamespace") or own
        if target == own or await self._may_use(own, target):
            return None
        return Objection(
            f"spec.targetNamespace: namespace {own} may not {USE} {TARGET_NAMESPACES}.{STOWAGE_GROUP}"
            f" {target}",
            lasting=False,
        )

    async def _may_use(self, namespace: str, target: str) -> bool:
        attributes = {
            "group": STOWAGE_GROUP,
            "resource": TARGET_NAMESPACES,
            "name": target,
            "verb": USE,
        }
        groups = [f"system:serviceaccounts:{namespace}"]
        return await allowed(self._client, {"groups": groups, "resourceAttributes": attributes})
