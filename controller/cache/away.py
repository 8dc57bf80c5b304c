"""Clusters that shares name and no MemberCluster does: they are away, not given up.

Decisions read such a cluster as a lost one, by its last state: shares leave by their tolerations,
within brake and budgets. It returns by its name, or by a MemberCluster that had the name
(`asread`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from controller.model.objects import AWAY, ClusterStatus, Condition, MemberCluster
from machinery.types.merge_patch import merged
from machinery.types.metadata import Meta

READY = "Ready"


class AwayClusters:
    """The clusters that are away. `changed` is called with each before and after."""

    def __init__(
        self,
        changed: Callable[[MemberCluster | None, MemberCluster | None], None] = lambda *_: None,
    ) -> None:
        self._changed = changed
        self._listeners: list[Callable[[str], None]] = []
        self._all: dict[str, MemberCluster] = {}
        self._given_up = set[str]()

    def on_change(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    def get(self, name: str) -> MemberCluster | None:
        return self._all.get(name)

    def values(self) -> Collection[MemberCluster]:
        return list(self._all.values())

    def __contains__(self, name: str) -> bool:
        return name in self._all

    def went(self, cluster: MemberCluster) -> None:
        self._put(away(cluster))

    def named(self, name: str) -> None:
        """Unless it was given up."""
        if name not in self._given_up and name not in self._all:
            self._put(away(MemberCluster(metadata=Meta(name=name))))

    def give_up(self, name: str) -> None:
        """An operator gives the cluster up: it is not away, even if named, until it returns."""
        self._given_up.add(name)
        self.gone(name)

    def came(self, name: str) -> MemberCluster | None:
        """Return its last state."""
        self._given_up.discard(name)
        found = self._all.pop(name, None)
        if found is not None:
            self._tell(name)
        return found

    def gone(self, name: str) -> None:
        if (before := self._all.pop(name, None)) is not None:
            self._changed(before, None)
            self._tell(name)

    def said(self, name: str, status: Mapping[str, Any]) -> None:
        """Apply a merge patch to its status, which is not stored in an object."""
        before = self._all[name]
        after = msgspec.convert(merged(msgspec.to_builtins(before.status), status), ClusterStatus)
        self._all[name] = cluster = msgspec.structs.replace(before, status=after)
        self._changed(before, cluster)

    def _put(self, cluster: MemberCluster) -> None:
        name = cluster.metadata.name
        before = self._all.get(name)
        self._all[name] = cluster
        self._changed(before, cluster)
        self._tell(name)

    def _tell(self, name: str) -> None:
        for listener in self._listeners:
            listener(name)


def away(cluster: MemberCluster) -> MemberCluster:
    said = f"there is no MemberCluster {cluster.metadata.name}"
    ready = Condition(type=READY, status="False", reason=AWAY, message=said)
    others = [each for each in cluster.status.conditions if each.type != READY]
    status = msgspec.structs.replace(cluster.status, conditions=[ready, *others])
    return msgspec.structs.replace(cluster, status=status)
