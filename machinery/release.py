"""The installed release of Stowage."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def release() -> str:
    """Return `0.1.0`; empty if the package is not installed."""
    try:
        return metadata.version("stowage")
    except metadata.PackageNotFoundError:
        return ""


def user_agent(process: str) -> str:
    """Return `stowage-controller/0.1.0`, the User-Agent of that process in audit logs."""
    return f"{process}/{release()}" if release() else process
