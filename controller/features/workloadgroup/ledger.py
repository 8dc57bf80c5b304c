"""The ledger of WorkloadGroups: their members, and which of these are placed.

An overlay computes nothing until it is read, which is rare.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.cache.ledger import PlacementsByWorkload
from controller.features.workloadgroup.compiled import CompiledGroup
from controller.model.load import Load
from controller.model.unit import WorkloadInfo
from crds.groups.gate import GateState
from crds.groups.workloadgroup import GroupPhase
from machinery.types.metadata import Key


@dataclass(frozen=True, slots=True)
class Member:
    """`stored`: the Workload has placements on the hub, also empty ones, and keeps some."""

    workload: WorkloadInfo
    placements: Mapping[str, int]
    stored: bool = False

    @staticmethod
    def of(info: WorkloadInfo, placements: Mapping[str, int]) -> Member:
        share = {name: n for name, n in placements.items() if n > 0}
        return Member(info, share, bool(placements and info.present))

    @property
    def assigned(self) -> int:
        return sum(self.placements.values())

    @property
    def open(self) -> int:
        """Return the replicas without a cluster."""
        return max(self.workload.replicas - self.assigned, 0)


@dataclass(slots=True)
class _Roll:
    """`version` changes whenever a member asks for something else."""

    members: dict[Key, Member] = field(default_factory=dict)
    placed: dict[Key, Member] = field(default_factory=dict)
    clusters: dict[str, int] = field(default_factory=dict)
    assigned: int = 0
    stored: int = 0
    desired: int = 0
    everywhere: int = 0
    version: int = 0

    def count(self, member: Member, sign: int) -> None:
        ended = member.workload.ended_replicas
        self.assigned += sign * (member.assigned + ended)
        self.stored += sign * member.stored
        self.desired += sign * (member.workload.replicas + ended)
        if member.workload.everywhere:
            self.everywhere += sign * member.workload.replicas
        if member.placements and sign > 0:
            self.placed[member.workload.key] = member
        elif member.placements:
            del self.placed[member.workload.key]
        for cluster, replicas in member.placements.items():
            left = self.clusters.get(cluster, 0) + sign * replicas
            if left:
                self.clusters[cluster] = left
            else:
                del self.clusters[cluster]


_ENDED: Final = frozenset({GroupPhase.FINISHED.value, GroupPhase.FAILED.value})
_NOBODY: Final = _Roll()


class Groups:
    """Every group by its key, and every Workload that names one, even one that is missing."""

    def __init__(self) -> None:
        self._groups: dict[Key, CompiledGroup] = {}
        self._rolls: dict[Key, _Roll] = {}
        self._of: dict[Key, Key] = {}
        self._versions = 0
        self._ended: set[Key] = set()
        self.taken: dict[str, dict[Load, int]] = {}
        """The replicas of members on each cluster, by load, without groups that have ended."""

    @property
    def changes(self) -> int:
        return self._versions

    def put_group(self, group: CompiledGroup) -> None:
        before = self._groups.get(group.key)
        self._groups[group.key] = group
        self._versions += before is None or _rank_basis(before) != _rank_basis(group)
        self._end(group.key, ended=group.phase in _ENDED)

    def drop_group(self, key: Key) -> None:
        """Forget a group. Its members stay members."""
        self._groups.pop(key, None)
        self._versions += 1
        self._end(key, ended=False)

    def _end(self, key: Key, *, ended: bool) -> None:
        if ended == (key in self._ended):
            return
        for member in self.members(key).values():
            self._take(member, -1 if ended else 1)
        (self._ended.add if ended else self._ended.discard)(key)

    def get(self, key: Key) -> CompiledGroup | None:
        return self._groups.get(key)

    def values(self) -> Collection[CompiledGroup]:
        return self._groups.values()

    def put(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        group = self.group_of(info)
        before = self._leave(info.key, group)
        if group is None:
            return
        member = Member.of(info, placements)
        roll = self._rolls.setdefault(group, _Roll())
        roll.members[info.key] = member
        self._count(group, roll, member, 1)
        self._of[info.key] = group
        if before is None or _denial_basis(before.workload) != _denial_basis(info):
            self._changed(roll)

    def drop(self, key: Key) -> None:
        self._leave(key, None)

    def overlay(self, placed: PlacementsByWorkload) -> Groups:
        return _GroupOverlay(self, placed)

    @staticmethod
    def group_of(info: WorkloadInfo) -> Key | None:
        """Return the group that the Workload names; None for none, and for several."""
        if len(info.groups) != 1 or info.booked:
            return None
        return (info.namespace, info.groups[0])

    def members(self, key: Key) -> Mapping[Key, Member]:
        """Return the Workloads that name the group, by key. Read only."""
        return self._roll(key).members

    def placed(self, key: Key) -> Mapping[Key, Member]:
        """Return the members with replicas on a cluster. Read only."""
        return self._roll(key).placed

    def assigned(self, key: Key) -> int:
        """Return the group's replicas with a cluster: written, being written, held, or ended."""
        return self._roll(key).assigned

    def started(self, key: Key) -> bool:
        """Whether no quorum is needed any more: it is placed, or has run."""
        group, roll = self.get(key), self._roll(key)
        if group is None:
            return False
        runs = group.ran and group.gate == GateState.OPEN and roll.stored > 0
        return runs or roll.assigned >= group.min_member

    def clusters(self, key: Key) -> Mapping[str, int]:
        """Return the group's replicas by cluster. Read only."""
        return self._roll(key).clusters

    def desired(self, key: Key, clusters: int = 1) -> int:
        """Return the wanted replicas; one that runs everywhere counts once a cluster."""
        roll = self._roll(key)
        return roll.desired + roll.everywhere * max(clusters - 1, 0)

    def version(self, key: Key) -> int:
        return self._rolls.get(key, _NOBODY).version

    def _roll(self, key: Key) -> _Roll:
        return self._rolls.get(key, _NOBODY)

    def _leave(self, key: Key, for_: Key | None) -> Member | None:
        """Return its member if it stays in the group `for_`."""
        group = self._of.pop(key, None)
        if group is None:
            return None
        roll = self._rolls[group]
        before = roll.members[key] if group == for_ else roll.members.pop(key)
        self._count(group, roll, before, -1)
        if group == for_:
            return before
        self._changed(roll)
        if not roll.members:
            del self._rolls[group]
        return None

    def _count(self, key: Key, roll: _Roll, member: Member, sign: int) -> None:
        roll.count(member, sign)
        if key not in self._ended:
            self._take(member, sign)

    def _take(self, member: Member, sign: int) -> None:
        load = member.workload.load
        for cluster, replicas in member.placements.items():
            there = self.taken.setdefault(cluster, {})
            there[load] = there.get(load, 0) + sign * replicas
            if not there[load]:
                del there[load]
            if not there:
                del self.taken[cluster]

    def _changed(self, roll: _Roll) -> None:
        self._versions += 1
        roll.version = self._versions


class _GroupOverlay(Groups):
    def __init__(self, base: Groups, placed: PlacementsByWorkload) -> None:
        super().__init__()
        self._base = base
        self._groups = base._groups  # noqa: SLF001 - its own kind
        self._versions = base._versions  # noqa: SLF001
        self.taken = base.taken  # read between passes only
        self._placed = dict(placed)
        self._made: dict[Key, _Roll] = {}

    def place(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        self._placed[info.key] = (info, placements)
        self._made.clear()

    def version(self, key: Key) -> int:
        return self._base.version(key)

    def _roll(self, key: Key) -> _Roll:
        if key not in self._made:
            roll = self._made[key] = _Roll(dict(self._base.members(key)))
            for own, (info, placements) in self._placed.items():
                roll.members.pop(own, None)
                if self.group_of(info) == key:
                    roll.members[own] = Member.of(info, placements)
            for member in roll.members.values():
                roll.count(member, 1)
        return self._made[key]


def _rank_basis(group: CompiledGroup) -> tuple[str, int, bool]:
    return (group.uid, group.generation, group.ran)


def _denial_basis(info: WorkloadInfo) -> tuple[str, str]:
    return (info.uid, info.hash)
