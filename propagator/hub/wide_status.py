"""A status write of a Workload with many shares that holds only what changed. Pure.

A merge patch replaces a list whole: 180 KiB for a thousand shares when one of them got a pod. A
JSON patch names the changed entries by their positions, which is safe as it also names the version
that it was made for: on any other version the hub refuses it as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from propagator.types.workload import Workload

WIDE = 32
"""The least shares for a JSON patch; a shorter list is no longer than what surrounds it."""


def entries_patch(workload: Workload, status: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the JSON patch that writes these fields; None where the list has to be written whole.

    That is when the list is short, when clusters came or went, and when most of it changed.
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
    """Yield the operations for all other fields: they are short, and only one can be unset."""
    for field, value in status.items():
        if field != "clusters" and value is not None:
            yield {"op": "add", "path": f"/status/{field}", "value": value}
    if status["serviceExternalIP"] is None and workload.status.service_external_ip is not None:
        yield {"op": "remove", "path": "/status/serviceExternalIP"}
