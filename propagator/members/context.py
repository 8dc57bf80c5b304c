"""The parts that all controllers of the propagator share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES
from machinery.clock import Clock
from machinery.errors import Forbidden
from machinery.runtime.event_recorder import EventRecorder
from machinery.runtime.informer import Informer
from propagator.members.registry import MemberRegistry
from propagator.members.restored import RestoredHub
from propagator.members.views import ShareViews
from propagator.shards.membership import ONE_SHARD, OneShard
from propagator.shares import ShareTable
from propagator.types.cluster import MemberCluster

LOG = logs.get(__name__)


class HubIdentity:
    """Reads the mark of this hub once per term, on first use: the UID of kube-system.

    Every object on a member carries it, because hubs may share a member.
    """

    def __init__(self, hub: ApiClient) -> None:
        self._hub = hub
        self._uid: str | None = None
        self._asking = asyncio.Lock()

    def forget(self) -> None:
        """Another hub may answer at the address in the next term."""
        self._uid = None

    async def uid(self) -> str:
        """Return "" if the mark may not be read: nothing is swept then. Raises TransportError."""
        async with self._asking:
            if self._uid is None:
                self._uid = await self._ask()
            return self._uid

    async def _ask(self) -> str:
        try:
            found = await self._hub.get(NAMESPACES, "kube-system")
            return str(found["metadata"]["uid"])
        except Forbidden as e:
            LOG.warning(
                "objects on members cannot be marked as this hub's, and what is left of Workloads "
                "that are gone stays there: grant get on the namespace kube-system, as "
                "deploy/rbac.yaml does (%s)",
                e,
            )
            return ""


@dataclass(frozen=True, kw_only=True)
class ControllerContext:
    """Writes by `hub` or to a member may raise LeaseLost."""

    hub: ApiClient
    registry: MemberRegistry
    clusters: Informer[MemberCluster]
    recorder: EventRecorder
    clock: Clock
    namespace: str
    identity: HubIdentity
    restored: RestoredHub
    fresh: Callable[[], bool]
    """Whether the view of the hub is fresh enough to remove objects."""
    membership: OneShard = ONE_SHARD
    """Which members this process serves."""
    shares: ShareTable = field(default_factory=ShareTable)
    """The state of each share, of all its parts."""

    @cached_property
    def views(self) -> ShareViews:
        return ShareViews(self.registry, self.clusters, self.membership)
