"""The clock, client and settings that all controllers of the propagator share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from machinery.api.client import ApiClient
from machinery.clock import Clock
from machinery.runtime.event_recorder import EventRecorder
from machinery.runtime.informer import Informer
from propagator.members.hub_identity import HubIdentity
from propagator.members.registry import MemberRegistry
from propagator.types.cluster import MemberCluster


@dataclass(frozen=True, kw_only=True)
class ControllerContext:
    """Shared by all controllers. Writes by `hub` or to a member may raise LeaseLost."""

    hub: ApiClient
    registry: MemberRegistry
    clusters: Informer[MemberCluster]
    recorder: EventRecorder
    clock: Clock
    namespace: str
    """The namespace of our processes on the hub."""
    identity: HubIdentity
    fresh: Callable[[], bool]
    """Whether the view of the hub may be acted on where that removes something."""
