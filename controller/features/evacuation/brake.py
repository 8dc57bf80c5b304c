"""The brake: too many clusters are lost at once for their Workloads to move. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from controller.features.evacuation import taints
from controller.model.movement import BrakeConfiguration
from controller.model.objects import MemberCluster
from machinery.types.budget import amount


class Brake(NamedTuple):
    """`scope` is `clusters` or `domains`; `text` is why nothing moves."""

    scope: str
    text: str


SCOPES = ("clusters", "domains")


def brake_of(clusters: Iterable[MemberCluster], configuration: BrakeConfiguration) -> Brake | None:
    domains, lost = {}, []
    for each in clusters:
        name = each.metadata.name
        domains[name] = each.labels.get(configuration.topology_key, "")
        if taints.lost(each):
            lost.append(name)
    return braked(lost, domains, configuration)


def most_lost(registered: int, configuration: BrakeConfiguration) -> int:
    """At least one of the registered clusters may be lost."""
    return max(amount(configuration.max_lost, registered, up=False), 1)


def braked(
    lost: Collection[str], domains: Mapping[str, str], configuration: BrakeConfiguration
) -> Brake | None:
    """Return the brake; None if losses may move Workloads.

    `domains` has the topology key's value of every registered cluster.
    """
    if not lost:
        return None
    most = most_lost(len(domains), configuration)
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
