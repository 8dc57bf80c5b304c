"""The plugin's half of a claim: taken before a decision is written, given back when it is not."""

from __future__ import annotations

from collections.abc import Mapping

from controller.claims.feature import ClaimedKind
from controller.framework.interface import CycleState
from controller.framework.status import SUCCESS, Status, unschedulable
from controller.model.unit import WorkloadInfo


class ClaimsQuota:
    """Reserve and PreBind of a plugin whose kind is claimed.

    Without `claims` the plugin claims nothing: in a plan or an explanation.
    """

    name: str

    def __init__(self) -> None:
        self.claims: ClaimedKind | None = None

    @property
    def _epoch(self) -> str:
        return f"{self.name}/epoch"

    def reserve(
        self, state: CycleState, info: WorkloadInfo, _placements: Mapping[str, int]
    ) -> Status:
        """Record the epoch of the decision: newer claims invalidate it."""
        state.data[self._epoch] = self.claims.epoch(info) if self.claims is not None else None
        return SUCCESS

    async def pre_bind(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        """Take the quota; where another scheduler was faster the Workload is decided again."""
        epoch = state.data.get(self._epoch)
        if self.claims is None or await self.claims.claim(info, placements, epoch):
            return SUCCESS
        return unschedulable(self.name)

    def unreserve(
        self, _state: CycleState, info: WorkloadInfo, _placements: Mapping[str, int]
    ) -> None:
        if self.claims is not None:
            self.claims.withdraw(info)
