"""Whose namespace it is that a MemberCluster in mode Pull names.

Who may edit MemberClusters writes the annotation, and could name the namespace of another member:
its agent would read what this one is given, Secrets included. So the label of the namespace counts,
which `stowage invite` sets, and nothing is read or written before it was asked for.
"""

from __future__ import annotations

from crds.names import LABEL_MEMBER_NAMESPACE
from machinery.api.resources import NAMESPACES
from machinery.api.verbs import Verbs
from machinery.errors import Forbidden, NotFound
from propagator.types.cluster import MemberCluster

NAMESPACE_SECONDS = 5.0
"""Seconds until a member is looked at again whose namespace is not its own: it may become so."""


async def is_its_own(hub: Verbs, cluster: MemberCluster) -> bool:
    """Whether the namespace that it names is there, and is this member's. Raises TransportError."""
    if not cluster.member_namespace:
        return False
    try:
        found = await hub.get(NAMESPACES, cluster.member_namespace)
    except (Forbidden, NotFound):
        return False
    return (found["metadata"].get("labels") or {}).get(LABEL_MEMBER_NAMESPACE) == cluster.name
