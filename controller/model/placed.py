"""Placed kinds: objects other than Workloads that get clusters in the same way.

A feature that `places` a kind converts an object to a Workload, and a Workload's status to the
object's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import msgspec

from controller.model.objects import ObservedByController, Workload, WorkloadStatus
from controller.model.unit import restated
from machinery import logs
from machinery.api.resources import WORKLOADS, Resource
from machinery.errors import Invalid
from machinery.kinds.profile import with_article
from machinery.runtime.event_recorder import ObjectRef
from machinery.runtime.informer import Informer
from machinery.runtime.store import Cache
from machinery.types.metadata import Key, Object

LOG = logs.get(__name__)


class _Written(Object, frozen=True):
    status: WorkloadStatus = WorkloadStatus()


_decoder = msgspec.json.Decoder(Workload)
_status_decoder = msgspec.json.Decoder(_Written)


@dataclass(frozen=True, slots=True)
class PlacedKind:
    """A namespaced kind whose objects are placed.

    Args:
        resource: the kind; it has a status subresource.
        type_: the type that an informer decodes it as.
        workload: returns an object as a Workload, its status in a Workload's fields; None for an
            object that is not placed. `read` replaces its name by that of `placed_key`; its
            `fault`, if any, is reported on the object.
        status: converts fields of a Workload's status, often only some, to this object's status;
            called with the stored object and the fields.
        booked: a ledger of the feature holds the room of its replicas: none is in flight.
    """

    resource: Resource
    type_: type[Object]
    workload: Callable[[Any], Workload | None]
    status: Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]
    booked: bool = False

    def read(self, stored: Object, known: Callable[[Workload], Workload]) -> Workload | None:
        """Return the Workload with its `info`, compiled by `known`; None if `workload` does.

        Raises the feature's exceptions, and ValidationError if its Workload does not fit the types.
        """
        found = self.workload(stored)
        if found is None:
            return None
        name = placed_key(self.resource, *stored.metadata.key)[1]
        meta = msgspec.structs.replace(stored.metadata, name=name)
        looked = ObservedByController(controller=found.status.observed_generation)
        status = msgspec.structs.replace(found.status, observed=looked)
        bare = msgspec.structs.replace(found, metadata=meta, status=status, info=None)
        checked = msgspec.convert(msgspec.to_builtins(bare), Workload)
        made = known(checked)
        info = replace(made.info, booked=self.booked)
        return msgspec.structs.replace(made, info=info, fault=checked.fault or made.fault)


def placed_key(resource: Resource, namespace: str, name: str) -> Key:
    """Return the key of an object of a placed kind among Workloads, whose names have no slash."""
    return (namespace, f"{resource.plural}/{name}")


def is_workload(key: Key) -> bool:
    """Whether the key is that of a Workload, and not of a placed kind's object."""
    return "/" not in key[1]


class PlacedObjects(Cache[Workload]):
    """The objects of one placed kind as Workloads, updated by the informer's `changed`.

    An object that becomes unreadable keeps its last state, with the fault.
    """

    def __init__(
        self, kind: PlacedKind, informer: Informer[Any], known: Callable[[Workload], Workload]
    ) -> None:
        super().__init__()
        self.kind = kind
        self._informer = informer
        self._known = known
        self._decoder = msgspec.json.Decoder(kind.type_)
        self._unreadable: set[Key] = set()
        self._forgetful: dict[Key, int] = {}
        """The generations of objects that did not store their placements."""
        informer.add_handler(self.changed)

    def changed(self, old: Object | None, new: Object | None) -> None:
        stored = new or old
        assert stored is not None  # noqa: S101 - the informer's promise
        key = placed_key(self.kind.resource, *stored.metadata.key)
        held, after = self.get(key), None if new is None else self._read(key, new)
        if after is not None:
            self.replace(after)
        elif held is not None:
            self.give_up(key, held)
        if new is None:
            self._unreadable.discard(key)
            self._forgetful.pop(key, None)

    def upsert(self, answer: bytes, placements: Any = None) -> None:
        """Store the answer to our own write. Raises Invalid if it lacks these `placements`."""
        stored = self._decoder.decode(answer)
        self._informer.upsert(stored)
        key, meta = placed_key(self.kind.resource, *stored.metadata.key), stored.metadata
        held = self.get(key)
        if placements and held and held.metadata.resource_version == meta.resource_version:
            written = {each["cluster"]: each["replicas"] for each in placements}
            if held.placements != written:
                self._forgetful[key] = meta.generation
                raise self._forgotten()

    def _forgotten(self) -> Invalid:
        return _invalid(f"{with_article(self.kind.resource.kind)} does not keep its placements")

    def status(self, key: Key, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields in the form of the object. Raises Invalid if the feature fails."""
        stored = self._informer.get((key[0], _name(key)))
        if stored is None:
            return {}
        if fields.get("placements") and self._forgetful.get(key) == stored.metadata.generation:
            raise self._forgotten()
        try:
            return {**self.kind.status(stored, _observed_alone(fields))}
        except Exception as e:
            LOG.exception("its status cannot be put together", extra={"object": "/".join(key)})
            raise _invalid(f"its status cannot be put together: {type(e).__name__}: {e}") from e

    def _read(self, key: Key, stored: Object) -> Workload | None:
        try:
            found = self.kind.read(stored, self._known)
        except Exception as e:  # one object's fault must not stop the others
            if key not in self._unreadable:
                LOG.exception("it cannot be read as a Workload", extra={"object": "/".join(key)})
            self._unreadable.add(key)
            return self._as_before(key, stored, f"it cannot be read: {type(e).__name__}: {e}")
        self._unreadable.discard(key)
        return found

    def _as_before(self, key: Key, stored: Object, fault: str) -> Workload | None:
        held = self.get(key)
        if held is None or held.metadata.uid != stored.metadata.uid:
            return None
        meta = msgspec.structs.replace(stored.metadata, name=key[1])
        info = replace(held.info, version=meta.resource_version, deleting=meta.deleting)
        return msgspec.structs.replace(held, metadata=meta, info=info, fault=fault)


class SchedulableLister:
    """Everything that is placed, by key: Workloads, and the objects of all placed kinds."""

    def __init__(self, workloads: Informer[Workload], placed: Iterable[PlacedObjects] = ()) -> None:
        self._workloads = workloads
        self._placed = {each.kind.resource.plural: each for each in placed}

    def get(self, key: Key) -> Workload | None:
        """Return the object with its `info`; None if it is unknown or not placed."""
        if is_workload(key):
            return self._workloads.get(key)
        found = self._of(key)
        return found.get(key) if found is not None else None

    def values(self) -> Collection[Workload]:
        return [*chain(self._workloads.values(), *(p.values() for p in self._placed.values()))]

    def path(self, key: Key) -> str:
        """Return the URL path of the object. Raises KeyError for a kind that is not placed."""
        return self._resource(key).path(key[0], _name(key))

    def reference(self, key: Key, uid: str) -> ObjectRef:
        """Return the object's reference for an Event. Raises KeyError as `path` does."""
        resource = self._resource(key)
        return ObjectRef(resource.api_version, resource.kind, key[0], _name(key), uid)

    def upsert(self, key: Key, answer: bytes, patch: Mapping[str, Any] | None = None) -> None:
        """Store the hub's answer to our own read or write.

        Raises Invalid if the object does not have it.
        """
        found = self._of(key)
        if found is None:
            self._workloads.upsert(self._answered(key, answer, patch))
        else:
            found.upsert(answer, (patch or {}).get("status", {}).get("placements"))

    def _answered(self, key: Key, answer: bytes, patch: Mapping[str, Any] | None) -> Workload:
        """Return the Workload of an answer, compiled again only if more than its status changed."""
        held = self._workloads.get(key)
        version = patch["metadata"]["resourceVersion"] if patch is not None else None
        if held is not None and held.metadata.resource_version == version:
            # Compiling a template costs several times as much as reading a status.
            found = _status_decoder.decode(answer)
            if msgspec.structs.replace(found.metadata, resource_version=version) == held.metadata:
                now = found.metadata.resource_version
                meta = msgspec.structs.replace(held.metadata, resource_version=now)
                return restated(held, meta, found.status)
        return _decoder.decode(answer)

    def status(self, key: Key, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return fields of a Workload's status in the object's form. Raises Invalid."""
        found = self._of(key)
        return fields if found is None else found.status(key, fields)

    def _of(self, key: Key) -> PlacedObjects | None:
        return self._placed.get(key[1].partition("/")[0]) if not is_workload(key) else None

    def _resource(self, key: Key) -> Resource:
        return (
            WORKLOADS if is_workload(key) else self._placed[key[1].partition("/")[0]].kind.resource
        )


def _observed_alone(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields with the generation in the field of an object with one writer."""
    if "observed" not in fields:
        return fields
    others = {name: value for name, value in fields.items() if name != "observed"}
    return {"observedGeneration": fields["observed"]["controller"], **others}


def _name(key: Key) -> str:
    return key[1].rpartition("/")[2]


def _invalid(message: str) -> Invalid:
    return Invalid(code=422, reason="Invalid", message=message)
