"""The published kinds as the hub stores them, and their owners."""

from __future__ import annotations

from typing import Any

import msgspec

from crds.names import API_VERSION
from machinery.api.resources import WORKLOADS
from machinery.types.api import ClusterDecisionSpec, ClusterDecisionStatus
from machinery.types.metadata import Key, Meta, Object


class ClusterDecision(Object, frozen=True):
    """One per Workload that asks for it, with its name."""

    spec: ClusterDecisionSpec = ClusterDecisionSpec()
    status: ClusterDecisionStatus = ClusterDecisionStatus()


class PlacementDecision(Object, frozen=True):
    """One slice. Malformed fields compare as changed."""

    decisions: Any = msgspec.field(default_factory=list)
    scheduler_name: Any = ""


def owner_of(meta: Meta) -> tuple[Key, str] | None:
    found = (o for o in meta.owner_references if o.controller and o.kind == WORKLOADS.kind)
    owner = next((o for o in found if o.api_version == API_VERSION), None)
    return None if owner is None else ((meta.namespace, owner.name), owner.uid)
