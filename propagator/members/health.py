"""A member's health: whether and how well it answers, and its provider."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from crds.membercluster import ReadyReason
from machinery.api.client import ApiClient
from machinery.api.lanes import FACT
from machinery.clock import Clock
from machinery.errors import (
    Forbidden,
    KubeconfigError,
    StowageError,
    TLSVerificationFailed,
    TooManyRequests,
    TransportError,
    Unauthorized,
    Unreachable,
)
from machinery.runtime.backoff import delay
from machinery.tasks import within
from propagator.members.capacity.kept import Node
from propagator.members.sanitize import provider
from propagator.settings import JITTER, SessionSettings, paced

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

    The latency is the minimum of `LATENCY_ANSWERS` answers: at start this process delays some.
    """

    def __init__(self) -> None:
        self._latency: float | None = None
        self._provisional = False
        self._least, self._answers = math.inf, 0  # of the present round
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
        self._least, self._answers = min(self._least, seconds), self._answers + 1
        if self._latency is None or self._provisional:
            self._latency, self._provisional = seconds, False
        if self._answers == LATENCY_ANSWERS:
            self._latency, self._least, self._answers = self._least, math.inf, 0

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


_VERSION_EVERY = 12
"""Probes between two reads of the version, which changes at an upgrade."""
_FIRST_PAUSE = 1.0


class Probe:
    """Probes a member: the only source of its Ready condition.

    One failed probe proves nothing on a busy network; a second does.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        settings: SessionSettings,
        clock: Clock,
        health: HealthProbe,
        seen: Callable[[], None],
        members: Callable[[], int],
    ) -> None:
        """`members` returns how many members this process probes."""
        self._client = client
        self._settings = settings
        self._clock = clock
        self._seen = seen
        self._members = members
        self._until_version = 0
        self._hurry = asyncio.Event()
        self.version = ""
        self.answered = -math.inf
        """The monotonic time at which the last answered probe was sent; -inf without one."""
        self._health = health

    def ask_now(self) -> None:
        self._hurry.set()  # such a probe is not measured: it would measure what is done there

    async def until_answered(self, refused: Callable[[MemberHealth], None]) -> MemberHealth:
        """Probe until there is an answer; call `refused` with every failure but the first."""
        failures = 0
        self._until_version = 0
        while not (verdict := await self._ask(cold=True)).ready:
            failures += 1
            if failures == 1:
                await self._clock.sleep(self._settings.probe_confirm)
                continue
            refused(verdict)
            cap = paced(self._settings.probe_backoff, self._members())
            pause = delay(failures, base=_FIRST_PAUSE, cap=cap, jitter=random.random)
            await self._clock.sleep(pause)
        return verdict

    async def until_lost(
        self, refused: Callable[[], Awaitable[MemberHealth | None]]
    ) -> MemberHealth:
        """Probe until two probes in a row fail; return the verdict of the second.

        `refused` is called after each answer; its verdict ends the loop too.
        """
        while True:
            jitter = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
            hurried = await self._pause(self.period * jitter)
            if (await self._ask(measured=not hurried)).ready:
                another = await refused()
                if another is not None:
                    return another
                continue
            await self._clock.sleep(self._settings.probe_confirm)
            verdict = await self._ask()
            if not verdict.ready:
                return verdict

    @property
    def period(self) -> float:
        return paced(self._settings.probe_period, self._members())

    async def _pause(self, seconds: float) -> bool:
        """Wait that long, or until `ask_now`; return whether it was called."""
        with suppress(Unreachable):  # the time is up
            await within(seconds, self._hurry.wait(), clock=self._clock)
        hurried = self._hurry.is_set()
        self._hurry.clear()
        return hurried

    async def _ask(self, *, cold: bool = False, measured: bool = True) -> MemberHealth:
        started = self._clock.monotonic()
        limit = self._settings.probe_timeout
        # /readyz, unlike /version, says whether the server reaches its own store.
        question = self._client.request("GET", "/readyz", timeout=limit, errand=FACT)
        verdict = await self._judge(question)
        seconds = self._clock.monotonic() - started
        if measured:
            self._health.record(answered=verdict.ready, seconds=seconds, cold=cold)
        if verdict.ready:
            self.answered = started
        if verdict.ready and self._until_version == 0:
            verdict = await self._judge(self._learn_version())
        self._until_version = max(0, self._until_version - 1)
        self._seen()
        return verdict

    async def _learn_version(self) -> None:
        self.version = await self._client.version()
        self._until_version = _VERSION_EVERY

    async def _judge(self, question: Coroutine[Any, Any, object]) -> MemberHealth:
        seconds = self._settings.probe_timeout
        try:
            async with asyncio.timeout(seconds):
                await question
        except TimeoutError:
            return unreachable(f"{self._client.connection.server}: no answer within {seconds:g} s")
        except TransportError as fault:
            return verdict_of(fault)
        return CONNECTED
