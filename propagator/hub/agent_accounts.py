"""The credentials of agents on the hub: the first token of each, and the facts of the hub.

`stowage invite` makes the namespace of a member with its accounts and roles. The propagator seals
the first token for the claim of the MemberReport. The invitation ends once that token was used, or
with its time. Each step may run twice.

The MemberCluster names the namespace. Only one with the label of `stowage invite` counts: its
author could name that of another member.
"""

from __future__ import annotations

import base64
from contextlib import suppress

from crds.membercluster import MemberClusterEventReason
from crds.names import (
    AGENT_ACCOUNT,
    AGENT_LEASE,
    AGENT_TOKEN_SECRET,
    ANNOTATION_INVITED,
    ANNOTATION_REVOKED,
    ANNOTATION_TOKEN_ENDS,
    HUB_CONFIG,
    INVITE_ACCOUNT,
    LABEL_MEMBER_NAMESPACE,
    MEMBER_REPORT,
)
from machinery import logs
from machinery.api.resources import (
    CONFIG_MAPS,
    LEASES,
    MEMBER_CLUSTERS,
    MEMBER_REPORTS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from machinery.api.verbs import Verbs
from machinery.clock import stored_time, timestamp
from machinery.errors import AlreadyExists, Forbidden, NotFound
from machinery.release import parsed, release
from machinery.runtime.workqueue import WorkQueue, work
from propagator.credentials import sealed_tokens
from propagator.credentials.agent_credential import WEEK
from propagator.credentials.tokens import request_token
from propagator.hub.events import tell_of
from propagator.members.context import ControllerContext
from propagator.types.cluster import MemberCluster

NAMESPACE_SECONDS = 5.0
"""Seconds until a member is looked at again whose namespace is not its own: it may become so."""


async def is_its_own(hub: Verbs, cluster: MemberCluster) -> bool:
    """Whether the namespace that it names is there, and is this member's. Raises TransportError."""
    if not cluster.member_namespace:
        return False
    try:
        found = await hub.get(NAMESPACES, cluster.member_namespace)
    except (Forbidden, NotFound):
        return False
    return (found["metadata"].get("labels") or {}).get(LABEL_MEMBER_NAMESPACE) == cluster.name


LOG = logs.get(__name__)
FACTS_SECONDS = 300.0
"""Seconds between two looks at what an agent is told of the hub."""
SERVED_RELEASES = 2
"""A hub of minor release R serves agents of R - 2 and younger."""
_WORKERS = 4


class AgentAccounts:
    """`seconds` is the life that a first token is asked for."""

    def __init__(self, context: ControllerContext, *, seconds: int = WEEK) -> None:
        self._hub = context.hub
        self._clusters = context.clusters
        self._identity = context.identity
        self._recorder = context.recorder
        self._clock = context.clock
        self._membership = context.membership
        self._seconds = seconds
        self._left = set[tuple[str, str]]()
        """MemberClusters and their namespaces that a revocation has left for ever: a hub that was
        set back names them. A namespace alone says nothing, as any MemberCluster may name it."""
        self._queue: WorkQueue[str] = WorkQueue(name="agents", clock=context.clock)
        self._clusters.add_handler(self._cluster_changed)
        self._membership.on_change(self._members_changed)
        context.registry.on_facts(self._told)

    async def run(self) -> None:
        await self._clusters.wait_synced()
        self._members_changed()
        await work(self._queue, self._reconcile, workers=_WORKERS, log=LOG)

    def _cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if new is not None and new.revoked:
            self._left.add((new.name, new.member_namespace))
        if new is not None and new.member_namespace and (old is None or _read(old) != _read(new)):
            self._queue.add(new.name)

    def _told(self, name: str) -> None:
        cluster = self._clusters.get(("", name))
        if cluster is not None and cluster.invited:
            self._queue.add(name)

    def _members_changed(self) -> None:
        for cluster in self._clusters.values():
            if cluster.member_namespace:
                self._queue.add(cluster.name)

    async def _reconcile(self, name: str) -> float | None:
        """Return the seconds until the next look."""
        cluster = self._clusters.get(("", name))
        if cluster is None or not cluster.member_namespace or not self._membership.serves(name):
            return None
        if not await is_its_own(self._hub, cluster):
            return NAMESPACE_SECONDS if cluster.pulls else None
        if not cluster.revoked and (name, cluster.member_namespace) in self._left:
            await self._revoke_again(cluster)
            return None  # its event brings it
        if cluster.revoked:
            await self._end_accounts(cluster.member_namespace)
            return None
        await self._keep_facts(cluster)
        if cluster.invited:
            return await self._admit(cluster)
        return FACTS_SECONDS

    async def _revoke_again(self, cluster: MemberCluster) -> None:
        told = "the hub was set back to before its agent was revoked: it is revoked again"
        LOG.warning(told, extra={"object": cluster.name})
        notes = {ANNOTATION_REVOKED: timestamp(self._clock.now()), ANNOTATION_INVITED: None}
        meta = {"resourceVersion": cluster.metadata.resource_version, "annotations": notes}
        await self._hub.merge_patch(MEMBER_CLUSTERS, cluster.name, {"metadata": meta})

    async def _end_accounts(self, namespace: str) -> None:
        """Repeat a revocation that its command did not finish, or that a restored hub has lost."""
        for account in (AGENT_ACCOUNT, INVITE_ACCOUNT):
            await self._delete(SERVICE_ACCOUNTS, account, namespace)

    async def _keep_facts(self, cluster: MemberCluster) -> None:
        namespace = cluster.member_namespace
        wanted = {
            "uid": await self._identity.uid(),
            "mode": cluster.spec.mode,
            "minAgent": oldest_served(release()),
        }
        found = await self._hub.find(CONFIG_MAPS, HUB_CONFIG, namespace=namespace)
        if found is None:
            told = "its ConfigMap %s/%s is gone: `stowage invite --renew` makes it again"
            LOG.warning(told, namespace, HUB_CONFIG, extra={"object": cluster.name})
            return
        data = found.get("data") or {}
        if wanted["uid"] and any(data.get(key, "") != value for key, value in wanted.items()):
            await self._hub.merge_patch(
                CONFIG_MAPS, HUB_CONFIG, {"data": wanted}, namespace=namespace
            )

    async def _admit(self, cluster: MemberCluster) -> float:
        namespace, ends = cluster.member_namespace, stored_time(cluster.invited)
        left = (ends - self._clock.now()).total_seconds() if ends is not None else 0.0
        lease = await self._hub.find(LEASES, AGENT_LEASE, namespace=namespace)
        used = ANNOTATION_TOKEN_ENDS in ((lease or {}).get("metadata", {}).get("annotations") or {})
        if used or left <= 0:
            await self._end_invitation(cluster)
            return FACTS_SECONDS
        uid, claim = await self._claimed(namespace)
        if claim and await self._sealed_for(namespace) != claim:
            await self._seal(cluster, uid, claim)
        return min(left, FACTS_SECONDS)

    async def _claimed(self, namespace: str) -> tuple[str, str]:
        report = await self._hub.find(MEMBER_REPORTS, MEMBER_REPORT, namespace=namespace) or {}
        uid = str((report.get("metadata") or {}).get("uid") or "")
        return uid, str((report.get("status") or {}).get("claim") or "")

    async def _sealed_for(self, namespace: str) -> str:
        found = await self._hub.find(SECRETS, AGENT_TOKEN_SECRET, namespace=namespace)
        given = ((found or {}).get("data") or {}).get("claim", "")
        return base64.b64decode(given).decode("ascii", "replace")

    async def _seal(self, cluster: MemberCluster, uid: str, claim: str) -> None:
        namespace = cluster.member_namespace
        token = await request_token(self._hub, (namespace, AGENT_ACCOUNT), seconds=self._seconds)
        # `invite --renew` makes another report before it makes another account: a token of the new
        # account is never sealed for a claim of the old report.
        if await self._claimed(namespace) != (uid, claim):
            return
        text = {"claim": claim, "sealed": sealed_tokens.seal(token, claim)}
        body = {
            "apiVersion": "v1",
            "kind": SECRETS.kind,
            "metadata": {"name": AGENT_TOKEN_SECRET, "namespace": namespace},
            "stringData": text,
        }
        try:
            await self._hub.create(SECRETS, body, namespace=namespace)
        except AlreadyExists:
            patch = {"stringData": text}
            await self._hub.merge_patch(SECRETS, AGENT_TOKEN_SECRET, patch, namespace=namespace)
        LOG.info("its first token is sealed", extra={"object": cluster.name})
        note = (
            "an agent has claimed the member and gets its token; was it not yours, run "
            f"`stowage revoke {cluster.name}`"
        )
        reason = MemberClusterEventReason.INVITE_USED
        tell_of(self._recorder, cluster, reason, note, "Admit")

    async def _end_invitation(self, cluster: MemberCluster) -> None:
        namespace = cluster.member_namespace
        await self._delete(SERVICE_ACCOUNTS, INVITE_ACCOUNT, namespace)
        await self._delete(SECRETS, AGENT_TOKEN_SECRET, namespace)
        meta = {
            "resourceVersion": cluster.metadata.resource_version,
            "annotations": {ANNOTATION_INVITED: None},
        }
        # On the version that was read: another invitation may have been made since.
        await self._hub.merge_patch(MEMBER_CLUSTERS, cluster.name, {"metadata": meta})

    async def _delete(self, resource: Resource, name: str, namespace: str) -> None:
        with suppress(NotFound):
            await self._hub.delete(resource, name, namespace=namespace)


def oldest_served(running: str) -> str:
    """Return the oldest release of an agent that a hub of that release serves; empty for any."""
    found = parsed(running)
    if not found or found[1] < SERVED_RELEASES:
        return ""
    return f"{found[0]}.{found[1] - SERVED_RELEASES}.0"


def _read(cluster: MemberCluster) -> tuple[object, ...]:
    return cluster.member_namespace, cluster.invited, cluster.revoked, cluster.spec.mode
