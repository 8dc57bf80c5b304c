"""A ControllerContext of which a test gives only the parts that are asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from propagator.members.views import ShareViews
from propagator.shards.membership import ONE_SHARD


class Context(SimpleNamespace):
    """Of a fleet of one shard."""

    membership = ONE_SHARD
    registry: Any = SimpleNamespace(pulls=False, get=lambda _: None)
    clusters = None

    @property
    def views(self) -> ShareViews:
        return ShareViews(self.registry, self.clusters, self.membership)  # type: ignore[arg-type] # what a test gives
