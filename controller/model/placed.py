"""Placed kinds: objects that are no Workloads and get clusters in the same way.

A feature that `places` a kind says how an object of it reads as a Workload, and how what would be
written on a Workload is written on it. From then on it has a key among the Workloads and goes
through their queue, their decisions and their writes; nobody on the way knows which kind it is of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.model.objects import Workload
from machinery.api.resources import Resource
from machinery.types.metadata import Key, Object


@dataclass(frozen=True, slots=True)
class PlacedKind:
    """A namespaced kind whose objects are placed.

    Args:
        resource: the kind; it has a status subresource.
        type_: what an informer decodes it as.
        workload: an object as the Workload that decisions read, its status in the fields of a
            Workload's; None for one that takes no part, or no more. Its name is exchanged for the
            one of `placed_key`; its `fault`, if it has one, is told on the object.
        status: what a decision would write in a Workload's status, often some fields of it alone,
            as it is written in the status of this object; the one before is given too.
        booked: a ledger of the feature holds the room of its units, so that none is in flight.
    """

    resource: Resource
    type_: type[Object]
    workload: Callable[[Any], Workload | None]
    status: Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]
    booked: bool = False


def placed_key(resource: Resource, namespace: str, name: str) -> Key:
    """The key of an object of a placed kind among those of Workloads: no Workload has a slash."""
    return (namespace, f"{resource.plural}/{name}")
