"""The common base of features whose kinds are claimed: the holder's name and the term's controller.

Every instance counts claims, so that a standby decides at once when its turn comes. Only the leader
writes the objects' statuses and claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.claims.claims import Claimed
from controller.claims.controller import ClaimController
from controller.claims.index import HOLDER_LIMIT, ClaimIndex, SetForeign
from controller.framework.runtime.handle import Handle, switched_off
from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo
from machinery.clock import SystemClock
from machinery.types.metadata import Key


class ClaimedKind:
    """The base of such a feature; `controller` is this term's, None unless we lead.

    `plugin` is the name by which `--controller-plugins` knows the feature.
    """

    def __init__(self, plugin: str, set_foreign: SetForeign) -> None:
        self._plugin = plugin
        self._set_foreign = set_foreign
        self.controller: ClaimController[Any] | None = None
        self._handle: Handle | None = None
        self._claims = ClaimIndex(set_foreign, holder="", clock=SystemClock())

    def attach(self, handle: Handle) -> None:
        """Start `ClaimIndex` with the name of this process as the holder."""
        self._handle = handle
        self._claims = ClaimIndex(
            self._set_foreign, holder=handle.holder[:HOLDER_LIMIT], clock=handle.clock
        )

    def stop_leading(self) -> None:
        """Stop writing and claiming at the end of the term."""
        self.controller = None

    def closed(self) -> str:
        """Return why this process grants no quota at all; empty where it does."""
        running = self._handle is None or self._handle.controls(self._plugin)
        return "" if running else switched_off(self._plugin)

    def epoch(self, info: WorkloadInfo) -> int | None:
        """Return the epoch, see `ClaimController.epoch`; None where this process does not lead."""
        return self.controller.epoch(info) if self.controller is not None else None

    async def claim(
        self, info: WorkloadInfo, placements: Mapping[str, int], epoch: int | None
    ) -> bool:
        """Claim as `ClaimController.claim` does; grant nothing where this process does not lead."""
        if self.controller is None:
            return bool(self.closed())  # PreFilter has refused every Workload that takes quota
        return await self.controller.claim(info, placements, epoch)

    def withdraw(self, info: WorkloadInfo) -> None:
        if self.controller is not None:
            self.controller.withdraw(info)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Handle an informer's event: the shares that a Workload shows end its claims."""
        claimed = self._claims.show(old, new)
        if self.controller is not None:
            self.controller.touched(claimed)

    def _look(self, stored: Claimed) -> None:
        self._claims.learn(stored)
        if self.controller is not None:
            self.controller.add(stored.metadata.key)

    def _forget(self, key: Key) -> None:
        self._claims.forget(key)
        if self.controller is not None:
            self.controller.forget(key)
