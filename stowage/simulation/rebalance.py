"""`stowage rebalance`: Workloads are planned anew, once, and move to the shares of that plan.

The request is a time in spec.movement.rebalanceAfter, so whoever may edit a Workload may ask, and
asking again works. A simulation says what moves before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from controller.model.objects import Workload
from controller.model.placed import is_workload
from controller.model.unit import restated
from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS
from machinery.clock import Clock, timestamp
from machinery.errors import ConfigurationError, NotFound
from machinery.types.metadata import Key
from stowage.console import output
from stowage.console.words import count, shares
from stowage.kinds import titled
from stowage.simulation import outcomes
from stowage.simulation.moves import Simulation
from stowage.simulation.outcomes import WorkloadOutcome
from stowage.simulation.plan import Where, left

COLUMNS = ("workload", "units", "moves", "now", "then", "why")


@dataclass(frozen=True, slots=True)
class Rebalance:
    """What would move, of which Workloads, and when that was asked for."""

    asked: Sequence[Key]
    moved: Sequence[WorkloadOutcome]
    units: int
    time: str
    notes: Sequence[str]

    @property
    def moves(self) -> int:
        return sum(each.moves for each in self.moved)

    def to_dict(self) -> dict[str, Any]:
        return {
            "units": self.units,
            "moves": self.moves,
            "settled": self._settled,
            "workloads": list(outcomes.as_json(self.moved)),
        }

    @property
    def _settled(self) -> int:
        moved = {each.key for each in self.moved}
        return sum(key not in moved for key in self.asked)

    def table(self, *, verb: str) -> str:
        parts = [output.table([_row(each) for each in self.moved], COLUMNS)] if self.moved else []
        what = f"{count(len(self.moved), 'Workload')} {verb} {self.moves} of "
        settled = "1 is as the plan wants it" if self._settled == 1 else ""
        settled = settled or f"{self._settled} are as the plan wants them"
        return "\n".join((*parts, f"{what}{count(self.units, 'replica')}; {settled}"))


def _row(each: WorkloadOutcome) -> dict[str, Any]:
    return {
        "workload": titled(each.key),
        "units": sum(each.before.values()),
        "moves": each.moves,
        "now": shares(each.before),
        "then": shares(each.after),
        "why": each.why,
    }


def planned(where: Where, names: Sequence[str], *, everywhere: bool, clock: Clock) -> Rebalance:
    """Return what would move if these Workloads were planned anew.

    Without `names` all Workloads of the namespace of `where` are meant, with `everywhere` those of
    all namespaces. `clock` gives the time of the request. Raises ConfigurationError for a name that
    does not exist, and as `Where` does.
    """
    configuration, present, now = where.configuration(), where.present(), clock.now()
    simulation = Simulation(present, configuration, now=now, handle=where.handle, settled=True)
    found = _chosen(simulation.placed.keys(), where.namespace, names, everywhere=everywhere)
    ours = [key for key in found if simulation.info(key) is not None]
    others = [simulation.placed[key] for key in found if key not in set(ours)]
    units = sum(sum(simulation.placed[key].placements.values()) for key in ours)
    for key in ours:
        simulation.store(_asked(simulation.placed[key], now))
    simulation.play(ours)
    moved = [each for each in outcomes.outcomes(simulation) if each.moves]
    notes = [left(each, configuration.profiles) for each in others] if names else []
    return Rebalance(ours, moved, units, timestamp(now), notes)


def _chosen(
    known: Collection[Key], namespace: str, names: Sequence[str], *, everywhere: bool
) -> list[Key]:
    if not names:
        return sorted(k for k in known if is_workload(k) and (everywhere or k[0] == namespace))
    found = [(namespace, name) for name in dict.fromkeys(names)]
    if missing := [key for key in found if key not in known]:
        raise ConfigurationError(f"there is no Workload {titled(missing[0])}")
    return found


def _asked(workload: Workload, now: datetime) -> Workload:
    asked = msgspec.structs.replace(workload.spec.movement, rebalance_after=timestamp(now))
    spec = msgspec.structs.replace(workload.spec, movement=asked)
    changed = msgspec.structs.replace(workload, spec=spec)
    return restated(changed, workload.metadata, workload.status)


async def request(hub: ApiClient, asked: Rebalance) -> None:
    """Write the request on each Workload that still exists. Raises TransportError."""
    patch = {"spec": {"movement": {"rebalanceAfter": asked.time}}}
    for namespace, name in asked.asked:
        try:
            await hub.merge_patch(WORKLOADS, name, patch, namespace=namespace)
        except NotFound:
            continue
