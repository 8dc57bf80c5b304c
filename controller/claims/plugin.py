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
        """Why no quota can be had here at all, in words; empty where it can."""

    def epoch(self, unit: WorkloadInfo) -> int | None:
        """The claims that a decision of this moment stands on; None where it takes no quota."""

    async def claim(
        self, unit: WorkloadInfo, placements: Mapping[str, int], epoch: int | None
    ) -> bool:
        """Take the quota of a decision of that epoch; False when it must be decided anew."""

    def withdraw(self, unit: WorkloadInfo) -> None:
        """The decision was not written: its quota is free again."""


class ClaimsQuota:
    """Reserve and PreBind of a plugin whose kind is claimed.

    Nothing is claimed without `claims`: in a plan, and by whoever only explains.
    """

    name: str

    def __init__(self) -> None:
        self.claims: Claims | None = None

    @property
    def _epoch(self) -> str:
        return f"{self.name}/epoch"

    def reserve(
        self, state: CycleState, unit: WorkloadInfo, _placements: Mapping[str, int]
    ) -> Status:
        """Note on which claims the decision stands: with newer ones it is made anew."""
        state.data[self._epoch] = self.claims.epoch(unit) if self.claims is not None else None
        return SUCCESS

    async def pre_bind(
        self, state: CycleState, unit: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        """Take the quota; where another scheduler was faster the Workload is decided anew."""
        epoch = state.data.get(self._epoch)
        if self.claims is None or await self.claims.claim(unit, placements, epoch):
            return SUCCESS
        return unschedulable(self.name)

    def unreserve(
        self, _state: CycleState, unit: WorkloadInfo, _placements: Mapping[str, int]
    ) -> None:
        """Give the quota back."""
        if self.claims is not None:
            self.claims.withdraw(unit)
