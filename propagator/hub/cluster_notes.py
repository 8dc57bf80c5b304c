"""The note of a member's cluster, before several shards serve it.

Two MemberClusters of one cluster may belong to two shards, and neither sees what the other has
read. So a shard notes the cluster first, and sees every MemberCluster of the hub after that: of two
that did so in one moment, one at least sees both, and yields (`Identities.refusal`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.clock import Clock
from machinery.errors import Unreachable
from machinery.runtime.consistent_read import caught_up
from machinery.runtime.informer import Informer
from propagator.members.cluster_identity import ClusterIdentity, Identities
from propagator.shards.membership import OneShard
from propagator.types.cluster import MemberCluster

READ_SECONDS = 10.0


class ClusterNotes:
    """`note` does nothing with one shard, or where the cluster is noted already."""

    def __init__(
        self,
        hub: ApiClient,
        *,
        clusters: Informer[MemberCluster],
        identities: Identities,
        membership: OneShard,
        clock: Clock,
    ) -> None:
        self._hub = hub
        self._clusters = clusters
        self._identities = identities
        self._membership = membership
        self._clock = clock
        self._unread: set[str] = set()
        """Members that were noted, while the others were not read since."""

    async def note(self, name: str, found: ClusterIdentity) -> None:
        """Raises TransportError."""
        cluster = self._clusters.get(("", name))
        if cluster is None or not found.id or not self._membership.several:
            return
        if not cluster.cluster_id and not self._identities.taken(name, found):
            await self._write(cluster, found)
        if name in self._unread:
            read = caught_up(self._hub, [self._clusters], clock=self._clock, within=READ_SECONDS)
            if not await read:
                raise Unreachable("the MemberClusters could not be read")
            self._unread.discard(name)

    async def _write(self, cluster: MemberCluster, found: ClusterIdentity) -> None:
        self._unread.add(cluster.name)
        status: Mapping[str, Any] = self._identities.note(cluster, found)
        metadata = {"resourceVersion": cluster.metadata.resource_version}
        patch = {"metadata": metadata, "status": status}
        answer = await self._hub.merge_patch(
            MEMBER_CLUSTERS, cluster.name, patch, subresource="status"
        )
        self._clusters.upsert(msgspec.convert(answer, MemberCluster))
