"""The release of Stowage, from the installed package, and what requests say of it."""

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


def user_agent(process: str) -> str:
    """Return `stowage-controller/0.1.0`: what audit logs show of that process's requests."""
    return f"{process}/{release()}" if release() else process
