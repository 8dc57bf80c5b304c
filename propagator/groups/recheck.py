"""Asks the hub, as the last step before a gang starts, whether its gate is still open.

A release names placements, and not an attempt. A watch may be dead for a while before that is
noticed, and the next attempt may be placed as the last one was: then what was seen of the last
attempt would start the next one, though its own gate is closed. So once nothing else is missing the
group is read, and the gang starts if the hub confirms what the watch said. Where it does not, the
watch will bring the change; where the hub does not answer, it is asked again, with growing pauses.

Thousands of gangs may start in one moment, as after each start of this process: a few are checked
at a time, and nothing else waits for that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import msgspec

from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.lanes import working_for
from machinery.api.resources import WORKLOAD_GROUPS
from machinery.api.responses import decode
from machinery.clock import Clock
from machinery.errors import Forbidden, TransportError
from machinery.runtime.backoff import delay
from machinery.runtime.fair_queue import namespace_of
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types.metadata import Key
from propagator.groups.starting import Starting
from propagator.types.group import WorkloadGroup

LOG = logs.get(__name__)
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds between two questions about one start."""
_READERS = 4
_group = msgspec.json.Decoder(WorkloadGroup)


class Recheck:
    """`starting` are the gangs that start; `answered` is called after each answer about one."""

    def __init__(
        self,
        hub: ApiClient,
        *,
        clock: Clock,
        starting: Mapping[Key, Starting],
        answered: Callable[[Key, Starting], None],
    ) -> None:
        self._hub = hub
        self._clock = clock
        self._starting = starting
        self._answered = answered
        self._queue: WorkQueue[Key] = WorkQueue(
            name="starts", clock=clock, flow=namespace_of, seats=_READERS
        )

    async def run(self) -> None:
        await work(self._queue, self._ask, workers=_READERS, log=LOG)

    def ask(self, group: Key, starting: Starting) -> None:
        """Queue the question whether that gang may start, as soon as its pause is over."""
        self._queue.add_after(group, starting.ask_after - self._clock.monotonic())

    async def _ask(self, group: Key) -> None:
        starting = self._starting.get(group)
        if starting is None or starting.confirmed or not starting.reached:
            return
        stands, obstacle = False, ""
        try:
            stands = await self._stands(group, starting.released)
        except TransportError as fault:
            LOG.info("it cannot be read: %s", fault, extra={"object": "/".join(group)})
            obstacle = str(fault) if isinstance(fault, Forbidden) else ""
        if self._starting.get(group) is not starting:
            return  # another start has replaced this one, and is asked about by itself
        starting.confirmed, starting.obstacle = stands, obstacle
        if not stands:
            starting.ask_after = self._clock.monotonic() + self._pause(starting)
        self._answered(group, starting)

    async def _stands(self, group: Key, released: Mapping[str, str]) -> bool:
        """Whether the hub says that the gate is open, for exactly these placements."""
        namespace, name = group
        with working_for(group):
            answer = await self._hub.request("GET", WORKLOAD_GROUPS.path(namespace, name))
        now: WorkloadGroup = decode(answer, _group)
        return now.open and now.released == released

    def _pause(self, starting: Starting) -> float:
        starting.tries += 1
        return delay(starting.tries, base=FIRST_PAUSE, cap=LONGEST_PAUSE, jitter=random.random)
