"""The staged rollout of a Workload as the controller reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from machinery.types.workload_api import RevisionException, Rollout, RolloutStatus


@dataclass(frozen=True)
class RolloutState:
    """spec.rollout, and two raw fields of the status, decoded once when needed.

    The properties raise ValidationError for a malformed status.
    """

    spec: Rollout | None
    rollout: Any = None
    revisions: Any = None

    @cached_property
    def stored(self) -> RolloutStatus | None:
        return None if self.rollout is None else msgspec.convert(self.rollout, RolloutStatus)

    @cached_property
    def listed(self) -> list[RevisionException]:
        return msgspec.convert(self.revisions or [], list[RevisionException])

    @cached_property
    def exceptions(self) -> Mapping[str, str]:
        """`listed` by cluster."""
        return {cluster: each.revision for each in self.listed for cluster in each.clusters}


def rollout_state(spec: Rollout | None, rollout: Any, revisions: Any) -> RolloutState | None:
    """Return the state of an object; None without a rollout."""
    if spec is None and rollout is None and not revisions:
        return None
    return RolloutState(spec, rollout, revisions)
