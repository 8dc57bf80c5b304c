"""The kinds on a member. All but the usual ones are looked up there."""

from __future__ import annotations

from crds.fields.template import well_formed
from crds.workload import PropagatedReason
from machinery.api.resources import USUAL, Resource
from machinery.errors import NotFound
from propagator.errors import Refused
from propagator.members.session import MemberSession

_BY_KIND = {(resource.api_version, resource.kind): resource for resource in USUAL}
USUAL_KINDS = frozenset(_BY_KIND)
"""(apiVersion, kind) of each of them."""


async def resource_of(session: MemberSession, api_version: str, kind: str) -> Resource:
    """Raises Refused if the member lacks the kind."""
    usual = _BY_KIND.get((api_version, kind))
    if usual is not None:
        return usual
    if not well_formed(api_version, kind):
        raise no_kind(api_version, kind)
    client = session.client_for("")
    try:
        return await client.resource(api_version, kind)
    except NotFound as e:
        raise Refused(
            PropagatedReason.REJECTED,
            f"{session.name} has no kind {kind} in {api_version}: "
            "install its CustomResourceDefinition there",
        ) from e


def no_kind(api_version: str, kind: str, field: str = "") -> Refused:
    """A malformed apiVersion or kind must not enter a URL."""
    where = f"{field}: " if field else ""
    return Refused(
        PropagatedReason.REJECTED,
        f"{where}apiVersion {api_version!r:.100} and kind {kind!r:.100} name no kind: correct them",
    )
