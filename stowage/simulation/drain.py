"""`stowage drain`: a cluster is cordoned and tainted, and what runs there goes elsewhere.

The command writes the MemberCluster once and then only looks: the drain goes on without it, and
`--undo` takes back in one write what it wrote. A cordon of somebody else stays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from controller.features.evacuation import foresight, taints
from controller.model.objects import Workload
from crds.membercluster import EvacuatingReason, MemberClusterCondition
from crds.names import ANNOTATION_DRAINED, FORCED_DRAIN, TAINT_DRAIN
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.clock import Clock, SystemClock
from machinery.errors import ConfigurationError, NotFound
from machinery.types import conditions
from stowage.console import output
from stowage.console.terminal import say
from stowage.hub.writer import edit
from stowage.simulation.drainage import Drainage, observed, simulated, standing
from stowage.simulation.moves import Simulation
from stowage.simulation.plan import Where

LOOK_SECONDS = 1.0
PATIENCE_SECONDS = 10.0
"""For so long nothing has to have changed while all that is left is blocked."""


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
    first = {each.metadata.key: standing(each) for each in await _workloads(hub)}
    generation = await _write(hub, name, lambda stored: drain_patch(stored, force=asked.force))
    now = observed(name, await _workloads(hub), first)
    say(now.table())
    if not asked.wait:
        return True
    end, quiet_since, shown = clock.monotonic() + asked.seconds, clock.monotonic(), now
    while True:
        await clock.sleep(LOOK_SECONDS)
        cluster = await _cluster(hub, name)
        before, now = now, observed(name, await _workloads(hub), first)
        if now != before:
            quiet_since = clock.monotonic()
        if _drained(cluster, generation) and now.drained:
            say(f"{now.table()}\n{name}: drained")
            return True
        quiet = clock.monotonic() - quiet_since >= PATIENCE_SECONDS
        late = clock.monotonic() >= end
        if late or (now.held and quiet):
            why = (
                f"not drained within {asked.seconds:g} s" if late else "all that is left is blocked"
            )
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
    await _write(hub, name, undo_patch)
    say(f"{name}: no drain any more")


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
    simulation = Simulation.settled(present, configuration, now=clock.now(), handle=where.handle)
    if name not in simulation.members:
        raise _unknown(name)
    before = dict(simulation.placed)
    simulation.change([foresight.drained(simulation.members[name])])
    simulation.play()
    return simulated(name, simulation, before)


def drain_patch(stored: dict[str, Any], *, force: bool) -> dict[str, Any]:
    """Return the merge patch that drains a cluster."""
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
        raise _unknown(name) from e
    return int(found["metadata"].get("generation", 0))


async def _cluster(hub: ApiClient, name: str) -> dict[str, Any]:
    try:
        return await hub.get(MEMBER_CLUSTERS, name)
    except NotFound as e:
        raise _unknown(name) from e


def _unknown(name: str) -> ConfigurationError:
    return ConfigurationError(f"the hub knows no cluster {name}: see `kubectl get mc`")


async def _workloads(hub: ApiClient) -> list[Workload]:
    return [msgspec.convert(each, Workload) for each in (await hub.list(WORKLOADS))["items"]]


def _drained(cluster: dict[str, Any], generation: int) -> bool:
    said = conditions.find(cluster.get("status") or {}, MemberClusterCondition.EVACUATING.value)
    current = int(said.get("observedGeneration") or 0) >= generation
    return current and said.get("reason") == EvacuatingReason.DRAINED.value
