"""Creates MemberClusters for Secrets, and sessions for MemberClusters.

A Secret with the label `stowage.dev/register` in the system namespace registers the cluster of its
name. Any other MemberCluster may refer to any Secret. A deleted Secret makes its cluster not ready.

Deleting a MemberCluster unregisters the cluster, although its Secret may remain: the Secret's
annotation `stowage.dev/registered` is a digest of the registered data, written after the
MemberCluster. Where the hub deletes the kind itself, sessions go on.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from crds.membercluster import MemberClusterCondition, ReadyReason
from crds.names import API_VERSION, GROUP, LABEL_MEMBER_NAMESPACE, LABEL_REGISTER
from machinery import logs
from machinery.api.resources import MEMBER_CLUSTERS, SECRETS, Resource
from machinery.api.verbs import METADATA
from machinery.config.kubeconfig import too_large
from machinery.errors import AlreadyExists, KubeconfigError, NotFound
from machinery.runtime.informer import Informer
from machinery.runtime.informers import InformerPool
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types import conditions
from machinery.types.metadata import Key
from propagator.credentials.credentials import Credentials, credentials_of
from propagator.hub.agent_accounts import NAMESPACE_SECONDS, is_its_own
from propagator.hub.cluster_status import reported_health
from propagator.hub.named_objects import NoTenant
from propagator.hub.own_kind import OwnKind
from propagator.members.cluster_identity import CLUSTER_ID_INDEX, noted
from propagator.members.context import ControllerContext
from propagator.members.health import MemberHealth, verdict_of
from propagator.members.pulled import PullSession, PullSource
from propagator.members.session import MemberSession
from propagator.types.cluster import ClusterEndpoint, MemberCluster, Secret, bounded

LOG = logs.get(__name__)

ANNOTATION_REGISTERED = f"{GROUP}/registered"
"""The annotation with the digest that the Secret's MemberCluster was created for."""

KIND_SECONDS = 10.0
"""Seconds until a cluster is looked at again whose MemberCluster went with the kind."""

FORMER_INDEX = "former"
SECRET_INDEX = "secret"  # noqa: S105 - the name of an index
_WORKERS = 4


def present_names(clusters: Informer[MemberCluster], names: Iterable[str]) -> dict[str, str]:
    """By former name, which no cluster has any more: the oldest cluster that had it."""
    gone = [name for name in names if clusters.get(("", name)) is None]
    found = ((name, clusters.by_index(FORMER_INDEX, name)) for name in gone)
    return {former: min(there, key=_age).name for former, there in found if there}


def present_name(clusters: Informer[MemberCluster], name: str, uid: str) -> str:
    """Return the name that a cluster of that name and UID has now; `uid` is empty if unknown."""
    stands = clusters.get(("", name))
    if stands is not None and (not uid or noted(stands).uid in ("", uid)):
        return name
    known = [
        each
        for each in (clusters.by_index(CLUSTER_ID_INDEX, uid) if uid else ())
        if noted(each).uid == uid and not each.given_up
    ]
    if known:
        return min(known, key=_age).name
    return present_names(clusters, [name]).get(name, name)


def _age(cluster: MemberCluster) -> tuple[str, str]:
    return cluster.metadata.creation_timestamp, cluster.name


class Registrar:
    """`secrets` are the labelled ones of the system namespace; the caller runs it."""

    def __init__(self, context: ControllerContext, *, secrets: Informer[Secret]) -> None:
        self._membership = context.membership
        self._hub = context.hub
        self._namespace = context.namespace
        self._secrets = secrets
        self._clusters = context.clusters
        self._registry = context.registry
        self._queue: WorkQueue[str] = WorkQueue(name="registrar", clock=context.clock)
        self._records = SecretBook(context, labelled=secrets, changed=self._queue.add)
        self._kind = OwnKind(context.hub, MEMBER_CLUSTERS, clock=context.clock)
        self._membership.on_change(self._members_changed)
        self._clusters.add_index(FORMER_INDEX, lambda each: each.spec.former_names)
        secrets.add_handler(self._secret_changed)
        self._clusters.add_handler(self._cluster_changed)

    async def run(self) -> None:
        """Nothing is decided before both informers have listed."""
        await self._secrets.wait_synced()
        await self._clusters.wait_synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._records.run())
            tasks.create_task(work(self._queue, self._reconcile, workers=_WORKERS, log=LOG))

    def _secret_changed(self, old: Secret | None, new: Secret | None) -> None:
        secret = new or old
        if secret is not None:
            self._queue.add(secret.metadata.name)

    def _cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if old and new and _read_of(old) == _read_of(new):
            return  # such as our own status writes
        cluster = new or old
        if cluster is not None:
            self._queue.add(cluster.name)

    def _members_changed(self) -> None:
        names = {cluster.name for cluster in self._clusters.values()}
        for name in sorted(names | {secret.metadata.name for secret in self._secrets.values()}):
            self._queue.add(name)

    async def _reconcile(self, name: str) -> None:
        if not self._membership.serves(name):
            # What was served before was handed over. That it was given up counts everywhere.
            if self._registry.get(name) is None:
                self._records.refer(name, None)
            elsewhere = self._clusters.get(("", name))
            if elsewhere is not None and elsewhere.given_up:
                self._registry.identities.give_up(name)
            return
        cluster = self._clusters.get(("", name))
        secret = self._secrets.get((self._namespace, name))
        if cluster is not None and cluster.given_up:
            await self._let_go(name, given_up=True)
            return
        if cluster is not None:
            if secret is not None and cluster.spec.secret_ref is None and not _marked(secret):
                cluster = await self._patch(cluster, membercluster(secret)["spec"])
            await self._take_back(cluster)
            await self._take_over(cluster)
            await self._connect(cluster)
            # Only a MemberCluster that exists is marked: a process that dies before this leaves
            # one without a mark, and the next process adds it.
            await self._remember(cluster, secret)
            return
        if self._registry.get(name) is not None and await self._kind.ends():
            # Nobody unregistered it, and its session lets go of Workloads that end as well.
            self._queue.add_after(name, KIND_SECONDS)
            return
        await self._let_go(name, given_up=False)
        if secret is not None:
            await self._register(secret)

    async def _let_go(self, name: str, *, given_up: bool) -> None:
        self._records.refer(name, None)
        if given_up:  # another name may have the cluster at once
            await self._registry.let_go(name)
            self._registry.identities.give_up(name)
        else:
            await self._registry.drop(name)

    async def _register(self, secret: Secret) -> None:
        name = secret.metadata.name
        if _marked(secret):
            LOG.info(
                "not registered: its MemberCluster was deleted, and the Secret is unchanged since",
                extra={"object": f"{self._namespace}/{name}"},
            )
            return
        if not await self._stands(SECRETS, name, namespace=self._namespace):
            return  # its deletion found no MemberCluster to delete: no later event would
        with suppress(AlreadyExists):  # created by another client; its event follows
            made = await self._hub.create(MEMBER_CLUSTERS, membercluster(secret))
            self._clusters.upsert(msgspec.convert(made, MemberCluster))

    async def _patch(self, cluster: MemberCluster, spec: Mapping[str, Any]) -> MemberCluster:
        version = {"resourceVersion": cluster.metadata.resource_version}
        patch = {"metadata": version, "spec": spec}
        made = await self._hub.merge_patch(MEMBER_CLUSTERS, cluster.name, patch)
        patched = msgspec.convert(made, MemberCluster)
        self._clusters.upsert(patched)
        return patched

    async def _take_back(self, cluster: MemberCluster) -> None:
        """Remove this cluster's name from the former names of older ones, once it is ready."""
        if not conditions.holds(cluster.status, MemberClusterCondition.READY):
            return
        for other in self._clusters.by_index(FORMER_INDEX, cluster.name):
            if other.metadata.creation_timestamp >= cluster.metadata.creation_timestamp:
                continue  # `stowage rename` is in progress: the one with the name is the older one
            kept = [name for name in other.spec.former_names if name != cluster.name]
            await self._patch(other, {"formerNames": kept})

    async def _take_over(self, cluster: MemberCluster) -> None:
        """Add the names that this cluster had when its MemberCluster was deleted."""
        names = self._registry.identities.left(cluster)
        known = cluster.spec.former_names
        new = [n for n in names if n not in known and self._clusters.get(("", n)) is None]
        if new:
            await self._patch(cluster, {"formerNames": [*known, *new]})

    async def _remember(self, cluster: MemberCluster, secret: Secret | None) -> None:
        reference = cluster.spec.secret_ref
        if secret is None or reference is None or reference.key != secret.metadata.key:
            return
        if _marked(secret):
            return
        if not await self._stands(MEMBER_CLUSTERS, cluster.name):
            return  # deleted before this Secret came: the event of its end registers it again
        metadata = {
            "resourceVersion": secret.metadata.resource_version,
            "annotations": {ANNOTATION_REGISTERED: digest(secret)},
        }
        namespace, name = secret.metadata.key
        patch = {"metadata": metadata}
        marked = await self._hub.merge_patch(SECRETS, name, patch, namespace=namespace)
        self._secrets.upsert(msgspec.convert(marked, Secret))

    async def _stands(self, kind: Resource, name: str, *, namespace: str | None = None) -> bool:
        """Ask the hub: informers may be behind it and each other."""
        try:  # not a list, which takes a tenth of a second while another kind is written (1.36.3)
            await self._hub.request("GET", kind.path(namespace, name), accept=METADATA)
        except NotFound:
            return False
        return True

    async def _connect(self, cluster: MemberCluster) -> None:
        if not self._membership.serves(cluster.name):
            return  # it was handed over meanwhile
        session = await self._admit(cluster)
        session.health.recall(**reported_health(cluster.status))
        if not cluster.pulls:
            await self._set_credentials(session, cluster)
        elif not isinstance(session, PullSession):
            session.refuse(_no_namespace(cluster))
            self._queue.add_after(cluster.name, NAMESPACE_SECONDS)
        session.take_in(cluster)

    async def _admit(self, cluster: MemberCluster) -> MemberSession:
        """Return the session of the present mode; of mode Pull without a namespace, a bare one."""
        name, present = cluster.name, self._registry.get(cluster.name)
        before = present.source if isinstance(present, PullSession) else None
        pull = None
        if cluster.pulls:
            self._records.refer(name, None)
            pull = PullSource(self._hub, cluster.member_namespace)
            if pull != before and not await is_its_own(self._hub, cluster):
                pull = None
        if present is not None and before != pull:
            await self._registry.let_go(name)
        return self._registry.admit(name, pull)

    async def _set_credentials(self, session: MemberSession, cluster: MemberCluster) -> None:
        reference = cluster.spec.secret_ref
        self._records.refer(cluster.name, reference.key if reference else None)
        if trouble := cluster.inventory_trouble:
            session.refuse(MemberHealth(ReadyReason.INVENTORY_UNHEALTHY, trouble))
        elif reference is None:
            session.refuse(_no_secret(self._no_reference(cluster)))
        elif self._records.known(reference.key):
            secret = self._records.get(reference.key)
            if secret is None:
                where = "/".join(reference.key)
                session.refuse(_no_secret(f"the Secret {where} does not exist"))
            else:
                await self._use(session, cluster, secret)
        elif self._records.refused(reference.key):
            session.refuse(_no_secret(str(NoTenant("Secret", reference.key))))
        else:
            session.await_secret()

    def _no_reference(self, cluster: MemberCluster) -> str:
        where = f"{self._namespace}/{cluster.name}"
        cure = (
            f"make the Secret {where} with the label {LABEL_REGISTER}, as `stowage join` does, or "
            "name another one"
        )
        return f"spec.secretRef is not set, so nothing can be placed here: {cure}"

    async def _use(self, session: MemberSession, cluster: MemberCluster, secret: Secret) -> None:
        meta, endpoint = secret.metadata, cluster.spec.endpoint
        version = (meta.uid, meta.resource_version, endpoint)
        if session.parsed is None or session.parsed[0] != version:
            session.parsed = version, await _parse(completed(secret, endpoint))
        match session.parsed[1]:
            case Credentials() as credentials:
                session.use(credentials)
            case MemberHealth() as verdict:
                session.refuse(verdict)


def digest(secret: Secret) -> str:
    text = msgspec.msgpack.encode([secret.excess, *sorted(secret.data.items())])
    return hashlib.blake2b(text, key=secret.metadata.uid.encode(), digest_size=8).hexdigest()


def completed(secret: Secret, endpoint: ClusterEndpoint | None) -> Secret:
    if endpoint is None or secret.excess or {"kubeconfig", "endpoint"} & secret.data.keys():
        return secret
    return msgspec.structs.replace(secret, data={**secret.data, **endpoint.data})


def _secret_of(cluster: MemberCluster) -> list[str]:
    reference = cluster.spec.secret_ref
    return ["/".join(reference.key)] if reference is not None else []


def _marked(secret: Secret) -> bool:
    return secret.metadata.annotations.get(ANNOTATION_REGISTERED) == digest(secret)


def membercluster(secret: Secret) -> dict[str, Any]:
    """Labels of Stowage are left out."""
    meta = secret.metadata
    labels = {key: value for key, value in meta.labels.items() if not _ours(key)}
    return {
        "apiVersion": API_VERSION,
        "kind": "MemberCluster",
        "metadata": {"name": meta.name, "labels": labels},
        "spec": {"secretRef": {"namespace": meta.namespace, "name": meta.name}},
    }


def _read_of(cluster: MemberCluster) -> tuple[object, ...]:
    meta = cluster.metadata
    ready = conditions.holds(cluster.status, MemberClusterCondition.READY)
    seen = (
        ready,
        noted(cluster),
        cluster.given_up,
        cluster.pulls,
        cluster.member_namespace,
        cluster.revoked,
    )
    return meta.uid, meta.generation, cluster.facts, cluster.inventory_trouble, seen


def _ours(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    return bool(slash) and (domain == GROUP or domain.endswith(f".{GROUP}"))


def _no_secret(message: str) -> MemberHealth:
    return MemberHealth(ReadyReason.SECRET_NOT_FOUND, message)


def _no_namespace(cluster: MemberCluster) -> MemberHealth:
    message = (
        f"it names no namespace whose label {LABEL_MEMBER_NAMESPACE} says {cluster.name}: run "
        f"`stowage invite {cluster.name} --renew`"
    )
    return MemberHealth(ReadyReason.AGENT_REVOKED, message)


async def _parse(secret: Secret) -> Credentials | MemberHealth:
    """Parse in a thread, because that takes milliseconds."""
    if secret.excess:
        return verdict_of(KubeconfigError("data", too_large(secret.excess)))
    try:
        return await asyncio.to_thread(credentials_of, secret.data)
    except KubeconfigError as fault:
        return verdict_of(fault)
    except Exception:  # a fault in a parser concerns this Secret alone
        where = "/".join(secret.metadata.key)
        LOG.exception("the Secret cannot be read", extra={"object": where})
        return verdict_of(KubeconfigError("kubeconfig", "cannot be read, see the log"))


class SecretBook:
    """The Secrets that MemberClusters refer to, in any namespace.

    One watch shows the labelled Secrets; any other has its own. `changed` is called with the
    MemberClusters that refer to a changed Secret.
    """

    def __init__(
        self,
        context: ControllerContext,
        *,
        labelled: Informer[Secret],
        changed: Callable[[str], None],
    ) -> None:
        self._hub = context.hub
        self._clusters = context.clusters
        self._labelled = labelled
        self._clock = context.clock
        self._changed = changed
        self._clusters.add_index(SECRET_INDEX, _secret_of)
        self._watches = InformerPool(self._watch, told=self._tell, shown=self._tell)
        labelled.add_handler(self._labelled_changed)

    def refer(self, cluster: str, key: Key | None) -> None:
        watched = [key] if key is not None and self._labelled.get(key) is None else []
        self._watches.keep(watched, cluster)

    def known(self, key: Key) -> bool:
        """Whether `get` is reliable yet."""
        watch = self._watches.get(key)
        return self._labelled.get(key) is not None or (watch is not None and watch.synced)

    def refused(self, key: Key) -> bool:
        """Its namespace is then no tenant."""
        watch = self._watches.get(key)
        return watch is not None and watch.refused is not None

    def get(self, key: Key) -> Secret | None:
        watch = self._watches.get(key)
        return self._labelled.get(key) or (watch.get(key) if watch is not None else None)

    async def run(self) -> None:
        """A further run resumes the watches."""
        await self._watches.run()

    def _watch(self, key: Key) -> Informer[Secret]:
        namespace, name = key
        informer = Informer(
            self._hub,
            SECRETS,
            Secret,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
            transform=bounded,
            clock=self._clock,
        )
        informer.add_handler(lambda old, new: self._tell(key))
        return informer

    def _tell(self, key: Key) -> None:
        for cluster in self._clusters.by_index(SECRET_INDEX, "/".join(key)):
            self._changed(cluster.name)

    def _labelled_changed(self, old: Secret | None, new: Secret | None) -> None:
        secret = new or old
        if secret is not None:
            self._tell(secret.metadata.key)
