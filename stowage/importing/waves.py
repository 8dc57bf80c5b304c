"""Staged rollouts of other systems as waves of a Workload's rollout."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from stowage.importing.clusters import Clusters

MOST_WAVES = 16
MOST_SECONDS = 86400
_PERCENT = re.compile(r"(100|[1-9][0-9]?)%")
Say = Callable[[str, str], None]
"""Says of a field (its path, a text) what is lost, or noted."""


def concurrency(said: Any, path: str, lost: Say) -> int | str:
    """Return how many clusters a wave updates at once; 1 where it says nothing."""
    if said is None:
        return 1
    if isinstance(said, int) and said >= 1:
        return said
    if isinstance(said, str) and (_PERCENT.fullmatch(said) or (said.isdigit() and int(said))):
        return said if said.endswith("%") else int(said)
    lost(path, f"{said!r:.40} is no number of clusters, and no whole percents of them")
    return 1


def wave(name: str, clusters: Clusters, **rest: Any) -> dict[str, Any]:
    """Return a wave; its name becomes a DNS label other than `rest`."""
    plain = re.sub(r"[^a-z0-9-]", "-", name.lower())[:56].strip("-") or "wave"
    selector = clusters.selectors()[0]
    named = {"name": "the-rest" if plain == "rest" else plain, "clusterSelector": selector}
    return named | {key: value for key, value in rest.items() if value not in (None, False, 0)}


def rollout(waves: Sequence[dict[str, Any]], path: str, lost: Say, **rest: Any) -> dict[str, Any]:
    """Return the rollout of these waves, as part of a spec."""
    if len(waves) > MOST_WAVES:
        lost(path, f"more than {MOST_WAVES} waves")
        return {}
    taken: set[str] = set()
    named = []
    for each in waves:
        name, n = each["name"], 1
        while name in taken:
            n += 1
            name = f"{each['name']}-{n}"
        taken.add(name)
        named.append({**each, "name": name})
    return {"rollout": {"waves": named} | {k: v for k, v in rest.items() if v is not None}}
