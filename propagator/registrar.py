"""Secrets become MemberClusters, and MemberClusters become sessions.

A Secret with the label `stowage.dev/register` in the system namespace registers the cluster of its
name. A MemberCluster may as well be written by hand; its `spec.secretRef` may name any Secret. A
Secret that goes makes its cluster not ready and touches nothing on the member.

Deleting a MemberCluster unregisters the cluster, although its Secret may still be there: the Secret
carries in `stowage.dev/registered` a digest of the data that it was registered with, written after
the MemberCluster. A labelled Secret without MemberCluster is thus new when it has no such mark, or
when its data is no longer what the mark says; otherwise somebody deleted the MemberCluster, perhaps
while no propagator ran, and that is honoured until the Secret changes or the mark is removed. The
order is safe: a process that dies between the two writes leaves a MemberCluster without a mark, and
the next one adds it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from crds.membercluster import ReadyReason
from crds.names import API_VERSION, GROUP
from machinery import logs
from machinery.clock import Clock
from machinery.errors import AlreadyExists, KubeconfigError
from machinery.informer import Informer
from machinery.kubeconfig import Connection, connection_from_secret
from machinery.queue import WorkQueue, work
from machinery.resources import MEMBER_CLUSTERS, SECRETS
from machinery.transport import ApiClient
from propagator.fleet import MemberFleet
from propagator.hubmodel import MemberCluster, Secret
from propagator.member import MemberSession
from propagator.observe import Verdict, verdict_of
from propagator.secretbook import SecretBook

LOG = logs.get(__name__)

ANNOTATION_REGISTERED = f"{GROUP}/registered"
"""On a registration Secret: a digest of the data that its MemberCluster was made for."""

_WORKERS = 4


class Registrar:
    """Keeps the fleet's sessions as the MemberClusters and their Secrets say.

    `secrets` is the informer over labelled Secrets of `namespace`, `clusters` that over all
    MemberClusters; both are run by the caller. `check` is called before each write and raises
    LeaseLost.
    """

    def __init__(
        self,
        hub: ApiClient,
        *,
        namespace: str,
        secrets: Informer[Secret],
        clusters: Informer[MemberCluster],
        fleet: MemberFleet,
        clock: Clock,
        check: Callable[[], None],
    ) -> None:
        self._hub = hub
        self._namespace = namespace
        self._secrets = secrets
        self._clusters = clusters
        self._fleet = fleet
        self._check = check
        self._queue: WorkQueue[str] = WorkQueue(name="registrar", clock=clock)
        self._book = SecretBook(hub, labelled=secrets, clock=clock, changed=self._queue.add)
        self._parsed: dict[str, tuple[str, Connection | Verdict]] = {}
        secrets.add_handler(self._secret_changed)
        clusters.add_handler(self._cluster_changed)

    async def run(self) -> None:
        """Work until cancelled; nothing is decided before both informers have listed."""
        try:
            await self._secrets.wait_synced()
            await self._clusters.wait_synced()
            await work(self._queue, self._reconcile, workers=_WORKERS, log=LOG)
        finally:
            await self._book.close()

    def _secret_changed(self, old: Secret | None, new: Secret | None) -> None:
        secret = new or old
        if secret is not None:
            self._queue.add(secret.metadata.name)

    def _cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """Our own status writes come by here too, and change nothing that matters."""
        if old and new and (old.metadata.uid, old.spec) == (new.metadata.uid, new.spec):
            return
        cluster = new or old
        if cluster is not None:
            self._queue.add(cluster.name)

    async def _reconcile(self, name: str) -> None:
        cluster = self._clusters.get(("", name))
        secret = self._secrets.get((self._namespace, name))
        if cluster is not None:
            await self._connect(cluster)
            await self._remember(cluster, secret)
            return
        self._book.refer(name, None)
        self._parsed.pop(name, None)
        await self._fleet.drop(name)
        if secret is not None:
            await self._register(secret)

    async def _register(self, secret: Secret) -> None:
        name = secret.metadata.name
        if secret.metadata.annotations.get(ANNOTATION_REGISTERED) == digest(secret):
            note = (
                "not registered: its MemberCluster was deleted, and the Secret is unchanged since"
            )
            LOG.info(note, extra={"object": f"{self._namespace}/{name}"})
            return
        self._check()
        with suppress(AlreadyExists):  # written by hand meanwhile; its event is on the way
            made = await self._hub.create(MEMBER_CLUSTERS, membercluster(secret))
            self._clusters.upsert(msgspec.convert(made, MemberCluster))

    async def _remember(self, cluster: MemberCluster, secret: Secret | None) -> None:
        """Mark the Secret, so that a deletion of this MemberCluster will be seen as one."""
        reference = cluster.spec.secret_ref
        if secret is None or reference is None or reference.key != secret.metadata.key:
            return
        mark = digest(secret)
        if secret.metadata.annotations.get(ANNOTATION_REGISTERED) == mark:
            return
        metadata = {
            "resourceVersion": secret.metadata.resource_version,
            "annotations": {ANNOTATION_REGISTERED: mark},
        }
        self._check()
        namespace, name = secret.metadata.key
        patch = {"metadata": metadata}
        marked = await self._hub.merge_patch(SECRETS, name, patch, namespace=namespace)
        self._secrets.upsert(msgspec.convert(marked, Secret))

    async def _connect(self, cluster: MemberCluster) -> None:
        session = self._fleet.admit(cluster.name)
        session.namespaces = cluster.spec.namespaces.allow
        reference = cluster.spec.secret_ref
        self._book.refer(cluster.name, reference.key if reference else None)
        if reference is None:
            session.refuse(_no_secret("spec.secretRef is not set"))
        elif self._book.known(reference.key):
            secret = self._book.get(reference.key)
            if secret is None:
                where = "/".join(reference.key)
                session.refuse(_no_secret(f"the Secret {where} does not exist"))
            else:
                await self._use(session, secret)

    async def _use(self, session: MemberSession, secret: Secret) -> None:
        version = f"{secret.metadata.uid}/{secret.metadata.resource_version}"
        parsed = self._parsed.get(session.name)
        if parsed is None or parsed[0] != version:
            parsed = (version, await _parse(secret))
            self._parsed[session.name] = parsed
        match parsed[1]:
            case Connection() as connection:
                session.use(connection)
            case Verdict() as verdict:
                session.refuse(verdict)


def digest(secret: Secret) -> str:
    """A short fingerprint of a Secret's data, keyed by its UID: equal data looks different."""
    text = msgspec.msgpack.encode(sorted(secret.data.items()))
    return hashlib.blake2b(text, key=secret.metadata.uid.encode(), digest_size=8).hexdigest()


def membercluster(secret: Secret) -> dict[str, Any]:
    """The MemberCluster that a labelled Secret asks for, with its labels that are not ours."""
    meta = secret.metadata
    labels = {key: value for key, value in meta.labels.items() if not _ours(key)}
    return {
        "apiVersion": API_VERSION,
        "kind": "MemberCluster",
        "metadata": {"name": meta.name, "labels": labels},
        "spec": {"secretRef": {"namespace": meta.namespace, "name": meta.name}},
    }


def _ours(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    return bool(slash) and (domain == GROUP or domain.endswith(f".{GROUP}"))


def _no_secret(message: str) -> Verdict:
    return Verdict(ReadyReason.SECRET_NOT_FOUND, message)


async def _parse(secret: Secret) -> Connection | Verdict:
    """In a thread: YAML of a megabyte takes seconds, and the lease must be renewed meanwhile."""
    try:
        return await asyncio.to_thread(connection_from_secret, secret.data)
    except KubeconfigError as fault:
        return verdict_of(fault)
