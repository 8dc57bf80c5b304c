"""The ControllerRevisions of a Workload: stored before a status names them, pruned after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from controller.features.rollout.status import named_by
from controller.framework.statuswriter import for_good
from controller.model.objects import RolloutState, Workload
from crds.names import API_VERSION as WORKLOAD_API
from crds.names import LABEL_WORKLOAD_UID
from machinery.api.resources import CONTROLLER_REVISIONS, WORKLOADS
from machinery.errors import AlreadyExists, Conflict, Forbidden, NotFound, TransportError
from machinery.kinds.revisions import digest_of, revision_data, revision_name
from machinery.types.metadata import Meta

if TYPE_CHECKING:
    from machinery.api.verbs import Verbs

GRANT = "get, list, create and delete on controllerrevisions of the group apps"


@dataclass(frozen=True, slots=True)
class PresentRevision:
    """The revision of a spec at one generation. `fault` is why it is not stored."""

    uid: str
    generation: int
    revision: str = ""
    fault: str = ""
    kept: frozenset[str] = frozenset()
    """The ControllerRevisions that existed before."""

    def of(self, meta: Meta) -> bool:
        return (self.uid, self.generation) == (meta.uid, meta.generation)


class RevisionHistory:
    """`check` raises LeaseLost. All methods raise TransportError."""

    def __init__(self, client: Verbs, *, check: Callable[[], float | None]) -> None:
        self._client = client
        self._check = check

    async def store(self, workload: Workload) -> PresentRevision:
        # The informer drops the template, so the spec is read once per generation.
        meta = workload.metadata
        raw = await self._client.get(WORKLOADS, meta.name, namespace=meta.namespace)
        given = msgspec.convert(raw["metadata"], Meta)
        data = revision_data(raw["spec"])
        revision = digest_of(data)
        kept: Mapping[str, Mapping[str, Any]] = {}
        try:
            kept = await self._kept(given)
            fault = await self._stored(given, revision, data, kept)
        except TransportError as e:
            if not (isinstance(e, Forbidden | NotFound) or for_good(e)):
                raise
            fault = refusal(e)
        return PresentRevision(given.uid, given.generation, revision, fault, frozenset(kept))

    async def _stored(
        self,
        meta: Meta,
        revision: str,
        data: Mapping[str, Any],
        kept: Mapping[str, Mapping[str, Any]],
    ) -> str:
        """Return why it cannot be created, or empty."""
        name = revision_name(meta.name, revision)
        if (found := kept.get(name)) is not None:
            return _difference(found, revision)
        number = max((_number(each) for each in kept.values()), default=0) + 1
        body = _body(meta, name, data, number)
        self._check()
        try:
            await self._client.create(CONTROLLER_REVISIONS, body)
        except AlreadyExists:
            fault = await self._taken(meta, name, revision)
            if fault is not None:
                return fault
            self._check()
            await self._client.create(CONTROLLER_REVISIONS, body)
        return ""

    async def _taken(self, meta: Meta, name: str, revision: str) -> str | None:
        with suppress(NotFound):
            found = await self._get(meta, name)
            owners = _owners(found, meta)
            if meta.uid in owners:  # another instance was faster, or its label was edited
                return _difference(found, revision)
            if not owners:
                return f"the ControllerRevision {name} belongs to something else: delete it"
            # The garbage collector will delete it, perhaps after it was taken for ours.
            self._check()
            uid = found["metadata"]["uid"]
            where = {"namespace": meta.namespace, "uid": uid}
            await self._client.delete(CONTROLLER_REVISIONS, name, **where)
        return None

    async def unusable(self, workload: Workload, revision: str) -> str:
        """Return why it cannot be restored, or empty."""
        name = revision_name(workload.metadata.name, revision)
        try:
            return _difference(await self._get(workload.metadata, name), revision)
        except NotFound:
            return f"the ControllerRevision {name} is gone: edit the Workload back by hand"
        except Forbidden as e:
            return refusal(e)

    async def prune(self, meta: Meta) -> None:
        """Delete the ControllerRevisions that nothing names."""
        kept = await self._kept(meta)
        # Read after the list: anything stored by another instance with a newer view then belongs to
        # a revision in the spec or the status.
        with suppress(NotFound):
            raw = await self._client.get(WORKLOADS, meta.name, namespace=meta.namespace)
            for name in kept.keys() - _needed(raw):
                self._check()
                uid = kept[name]["metadata"]["uid"]
                with suppress(NotFound, Conflict):
                    where = {"namespace": meta.namespace, "uid": uid}
                    await self._client.delete(CONTROLLER_REVISIONS, name, **where)

    async def _kept(self, meta: Meta) -> dict[str, Mapping[str, Any]]:
        selector = f"{LABEL_WORKLOAD_UID}={meta.uid}"
        found = await self._client.list(
            CONTROLLER_REVISIONS, namespace=meta.namespace, label_selector=selector
        )
        return {each["metadata"]["name"]: each for each in found["items"]}

    async def _get(self, meta: Meta, name: str) -> Mapping[str, Any]:
        return await self._client.get(CONTROLLER_REVISIONS, name, namespace=meta.namespace)


def _needed(raw: Mapping[str, Any]) -> set[str]:
    spec, status = raw["spec"], raw.get("status") or {}
    if not spec.get("rollout"):
        return set()
    state = RolloutState(None, status.get("rollout"), status.get("revisions"))
    named = named_by(state.stored, state.exceptions.values())
    name = raw["metadata"]["name"]
    return {revision_name(name, each) for each in (*named, digest_of(revision_data(spec)))}


def refusal(error: TransportError) -> str:
    if isinstance(error, Forbidden):
        return f"the controller may not use ControllerRevisions: grant it {GRANT} ({error})"
    return f"the hub stores no ControllerRevision of it: {error}"


def _difference(found: Mapping[str, Any], revision: str) -> str:
    data = found.get("data")
    spec = data.get("spec") if isinstance(data, Mapping) else None
    if isinstance(spec, Mapping) and digest_of(spec) == revision:
        return ""
    name = found["metadata"]["name"]
    return f"the ControllerRevision {name} is not what it was: edit the Workload back by hand"


def _owners(found: Mapping[str, Any], meta: Meta) -> set[str]:
    owners = found["metadata"].get("ownerReferences") or ()
    named = (WORKLOADS.kind, meta.name)
    return {str(o.get("uid")) for o in owners if (o.get("kind"), o.get("name")) == named}


def _number(found: Mapping[str, Any]) -> int:
    number = found.get("revision")
    return number if isinstance(number, int) else 0


def _body(meta: Meta, name: str, data: Mapping[str, Any], number: int) -> dict[str, Any]:
    owner = meta.controller_ref(WORKLOAD_API, WORKLOADS.kind)
    return {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": name,
            "namespace": meta.namespace,
            "labels": {LABEL_WORKLOAD_UID: meta.uid},
            "ownerReferences": [owner],
        },
        "data": {"spec": data},
        "revision": number,
    }
