"""The plugin's arguments in the configuration file, checked before the plugin is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import Field

from controller.framework.runtime.arguments import Args

MOST_GRAMS = 10_000
Grams: TypeAlias = Annotated[int, Field(ge=0, le=MOST_GRAMS)]
"""Grams of CO2 for each kilowatt hour; coal has about 1,000."""


class ReadingsArgs(Args):
    """A ConfigMap with newer numbers: a region for each key, its grams as the value."""

    namespace: str = "stowage-system"
    name: str = "carbon-intensity"
    seconds: float = Field(default=300, ge=1)
    """Between one look at it and the next."""


class CarbonArgs(Args):
    """`args` of the plugin Carbon."""

    regions: Mapping[str, Grams] = {}
    """The grams of each region, for clusters on which no newer number stands."""
    region_label: str = "topology.kubernetes.io/region"
    peak: Grams | None = None
    """A cluster with more than this is tainted, for decisions of profiles with the filterHook."""
    readings: ReadingsArgs | None = None
