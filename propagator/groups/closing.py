"""Workloads that have to leave clusters since a gate was closed, though it may no longer be closed.

A gate may be closed for a moment only, and a cluster may be away in that moment. So the members of
the group at that time are kept, and which clusters have nothing of them since, until the gate
opens, or the group is gone. A Workload that was never released, or becomes a member later, keeps
what it has: no gate has closed on it. So do the clusters where units ran before the release.
"""

from __future__ import annotations

from collections.abc import Iterable

from machinery.types.metadata import Key
from propagator.types.group import WorkloadGroup
from propagator.types.workload import Workload


class Closing:
    """Groups that were closed and not opened since."""

    def __init__(self) -> None:
        self._groups: dict[Key, dict[str, set[str]]] = {}
        """The clusters that have nothing of a member any more, by the Workload's UID."""

    def __len__(self) -> int:
        return len(self._groups)

    def begin(self, group: WorkloadGroup, members: Iterable[Workload]) -> None:
        """Record that the gate is closed, and its members."""
        key = group.metadata.key
        concerned = (e for e in members if group_of(e) == key and group.takes_back(e.uid))
        self._groups[key] = {each.uid: set(group.retained(each.uid)) for each in concerned}

    def end(self, group: Key) -> None:
        """Drop a group whose gate is open, or that is gone."""
        self._groups.pop(group, None)

    def joined(self, workload: Workload, stays: Iterable[str] = ()) -> None:
        """Record a new member of a group that is closed now; it may stay on some clusters."""
        group = group_of(workload)
        if group is not None and group in self._groups:
            self._groups[group][workload.uid] = set(stays)

    def parted(self, workload: Workload) -> None:
        """Drop a Workload that left the group: it is not asked to leave, even if it comes back."""
        group = group_of(workload)
        if group is not None and group in self._groups:
            self._groups[group].pop(workload.uid, None)

    def unfinished(self, workload: Workload, member: str) -> bool:
        """Whether the Workload had to leave that cluster, and may not have left yet."""
        left = self._left(workload)
        return left is not None and member not in left

    def left(self, workload: Workload, member: str) -> None:
        """Record that the cluster has nothing of the Workload any more."""
        left = self._left(workload)
        if left is not None:
            left.add(member)

    def _left(self, workload: Workload) -> set[str] | None:
        group = group_of(workload)
        return self._groups.get(group, {}).get(workload.uid) if group is not None else None


def group_of(workload: Workload) -> Key | None:
    """Return the group that the Workload is a member of: the one that it names, if only one."""
    names = workload.groups
    return (workload.metadata.namespace, names[0]) if len(names) == 1 else None
