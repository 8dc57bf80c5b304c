"""How many more replicas quotas let in, and which amount is exhausted. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.features.workloadquota.compiled import Amounts, CompiledQuota, rendered
from controller.features.workloadquota.usage import Used
from crds.workloadquota import RESERVATIONS


@dataclass(frozen=True, slots=True)
class Short:
    """The exhausted amount of a quota. `asks` is a replica's request for it.

    `unknown`: a foreign claim of unknown size lets nothing in. `patched`: a replica requests more
    on some cluster than its template.
    """

    quota: CompiledQuota
    name: str
    used: int
    hard: int
    asks: int
    unknown: bool = False
    patched: bool = False
    along: bool = False
    """`asks` includes the pods of the manifests."""

    def words(self, replicas: int = 1) -> str:
        """Return `WorkloadQuota team: requests.cpu 198 of 200 used, a replica asks for 4`."""
        used, hard = (rendered(self.name, n) for n in (self.used, self.hard))
        text = f"{self.quota.named}: {self.name} {used} of {hard} used"
        if self.patched:
            return (
                f"{text}, and the patch of a WorkloadSpread asks for more of it than the template, "
                "which is what counts: ask for the most in the template"
            )
        if self.name != RESERVATIONS:
            who = "a replica asks for" if replicas == 1 else f"{replicas} replicas ask for"
            who = "a replica, with the pods of its manifests, asks for" if self.along else who
            text = f"{text}, {who} {rendered(self.name, self.asks * replicas)}"
        if self.unknown:
            text += ", and another scheduler has claimed some for a Workload that is not seen yet"
        return text


@dataclass(frozen=True, slots=True)
class Spare:
    """None replicas mean any number. `short` is the tightest amount."""

    replicas: int | None
    short: Short | None = None


ANY = Spare(None)


def spare(quotas: Iterable[CompiledQuota], used: Used, each: Amounts) -> Spare:
    """Return how many replicas of `each` the quotas let in on top of `used`."""
    least, short = None, None
    for quota in quotas:
        for name, hard in sorted(quota.hard.items()):
            asks, there = each.get(name, 0), used.amounts.get(name, 0)
            if not asks:
                continue
            replicas = 0 if used.unknown else max(hard - there, 0) // asks
            if least is None or replicas < least:
                least, short = replicas, Short(quota, name, there, hard, asks, used.unknown)
    return Spare(least, short)


def one_more(quotas: Iterable[CompiledQuota], used: Used) -> Short | None:
    """Return the amount that keeps one more Reservation out, or None."""
    found = spare(quotas, used, {RESERVATIONS: 1})
    return found.short if found.replicas == 0 else None


def left(quotas: Iterable[CompiledQuota], used: Used) -> dict[str, int]:
    """Return what is left of each amount, the least over the quotas."""
    found: dict[str, int] = {}
    for quota in quotas:
        for name, hard in quota.hard.items():
            more = -1 if used.unknown else hard - used.amounts.get(name, 0)
            found[name] = min(found.get(name, more), more)
    return found
