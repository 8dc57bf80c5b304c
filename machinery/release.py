"""The installed release of Stowage."""

from __future__ import annotations

import re
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


def parsed(text: str) -> tuple[int, ...]:
    """Return major, minor and patch; () for anything else. A build of a release counts as it."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    return tuple(map(int, found.groups())) if found else ()


def older(one: str, other: str) -> bool:
    """Return whether a release comes before another; a pre-release does before its release.

    False where either is none.
    """
    return bool(parsed(one) and parsed(other)) and _order(one) < _order(other)


def _order(text: str) -> tuple[tuple[int, ...], bool]:
    return parsed(text), not _PRE.match(text)


_PRE = re.compile(
    r"\d+\.\d+\.\d+(-|[._]?(a|b|c|rc|alpha|beta|pre|preview|dev)[-._]?\d*(\+|$|\.dev))"
)


def neighbours(one: str, other: str) -> bool:
    """Return whether both may run beside each other: at most one minor version apart."""
    older, newer = sorted((parsed(one), parsed(other)))
    if not older or older[0] == newer[0]:
        return not older or newer[1] - older[1] <= 1
    return newer[:2] == (older[0] + 1, 0)
