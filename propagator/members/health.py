"""A member's health: whether and how well it answers, and its provider.

No I/O: `connection` and `probe` feed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from crds.membercluster import ReadyReason
from machinery.errors import (
    Forbidden,
    KubeconfigError,
    StowageError,
    TLSVerificationFailed,
    TooManyRequests,
    Unauthorized,
)
from propagator.members.capacity.kept import Node
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
