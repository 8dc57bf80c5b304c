"""The hub as an agent knows it: the orders of one member, in place of the hub's own informers.

A Workload is known while it has an Assignment, another owner of an object counts as alive, and
nothing is judged by a backup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from machinery.runtime.event_recorder import ObjectRef
from machinery.types.metadata import Key
from propagator.members.cluster_identity import ClusterIdentity
from propagator.members.health import MemberHealth
from propagator.members.restored import NOTHING, Restored
from propagator.shares import Column, ShareTable
from propagator.types.cluster import MemberCluster
from propagator.types.workload import Workload


class AssignedWorkloads:
    """As much of `HubWorkloads` as is asked, by the Assignments."""

    listed = True
    """A term begins with all Assignments."""

    def __init__(self, shares: ShareTable) -> None:
        self._held: Column[Workload] = shares.column()

    def hold(self, workload: Workload) -> None:
        self._held.put(workload.uid, "", workload)

    def known(self, uid: str) -> bool:
        return self._held.get(uid) is not None

    def by_uid(self, uid: str) -> Workload | None:
        return self._held.get(uid)

    def key_of(self, uid: str) -> Key | None:
        held = self._held.get(uid)
        return held.metadata.key if held is not None else None

    def touching(self, _member: str) -> list[Workload]:
        return [self._held.at(*at) for at in self._held]

    async def vanished(self, _uid: str, _key: Key) -> bool:
        return False


class OwnIdentity:
    """As `HubIdentity`, from the hub's ConfigMap."""

    def __init__(self, uid: Callable[[], str]) -> None:
        self._uid = uid

    async def uid(self) -> str:
        return self._uid()


class NeverRestored:
    """As `RestoredHub`. What is younger than the order stays by its version."""

    async def of(self, _workload: Workload, _went_back_to: int | None) -> Restored:
        return NOTHING

    async def former(self) -> str:
        return ""


class NoClusters:
    """As the informer of MemberClusters, which an agent may not read."""

    synced = True

    def get(self, _key: Key) -> MemberCluster | None:
        return None

    def by_index(self, _index: str, _key: str) -> Iterable[MemberCluster]:
        return ()

    def values(self) -> Iterable[MemberCluster]:
        return ()

    def add_handler(self, _handler: Any) -> None:
        return


class OneMember:
    """As `Identities`: no other member could lead to the same cluster."""

    def exists(self, _uid: str) -> bool:
        return True

    async def note_first(self, _name: str, _found: ClusterIdentity) -> None:
        return

    def refusal(self, _name: str, _found: ClusterIdentity) -> MemberHealth | None:
        return None

    def release(self, _name: str) -> None:
        return

    def forget(self, _name: str) -> None:
        return

    def gave_up(self, _name: str) -> bool:
        return False

    def note(self, _cluster: MemberCluster, _found: ClusterIdentity) -> Mapping[str, str]:
        return {}


class NoEvents:
    """As `EventRecorder`: the Assignment tells instead."""

    def event(self, _about: ObjectRef, **_said: Any) -> None:
        return
