"""One session per member: everything that this process does with one MemberCluster.

A session lives as long as its MemberCluster, its workers as long as a term. Each set of credentials
gets its own `Link`. Keys wait while the member is not ready.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TypeAlias

from crds.membercluster import ReadyReason
from crds.names import forbidden_namespace
from machinery import logs
from machinery.api.client import ApiClient, WritesInFlight
from machinery.api.lanes import working_for, works_for
from machinery.api.resources import Resource, group_of
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import Conflict, KubeconfigError, LeaseLost, StowageError, Unreachable
from machinery.overrides.variables import ClusterFacts
from machinery.runtime.backoff import KeyedBackoff
from machinery.runtime.fair_queue import namespace_of
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue, work
from machinery.tasks import Gradually
from machinery.types.api import ImageRule
from machinery.types.metadata import Key, Meta
from propagator.credentials.credentials import Credentials
from propagator.members.capacity.kept import PodLabels
from propagator.members.cluster_identity import Identities
from propagator.members.connection import Link, LinkListener
from propagator.members.health import (
    Contact,
    HealthProbe,
    MemberHealth,
    unreachable,
    verdict_of,
)
from propagator.members.held_sweep import HeldSweep
from propagator.members.hub_lease import Holder, no_holder
from propagator.members.objects import ManagedObject, Mark, owners, stands_alike
from propagator.members.pod_index import Availability, PodCounts
from propagator.members.pods import Main, OtherLabels, PodClaim, claim_of, made_by
from propagator.members.watches import EVERYWHERE
from propagator.settings import SessionSettings
from propagator.types.cluster import MemberCluster

Reconcile: TypeAlias = Callable[["MemberSession", Key], Awaitable[float | None]]
"""Returns seconds until requeue, or None."""

LOG = logs.get(__name__)
_UNREAD = MemberHealth(
    ReadyReason.SECRET_NOT_FOUND,
    "its Secret could not be read so far: check that the propagator may get and watch it",
)
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 60.0
LEAST_REQUEUE_SECONDS = 0.5
"""The minimum time between two reconciles of a waiting key, whatever events arrive."""


class Holders:
    """The members that show objects of a Workload, by its UID."""

    def __init__(self) -> None:
        self._members: dict[str, set[str]] = {}

    def of(self, uid: str) -> set[str]:
        return set(self._members.get(uid, ()))

    def add(self, uid: str, member: str) -> None:
        self._members.setdefault(uid, set()).add(member)

    def discard(self, uid: str, member: str) -> None:
        members = self._members.get(uid, set())
        members.discard(member)
        if not members:
            self._members.pop(uid, None)


class MemberSession:
    """`changed(name, key)` tells of readiness (key None), managed objects and pod counts.

    `key_of(uid)` is that of a Workload: its pods may end after its last object there.

    `facts(name)` tells of content of MemberCluster.status. `before_write` raises LeaseLost.
    """

    task: asyncio.Task[None] | None = None
    workers: asyncio.Task[None] | None = None
    """Both run by the registry, the workers within a term."""
    handed_over = False
    """Whether nothing more may be written: another shard gets the member."""
    next_status = -math.inf
    """Before this monotonic time the status of the MemberCluster is not computed again."""
    has_turn = False
    """Whether `next_status` is the member's turn among all."""
    parsed: tuple[object, Credentials | MemberHealth] | None = None
    """What the registrar parsed last, and of which version."""
    token_renewed = -math.inf
    uncompared: set[Key] | None = None
    """The Workloads of which this shard has not told since it connected; None: all of them."""

    def __init__(
        self,
        name: str,
        *,
        settings: SessionSettings,
        clock: Clock,
        changed: Callable[[str, Key | None], None],
        key_of: Callable[[str], Key | None],
        facts: Callable[[str], None],
        before_write: Callable[[], float | None],
        holder: Holder = no_holder,
        holders: Holders,
        identities: Identities,
        members: Callable[[], int],
        mark: Callable[[], str] = str,
    ) -> None:
        self.name = name
        self.writes = WritesInFlight(clock)
        self._mark = mark
        self.namespaces: tuple[str, ...] = ("*",)
        self.allowed_kinds: frozenset[str] = frozenset()
        """Allowed guarded kinds, `<group>/<kind>`."""
        self.facts = ClusterFacts(name, {})
        self.former: Sequence[str] = ()
        """The names that the cluster had."""
        self.images: tuple[ImageRule, ...] = ()
        self.registration = ""  # the UID of the MemberCluster; see `take_in`
        self.health = HealthProbe()
        """Survives a change of credentials."""
        self.queue: WorkQueue[Key] = WorkQueue(
            name="member", clock=clock, flow=namespace_of, seats=settings.workers
        )
        self.link: Link | None = None
        self.verdict: MemberHealth | None = None
        """None until something is known, which is not the same as bad."""
        self.generation = 0
        """The MemberCluster generation last passed to `take_in`."""
        self.held: HeldSweep | None = None
        """The sweep that waits for an operator; None until the brake has decided."""
        self._judged = False  # by the present credentials
        self._settings = settings
        self._clock = clock
        self._resources: dict[Resource, None] = {}  # that were asked for, in order
        self._changed, self._key_of = changed, key_of
        self._facts = facts
        self._before_write = before_write
        self._holder = holder
        self._holders = holders
        self._identities = identities
        self._members = members
        self._credentials: Credentials | MemberHealth | None = None
        self._credentials_changed = asyncio.Event()
        self._pending: set[Key] = set()
        self._wakes: Gradually[Key] = Gradually(self.wake)
        self._backoff: KeyedBackoff[Key] = KeyedBackoff(
            clock=clock, base=FIRST_PAUSE, cap=LONGEST_PAUSE
        )
        self._not_before: dict[Key, float] = {}
        self._other_labels = OtherLabels()

    @property
    def client(self) -> ApiClient | None:
        """For reads; None without a usable kubeconfig."""
        return self.link.client if self.link else None

    @property
    def ready(self) -> bool:
        """Whether the member answers and its objects are listed. Nothing is reconciled before."""
        return self.link is not None and self.link.serving

    @property
    def contact(self) -> Contact:
        """CONNECTING from each change of credentials until probe and first lists are done."""
        if self._judged and self.ready:
            return Contact.SERVING
        if self._judged and self.verdict is not None and not self.verdict.ready:
            return Contact.AWAY
        return Contact.CONNECTING

    @property
    def refused_as_second(self) -> bool:
        """Whether another MemberCluster serves this cluster. This one then sends no requests."""
        return self.verdict is not None and self.verdict.reason is ReadyReason.ALREADY_REGISTERED

    @property
    def message(self) -> str:
        """Names the member and contains no secret."""
        return self.verdict.sentence(self.name) if self.verdict else f"{self.name}: not asked yet"

    @property
    def credentials(self) -> Credentials | None:
        """None if there are no usable ones."""
        return self._credentials if isinstance(self._credentials, Credentials) else None

    @property
    def answered(self) -> float:
        """The monotonic time of the last answered probe; -inf without one."""
        return -math.inf if self.link is None else self.link.probe.answered

    def ask_now(self) -> None:
        """Probe the member immediately; `facts` reports the outcome."""
        if self.link is not None:
            self.link.probe.ask_now()

    def allows(self, namespace: str) -> bool:
        """Whether that target namespace is allowed; kube-* and stowage-system never are."""
        if forbidden_namespace(namespace):
            return False
        return any(fnmatchcase(namespace, glob) for glob in self.namespaces)

    def wake(self, key: Key) -> None:
        """Ignores the key's back-off."""
        self._not_before.pop(key, None)
        self._backoff.reset(key)
        self.queue.add(key)

    def client_for(self, namespace: str) -> Verbs:
        """Raises Unreachable without a usable kubeconfig."""
        return self._linked().client_for(namespace)

    @property
    def went_back_to(self) -> int | None:
        return self.link.went_back_to if self.link is not None else None

    @property
    def mark(self) -> Mark:
        return Mark(self.registration, self.link.identity.uid if self.link else "")

    @property
    def owners(self) -> Mapping[str, Key]:
        """By UID: those whose objects the member shows."""
        return self.link.watches.owners if self.link is not None else {}

    def hold_sweep(self, held: HeldSweep) -> None:
        if held != self.held:
            self.held = held
            self._facts(self.name)

    def track(self, resource: Resource, namespace: str = EVERYWHERE) -> Informer[ManagedObject]:
        """The first call starts the informer of our objects of that kind; new credentials renew it.

        Raises Unreachable without a usable kubeconfig; the kind is then watched once there is one.
        """
        self._resources[resource] = None
        return self._linked().watches.track(resource, namespace)

    def untrack(self, resource: Resource) -> None:
        self._resources.pop(resource, None)
        if self.link is not None:
            self.link.watches.untrack(resource)

    def tracked(
        self, resource: Resource, namespace: str = EVERYWHERE
    ) -> Informer[ManagedObject] | None:
        """It may not be synced."""
        return self.link.watches.tracked(resource, namespace) if self.link else None

    def pod_counts(self, main: Main) -> PodCounts | None:
        """Return the counts in replicas, the last ones of a member that does not answer.

        None if unknown.
        """
        if self.link is None or not self.link.counted:
            return None
        labels = self._other_labels
        return self.link.pod_index.counts(labels.labelled(main), each=labels.size(main))

    @property
    def counting(self) -> bool:
        """Whether there may be pods that are not listed yet: none of them is gone so far."""
        return self.link is not None and self.link.counting

    def pod_labels(self, main: Main) -> set[PodLabels | None]:
        """Return the different labels of its observed pods, of any revision; None if not kept."""
        if self.link is None:
            return set()
        return self.link.pod_index.labels(self._other_labels.labelled(main))

    def kept_pods(self, main: Main, templates: Sequence[str]) -> int:
        """Return the pods that were made of other templates; 0 where these are not told."""
        if self.link is None or not templates:
            return 0
        pods = self.link.pod_index.of(self._other_labels.labelled(main))
        known = {"", *templates}
        return sum(each.claim is not None and each.claim.digest not in known for each in pods)

    def newest_pod(self, main: Main) -> datetime | None:
        labelled = self._other_labels.labelled(main)
        return self.link.pod_index.newest(labelled) if self.link is not None else None

    def is_pod_of(self, main: Main, pod: Meta) -> bool:
        claim = claim_of(pod)
        return claim is not None and made_by(claim, self._other_labels.labelled(main))

    def former_pods(self, main: Main) -> int:
        """Observed pods of the Workload that another object than `main` created."""
        return self.link.pod_index.others(main) if self.link is not None else 0

    def others_pods(self, main: Main, key: Key) -> PodCounts | None:
        """Return the counts of pods of another tool's object; None as `pod_counts`."""
        self._other_labels.note(main, key, main.uid, "")
        counts = self.pod_counts(main)
        if self.link is None or counts is None or counts.current:
            return counts
        return self.link.pod_index.counts(main._replace(uid=""))

    def availability(self, main: Main, seconds: int) -> Availability | None:
        """None while the pods are not watched."""
        link = self.link
        if link is None or not link.counted:
            return None
        labels = self._other_labels
        return link.pod_index.available(labels.labelled(main), seconds, each=labels.size(main))

    def take_in(self, cluster: MemberCluster) -> None:
        """Called after `use` or `refuse`. A changed rule calls `changed`."""
        spec, generation = cluster.spec, cluster.metadata.generation
        self.former = tuple(spec.former_names)
        allow, kinds = tuple(spec.namespaces.allow), frozenset(spec.allowed_kinds)
        rules = (allow, kinds, cluster.metadata.uid, cluster.facts, tuple(spec.images))
        before = (self.namespaces, self.allowed_kinds, self.registration, self.facts, self.images)
        same = rules == before
        if same and self.generation == generation:
            return
        self.namespaces, self.allowed_kinds, self.registration, self.facts, self.images = rules
        self.generation = generation
        if same:
            self._facts(self.name)
        else:
            self._changed(self.name, None)

    def await_secret(self) -> None:
        self._set_credentials(None)

    def use(self, credentials: Credentials) -> None:
        """Switch to these credentials. If only the token differs, nothing is interrupted."""
        link, present = self.link, self._credentials
        token = credentials.connection.token
        if link is None or not link.serving or not token or not isinstance(present, Credentials):
            self._set_credentials(credentials)
        elif credentials.differs_only_in_token(present):
            self._credentials = credentials
            link.use_token(token)
        else:
            self._set_credentials(credentials)

    def refuse(self, verdict: MemberHealth) -> None:
        """There is no usable kubeconfig, for this reason."""
        self._set_credentials(verdict)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._wakes.run())
            tasks.create_task(self._follow())

    async def work(self, reconcile: Reconcile) -> None:
        """Reconcile until cancelled, within a term."""
        await work(
            self.queue,
            functools.partial(self._reconcile_ready, reconcile),
            workers=self._settings.workers,
            log=LOG,
        )

    def failed(self) -> None:
        self._judge(unreachable("the propagator failed at it, its log says how"))

    def _set_credentials(self, credentials: Credentials | MemberHealth | None) -> None:
        if credentials != self._credentials:
            self._credentials = credentials
            self._judged = False
            self._credentials_changed.set()

    def _linked(self) -> Link:
        if self.link is None:
            raise Unreachable("there is no usable kubeconfig now")
        return self.link

    async def _follow(self) -> None:
        while True:
            self._credentials_changed.clear()
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(self._serve(self._credentials))
                await self._credentials_changed.wait()
                serving.cancel()

    async def _serve(self, credentials: Credentials | MemberHealth | None) -> None:
        match credentials:
            case MemberHealth():
                self._judge(credentials)
            case Credentials():
                await self._connect(credentials)
            case None:
                await self._clock.sleep(self._settings.secret_patience)
                self._judge(_UNREAD)

    async def _connect(self, credentials: Credentials) -> None:
        try:
            self.link = Link(
                credentials,
                name=self.name,
                settings=self._settings,
                clock=self._clock,
                resources=self._resources,
                listener=self._listener(),
                health=self.health,
                before_write=self._may_write,
                holder=self._holder,
                identities=self._identities,
                members=self._members,
                mark=self._mark,
                writes=self.writes,
            )
            await self.link.run()
        except KubeconfigError as fault:
            self._judge(verdict_of(fault))
        finally:
            for uid in self.owners:  # the next link tells of every object again
                self._holders.discard(uid, self.name)
            self.link = None

    def _may_write(self) -> float | None:
        if self.handed_over:
            raise LeaseLost(f"{self.name} is handed over to another shard")
        return self._before_write()

    def _listener(self) -> LinkListener:
        return LinkListener(
            verdict=self._judge,
            managed=self._managed_changed,
            pods=self._pods_changed,
            facts=lambda: self._facts(self.name),
            counted=lambda: self._changed(self.name, None),
        )

    def _judge(self, verdict: MemberHealth) -> None:
        known, self.verdict = self._judged and self.verdict == verdict, verdict
        self._judged = True
        if not known:
            log = LOG.info if verdict.ready else LOG.warning
            log("%s: %s", verdict.reason, self.message, extra={"object": self.name})
        if self.ready:
            self._queue_pending()
        if self.ready or not known:
            self._changed(self.name, None)  # the registry calls the listeners for facts as well

    def _queue_pending(self) -> None:
        self._wakes.add(self.name, self._pending | set(self.owners.values()))
        self._pending.clear()

    async def _reconcile_ready(self, reconcile: Reconcile, key: Key) -> float | None:
        if not self.ready:
            self._pending.add(key)
            return None
        wait = self._not_before.pop(key, 0.0) - self._clock.monotonic()
        if wait <= 0:
            with working_for(key):
                requeue_after, wait = await self._try(reconcile, key)
        else:
            requeue_after = wait
        if wait > 0:
            self._not_before[key] = self._clock.monotonic() + wait
        return requeue_after

    async def _try(self, reconcile: Reconcile, key: Key) -> tuple[float | None, float]:
        """Return seconds until requeue, or None, and seconds in which events do not requeue."""
        try:
            requeue_after = await reconcile(self, key)
        except (Conflict, LeaseLost):
            raise  # no fault of the member: the queue retries the key
        except StowageError as fault:
            requeue_after = self._backoff.failed(key)
            LOG.warning(
                "%s: %s: will be tried again in %.1f s",
                self.name,
                fault,
                requeue_after,
                extra={"object": "/".join(key)},
            )
            return requeue_after, requeue_after
        self._backoff.reset(key)
        return requeue_after, min(requeue_after or 0.0, LEAST_REQUEUE_SECONDS)

    def _managed_changed(self, old: ManagedObject | None, new: ManagedObject | None) -> None:
        """Queue the owners, except after status changes and writes of the owner's own worker."""
        before = owners(old.metadata) if old else {}
        after = owners(new.metadata) if new else {}
        for uid in {*before, *after}:
            (self._holders.add if uid in self.owners else self._holders.discard)(uid, self.name)
        if new is not None and new.pods_uid is not None:
            namespace, name = new.metadata.key
            where = (namespace, group_of(new.api_version), new.kind, name)
            for uid, key in after.items():
                main = Main(uid, *where)
                self._other_labels.note(main, key, new.pods_uid, each=new.pods_each)
        looked_at = old is not None and new is not None and stands_alike(old, new)
        for key in {*before.values(), *after.values()}:
            if not looked_at and not (new is not None and works_for(key)):
                self.queue.add(key)
            self._changed(self.name, key)

    def _pods_changed(self, claims: set[PodClaim]) -> None:
        known = (self.owners.get(uid) or self._key_of(uid) for uid, *_ in claims)
        keys = {key for key in known if key is not None}
        for key in keys.union(*map(self._other_labels.keys, claims)):
            self._changed(self.name, key)
