"""Which host ports are in use on which nodes, and which of them a cluster publishes.

A published port splits groups of nodes, and a cluster publishes few groups. Ports of pods outside
of kube-system come first, because Workloads request similar ones, then ports on the most nodes. A
unit that is sent to a node with an unpublished port waits there, and its cluster teaches a limit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping

from machinery.types import hostports

MOST_REPORTED = 64
MOST_KINDS = 32
"""The most kinds of nodes that ports may make: half of the groups, to keep steps of free room."""
MOST_LOOKED_AT = 512
"""The most ports that are considered; a cluster with random ports has thousands."""
MOST_KEPT = 100_000
"""The most ports in use that are kept, over all nodes: twenty on each of five thousand."""
SYSTEM = "kube-system"


class UsedPorts:
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
        """A port that was not kept for lack of room is skipped."""
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
