"""Informers that run from their first user until their last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterator
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from machinery.runtime.informer import Informer
from machinery.tasks import end
from machinery.types.metadata import Object

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Object)


@dataclass(slots=True)
class _Needed(Generic[T]):
    informer: Informer[T]
    users: set[Hashable] = field(default_factory=set)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    refused: bool = False


class InformerPool(Generic[K, T]):
    """The informers by key; `make` creates one.

    `told(key)`, if given, is called when the server begins, or ceases, to refuse its requests, and
    `shown(key)` after its first complete list.
    """

    def __init__(
        self,
        make: Callable[[K], Informer[T]],
        *,
        told: Callable[[K], None] = lambda _: None,
        shown: Callable[[K], None] | None = None,
    ) -> None:
        self._make = make
        self._told = told
        self._shown = shown
        self._needed: dict[K, _Needed[T]] = {}
        self._running: asyncio.Future[None] | None = None

    def __iter__(self) -> Iterator[K]:
        return iter([*self._needed])

    def get(self, key: K) -> Informer[T] | None:
        needed = self._needed.get(key)
        return needed.informer if needed is not None else None

    def need(self, key: K, user: Hashable) -> None:
        if key not in self._needed:
            self._needed[key] = _Needed(self._make(key))
            self._begin(key)
        self._needed[key].users.add(user)

    def keep(self, keys: Collection[K], user: Hashable) -> None:
        """That user needs these, and no others any more."""
        for key in keys:
            self.need(key, user)
        for key in [key for key in self if key not in keys]:
            self.drop(key, user)

    def drop(self, key: K, user: Hashable) -> None:
        needed = self._needed.get(key)
        if needed is None:
            return
        needed.users.discard(user)
        if not needed.users:
            del self._needed[key]
            for task in needed.tasks:
                task.cancel()
            needed.informer.discard()

    def clear(self) -> None:
        for needed in self._needed.values():
            needed.informer.discard()
        for key, needed in self._needed.items():
            self._needed[key] = _Needed(self._make(key), needed.users)

    async def run(self) -> None:
        """Run until cancelled; a further run resumes. Raises an informer's exception."""
        self._running = asyncio.get_running_loop().create_future()
        for key in self:
            self._begin(key)
        try:
            await self._running
        finally:
            self._running = None
            await end([task for each in self._needed.values() for task in each.tasks])

    def _begin(self, key: K) -> None:
        if self._running is None:
            return
        needed = self._needed[key]
        needed.informer.mistrust()
        name = needed.informer.resource.plural
        # An empty context: the task works on behalf of no Workload (`lanes.working_for`).
        watch = asyncio.create_task(self._follow(key, needed), name=name, context=Context())
        needed.tasks = [watch]
        if self._shown is not None and not needed.informer.synced:
            shows = self._show(key, needed.informer, self._shown)
            needed.tasks.append(asyncio.create_task(shows))
        for task in needed.tasks:
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        fault = None if task.cancelled() else task.exception()
        if fault is not None and self._running is not None and not self._running.done():
            self._running.set_exception(fault)

    async def _follow(self, key: K, needed: _Needed[T]) -> None:
        while True:
            await needed.informer.step()
            before, needed.refused = needed.refused, needed.informer.refused is not None
            if needed.refused != before:
                self._told(key)

    async def _show(self, key: K, informer: Informer[T], shown: Callable[[K], None]) -> None:
        await informer.wait_synced()
        shown(key)
