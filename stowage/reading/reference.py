"""How a Workload is named on the command line, as kubectl has it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from machinery.api.resources import WORKLOADS

_KINDS = {WORKLOADS.kind.lower(), WORKLOADS.plural, "wl"}


def reference(given: Sequence[str]) -> str:
    """The Workload's name of `wl/NAME` or `wl NAME`. Raises ValueError for anything else."""
    kind, _, name = "/".join(given).partition("/")
    if kind.partition(".")[0].lower() not in _KINDS or not re.fullmatch("[^/]+", name):
        raise ValueError("name a Workload as wl/NAME or wl NAME")
    return name
