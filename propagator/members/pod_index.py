"""The pods of one member by the Workload that they claim, and what is read of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from machinery.clock import Clock, stored_time
from propagator.members.capacity.kept import Pod, PodLabels
from propagator.members.pods import Main, PodClaim, made_by

CRASH_SECONDS = 60.0
_CRASHES = ("CrashLoopBackOff", "ImagePullBackOff", "CreateContainerConfigError")
Placed: TypeAlias = dict[PodClaim, int]
"""The number of pods on nodes, by claim."""


@dataclass(slots=True)
class PodCounts:
    scheduled: int | None = 0
    """Pods on nodes, including terminating ones, up to the number that the published capacity
    counts. The controller adds replicas in flight to that capacity, and must miss none. None before
    the first publication: the pods that an earlier one counts are unknown.
    """
    ready: int = 0
    unschedulable: int = 0
    """Pods that the member's scheduler found no room for."""
    oldest_unschedulable: datetime | None = None
    current: int = 0
    """All pods, including waiting and terminating ones."""
    capacity_version: int | None = None
    """The first MemberCluster version whose capacity counts `scheduled`. None if nothing is
    counted, or if the hub's versions are not numbers.
    """
    trouble: str = ""
    crashing: int = 0
    """Pods that were ready, and have waited for `CRASH_SECONDS` for a container that fails."""
    crashing_in: float | None = None
    """Seconds until the next one has."""
    in_part: int = 0
    """Those of `current` that lack some of their pods."""


class Availability(NamedTuple):
    """Replicas whose pods have been ready for long enough without a break."""

    pods: int
    unproven: int = 0
    """Pods that were already ready when the watch began, for an unknown time."""
    more_in: float | None = None
    """Seconds until another pod has been ready for long enough, if none flaps."""


class PodIndex:
    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._claims: dict[tuple[str, str], dict[PodClaim, dict[str, Pod]]] = {}
        """(UID, namespace) -> claim -> name -> pod."""
        self._placed: Placed = {}
        self._published: dict[PodClaim, tuple[int, int | None]] | None = None
        """The counted pods, and the first MemberCluster version that counts them."""
        self._ready_since: dict[str, float] | None = None
        """By the pod's UID. None until it is needed."""
        self._begun = 0.0
        self._fallen: dict[str, float] = {}
        """By the pod's UID: of pods that were ready and are not, since when they wait for a
        container that fails; infinite for those that do not."""

    def __iter__(self) -> Iterator[Pod]:
        for claims in self._claims.values():
            for pods in claims.values():
                yield from pods.values()

    def replace(self, old: Pod | None, new: Pod | None) -> set[PodClaim]:
        """Return the claims whose counts changed."""
        touched = set()
        for pod, number in ((old, -1), (new, 1)):
            if pod is not None and pod.claim is not None:
                self._put(pod, pod.claim, number)
                touched.add(pod.claim)
        if self._ready_since is not None:
            self._note_ready(self._ready_since, old, new)
        self._note_fallen(old, new)
        return set() if old and new and old.facts == new.facts else touched

    def of(self, main: Main) -> list[Pod]:
        """Return the pods that the object created."""
        return [pod for pods in self._made_by(main).values() for pod in pods.values()]

    def newest(self, main: Main) -> datetime | None:
        made = (stored_time(pod.metadata.creation_timestamp) for pod in self.of(main))
        return max((each for each in made if each is not None), default=None)

    def others(self, main: Main) -> int:
        claims = self._claims.get((main.uid, main.namespace), {})
        return sum(map(len, claims.values())) - len(self.of(main))

    def counts(self, main: Main, *, each: int = 1) -> PodCounts:
        """`each`: the pods of one replica. All numbers are of replicas."""
        made = self._made_by(main)
        pods = [pod for claim in made.values() for pod in claim.values()]
        waiting = [pod.unschedulable for pod in pods if pod.unschedulable is not None]
        troubles = Counter([pod.trouble for pod in pods if pod.trouble])
        scheduled, since = self._counted(made)
        if scheduled is not None and (scheduled := scheduled // each) == 0:
            since = None
        return PodCounts(
            scheduled,
            ready=[pod.ready for pod in pods].count(True) // each,
            unschedulable=-(-len(waiting) // each),
            oldest_unschedulable=min(waiting, default=None),
            current=-(-len(pods) // each),
            in_part=1 if len(pods) % each else 0,
            capacity_version=since,
            trouble=min(troubles, key=lambda text: (-troubles[text], text), default=""),
            **(self._crashing(pods) if self._fallen else {}),
        )

    def labels(self, main: Main) -> set[PodLabels | None]:
        return {pod.labels for pod in self.of(main)}

    def placed(self) -> Placed:
        return dict(self._placed)

    def publish(self, placed: Placed, version: int | None) -> set[PodClaim]:
        """Record the pods which the capacity of that version counts; return the changed claims."""
        before, self._published = self._published, {}
        for claim, pods in placed.items():
            counted, known = (before or {}).get(claim, (0, None))
            first = version
            if pods <= counted and known is not None and version is not None:
                first = min(known, version)  # `version` is the lower one if the hub was restored
            self._published[claim] = pods, first
        if before is None:
            return {claim for claims in self._claims.values() for claim in claims}
        return {claim for claim, pods in placed.items() if before.get(claim, (0,))[0] != pods}

    def available(self, main: Main, seconds: int, *, each: int = 1) -> Availability:
        """Count from when this process saw a pod become ready: members' clocks are not trusted.

        `each`: the pods of one replica.
        """
        now = self._clock.monotonic()
        if self._ready_since is None:
            self._begun = now
            self._ready_since = {pod.metadata.uid: now for pod in self if pod.ready}
        known = self._ready_since
        since = [known[uid] for pod in self.of(main) if (uid := pod.metadata.uid) in known]
        waiting = [each for each in since if each + seconds > now]
        more_in = min(waiting) + seconds - now if waiting else None
        proven = (len(since) - len(waiting)) // each
        most = (len(since) - len(waiting) + waiting.count(self._begun)) // each
        return Availability(proven, most - proven, more_in)

    def restart(self) -> None:
        """The member was away: its pods may have been unready in between."""
        self._ready_since = None

    def _made_by(self, main: Main) -> dict[PodClaim, dict[str, Pod]]:
        claims = self._claims.get((main.uid, main.namespace), {})
        return {claim: pods for claim, pods in claims.items() if made_by(claim, main)}

    def _counted(self, claims: Collection[PodClaim]) -> tuple[int | None, int | None]:
        if self._published is None:
            return None, None
        published = [self._published.get(claim, (0, None)) for claim in claims]
        placed = sum(self._placed.get(claim, 0) for claim in claims)
        scheduled = min(placed, sum(pods for pods, _ in published))
        versions = [version for _, version in published if version is not None]
        return scheduled, max(versions, default=None) if scheduled else None

    def _put(self, pod: Pod, claim: PodClaim, number: int) -> None:
        claims = self._claims.setdefault((claim.uid, claim.namespace), {})
        pods = claims.setdefault(claim, {})
        if number > 0:
            pods[pod.metadata.name] = pod
        else:
            pods.pop(pod.metadata.name, None)
        if pod.node:
            self._placed[claim] = self._placed.get(claim, 0) + number
        if not self._placed.get(claim, 1):
            del self._placed[claim]
        if not pods:
            del claims[claim]
        if not claims:
            del self._claims[claim.uid, claim.namespace]

    def _crashing(self, pods: Collection[Pod]) -> dict[str, Any]:
        now = self._clock.monotonic()
        since = (self._fallen.get(pod.metadata.uid, math.inf) for pod in pods)
        left = [each + CRASH_SECONDS - now for each in since if each < math.inf]
        waits = [each for each in left if each > 0]
        return {"crashing": len(left) - len(waits), "crashing_in": min(waits, default=None)}

    def _note_fallen(self, old: Pod | None, new: Pod | None) -> None:
        """By this process's clock: members' clocks are not trusted."""
        before = self._fallen.pop(old.metadata.uid, None) if old else None
        if new is None or new.claim is None or new.ready:
            return
        same = old is not None and old.metadata.uid == new.metadata.uid
        fell = new.fell or (same and old is not None and (old.ready or before is not None))
        if not fell or not new.claim.uid:
            return
        if new.trouble.rpartition(": ")[2] not in _CRASHES:
            self._fallen[new.metadata.uid] = math.inf
        elif same and before is not None and before < math.inf:
            self._fallen[new.metadata.uid] = before
        else:
            self._fallen[new.metadata.uid] = self._clock.monotonic()

    def _note_ready(self, since: dict[str, float], old: Pod | None, new: Pod | None) -> None:
        before = (old.metadata.uid, old.claim) if old else None
        after = (new.metadata.uid, new.claim) if new and new.claim and new.ready else None
        if before and before != after:
            since.pop(before[0], None)
        if after:
            since.setdefault(after[0], self._clock.monotonic())
