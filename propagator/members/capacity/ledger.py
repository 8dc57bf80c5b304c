"""Converts nodes and pods of a member to the node groups that the controller decides on.

Free room is never overstated, and there are at most `MAX_GROUPS` groups. Nodes are alike if their
`LABELS_THAT_MATTER`, taints, free room and published host ports agree. In a larger cluster room is
rounded down to fewer leading binary digits, which also keeps the numbers stable; at last the
smallest groups are left out. Nodes that are cordoned, being deleted or not Ready do not count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from machinery.types import hostports, quantities
from machinery.types.bounds import MOST_AMOUNT, RESOURCES
from propagator.members.capacity.kept import Amounts, Node, Pod
from propagator.members.capacity.used_ports import UsedPorts
from propagator.members.sanitize import resources

MAX_GROUPS = 64

_EXACT = 64
_DIGITS = (  # leading binary digits kept of cpu, of memory, of anything else; tried in this order
    (_EXACT, _EXACT, _EXACT),
    (7, 7, 4),
    (6, 6, 3),
    (5, 5, 3),
    (4, 4, 2),
    (3, 3, 2),
    (3, 3, 1),
    (2, 2, 1),
    (1, 1, 1),
)
_ALWAYS_REPORTED = ("cpu", "memory", "pods")


class CapacityLedger:
    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._requested: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._ports = UsedPorts()

    @property
    def nodes(self) -> Iterable[Node]:
        return self._nodes.values()

    def replace_node(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self._nodes[new.metadata.name] = new
        elif old is not None:
            self._nodes.pop(old.metadata.name, None)

    def replace_pod(self, old: Pod | None, new: Pod | None) -> None:
        """The node may come later, or be gone already."""
        for pod, sign in ((old, -1), (new, 1)):
            if pod is None or not pod.node or pod.gives_way:
                continue
            change = self._ports.take if sign > 0 else self._ports.release
            change(pod.node, pod.metadata.namespace, pod.ports)
            held = self._requested[pod.node]
            for resource, amount in (*pod.requests, ("pods", 1)):
                held[resource] += sign * amount
            if not held["pods"]:
                del self._requested[pod.node]

    def capacity(self) -> dict[str, Any]:
        """Return `{nodes, allocatable, requested, summary}` of usable nodes, for the status."""
        allocatable: Counter[str] = Counter()
        requested: Counter[str] = Counter()
        usable = {name: node for name, node in self._nodes.items() if node.usable}
        for name, node in usable.items():
            allocatable.update(dict(node.allocatable))
            requested.update(self._requested.get(name, {}))
        return {
            "nodes": len(usable),
            "allocatable": _rendered(allocatable),
            "requested": _rendered(requested),
            "summary": {
                name: quantities.readable(name, allocatable[name]) for name in ("cpu", "memory")
            },
        }

    def groups(self) -> list[dict[str, Any]]:
        """Return MemberCluster.status.nodeGroups: at most MAX_GROUPS, largest first."""
        usable = {name: node for name, node in self._nodes.items() if node.usable}
        kinds = {name: (node.labels, node.taints) for name, node in usable.items()}
        ports = self._ports.by_node(kinds)
        alike = Counter(
            (*kinds[name], self._free(name, node), ports.get(name, ()))
            for name, node in usable.items()
        )
        groups: Counter[_Group] = Counter()
        for digits in _DIGITS:
            groups = Counter()
            for (labels, taints, free, used), count in alike.items():
                groups[labels, taints, _coarse(free, digits), used] += count
            if len(groups) <= MAX_GROUPS:
                break
        ordered = sorted(groups.items(), key=_size, reverse=True)
        return [_group(group, count) for group, count in ordered[:MAX_GROUPS]]

    def _free(self, name: str, node: Node) -> Amounts:
        held: Mapping[str, int] = self._requested.get(name, {})
        return tuple((res, max(0, amount - held.get(res, 0))) for res, amount in node.allocatable)


_Group: TypeAlias = tuple[
    tuple[tuple[str, str], ...], tuple[tuple[str, str, str], ...], Amounts, tuple[int, ...]
]
"""Labels, taints, free amounts, and the host ports in use."""


def _size(group: tuple[_Group, int]) -> tuple[int, _Group]:
    (_, _, free, _), count = group
    return (count * dict(free).get("cpu", 0), group[0])


def _group(group: _Group, count: int) -> dict[str, Any]:
    labels, taints, free, ports = group
    amounts = _rendered(dict(free))
    used = [hostports.named(port) for port in ports[: RESOURCES - len(amounts)]]
    return {
        "count": count,
        "labels": dict(labels),
        "taints": [{"key": key, "value": value, "effect": effect} for key, value, effect in taints],
        "free": amounts | dict.fromkeys(used, "0"),
    }


def _coarse(free: Amounts, digits: tuple[int, int, int]) -> Amounts:
    cpu, memory, other = digits
    kept = {"cpu": cpu, "memory": memory}
    return tuple((res, _floor(amount, kept.get(res, other))) for res, amount in free)


def _floor(amount: int, digits: int) -> int:
    dropped = max(0, amount.bit_length() - digits)
    return amount >> dropped << dropped


def _rendered(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return quantities as text, capped; zeros only of the resources in _ALWAYS_REPORTED."""
    reported = set(_ALWAYS_REPORTED) | {res for res, amount in amounts.items() if amount}
    cut = {res: min(amounts.get(res, 0), MOST_AMOUNT) for res in resources(reported)}
    return {res: quantities.render(res, amount) for res, amount in cut.items()}
