"""What is seen of a Workload now: on which clusters, how it fares there, what the syncs brought.

Reads sessions and nothing else: it waits for nobody, and asks no server. Spoken of are the clusters
that the Workload is placed on, those that still hold something, and those that may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from machinery.resources import Resource
from propagator.holdings import Holdings, owned
from propagator.hubworkloads import clusters_of
from propagator.managed import ManagedObject
from propagator.model import Workload
from propagator.report import Outcome, Seen
from propagator.term import Ground

Owned = Sequence[tuple[Resource, ManagedObject]]
"""The objects that a Workload owns on one member."""


class Survey:
    """Looks at all members for one Workload."""

    def __init__(self, ground: Ground, *, holdings: Holdings) -> None:
        self._fleet = ground.fleet
        self._holdings = holdings

    def seen(self, workload: Workload, outcomes: Mapping[str, Outcome]) -> list[Seen]:
        """Every cluster to speak of, by name. `outcomes`: of the last syncs, by cluster."""
        return [
            self._look(workload, name, outcomes.get(name)) for name in sorted(self._names(workload))
        ]

    def _names(self, workload: Workload) -> set[str]:
        away = {
            name
            for name in clusters_of(workload) - set(workload.placements)
            if self._holdings.may_hold(workload, name)
        }
        return {*workload.placements, *self._holdings.holders(workload.uid), *away}

    def _look(self, workload: Workload, name: str, outcome: Outcome | None) -> Seen:
        session = self._fleet.get(name)
        asked = workload.placements.get(name, 0)
        leaving = name not in workload.placements
        if session is None or not session.ready:
            why = session.message if session else f"{name}: there is no MemberCluster of this name"
            return Seen(name, asked, leaving, False, why, None, None, None, None)
        objects = owned(session, workload.uid)
        main = _main_of(workload, objects)
        units = session.units(workload.uid)
        return Seen(name, asked, leaving, True, "", outcome, main, units, _balancer(objects))


def _main_of(workload: Workload, objects: Owned) -> ManagedObject | None:
    """The object that runs the units, among those that the Workload owns on a member."""
    name = (workload.template.get("metadata") or {}).get("name") or workload.metadata.name
    version = workload.template.get("apiVersion")
    for resource, found in objects:
        if (resource.api_version, resource.kind) != (version, workload.template_kind):
            continue
        if found.metadata.key == (workload.namespace, name) and not found.metadata.deleting:
            return found
    return None


def _balancer(objects: Owned) -> dict[str, Any] | None:
    for resource, found in objects:
        if resource.kind == "Service" and found.status.get("loadBalancer"):
            return dict(found.status["loadBalancer"])
    return None
