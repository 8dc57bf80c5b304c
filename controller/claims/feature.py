"""The common base of kinds that are claimed, and of plugins whose decisions take quota."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controller.claims.claims import HOLDER_LIMIT, ClaimIndex, SetForeign
from controller.claims.controller import ClaimController
from controller.framework.interface import CycleState
from controller.framework.runtime.feature import Feature
from controller.framework.runtime.handle import Handle, switched_off
from controller.framework.status import SUCCESS, Status, unschedulable
from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo
from machinery.types.api import Claim
from machinery.types.metadata import Key, Meta


class ClaimedKind(Feature):
    controller: ClaimController[Any]

    def __init__(self, set_foreign: SetForeign) -> None:
        self._set_foreign = set_foreign
        self._claims = ClaimIndex(set_foreign, holder="", clock=self.handle.clock)

    def attach(self, handle: Handle) -> None:
        super().attach(handle)
        self._claims = ClaimIndex(
            self._set_foreign, holder=handle.holder[:HOLDER_LIMIT], clock=handle.clock
        )

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        self.controller.touched(self._claims.show(old, new))

    def _look(self, meta: Meta, claims: Iterable[Claim]) -> None:
        self._claims.learn(meta, claims)
        self.controller.add(meta.key)

    def _forget(self, key: Key) -> None:
        self._claims.forget(key)
        self.controller.forget(key)


class ClaimsQuota:
    """Reserve and PreBind of a plugin whose decisions take quota (`QuotaWriter`).

    Without `claims`, as in a plan or an explanation, the plugin takes none.
    """

    name: str

    def __init__(self) -> None:
        self.claims: Feature | None = None

    @property
    def _epoch(self) -> str:
        return f"{self.name}/epoch"

    def closed(self) -> str:
        """Return why this process grants no quota at all, or empty."""
        closed = self.claims is not None and not self.claims.handle.controls(self.name)
        return switched_off(self.name) if closed else ""

    def reserve(
        self, state: CycleState, info: WorkloadInfo, _placements: Mapping[str, int]
    ) -> Status:
        if self.claims is not None:
            state.data[self._epoch] = self.claims.controller.epoch(info)
        return SUCCESS

    async def pre_bind(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        """Take the quota. If another scheduler was faster, the Workload is decided again."""
        claims, epoch = self.claims, state.data.get(self._epoch)
        if claims is None:
            return SUCCESS
        if claims.leading:
            granted = await claims.controller.claim(info, placements, epoch)
        else:  # where it is closed, PreFilter has refused every Workload that takes quota
            granted = bool(self.closed())
        return SUCCESS if granted else unschedulable(self.name)

    def unreserve(
        self, _state: CycleState, info: WorkloadInfo, _placements: Mapping[str, int]
    ) -> None:
        if self.claims is not None:
            self.claims.controller.withdraw(info)
