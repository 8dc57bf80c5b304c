"""WorkloadQuota: bounds on the Workloads and Reservations of a namespace over all clusters.

RBAC says who may write the spec: as a rule not the tenant. The whole status has one
writer, the controller; schedulers of several names share a quota through `status.claims`, as they
do a WorkloadPolicy. `crds/workloadquota.yaml` is generated from this module.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from crds.base import Condition, Int64, Kind, Model, Resources, Rule, amounts, atomic, listmap
from crds.fields.claims import MOST_CLAIMS, Claim

UNITS = "units"
RESERVATIONS = "reservations"
MOST_HARD = 32
HARD_NAME = (
    r"^(units|reservations|requests\."
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$"
)
MOST_LEFT = 512
MOST_DIGITS = 18
"""A number of replicas beyond that is no quota."""
_WHOLE = rf"^[0-9]{{1,{MOST_DIGITS}}}$"


class QuotaCondition(StrEnum):
    """The condition types of a WorkloadQuota."""

    READY = "Ready"
    """Whether the quota counts."""


class QuotaReadyReason(StrEnum):
    """Reasons of Ready. VALID is the one that is good."""

    VALID = "Valid"
    """The spec can be used."""
    INVALID_QUOTA = "InvalidQuota"
    """The spec is one that admission refuses; the message names the field."""


def _named(part: Any) -> bool:
    return all(re.fullmatch(HARD_NAME, name) for name in part.hard)


def _whole(part: Any) -> bool:
    given = (part.hard.get(name, 0) for name in (UNITS, RESERVATIONS))
    return all(isinstance(n, int) or re.fullmatch(_WHOLE, n) for n in given)


def _cel_whole(name: str) -> str:
    each = f"self.hard['{name}']"
    text = f"type({each}) == int || string({each}).matches('{_WHOLE}')"
    return f"(!('{name}' in self.hard) || {text})"


class WorkloadQuotaSpec(Model):
    """The amounts."""

    rules = (
        Rule(
            field="hard",
            text="names are units, reservations and requests.<resource>, as requests.cpu",
            cel=f"self.hard.all(k, k.matches('{HARD_NAME}'))".replace("\\", "\\\\"),
            holds=_named,
        ),
        Rule(
            field="hard",
            text="units and reservations are whole numbers",
            cel=f"{_cel_whole(UNITS)} && {_cel_whole(RESERVATIONS)}",
            holds=_whole,
        ),
        amounts("hard"),
    )

    hard: Annotated[Resources, Field(min_length=1, max_length=MOST_HARD)]
    """The most over all clusters: `units`, `reservations`, `requests.cpu`, `requests.memory`, …"""


class LeftAmounts(Model):
    """What a Workload leaves on its clusters, running, when it is deleted."""

    workload: Annotated[str, Field(max_length=253)]
    """Its name; empty for the sum of many that are gone."""
    uid: Annotated[str, Field(max_length=64)]
    """The Workload's UID; of the sum of many that are gone, the UID of one of them."""
    amounts: Resources
    """The replicas, and what their pods ask for."""


class WorkloadQuotaStatus(Model):
    """The used part of the quota. Writer of every field: controller."""

    observed_generation: Int64 | None = None
    """The metadata.generation that this was said about. Writer: controller."""
    conditions: list[Condition] = listmap("type", most=32)
    """Ready; Reconciling or Stalled while that is not True. Writer: controller."""
    hard: Annotated[Resources, Field(max_length=MOST_HARD)] = Field(default_factory=dict)
    """The amounts that hold. Writer: controller."""
    used: Annotated[Resources, Field(max_length=MOST_HARD)] = Field(default_factory=dict)
    """Placed replicas, and the room that Reservations of the namespace hold; a replica inside its
    Reservation counts once. Writer: controller."""
    left: list[LeftAmounts] = atomic(MOST_LEFT)
    """What deleted Workloads left, by `onDelete: Orphan` and the annotation `stowage.dev/keep`; it
    counts until `stowage.dev/released` names the UID. Workloads that would leave something are
    listed while they live, and count as themselves. In the oldest quota of a namespace alone.
    Writer: controller."""
    claims: list[Claim] = atomic(MOST_CLAIMS)
    """Quota taken and not seen as placements by everybody yet. Writer: controller."""


class WorkloadQuota(Kind):
    """Bounds on what the Workloads and Reservations of its namespace take over all clusters."""

    plural = "workloadquotas"
    short = "wq"
    columns = (
        ("Hard", "string", ".spec.hard", 0),
        ("Used", "string", ".status.used", 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
        ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 1),
    )

    api_version: Literal["stowage.dev/v1alpha1"] = "stowage.dev/v1alpha1"
    kind: Literal["WorkloadQuota"] = "WorkloadQuota"
    spec: WorkloadQuotaSpec
    """The amounts."""
    status: WorkloadQuotaStatus | None = None
    """The used part of the quota."""
