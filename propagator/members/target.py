"""The part of a session that writers to a member and removers from it use.

Narrow on purpose: a writer neither begins nor ends a session, hands it no credentials, and asks
nothing about its health but whether it is ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.overrides.images import ImageRule
from machinery.overrides.variables import ClusterFacts
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue
from machinery.types.metadata import Key
from propagator.members.connection import Link
from propagator.members.health import PodCounts
from propagator.members.held_sweep import HeldSweep
from propagator.members.objects import ManagedObject, Mark
from propagator.members.pods import Main
from propagator.members.watches import EVERYWHERE


class Target(Protocol):
    """One member, as its workers use it."""

    name: str
    allowed_kinds: frozenset[str]
    """Guarded kinds that the member takes, `<group>/<kind>`."""
    facts: ClusterFacts
    """What overrides may say of the member."""
    images: tuple[ImageRule, ...]
    """Where its pods pull images from."""
    queue: WorkQueue[Key]
    """Workloads to be synced on the member."""
    link: Link | None
    """The present credentials and what they show; None while there are no usable ones."""

    held: HeldSweep | None
    """The sweep that is held there for a person; None until the brake has looked."""

    def hold_sweep(self, held: HeldSweep) -> None:
        """Set `held`, for MemberCluster.status."""
        ...

    @property
    def owners(self) -> Mapping[str, Key]:
        """The Workloads of which the member shows objects, by their UIDs."""
        ...

    @property
    def mark(self) -> Mark:
        """The mark on objects that this session writes."""
        ...

    @property
    def ready(self) -> bool:
        """Whether the member answers now."""
        ...

    def pod_counts(self, main: Main) -> PodCounts | None:
        """Return the counts of the pods that a main object runs there; None while unknown."""
        ...

    def former_pods(self, main: Main) -> int:
        """Return the pods of a Workload there that its main object did not make."""
        ...

    def allows(self, namespace: str) -> bool:
        """Whether the member takes objects in that target namespace."""
        ...

    def client_for(self, namespace: str) -> Verbs:
        """Return the client for that namespace. Raises Unreachable while there is no connection."""
        ...

    def track(self, resource: Resource, namespace: str = EVERYWHERE) -> Informer[ManagedObject]:
        """Return the informer of our objects of that kind there, begun by the first call.

        Raises Unreachable while there is no connection.
        """
        ...

    def untrack(self, resource: Resource) -> None:
        """Watch that kind no more, until the next `track`."""
        ...
