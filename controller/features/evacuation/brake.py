"""The brake: so many clusters lost at once that none of their Workloads moves. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from controller.model.movement import BrakeConfiguration, amount


class Brake(NamedTuple):
    """What the brake is about, `clusters` or `domains`, and why nothing moves."""

    scope: str
    text: str


SCOPES = ("clusters", "domains")


def braked(
    lost: Collection[str], domains: Mapping[str, str], configuration: BrakeConfiguration
) -> Brake | None:
    """Return why nothing moves because of a loss; None where it may.

    Args:
        lost: the clusters that are lost.
        domains: the value of the topology key of every registered cluster; empty without one.
        configuration: the limits.
    """
    if not lost:
        return None
    most = max(amount(configuration.max_lost, len(domains), up=False), 1)
    if len(lost) > most:
        text = (
            f"{len(lost)} of {len(domains)} clusters are lost, {most} at most "
            "(movement.brake.maxLost): nothing moves for it"
        )
        return Brake("clusters", text)
    counts = Counter(domains.values())
    gone = Counter(domains[name] for name in lost if name in domains)
    whole = [each for each, n in gone.items() if each and 2 * n > counts[each]]
    if len(whole) > configuration.max_lost_domains:
        named = ", ".join(sorted(whole)[:3])
        text = (
            f"more than half of the clusters are lost in {len(whole)} values of "
            f"{configuration.topology_key} ({named}), {configuration.max_lost_domains} at most "
            "(movement.brake.maxLostDomains): nothing moves for it"
        )
        return Brake("domains", text)
    return None
