"""What has to leave because a gate was closed, though it may be away again by now.

Closed may stand for a moment only, and a cluster may be away in that moment. So it is kept who was
a member while the group was closed, and which clusters have nothing of it since. It holds until
the gate opens, or the group is gone. Who was never released, or becomes a member later, keeps what
it has: nobody said that it has to go. So do the clusters where units ran before the release.
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
        """By the UID of each that was a member then: the clusters that have nothing of it."""

    def __len__(self) -> int:
        """How many groups these are."""
        return len(self._groups)

    def begin(self, group: WorkloadGroup, members: Iterable[Workload]) -> None:
        """The gate is closed, and these name the group."""
        key = group.metadata.key
        concerned = (e for e in members if group_of(e) == key and group.takes_back(e.uid))
        self._groups[key] = {each.uid: set(group.retained(each.uid)) for each in concerned}

    def end(self, group: Key) -> None:
        """The gate is open, or the group is gone."""
        self._groups.pop(group, None)

    def joined(self, workload: Workload, stays: Iterable[str] = ()) -> None:
        """It has become a member of a group that is closed now; it may stay on some clusters."""
        group = group_of(workload)
        if group is not None and group in self._groups:
            self._groups[group][workload.uid] = set(stays)

    def parted(self, workload: Workload) -> None:
        """It is no member of that group any more: it goes its own way, also if it comes back."""
        group = group_of(workload)
        if group is not None and group in self._groups:
            self._groups[group].pop(workload.uid, None)

    def unfinished(self, workload: Workload, member: str) -> bool:
        """Whether it had to leave that cluster, and may not have left yet."""
        left = self._left(workload)
        return left is not None and member not in left

    def left(self, workload: Workload, member: str) -> None:
        """That cluster has nothing of it any more."""
        left = self._left(workload)
        if left is not None:
            left.add(member)

    def _left(self, workload: Workload) -> set[str] | None:
        group = group_of(workload)
        return self._groups.get(group, {}).get(workload.uid) if group is not None else None


def group_of(workload: Workload) -> Key | None:
    """The group that it is a member of: the one that it names, if it names no other."""
    names = workload.groups
    return (workload.metadata.namespace, names[0]) if len(names) == 1 else None
