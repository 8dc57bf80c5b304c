"""What an install of this release would change for what runs.

Until a controller of this release runs, neither a taint of effect NoExecute nor the loss of a
cluster moves anything, and no status tells since when it is there. And a kind that no profile
describes is read with more care than a release before profiles had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controller.features.evacuation import taints
from controller.model.objects import MemberCluster
from machinery.api.resources import DEPLOYMENTS, MEMBER_CLUSTERS, WORKLOADS
from machinery.clock import Clock
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, NotFound
from machinery.kinds.table import profile_of_main
from stowage.console import output
from stowage.hub.connection import reader
from stowage.movement.outcomes import outcomes
from stowage.movement.simulation import Simulation
from stowage.planning.plan import Where
from stowage.planning.words import shares

COLUMNS = ("cluster", "taint", "units", "workloads")
CONTROLLER = "stowage-controller"
"""The Deployment whose image tells which release runs."""
NAMED = 5
"""The most Workloads of a kind that are named."""


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


def unknown(hub: Connection, *, home: str, image: str) -> dict[str, list[str]]:
    """Return the Workloads of kinds without a profile, by kind; none where `image` runs already.

    `home` is the namespace of our processes. Raises TransportError.
    """
    with reader(hub) as api:
        try:
            running = api.read(DEPLOYMENTS, CONTROLLER, home, dict[str, Any])
            containers = running["spec"]["template"]["spec"]["containers"]
            if any(each.get("image") == image for each in containers):
                return {}
        except NotFound:
            pass
        found: dict[str, list[str]] = {}
        try:
            for each in api.each(WORKLOADS, dict[str, Any]):
                profile = profile_of_main(each.get("spec") or {})
                if not profile.known:
                    kind = f"{profile.kind}.{profile.group}" if profile.group else profile.kind
                    meta = each["metadata"]
                    found.setdefault(kind or "?", []).append(f"{meta['namespace']}/{meta['name']}")
        except NotFound:
            return {}  # a new hub
    return found


def foretold(*, hub: Connection, home: str, image: str, clock: Clock) -> str:
    """Return what an install changes for what runs, for people; empty where that is nothing.

    Raises ConfigurationError, TransportError.
    """
    told = [_of_taints(hub, clock), _of_kinds(unknown(hub, home=home, image=image))]
    return "\n\n".join(filter(None, told))


def refuse_unless(*, yes: bool, hub: Connection, home: str, image: str, clock: Clock) -> str:
    """Return what an install changes for what runs, as `foretold`.

    Raises ConfigurationError with the same words where nobody said `yes` to it.
    """
    told = foretold(hub=hub, home=home, image=image, clock=clock)
    if told and not yes:
        raise ConfigurationError(f"{told}\nNothing is installed: change that, or say --yes")
    return told


def _of_taints(hub: Connection, clock: Clock) -> str:
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
    return (
        "These taints of effect NoExecute have moved nothing so far. With this release what does "
        f"not tolerate them leaves ({taints.NOT_READY.key} stands for a cluster that does not "
        f"answer):\n{output.table(rows, COLUMNS)}"
    )


def _of_kinds(found: Mapping[str, Sequence[str]]) -> str:
    if not found:
        return ""
    rows = [
        {"kind": kind, "number": len(names), "workloads": _first(sorted(names))}
        for kind, names in sorted(found.items())
    ]
    return (
        "This release has no profile of these kinds. Each of these Workloads is ready while its "
        "condition Ready is True, leaves no cluster by itself unless spec.movement.maxSurge is "
        f"written, and counts no room:\n{output.table(rows, ('kind', 'number', 'workloads'))}"
    )


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
