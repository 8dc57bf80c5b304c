"""The names of objects on the command line, as kubectl has them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stowage.planning.kinds import SHORT, Reference

_KINDS = {
    word: resource
    for short, resource in SHORT.items()
    for word in (short, resource.plural, resource.kind.lower())
}


def reference(given: Sequence[str]) -> Reference:
    """Return the object of `wl/NAME` or `wl NAME`. Raises ValueError for anything else."""
    kind, _, name = "/".join(given).partition("/")
    resource = _KINDS.get(kind.partition(".")[0].lower())
    if resource is None or not re.fullmatch("[^/]+", name):
        raise ValueError(
            "name a Workload as wl/NAME or wl NAME, a Reservation as rsv/NAME, a WorkloadGroup as "
            "wg/NAME"
        )
    return Reference(resource, name)
