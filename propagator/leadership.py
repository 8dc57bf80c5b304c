"""One term of leadership: everything that a propagator does, from winning the lease to losing it.

All of it is made anew for each term and thrown away at its end, so that nothing learnt in an
earlier term is acted on in a later one. A standby has none of it: no session, no watch, no secret
in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from crds.names import LABEL_REGISTER
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, SECRETS
from machinery.clock import Clock
from machinery.runtime.event_recorder import EventRecorder
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key
from propagator.access.cluster_identity import Identities
from propagator.access.token_renewal import Renewer
from propagator.hub.cluster_status_writer import Publisher
from propagator.hub.cluster_types import MemberCluster, Secret, bounded
from propagator.hub.registration import Registrar
from propagator.members.registry import MemberFleet
from propagator.members.session import MemberSession
from propagator.settings import PropagatorSettings


class Placements(Protocol):
    """The half that puts Workloads onto members and brings their status back.

    While it is made it begins to listen to the fleet.
    """

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """What it reads of the hub; run by the term, and part of `Ground.fresh`."""
        ...

    async def sync(self, session: MemberSession, key: Key) -> float | None:
        """Make one ready member right for one Workload; seconds until the next look, or None."""
        ...

    async def run(self) -> None:
        """Whatever else it does, until cancelled."""
        ...


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What a term gives to its placements. A write by `hub` or to a member may raise LeaseLost."""

    hub: ApiClient
    fleet: MemberFleet
    clusters: Informer[MemberCluster]
    recorder: EventRecorder
    clock: Clock
    namespace: str
    """Where our processes are at home on the hub."""
    fresh: Callable[[], bool]
    """Whether the view of the hub may be acted on where that takes something away."""


MakePlacements: TypeAlias = Callable[[Ground], Placements]


class Term:
    """Make it when the lease is won, `run` it once, throw it away.

    `hub` and every client of a member ask `before_write` before each attempt of a change.
    """

    def __init__(
        self,
        hub: ApiClient,
        placements: MakePlacements,
        *,
        settings: PropagatorSettings,
        recorder: EventRecorder,
        clock: Clock,
        before_write: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._clusters: Informer[MemberCluster] = Informer(
            hub, MEMBER_CLUSTERS, MemberCluster, clock=clock
        )
        secrets: Informer[Secret] = Informer(
            hub,
            SECRETS,
            Secret,
            namespace=settings.namespace,
            label_selector=f"{LABEL_REGISTER}=true",
            transform=bounded,
            clock=clock,
        )
        self.fleet = MemberFleet(
            self._sync,
            settings=settings.sessions,
            clock=clock,
            before_write=before_write,
            identities=Identities(self._clusters),
        )
        ground = Ground(
            hub=hub,
            fleet=self.fleet,
            clusters=self._clusters,
            recorder=recorder,
            clock=clock,
            namespace=settings.namespace,
            fresh=self.hub_fresh,
        )
        self._placements = placements(ground)
        self._informers: list[Informer[Any]] = [
            self._clusters,
            secrets,
            *self._placements.informers,
        ]
        shared: dict[str, Any] = {"clusters": self._clusters, "fleet": self.fleet}
        shared |= {"clock": clock}
        self._registrar = Registrar(hub, namespace=settings.namespace, secrets=secrets, **shared)
        self._renewer = Renewer(
            hub, secrets=secrets, settings=settings.renewal, recorder=recorder, **shared
        )
        self._publisher = Publisher(hub, recorder=recorder, **shared)

    def stale(self) -> str:
        """Why the view of the hub must not be acted on; empty when it may."""
        for informer in self._informers:
            plural, silence = informer.resource.plural, informer.staleness()
            if not informer.synced:
                return f"{plural} are not listed yet"
            if silence > self._settings.hub_staleness:
                return f"nothing heard of {plural} for {silence:.0f} s"
        return ""

    def hub_fresh(self) -> bool:
        """Whether a Workload or MemberCluster that is not there may be taken for deleted."""
        return not self.stale()

    async def run(self) -> None:
        """Register members, keep sessions, and let the placements work, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for informer in self._informers:
                    tasks.create_task(informer.run())
                tasks.create_task(self._registrar.run())
                tasks.create_task(self._renewer.run())
                tasks.create_task(self._publisher.run())
                tasks.create_task(self._placements.run())
        finally:
            await self.fleet.close()

    async def _sync(self, session: MemberSession, key: Key) -> float | None:
        return await self._placements.sync(session, key)
