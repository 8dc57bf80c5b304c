"""The pods of some Workloads on one member.

Few of a member's many pods are needed, so they are not indexed: one pass over all finds the pods of
a followed Workload, and events update them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import cast

from machinery.runtime.store import Cache
from machinery.types.metadata import Key, Object
from propagator.members.capacity.kept import Pod


class FollowedPods:
    """`changed(uid)` is called when a pod of a followed Workload, or a marked pod, changed."""

    def __init__(self, pods: Cache[Object], changed: Callable[[str], None]) -> None:
        self._all = pods
        self._changed = changed
        self._followed: dict[str, dict[Key, Pod]] = {}
        self._unread: set[str] = set()
        self._marked: Counter[str] = Counter()
        pods.add_handler(self._pod_changed)

    def follow(self, uids: Iterable[str]) -> None:
        """A single pass finds the pods of many."""
        new = set(uids) - self._followed.keys()
        self._unread |= new
        self._followed |= {uid: {} for uid in new}

    def of(self, uid: str) -> Collection[Pod]:
        """Return the pods that claim to be of the Workload, which is then followed."""
        self.follow([uid])
        if self._unread:
            self._read()
        return list(self._followed[uid].values())

    def marked(self, uid: str) -> bool:
        return self._marked[uid] > 0

    def all_marked(self) -> list[str]:
        return list(self._marked)

    def unfollow(self, uid: str) -> None:
        self._followed.pop(uid, None)
        self._unread.discard(uid)

    def _read(self) -> None:
        for pod in cast("Collection[Pod]", self._all.values()):
            if pod.claim is not None and pod.claim.uid in self._unread:
                self._followed[pod.claim.uid][pod.metadata.key] = pod
        self._unread.clear()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        before, after = cast("Pod | None", old), cast("Pod | None", new)
        touched = {self._forget(before), self._keep(after)} - {""}
        if before is not None and after is not None and _alike(before, after):
            return
        for uid in touched:
            if uid in self._followed or (after is not None and after.marked):
                self._changed(uid)

    def _forget(self, pod: Pod | None) -> str:
        """Return the UID of the pod's Workload, or ""."""
        if pod is None or pod.claim is None:
            return ""
        uid = pod.claim.uid
        self._followed.get(uid, {}).pop(pod.metadata.key, None)
        if pod.marked:
            self._marked[uid] -= 1
            if not self._marked[uid]:
                del self._marked[uid]
        return uid

    def _keep(self, pod: Pod | None) -> str:
        if pod is None or pod.claim is None:
            return ""
        uid = pod.claim.uid
        if uid in self._followed:
            self._followed[uid][pod.metadata.key] = pod
        if pod.marked:
            self._marked[uid] += 1
        return uid


def _alike(one: Pod, other: Pod) -> bool:
    mine, theirs = (
        (pod.ready, bool(pod.node), pod.cost, pod.marked, pod.metadata.deleting, pod.claim)
        for pod in (one, other)
    )
    return mine == theirs
