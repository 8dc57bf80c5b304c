"""Which revision of a Workload a member gets, and its content.

The status names the revision of each cluster. The spec's own is rendered from the spec, any other
read from its ControllerRevision once, and used only if its digest matches its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import structs

from crds.workload import PropagatedReason
from machinery.api.client import ApiClient
from machinery.api.resources import CONTROLLER_REVISIONS
from machinery.errors import Forbidden, NotFound, TransportError
from machinery.kinds.revisions import digest_of, is_unstaged, revision_data, revision_name
from propagator.errors import HubFault, Refused
from propagator.shares import ShareTable
from propagator.types.workload import Workload, WorkloadSpec


class AwaitsRevision(Refused):
    def __init__(self, member: str) -> None:
        told = f"{member}: waits until the controller says which revision it gets"
        super().__init__(PropagatedReason.PROPAGATING, told)


class KeepsRevision(Refused):
    """The member runs a revision that was never staged, and keeps it until it gets another."""

    def __init__(self, member: str) -> None:
        told = (
            f"{member}: keeps what it runs until its wave, as the hub has no copy of that revision"
        )
        super().__init__(PropagatedReason.PROPAGATING, told)


class _Content(msgspec.Struct, frozen=True, rename="camel"):
    target_deployment: msgspec.Raw = msgspec.Raw()
    target_service: msgspec.Raw = msgspec.Raw()
    template: msgspec.Raw = msgspec.Raw()
    replicas_path: str = ""
    manifests: list[msgspec.Raw] = []
    overrides: msgspec.Raw = msgspec.Raw()


class Revisions:
    def __init__(self, hub: ApiClient, shares: ShareTable) -> None:
        self._hub = hub
        self._held = shares.column(dict[str, _Content])  # of the Workload, by revision

    async def of_member(self, workload: Workload, member: str) -> Workload:
        """Raises Refused without the content of the member's revision, and HubFault."""
        if not workload.staged:
            return workload
        revision = workload.revision_of(member)
        if not revision:
            raise AwaitsRevision(member)
        if revision == revision_of_spec(workload):
            return workload
        held = self._held.at(workload.uid)
        if revision not in held:
            named = workload.revisions
            for each in [each for each in held if each not in named]:
                del held[each]
            held[revision] = await self._read(workload, revision, member)
        return _with(workload, held[revision])

    def known(self, workload: Workload, member: str) -> Workload:
        """As `of_member`, by what was already read; else the Workload unchanged."""
        held = self._held.get(workload.uid)
        content = held.get(workload.revision_of(member)) if held else None
        if content is None or workload.revision_of(member) == revision_of_spec(workload):
            return workload
        return _with(workload, content)

    async def _read(self, workload: Workload, revision: str, member: str) -> _Content:
        namespace, owner = workload.metadata.key
        name = revision_name(owner, revision)
        where = f"ControllerRevision {namespace}/{name}"
        try:
            found = await self._hub.get(CONTROLLER_REVISIONS, name, namespace=namespace)
        except NotFound as fault:
            if is_unstaged(revision) and _shown(workload, member) == revision:
                raise KeepsRevision(member) from fault
            raise _lost(member, f"{where} is gone") from fault
        except Forbidden as fault:
            raise _lost(member, str(fault)) from fault
        except TransportError as fault:
            raise HubFault(f"{where} could not be read", fault) from fault
        data = found.get("data")
        spec = data.get("spec") if isinstance(data, Mapping) else None
        if not isinstance(spec, Mapping) or digest_of(spec) != revision:
            raise _lost(member, f"{where} is not what it was")
        return _content.decode(msgspec.json.encode(spec))


def revision_of_spec(workload: Workload) -> str:
    spec = workload.spec
    return _digest(
        bytes(spec.target_deployment),
        bytes(spec.target_service),
        bytes(spec.template),
        tuple(map(bytes, spec.manifests)),
        bytes(spec.overrides),
        spec.replicas_path,
    )


# Each status update repeats the spec.
@lru_cache(maxsize=256)
def _digest(
    deployment: bytes,
    service: bytes,
    template: bytes,
    manifests: tuple[bytes, ...],
    overrides: bytes,
    replicas_path: str,
) -> str:
    spec: dict[str, Any] = {
        "targetDeployment": _decoded(deployment),
        "targetService": _decoded(service),
        "template": _decoded(template),
        "manifests": [_decoded(each) for each in manifests],
        "overrides": _decoded(overrides),
        "replicasPath": replicas_path,
    }
    return digest_of(revision_data(spec))


def _decoded(raw: bytes) -> Any:
    return msgspec.json.decode(raw) if raw else None


def _with(workload: Workload, content: _Content) -> Workload:
    fields = {name: getattr(content, name) for name in _FIELDS}
    spec: WorkloadSpec = structs.replace(workload.spec, **fields)
    other = structs.replace(workload, spec=spec)
    other.__dict__.update(
        {name: workload.__dict__[name] for name in _SAME if name in workload.__dict__}
    )
    return other


def _shown(workload: Workload, member: str) -> str:
    shares = (each for each in workload.status.clusters if each["name"] == member)
    return str(next(shares, {}).get("revision", ""))


def _lost(member: str, why: str) -> Refused:
    return Refused(
        PropagatedReason.REVISION_LOST,
        f"{member}: nothing is changed, as the revision that it is to have is lost: {why}",
    )


_content = msgspec.json.Decoder(_Content)
_FIELDS = tuple(_Content.__struct_fields__)
_SAME = ("placements", "leaving", "causes")
"""Cached values of a Workload that no revision changes: it may have ten thousand shares."""
