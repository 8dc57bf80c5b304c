"""Which cluster a member is, and through which MemberCluster it is served.

The name of a MemberCluster does not identify the cluster that its Secret leads to: a Secret is
swapped, a cluster is rebuilt, one cluster is registered twice. So the UID of the member's
kube-system is read before anything else (`cluster_id`), noted in `status.clusterID`, and compared
(`Identities.refusal`). A cluster is served through one MemberCluster, and a MemberCluster serves
one cluster for its life, until a person takes the note off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from crds.membercluster import ReadyReason
from machinery.api.resources import NAMESPACES
from machinery.api.responses import shaped
from machinery.api.verbs import Verbs
from machinery.errors import Forbidden, NotFound
from machinery.runtime.informer import Informer
from machinery.types.bounds import UID, clean
from machinery.types.metadata import Object
from propagator.members.health import MemberHealth
from propagator.types.cluster import MemberCluster

CLUSTER_ID_INDEX = "clusterID"
"""The informer's index of MemberClusters by the cluster ID that is noted on them."""
UID_INDEX = "uid"

Refusal: TypeAlias = Callable[[str, str], MemberHealth | None]
"""(MemberCluster's name, the cluster's ID): why it is not served, None when it is."""


async def cluster_id(client: Verbs) -> str:
    """Return the UID of the member's kube-system; empty where the account may not read it.

    Raises TransportError.
    """
    try:
        found = await client.get(NAMESPACES, "kube-system")
    except (Forbidden, NotFound):
        return ""
    return clean(shaped(found, Object).metadata.uid, UID)


class Identities:
    """The clusters that MemberClusters lead to: noted in their status, or read by sessions."""

    def __init__(self, clusters: Informer[MemberCluster]) -> None:
        self._clusters = clusters
        self._read: dict[str, str] = {}
        self._readers: dict[str, set[str]] = {}
        clusters.add_index(CLUSTER_ID_INDEX, _noted)
        clusters.add_index(UID_INDEX, lambda each: [each.metadata.uid])

    def exists(self, uid: str) -> bool:
        """Whether the hub has a MemberCluster of that UID."""
        return bool(self._clusters.by_index(UID_INDEX, uid))

    def refusal(self, name: str, found: str) -> MemberHealth | None:
        """Return why the cluster `found` through that MemberCluster is not served; None when it is.

        Of several MemberClusters of one cluster the noted one wins, then the older one.
        """
        self._record(name, found)
        cluster = self._clusters.get(("", name))
        if cluster is None or not found:
            return None
        noted = cluster.cluster_id
        if noted and noted != found:
            return MemberHealth(
                ReadyReason.CLUSTER_CHANGED,
                f"its Secret leads to the cluster {found}, and not to {noted} as before: nothing "
                "is done there. Put the right kubeconfig into the Secret; if the cluster was "
                f"rebuilt, confirm by `stowage join {name} --replace`",
            )
        first = min((*self._others(name, found), cluster), key=_rank)
        if first.name == name:
            return None
        return MemberHealth(
            ReadyReason.ALREADY_REGISTERED,
            f"this cluster is registered as {first.name} already: nothing is done through this "
            f"registration; take it out by `stowage unjoin {name}`, or give the cluster this name "
            f"by `stowage rename {first.name} {name}` after that",
        )

    def forget(self, name: str) -> None:
        """Drop what the session of that MemberCluster has read."""
        self._record(name, "")

    def _record(self, name: str, found: str) -> None:
        before = self._read.pop(name, "")
        if before:
            self._readers[before].discard(name)
            if not self._readers[before]:
                del self._readers[before]
        if found:
            self._read[name] = found
            self._readers.setdefault(found, set()).add(name)

    def _others(self, name: str, found: str) -> list[MemberCluster]:
        """Return that cluster's other MemberClusters, by their notes, else by what was read."""
        noted = self._clusters.by_index(CLUSTER_ID_INDEX, found)
        read = [self._clusters.get(("", each)) for each in self._readers.get(found, ())]
        unnoted = [each for each in read if each is not None and not each.cluster_id]
        return [each for each in (*noted, *unnoted) if each.name != name]


def _noted(cluster: MemberCluster) -> list[str]:
    return [cluster.cluster_id] if cluster.cluster_id else []


def _rank(cluster: MemberCluster) -> tuple[bool, str, str]:
    return not cluster.cluster_id, cluster.metadata.creation_timestamp, cluster.name
