"""Changes that plugins at PreFilter make to a Workload's replicas: form and number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.model.place import Place
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason
from machinery.types.taints import Toleration


@dataclass(frozen=True, slots=True)
class Variant:
    """A replica as it is on some clusters.

    `rows` returns these, shape (n,), of a snapshot that a hook may have replaced. `tolerations` are
    for the clusters' own taints.
    """

    rows: Callable[[Snapshot], Mask]
    request: Mapping[str, int]
    place: Place
    tolerations: tuple[Toleration, ...]
    pod: bytes = b""
    """As `WorkloadInfo.pod`, with a patch laid over it."""


@dataclass(frozen=True, slots=True)
class PlacementLimit:
    """The replicas of a Workload that may be placed in all, including present ones.

    `reason` is the condition's if the limit is reached.
    """

    units: int
    plugin: str
    reason: ScheduledReason
