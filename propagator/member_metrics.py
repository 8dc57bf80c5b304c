"""Gauges of the members as this instance sees them, computed at each scrape.

Series exist while the instance has a session with the member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from machinery import metrics
from machinery.clock import Clock
from propagator.credentials.tokens import Life
from propagator.members.session import MemberSession

_CREDENTIAL = ("member_cluster", "renewed")

LAST_SEEN = metrics.GaugeFunc(
    "stowage_member_last_seen_timestamp_seconds",
    "When the member answered a probe last, in Unix time; 0: not since this process connects to it",
    ("member_cluster",),
)
EXPIRY = metrics.GaugeFunc(
    "stowage_certificate_expiry_seconds",
    "Seconds until the token or client certificate for a member ends, by whether it is renewed",
    _CREDENTIAL,
)
LIFETIME = metrics.GaugeFunc(
    "stowage_certificate_lifetime_seconds",
    "Seconds from the beginning to the end of the token or client certificate for a member",
    _CREDENTIAL,
)


def begin(sessions: Callable[[], Iterable[MemberSession]], *, clock: Clock) -> None:
    LAST_SEEN.set_function(lambda: _last_seen(sessions(), clock))
    EXPIRY.set_function(lambda: _expiry(sessions(), clock))
    LIFETIME.set_function(lambda: _lifetime(sessions()))


def _last_seen(sessions: Iterable[MemberSession], clock: Clock) -> metrics.Samples:
    # Times before the epoch become 0, also that of a member without an answer.
    began = clock.now().timestamp() - clock.monotonic()
    return {(each.name,): max(began + each.answered, 0.0) for each in sessions}


def _expiry(sessions: Iterable[MemberSession], clock: Clock) -> metrics.Samples:
    now = clock.now()
    return {labels: (life.expires - now).total_seconds() for labels, life in _lives(sessions)}


def _lifetime(sessions: Iterable[MemberSession]) -> metrics.Samples:
    return {
        labels: (life.expires - life.issued).total_seconds() for labels, life in _lives(sessions)
    }


def _lives(sessions: Iterable[MemberSession]) -> Iterator[tuple[tuple[str, str], Life]]:
    for each in sessions:
        credentials = each.credentials
        if credentials is not None and credentials.life is not None:
            renewed = credentials.account is not None and bool(credentials.connection.token)
            yield (each.name, str(renewed).lower()), credentials.life
