"""A WorkloadQuota, ready to be held; and what a unit counts in its terms.

Amounts are integers by the names of `spec.hard`: thousandths for requests.cpu, whole units of the
rest. What is stored may be older than the rules of admission, or written past them, so everything
is looked at once more. A quota that makes no sense has a `fault`, and bounds nobody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from controller.features.workloadquota.objects import WorkloadQuota
from controller.model.unit import WorkloadInfo
from crds.names import API_VERSION, PLACEHOLDER_SCHEDULER, REQUESTS
from crds.workloadquota import HARD_NAME, MOST_HARD, RESERVATIONS, UNITS
from machinery.types import hostports, quantities
from machinery.types.bounds import MOST_AMOUNT, quoted
from machinery.types.metadata import Key

Amounts: TypeAlias = Mapping[str, int]
_PODS = "pods"


@dataclass(frozen=True, slots=True)
class CompiledQuota:
    """`key` has no name for the default one of the configuration."""

    key: Key
    uid: str
    created: str
    hard: Amounts
    fault: str = ""

    @property
    def named(self) -> str:
        """As messages name it."""
        return f"WorkloadQuota {self.key[1]}" if self.key[1] else "defaultQuota"

    @property
    def order(self) -> tuple[str, Key]:
        """The oldest goes first."""
        return self.created, self.key


def compile_quota(stored: WorkloadQuota) -> CompiledQuota:
    """The quota; `fault` says what is wrong with one that cannot be held, and where."""
    meta = stored.metadata
    hard, fault = _hard(stored.spec)
    return CompiledQuota(meta.key, meta.uid, meta.creation_timestamp, hard, fault)


def default_quota(namespace: str, hard: Mapping[str, Any]) -> CompiledQuota:
    """That of the configuration, which its own model has looked at."""
    return CompiledQuota((namespace, ""), "", "", _hard({"hard": hard})[0])


def _hard(spec: Any) -> tuple[dict[str, int], str]:
    given = spec.get("hard") if isinstance(spec, dict) else None
    if not isinstance(given, dict) or not given:
        return {}, "spec.hard: name at least one amount"
    if len(given) > MOST_HARD:
        return {}, f"spec.hard: {len(given)} amounts, {MOST_HARD} at most"
    found = {}
    for name, text in given.items():
        if not re.fullmatch(HARD_NAME, name):
            known = f"{UNITS}, {RESERVATIONS} or {REQUESTS}<resource>"
            return {}, f"spec.hard: {quoted(name)} is none of {known}"
        try:
            amount = quantities.amount(resource_of(name), text)
        except ValueError as e:
            return {}, f"spec.hard.{name}: {e}"
        if amount < 0:
            return {}, f"spec.hard.{name}: must not be negative"
        found[name] = amount
    return found, ""


def resource_of(name: str) -> str:
    """The resource that a name of `hard` counts; the name itself where it counts none."""
    return name.removeprefix(REQUESTS)


def rendered(name: str, amount: int) -> str:
    """The quantity, none beyond what one may be."""
    return quantities.render(resource_of(name), min(amount, MOST_AMOUNT))


def asked(request: Amounts) -> dict[str, int]:
    """What one pod of that request counts beside itself."""
    return {
        REQUESTS + resource: n
        for resource, n in request.items()
        if resource != _PODS and hostports.code(resource) is None
    }


def held(request: Amounts) -> dict[str, int]:
    """What room counts that is held for units: places for pods are units."""
    return {UNITS: request.get(_PODS, 0), **asked(request)}


def of_unit(unit: WorkloadInfo) -> dict[str, int]:
    """What one unit counts; nothing, where it keeps the room that its Reservation counts."""
    if unit.scheduler_name == PLACEHOLDER_SCHEDULER and unit.controller[:2] == (
        API_VERSION,
        "Reservation",
    ):
        return {}
    return {UNITS: 1, **asked(unit.request)}
