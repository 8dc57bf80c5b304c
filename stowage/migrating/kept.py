"""What a migration keeps on the hub: the Secret `migration-<uid>` of each released Workload.

It is written before the first change of the peer or of a member, and holds all that each further
step and its undoing need: the peer may lose its objects meanwhile. `<uid>` is the Workload's.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from crds.names import ANNOTATION_MIGRATION, LABEL_MIGRATION
from crds.restored import incomplete
from machinery.api.resources import SECRETS
from machinery.api.verbs import Verbs
from machinery.errors import ConfigurationError
from machinery.types.metadata import Key
from stowage.migrating.clusters import renamed
from stowage.migrating.peer import Json, Ref, Standing

_PREFIX, _DATA = "migration-", "record.json.gz"
FINISHED = "finished"


class Progress(StrEnum):
    """How far a release has come, as its Secret says."""

    KEPT = "kept"
    """All is kept; what follows may have been begun, or taken back."""
    RELEASED = "released"
    """It was proven that the peer has let go."""
    FINISHING = "finishing"
    """Objects of the peer may be gone by now."""


class KeptObject(msgspec.Struct, frozen=True):
    """An object on a member, and the metadata by which the peer held it."""

    member: str
    ref: Ref
    uid: str
    held_by: Mapping[str, Any]


class Record(msgspec.Struct, frozen=True):
    """What is kept of one Workload."""

    workload: Key
    hub: str
    """The UID of the kube-system of the peer's hub."""
    standing: Standing
    clusters: Mapping[str, str]
    """The MemberClusters by the peer's names of the clusters."""
    own: Mapping[str, Any]
    """The fields of its spec that wait for the end of the migration."""
    before: Sequence[Json]
    """The objects of the peer's hub as they were."""
    members: Sequence[KeptObject]
    progress: Progress = Progress.KEPT

    def found(self, ref: Ref) -> Json | None:
        """Return an object of the peer's hub as it was."""
        return next((each for each in self.before if Ref.of(each).key == ref.key), None)


class StoredRecord(msgspec.Struct, frozen=True):
    """A record, with the version of its Secret."""

    record: Record
    version: str


class Step(StrEnum):
    """How far the migration of a Workload has come."""

    NONE = "not adopted"
    ADOPTING = "adopting"
    ADOPTED = "adopted"
    RELEASING = "releasing"
    RELEASED = "released"
    TAKEN = "taken"
    FINISHING = "finishing"
    FINISHED = "finished"


def step_of(workload: Json | None, record: Record | None) -> Step:
    """Return the step that a Workload of the hub is at. Pure."""
    if workload is None or not peer_of(workload):
        return Step.NONE
    annotations = workload["metadata"].get("annotations") or {}
    progress = record.progress if record is not None else None
    if annotations.get(ANNOTATION_MIGRATION, "").partition("/")[2] == FINISHED:
        return Step.FINISHED if record is None else Step.FINISHING
    if incomplete(annotations):
        return Step.ADOPTING
    if progress is Progress.FINISHING:
        return Step.FINISHING
    if workload["spec"].get("delivery") != "None":
        return Step.TAKEN
    if progress is None:
        return Step.ADOPTED
    return Step.RELEASED if progress is Progress.RELEASED else Step.RELEASING


def peer_of(workload: Json) -> str:
    """Return the system that a Workload is migrated from; empty for none."""
    annotations = workload["metadata"].get("annotations") or {}
    return str(annotations.get(ANNOTATION_MIGRATION, "").partition("/")[0])


# --- the Secret -----------------------------------------------------------------------------------


def name_of(uid: str) -> str:
    return _PREFIX + uid


async def read(hub: Verbs, home: str, uid: str) -> StoredRecord | None:
    """Return what is kept of a Workload. Raises ConfigurationError for what cannot be read."""
    found = await hub.find(SECRETS, name_of(uid), namespace=home)
    return _decoded(found) if found is not None else None


async def read_all(hub: Verbs, home: str, members: Mapping[str, Json]) -> dict[str, StoredRecord]:
    """Return all that is kept, by the UIDs of the Workloads.

    `members` are the MemberClusters: what was renamed since is read by its present name.
    """
    listed = await hub.list(SECRETS, namespace=home, label_selector=LABEL_MIGRATION)
    names = {
        former: name
        for name, each in members.items()
        for former in (each.get("spec") or {}).get("formerNames") or ()
        if former not in members
    }
    return {
        each["metadata"]["name"].removeprefix(_PREFIX): _as_named(_decoded(each), names)
        for each in listed["items"]
    }


def _as_named(stored: StoredRecord, names: Mapping[str, str]) -> StoredRecord:
    record = stored.record
    if not names:
        return stored
    replace = msgspec.structs.replace
    found = replace(
        record,
        clusters={theirs: names.get(ours, ours) for theirs, ours in record.clusters.items()},
        own=renamed(record.own, names),
        members=[
            replace(each, member=names.get(each.member, each.member)) for each in record.members
        ],
    )
    return replace(stored, record=found)


async def keep(hub: Verbs, home: str, uid: str, record: Record) -> None:
    """Make the Secret. Raises AlreadyExists if there is one."""
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name_of(uid), "namespace": home, "labels": {LABEL_MIGRATION: "true"}},
        "data": _encoded(record),
    }
    await hub.create(SECRETS, body, namespace=home)


async def change(hub: Verbs, home: str, uid: str, stored: StoredRecord, record: Record) -> None:
    """Write a later record over the one that was read. Raises Conflict if it is another by now."""
    patch = {"metadata": {"resourceVersion": stored.version}, "data": _encoded(record)}
    await hub.merge_patch(SECRETS, name_of(uid), patch, namespace=home)


def _encoded(record: Record) -> dict[str, str]:
    packed = gzip.compress(msgspec.json.encode(record), mtime=0)
    return {_DATA: base64.b64encode(packed).decode()}


def _decoded(secret: Json) -> StoredRecord:
    metadata = secret["metadata"]
    try:
        packed = base64.b64decode((secret.get("data") or {})[_DATA])
        record = msgspec.json.decode(gzip.decompress(packed), type=Record)
    except (KeyError, ValueError, EOFError, OSError, msgspec.DecodeError) as e:
        raise ConfigurationError(
            f"Secret {metadata['namespace']}/{metadata['name']} is not what a release has kept: {e}"
        ) from e
    return StoredRecord(record, metadata["resourceVersion"])
