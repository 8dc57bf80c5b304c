"""`stowage drain`: a cluster is cordoned and tainted, and what runs there goes elsewhere.

The command writes the MemberCluster once and then only looks. `--undo` takes back in one write what
it wrote; a cordon of somebody else stays. The table of the cluster's Workloads is made of what the
hub says, or of a simulation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from controller.features.evacuation import taints
from controller.model.objects import Workload
from controller.model.placed import is_workload
from crds.fields.movement import MovingReason
from crds.membercluster import EvacuatingReason, MemberClusterCondition
from crds.names import ANNOTATION_DRAINED, FORCED_DRAIN, TAINT_DRAIN
from crds.workload import WorkloadCondition
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.clock import Clock, SystemClock
from machinery.errors import NotFound
from machinery.types import conditions
from machinery.types.bounds import clean
from machinery.types.metadata import Key
from machinery.types.taints import Taint
from stowage.console import output
from stowage.console.terminal import say
from stowage.console.words import count, listed, shares
from stowage.following import Stored, following
from stowage.hub import edit, no_such_cluster, unknown_cluster
from stowage.kinds import titled
from stowage.simulation import foresight
from stowage.simulation.moves import Simulation
from stowage.simulation.outcomes import outcomes
from stowage.simulation.plan import Where

LOOK_SECONDS = 1.0
PATIENCE_SECONDS = 10.0
"""The drain ends if nothing changed for so long and all that is left is blocked."""
COLUMNS = ("workload", "units", "left", "to", "state")
STAYS = "stay: tolerated"
DROPPED = "no copy here any more"
_BLOCKED = frozenset(
    each.value
    for each in (
        MovingReason.NO_ROOM,
        MovingReason.DISRUPTION_BUDGET,
        MovingReason.AWAITING_FENCING,
        MovingReason.BRAKED,
        MovingReason.UNKNOWN_KIND,
        MovingReason.HOLDS_DATA,
        MovingReason.SUSPENDED,
    )
)
_DRAIN = Taint(TAINT_DRAIN, taints.NO_EXECUTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """One drain: `seconds` bound the wait, `force` passes over PodDisruptionBudgets."""

    cluster: str
    force: bool = False
    wait: bool = True
    seconds: float = 1800.0


async def drain(hub: ApiClient, asked: Drain, *, clock: Clock | None = None) -> bool:
    """Drain a cluster and show how it goes; return whether it is drained, or not waited for.

    Raises ConfigurationError for no such cluster, TransportError.
    """
    clock = clock or SystemClock()
    name = asked.cluster
    kinds = (WORKLOADS, Workload), (MEMBER_CLUSTERS, Stored)
    async with following(hub, *kinds) as (workloads, clusters):
        first = {each.metadata.key: standing(each) for each in workloads.values()}
        generation = await _write(hub, name, lambda stored: drain_patch(stored, force=asked.force))
        now = observed(name, workloads.values(), first)
        say(now.table())
        if not asked.wait:
            return True
        end, quiet_since, shown = clock.monotonic() + asked.seconds, clock.monotonic(), now
        while True:
            await clock.sleep(LOOK_SECONDS)
            if (cluster := clusters.get(("", name))) is None:
                raise await no_such_cluster(hub, name)
            before, now = now, observed(name, workloads.values(), first)
            if now != before:
                quiet_since = clock.monotonic()
            if _drained(cluster.status, generation) and now.drained:
                if sys.stdout.isatty():
                    click.clear()
                say(f"{now.table()}\n{name}: drained")
                return True
            quiet = clock.monotonic() - quiet_since >= PATIENCE_SECONDS
            late = clock.monotonic() >= end
            if late or (now.held and quiet):
                within = f"not drained within {asked.seconds:g} s"
                why = within if late else "all that is left is blocked"
                say(f"{now.table()}\n{name}: {why}. The drain goes on; {_undo(name)}")
                return False
            if now != shown and sys.stdout.isatty():
                click.clear()
                say(f"{now.table()}\nCtrl-C leaves the drain going on; {_undo(name)}")
                shown = now


def _undo(name: str) -> str:
    return f"`stowage drain {name} --undo` takes it back"


async def undo(hub: ApiClient, name: str) -> None:
    """Take off what `drain` wrote. Raises ConfigurationError for no such cluster."""
    drained = False

    def patch(stored: dict[str, Any]) -> dict[str, Any]:
        nonlocal drained
        taints = (stored.get("spec") or {}).get("taints") or ()
        drained = any(each.get("key") == TAINT_DRAIN for each in taints)
        return undo_patch(stored)

    await _write(hub, name, patch)
    say(f"{name}: no drain any more" if drained else f"{name}: there was no drain to take back")


def preview(name: str, where: Where, form: str) -> bool:
    """Print what a drain would come to; return whether all that has to leave would.

    Raises ConfigurationError for no such cluster, and as `Where` does.
    """
    found = previewed(name, where, clock=SystemClock())
    output.show(found.to_dict(), form, text=found.table())
    return found.drained


def previewed(name: str, where: Where, *, clock: Clock) -> Drainage:
    """Return what a drain would come to. Raises as `preview` does."""
    configuration, present = where.configuration(), where.present()
    simulation = Simulation(
        present, configuration, now=clock.now(), handle=where.handle, settled=True
    )
    if name not in simulation.members:
        raise unknown_cluster(name, simulation.members)
    before = dict(simulation.placed)
    simulation.change([foresight.drained(simulation.members[name])])
    simulation.play()
    return simulated(name, simulation, before)


def drain_patch(stored: dict[str, Any], *, force: bool) -> dict[str, Any]:
    spec = stored.get("spec") or {}
    taint = {"key": TAINT_DRAIN, "effect": taints.NO_EXECUTE}
    taint |= {"value": FORCED_DRAIN} if force else {}
    others = [each for each in spec.get("taints") or () if each.get("key") != TAINT_DRAIN]
    ours = not spec.get("unschedulable")  # a cordon of before is somebody else's
    annotations = {"annotations": {ANNOTATION_DRAINED: "cordoned"}} if ours else {}
    return {"metadata": annotations, "spec": {"unschedulable": True, "taints": [*others, taint]}}


def undo_patch(stored: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch that takes a drain back; the cordon only if the drain set it."""
    meta, spec = stored["metadata"], stored.get("spec") or {}
    others = [each for each in spec.get("taints") or () if each.get("key") != TAINT_DRAIN]
    ours = ANNOTATION_DRAINED in (meta.get("annotations") or {})
    annotations = {"annotations": {ANNOTATION_DRAINED: None}} if ours else {}
    cordon = {"unschedulable": False} if ours else {}
    return {"metadata": annotations, "spec": {"taints": others, **cordon}}


async def _write(
    hub: ApiClient, name: str, patch: Callable[[dict[str, Any]], dict[str, Any]]
) -> int:
    """Write a cluster on the version that was read; return its new generation."""
    try:
        found = await edit(hub, MEMBER_CLUSTERS, name, patch)
    except NotFound as e:
        raise await no_such_cluster(hub, name) from e
    return int(found["metadata"].get("generation", 0))


def _drained(status: dict[str, Any], generation: int) -> bool:
    said = conditions.find(status, MemberClusterCondition.EVACUATING.value)
    current = int(said.get("observedGeneration") or 0) >= generation
    return current and said.get("reason") == EvacuatingReason.DRAINED.value


# --- the table ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DrainedWorkload:
    """One Workload of a cluster that is drained.

    Args:
        key: the Workload.
        units: what it had there at first.
        left: what is still there.
        to: the units that came to other clusters since, by cluster.
        state: the reason of its condition Moving, and what it lacks.
        stays: it tolerates the drain.
        blocked: a person has to help, or others have to make room.
        seen: the propagator still reports the cluster, so objects may be there.
    """

    key: Key
    units: int
    left: int
    to: Mapping[str, int]
    state: str
    stays: bool = False
    blocked: bool = False
    seen: bool = False

    @property
    def gone(self) -> bool:
        return not (self.left or self.seen)

    def row(self) -> dict[str, Any]:
        cells = {"units": self.units, "left": self.left, "to": shares(self.to), "state": self.state}
        return {"workload": titled(self.key), **cells}

    def to_dict(self) -> dict[str, Any]:
        return {
            "namespace": self.key[0],
            "name": self.key[1],
            "units": self.units,
            "left": self.left,
            "to": listed(dict(sorted(self.to.items()))),
            "state": self.state,
            "stays": self.stays,
            "blocked": self.blocked,
        }


@dataclass(frozen=True, slots=True)
class Drainage:
    """All Workloads of a cluster that is drained, by their names."""

    cluster: str
    workloads: Sequence[DrainedWorkload]

    @property
    def drained(self) -> bool:
        return all(each.stays or each.gone for each in self.workloads)

    @property
    def blocked(self) -> list[DrainedWorkload]:
        return [each for each in self.workloads if each.blocked]

    @property
    def held(self) -> bool:
        """Whether something is left, and all of it is blocked."""
        left = [each for each in self.workloads if not (each.stays or each.gone)]
        return bool(left) and all(each.blocked for each in left)

    def to_dict(self) -> dict[str, Any]:
        listed = [each.to_dict() for each in self.workloads]
        return {"cluster": self.cluster, "drained": self.drained, "workloads": listed}

    def table(self) -> str:
        stay = [each for each in self.workloads if each.stays]
        leave = [each for each in self.workloads if not each.stays]
        units, staying = sum(each.units for each in leave), sum(each.units for each in stay)
        verb, stands = "leaves" if units == 1 else "leave", "stays" if staying == 1 else "stay"
        head = f"{count(len(leave), 'Workload')}, {count(units, 'replica')} {verb}"
        kept = f"{count(staying, 'replica')} {stands} (tolerated: {count(len(stay), 'Workload')})"
        parts = [f"{self.cluster}: {head}" + (f"; {kept}" if stay else "")]
        if self.workloads:
            parts.append(output.table([each.row() for each in self.workloads], COLUMNS))
        if self.blocked:
            parts.append(f"blocked: {count(len(self.blocked), 'Workload')}")
        return "\n".join(parts)


def simulated(cluster: str, simulation: Simulation, before: Mapping[Key, Workload]) -> Drainage:
    """Return what a simulated drain came to; `before` are the Workloads at first."""
    found = {each.key: each for each in outcomes(simulation)}
    listed = []
    for key, workload in sorted(before.items()):
        units = workload.placements.get(cluster, 0)
        if not (units and is_workload(key)):
            continue
        outcome = found.get(key)
        left = units if outcome is None else outcome.after.get(cluster, 0)
        to = {} if outcome is None else outcome.grown
        stays = tolerates(workload)
        blocked = bool(left) and not stays
        state = STAYS if stays else _settled(to)
        if blocked and outcome is not None and outcome.data:
            state = f"{MovingReason.HOLDS_DATA.value}: {clean(outcome.data_message)}"
        elif blocked and (waits := _waits(simulation, key, cluster)):
            state = waits
        elif blocked and outcome is not None:
            state = f"{MovingReason.NO_ROOM.value}: {clean(outcome.lacks)}"
        elif blocked:  # it is left to another scheduler
            state = f"left to scheduler {workload.spec.scheduler_name}"
        listed.append(DrainedWorkload(key, units, left, to, state, stays, blocked))
    return Drainage(cluster, listed)


def _waits(simulation: Simulation, key: Key, cluster: str) -> str:
    """Return why a share waits for a person; empty if it does not."""
    decision = simulation.decisions.get(key)
    eviction = decision.moving.evictions.get(cluster) if decision is not None else None
    return f"{eviction.reason}: {clean(eviction.note)}" if eviction and eviction.reason else ""


def observed(
    cluster: str, workloads: Iterable[Workload], first: Mapping[Key, Mapping[str, int]]
) -> Drainage:
    """Return how a drain stands.

    `workloads` are all Workloads as stored, `first` is where each stood when it began (`standing`).
    """
    listed = []
    for workload in sorted(workloads, key=lambda each: each.metadata.key):
        key = workload.metadata.key
        began, now = first.get(key, {}), standing(workload)
        if cluster in ended_on(workload):
            continue  # what has ended is made nowhere again, and is not moved
        reported = [each for each in workload.status.clusters if each.name == cluster]
        stands = [max(each.current, each.scheduled) for each in reported]
        left = max(now.get(cluster, 0), *stands, 0)
        units = max(began.get(cluster, 0), left)
        # A share that is scaled to 0 runs nothing, and waits there for another number.
        if not units and (not reported or cluster in workload.placements):
            continue
        to = {name: n - began.get(name, 0) for name, n in workload.placements.items()}
        grown = {name: n for name, n in to.items() if n > 0 and name != cluster}
        stays = tolerates(workload)
        state, blocked = STAYS, False
        if not stays:
            gone = not (left or reported)
            state, blocked = (_settled(grown), False) if gone else _state(workload)
        row = DrainedWorkload(key, units, left, grown, state, stays, blocked, bool(reported))
        listed.append(row)
    return Drainage(cluster, listed)


def standing(workload: Workload) -> dict[str, int]:
    """Return the units on each cluster, with those that leave it."""
    found = workload.placements
    for each in workload.status.leaving:
        found[each.cluster] = found.get(each.cluster, 0) + each.replicas
    return found


def ended_on(workload: Workload) -> set[str]:
    return {each.name for each in workload.status.clusters if each.ended is not None}


def tolerates(workload: Workload) -> bool:
    """Whether a drain leaves the Workload where it is."""
    return taints.tolerated(_DRAIN, workload.spec.tolerations, 0) is None


def _settled(to: Mapping[str, int]) -> str:
    """Return the state of what has left; a copy of a Duplicated Workload goes nowhere else."""
    return MovingReason.SETTLED.value if to else DROPPED


def _state(workload: Workload) -> tuple[str, bool]:
    said = conditions.among(workload.status.conditions, WorkloadCondition.MOVING.value)
    reason, message = str(said.get("reason", "")), str(said.get("message", ""))
    if not reason or reason == MovingReason.SETTLED.value:
        return "Waiting", False
    if said.get("status") == "True":
        return reason, False
    return f"{reason}: {clean(message.partition(': ')[2] or message)}", reason in _BLOCKED
