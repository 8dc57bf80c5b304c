"""How many more replicas a namespace's quotas let in, and which amount they lack. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.features.workloadquota.compiled import Amounts, CompiledQuota, rendered
from controller.features.workloadquota.usage import Used
from crds.workloadquota import RESERVATIONS


@dataclass(frozen=True, slots=True)
class Short:
    """The amount of a quota that is used up; `asks` is the request of a replica for it.

    `unknown` says that another scheduler has a claim of unknown size, so that nothing is let in.
    `patched` says that a replica asks for more on some cluster than its template does.
    """

    quota: CompiledQuota
    name: str
    used: int
    hard: int
    asks: int
    unknown: bool = False
    patched: bool = False
    along: bool = False
    """What it asks for is a replica with the pods of its manifests."""

    def words(self, replicas: int = 1) -> str:
        """Return `WorkloadQuota team: requests.cpu 198 of 200 used, a unit asks for 4`."""
        used, hard = (rendered(self.name, n) for n in (self.used, self.hard))
        text = f"{self.quota.named}: {self.name} {used} of {hard} used"
        if self.patched:
            return (
                f"{text}, and the patch of a WorkloadSpread asks for more of it than the template, "
                "which is what counts: ask for the most in the template"
            )
        if self.name != RESERVATIONS:
            who = "a unit asks for" if replicas == 1 else f"{replicas} units ask for"
            who = "a unit, with the pods of its manifests, asks for" if self.along else who
            text = f"{text}, {who} {rendered(self.name, self.asks * replicas)}"
        if self.unknown:
            text += ", and another scheduler has claimed some for a Workload that is not seen yet"
        return text


@dataclass(frozen=True, slots=True)
class Spare:
    """The replicas that the quotas let in; None for any number. `short` is the tightest amount."""

    replicas: int | None
    short: Short | None = None


ANY = Spare(None)


def spare(quotas: Iterable[CompiledQuota], used: Used, each: Amounts) -> Spare:
    """Return how many replicas of the amounts `each` the quotas let in beside the used amounts."""
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
    """Return the amount that keeps one more Reservation out; None where none does."""
    found = spare(quotas, used, {RESERVATIONS: 1})
    return found.short if found.replicas == 0 else None


def left(quotas: Iterable[CompiledQuota], used: Used) -> dict[str, int]:
    """Return what is left of each amount, by the quota that leaves the least of it."""
    found: dict[str, int] = {}
    for quota in quotas:
        for name, hard in quota.hard.items():
            more = -1 if used.unknown else hard - used.amounts.get(name, 0)
            found[name] = min(found.get(name, more), more)
    return found
