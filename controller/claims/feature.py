"""The common base of features whose kinds are claimed: the holder's name and the term's controller.

Every instance counts claims, so that a standby decides at once when its turn comes. Only the leader
writes the objects' statuses and claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controller.claims.claims import Claim
from controller.claims.controller import ClaimController
from controller.claims.index import HOLDER_LIMIT, ClaimIndex, SetForeign
from controller.framework.runtime.feature import Feature
from controller.framework.runtime.handle import Handle, switched_off
from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo
from machinery.types.metadata import Key, Meta


class ClaimedKind(Feature):
    """The base of such a feature; `plugin` is its name for `--controller-plugins`."""

    controller: ClaimController[Any]

    def __init__(self, plugin: str, set_foreign: SetForeign) -> None:
        self._plugin = plugin
        self._set_foreign = set_foreign
        self._claims = ClaimIndex(set_foreign, holder="", clock=self.handle.clock)

    def attach(self, handle: Handle) -> None:
        """Start `ClaimIndex` with the name of this process as the holder."""
        super().attach(handle)
        self._claims = ClaimIndex(
            self._set_foreign, holder=handle.holder[:HOLDER_LIMIT], clock=handle.clock
        )

    def closed(self) -> str:
        """Return why this process grants no quota at all; empty where it does."""
        return "" if self.handle.controls(self._plugin) else switched_off(self._plugin)

    def epoch(self, info: WorkloadInfo) -> int | None:
        """Return the epoch, see `ClaimController.epoch`; None where this process does not lead."""
        return self.controller.epoch(info)

    async def claim(
        self, info: WorkloadInfo, placements: Mapping[str, int], epoch: int | None
    ) -> bool:
        """Claim as `ClaimController.claim` does; grant nothing where this process does not lead."""
        if not self.leading:
            return bool(self.closed())  # PreFilter has refused every Workload that takes quota
        return await self.controller.claim(info, placements, epoch)

    def withdraw(self, info: WorkloadInfo) -> None:
        self.controller.withdraw(info)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Handle an informer's event: the shares that a Workload shows end its claims."""
        self.controller.touched(self._claims.show(old, new))

    def _look(self, meta: Meta, claims: Iterable[Claim]) -> None:
        self._claims.learn(meta, claims)
        self.controller.add(meta.key)

    def _forget(self, key: Key) -> None:
        self._claims.forget(key)
        self.controller.forget(key)
