"""The identity of this hub. Every object on a member carries it, so that hubs can share a member.

The UID of the namespace kube-system is a cluster's identity by custom: the namespace exists from
the start, its UID cannot be chosen, and it stays for as long as the cluster's data does.
"""

from __future__ import annotations

import asyncio

from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES
from machinery.errors import Forbidden

LOG = logs.get(__name__)


class HubIdentity:
    """Reads the hub's identity once in a term, when it is needed first."""

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
