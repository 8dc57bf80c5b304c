"""A member's health: whether and how well it answers, its provider, and counts of its pods.

No I/O: `connection` and `probe` feed it. Each pod event updates the counts, so reads are cheap.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import chain
from typing import TypeAlias

from crds.membercluster import ReadyReason
from machinery.errors import (
    Forbidden,
    KubeconfigError,
    StowageError,
    TLSVerificationFailed,
    TooManyRequests,
    Unauthorized,
)
from machinery.types.metadata import Key
from propagator.members.capacity.kept import Node, Pod
from propagator.members.pods import Main, PodClaim, made_by
from propagator.members.sanitize import provider

UNKNOWN_PROVIDER = "unknown"
"""Not empty: a selector can name it."""

_SCHEMES = {"gce": "gcp"}
"""Schemes of providerIDs that differ from the provider's usual name."""

LATENCY_ANSWERS = 12
"""The answers of one round: one minute at a probe each 5 s."""
_RELIABILITY_WEIGHT = 0.02  # at a probe each 5 s: half of a failure is forgotten after 3 minutes


@dataclass(frozen=True, slots=True)
class MemberHealth:
    """Whether a member can be used, and if not, why. The message never contains a secret.

    For UNREACHABLE it is only the address and the cause.
    """

    reason: ReadyReason
    message: str

    @property
    def ready(self) -> bool:
        return self.reason is ReadyReason.CONNECTED

    def sentence(self, cluster: str) -> str:
        """Return cluster, fault, and remedy."""
        if self.ready:
            return self.message
        if self.reason is not ReadyReason.UNREACHABLE:
            return f"{cluster}: {self.message}"
        return (
            f"cluster {cluster} cannot be reached ({self.message}): check that its API server "
            "runs and that its Secret names an address which the propagator can reach"
        )


CONNECTED = MemberHealth(ReadyReason.CONNECTED, "the API server answers")


def unreachable(message: str) -> MemberHealth:
    """No answer, or an invalid one."""
    return MemberHealth(ReadyReason.UNREACHABLE, message)


def verdict_of(fault: StowageError) -> MemberHealth:
    """Forbidden and TooManyRequests come from a server that accepts the credential."""
    match fault:
        case Forbidden() | TooManyRequests():
            return CONNECTED
        case KubeconfigError():
            return MemberHealth(ReadyReason.INVALID_KUBECONFIG, str(fault))
        case Unauthorized():
            return MemberHealth(ReadyReason.UNAUTHORIZED, f"the credential is refused: {fault}")
        case TLSVerificationFailed():
            return MemberHealth(ReadyReason.TLS_VERIFICATION_FAILED, str(fault))
    return unreachable(str(fault))


class Contact(Enum):
    CONNECTING = "connecting"
    """Nothing is known yet with the present credentials; the last reported status stays."""
    SERVING = "serving"
    """The member answers, and its objects are listed."""
    AWAY = "away"
    """The member does not answer or cannot be connected to; the verdict says why."""


class HealthProbe:
    """How fast and how reliably a member answers probes.

    The latency is the minimum of `LATENCY_ANSWERS` consecutive answers, because this process delays
    some: at start it connects to all members at once.
    """

    def __init__(self) -> None:
        self._latency: float | None = None
        self._provisional = False
        self._round: list[float] = []
        self._answered: float | None = None
        self._recorded = False

    def recall(self, *, latency_milliseconds: int | None, ready_percent: int | None) -> None:
        """Start from another process's measurements, unless this one has its own."""
        if self._recorded:
            return
        if latency_milliseconds is not None:
            self._latency = latency_milliseconds / 1000
        if ready_percent is not None:
            self._answered = ready_percent / 100

    def record(self, *, answered: bool, seconds: float, cold: bool = False) -> None:
        """`seconds` counts only if the probe was answered.

        A cold probe had to connect first: its time holds until a better one.
        """
        self._recorded = True
        before = 1.0 if self._answered is None else self._answered
        self._answered = before + _RELIABILITY_WEIGHT * (answered - before)
        if answered and not cold:
            self._measure(seconds)
        elif answered and self._latency is None:
            self._latency, self._provisional = seconds, True

    def _measure(self, seconds: float) -> None:
        self._round.append(seconds)
        if self._latency is None or self._provisional:
            self._latency, self._provisional = seconds, False
        if len(self._round) == LATENCY_ANSWERS:
            self._latency = min(self._round)
            self._round.clear()

    @property
    def latency_milliseconds(self) -> int | None:
        """The round trip of a probe, at least 1; None before the first answer."""
        return None if self._latency is None else max(1, round(self._latency * 1000))

    @property
    def ready_percent(self) -> int | None:
        """The answered share of recent probes, 0..100; None before the first."""
        return None if self._answered is None else round(self._answered * 100)


def settled(old: int | None, new: int, *, step: float) -> int:
    """Noise must not cause writes to the hub."""
    return new if old is None or abs(new - old) >= step else old


def provider_of(nodes: Iterable[Node]) -> str:
    """The provider that most nodes name in `spec.providerID`, lower case; ties by name."""
    votes = Counter(name for node in nodes if (name := _provider(node)))
    return min(votes, key=lambda name: (-votes[name], name)) if votes else UNKNOWN_PROVIDER


def _provider(node: Node) -> str:
    scheme, colon, _ = node.provider_id.partition(":")
    name = provider(scheme) if colon else ""
    return _SCHEMES.get(name, name)


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


Placed: TypeAlias = dict[PodClaim, int]
"""The number of pods on nodes, by claim."""


@dataclass(slots=True)
class _PodTally:
    pods: int = 0
    scheduled: int = 0
    ready: int = 0
    unschedulable: int = 0


class PodLedger:
    def __init__(self) -> None:
        self._counts: dict[PodClaim, _PodTally] = {}
        self._waiting: dict[PodClaim, dict[Key, datetime]] = {}
        self._troubles: dict[PodClaim, Counter[str]] = {}
        self._claims: defaultdict[tuple[str, str], set[PodClaim]] = defaultdict(set)
        self._published: Placed | None = None
        self._since: dict[PodClaim, int | None] = {}

    def placed(self) -> Placed:
        return {
            claim: counts.scheduled for claim, counts in self._counts.items() if counts.scheduled
        }

    def publish(self, placed: Placed, version: int | None) -> set[PodClaim]:
        """Record the pods that the published capacity counts; return the claims that change.

        `version` is the MemberCluster's with that capacity.
        """
        first, before, self._published = self._published is None, self._published or {}, placed
        self._since = {
            claim: self._first(claim, version) if pods <= before.get(claim, 0) else version
            for claim, pods in placed.items()
        }
        if first:
            return set(self._counts)
        return {claim for claim, pods in placed.items() if before.get(claim, 0) != pods}

    def replace(self, old: Pod | None, new: Pod | None) -> set[PodClaim]:
        """Return the claims whose counts changed."""
        touched = set()
        for pod, sign in ((old, -1), (new, 1)):
            if pod is not None and pod.claim is not None:
                self._add(pod, pod.claim, sign)
                touched.add(pod.claim)
        if old and new and old.facts == new.facts:
            return set()
        return touched

    def counts(self, main: Main) -> PodCounts:
        there = self._claims.get((main.uid, main.namespace), ())
        made = [claim for claim in there if made_by(claim, main)]
        held = [self._counts[claim] for claim in made]
        waiting = (self._waiting.get(claim, {}).values() for claim in made)
        scheduled = since = None
        if self._published is not None:
            counted = sum(self._published.get(claim, 0) for claim in made)
            scheduled = min(sum(each.scheduled for each in held), counted)
            versions = [version for claim in made if (version := self._since.get(claim))]
            since = max(versions, default=None) if scheduled else None
        return PodCounts(
            scheduled,
            sum(each.ready for each in held),
            sum(each.unschedulable for each in held),
            min(chain.from_iterable(waiting), default=None),
            sum(each.pods for each in held),
            since,
            self._trouble(made),
        )

    def others(self, main: Main) -> int:
        """Return the pods of a Workload that another object than `main` created."""
        there = self._claims.get((main.uid, main.namespace), ())
        return sum(self._counts[claim].pods for claim in there if not made_by(claim, main))

    def _trouble(self, claims: Sequence[PodClaim]) -> str:
        said: Counter[str] = Counter()
        for claim in claims:
            said.update(self._troubles.get(claim, ()))
        return min(said, key=lambda text: (-said[text], text), default="")

    def _first(self, claim: PodClaim, version: int | None) -> int | None:
        """Return the first version that counted as many; `version` if the hub was restored."""
        known = self._since.get(claim)
        return version if known is None or version is None else min(known, version)

    def _add(self, pod: Pod, claim: PodClaim, sign: int) -> None:
        counts = self._counts.setdefault(claim, _PodTally())
        self._claims[claim.uid, claim.namespace].add(claim)
        counts.pods += sign
        counts.scheduled += sign * bool(pod.node)
        counts.ready += sign * pod.ready
        if pod.trouble:
            said = self._troubles.setdefault(claim, Counter())
            said[pod.trouble] += sign
            if not said[pod.trouble]:
                del said[pod.trouble]
            if not said:
                del self._troubles[claim]
        if pod.unschedulable is not None:
            counts.unschedulable += sign
            self._wait(pod, claim, pod.unschedulable if sign > 0 else None)
        if counts == _PodTally():
            self._forget(claim)

    def _forget(self, claim: PodClaim) -> None:
        del self._counts[claim]
        where = claim.uid, claim.namespace
        self._claims[where].discard(claim)
        if not self._claims[where]:
            del self._claims[where]

    def _wait(self, pod: Pod, claim: PodClaim, since: datetime | None) -> None:
        waiting = self._waiting.setdefault(claim, {})
        if since is None:
            waiting.pop(pod.metadata.key, None)
        else:
            waiting[pod.metadata.key] = since
        if not waiting:
            del self._waiting[claim]
