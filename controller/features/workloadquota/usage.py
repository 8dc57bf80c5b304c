"""The ledger of WorkloadQuotas: what each namespace takes over all clusters, whoever placed it.

A sum for each namespace, kept share by share, so a decision reads one small table whatever the
number of Workloads behind it. Workloads count with what their template asks for; Reservations with
the room that nobody inside has taken, as the Workloads inside count themselves. Beside them stands
what schedulers in other processes have claimed (`haunt`); as long as the Workload of such a claim
is not known here, nobody knows how much it takes, and nothing is let in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from controller.cache.ledger import PlacementsByWorkload
from controller.features.reservation.ledger import ReservationLedger
from controller.features.workloadquota.compiled import Amounts, CompiledQuota, held, of_unit
from controller.model.unit import WorkloadInfo
from crds.workloadquota import RESERVATIONS
from machinery.types.metadata import Key

Units: TypeAlias = Mapping[str, int]
Told: TypeAlias = Callable[[str, bool], None]
"""Called with a namespace that takes another amount now, and whether that may be less."""


@dataclass(frozen=True, slots=True)
class _QuotaCount:
    """What one unit counts, and how many have a cluster; of a Reservation, whether any has."""

    each: Amounts
    units: int
    booked: bool
    inside: bool

    @staticmethod
    def of(unit: WorkloadInfo, placements: Units) -> _QuotaCount:
        units = sum(placements.values())
        each = held(unit.request) if unit.booked else of_unit(unit)
        return _QuotaCount(each, units, unit.booked, bool(unit.reservations))

    def total(self) -> dict[str, int]:
        """What it adds to the sum of its namespace; the ledger of Reservations has their room."""
        if self.booked:
            return {RESERVATIONS: 1} if self.units else {}
        return {name: n * self.units for name, n in self.each.items()}

    def falls(self, after: _QuotaCount) -> bool:
        """Whether it may count for less than before."""
        return self.units > after.units or any(
            n > after.each.get(r, 0) for r, n in self.each.items()
        )


@dataclass(frozen=True, slots=True)
class Used:
    """What a namespace takes; `unknown` where a claim is of a Workload that is not known yet."""

    amounts: Amounts
    unknown: bool = False


@dataclass(slots=True)
class _Namespace:
    quotas: dict[Key, CompiledQuota] = field(default_factory=dict)
    counted: dict[Key, _QuotaCount] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)
    ghosts: dict[Key, Mapping[Key, Units]] = field(default_factory=dict)

    def add(self, amounts: Amounts, sign: int) -> None:
        for name, n in amounts.items():
            self.total[name] = self.total.get(name, 0) + sign * n


_NOTHING = _Namespace()


class Usage:
    """Every quota, and what counts against it; `told` hears of what has changed."""

    def __init__(self, told: Told = lambda _namespace, _eased: None) -> None:
        self._told = told
        self.version = 0
        """Another one after each change of a quota, or of what is claimed of one."""
        self._namespaces: dict[str, _Namespace] = {}

    def put_quota(self, quota: CompiledQuota) -> None:
        """Take a quota, new or changed."""
        self._own(quota.key[0]).quotas[quota.key] = quota
        self.version += 1
        self._told(quota.key[0], True)

    def drop_quota(self, key: Key) -> None:
        """Forget a quota."""
        own = self._own(key[0])
        own.quotas.pop(key, None)
        own.ghosts.pop(key, None)
        self.version += 1
        self._tidy(key[0])
        self._told(key[0], True)

    def quota(self, key: Key) -> CompiledQuota | None:
        """The quota of that namespace and name."""
        return self._of(key[0]).quotas.get(key)

    def quotas(self, namespace: str) -> list[CompiledQuota]:
        """Those of a namespace that can be held, the oldest first."""
        found = self._of(namespace).quotas.values()
        return sorted((each for each in found if not each.fault), key=lambda each: each.order)

    def every(self) -> Iterable[CompiledQuota]:
        """All of them, in no order."""
        return (quota for each in self._namespaces.values() for quota in each.quotas.values())

    def put(self, unit: WorkloadInfo, placements: Units) -> None:
        """Take a Workload, or the unit of a reservation, with the shares of it that count."""
        namespace, after = unit.namespace, _QuotaCount.of(unit, placements)
        own = self._own(namespace)
        before = own.counted.get(unit.key)
        if before == after and not (after.booked or after.inside):
            return
        if before is not None:
            own.add(before.total(), -1)
        own.counted[unit.key] = after
        own.add(after.total(), 1)
        haunted = any(unit.key in ghosts for ghosts in own.ghosts.values())
        eased = after.booked or after.inside or haunted
        self._told(namespace, eased or (before is not None and before.falls(after)))

    def drop(self, key: Key) -> None:
        """Forget a Workload, or the unit of a reservation."""
        before = self._of(key[0]).counted.pop(key, None)
        if before is None:
            return
        self._own(key[0]).add(before.total(), -1)
        self._tidy(key[0])
        self._told(key[0], before.units > 0)

    def overlay(self, placed: PlacementsByWorkload) -> Usage:
        """The same sums with these Workloads placed so."""
        return _QuotaOverlay(self, placed)

    def used(self, namespace: str, room: ReservationLedger) -> Used:
        """What a namespace takes; `room` are the Reservations as the same pass sees them."""
        own = self._of(namespace)
        amounts = dict(own.total)
        for name, n in held(room.unused_in(namespace)).items():
            amounts[name] = amounts.get(name, 0) + n
        unknown = False
        for ghosts in own.ghosts.values():
            for key, shares in ghosts.items():
                counted = own.counted.get(key)
                unknown = unknown or counted is None
                for name, n in counted.each.items() if counted is not None else ():
                    amounts[name] = amounts.get(name, 0) + n * sum(shares.values())
                if counted is not None and counted.booked and not counted.units:
                    amounts[RESERVATIONS] = amounts.get(RESERVATIONS, 0) + 1
        return Used(amounts, unknown)

    def haunt(self, key: Key, ghosts: Mapping[Key, Units]) -> None:
        """Count what others have claimed of a quota."""
        own = self._of(key[0])
        if key not in own.quotas or own.ghosts.get(key, {}) == ghosts:
            return
        own.ghosts[key] = dict(ghosts)
        self.version += 1
        self._told(key[0], True)

    def _of(self, namespace: str) -> _Namespace:
        return self._namespaces.get(namespace, _NOTHING)

    def _own(self, namespace: str) -> _Namespace:
        return self._namespaces.setdefault(namespace, _Namespace())

    def _tidy(self, namespace: str) -> None:
        own = self._of(namespace)
        if not own.quotas and not own.counted:
            self._namespaces.pop(namespace, None)


class _QuotaOverlay(Usage):
    """A few Workloads placed otherwise, over sums that are not touched."""

    def __init__(self, base: Usage, placed: PlacementsByWorkload) -> None:
        super().__init__()
        self._base = base
        for unit, placements in placed.values():
            self.place(unit, placements)

    def place(self, unit: WorkloadInfo, placements: Units) -> None:
        """See `TakesMore.place`."""
        self.put(unit, placements)

    def quota(self, key: Key) -> CompiledQuota | None:
        """That of the base."""
        return self._base.quota(key)

    def quotas(self, namespace: str) -> list[CompiledQuota]:
        """Those of the base."""
        return self._base.quotas(namespace)

    def used(self, namespace: str, room: ReservationLedger) -> Used:
        """That of the base, but for the Workloads that are otherwise here."""
        base = self._base.used(namespace, room)
        amounts, hidden = dict(base.amounts), self._base._of(namespace).counted  # noqa: SLF001 - its own kind
        for key, counted in self._of(namespace).counted.items():
            before = hidden.get(key)
            for sign, part in ((-1, before), (1, counted)):
                for name, n in part.total().items() if part is not None else ():
                    amounts[name] = amounts.get(name, 0) + sign * n
        return Used(amounts, base.unknown)
