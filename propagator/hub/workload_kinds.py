"""WorkloadKinds in the propagator: what was read by a profile is read anew when it changes.

The Workloads of the kind are kept anew and reconciled, and its objects are listed again on each
member. Until then, nothing of them is reported as gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet

from machinery.api.resources import WORKLOAD_KINDS, group_of
from machinery.kinds.profile import kind_name
from machinery.kinds.table import GroupKind
from machinery.kinds.workloadkinds import Follower, Rereading, WorkloadKind
from machinery.runtime.informer import Informer
from machinery.tasks import Gradually
from machinery.types.metadata import Key
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.types.workload import Workload, read_anew


class HubKinds:
    """The term runs `informer`. `wake` queues a Workload on all of its clusters."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        workloads: HubWorkloads,
        wake: Callable[[Workload], None],
    ) -> None:
        self._registry = context.registry
        self._workloads = workloads.informer
        self._wake = wake
        self.informer: Informer[WorkloadKind] = Informer(
            context.hub, WORKLOAD_KINDS, WorkloadKind, clock=context.clock, comes_and_goes=True
        )
        follower = Follower(self.informer.values, self._profile_changed)
        self.informer.add_handler(follower.kind_changed)
        self._members: Gradually[tuple[str, str, str]] = Gradually(self._judge_anew)
        self.rereading = Rereading(self._workloads.values, self._read_anew)
        """While it is due, nothing is written: a Workload may still have its old profile."""

    def describing(self, kinds: AbstractSet[tuple[str, str]]) -> list[WorkloadKind]:
        """Return the WorkloadKinds of these (apiVersion, kind) pairs."""
        names = {kind_name(group_of(version), kind) for version, kind in kinds}
        found = (self.informer.get(("", name)) for name in names)
        return [each for each in found if each is not None]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._members.run())
            tasks.create_task(self.rereading.run())

    def _profile_changed(self, group: str, kind: str) -> None:
        names = self._registry.names()
        self._members.add(kind_name(group, kind), [(name, group, kind) for name in names])
        self.rereading.changed(group, kind)

    def _judge_anew(self, at: tuple[str, str, str]) -> None:
        name, group, kind = at
        session = self._registry.get(name)
        if session is not None and session.link is not None:
            session.link.watches.judge_anew(group, kind)

    def _read_anew(self, key: Key, changed: AbstractSet[GroupKind]) -> None:
        held = self._workloads.get(key)
        if held is None:
            return
        kinds = {*held.kinds(), *held.remembered()}  # an agent is told of both
        if changed.isdisjoint((group_of(version), kind) for version, kind in kinds):
            return
        now = read_anew(held)
        self._workloads.renew(now)
        self._wake(now)
