"""The staged rollout of a Workload as the controller reads it: its pace, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from machinery.types.api import RevisionException, Rollout, RolloutStatus


@dataclass(frozen=True)
class RolloutState:
    """What a Workload says of its rollout: spec.rollout, and two fields of its status as stored.

    These are raw, as most readers only ask whether there is a rollout, and decoded once for those
    that ask more. Of a status of another form each of the properties raises ValidationError.
    """

    spec: Rollout | None
    rollout: Any = None
    revisions: Any = None

    @cached_property
    def stored(self) -> RolloutStatus | None:
        """status.rollout; None without."""
        return None if self.rollout is None else msgspec.convert(self.rollout, RolloutStatus)

    @cached_property
    def listed(self) -> list[RevisionException]:
        """status.revisions."""
        return msgspec.convert(self.revisions or [], list[RevisionException])

    @cached_property
    def exceptions(self) -> Mapping[str, str]:
        """The same by cluster."""
        return {cluster: each.revision for each in self.listed for cluster in each.clusters}


def rollout_state(spec: Rollout | None, rollout: Any, revisions: Any) -> RolloutState | None:
    """Return what an object says; None where it says nothing of a rollout, as most."""
    if spec is None and rollout is None and not revisions:
        return None
    return RolloutState(spec, rollout, revisions)
