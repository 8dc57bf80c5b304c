"""The controllers of plugins and features, which run while this process leads.

A plugin's `controllers()` run once per process, however many profiles enable it. All restart
`AGAIN_SECONDS` after a fault.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from controller.framework.interface import Plugin
from controller.framework.runtime import fencing
from controller.framework.runtime.feature import Feature, Term
from controller.framework.runtime.fencing import Tenure
from controller.framework.runtime.handle import once
from machinery import logs
from machinery.clock import Clock
from machinery.errors import ConfigurationError

LOG = logs.get(__name__)
AGAIN_SECONDS = 10
ALL = "*"
Run: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""Runs a controller until cancelled."""


class PluginController(Protocol):
    """Has `async run()` or `start()`, and optionally `stop()` for the end of a term."""

    name: str


@runtime_checkable
class Controls(Plugin, Protocol):
    def controllers(self) -> Sequence[PluginController]:
        """Called once, before this instance leads."""
        ...


class _Part(NamedTuple):
    """`begin` returns None if there is nothing to run."""

    plugin: str
    name: str
    begin: Callable[[Term], Run | None]
    end: Callable[[], object]


def names(features: Iterable[Feature], plugins: Iterable[Plugin]) -> list[tuple[str, str]]:
    """Return (plugin, controller) for each that a leader runs."""
    return [(part.plugin, part.name) for part in _parts(features, plugins)]


class Controllers:
    """`chosen` lists plugins: `*` for all, `Name`, `-Name` for all but that.

    Raises ConfigurationError for a name without a controller.
    """

    def __init__(
        self,
        features: Iterable[Feature],
        plugins: Iterable[Plugin],
        chosen: str = ALL,
        *,
        clock: Clock,
    ) -> None:
        self._clock, self._tenure = clock, Tenure(clock=clock)
        parts = _parts(features, plugins)
        runs = _choice(chosen, {part.plugin for part in parts})
        self._parts = [part for part in parts if runs(part.plugin)]
        self._skipped = [part for part in parts if not runs(part.plugin)]

    def run(self, plugin: str) -> bool:
        return all(part.plugin != plugin for part in self._skipped)

    def begin(self, term: Term, forsake: Callable[[], None]) -> list[Run]:
        """Return what to run in this term. A controller that raises is left out.

        `forsake` is called for one that does not end with the term, see `Tenure.run`.
        """
        term = replace(term, check=partial(_checked, term.check))
        for part in self._skipped:
            LOG.info("the controller %s is skipped", part.name)
        found: list[Run] = []
        for part in self._parts:
            try:
                run = part.begin(term)
            except Exception:
                LOG.exception("the controller %s does nothing in this term", part.name)
            else:
                found += [partial(self._keep, part.name, run, forsake)] if run else []
        return found

    async def _keep(self, name: str, run: Run, forsake: Callable[[], None]) -> None:
        LOG.info("the controller %s runs", name)
        while True:
            try:
                return await self._tenure.run(name, run, forsake)
            except Exception:
                LOG.exception("the controller %s failed, is run again in %d s", name, AGAIN_SECONDS)
                await self._clock.sleep(AGAIN_SECONDS)

    def end(self) -> None:
        for part in self._parts:
            try:
                part.end()
            except Exception:
                LOG.exception("the controller %s did not end its term", part.name)


def _checked(check: Callable[[], float | None]) -> None:
    fencing.check()
    check()


def _parts(features: Iterable[Feature], plugins: Iterable[Plugin]) -> list[_Part]:
    theirs = (part for plugin in once(plugins) for part in _of_plugin(plugin))
    return [*map(_of_feature, features), *theirs]


def _of_feature(feature: Feature) -> _Part:
    def begin(term: Term) -> Run | None:
        running = feature.lead(term)
        return None if running is None else running.run

    name = next(iter(feature.plugins), type(feature).__name__)
    return _Part(name, name, begin, feature.stop_leading)


def _of_plugin(plugin: Plugin) -> Iterator[_Part]:
    if not isinstance(plugin, Controls):
        return
    try:
        found = list(plugin.controllers())
    except Exception:
        LOG.exception("plugin %s has no controllers: controllers() failed", plugin.name)
        return
    for each in found:
        name = getattr(each, "name", None)
        if not isinstance(name, str) or not _runs(each):
            LOG.error("plugin %s: a controller needs a name, and run() or start()", plugin.name)
            continue
        stop = getattr(each, "stop", None)
        end = stop if callable(stop) else lambda: None
        yield _Part(plugin.name, f"{plugin.name}/{name}", partial(_begin, each), end)


def _runs(controller: Any) -> bool:
    return any(callable(getattr(controller, method, None)) for method in ("run", "start"))


def _begin(controller: Any, _term: Term) -> Run:
    return partial(_run, controller)


async def _run(controller: Any) -> None:
    """`start` may return at once, or be awaited like `run`."""
    answer = (getattr(controller, "run", None) or controller.start)()
    if inspect.isawaitable(answer):
        await answer


def _choice(chosen: str, known: Collection[str]) -> Callable[[str], bool]:
    asked = [each.strip() for each in chosen.split(",")]
    for each in asked:
        name = each.removeprefix("-")
        if each != ALL and name not in known:
            there = ", ".join(sorted(known)) or "none"
            fault = f"no plugin {name or '(empty)'} has a controller; known: {there}"
            raise ConfigurationError(f"--controller-plugins {chosen}: {fault}")
    return lambda name: f"-{name}" not in asked and (ALL in asked or name in asked)
