"""How plugins are called: guarded, timed, and in the order of the points around the write.

Whatever a plugin raises becomes a `PluginError` that names the plugin and the extension point: one
plugin's fault is told on the Workload that it was about, and no other Workload notices. The points
around the write are Reserve and Permit, in the same breath as the decision, PreBind before the
write, PostBind after it; each but the last may withhold it.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import PurePath
from types import TracebackType
from typing import Any, TypeAlias

from controller.cache.placements import Index
from controller.cache.snapshot import Fleet
from controller.framework import told
from controller.framework.interface import CycleState, Fields, Plugin
from controller.framework.profile import Profile
from controller.framework.status import SUCCESS, Code, Status
from controller.model.unit import Unit
from crds.workload import ScheduledReason
from machinery import logs
from machinery.errors import StowageError

LOG = logs.get(__name__)
PRE_BIND_SECONDS = 60.0
"""A PreBind plugin that hangs holds a worker, and what its decision took, for no longer."""
ASK_AGAIN_SECONDS = 30.0
"""A plugin that cannot say when there is more to learn is asked again after that."""
_TEXT_LIMIT = 400

About: TypeAlias = tuple[Profile, CycleState, Unit, Mapping[str, int]]
"""What the points around the write are asked about: the plugins, the pass, the unit, its shares."""


class PluginError(StowageError):
    """A plugin raised, or did not answer in time. The message says which one, where and what."""

    def __init__(self, plugin: str, point: str, text: str) -> None:
        super().__init__(f"plugin {plugin} failed at {point}: {text[:_TEXT_LIMIT]}")
        self.plugin = plugin
        self.point = point

    @property
    def status(self) -> Status:
        """The same as a value, for the condition."""
        return Status(Code.ERROR, (str(self),), self.plugin, ScheduledReason.PLUGIN_ERROR)


class guarded:  # noqa: N801 - reads as the statement that it is: `with guarded(plugin, "Filter"):`
    """What is raised inside, by the plugin or over its answer, becomes a `PluginError`.

    A class and not a generator: a pass enters one for each plugin.
    """

    __slots__ = ("_plugin", "_point")

    def __init__(self, plugin: Plugin, point: str) -> None:
        self._plugin = plugin
        self._point = point

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(fault, Exception) and not isinstance(fault, PluginError):
            raise PluginError(self._plugin.name, self._point, _words(fault)) from fault


def settled(profile: Profile, unit: Unit, now: datetime, bound: Index) -> Unit:
    """The unit with what plugins know of it by now. Raises PluginError."""
    for plugin in profile.learning:
        with guarded(plugin, "Settle"):
            unit = plugin.settled(unit, now, bound)
    return unit


def next_look(profile: Profile, unit: Unit, now: datetime) -> float | None:
    """Seconds until there may be more to learn though nothing is reported, or None.

    The decision is written by then: where a plugin cannot say, it is asked again in a while.
    """
    looks: list[float | None] = []
    for plugin in profile.learning:
        try:
            with guarded(plugin, "NextLook"):
                looks.append(plugin.next_look(unit, now))
        except PluginError as e:
            LOG.error("%s", e, extra={"object": "/".join(unit.key)})  # noqa: TRY400 - it says where
            looks.append(ASK_AGAIN_SECONDS)
    return min((look for look in looks if look is not None), default=None)


def status_fields(
    profile: Profile, unit: Unit, placements: Mapping[str, int], fleet: Fleet, bound: Index
) -> dict[str, Any]:
    """What the plugins tell of the unit, placed so, in its Workload's status.

    Asked for every Workload when a term begins, so a plugin that fails over one of them tells
    nothing of that one, and ends nothing.
    """
    fields: dict[str, Any] = {}
    own, about = told.Own(), (unit, placements, fleet, bound)
    for plugin in profile.telling:
        with _telling_nothing_on_a_fault(plugin, "StatusFields", unit):
            fields.update(told.fields_of(plugin.status_fields(*about)))
    for each in profile.telling_own:
        with _telling_nothing_on_a_fault(each, "OwnStatus", unit):
            own.add(each.name, each.own_status(*about))
    return fields | {told.OWN: own.told}


@contextmanager
def _telling_nothing_on_a_fault(plugin: Plugin, point: str, unit: Unit) -> Iterator[None]:
    try:
        with guarded(plugin, point):
            yield
    except PluginError as e:
        LOG.error("%s", e, extra={"object": "/".join(unit.key)})  # noqa: TRY400 - it says where


def telling(profiles: Mapping[str, Profile]) -> Fields:
    """`status_fields` for units of several schedulers."""
    return lambda unit, *about: status_fields(profiles[unit.scheduler_name], unit, *about)


def reserve(
    profile: Profile, state: CycleState, unit: Unit, placements: Mapping[str, int]
) -> Status:
    """Ask every Reserve plugin; on the first refusal, or fault, all give back what they took."""
    try:
        for plugin in profile.reserve:
            with guarded(plugin, "Reserve"):
                status = plugin.reserve(state, unit, placements)
                if not status.ok:
                    unreserve(profile, state, unit, placements)
                    return _from(plugin, status)
    except PluginError as e:
        unreserve(profile, state, unit, placements)
        return e.status
    return SUCCESS


def unreserve(
    profile: Profile, state: CycleState, unit: Unit, placements: Mapping[str, int]
) -> None:
    """The decision is not written: give back what was reserved, the last plugin first.

    A plugin's fault keeps none of the others from giving back, so it is logged and goes no further.
    """
    for plugin in reversed(profile.reserve):
        try:
            with guarded(plugin, "Unreserve"):
                plugin.unreserve(state, unit, placements)
        except PluginError:
            LOG.exception("not given back", extra={"object": "/".join(unit.key)})


def permit(
    profile: Profile, state: CycleState, unit: Unit, placements: Mapping[str, int]
) -> tuple[Status, dict[str, Status]]:
    """SUCCESS or the first refusal, and the answers of those plugins that ask to wait, by name."""
    waits: dict[str, Status] = {}
    try:
        for plugin in profile.permit:
            with guarded(plugin, "Permit"):
                status = plugin.permit(state, unit, placements)
                if status.code is Code.WAIT:
                    waits[plugin.name] = status
                elif not status.ok:
                    return _from(plugin, status), {}
    except PluginError as e:
        return e.status, {}
    return SUCCESS, waits


async def pre_bind(
    profile: Profile, state: CycleState, unit: Unit, placements: Mapping[str, int]
) -> Status:
    """Ask every PreBind plugin, one after the other. Faults of ours (StowageError) pass through.

    Those are faults of the hub, not of the plugin: the scheduler knows which may be tried again.
    """
    for plugin in profile.pre_bind:
        try:
            with guarded(plugin, "PreBind"):
                status = await _timed(plugin.pre_bind(state, unit, placements))
                if not status.ok:
                    return _from(plugin, status)
        except PluginError as e:
            if isinstance(e.__cause__, StowageError):
                raise e.__cause__ from e.__cause__.__cause__
            return e.status
    return SUCCESS


def post_bind(
    profile: Profile, state: CycleState, unit: Unit, placements: Mapping[str, int]
) -> None:
    """The decision is written. A plugin's fault changes nothing about that, and is logged."""
    for plugin in profile.post_bind:
        try:
            with guarded(plugin, "PostBind"):
                plugin.post_bind(state, unit, placements)
        except PluginError:
            LOG.exception("not told of a write", extra={"object": "/".join(unit.key)})


async def _timed(answer: Awaitable[Status]) -> Status:
    within = asyncio.timeout(PRE_BIND_SECONDS)
    try:
        async with within:
            return await answer
    except TimeoutError as e:
        if within.expired():
            raise TimeoutError(f"no answer within {PRE_BIND_SECONDS:.0f} s") from e
        raise


def _from(plugin: Plugin, status: Status) -> Status:
    """The status under the plugin's name, whether or not it gave it."""
    return replace(status, plugin=status.plugin or plugin.name)


def _words(fault: Exception) -> str:
    """What was raised, and where: the last line of the plugin's own that is known."""
    frames = traceback.extract_tb(fault.__traceback__)
    at = f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    text = str(fault)
    return f"{type(fault).__name__}{': ' + text if text else ''}{at}"
