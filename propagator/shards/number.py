"""The number of shards that an operator has set, in the ConfigMap `stowage-propagator`."""

from __future__ import annotations

import asyncio

import msgspec

from crds.names import PROPAGATOR_CONFIG
from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import CONFIG_MAPS
from machinery.clock import Clock
from machinery.runtime.informer import Informer
from machinery.types.metadata import Object
from machinery.types.shards import config_fault, shards_of

LOG = logs.get(__name__)
KEY = "shards"


class _Config(Object, frozen=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class ShardNumber:
    """Without a ConfigMap, or with one that says no number, the last one stands.

    A process that never saw a number goes by that on the Lease of shard 0, else there is one shard.
    """

    def __init__(self, hub: ApiClient, *, namespace: str, clock: Clock) -> None:
        self._informer: Informer[_Config] = Informer(
            hub,
            CONFIG_MAPS,
            _Config,
            namespace=namespace,
            field_selector=f"metadata.name={PROPAGATOR_CONFIG}",
            clock=clock,
        )
        self._where = f"{namespace}/{PROPAGATOR_CONFIG}"
        self._informer.add_handler(self._config_changed)
        self._number: int | None = None
        self.changed = asyncio.Event()
        """Set at each change; whoever waits for it clears it."""

    async def run(self) -> None:
        await self._informer.run()

    async def wait_tried(self) -> None:
        await self._informer.wait_tried()

    def get(self, announced: str = "") -> int:
        """`announced` is the annotation on the Lease of shard 0; empty without one."""
        if self._number is None:
            self._number = shards_of(announced)
        return self._number or 1

    def _config_changed(self, _old: _Config | None, new: _Config | None) -> None:
        said = new.data.get(KEY, "") if new is not None else None
        number = shards_of(said or "")
        if number is None:
            if fault := config_fault(self._where, said, self.get()):
                LOG.warning("%s", fault)
        elif number != self._number:
            self._number = number
            self.changed.set()
