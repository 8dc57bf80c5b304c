"""Whether the hub is deleting a kind of ours itself.

Then members keep what runs of Workloads, and no MemberCluster is unregistered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from crds.names import GROUP
from machinery.api.resources import CRDS, Resource
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import TransportError
from propagator.errors import HubFault

FRESH_SECONDS = 2.0
"""How long an answer is cached: thousands of Workloads end at once."""


class OwnKind:
    def __init__(self, hub: Verbs, kind: Resource, *, clock: Clock) -> None:
        self._hub = hub
        self._name = f"{kind.plural}.{GROUP}"
        self._clock = clock
        self._asked = -math.inf
        self._ends = False

    async def ends(self, since: float = -math.inf) -> bool:
        """Return whether the definition is being deleted, or gone.

        No answer counts that was asked for before `since`.

        `since` is a monotonic time. Raises HubFault, also if the hub does not let it be read.
        """
        now = self._clock.monotonic()
        if self._ends or now - self._asked >= FRESH_SECONDS or self._asked <= since:
            self._ends = await self._looked()
            self._asked = now
        return self._ends

    async def since(self) -> str:
        """Return when the definition was made, as the hub writes times; empty without it.

        Raises HubFault.
        """
        found = await self._definition()
        return str(found["metadata"].get("creationTimestamp") or "") if found is not None else ""

    async def _looked(self) -> bool:
        found = await self._definition()
        return found is None or bool(found["metadata"].get("deletionTimestamp"))

    async def _definition(self) -> Mapping[str, Any] | None:
        try:
            return await self._hub.find(CRDS, self._name)
        except TransportError as fault:
            raise HubFault(f"the definition {self._name} could not be read", fault) from fault
