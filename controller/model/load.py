"""What a unit takes on a node, as one value: units of Workloads that are alike have the same.

Whoever counts units on their way, or room that is held, counts them by this.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from controller.model.objects import Toleration
from machinery.types import hostports

Place: TypeAlias = tuple[tuple[tuple[str, str], ...], tuple[Toleration, ...]]
"""A node selector and tolerations."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one unit asks for, and where it may lie: no `place` means everywhere.

    `ports` are the codes of its host ports, those in `request` among them; `resources` are the
    other names there, which a cluster must offer.
    """

    request: tuple[tuple[str, int], ...]
    place: Place | None
    ports: frozenset[int] = frozenset()
    resources: frozenset[str] = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Compute it once: a Workload on ten thousand clusters is looked up on each of them."""
        names = frozenset(name for name, _ in self.request)
        ports = frozenset(name for name in names if name.startswith(hostports.PREFIX))
        object.__setattr__(self, "resources", names - ports)
        if ports:
            object.__setattr__(self, "ports", self.ports | hostports.codes(ports))
        object.__setattr__(self, "_hash", hash((self.request, self.place)))

    def __hash__(self) -> int:
        return self._hash

    @staticmethod
    def of(
        request: Mapping[str, int],
        node_selector: Mapping[str, str] | None = None,
        tolerations: Sequence[Toleration] = (),
    ) -> Load:
        """The load of a unit."""
        place = (tuple(sorted((node_selector or {}).items())), tuple(tolerations))
        return _one(tuple(sorted(request.items())), place)


@functools.lru_cache(maxsize=1024)
def _one(request: tuple[tuple[str, int], ...], place: Place) -> Load:
    """Made once for all units alike: each event of a Workload asks for it several times."""
    return Load(request, place)


Loads: TypeAlias = Mapping[str, Mapping[Load, int]]
"""Units by cluster and by what each of them takes."""


def added(parts: Iterable[Loads]) -> dict[str, dict[Load, int]]:
    """All of them together."""
    found: dict[str, dict[Load, int]] = {}
    for part in parts:
        for cluster, loads in part.items():
            there = found.setdefault(cluster, {})
            for load, units in loads.items():
                there[load] = there.get(load, 0) + units
    return found
