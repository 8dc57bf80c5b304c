"""The plugin's half of a claim: taken before a decision is written, given back when it is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from controller.framework.interface import CycleState
from controller.framework.status import SUCCESS, Status, unschedulable
from controller.model.unit import WorkloadInfo


class Claims(Protocol):
    """Takes quota for decisions before they are written."""

    def closed(self) -> str:
        """Return why no quota can be claimed at all, in words; empty where it can."""

    def epoch(self, info: WorkloadInfo) -> int | None:
        """Return the epoch of a decision made now; None where the Workload takes no quota."""

    async def claim(
        self, info: WorkloadInfo, placements: Mapping[str, int], epoch: int | None
    ) -> bool:
        """Take the quota of a decision of that epoch; False means to decide again."""

    def withdraw(self, info: WorkloadInfo) -> None:
        """Release the quota of a decision that was not written."""


class ClaimsQuota:
    """Reserve and PreBind of a plugin whose kind is claimed.

    Without `claims` the plugin claims nothing: in a plan or an explanation.
    """

    name: str

    def __init__(self) -> None:
        self.claims: Claims | None = None

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
