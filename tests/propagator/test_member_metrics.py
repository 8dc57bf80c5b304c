"""What the gauges say of members: when each answered, and how long its credential lasts."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from machinery import metrics
from propagator import telemetry
from propagator.credentials.credentials import credentials_of
from tests.fakeclock import FakeClock
from tests.machinery.certificates import Authority

HOUR, DAY = 3600.0, 86400.0
GAUGES = (telemetry.LAST_SEEN, telemetry.EXPIRY, telemetry.LIFETIME)


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    for gauge in GAUGES:
        gauge.set_function(None)


def told(gauge: metrics.GaugeFunc) -> dict[tuple[str, ...], float]:
    (family,) = gauge.collect()
    return {tuple(each.labels.values()): each.value for each in family.samples}


def token(clock: FakeClock, *, begun: float, left: float) -> bytes:
    now = clock.now().timestamp()
    claims = json.dumps({"iat": int(now - begun), "exp": int(now + left)}).encode()
    return b"e30." + base64.urlsafe_b64encode(claims).rstrip(b"=") + b".sig"


def session(name: str, answered: float = -math.inf, **data: bytes) -> Any:
    authority = Authority()
    secret = {"endpoint": b"https://m.test", "clusterCA": authority.pem, **data}
    credentials = credentials_of(secret) if data else None
    return SimpleNamespace(name=name, answered=answered, credentials=credentials)


async def test_when_a_member_answered_last_is_a_moment_whatever_time_it_is_now() -> None:
    clock = FakeClock()
    began = clock.now().timestamp()
    sessions = [session("seen", answered=5.0), session("never")]
    telemetry.begin(lambda: sessions, clock=clock)
    await clock.advance(60)
    assert told(telemetry.LAST_SEEN) == {("seen",): began + 5, ("never",): 0}
    sessions.pop()
    assert told(telemetry.LAST_SEEN) == {("seen",): began + 5}, "what is gone is not told"


async def test_a_credential_ends_with_its_token_and_is_renewed_where_it_names_an_account() -> None:
    clock = FakeClock()
    lent = token(clock, begun=HOUR, left=3 * HOUR)
    sessions = [
        session("renewed", token=lent, account=b"stowage-system/member"),
        session("lent", token=lent),
        session("endless", token=b"opaque", account=b"stowage-system/member"),
        session("refused"),
    ]
    telemetry.begin(lambda: sessions, clock=clock)
    await clock.advance(HOUR)
    lasts = {("renewed", "true"): 2 * HOUR, ("lent", "false"): 2 * HOUR}
    assert told(telemetry.EXPIRY) == lasts
    assert told(telemetry.LIFETIME) == dict.fromkeys(lasts, 4 * HOUR)


def test_a_client_certificate_ends_too_and_nothing_renews_it() -> None:
    pair = Authority().pair("admin", days=3)
    account = b"stowage-system/member"
    one = session("m1", clientCert=pair.certificate, clientKey=pair.key, account=account)
    telemetry.begin(lambda: [one], clock=FakeClock())
    assert told(telemetry.LIFETIME) == {("m1", "false"): 10 * DAY}
    (left,) = told(telemetry.EXPIRY).values()
    assert left == (one.credentials.life.expires - FakeClock().now()).total_seconds()
