"""Objects of a hub, listed once and followed by a watch, while a command waits for something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from machinery.api.client import ApiClient
from machinery.api.resources import Resource
from machinery.runtime.informer import Informer
from machinery.tasks import end
from machinery.types.metadata import Object


class Stored(Object, frozen=True):
    """An object of any kind, with its spec and status as JSON."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


@asynccontextmanager
async def following(
    hub: ApiClient, *kinds: tuple[Resource, type[Any]]
) -> AsyncIterator[list[Informer[Any]]]:
    """Yield a complete cache of each kind. Raises TransportError if one cannot be listed."""
    caches = [Informer(hub, resource, type_) for resource, type_ in kinds]
    tasks = [asyncio.create_task(each.run()) for each in caches]
    try:
        for each in caches:
            await each.wait_tried()
            if not each.synced and each.last_error is not None:
                raise each.last_error
            await each.wait_synced()
        yield caches
    finally:
        await end(tasks)
