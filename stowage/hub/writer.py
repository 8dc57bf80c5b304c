"""Edits of one object of the hub, on the version that was read.

A command reads the object, makes its patch of what it read, and writes it only if nobody has
written in between; otherwise it reads again. So its patch is never about something old.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from machinery.errors import Conflict

if TYPE_CHECKING:
    from machinery.api.client import ApiClient
    from machinery.api.resources import Resource

TRIES = 5
"""Writes, while others write the same object."""

Body = dict[str, Any]


async def edit(
    hub: ApiClient,
    res: Resource,
    name: str,
    patch_of: Callable[[Body], Mapping[str, Any]],
    *,
    namespace: str | None = None,
) -> Body:
    """Return the object with the merge patch of what is stored; an empty patch writes nothing.

    Raises Conflict where others write it again and again, and what `patch_of` raises.
    """
    for left in reversed(range(TRIES)):
        stored = await hub.get(res, name, namespace=namespace)
        patch = patch_of(stored)
        if not patch:
            return stored
        read = {"resourceVersion": stored["metadata"]["resourceVersion"]}
        patch = {**patch, "metadata": {**patch.get("metadata", {}), **read}}
        try:
            return await hub.merge_patch(res, name, patch, namespace=namespace)
        except Conflict:
            if not left:
                raise
    raise AssertionError("a last try returns or raises")
