"""A status write of a Workload with many shares that says only what changed. Pure.

A merge patch replaces a list whole: 180 KiB for a thousand shares when one of them got a pod. A
JSON patch names the entries that changed by their places, which is safe as it also names the
version that it was made for: on any other version it is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from propagator.types.workload import Workload

WIDE = 32
"""Shares from which on it is worth it; below that the list is no longer than what surrounds it."""


def entries_patch(workload: Workload, status: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The JSON patch that writes these fields; None where the list has to be written whole.

    That is when it is short, when clusters came or went, and when most of it changed.
    """
    old, new = workload.status.clusters, status["clusters"]
    if (
        len(new) < WIDE
        or "footprint" in status
        or [each["name"] for each in old] != [each["name"] for each in new]
    ):
        return None
    changed = [at for at, entry in enumerate(new) if entry != old[at]]
    if len(changed) > len(new) // 2:
        return None
    version = workload.metadata.resource_version
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        *({"op": "replace", "path": f"/status/clusters/{at}", "value": new[at]} for at in changed),
        *_fields(workload, status),
    ]


def _fields(workload: Workload, status: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The others are short, and written as they are; of those only one can be taken away."""
    for field, value in status.items():
        if field != "clusters" and value is not None:
            yield {"op": "add", "path": f"/status/{field}", "value": value}
    if status["serviceExternalIP"] is None and workload.status.service_external_ip is not None:
        yield {"op": "remove", "path": "/status/serviceExternalIP"}
