"""Calls plugins, guarded and timed, at the points around the write and for the status.

Reserve and Permit run without an await after the decision, PreBind before the write, PostBind after
it. Each but PostBind may withhold the write.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

import msgspec

from controller.cache.placements import PlacementIndex
from controller.framework.calling import answers
from controller.framework.calling.guard import (
    PluginError,
    Resting,
    ask,
    ask_aside,
    failed,
    limited,
    words,
)
from controller.framework.events import Hint
from controller.framework.interface import CycleState, Fields, Plugin
from controller.framework.profile import Profile
from controller.framework.status import SUCCESS, Code, Status
from controller.model.objects import PLUGIN_FIELDS
from controller.model.unit import WorkloadInfo
from controller.snapshot.snapshot import Snapshot
from crds.fields.shares import MOST_PLUGINS
from machinery import logs
from machinery.clock import stopwatch
from machinery.errors import StowageError
from machinery.tracing import called
from machinery.types.bounds import KIB

LOG = logs.get(__name__)
PRE_BIND_SECONDS = 60.0
"""Seconds that a PreBind plugin may take: it occupies a worker and the decision's room."""
ASK_AGAIN_SECONDS = 30.0
"""Seconds before `next_look` is called again after it failed."""

About: TypeAlias = tuple[Profile, CycleState, WorkloadInfo, Mapping[str, int]]
"""The arguments of the points around the write."""


def settled(
    profile: Profile, info: WorkloadInfo, now: datetime, bound: PlacementIndex
) -> WorkloadInfo:
    """Return the enriched Workload. Raises PluginError."""
    if not profile.learning:
        return info
    with limited(profile.plugin_timeout):
        for plugin in profile.learning:
            usable = partial(answers.a_workload_info, info)
            info = ask(plugin, "Settle", usable, plugin.settled, info, now, bound)
    return info


def next_look(profile: Profile, info: WorkloadInfo, now: datetime) -> float | None:
    looks: list[float | None] = []
    if not profile.learning:
        return None
    with limited(profile.plugin_timeout):
        for plugin in profile.learning:
            try:
                usable = answers.seconds_or_none
                looks.append(ask(plugin, "NextLook", usable, plugin.next_look, info, now))
            except PluginError as e:
                _log(e, info)
                # The decision is already written, so this fault must not fail it.
                looks.append(ASK_AGAIN_SECONDS)
    return min((look for look in looks if look is not None), default=None)


def status_fields(
    profile: Profile,
    info: WorkloadInfo,
    placements: Mapping[str, int],
    snapshot: Snapshot,
    bound: PlacementIndex,
) -> dict[str, Any]:
    """Return the plugins' status fields for these placements. Leaves out a plugin that fails."""
    fields: dict[str, Any] = {}
    own, about = PluginStatus(), (info, placements, snapshot, bound)
    if not (profile.telling or profile.telling_own):
        return {OWN: own.objects}
    with limited(profile.plugin_timeout):
        for plugin in profile.telling:
            try:
                tell = plugin.status_fields
                fields.update(ask_aside(plugin, "StatusFields", fields_of, tell, *about))
            except PluginError as e:
                _log(e, info)
        for each in profile.telling_own:
            try:
                add = partial(own.add, each.name)
                ask_aside(each, "OwnStatus", add, each.own_status, *about)
            except PluginError as e:
                _log(e, info)
    return fields | {OWN: own.objects}


def _log(fault: PluginError, info: WorkloadInfo) -> None:
    if not isinstance(fault, Resting):
        LOG.error("%s", fault, extra={"object": "/".join(info.key)})


class Ranking:
    """The order of the queue. A fault is only logged, and the Workload is first."""

    def __init__(self, profile: Profile) -> None:
        self.name = profile.queue_sort.name
        self._plugin = profile.queue_sort
        self._seconds = profile.plugin_timeout

    def rank(self, info: WorkloadInfo) -> tuple[Any, ...]:
        usable = answers.a_place_in_line
        try:
            with limited(self._seconds):
                return ask_aside(self._plugin, "QueueSort", usable, self._plugin.rank, info)
        except PluginError as e:
            _log(e, info)
            return ()


def telling(profiles: Mapping[str, Profile]) -> Fields:
    return lambda info, *about: status_fields(profiles[info.scheduler_name], info, *about)


def hinting(plugin: Plugin, hint: Hint, seconds: float) -> Hint:
    """Guard a hint. A fault requeues the Workload."""

    def asked(info: WorkloadInfo, old: Any, new: Any) -> bool:
        try:
            with limited(seconds):
                return ask_aside(plugin, "EventHint", answers.a_bool, hint, info, old, new)
        except PluginError as e:
            _log(e, info)
            return True

    return asked


def reserve(
    profile: Profile, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
) -> Status:
    """Call the Reserve plugins. On the first refusal or fault, unreserve all."""
    about = (state, info, placements)
    try:
        with limited(profile.plugin_timeout):
            for plugin in profile.reserve:
                status = ask(plugin, "Reserve", answers.a_status, plugin.reserve, *about)
                if not status.ok:
                    unreserve(profile, *about)
                    return named(plugin, status)
    except PluginError as e:
        unreserve(profile, *about)
        return e.status
    return SUCCESS


def unreserve(
    profile: Profile, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
) -> None:
    with limited(profile.plugin_timeout):
        for plugin in reversed(profile.reserve):
            try:
                give_back = plugin.unreserve
                ask(plugin, "Unreserve", answers.anything, give_back, state, info, placements)
            except PluginError:
                LOG.exception("not given back", extra={"object": "/".join(info.key)})


def permit(
    profile: Profile, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
) -> tuple[Status, dict[str, Status]]:
    """Return SUCCESS or the first refusal, and by plugin the answers that wait."""
    waits: dict[str, Status] = {}
    about = (state, info, placements)
    try:
        with limited(profile.plugin_timeout):
            for plugin in profile.permit:
                status = ask(plugin, "Permit", answers.a_status, plugin.permit, *about)
                if status.code is Code.WAIT:
                    waits[plugin.name] = status
                elif not status.ok:
                    return named(plugin, status), {}
    except PluginError as e:
        return e.status, {}
    return SUCCESS, waits


async def pre_bind(
    profile: Profile, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
) -> Status:
    """Call the PreBind plugins in turn, each for `PRE_BIND_SECONDS` at most."""
    for plugin in profile.pre_bind:
        limit, began = asyncio.timeout(PRE_BIND_SECONDS), stopwatch()
        try:
            async with limit:
                status = answers.a_status(await plugin.pre_bind(state, info, placements))
        except StowageError:
            raise
        except answers.Unusable as e:
            return failed(plugin, "PreBind", str(e)).status
        except Exception as e:  # noqa: BLE001 - whatever a plugin raises becomes its status
            late = f"no answer within {PRE_BIND_SECONDS:.0f} s"
            text = late if limit.expired() else words(e)
            return failed(plugin, "PreBind", text).status
        finally:
            called("PreBind", plugin.name, began)
        if not status.ok:
            return named(plugin, status)
    return SUCCESS


def post_bind(
    profile: Profile, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
) -> None:
    """Faults are only logged, because the decision is written."""
    if not profile.post_bind:
        return
    with limited(profile.plugin_timeout):
        for plugin in profile.post_bind:
            try:
                tell = plugin.post_bind
                ask(plugin, "PostBind", answers.anything, tell, state, info, placements)
            except PluginError:
                LOG.exception("not told of a write", extra={"object": "/".join(info.key)})


def named(plugin: Plugin, status: Status) -> Status:
    return replace(status, plugin=status.plugin or plugin.name)


MOST_BYTES = 4 * KIB
"""Bytes of one plugin's object as JSON."""
MOST_BYTES_TOGETHER = 16 * KIB
"""Bytes of all plugins' objects on a Workload as JSON."""
MOST_DEPTH = 16
OWN = "plugins"
"""The field with the plugins' own objects."""
_INT64 = 2**63


def fields_of(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Raises ValueError for a field that plugins may not set."""
    for name in said:
        if name not in PLUGIN_FIELDS or name == OWN:
            known = ", ".join(sorted(PLUGIN_FIELDS.keys() - {OWN}))
            raise ValueError(f"status.{name} is no field that plugins tell, those are {known}")
    return said


class PluginStatus:
    """The plugins' objects below `status.plugins` of one Workload."""

    def __init__(self) -> None:
        self.objects: dict[str, Mapping[str, Any]] = {}
        self._left = MOST_BYTES_TOGETHER

    def add(self, plugin: str, said: Mapping[str, Any]) -> None:
        """Raises TypeError or ValueError for a value that a status cannot hold."""
        value = _plain(said, MOST_DEPTH)
        if not isinstance(value, dict):
            raise TypeError(f"an object is wanted, found {type(said).__name__}")
        if not value:
            return
        size = len(msgspec.json.encode(value))
        if size > MOST_BYTES:
            raise ValueError(f"{size} bytes, {MOST_BYTES} are the most that one plugin tells")
        if size > self._left or len(self.objects) == MOST_PLUGINS:
            most = f"{MOST_BYTES_TOGETHER} bytes of {MOST_PLUGINS} plugins"
            raise ValueError(f"{size} bytes more, {most} are the most that all tell together")
        self._left -= size
        self.objects[plugin] = value


def _plain(value: Any, depth: int) -> Any:
    if not depth:
        raise ValueError(f"more than {MOST_DEPTH} levels")
    match value:
        case None | bool() | str():
            return value
        case int() if -_INT64 <= value < _INT64:
            return int(value)
        case float() if math.isfinite(value):
            return float(value)
        case Mapping():
            if not all(isinstance(name, str) for name in value):
                raise TypeError("the names of fields are strings")
            return {n: _plain(v, depth - 1) for n, v in value.items() if v is not None}
        case list() | tuple():
            return [_plain(each, depth - 1) for each in value]
        case _:
            raise TypeError(f"{value!r:.60} is no value that a status keeps")
