"""What the pods of a Workload need beside it: whether it goes along, and how far it has come.

Followed are ConfigMaps, Secrets and ServiceAccounts of the Workload's namespace, and the Service
that governs a StatefulSet. The propagator's `dependencies` does it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from crds.base import DnsName, Model

MOST_DEPENDENCIES = 64
"""The most objects of one Workload that are followed; the condition Propagated says of more."""


class Dependencies(StrEnum):
    """spec.dependencies: whether the objects that the pod template names go along."""

    NONE = "None"
    FOLLOW = "Follow"


class DependencyState(StrEnum):
    """status.dependencies[].state. From the best to the worst."""

    SYNCED = "Synced"
    """The object is on each cluster that needs it, as the hub has it."""
    MISSING = "Missing"
    """The hub has no such object. What was copied before stays."""
    REFUSED = "Refused"
    """The object does not travel, or a member does not take it; the message says why."""


class Dependency(Model):
    """An object that the pod template names."""

    kind: Annotated[str, Field(min_length=1, max_length=63)]
    """ConfigMap, Secret, ServiceAccount or Service; a PersistentVolumeClaim is always Refused."""
    name: DnsName
    """Its name, in the Workload's namespace and on the members."""
    state: DependencyState
    """How far it has come."""
    message: Annotated[str, Field(max_length=256)] | None = None
    """Why it is Refused."""
