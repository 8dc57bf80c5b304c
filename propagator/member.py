"""One session per member: everything that this process has to do with one MemberCluster.

A session lives as long as its MemberCluster. What it stands on may change underneath: each set of
credentials is a `Link`, replaced when the Secret changes, absent while there is no usable one. Its
queue of Workloads belongs to it alone and is served by its own workers over its own connections, so
that a slow or dead member delays nobody. Keys that come while the member is not ready are kept, and
worked on when it is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from crds.membercluster import ReadyReason
from crds.names import forbidden_namespace
from machinery import logs
from machinery.clock import Clock
from machinery.errors import KubeconfigError, Unreachable
from machinery.informer import Informer
from machinery.kubeconfig import Connection
from machinery.objects import Key
from machinery.queue import WorkQueue, work
from machinery.resources import Resource
from machinery.transport import ApiClient
from propagator.link import Link, LinkListener
from propagator.managed import ManagedObject, owners
from propagator.observe import UnitCounts, Verdict, verdict_of
from propagator.settings import SessionSettings

if TYPE_CHECKING:
    from propagator.fleet import Sync

LOG = logs.get(__name__)


class MemberSession:
    """What the rest of the propagator sees of one member. Made by `MemberFleet.admit`.

    `changed(name, key)` is told of readiness (no key), of objects of ours and of unit counts;
    `facts(name)` of what MemberCluster.status tells.
    """

    def __init__(
        self,
        name: str,
        *,
        sync: Sync,
        settings: SessionSettings,
        clock: Clock,
        resources: Iterable[Resource],
        changed: Callable[[str, Key | None], None],
        facts: Callable[[str], None],
    ) -> None:
        self.name = name
        self.namespaces: tuple[str, ...] = ("*",)
        """Globs of the target namespaces that spec.namespaces allows; the registrar sets it."""
        self.queue: WorkQueue[Key] = WorkQueue(name="member", clock=clock)
        """Workloads to be synced on this member; `add` a key to have `sync` called with it."""
        self.link: Link | None = None
        self.verdict: Verdict | None = None
        """The last one; None until something is known, which is not the same as bad."""
        self._sync = sync
        self._settings = settings
        self._clock = clock
        self._resources = dict.fromkeys(resources)
        self._changed = changed
        self._facts = facts
        self._offer: Connection | Verdict | None = None
        self._offered = asyncio.Event()
        self._parked: set[Key] = set()
        self._owners: dict[str, Key] = {}
        self._owned: Counter[str] = Counter()

    @property
    def client(self) -> ApiClient | None:
        """For reads; None while there is no usable kubeconfig."""
        return self.link.client if self.link else None

    @property
    def ready(self) -> bool:
        """True while the member answers and its objects are known; `sync` is called only then."""
        return self.link is not None and self.link.serving

    @property
    def reason(self) -> ReadyReason:
        """Why the member is ready or not; Unreachable until something is known."""
        return self.verdict.reason if self.verdict else ReadyReason.UNREACHABLE

    @property
    def message(self) -> str:
        """The reason in a sentence that names the member, without any secret."""
        return self.verdict.told(self.name) if self.verdict else f"{self.name}: not asked yet"

    def allows(self, namespace: str) -> bool:
        """Whether that target namespace is allowed here; kube-* and stowage-system never are."""
        if forbidden_namespace(namespace):
            return False
        return any(fnmatchcase(namespace, glob) for glob in self.namespaces)

    def client_for(self, namespace: str) -> ApiClient:
        """For writes into that namespace of the member, as the identity that the settings ask for.

        Raises Unreachable while there is no usable kubeconfig.
        """
        return self._linked().client_for(namespace)

    def track(self, resource: Resource) -> Informer[ManagedObject]:
        """The informer over our objects of that kind on this member, started by the first call.

        It watches the label `stowage.dev/managed=true`; its changes put the owning Workloads into
        `queue` and tell the listeners. Ask again each time: the informer is another one when
        credentials changed. Raises Unreachable while there is no usable kubeconfig; the kind is
        then remembered and watched as soon as there is one.
        """
        self._resources[resource] = None
        return self._linked().track(resource)

    def tracked(self, resource: Resource) -> Informer[ManagedObject] | None:
        """The informer that `track` started, if there is one now. It may not be synced yet."""
        return self.link.managed.get(resource) if self.link else None

    def units(self, workload_uid: str) -> UnitCounts | None:
        """How the units of that Workload fare on this member, from its pods.

        None while that is not known: keep what was said before. A member that does not answer
        keeps its last counts.
        """
        if self.link is None or not self.link.counted:
            return None
        return self.link.units.counts(workload_uid)

    def use(self, connection: Connection) -> None:
        """Talk to the member by this connection from now on; the same one again changes nothing."""
        self._take(connection)

    def refuse(self, verdict: Verdict) -> None:
        """There is no usable kubeconfig, for this reason; the present connection is given up."""
        self._take(verdict)

    async def run(self) -> None:
        """Work until cancelled. Called by the fleet, once at a time."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(
                work(self.queue, self._sync_ready, workers=self._settings.workers, log=LOG)
            )
            tasks.create_task(self._follow())

    def _take(self, offer: Connection | Verdict) -> None:
        if offer != self._offer:
            self._offer = offer
            self._offered.set()

    def _linked(self) -> Link:
        if self.link is None:
            raise Unreachable("there is no usable kubeconfig now")
        return self.link

    async def _follow(self) -> None:
        """Serve each offer until the next one."""
        while True:
            self._offered.clear()
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(self._serve(self._offer))
                await self._offered.wait()
                serving.cancel()

    async def _serve(self, offer: Connection | Verdict | None) -> None:
        match offer:
            case Verdict():
                self._judge(offer)
            case Connection():
                await self._connect(offer)

    async def _connect(self, connection: Connection) -> None:
        self._owners.clear()  # the new link tells of every object again
        self._owned.clear()
        try:
            self.link = Link(
                connection,
                name=self.name,
                settings=self._settings,
                clock=self._clock,
                resources=self._resources,
                listener=self._listener(),
            )
            await self.link.run()
        except KubeconfigError as fault:
            self._judge(verdict_of(fault))
        finally:
            self.link = None

    def _listener(self) -> LinkListener:
        return LinkListener(
            verdict=self._judge,
            managed=self._managed_changed,
            units=self._units_changed,
            facts=lambda: self._facts(self.name),
            counted=lambda: self._changed(self.name, None),
        )

    def _judge(self, verdict: Verdict) -> None:
        known, self.verdict = self.verdict == verdict, verdict
        if not known:
            log = LOG.info if verdict.ready else LOG.warning
            log("%s: %s", verdict.reason, self.message, extra={"object": self.name})
        if self.ready:
            self._unpark()
        if self.ready or not known:
            self._changed(self.name, None)

    def _unpark(self) -> None:
        """The member is back: work on what came meanwhile, and look at all that lies on it."""
        for key in self._parked | set(self._owners.values()):
            self.queue.add(key)
        self._parked.clear()

    async def _sync_ready(self, key: Key) -> float | None:
        if not self.ready:
            self._parked.add(key)
            return None
        return await self._sync(self, key)

    def _managed_changed(self, old: ManagedObject | None, new: ManagedObject | None) -> None:
        before = owners(old.metadata) if old else {}
        after = owners(new.metadata) if new else {}
        self._count_owners(before, after)
        for key in {*before.values(), *after.values()}:
            self.queue.add(key)
            self._changed(self.name, key)

    def _count_owners(self, before: dict[str, Key], after: dict[str, Key]) -> None:
        """Know a Workload's key by its UID for as long as there is an object of it."""
        self._owners.update(after)
        self._owned.update(after.keys())
        self._owned.subtract(before.keys())
        for uid in before:
            if self._owned[uid] <= 0:
                del self._owned[uid]
                self._owners.pop(uid, None)

    def _units_changed(self, uids: set[str]) -> None:
        for uid in uids:
            if uid in self._owners:
                self._changed(self.name, self._owners[uid])
