"""WorkloadKinds as the Assignments of a member tell them: an agent may not read those of its hub.

While an edit of a WorkloadKind is on its way, some tell an older one: the youngest counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeAlias

from machinery.kinds.workloadkinds import Follower, WorkloadKind

_Age: TypeAlias = tuple[str, int]
"""When it was made, and its generation."""


class ToldKinds:
    """`changed(group, kind)` is called as by `Follower`."""

    def __init__(self, changed: Callable[[str, str], None]) -> None:
        self._told: defaultdict[str, dict[_Age, WorkloadKind]] = defaultdict(dict)
        self._by: dict[str, set[tuple[str, _Age]]] = {}
        self._follower = Follower(self._youngest, changed)

    def take(self, uid: str, names: Iterable[str], told: Iterable[WorkloadKind]) -> None:
        """`names` are those of the Workload's kinds."""
        now = {(each.metadata.name, _age(each)): each for each in told}
        concerned = {*names, *(name for name, _ in self._by.get(uid, ()))}
        before = {name: self._of(name) for name in concerned}
        self.drop(uid)
        self._by[uid] = {*now}
        for (name, age), kind in now.items():
            self._told[name][age] = kind
        for name in concerned:
            of = self._told[name]
            told_still = {age for each in self._by.values() for of_, age in each if of_ == name}
            for age in of.keys() - told_still:
                del of[age]
            self._follower.kind_changed(before[name], self._of(name))

    def drop(self, uid: str) -> None:
        """What it told stands until another one tells of its kinds."""
        self._by.pop(uid, None)

    def _of(self, name: str) -> WorkloadKind | None:
        told = self._told[name]
        return told[max(told)] if told else None

    def _youngest(self) -> list[WorkloadKind]:
        return [told[max(told)] for told in self._told.values() if told]


def _age(kind: WorkloadKind) -> _Age:
    return kind.metadata.creation_timestamp, kind.metadata.generation
