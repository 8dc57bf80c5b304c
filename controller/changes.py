"""What a change of one object could mean for the others: which of those that wait may have hope.

Pure: two versions of an object in, kinds of change out. What only got worse for everybody is no
change at all: it wakes nobody.
"""

from __future__ import annotations

import msgspec

from controller.model import MemberCluster, NodeGroup, Workload
from controller.queue import Change
from machinery import quantities


def edited(old: Workload | None, new: Workload) -> bool:
    """Whether something changed, shares apart, that a decision of its own depends on."""
    return (
        old is None
        or old.metadata.generation != new.metadata.generation
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
    )


def effect(old: Workload | None, new: Workload) -> Change:
    """What a change of one Workload could mean for others."""
    before, after = old.placements if old else {}, new.placements
    labels = old.unit.labels if old else new.unit.labels
    change = Change.NOTHING
    if before.keys() != after.keys() or (after and labels != new.unit.labels):
        change |= Change.WORKLOADS
    if any(after.get(cluster, 0) < units for cluster, units in before.items()):
        change |= Change.CLUSTER_ROOM
    return change


def difference(old: MemberCluster | None, new: MemberCluster) -> Change:
    """What changed on a cluster in a way that could help somebody."""
    if old is None:
        return Change.CLUSTER_ADDED
    change = Change.NOTHING
    told, tells = old.status, new.status
    if old.metadata.labels != new.metadata.labels or (told.version, told.provider) != (
        tells.version,
        tells.provider,
    ):
        change |= Change.CLUSTER_LABELS
    if old.spec != new.spec:
        change |= Change.CLUSTER_RULES
    if new.ready and not old.ready:
        change |= Change.CLUSTER_READY
    if told.node_groups != tells.node_groups and _roomier(told.node_groups, tells.node_groups):
        change |= Change.CLUSTER_ROOM
    return change


def _roomier(before: list[NodeGroup], after: list[NodeGroup]) -> bool:
    """Whether a unit might fit now that did not: more in sum, or more in one piece, or new nodes.

    Nodes with other labels or taints are new ones. What only got tighter, which each placement of
    ours makes it, wakes nobody.
    """
    kinds = {_kind(group) for group in before}
    if any(_kind(group) not in kinds for group in after):
        return True
    was, now = _free(before), _free(after)
    return any(amount > was.get(what, 0) for what, amount in now.items())


def _kind(group: NodeGroup) -> bytes:
    return msgspec.json.encode((group.labels, group.taints), order="deterministic")


def _free(groups: list[NodeGroup]) -> dict[tuple[bytes, str, str], int]:
    """Free amounts by kind of node and resource: in sum, and the largest of one node."""
    free: dict[tuple[bytes, str, str], int] = {}
    for group in groups:
        for resource, text in group.free.items():
            try:
                each = quantities.amount(resource, text)
            except ValueError:
                continue  # counts as no room, as in the fleet
            total, most = (_kind(group), resource, "sum"), (_kind(group), resource, "most")
            free[total] = free.get(total, 0) + each * group.count
            free[most] = max(free.get(most, 0), each if group.count else 0)
    return free
