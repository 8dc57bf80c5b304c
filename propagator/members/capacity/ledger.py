"""Converts nodes and pods of a member to the node groups that the controller decides on.

Free room is never overstated, and there are at most `MAX_GROUPS` groups of nodes alike in
`LABELS_THAT_MATTER`, taints, free room and published host ports. In a larger cluster room is
rounded down to fewer leading binary digits; at last the smallest groups are left out. Nodes that
are cordoned, being deleted or not Ready do not count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeAlias

from machinery.types import hostports, quantities
from machinery.types.bounds import MOST_AMOUNT, RESOURCES
from propagator.members.capacity.kept import Amounts, Node, Pod
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


MOST_REPORTED = 64
MOST_KINDS = 32
"""The most kinds of nodes that ports may make: half of the groups, to keep steps of free room."""
MOST_LOOKED_AT = 512
"""The most ports that are considered; a cluster with random ports has thousands."""
MOST_KEPT = 100_000
"""The most ports in use that are kept, over all nodes: twenty on each of five thousand."""
SYSTEM = "kube-system"


class UsedPorts:
    """Which host ports are in use on which nodes, and which of them a cluster publishes.

    Ports of pods outside of kube-system come first, then ports on the most nodes.
    """

    def __init__(self) -> None:
        self._users: dict[str, Counter[int]] = {}
        self._of_tenants: Counter[int] = Counter()
        self._kept = 0

    def take(self, node: str, namespace: str, ports: Iterable[int]) -> None:
        for port in ports:
            users = self._users.setdefault(node, Counter())
            if port not in users:
                if self._kept >= MOST_KEPT:
                    continue
                self._kept += 1
            users[port] += 1
            if namespace != SYSTEM:
                self._of_tenants[port] += 1

    def release(self, node: str, namespace: str, ports: Iterable[int]) -> None:
        for port in ports:
            users = self._users.get(node)
            if users is None or port not in users:
                continue
            _less(users, port)
            if port not in users:
                self._kept -= 1
            if not users:
                del self._users[node]
            if namespace != SYSTEM:
                _less(self._of_tenants, port)

    def by_node(self, kinds: Mapping[str, Hashable]) -> Mapping[str, tuple[int, ...]]:
        """Return the published ports by node; a node without any is left out.

        `kinds` has the kind of each counted node, by everything except ports.
        """
        users: defaultdict[int, list[str]] = defaultdict(list)
        for node, ports in self._users.items():
            if node in kinds:
                for port in ports:
                    users[port].append(node)
        if not users:
            return {}
        order = sorted(users, key=lambda p: (not self._of_tenants[p], -len(users[p]), p))
        partition = _Partition(kinds)
        reported: defaultdict[str, list[int]] = defaultdict(list)
        number = 0
        for port in order[:MOST_LOOKED_AT]:
            nodes = [node for node in users[port] if len(reported[node]) < hostports.MOST_OF_ONE]
            if nodes and number < MOST_REPORTED and partition.split(nodes):
                number += 1
                for node in nodes:
                    reported[node].append(port)
        return {node: tuple(sorted(ports)) for node, ports in reported.items() if ports}


class _Partition:
    def __init__(self, kinds: Mapping[str, Hashable]) -> None:
        codes: dict[Hashable, int] = {}
        self._kind = {node: codes.setdefault(kind, len(codes)) for node, kind in kinds.items()}
        self._sizes = Counter(self._kind.values())

    def split(self, nodes: Iterable[str]) -> bool:
        """Separate these nodes; False, unchanged, if too many kinds result."""
        found: defaultdict[int, list[str]] = defaultdict(list)
        for node in nodes:
            found[self._kind[node]].append(node)
        parts = [(kind, part) for kind, part in found.items() if len(part) < self._sizes[kind]]
        if parts and len(self._sizes) + len(parts) > MOST_KINDS:
            return False
        for kind, part in parts:
            fresh = len(self._sizes)
            self._sizes[kind] -= len(part)
            self._sizes[fresh] = len(part)
            self._kind.update(dict.fromkeys(part, fresh))
        return True


def _less(counts: Counter[int], port: int) -> None:
    counts[port] -= 1
    if counts[port] <= 0:
        del counts[port]
