"""The namespaces of a narrow member that the propagator may write in: those with its account.

Each account starts the watches of confidential kinds there, which may be read only as that account.
Existing namespaces that were not given are recorded and checked again, unless the creating account
lacks the right to create any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress

from crds.base import NAME as DNS_LABEL
from crds.names import LABEL_TENANT, forbidden_namespace
from machinery import logs
from machinery.api.acting import Acting, account
from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES, SERVICE_ACCOUNTS
from machinery.api.responses import shaped
from machinery.clock import Clock
from machinery.errors import Forbidden, NotFound, TransportError
from machinery.runtime.informer import Informer
from machinery.types.metadata import Object
from propagator.credentials.accounts import NAMESPACES_ACCOUNT, TENANT_ACCOUNT
from propagator.members.watches import Watches

LOG = logs.get(__name__)
_NAME = re.compile(DNS_LABEL)
MOST_TENANTS = 1000
"""The most namespaces that are watched; each costs a connection for each confidential kind."""
MOST_GIVEN = 256
"""The most namespaces that the status lists as given; with more, it restricts nothing."""
MOST_REFUSED = 64
"""The most namespaces recorded as refused; each costs a request periodically."""
_LONGEST = 63


class Tenants:
    """`namespace in tenants`: our account exists there."""

    def __init__(
        self,
        client: ApiClient,
        *,
        member: str,
        home: str,
        watches: Watches,
        clock: Clock,
        notify: Callable[[], None],
    ) -> None:
        """`home` has the account that creates namespaces."""
        self._member = member
        self._home = home
        self._maker = Acting(client, account(home, NAMESPACES_ACCOUNT))
        self._watches = watches
        self._notify = notify
        self._entered: set[str] = set()
        self._refused: set[str] = set()
        self._only_given: bool | None = None  # None: not known yet
        self._recalled = False
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
        return self.informer.synced

    def facts(self) -> dict[str, list[str]] | None:
        """None while unknown."""
        if not self.listed or self._only_given is None:
            return None
        if not self._only_given:
            refused = sorted(self._refused - self._entered)
            return {"refused": refused} if refused else {}
        return {"given": sorted(self._entered)} if len(self._entered) <= MOST_GIVEN else {}

    def recall(self, refused: Iterable[str]) -> None:
        """Take over an earlier process's refused namespaces, once; `check` checks them again."""
        if not self._recalled:
            self._recalled = True
            for namespace in refused:
                self.refuse(namespace)

    def refuse(self, namespace: str) -> None:
        """Record an existing namespace that was not given."""
        if namespace not in self._refused and len(self._refused) < MOST_REFUSED:
            self._refused.add(namespace)
            self._notify()

    async def check(self) -> None:
        """A fault keeps the last result."""
        before = self.facts()
        with suppress(TransportError):
            self._only_given = await self._only_given_namespaces()
            for namespace in sorted(self._refused):
                if self._only_given or await self._free(namespace):
                    self._refused.discard(namespace)
        if self.facts() != before:
            self._notify()

    async def _only_given_namespaces(self) -> bool:
        # The account reads a namespace before it creates it: without that right it creates none.
        try:
            await self._maker.get(NAMESPACES, self._home)
        except Forbidden:
            return True
        except NotFound:
            return False
        return False

    async def _free(self, namespace: str) -> bool:
        found = await self._maker.find(NAMESPACES, namespace)
        return found is None or given(shaped(found, Object))

    def _changed(self, old: Object | None, new: Object | None) -> None:
        known = new or old
        if known is None:
            return
        namespace = known.metadata.namespace
        if new is None:
            self._entered.discard(namespace)
            self._watches.remove_namespace(namespace)
            self._notify()
        elif namespace not in self._entered:
            self._enter(namespace)

    def _enter(self, namespace: str) -> None:
        if len(self._entered) >= MOST_TENANTS:
            LOG.warning(
                "%s: more than %d namespaces hold our account, %s is left alone",
                self._member,
                MOST_TENANTS,
                namespace,
            )
            return
        self._entered.add(namespace)
        self._refused.discard(namespace)
        self._watches.add_namespace(namespace)
        self._notify()


def given(namespace: Object) -> bool:
    """Its administrator sets the label."""
    return namespace.metadata.labels.get(LABEL_TENANT) == "true"


def _ours(found: Object) -> Object | None:
    meta = found.metadata
    ours = meta.name == TENANT_ACCOUNT and not meta.deleting
    # The name becomes part of a header: it must be one that Kubernetes accepts.
    proper = len(meta.namespace) <= _LONGEST and _NAME.fullmatch(meta.namespace)
    return found if ours and proper and not forbidden_namespace(meta.namespace) else None
