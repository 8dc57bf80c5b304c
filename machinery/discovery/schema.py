"""Whether the hub's CRDs have every field that this version knows.

Each process does nothing while an installed CRD lacks a field or a value of an enumeration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import crds
from crds.names import GROUP, VERSION
from machinery import logs
from machinery.api.resources import CRDS, Resource
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import Forbidden, NotFound, TransportError

LOG = logs.get(__name__)
CHECK_SECONDS = 60.0
"""Seconds between two checks."""
RETRY_SECONDS = 2.0
"""Seconds between two checks while there is an obstacle."""
_UNKNOWN = "x-kubernetes-preserve-unknown-fields"


class Schema:
    def __init__(self, client: Verbs, resources: Iterable[Resource], *, clock: Clock) -> None:
        self._client = client
        self._resources = [each for each in resources if f"{each.kind.lower()}.yaml" in crds.FILES]
        self._clock = clock
        self._hidden = False
        self._settled = asyncio.Event()
        self.obstacle = "the hub's kinds are not looked at yet"
        """Why this process must not act; empty when the definitions have all fields."""

    async def run(self) -> None:
        while True:
            try:
                before, self.obstacle = self.obstacle, await self._check()
                (self._settled.clear if self.obstacle else self._settled.set)()
            except TransportError as e:
                LOG.info("the hub's kinds could not be looked at: %s", e)
                await self._clock.sleep(RETRY_SECONDS)
                continue
            if self.obstacle and self.obstacle != before:
                LOG.error("%s", self.obstacle)
            await self._clock.sleep(RETRY_SECONDS if self.obstacle else CHECK_SECONDS)

    async def settled(self) -> None:
        await self._settled.wait()

    async def _check(self) -> str:
        for resource in self._resources:
            name = f"{resource.plural}.{GROUP}"
            try:
                found = await self._client.get(CRDS, name)
            except NotFound:
                continue
            except Forbidden as e:
                if not self._hidden:
                    LOG.warning("whether the hub's kinds are too old is not known: %s", e)
                self._hidden = True
                return ""  # roles of an older release, or an operator's own, worked so far
            if lacks := lacking(_schema(crds.definition_of(resource.kind)), _schema(found)):
                return (
                    f"SchemaTooOld: {name} on the hub lacks {lacks}: "
                    "run `stowage install` of this version"
                )
        return ""


def lacking(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> str:
    """Return the first field, or value of an enumeration, that only our schema has; or empty."""
    if theirs.get(_UNKNOWN):
        return ""
    if ours.get(_UNKNOWN):
        return f"the unknown fields of {path}"
    if "enum" in theirs and (more := set(ours.get("enum", ())) - set(theirs["enum"])):
        return f"the value {min(more)} of {path}"
    known = dict(_parts(theirs, path))
    for at, schema in _parts(ours, path):
        lacks = lacking(schema, known[at], at) if at in known else at
        if lacks:
            return lacks
    return ""


def _parts(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}" if path else name, inner
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(inner := schema.get(key), dict):
            yield f"{path}{mark}", inner


def _schema(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    for version in definition["spec"]["versions"]:
        if version["name"] == VERSION and version["served"]:
            found: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
            return found
    return {}
