"""Gangs as the coscheduling plugin of scheduler-plugins places them, to compare one pass with.

Written from the rules of that plugin and of kube-scheduler, not from their code, with clusters in
the place of nodes. One unit after the other goes through all of these points:

    PreFilter    the siblings are counted by walking the pods of the namespace; a group that failed
                 a moment ago is refused
    Filter       clusters in turn from where the last unit stopped, until enough of them fit
    Score        those that fit: least allocated, and taints
    Permit       the units that have a cluster are counted by walking all pods of all clusters; the
                 one that completes the quorum lets all go that wait, every other one waits
    PostFilter   for a unit without a cluster: counted again; with more than a tenth missing, all
                 that wait are given back and the group rests

Where the two differ, this loop does less: quantities are read once, the pods that run on clusters
without being of a gang are not walked, a snapshot costs nothing, and neither do events, writes or
goroutines. Beside seconds it counts what it looks at, which is the same in every language.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.model.objects import MemberCluster
from machinery.types import quantities

FEWEST, PERCENT, STEP = 100, 50, 125
"""kube-scheduler looks for half of the nodes, less 1 % for each 125 of them, 100 at least."""
BACKOFF_SECONDS = 10.0


@dataclass(slots=True)
class Pod:
    """One unit of a gang; `cluster` is set once it has one, held or bound."""

    namespace: str
    group: str
    name: str
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Gang:
    """A group with its units, which are all alike."""

    namespace: str
    name: str
    minimum: int
    request: Mapping[str, int]
    pods: Sequence[Pod]


@dataclass(slots=True)
class Node:
    """A cluster: the free room of each of its nodes, and the units of gangs on it."""

    name: str
    tainted: bool
    soft: int
    offered: Mapping[str, int]
    used: dict[str, int]
    free: list[dict[str, int]]
    pods: list[Pod] = field(default_factory=list)

    def fits(self, request: Mapping[str, int]) -> dict[str, int] | None:
        """Return the room of the first node that takes one more unit; None without one."""
        for free in self.free:
            if all(free.get(r, 0) >= n for r, n in request.items()):
                return free
        return None


@dataclass(slots=True)
class Looks:
    """Counts of the clusters and pods that were looked at."""

    clusters: int = 0
    pods: int = 0


class UnitByUnit:
    """A scheduler that takes one unit after the other."""

    def __init__(self, clusters: Iterable[MemberCluster], gangs: Iterable[Gang]) -> None:
        self.nodes = [_node(each) for each in clusters]
        self.looks = Looks()
        self._by_name = {node.name: node for node in self.nodes}
        self._listed: dict[str, list[Pod]] = {}
        for gang in gangs:
            self._listed.setdefault(gang.namespace, []).extend(gang.pods)
        self._waiting: dict[int, tuple[Pod, dict[str, int], Mapping[str, int]]] = {}
        self._resting: dict[tuple[str, str], float] = {}
        self._begin = 0

    def place(self, gang: Gang, now: float = 0.0) -> int:
        """Try each of its units once; return the units that have a cluster in the end."""
        for pod in gang.pods:
            if not pod.cluster:
                self._one(gang, pod, now)
        return sum(bool(pod.cluster) for pod in gang.pods)

    def _one(self, gang: Gang, pod: Pod, now: float) -> None:
        found = None
        if self._resting.get((gang.namespace, gang.name), -1.0) <= now and self._enough(gang):
            found = self._best(self._feasible(gang), gang)
        if found is None:
            self._post_filter(gang, now)
        else:
            self._permit(gang, pod, *found)

    def _enough(self, gang: Gang) -> bool:
        pods = self._listed[gang.namespace]
        self.looks.pods += len(pods)
        return sum(pod.group == gang.name for pod in pods) >= gang.minimum

    def _feasible(self, gang: Gang) -> list[tuple[Node, dict[str, int]]]:
        count, found, looked = len(self.nodes), [], 0
        enough = max(FEWEST, count * max(PERCENT - count // STEP, 5) // 100)
        for looked in range(1, count + 1):
            node = self.nodes[(self._begin + looked - 1) % count]
            if not node.tainted and (free := node.fits(gang.request)) is not None:
                found.append((node, free))
                if len(found) == enough:
                    break
        self._begin = (self._begin + looked) % count
        self.looks.clusters += looked
        return found

    def _best(
        self, found: list[tuple[Node, dict[str, int]]], gang: Gang
    ) -> tuple[Node, dict[str, int]] | None:
        self.looks.clusters += len(found)
        most = max((node.soft for node, _ in found), default=0)
        best, chosen = -1, None
        for node, free in found:
            total = _left_free(node, gang.request) + 3 * (100 - 100 * node.soft // max(most, 1))
            if total > best:
                best, chosen = total, (node, free)
        return chosen

    def _permit(self, gang: Gang, pod: Pod, node: Node, free: dict[str, int]) -> None:
        assigned = self._assigned(gang)
        for resource, amount in gang.request.items():
            free[resource] -= amount
            node.used[resource] = node.used.get(resource, 0) + amount
        pod.cluster = node.name
        node.pods.append(pod)
        if assigned + 1 < gang.minimum:
            self._waiting[id(pod)] = (pod, free, gang.request)
            if not assigned:
                self._enough(gang)  # its siblings are found, and offered
            return
        for waiting, (each, *_) in list(self._waiting.items()):
            if (each.namespace, each.group) == (gang.namespace, gang.name):
                del self._waiting[waiting]

    def _post_filter(self, gang: Gang, now: float) -> None:
        missing = gang.minimum - self._assigned(gang)
        if missing <= 0 or missing * 10 <= gang.minimum:
            return
        for waiting, (pod, free, request) in list(self._waiting.items()):
            if (pod.namespace, pod.group) != (gang.namespace, gang.name):
                continue
            del self._waiting[waiting]
            node = self._by_name[pod.cluster]
            node.pods.remove(pod)
            pod.cluster = ""
            for resource, amount in request.items():
                free[resource] += amount
                node.used[resource] -= amount
        self._resting[gang.namespace, gang.name] = now + BACKOFF_SECONDS

    def _assigned(self, gang: Gang) -> int:
        count = 0
        for node in self.nodes:
            self.looks.pods += len(node.pods)
            for pod in node.pods:
                if pod.group == gang.name and pod.namespace == gang.namespace and pod.cluster:
                    count += 1
        return count


def _node(cluster: MemberCluster) -> Node:
    free = [
        _amounts(group.free) for group in cluster.status.node_groups for _ in range(group.count)
    ]
    capacity = cluster.status.capacity
    assert capacity is not None
    return Node(
        name=cluster.metadata.name,
        tainted=any(t.effect != "PreferNoSchedule" for t in cluster.spec.taints),
        soft=sum(t.effect == "PreferNoSchedule" for t in cluster.spec.taints),
        offered=_amounts(capacity.allocatable),
        used=_amounts(capacity.requested),
        free=free,
    )


def _amounts(texts: Mapping[str, str | int]) -> dict[str, int]:
    return {resource: quantities.amount(resource, text) for resource, text in texts.items()}


def _left_free(node: Node, request: Mapping[str, int]) -> int:
    total = 0
    for resource in ("cpu", "memory"):
        offered = node.offered[resource]
        left = offered - node.used[resource] - request.get(resource, 0)
        total += 100 * max(left, 0) // max(offered, 1)
    return total // 2
