"""The barrier of these tests: it ends no earlier than what it is to wait for."""

from __future__ import annotations

import asyncio

import pytest

from machinery.api.resources import CONFIG_MAPS
from machinery.clock import SystemClock
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue
from machinery.types.metadata import Key, Object
from tests.memoryhub import MemoryHub
from tests.propagator.waits import LOOKS, handled, until


async def test_it_waits_until_all_was_heard_and_what_that_called_for_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub = MemoryHub(clock=SystemClock(), admission=False)
    informer, queue = (
        Informer(hub, CONFIG_MAPS, Object),
        WorkQueue[Key](name="member", clock=hub.clock),
    )
    informer.add_handler(lambda old, new: queue.add((new or old).metadata.key))
    unheard: list[object] = []
    running = asyncio.create_task(informer.run())
    await informer.wait_synced()
    follow = informer._follow
    monkeypatch.setattr(informer, "_follow", unheard.append)
    await hub.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "shop"}})
    looks = 0

    def queues() -> list[WorkQueue[Key]]:
        nonlocal looks
        looks += 1
        return [queue]

    barrier = asyncio.create_task(handled(lambda: [(hub, [informer])], queues))
    await until(lambda: unheard and LOOKS.get(hub))
    assert not barrier.done(), "nobody has heard of it"
    for event in unheard:
        follow(event)
    key = await queue.get()
    before = looks
    await until(lambda: barrier.done() or looks > before + 2)
    assert not barrier.done(), "it is in work"
    queue.done(key)
    await barrier
    running.cancel()
