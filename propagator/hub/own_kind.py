"""Whether the hub is deleting the kind Workload itself.

Deleting the definition deletes all Workloads, without a decision on what they run. Members then
keep their objects, without an owner.
"""

from __future__ import annotations

import math

from crds.names import GROUP
from machinery.api.resources import CRDS, WORKLOADS
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import Forbidden, NotFound, TransportError
from propagator.errors import HubFault

FRESH_SECONDS = 2.0
"""How long an answer is cached: thousands of Workloads end at once."""
_NAME = f"{WORKLOADS.plural}.{GROUP}"


class OwnKind:
    def __init__(self, hub: Verbs, *, clock: Clock) -> None:
        self._hub = hub
        self._clock = clock
        self._asked = -math.inf
        self._ends = False

    async def ends(self) -> bool:
        """Return whether the definition is being deleted, or gone. Raises HubFault."""
        if self._ends or self._clock.monotonic() - self._asked >= FRESH_SECONDS:
            self._ends = await self._looked()
            self._asked = self._clock.monotonic()
        return self._ends

    async def _looked(self) -> bool:
        try:
            found = await self._hub.get(CRDS, _NAME)
        except NotFound:
            return True
        except Forbidden:
            return False  # an installation with other roles: assume that it stays
        except TransportError as fault:
            raise HubFault(f"the definition {_NAME} could not be read", fault) from fault
        return bool(found["metadata"].get("deletionTimestamp"))
