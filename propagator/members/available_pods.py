"""How long pods of our Workloads have been ready without a break, by one link's watch.

The clocks of members are not trusted: the time of a pod counts from when this process saw it become
ready. It starts again if the pod flaps or the member was away. Nothing is kept until it is needed.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from machinery.clock import Clock
from machinery.runtime.store import Cache
from machinery.types.metadata import Object
from propagator.members.capacity.kept import Pod
from propagator.members.pods import Main, PodClaim, made_by


class Availability(NamedTuple):
    pods: int
    unproven: int = 0
    """Pods that were already ready when the watch began, for an unknown time."""
    more_in: float | None = None
    """Seconds until another pod has been ready for long enough, if none flaps."""


class AvailablePods:
    def __init__(self, pods: Cache[Object], *, clock: Clock) -> None:
        self._pods = pods
        self._clock = clock
        self._since: dict[PodClaim, dict[str, float]] = {}
        self._claims: dict[tuple[str, str], set[PodClaim]] = {}
        self._begun: float | None = None
        self._listens = False

    def of(self, main: Main, seconds: int) -> Availability:
        if self._begun is None:
            self._begin()
        now, begun = self._clock.monotonic(), self._begun
        pods, unproven, waits = 0, 0, []
        for claim in self._claims.get((main.uid, main.namespace), ()):
            for since in self._since[claim].values() if made_by(claim, main) else ():
                left = since + seconds - now
                pods += left <= 0
                if left > 0:
                    unproven += since == begun
                    waits.append(left)
        return Availability(pods, unproven, min(waits, default=None))

    def restart(self) -> None:
        """The member was not watched without a break."""
        self._since.clear()
        self._claims.clear()
        self._begun = None

    def _begin(self) -> None:
        self._begun = begun = self._clock.monotonic()
        for pod in self._pods.values():
            self._add(cast("Pod", pod), begun)
        if not self._listens:
            self._listens = True
            self._pods.add_handler(self._pod_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if self._begun is None:
            return
        before, after = cast("Pod | None", old), cast("Pod | None", new)
        if before is not None and (after is None or not _goes_on(before, after)):
            self._drop(before)
        if after is not None:
            self._add(after, self._clock.monotonic())

    def _add(self, pod: Pod, since: float) -> None:
        if pod.claim is None or not pod.ready:
            return
        self._since.setdefault(pod.claim, {}).setdefault(pod.metadata.uid, since)
        self._claims.setdefault((pod.claim.uid, pod.claim.namespace), set()).add(pod.claim)

    def _drop(self, pod: Pod) -> None:
        claim = pod.claim
        if claim is None or claim not in self._since:
            return
        self._since[claim].pop(pod.metadata.uid, None)
        if self._since[claim]:
            return
        del self._since[claim]
        where = claim.uid, claim.namespace
        self._claims[where].discard(claim)
        if not self._claims[where]:
            del self._claims[where]


def _goes_on(before: Pod, after: Pod) -> bool:
    same = before.metadata.uid == after.metadata.uid and before.claim == after.claim
    return same and after.ready
