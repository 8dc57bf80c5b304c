"""WorkloadKinds of the hub: the profile that each one is, and which of them are in use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

import msgspec

from crds.admission.validation import fault_of as form_fault_of
from crds.workloadkind import WorkloadKindValidReason
from machinery.kinds import table
from machinery.kinds.expressions import InvalidExpression, InvalidPath, is_path, value
from machinery.kinds.profile import Profile, kind_name, values_of
from machinery.kinds.table import GroupKind
from machinery.tasks import in_slices
from machinery.types.api import WorkloadKindStatus
from machinery.types.bounds import MESSAGE, clean
from machinery.types.metadata import Key, Object

log = logging.getLogger(__name__)

KIND = "WorkloadKind"
_REASON = WorkloadKindValidReason


class WorkloadKind(Object, frozen=True):
    spec: Any = msgspec.field(default_factory=dict)
    status: WorkloadKindStatus = WorkloadKindStatus()


class Reading(msgspec.Struct, frozen=True, eq=False):
    """What a WorkloadKind says; equal specs have the same one."""

    profile: Profile | None
    """None if it cannot be known which kind is meant."""
    reason: WorkloadKindValidReason = _REASON.VALID
    fault: str = ""


def reading_of(found: WorkloadKind) -> Reading:
    encoded = msgspec.json.encode(found.spec, order="deterministic")
    return _reading(found.metadata.name, encoded)


@lru_cache(maxsize=1024)
def _reading(name: str, encoded: bytes) -> Reading:
    spec = msgspec.json.decode(encoded)
    fault = form_fault_of(KIND, spec)
    if not isinstance(spec, Mapping):
        return Reading(None, _REASON.INVALID_PATH, fault)
    group, kind = (str(spec.get(each) or "") for each in ("group", "kind"))
    if name != kind_name(group, kind):
        text = f"metadata.name: must be {clean(kind_name(group, kind))}"
        return Reading(None, _REASON.INVALID_PATH, fault or text)
    if fault:
        return _unusable(group, kind, _REASON.INVALID_PATH, fault)
    profile = msgspec.convert(_in_object(spec), Profile)
    for field, text in values_of(profile):
        try:
            if text:
                value(text)
        except InvalidPath as e:
            return _unusable(group, kind, _REASON.INVALID_PATH, f"spec.{field}: {e}")
        except InvalidExpression as e:
            return _unusable(group, kind, _REASON.INVALID_EXPRESSION, f"spec.{field}: {e}")
    return Reading(profile)


def _in_object(said: Any) -> Any:
    """Return what a spec says with each path as it is in an object: `object.spec.a` is `spec.a`.

    A field that a file leaves empty is no field.
    """
    if isinstance(said, dict):
        return {key: _in_object(each) for key, each in said.items() if each is not None}
    if isinstance(said, list):
        return [_in_object(each) for each in said]
    if isinstance(said, str) and said.startswith("object.") and is_path(said):
        return said.removeprefix("object.")
    return said


def _unusable(group: str, kind: str, reason: WorkloadKindValidReason, fault: str) -> Reading:
    fault = clean(fault, MESSAGE)
    return Reading(Profile(group=group, kind=kind, known=False, fault=fault), reason, fault)


def use_stored(objects: Iterable[WorkloadKind]) -> None:
    """Have the table follow these WorkloadKinds, and no others."""
    profiles = (reading_of(each).profile for each in objects)
    table.use(each for each in profiles if each is not None)


class Follower:
    """Keeps the table at the WorkloadKinds of an informer."""

    def __init__(
        self, stored: Callable[[], Iterable[WorkloadKind]], changed: Callable[[str, str], None]
    ) -> None:
        self._stored = stored
        self._changed = changed

    def kind_changed(self, old: WorkloadKind | None, new: WorkloadKind | None) -> None:
        before, after = (reading_of(each) if each else None for each in (old, new))
        if before is after:
            return
        use_stored(self._stored())
        profiles = (each.profile for each in (before, after) if each is not None)
        # Kinds that differ in case alone have one name.
        for group, kind in {(each.group, each.kind) for each in profiles if each is not None}:
            self._changed(group, kind)


class Rereading:
    """Has Workloads read anew, in slices, after the profile of a kind has changed.

    `read(key, kinds)` is called for each of them with the (group, kind) pairs that changed. Until
    it was called for all (`due`), one may still be read by an old profile.
    """

    def __init__(
        self,
        stored: Callable[[], Iterable[Object]],
        read: Callable[[Key, AbstractSet[GroupKind]], object],
    ) -> None:
        self._stored = stored
        self._read = read
        self._changed: set[GroupKind] = set()
        self._again: set[GroupKind] = set()
        """Those that changed since the walk began."""
        self._due = asyncio.Event()

    @property
    def due(self) -> bool:
        return self._due.is_set()

    def changed(self, group: str, kind: str) -> None:
        self._changed.add((group, kind))
        self._again.add((group, kind))
        self._due.set()

    async def run(self) -> None:
        while True:
            await self._due.wait()
            self._again.clear()
            kinds = frozenset(self._changed)
            async for each in in_slices(self._stored()):
                try:
                    self._read(each.metadata.key, kinds)
                except Exception:  # of one Workload: the others are read all the same
                    key = "/".join(each.metadata.key)
                    log.exception("it could not be read anew", extra={"object": key})
            self._changed = set(self._again)
            if not self._changed:
                self._due.clear()
