"""A ControllerContext of which a test gives only the parts that are asked."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from propagator.members.views import ShareViews
from propagator.shards.membership import ONE_SHARD
from propagator.shares import ShareTable


class Context(SimpleNamespace):
    """Of a fleet of one shard."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**{"shares": ShareTable()} | parts)

    membership = ONE_SHARD
    registry: Any = SimpleNamespace(pulls=False, get=lambda _: None)
    clusters = None

    @property
    def views(self) -> ShareViews:
        return ShareViews(self.registry, self.clusters, self.membership)  # type: ignore[arg-type] # what a test gives


class OneWorkload:
    """As much of `HubWorkloads` as the reconciler asks."""

    def __init__(self, found: Any, *formerly: str) -> None:
        self._found, self._formerly = found, formerly

    async def whole(self, _key: Any, _uids: Any) -> Any:
        return self._found

    def formerly(self, _name: str) -> Sequence[str]:
        return self._formerly
