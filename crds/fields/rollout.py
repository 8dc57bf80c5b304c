"""Staged rollout: a change of the template goes from wave to wave of clusters.

A revision is what makes pods: the template, what goes along with it, and the overrides. Old ones
are kept on the hub as ControllerRevisions (`machinery.kinds.revisions`).
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field
from pydantic.functional_validators import BeforeValidator
from pydantic.json_schema import WithJsonSchema
from pydantic_core import PydanticCustomError

from crds.base import Count, DnsLabel, DnsName, Flag, Instant, Model, Moment, Rule, atomic
from crds.fields.labels import ClusterSelector

REVISION_FIELDS: Final = (
    "template",
    "replicasPath",
    "targetDeployment",
    "targetService",
    "manifests",
    "overrides",
)
"""The fields of a spec that a revision consists of."""
MOST_WAVES = 16
MOST_APPROVALS = 16
MOST_NAMES = 10
"""Clusters of one wave that a list of the status names."""
REST = "rest"
"""The wave of the clusters that no other wave takes."""
_MOST_SECONDS = 86400
_MOST = 2**31 - 1
_PERCENT = "^(100|0?[1-9][0-9]?|0?0[1-9])%$"
_LONGEST_PERCENT = 4


class RolloutFailure(StrEnum):
    """spec.rollout.onFailure: the answer to a cluster that does not become healthy."""

    PAUSE = "Pause"
    ROLLBACK = "Rollback"


class RolloutPhase(StrEnum):
    """status.rollout.phase: how far the rollout of the spec's revision has come."""

    COMPLETE = "Complete"
    PROGRESSING = "Progressing"
    SOAKING = "Soaking"
    AWAITING_APPROVAL = "AwaitingApproval"
    PAUSED = "Paused"
    FAILED = "Failed"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"


BACK: Final = frozenset({RolloutPhase.ROLLING_BACK, RolloutPhase.ROLLED_BACK})
"""The phases of a revision that was given up."""


class RolledOutReason(StrEnum):
    """Reasons of RolledOut. COMPLETE is the one that is good."""

    COMPLETE = "Complete"
    """All clusters run the spec's revision."""
    PROGRESSING = "Progressing"
    """Clusters of a wave get the new revision."""
    SOAKING = "Soaking"
    """The clusters of a wave are ready, and stay so for `soakSeconds` before the next wave."""
    AWAITING_APPROVAL = "AwaitingApproval"
    """The next wave waits for `stowage rollout approve`."""
    PAUSED = "Paused"
    """`spec.rollout.paused` is true."""
    HEALTH_CHECK_FAILED = "HealthCheckFailed"
    """A cluster did not become healthy in time; the message names it and what its pods say."""
    ROLLED_BACK = "RolledBack"
    """The stable revision is back, or on its way back."""
    REVISION_LOST = "RevisionLost"
    """A ControllerRevision that is needed is gone, or is not what it was."""


def _concurrency(given: Any) -> Any:
    number = isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= _MOST
    if not (number or (isinstance(given, str) and re.fullmatch(_PERCENT, given))):
        told = 'not a number of clusters; write it as 2, or in whole percents from "1%" to "100%"'
        raise PydanticCustomError("concurrency", told)
    return given


Concurrency = Annotated[
    int | str,
    BeforeValidator(_concurrency),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "minimum": 1,
            "maximum": _MOST,
            "pattern": _PERCENT,
            "maxLength": _LONGEST_PERCENT,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A number of clusters, or whole percents of those of the wave."""
Revision = Annotated[str, Field(pattern="^[0-9a-f]{16}$", max_length=16)]
"""The digest of a revision: 16 hexadecimal digits."""


class RolloutWave(Model):
    """Clusters that get a new revision before those of later waves do."""

    rules = (
        Rule(
            field="name",
            text=f"{REST} is the last wave, of what no other one takes; choose another name",
            cel=f"self.name != '{REST}'",
            holds=lambda w: w.name != REST,
        ),
    )

    name: DnsLabel
    """Its name, by which approvals and the status call it."""
    cluster_selector: ClusterSelector
    """The MemberClusters, by their labels; the first wave that takes a cluster counts."""
    max_concurrent: Concurrency = 1
    """Clusters that are updated at once; percents are rounded up."""
    soak_seconds: Annotated[
        int, Field(strict=True, ge=0, le=_MOST_SECONDS, json_schema_extra={"format": "int32"})
    ] = 0
    """Between the moment when its last cluster is healthy and the next wave."""
    approval: Flag = False
    """Whether the next wave waits for an approval of this one."""


class RolloutApproval(Model):
    """Leave to go on after a wave. Who adds one needs the verb `approve` on workloads."""

    revision: Revision
    """The revision that is approved, and no other."""
    wave: DnsLabel
    """The wave after which it goes on."""


class Rollout(Model):
    """The pace at which a new revision comes to the clusters."""

    rules = (
        Rule(
            field="waves",
            text="only one element with each name",
            cel="self.waves.all(w, self.waves.exists_one(o, o.name == w.name))",
            holds=lambda r: len({w.name for w in r.waves}) == len(r.waves),
        ),
    )

    waves: Annotated[
        list[RolloutWave],
        Field(
            min_length=1,
            max_length=MOST_WAVES,
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ]
    """In their order. Clusters that none of them takes are a last wave of the name rest."""
    min_ready_seconds: Annotated[
        int, Field(strict=True, ge=0, le=3600, json_schema_extra={"format": "int32"})
    ] = 0
    """For so long must all replicas of a cluster be updated and ready before it is healthy."""
    progress_deadline_seconds: Annotated[
        int, Field(strict=True, ge=1, le=_MOST_SECONDS, json_schema_extra={"format": "int32"})
    ] = 600
    """Within so long must a cluster be healthy; progress does not begin the time anew."""
    on_failure: RolloutFailure = RolloutFailure.PAUSE
    """Pause starts no further cluster; Rollback brings the stable revision back everywhere."""
    paused: Flag = False
    """Whether no further cluster is started."""
    approvals: list[RolloutApproval] = atomic(MOST_APPROVALS)
    """As `stowage rollout approve` writes them."""
    aborted: Revision | None = None
    """The revision that is given up for the stable one, as `stowage rollout abort` writes it."""
    retry_after: Annotated[Moment, datetime] | None = None
    """Clusters that failed before this begin anew, as `stowage rollout retry` writes it."""


class WaveStatus(Model):
    """How far one wave has come."""

    name: DnsLabel
    """Its name."""
    clusters: Count = 0
    """The clusters of it that hold a share."""
    healthy: Count = 0
    """Of them, those that run the revision and are healthy."""
    updating: list[DnsName] = atomic(MOST_NAMES)
    """Those that are being updated, at most 10."""
    failed: list[DnsName] = atomic(MOST_NAMES)
    """Those that did not become healthy in time, at most 10."""
    deferred: list[DnsName] = atomic(MOST_NAMES)
    """Those that do not answer and are not waited for, at most 10."""
    start_time: Instant | None = None
    """When its first cluster was started."""
    end_time: Instant | None = None
    """When its last cluster was healthy; soaking begins then."""


class ClusterUpdate(Model):
    """A cluster that has been given a revision and was not healthy with it yet, or failed."""

    cluster: DnsName
    """The MemberCluster's name."""
    start_time: Instant | None = None
    """When it was given the revision; unset while it does not answer, and until the controller has
    looked at it after a decision placed it there. Its deadline runs from then on."""
    ready_time: Instant | None = None
    """Since when all of its replicas are updated and ready."""
    failed_time: Instant | None = None
    """When it had not become healthy in time."""


class RolloutStatus(Model):
    """The rollout of the spec's revision. Writer: controller."""

    phase: RolloutPhase
    """How far it has come."""
    revision: Revision
    """What is rolled out."""
    stable: Revision | None = None
    """The last revision that was on all clusters."""
    wave: DnsLabel | None = None
    """The wave that is updated, soaks or awaits its approval."""
    waves: list[WaveStatus] = atomic(MOST_WAVES + 1)
    """Each wave, in their order; at rest none."""
    updates: list[ClusterUpdate] = atomic(10000)
    """The clusters on their way."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """What it waits for."""


class RevisionException(Model):
    """Clusters that do not get the revision of status.rollout."""

    revision: Revision
    """The revision that they get, of a ControllerRevision."""
    clusters: Annotated[
        list[DnsName],
        Field(max_length=10000, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ]
    """The MemberClusters' names."""
