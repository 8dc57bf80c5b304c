"""The Secrets that travel with Workloads: known by name, read only when they are needed.

Of all Secrets of the hub only names and versions are watched; the values of one are read
when a Workload refers to it, and again when its version changes.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from machinery.api.client import ApiClient
from machinery.api.resources import SECRETS
from machinery.clock import Clock
from machinery.errors import NotFound
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key, Object
from propagator.hub.workload_types import HubSecret


class HubSecrets:
    """`changed` is called with the key of each Secret that came, changed or went."""

    def __init__(self, hub: ApiClient, *, clock: Clock, changed: Callable[[Key], None]) -> None:
        self._hub = hub
        self._changed = changed
        self._held: dict[Key, HubSecret] = {}
        self.informer: Informer[Object] = Informer(
            hub, SECRETS, Object, metadata_only=True, clock=clock
        )
        self.informer.add_handler(self._tell)

    async def get(self, key: Key) -> HubSecret | None:
        """The Secret as it is now, or None. Raises TransportError."""
        known = self.informer.get(key)
        if known is None or known.metadata.deleting:
            self._held.pop(key, None)
            return None
        held = self._held.get(key)
        if held is None or held.metadata.resource_version != known.metadata.resource_version:
            try:
                found = await self._hub.get(SECRETS, key[1], namespace=key[0])
            except NotFound:
                return None
            held = self._held[key] = msgspec.convert(found, HubSecret)
        return held

    def drop(self, key: Key) -> None:
        """No Workload refers to that Secret any more: its values are not kept."""
        self._held.pop(key, None)

    def _tell(self, old: Object | None, new: Object | None) -> None:
        known = new or old
        if known is not None:
            if new is None:
                self._held.pop(known.metadata.key, None)
            self._changed(known.metadata.key)
