"""What plugins at PreFilter say of a Workload's replicas: what they are, and how many may be."""

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

    `rows` returns which ones, shape (n,), of a given snapshot, as a hook may have replaced it. The
    other fields stand for those of the Workload; `tolerations` are of the clusters' own taints.
    """

    rows: Callable[[Snapshot], Mask]
    request: Mapping[str, int]
    place: Place
    tolerations: tuple[Toleration, ...]
    pod: bytes = b""
    """The skeleton of its pods, for a patch that is laid over them; as `WorkloadInfo.pod`."""


@dataclass(frozen=True, slots=True)
class PlacementLimit:
    """The replicas of a Workload that may have clusters, all together, present ones included.

    `plugin` set the limit, and `reason` is the condition's where fewer are placed than are wanted.
    """

    units: int
    plugin: str
    reason: ScheduledReason
