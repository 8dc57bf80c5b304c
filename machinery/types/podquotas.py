"""What of a ResourceQuota bounds pods, and what one pod takes of it, by the quota's own names.

Pure.
"""

from __future__ import annotations

from machinery.types import quantities
from machinery.types.bounds import MOST_AMOUNT, between

PODS = "pods"
REQUESTS, LIMITS = "requests.", "limits."
_COUNTS = (PODS, "count/pods")
_SHORT = ("cpu", "memory", "ephemeral-storage")
_NOT_OF_PODS = ("requests.storage",)


def bounds(name: str) -> bool:
    """Whether a quota of that name bounds pods."""
    if name in _COUNTS or name in _SHORT or name.startswith("hugepages-"):
        return True
    return name.startswith((REQUESTS, LIMITS)) and name not in _NOT_OF_PODS


def charged(name: str) -> str:
    """Return the name by which a pod is charged: `requests.cpu` for `cpu`."""
    if name in _COUNTS:
        return PODS
    return name if name.startswith((REQUESTS, LIMITS)) else REQUESTS + name


def resource(name: str) -> str:
    """Return the resource of it: `cpu` of `limits.cpu`."""
    return name.removeprefix(REQUESTS).removeprefix(LIMITS)


def amount(name: str, text: str | float) -> int:
    """Return thousandths of cpu, whole units of others, within bounds. Raises ValueError."""
    return quantities.bounded(resource(name), text)


def render(name: str, left: int) -> str:
    return quantities.render(resource(name), between(0, left, MOST_AMOUNT))
