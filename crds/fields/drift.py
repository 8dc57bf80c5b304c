"""Drift: fields of ours on a member that somebody else has changed there."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from crds.base import DnsName, Model, Timestamp, atomic

MOST_DRIFTED = 32
"""Objects that a status names."""
MOST_FIELDS = 8
"""Fields of one object that a status names."""
MOST_VALUE = 128
"""Characters of a value."""


class Drift(StrEnum):
    """The handling of a field that somebody else changes on a member."""

    REPAIR = "Repair"
    REPORT = "Report"


class DriftState(StrEnum):
    """status.drift[].state: the fate of what was changed."""

    REPAIRED = "Repaired"
    """It was written back. Told for ten minutes."""
    REPORTED = "Reported"
    """It stays, until the Workload's own value of the field is edited."""
    CONTENDED = "Contended"
    """It is changed back each time it is written."""
    DROPPED = "Dropped"
    """The member's API server takes it without a fault and keeps nothing of it, as one of another
    version does with a field that it does not have, or has switched off."""


class DriftedReason(StrEnum):
    """Reasons of the condition Drifted: the states that stand, the worst first. NONE is good."""

    CONTENDED = "Contended"
    """Another client writes the same fields each time that they are repaired."""
    DROPPED = "Dropped"
    """The member's API server took a field that it does not keep."""
    REPORTED = "Reported"
    """A change stands, as `spec.drift` is Report."""
    NONE = "None"
    """No change stands on any member."""


class DriftedField(Model):
    """One field. Values that may be secret, and those of whole lists and mappings, are left out."""

    path: Annotated[str, Field(max_length=1024)]
    """Such as spec.template.spec.containers[main].image."""
    hub: Annotated[str, Field(max_length=MOST_VALUE)] = ""
    """The value that is wanted."""
    member: Annotated[str, Field(max_length=MOST_VALUE)] = ""
    """The value that was found."""
    manager: Annotated[str, Field(max_length=256)] = ""
    """Who changed it, as the member's managedFields say; empty where the field was removed. Of a
    dropped one the version of the API server."""


class DriftedObject(Model):
    """An object on a member of which somebody else changed fields of ours, or that lacks some."""

    cluster: DnsName
    """The MemberCluster's name."""
    kind: Annotated[str, Field(max_length=63)]
    """Such as Deployment."""
    namespace: Annotated[str, Field(max_length=63)] = ""
    """Its namespace on the member; empty where it has none."""
    name: Annotated[str, Field(max_length=253)]
    """Its name on the member."""
    group: Annotated[str, Field(max_length=253)] = ""
    """Its API group; empty for the core group."""
    paths: list[DriftedField] = atomic(MOST_FIELDS)
    """The fields, at most 8."""
    since: Timestamp
    """When it was first seen; of a repaired one, when it was repaired last."""
    state: DriftState
    """Repaired, Reported, Contended or Dropped."""
