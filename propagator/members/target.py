"""What those who write to a member, and take away from it, need of it; a session is one.

Narrow on purpose: who renders, applies and prunes neither begins nor ends a session, hands it no
credentials, and asks nothing about its health but whether it is ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue
from machinery.types.metadata import Key
from propagator.members.connection import Link
from propagator.members.held_sweep import HeldSweep
from propagator.members.objects import ManagedObject, Mark
from propagator.members.watches import EVERYWHERE


class Target(Protocol):
    """One member, as its workers hold it."""

    name: str
    allowed_kinds: frozenset[str]
    """Guarded kinds that it takes, `<group>/<kind>`."""
    queue: WorkQueue[Key]
    """Workloads to be looked at there."""
    link: Link | None
    """Its present credentials and what they show; None while there are no usable ones."""

    held: HeldSweep | None
    """What of it is not swept by itself; None until it was looked at."""

    def hold_sweep(self, held: HeldSweep) -> None:
        """Say so, for MemberCluster.status."""
        ...

    @property
    def owners(self) -> Mapping[str, Key]:
        """The Workloads of which it shows objects, by their UIDs."""
        ...

    @property
    def mark(self) -> Mark:
        """What objects that we write there carry."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it answers now."""
        ...

    def allows(self, namespace: str) -> bool:
        """Whether that target namespace is allowed there."""
        ...

    def client_for(self, namespace: str) -> Verbs:
        """For writes into that namespace. Raises Unreachable while there is no connection."""
        ...

    def track(self, resource: Resource, namespace: str = EVERYWHERE) -> Informer[ManagedObject]:
        """The informer that sees our objects of that kind there, begun by the first call.

        Raises Unreachable while there is no connection.
        """
        ...

    def untrack(self, resource: Resource) -> None:
        """Watch that kind no more; `track` begins anew."""
        ...
