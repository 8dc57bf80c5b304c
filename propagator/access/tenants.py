"""The namespaces of a narrow member that the propagator may write in: those that hold its account.

The accounts are watched read-only, over all namespaces. Each of them begins the watches of what may
be read only as that account, and its end ends them: so what an earlier process, or a Workload that
is gone, left in a namespace is seen again from the first moment, whoever names that namespace now.
"""

from __future__ import annotations

import re

from crds.base import NAME as DNS_LABEL
from crds.names import LABEL_TENANT, forbidden_namespace
from machinery import logs
from machinery.api.resources import SERVICE_ACCOUNTS
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.runtime.informer import Informer
from machinery.types.metadata import Object
from propagator.access.accounts import TENANT_ACCOUNT
from propagator.members.watches import Watches

LOG = logs.get(__name__)
_NAME = re.compile(DNS_LABEL)
MOST_TENANTS = 1000
"""Namespaces of one member that are watched; each costs a connection for a confidential kind."""
_LONGEST = 63


class Tenants:
    """One for a link. `namespace in tenants`: our account is there."""

    def __init__(self, client: Verbs, *, member: str, watches: Watches, clock: Clock) -> None:
        self._member = member
        self._watches = watches
        self._entered: set[str] = set()
        self.informer: Informer[Object] = Informer(
            client,
            SERVICE_ACCOUNTS,
            Object,
            label_selector=f"{LABEL_TENANT}=true",
            metadata_only=True,
            transform=_ours,
            clock=clock,
        )
        self.informer.add_handler(self._changed)

    def __contains__(self, namespace: str) -> bool:
        return namespace in self._entered

    @property
    def listed(self) -> bool:
        """True once every namespace with our account has been seen."""
        return self.informer.synced

    def _changed(self, old: Object | None, new: Object | None) -> None:
        known = new or old
        if known is None:
            return
        namespace = known.metadata.namespace
        if new is None:
            self._entered.discard(namespace)
            self._watches.leave(namespace)
        elif namespace not in self._entered:
            self._enter(namespace)

    def _enter(self, namespace: str) -> None:
        if len(self._entered) >= MOST_TENANTS:
            note = "%s: more than %d namespaces hold our account, %s is left alone"
            LOG.warning(note, self._member, MOST_TENANTS, namespace)
            return
        self._entered.add(namespace)
        self._watches.enter(namespace)


def _ours(found: Object) -> Object | None:
    meta = found.metadata
    ours = meta.name == TENANT_ACCOUNT and not meta.deleting
    # It becomes part of a header, so that it must be what Kubernetes calls a namespace.
    proper = len(meta.namespace) <= _LONGEST and _NAME.fullmatch(meta.namespace)
    return found if ours and proper and not forbidden_namespace(meta.namespace) else None
