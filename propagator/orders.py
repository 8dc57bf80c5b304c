"""What the hub orders of one member for one Workload (Share), and what that answers (ShareReport).

A Share is all that the member side (`share_applier`) knows of the decision, so it may run
elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crds.assignment import AssignmentOrder
from crds.fields.dependencies import DependencyState
from propagator.apply.render import Piece
from propagator.errors import Refused
from propagator.outcome import DesiredShare, Outcome
from propagator.removal.prune import PruneResult
from propagator.removal.rule import NOTHING_TO_TELL
from propagator.types.workload import Workload, WorkTold


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    order: AssignmentOrder
    workload: Workload
    """As the member gets it: whose objects these are, and by which rules they are written."""
    desired: DesiredShare
    replicas: int = 0
    """What the main object asks for now: the guard and `at_most_once` may differ from the wish."""
    pieces: Sequence[Piece] = ()
    """Every object of APPLY; the main one is last."""
    absent: Mapping[tuple[str, str], DependencyState] = field(default_factory=dict)
    """(kind, name) of what pods name that does not go along: Missing or Refused."""
    decided: float
    """A version of the hub that is no younger than the decision; see `removal.rule`."""
    orphan: bool | None
    """Whether an ended Workload leaves its objects there; None: the objects tell."""
    left: bool
    """Whether the share has left this member for others."""
    told: WorkTold = NOTHING_TO_TELL
    """What the hub knows of the work that is done there; see `removal.rule`."""
    forced: bool = False
    """Whether it is lowered whatever the disruption budgets there say."""
    accepted: bool = False
    """Whether the Workload was edited or accepted since the hub was restored or set back."""


@dataclass(frozen=True, slots=True)
class ShareReport:
    outcome: Outcome
    requeue_after: float | None = None
    """Seconds until the order is to be repeated; None for never."""
    waiting: PruneResult | None = None
    """Removals that are under way, or refused."""
    obstacle: Refused | None = None
    """Of REMOVE: why objects may remain."""
    stays: bool = False
    """Of REMOVE: whether some are kept by a rule."""
