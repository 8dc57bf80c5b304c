"""Which cluster a member is, and through which MemberCluster it is served.

A Secret may be swapped, a cluster rebuilt or registered twice. So the UID of kube-system and the
ClusterProperties (KEP-2149) are noted in the status, and compared. One MemberCluster serves a
cluster until an operator removes the note. UIDs decide if both are known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from crds.membercluster import MemberClusterCondition, ReadyReason
from crds.names import ANNOTATION_IDENTITY, ID_PROPERTY, SET_PROPERTY
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, NAMESPACES, Resource
from machinery.api.responses import shaped
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import Forbidden, NotFound, Unreachable
from machinery.runtime.consistent_read import caught_up
from machinery.runtime.informer import Informer
from machinery.types import conditions
from machinery.types.bounds import UID, clean
from machinery.types.metadata import Object
from propagator.members.health import MemberHealth
from propagator.shards.membership import ONE_SHARD, OneShard
from propagator.types.cluster import MemberCluster

CLUSTER_ID_INDEX = "clusterID"
UID_INDEX = "uid"
_PROPERTIES = [
    Resource("about.k8s.io", version, "clusterproperties", "ClusterProperty", namespaced=False)
    for version in ("v1beta1", "v1alpha1")
]


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """Fields that may not be read are empty."""

    uid: str = ""
    """The UID of its kube-system."""
    set_id: str = ""
    """Its ID within its ClusterSet."""
    cluster_set: str = ""

    @property
    def id(self) -> str:
        return self.set_id or self.uid

    @property
    def keys(self) -> frozenset[str]:
        """Two identities of one cluster have a key in common."""
        # A UID holds no slash.
        in_set = {f"{self.cluster_set}/{self.set_id}"} if self.set_id else set()
        return frozenset({self.uid} - {""} | in_set)

    def same(self, other: ClusterIdentity) -> bool:
        if self.uid and other.uid:
            return self.uid == other.uid
        return bool(self.keys & other.keys)


class _Property(msgspec.Struct, frozen=True):
    value: str = ""


class _ClusterProperty(Object, frozen=True):
    spec: _Property = _Property()


async def cluster_id(client: Verbs) -> str:
    """Return the UID of the member's kube-system; empty if forbidden. Raises TransportError."""
    try:
        found = await client.get(NAMESPACES, "kube-system")
    except (Forbidden, NotFound):
        return ""
    return clean(shaped(found, Object).metadata.uid, UID)


async def set_identity(client: Verbs) -> tuple[str, str]:
    """Return the member's ID in its ClusterSet, and the ClusterSet; empty if unreadable.

    Raises TransportError.
    """
    for resource in _PROPERTIES:
        if found := await _property(client, resource, ID_PROPERTY):
            return found, await _property(client, resource, SET_PROPERTY)
    return "", ""


async def _property(client: Verbs, resource: Resource, name: str) -> str:
    try:
        found = await client.get(resource, name)
    except (Forbidden, NotFound):
        return ""
    value = shaped(found, _ClusterProperty).spec.value
    return clean(value, UID) if len(value) <= UID else ""


def noted(cluster: MemberCluster) -> ClusterIdentity:
    """Without a clusterID the identity is empty; without a clusterUID, clusterID is the UID."""
    status, id_ = cluster.status, cluster.cluster_id
    uid = str(status.get("clusterUID", id_))
    if not id_ or uid == id_:
        return ClusterIdentity(uid=id_)
    return ClusterIdentity(uid, id_, str(status.get("clusterSet") or ""))


_LEADS_ELSEWHERE = (
    "its Secret leads to the cluster {found}, and not to {before} as before: nothing is done "
    "there. Put the right kubeconfig into the Secret; if the cluster was rebuilt, confirm by "
    "`stowage join {name} --replace`"
)
_RUNS_ELSEWHERE = (
    "its agent is in the cluster {found}, and not in {before} as before: nothing is ordered "
    "there. End that agent; if the cluster was rebuilt, confirm by `stowage join {name} --pull "
    "--replace`"
)
READ_SECONDS = 10.0


@dataclass(slots=True)
class _Known:
    read: ClusterIdentity = ClusterIdentity()
    """The cluster that its session has read."""
    served: ClusterIdentity | None = None
    """The cluster that is served, or was when last judged."""
    serving: bool = False
    given_up: bool = False
    left: ClusterIdentity | None = None
    """The cluster that was served when the MemberCluster went."""
    unread: bool = False
    """Whether its cluster was noted, and the other MemberClusters were not read since."""


class Identities:
    def __init__(
        self,
        hub: ApiClient,
        clusters: Informer[MemberCluster],
        membership: OneShard = ONE_SHARD,
        *,
        clock: Clock,
    ) -> None:
        self._hub = hub
        self._clusters = clusters
        self._membership = membership
        self._clock = clock
        self._names: defaultdict[str, _Known] = defaultdict(_Known)
        self._readers: defaultdict[str, set[str]] = defaultdict(set)
        clusters.add_index(CLUSTER_ID_INDEX, lambda each: noted(each).keys)
        clusters.add_index(UID_INDEX, lambda each: [each.metadata.uid])

    def exists(self, uid: str) -> bool:
        return bool(self._clusters.by_index(UID_INDEX, uid))

    def refusal(self, name: str, found: ClusterIdentity) -> MemberHealth | None:
        """Return why that MemberCluster does not serve the cluster `found`, or None.

        The noted MemberCluster wins, then the oldest. The served one must `release` it before
        another is.
        """
        self._record(name, found)
        refused, known = self._judge(name, found), self._names[name]
        known.served = None
        if refused is None and found.id:
            known.served, known.serving, known.given_up, known.left = found, True, False, None
        return refused

    async def note_first(self, name: str, found: ClusterIdentity) -> None:
        """Note the cluster before it is judged, where there are several shards.

        Raises TransportError.

        A shard notes it, and then reads every MemberCluster: of two shards that do so in one
        moment, one at least sees both, and yields.
        """
        cluster, known = self._clusters.get(("", name)), self._names[name]
        if cluster is None or not found.id or not self._membership.several:
            return
        others = self._noted(found.keys, but=name)
        if not cluster.cluster_id and not any(noted(each).same(found) for each in others):
            known.unread = True
            metadata = {"resourceVersion": cluster.metadata.resource_version}
            patch = {"metadata": metadata, "status": self.note(cluster, found)}
            answer = await self._hub.merge_patch(MEMBER_CLUSTERS, name, patch, subresource="status")
            self._clusters.upsert(msgspec.convert(answer, MemberCluster))
        if known.unread:
            informers = [self._clusters]
            if not await caught_up(self._hub, informers, clock=self._clock, within=READ_SECONDS):
                raise Unreachable("the MemberClusters could not be read")
            known.unread = False

    def release(self, name: str) -> None:
        self._names[name].serving = False

    def forget(self, name: str) -> None:
        """Drop what the session of that MemberCluster has read."""
        known = self._names[name]
        known.left, known.served, known.serving = known.served or known.left, None, False
        self._record(name, ClusterIdentity())

    def give_up(self, name: str) -> None:
        """An operator gives the cluster up, until it is served again."""
        self._names[name].given_up, self._names[name].left = True, None

    def gave_up(self, name: str) -> bool:
        return name in self._names and self._names[name].given_up

    def left(self, cluster: MemberCluster) -> list[str]:
        """Return names that the cluster was served by, and has lost since."""
        found = noted(cluster)
        lost = ((name, each.left) for name, each in self._names.items() if each.left is not None)
        return sorted(n for n, left in lost if found.id and left.same(found) and n != cluster.name)

    def note(self, cluster: MemberCluster, found: ClusterIdentity) -> dict[str, str]:
        """Return the identity for the status."""
        before = noted(cluster)
        if self._noted(found.keys - before.keys, but=cluster.name):
            found = before if before.id else ClusterIdentity(found.uid)
        if not found.set_id:
            return {"clusterID": found.uid}
        told = {"clusterID": found.set_id, "clusterUID": found.uid}
        return told | ({"clusterSet": found.cluster_set} if found.cluster_set else {})

    def _record(self, name: str, found: ClusterIdentity) -> None:
        for key in self._names[name].read.keys:
            self._readers[key].discard(name)
            if not self._readers[key]:
                del self._readers[key]
        self._names[name].read = found
        for key in found.keys:
            self._readers[key].add(name)

    def _judge(self, name: str, found: ClusterIdentity) -> MemberHealth | None:
        cluster = self._clusters.get(("", name))
        if cluster is None or not found.id:
            return None
        before = self._before(cluster)
        if before.id and not before.same(found):
            return MemberHealth(
                ReadyReason.CLUSTER_CHANGED,
                (_RUNS_ELSEWHERE if cluster.pulls else _LEADS_ELSEWHERE).format(
                    found=found.id, before=before.id, name=name
                ),
            )
        others = self._others(name, found)
        first = min((*others, cluster), key=_rank)
        if first.name == name:
            first = next((each for each in others if self._names[each.name].serving), cluster)
        if first.name == name and self._membership.several and not self._names[name].serving:
            first = next((each for each in others if _may_serve(each)), cluster)
        if first.name == name:
            return None
        return MemberHealth(
            ReadyReason.ALREADY_REGISTERED,
            f"this cluster is registered as {first.name} already: nothing is done through this "
            f"registration; take it out by `stowage unjoin {name}`, or give the cluster this name "
            f"by `stowage rename {first.name} {name}` after that",
        )

    def _before(self, cluster: MemberCluster) -> ClusterIdentity:
        """Return the noted cluster, or the one that had the name before."""
        before, left = noted(cluster), self._names[cluster.name].left or ClusterIdentity()
        said = cluster.metadata.annotations.get(ANNOTATION_IDENTITY, left.uid)
        return before if before.id or said != left.uid else left

    def _others(self, name: str, found: ClusterIdentity) -> list[MemberCluster]:
        """Two known UIDs decide alone: a ClusterProperty is the member's own claim."""
        read = {each for key in found.keys for each in self._readers.get(key, ())} - {name}
        stored = [self._clusters.get(("", each)) for each in sorted(read)]
        unnoted = [each for each in stored if each is not None and not each.cluster_id]
        alike = [e for e in self._noted(found.keys, but=name) if noted(e).same(found)]
        return [*alike, *(e for e in unnoted if self._names[e.name].read.same(found))]

    def _noted(self, keys: Iterable[str], *, but: str) -> list[MemberCluster]:
        by_index = self._clusters.by_index
        found = {each.name: each for key in keys for each in by_index(CLUSTER_ID_INDEX, key)}
        return [each for each in found.values() if each.name != but]


def _may_serve(cluster: MemberCluster) -> bool:
    ready = conditions.find(cluster.status, MemberClusterCondition.READY)
    return bool(cluster.cluster_id) and ready.get("reason") != ReadyReason.ALREADY_REGISTERED


def _rank(cluster: MemberCluster) -> tuple[bool, str, str]:
    return not cluster.cluster_id, cluster.metadata.creation_timestamp, cluster.name
