"""A hook that no package offers, in a module that only names the framework."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controller.framework.runtime.handle import Handle
from controller.model.unit import WorkloadInfo


class Anywhere:
    """A hook: no clusterSelector."""

    name = "Anywhere"

    def __init__(self, _args: Any, _handle: Handle) -> None:
        """A plugin without arguments."""

    def before_pre_filter(
        self, _state: Any, info: WorkloadInfo, _snapshot: Any, _bound: Any
    ) -> tuple[WorkloadInfo, bool]:
        """A copy."""
        return replace(info, cluster_selector={}), True
