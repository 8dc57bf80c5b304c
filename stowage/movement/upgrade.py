"""What an install of this release would move: taints that are there and moved nothing so far.

Until a controller of this release runs, neither a taint of effect NoExecute nor the loss of a
cluster moves anything, and no status tells since when it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from controller.features.evacuation import taints
from controller.model.objects import MemberCluster
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.clock import Clock
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, NotFound
from stowage.console import output
from stowage.hub.connection import reader
from stowage.movement.outcomes import outcomes
from stowage.movement.simulation import Simulation
from stowage.planning.plan import Where
from stowage.planning.words import shares

COLUMNS = ("cluster", "taint", "units", "workloads")


@dataclass(frozen=True, slots=True)
class TaintedCluster:
    """A cluster, its taints of effect NoExecute, and the units that leave it, by Workload."""

    name: str
    taints: Sequence[str]
    units: dict[str, int] = field(default_factory=dict)


def unnoted(hub: Connection) -> list[TaintedCluster]:
    """Return the clusters that are lost or tainted and not noted as such; none on a new hub."""
    with reader(hub) as api:
        try:
            clusters = [*api.each(MEMBER_CLUSTERS, MemberCluster)]
        except NotFound:
            return []
    found = []
    for each in clusters:
        evacuation = each.status.evacuation
        noted = {cause.name for cause in evacuation.causes} if evacuation is not None else set()
        if new := sorted(taints.in_force(each).keys() - noted):
            found.append(TaintedCluster(each.metadata.name, new))
    return found


def leaving(hub: Connection, clusters: Sequence[TaintedCluster], *, clock: Clock) -> None:
    """Fill in the units that leave these clusters, by a simulation.

    Raises ConfigurationError, TransportError.
    """
    where = Where(hub.namespace, hub=hub)
    configuration, present = where.configuration(), where.present()
    simulation = Simulation.of(present, configuration, now=clock.now(), handle=where.handle)
    simulation.play()
    for each in outcomes(simulation):
        for cluster in clusters:
            gone = each.before.get(cluster.name, 0) - each.after.get(cluster.name, 0)
            if gone > 0:
                cluster.units[each.name] = gone


def refuse_unless(*, yes: bool, hub: Connection, clock: Clock) -> str:
    """Return what an install would move, for people; empty where that is nothing.

    Raises ConfigurationError with the same words where nobody said `yes` to it.
    """
    found = unnoted(hub)
    if not found:
        return ""
    leaving(hub, found, clock=clock)
    rows = [
        {
            "cluster": each.name,
            "taint": ", ".join(each.taints),
            "units": sum(each.units.values()),
            "workloads": shares(each.units),
        }
        for each in found
    ]
    told = (
        "These taints of effect NoExecute have moved nothing so far. With this release what does "
        f"not tolerate them leaves ({taints.NOT_READY.key} stands for a cluster that does not "
        f"answer):\n{output.table(rows, COLUMNS)}"
    )
    if not yes:
        raise ConfigurationError(f"{told}\nNothing is installed: take them off, or say --yes")
    return told
