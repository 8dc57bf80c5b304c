"""The hub's Workloads: seen through one informer, and changed by three writes, all of them here.

Every write is made on top of the version that was read, so that a lost race is computed again, and
right before it the lease is looked at. What an answer tells is in the informer before the watch
brings it: the next look already sees our own write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from crds.names import FINALIZER
from machinery.errors import NotFound
from machinery.informer import Informer
from machinery.objects import Key
from machinery.resources import WORKLOADS
from propagator.marks import is_ours, missing
from propagator.model import Workload
from propagator.term import Ground

CLUSTER_INDEX = "cluster"
"""The informer's index of Workloads by the clusters that they are, or were, on."""
SECRET_INDEX = "secret"  # noqa: S105 - the name of an index
"""The informer's index of Workloads by the Secrets that travel along, `namespace/name`."""


class HubWorkloads:
    """Reads by `informer`, which the term runs; writes by the methods, which raise LeaseLost."""

    def __init__(self, ground: Ground) -> None:
        self._hub = ground.hub
        self._check = ground.check
        self._preparing: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self.informer: Informer[Workload] = Informer(
            ground.hub, WORKLOADS, Workload, clock=ground.clock
        )
        self.informer.add_index(CLUSTER_INDEX, clusters_of)
        self.informer.add_index(SECRET_INDEX, _secrets_of)

    async def prepare(self, workload: Workload) -> Workload:
        """Before the first write to any member: the finalizer, the kinds, the first ordinals.

        One write on top of the version that was read; a Workload that has it all costs nothing.
        Raises TransportError, Conflict when it was changed meanwhile.
        """
        async with self._preparing.setdefault(workload.metadata.key, asyncio.Lock()):
            now = self.informer.get(workload.metadata.key)
            workload = now if now is not None and now.uid == workload.uid else workload
            metadata = missing(workload)
            if not metadata:
                return workload
            return self._held(await self._patch(workload, {"metadata": metadata}))

    async def tell(self, workload: Workload, status: Mapping[str, Any]) -> bool:
        """Write these fields of its status; False when there is no such Workload any more."""
        with suppress(NotFound):
            self._held(await self._patch(workload, {"status": status}, subresource="status"))
            return True
        return False

    async def release(self, workload: Workload) -> None:
        """Let the deletion of a Workload come to its end.

        The answer is not held: the Workload may have gone with it.
        """
        if is_ours(workload):
            rest = [each for each in workload.metadata.finalizers if each != FINALIZER]
            with suppress(NotFound):
                await self._patch(workload, {"metadata": {"finalizers": rest}})

    async def _patch(
        self,
        workload: Workload,
        patch: Mapping[str, Mapping[str, Any]],
        *,
        subresource: str | None = None,
    ) -> Mapping[str, Any]:
        version = {"resourceVersion": workload.metadata.resource_version}
        metadata = {**patch.get("metadata", {}), **version}
        namespace, name = workload.metadata.key
        self._check()
        return await self._hub.merge_patch(
            WORKLOADS,
            name,
            {**patch, "metadata": metadata},
            namespace=namespace,
            subresource=subresource,
        )

    def _held(self, answer: Mapping[str, Any]) -> Workload:
        workload = msgspec.convert(answer, Workload)
        self.informer.upsert(workload)
        return workload


def clusters_of(workload: Workload) -> set[str]:
    """The clusters that it is placed on, and those that it was said to be on."""
    return {*workload.placements, *(share["name"] for share in workload.status.clusters)}


def _secrets_of(workload: Workload) -> list[str]:
    return [f"{workload.metadata.namespace}/{name}" for name in workload.secrets]
