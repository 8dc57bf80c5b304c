"""What all controllers of the propagator share: clock, client, settings, and the hub's identity."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES
from machinery.clock import Clock
from machinery.errors import Forbidden
from machinery.runtime.event_recorder import EventRecorder
from machinery.runtime.informer import Informer
from propagator.members.registry import MemberRegistry
from propagator.types.cluster import MemberCluster

LOG = logs.get(__name__)


class HubIdentity:
    """Reads the mark of this hub once in a term, when it is needed first.

    Every object on a member carries it, so that hubs can share a member. The UID of the namespace
    kube-system is a cluster's identity by custom: the namespace exists from the start, its UID
    cannot be chosen, and it stays for as long as the cluster's data does.
    """

    def __init__(self, hub: ApiClient) -> None:
        self._hub = hub
        self._uid: str | None = None
        self._asking = asyncio.Lock()

    def forget(self) -> None:
        """Read it again at the next call: another hub may answer at the address by now."""
        self._uid = None

    async def uid(self) -> str:
        """Return the mark of this hub; empty where it may not be read. Raises TransportError.

        Without the mark Workloads are propagated as ever, but no object is removed that has lost
        its Workload, as it could be another hub's.
        """
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
