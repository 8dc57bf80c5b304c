"""The kinds of a server, discovered once for all callers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from machinery.api.resources import Resource, group_path, group_version, segment
from machinery.api.responses import decode
from machinery.clock import Clock
from machinery.errors import BadRequest, NotFound, TransportError
from machinery.tasks import KeyedLocks
from machinery.types import bounds


class _ApiResource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool


class _ApiResources(msgspec.Struct):
    resources: list[_ApiResource] = []


class _Preferred(msgspec.Struct, rename="camel"):
    group_version: str


class _ApiGroup(msgspec.Struct, rename="camel"):
    preferred_version: _Preferred


class _ApiGroups(msgspec.Struct):
    groups: list[_ApiGroup] = []


class _Served(msgspec.Struct):
    kind: str = ""


class _ServedResource(msgspec.Struct, rename="camel"):
    response_kind: _Served | None = None


class _ServedVersion(msgspec.Struct):
    version: str
    resources: list[_ServedResource] = []
    freshness: str = "Current"


class _ServedName(msgspec.Struct):
    name: str = ""


class _ServedGroup(msgspec.Struct):
    metadata: _ServedName = msgspec.field(default_factory=_ServedName)
    versions: list[_ServedVersion] = []


class _ServedGroups(msgspec.Struct):
    kind: str = ""
    items: list[_ServedGroup] = []


AGGREGATED = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)
_served_groups = msgspec.json.Decoder(_ServedGroups)
_groups = msgspec.json.Decoder(_ApiGroups)
_api_resources = msgspec.json.Decoder(_ApiResources)


class ServedKinds(NamedTuple):
    """The kinds of a server's groups, as (group, version, kind)."""

    kinds: frozenset[tuple[str, str, str]]
    hidden: int = 0
    """Versions of groups that another server has now."""


def served_kinds(answer: bytes) -> ServedKinds | None:
    """Read an answer to /apis in the form AGGREGATED; None in any other. Raises Unreadable."""
    found: _ServedGroups = decode(answer, _served_groups)
    if found.kind != "APIGroupDiscoveryList":
        return None
    versions = [(each.metadata.name, of) for each in found.items for of in each.versions]
    kinds = {
        (group, of.version, resource.response_kind.kind)
        for group, of in versions
        for resource in of.resources
        if resource.response_kind is not None
    }
    hidden = sum(of.freshness != "Current" and not of.resources for _, of in versions)
    return ServedKinds(frozenset(kinds), hidden)


@dataclass(frozen=True, slots=True)
class _Answer:
    at: float
    resources: Sequence[Resource] = ()
    fault: TransportError | None = None
    doubted: bool = False
    """Whether a path of it was not found: the kind may have been redefined."""


class Catalogue:
    """The kinds of one server. `ask` sends a GET to a path in the lane of discovery."""

    def __init__(self, ask: Callable[[str], Awaitable[bytes]], *, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._known: dict[str, _Answer] = {}
        self._asking: KeyedLocks[str] = KeyedLocks()

    async def of(self, api_version: str) -> Sequence[Resource]:
        """Return every resource type. Raises NotFound for an unknown group or version."""
        return await self._look_up(api_version, needs="")

    async def preferred(self) -> Sequence[str]:
        """Return the preferred apiVersion of each group, the core group's first; not cached."""
        found: _ApiGroups = decode(await self._ask("/apis"), _groups)
        named = [group.preferred_version.group_version for group in found.groups]
        return ["v1", *named[: bounds.DISCOVERED]]

    async def find(self, api_version: str, kind: str) -> Resource:
        """Return the resource type of a manifest. Raises NotFound when the server lacks it."""
        for resource in await self._look_up(api_version, needs=kind):
            if resource.kind == kind:
                return resource
        what = f"{bounds.clean(kind, bounds.WORD)} in {bounds.clean(api_version, bounds.WORD)}"
        raise _no_such(f"the server has no kind {what}")

    def doubt(self, api_version: str) -> None:
        """Look up the group and version again soon, because a path of it was not found."""
        answer = self._known.get(api_version)
        if answer is not None:
            self._known[api_version] = replace(answer, doubted=True)

    async def _look_up(self, api_version: str, *, needs: str) -> Sequence[Resource]:
        lock = self._asking.of(api_version)
        async with lock:  # one caller sends the request, the others get its answer
            answer = self._remembered(api_version, needs)
            if answer is None:
                answer = await self._question(api_version)
                self._remember(api_version, answer)
        if answer.fault is not None:
            raise answer.fault.with_traceback(None)
        return answer.resources

    def _remembered(self, api_version: str, needs: str) -> _Answer | None:
        answer = self._known.get(api_version)
        if answer is None:
            return None
        good = answer.fault is None and not answer.doubted
        good = good and (not needs or any(each.kind == needs for each in answer.resources))
        fresh = self._clock.monotonic() - answer.at < bounds.UNKNOWN_SECONDS
        return answer if good or fresh else None

    async def _question(self, api_version: str) -> _Answer:
        group, version = group_version(api_version)
        try:
            path = group_path(group, version)
        except BadRequest as e:  # no server has a group of that name
            return _Answer(self._clock.monotonic(), fault=_no_such(str(e)))
        try:
            found = _resources(group, version, await self._ask(path))
        except TransportError as e:
            return _Answer(self._clock.monotonic(), fault=e)
        return _Answer(self._clock.monotonic(), found)

    def _remember(self, api_version: str, answer: _Answer) -> None:
        self._known.pop(api_version, None)
        self._known[api_version] = answer
        while len(self._known) > bounds.DISCOVERED:
            del self._known[next(iter(self._known))]


def _resources(group: str, version: str, answer: bytes) -> list[Resource]:
    listed: _ApiResources = decode(answer, _api_resources)
    return [
        Resource(group, version, each.name, each.kind, each.namespaced)
        for each in listed.resources[: bounds.KINDS]
        if _usable(each)  # subresources such as pods/log are not
    ]


def _usable(found: _ApiResource) -> bool:
    try:
        return bool(segment(found.name) and segment(found.kind))
    except BadRequest:
        return False


def _no_such(message: str) -> NotFound:
    return NotFound(code=404, reason="NotFound", message=message)
