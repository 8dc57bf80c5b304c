"""The release of Stowage, from the installed package."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def release() -> str:
    """Return `0.1.0`; empty where the code runs without being installed."""
    try:
        return metadata.version("stowage")
    except metadata.PackageNotFoundError:
        return ""
