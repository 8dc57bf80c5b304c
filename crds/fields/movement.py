"""How a Workload moves: the user's budgets, what may return, and the words of its state.

A replica moves when something keeps it from its cluster: a NoExecute taint, a loss, a rebalance.
The budgets say how many replicas may be there twice, and how many may lack, on the way.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field
from pydantic.functional_validators import BeforeValidator
from pydantic.json_schema import WithJsonSchema
from pydantic_core import PydanticCustomError

from crds.base import PERCENT, Count, DnsName, Flag, Model, Moment, Rule, Timestamp

MOST_DISPLACED = 64
MOST_READY_SECONDS = 3600
LEAST_UNHEALTHY_SECONDS, MOST_UNHEALTHY_SECONDS = 30, 86400
MOST_CARRIED = 16
_MOST = 2**31 - 1
_LONGEST_PERCENT = 4


def _budget(given: Any) -> Any:
    number = isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= _MOST
    if not (number or (isinstance(given, str) and re.fullmatch(PERCENT, given))):
        told = 'not a number of units; write it as 2, or in whole percents from "0%" to "100%"'
        raise PydanticCustomError("budget", told)
    return given


Budget = Annotated[
    int | str,
    BeforeValidator(_budget),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "minimum": 0,
            "maximum": _MOST,
            "pattern": PERCENT,
            "maxLength": _LONGEST_PERCENT,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A number of replicas, or whole percents of those wanted."""


def _nothing(given: int | str | None) -> bool:
    return given is not None and not int(str(given).removesuffix("%"))


def _cel_nothing(field: str) -> str:
    text = f"self.{field}.matches('^0+%$')"
    return f"(type(self.{field}) == int ? self.{field} == 0 : {text})"


class MovingReason(StrEnum):
    """Reasons of Moving: the first one where it is True, the others where it is not."""

    MOVING = "Moving"
    """Replicas are on their way; the message counts them."""
    SETTLED = "Settled"
    """No replica is on its way."""
    NO_ROOM = "NoRoom"
    """No cluster takes the replicas that should leave; they stay where they are."""
    DISRUPTION_BUDGET = "DisruptionBudget"
    """A PodDisruptionBudget of a member lets none of its pods go."""
    AWAITING_FENCING = "AwaitingFencing"
    """It runs at most once, on a lost cluster: a person has to say that nothing runs there."""
    BRAKED = "Braked"
    """Too many clusters are lost at once."""
    FLEET_BUDGET = "FleetBudget"
    """As many replicas of the fleet move as may."""
    UNKNOWN_KIND = "UnknownKind"
    """Nothing says when its kind is ready, ends, or may run twice: it stays where it runs, unless
    its author writes spec.movement.maxSurge."""
    SUSPENDED = "Suspended"
    """spec.suspend names the cluster, and gives nothing to a move."""
    NOT_READY_THERE = "NotReadyThere"
    """The new replicas do not become ready."""
    HOLDS_DATA = "HoldsData"
    """Its replicas have claims where they are, and spec.movement.data lets none go without."""
    UNHEALTHY_EVERYWHERE = "UnhealthyEverywhere"
    """It is unhealthy on more than half of its clusters, so that a move would heal nothing."""


class MovedData(StrEnum):
    """What becomes of replicas whose data stays behind when they move."""

    HOLD = "Hold"
    """They stay with it."""
    LEAVE = "Leave"
    """They go, and begin with empty claims."""


class Movement(Model):
    """The budgets of a move."""

    rules = (
        Rule(
            field="maxUnavailable",
            text="must not be 0 where maxSurge is 0 too, as nothing could ever move: raise one",
            cel="!has(self.maxSurge) || !has(self.maxUnavailable)"
            f" || !{_cel_nothing('maxSurge')} || !{_cel_nothing('maxUnavailable')}",
            holds=lambda m: not (_nothing(m.max_surge) and _nothing(m.max_unavailable)),
        ),
    )

    max_surge: Budget | None = None
    """Replicas beyond those wanted in a move; percents are rounded up. 0: each runs at most once.

    Without it 25%; 0 for a StatefulSet, a Job, a CronJob and a Deployment of strategy Recreate."""
    max_unavailable: Budget | None = None
    """Ready replicas below those wanted that moving may cause; percents are rounded down.

    Without it 0; 1 for the kinds of which maxSurge is 0."""
    min_ready_seconds: Annotated[
        int,
        Field(strict=True, ge=0, le=MOST_READY_SECONDS, json_schema_extra={"format": "int32"}),
    ] = 0
    """For so long must a new replica have been ready before an old one goes."""
    returns: Flag = True
    """Whether moved replicas go back once their cluster may be used again."""
    data: MovedData = MovedData.HOLD
    """Hold: replicas with claims of their own stay where these are. Leave: they go without."""
    rebalance_after: Moment | None = None
    """Placements that were decided before this are planned anew, once."""
    unhealthy_seconds: (
        Annotated[
            int,
            Field(
                strict=True,
                ge=LEAST_UNHEALTHY_SECONDS,
                le=MOST_UNHEALTHY_SECONDS,
                json_schema_extra={"format": "int32"},
            ),
        ]
        | None
    ) = None
    """For so long must a share have been unhealthy, after it was ready, before its replicas leave.

    Without it no replica leaves for its health."""
    carry: Annotated[
        list[Annotated[str, Field(max_length=63)]],
        Field(max_length=MOST_CARRIED, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = Field(default_factory=list)
    """The names of those statusFields whose values on a cluster that is left are kept in
    status.carried."""


class DisplacedShare(Model):
    """Replicas that were moved away from a cluster and may return to it."""

    cluster: DnsName
    """The MemberCluster's name."""
    replicas: Count
    """How many."""
    cause: Annotated[str, Field(max_length=64)] = ""
    """What moved them, as in `history`."""
    time: Timestamp
    """When they were moved."""
