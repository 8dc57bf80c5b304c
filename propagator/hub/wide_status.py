"""A status write of a Workload with many shares that contains only the changes. Pure.

A merge patch replaces a list whole: 180 KiB for a thousand shares when one changes. A JSON patch
names entries by position. It also names the version, so the hub refuses it as a whole on another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from propagator.types.workload import Workload

WIDE = 32
"""The minimum number of shares for a JSON patch."""


def entries_patch(workload: Workload, status: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the JSON patch for these fields; None if the list has to be written whole.

    That is if it is short, clusters came or went, or most entries changed.
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
    """Only one of the other fields can be unset."""
    for field, value in status.items():
        if field != "clusters" and value is not None:
            yield {"op": "add", "path": f"/status/{field}", "value": value}
    if status["serviceExternalIP"] is None and workload.status.service_external_ip is not None:
        yield {"op": "remove", "path": "/status/serviceExternalIP"}
