"""Deletes a MemberCluster as a command does that has looked at what runs there."""

from __future__ import annotations

from crds.names import ANNOTATION_UNJOIN, RENAMED
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS


async def let_go(hub: ApiClient, name: str, how: str = RENAMED) -> None:
    """Mark and delete it: away from then on, or given up. Raises NotFound."""
    mark = {"metadata": {"annotations": {ANNOTATION_UNJOIN: how}}}
    await hub.merge_patch(MEMBER_CLUSTERS, name, mark)
    await hub.delete(MEMBER_CLUSTERS, name)
