"""The staged rollout of a Workload as the controller reads it: its pace, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from machinery.types.selectors import LabelSelector


class RolloutWave(msgspec.Struct, frozen=True, rename="camel"):
    """Clusters that get a revision before those of later waves do."""

    name: str
    cluster_selector: LabelSelector = LabelSelector()
    max_concurrent: int | str = 1
    soak_seconds: int = 0
    approval: bool = False


class RolloutApproval(msgspec.Struct, frozen=True):
    """Leave to go on after a wave."""

    revision: str
    wave: str


class Rollout(msgspec.Struct, frozen=True, rename="camel"):
    """spec.rollout."""

    waves: list[RolloutWave] = []
    min_ready_seconds: int = 0
    progress_deadline_seconds: int = 600
    on_failure: str = "Pause"
    paused: bool = False
    approvals: list[RolloutApproval] = []
    aborted: str = ""
    retry_after: datetime | None = None


class WaveStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How far one wave has come; of the names at most 10 each."""

    name: str
    clusters: int = 0
    healthy: int = 0
    updating: list[str] = []
    failed: list[str] = []
    deferred: list[str] = []
    start_time: datetime | None = None
    end_time: datetime | None = None


class ClusterUpdate(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A cluster that has been given the revision and was not healthy with it yet, or failed."""

    cluster: str
    start_time: datetime | None = None
    """None where its time does not run: it does not answer, or a decision has just placed it."""
    ready_time: datetime | None = None
    failed_time: datetime | None = None


class RolloutStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """status.rollout."""

    phase: str
    revision: str
    stable: str = ""
    wave: str = ""
    waves: list[WaveStatus] = []
    updates: list[ClusterUpdate] = []
    message: str = ""


class RevisionException(msgspec.Struct, frozen=True):
    """Clusters that get another revision than that of the rollout."""

    revision: str
    clusters: list[str]


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
