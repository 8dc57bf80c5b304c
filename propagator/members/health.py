"""A member's health: whether and how well it answers, its provider, and the state of its pods.

Pure bookkeeping, fed by `connection` and `probe`, read by the Workload status and by
`hub.cluster_status`; nothing here does I/O. Unit counts are kept up to date pod by pod, so that
reading them costs nothing however many pods a member has.
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
"""The provider where nodes name none; not empty, so that a selector can name it."""

_SCHEMES = {"gce": "gcp"}
"""Schemes of a node's providerID that are not the provider's usual name."""

LATENCY_ANSWERS = 12
"""The answers of one round: a minute's, at a probe each 5 s."""
_RELIABILITY_WEIGHT = 0.02  # at a probe each 5 s: half of a failure is forgotten after 3 minutes


@dataclass(frozen=True, slots=True)
class MemberHealth:
    """Whether a member can be used, and if not, why. The message never holds a secret.

    Where there was no answer the message is only the address and the cause; `sentence` makes one
    of it.
    """

    reason: ReadyReason
    message: str

    @property
    def ready(self) -> bool:
        """True when the member accepts our credential."""
        return self.reason is ReadyReason.CONNECTED

    def sentence(self, cluster: str) -> str:
        """Return a sentence for a condition: which cluster, what is wrong, what mends it."""
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
    """Return the verdict on a member that gives no answer, or none that makes sense."""
    return MemberHealth(ReadyReason.UNREACHABLE, message)


def verdict_of(fault: StowageError) -> MemberHealth:
    """Return what a probe that raised `fault` says about the member.

    Forbidden and TooManyRequests come from a server that accepts the credential, so it is there.
    """
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
    """Whether the state of a member is known now."""

    CONNECTING = "connecting"
    """Nothing is known yet, or not by the present credentials: the last status stands."""
    SERVING = "serving"
    """The member answers, and its objects have been listed."""
    AWAY = "away"
    """The member does not answer, or cannot be connected to; the verdict says why."""


class HealthProbe:
    """How fast and how reliably the probes of one member are answered.

    The latency is that of the fastest of `LATENCY_ANSWERS` in a row. Single answers are mostly held
    up by this process: at its start it connects to all members at once, and reads each answer late.
    A slow member is slow each time.
    """

    def __init__(self) -> None:
        self._latency: float | None = None
        self._provisional = False
        self._round: list[float] = []
        self._answered: float | None = None
        self._recorded = False

    def recall(self, *, latency_milliseconds: int | None, ready_percent: int | None) -> None:
        """Begin with what another process measured, where nothing has been measured here."""
        if self._recorded:
            return
        if latency_milliseconds is not None:
            self._latency = latency_milliseconds / 1000
        if ready_percent is not None:
            self._answered = ready_percent / 100

    def record(self, *, answered: bool, seconds: float, cold: bool = False) -> None:
        """Record one probe that took that many seconds, which count only if it was answered.

        A cold probe had to connect first: its time stands until there is a better one.
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
        """The share of the recent probes that were answered, 0..100; None before the first one."""
        return None if self._answered is None else round(self._answered * 100)


def settled(old: int | None, new: int, *, step: float) -> int:
    """Return `old` unless `new` differs by at least `step`.

    A status that followed the noise would cost a write to the hub each time.
    """
    return new if old is None or abs(new - old) >= step else old


def provider_of(nodes: Iterable[Node]) -> str:
    """Return the provider that most nodes name in `spec.providerID`, lower case; ties by name."""
    votes = Counter(name for node in nodes if (name := _provider(node)))
    return min(votes, key=lambda name: (-votes[name], name)) if votes else UNKNOWN_PROVIDER


def _provider(node: Node) -> str:
    scheme, colon, _ = node.provider_id.partition(":")
    name = provider(scheme) if colon else ""
    return _SCHEMES.get(name, name)


@dataclass(slots=True)
class PodCounts:
    """The pods of one Workload on one member."""

    scheduled: int | None = 0
    """Pods that hold room on a node, also while they end, as far as the hub's capacity counts
    them: the controller adds replicas in flight to it, and must not miss any in between. None until
    the first capacity is published, as it is not known which pods the one before counts."""
    ready: int = 0
    unschedulable: int = 0
    """Pods that the member's scheduler found no room for."""
    oldest_unschedulable: datetime | None = None
    """The time since which the first of them has been waiting."""
    current: int = 0
    """All pods, waiting and ending ones included."""
    capacity_version: int | None = None
    """The MemberCluster's version from which on the hub's capacity counts `scheduled`; None where
    nothing is counted, and on a hub whose versions are no numbers."""
    trouble: str = ""
    """What keeps most of those that are not ready from it, as `Pod.trouble` has it."""


Placed: TypeAlias = dict[PodClaim, int]
"""The number of pods on nodes, by their claim."""


@dataclass(slots=True)
class _PodTally:
    """The pods of one claim, as they are."""

    pods: int = 0
    scheduled: int = 0
    ready: int = 0
    unschedulable: int = 0


class PodLedger:
    """PodCounts by the claims of pods, kept up to date by `replace`."""

    def __init__(self) -> None:
        self._counts: dict[PodClaim, _PodTally] = {}
        self._waiting: dict[PodClaim, dict[Key, datetime]] = {}
        self._troubles: dict[PodClaim, Counter[str]] = {}
        self._claims: defaultdict[tuple[str, str], set[PodClaim]] = defaultdict(set)
        self._published: Placed | None = None
        self._since: dict[PodClaim, int | None] = {}

    def placed(self) -> Placed:
        """Return the pods on nodes: those that a capacity which is taken now counts."""
        return {
            claim: counts.scheduled for claim, counts in self._counts.items() if counts.scheduled
        }

    def publish(self, placed: Placed, version: int | None) -> set[PodClaim]:
        """Record the pods that the hub's capacity counts; return the claims whose counts change.

        `version` is that of the MemberCluster which holds the capacity.
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
        """Take in one pod's change; return the claims whose counts are different now."""
        touched = set()
        for pod, sign in ((old, -1), (new, 1)):
            if pod is not None and pod.claim is not None:
                self._add(pod, pod.claim, sign)
                touched.add(pod.claim)
        if old and new and old.facts == new.facts:
            return set()
        return touched

    def counts(self, main: Main) -> PodCounts:
        """Return the counts of the pods that a main object made, all zero where it has none."""
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
        """Return the pods of a Workload there that another object than this one made."""
        there = self._claims.get((main.uid, main.namespace), ())
        return sum(self._counts[claim].pods for claim in there if not made_by(claim, main))

    def _trouble(self, claims: Sequence[PodClaim]) -> str:
        said: Counter[str] = Counter()
        for claim in claims:
            said.update(self._troubles.get(claim, ()))
        return min(said, key=lambda text: (-said[text], text), default="")

    def _first(self, claim: PodClaim, version: int | None) -> int | None:
        """Return the version that counted as many first; `version` on a hub that was set back."""
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
