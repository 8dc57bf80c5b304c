"""What an install over another release of Stowage would change for what runs.

A kind that no profile describes is read with more care than a release before profiles had.
"""

from __future__ import annotations

from typing import Any

from machinery.api.resources import DEPLOYMENTS, WORKLOADS
from machinery.errors import NotFound
from machinery.kinds.table import profile_of_main
from stowage.console import output
from stowage.hub.reader import ObjectReader

CONTROLLER = "stowage-controller"
"""The Deployment whose image tells which release runs."""
NAMED = 5
"""The most Workloads of a kind that are named."""


def unknown(api: ObjectReader, *, home: str, image: str) -> dict[str, list[str]]:
    """Return the Workloads of kinds without a profile, by kind; none where `image` runs already.

    `home` is the namespace of our processes. Raises TransportError.
    """
    try:
        running = api.read(DEPLOYMENTS, CONTROLLER, home, dict[str, Any])
        containers = running["spec"]["template"]["spec"]["containers"]
        if any(each.get("image") == image for each in containers):
            return {}
    except NotFound:
        pass
    found: dict[str, list[str]] = {}
    try:
        for each in api.each(WORKLOADS, dict[str, Any]):
            profile = profile_of_main(each.get("spec") or {})
            if not profile.known:
                kind = f"{profile.kind}.{profile.group}" if profile.group else profile.kind
                meta = each["metadata"]
                found.setdefault(kind or "?", []).append(f"{meta['namespace']}/{meta['name']}")
    except NotFound:
        return {}  # a new hub
    return found


def foretold(api: ObjectReader, *, home: str, image: str) -> str:
    """Return what an install changes for what runs, for people; empty where that is nothing.

    Raises TransportError.
    """
    found = unknown(api, home=home, image=image)
    if not found:
        return ""
    rows = [
        {"kind": kind, "number": len(names), "workloads": output.named(sorted(names), NAMED)}
        for kind, names in sorted(found.items())
    ]
    return (
        "This release has no profile of these kinds. Each of these Workloads is ready while its "
        "condition Ready is True, leaves no cluster by itself unless spec.movement.maxSurge is "
        f"written, and counts no room:\n{output.table(rows, ('kind', 'number', 'workloads'))}"
    )
