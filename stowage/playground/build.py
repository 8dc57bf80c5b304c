"""Builds the programs of a control plane from their Go modules, once for each set of versions."""

from __future__ import annotations

from machinery.errors import ConfigurationError
from stowage.playground import binaries


def ensure(names: tuple[str, ...] = binaries.LOCAL) -> None:
    """Return when these programs lie in the cache."""
    if absent := binaries.missing(names):
        raise ConfigurationError(f"{', '.join(absent)} not found in {binaries.folder() / 'bin'}")
