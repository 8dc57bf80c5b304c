"""A ledger: what a feature counts over all Workloads, kept up to date share by share.

The cache feeds every registered ledger with each Workload as it is placed, decided shares included
before they are written. A plugin finds its own in the index that it is given (`Index.ledger`), so
that a pass on a set of Workloads, which sees them placed otherwise, reads an overlay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, Self, TypeAlias

from controller.model.unit import Unit
from machinery.types.metadata import Key

Placed: TypeAlias = Mapping[Key, tuple[Unit, Mapping[str, int]]]
"""Workloads with the shares that they would have, by key."""


class Ledger(Protocol):
    """The books of one feature. All calls come from one event loop."""

    def put(self, unit: Unit, placements: Mapping[str, int]) -> None:
        """Take a Workload with the shares that count: none of one that is being deleted."""
        ...

    def drop(self, key: Key) -> None:
        """Forget a Workload; one that is unknown is no fault."""
        ...

    def overlay(self, placed: Placed) -> Self:
        """What the books would say with these Workloads placed so; these stay as they are."""
        ...
