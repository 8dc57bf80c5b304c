"""What the ResourceQuotas of a member's namespace charge for one replica."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import msgspec

from controller.model.requests import limits_of, request_of
from machinery.types import hostports, podquotas
from machinery.types.api import QuotaLeft


class Charge(NamedTuple):
    """Replicas that are alike to quotas: their namespace on the member, and their pods."""

    namespace: str
    pod: bytes
    """As `controller.model.unit.WorkloadInfo.pod`; empty if quotas charge nothing."""

    @property
    def amounts(self) -> Mapping[str, int]:
        return charges(self.pod)


@lru_cache(maxsize=1024)
def charges(pod: bytes) -> Mapping[str, int]:
    """Return what one pod takes, by `requests.cpu`, `limits.memory`, `pods` and the like."""
    if not pod:
        return {}
    template = msgspec.json.decode(pod)
    spec, labels = template.get("spec") or {}, template["metadata"].get("labels") or {}
    asked = request_of(spec, labels, placeholder=True)
    found = {
        name if name == podquotas.PODS else podquotas.REQUESTS + name: n
        for name, n in asked.items()
        if not name.startswith(hostports.PREFIX)
    }
    # A pod without a limit is refused, or gets one there, which nobody here knows.
    with suppress(ValueError):  # the member refuses a limit that is none, and says why
        found |= {podquotas.LIMITS + name: n for name, n in limits_of(spec).items()}
    return found


def left_by(quotas: Iterable[QuotaLeft]) -> dict[str, dict[str, int]]:
    """Return by namespace the least that its quotas leave, by the names of `charges`."""
    found: dict[str, dict[str, int]] = {}
    for quota in quotas:
        there = found.setdefault(quota.namespace, {})
        for name, n in amounts_left(quota).items():
            charged = podquotas.charged(name)
            there[charged] = min(n, there.get(charged, n))
    return found


def leave_more(before: Iterable[QuotaLeft], after: Iterable[QuotaLeft]) -> bool:
    """Whether the quotas of a namespace leave more of something than before."""
    was, now = left_by(before), left_by(after)
    return any(
        now.get(namespace, {}).get(name, n + 1) > n
        for namespace, amounts in was.items()
        for name, n in amounts.items()
    )


def amounts_left(quota: QuotaLeft) -> dict[str, int]:
    """Return what it leaves, by its own names; what is no quantity leaves nothing."""
    found = {}
    for name, text in quota.free.items():
        if podquotas.bounds(name):
            try:
                found[name] = podquotas.amount(name, text)
            except ValueError:
                found[name] = 0
    return found
