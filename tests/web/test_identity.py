"""Who a caller is and what they may list, remembered for as long as that may hold."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from machinery.api.resources import (
    MEMBER_CLUSTERS,
    WORKLOADS,
)
from machinery.errors import ConfigurationError, Unreachable
from machinery.http_messages import Request, Response
from stowage.web import identity
from stowage.web.hosted import TokenDoor
from stowage.web.identity import AccessReviews, Authenticator, Caller
from stowage.web.live import LiveFeed
from stowage.web.login import (
    SESSION_SECONDS,
    SealedTokens,
    expiry,
    key_of_process,
    keys_of_folder,
)
from stowage.web.narrowing import NarrowedSnapshot, Scope
from stowage.web.snapshot import HubSnapshot
from stowage.web.visit import Sights, Visit
from tests.fakeclock import FakeClock, settle
from tests.web import fleets
from tests.web.reviews import Reviewer


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hub() -> Reviewer:
    return Reviewer()


@pytest.mark.proves("V12")
async def test_a_token_is_asked_about_once_a_minute(hub: Any, clock: FakeClock) -> None:
    who = Authenticator(hub, clock)
    for _ in range(3):
        found = await who.caller("of-ann")
        assert found is not None
        assert (found.name, found.subject["groups"]) == ("ann", ["g"])
    assert len(hub.asked) == 1
    assert await who.caller("stranger") is None
    assert await who.caller("broken") is None
    assert await who.caller("x" * (identity.LONGEST_TOKEN + 1)) is None
    assert await who.caller("") is None
    assert len(hub.asked) == 3
    await clock.advance(identity.TOKEN_SECONDS)
    await who.caller("of-ann")
    assert len(hub.asked) == 4


@pytest.mark.proves("V15")
async def test_a_right_is_asked_about_once_in_half_a_minute(hub: Any, clock: FakeClock) -> None:
    reviews, ann = AccessReviews(hub, clock), Caller("ann", {"user": "ann"}, "ann")
    may = reviews.of(ann).allows
    assert not await may("list", WORKLOADS, "shop")
    hub.rights.add(("list", "workloads", "shop"))
    await clock.advance(identity.ACCESS_SECONDS - 1)
    assert not await may("list", WORKLOADS, "shop")
    await clock.advance(1)
    assert await may("list", WORKLOADS, "shop")
    assert not await may("list", WORKLOADS)
    assert len(hub.asked) == 3
    other = reviews.of(Caller("bob", {"user": "bob"}, "bob"))
    await other.allows("list", WORKLOADS, "shop")
    assert len(hub.asked) == 4, "another caller's answer is their own"


@pytest.mark.proves("V15")
async def test_nothing_is_remembered_of_a_hub_that_does_not_answer(
    hub: Any, clock: FakeClock
) -> None:
    reviews = AccessReviews(hub, clock).of(Caller("ann", {"user": "ann"}, "ann"))
    hub.down = True
    with pytest.raises(Unreachable):
        await reviews.allows("list", WORKLOADS)
    hub.down, hub.rights = False, {("list", "workloads", "")}
    assert await reviews.allows("list", WORKLOADS)


@pytest.mark.proves("V12")
async def test_a_caller_has_a_bounded_number_of_questions_before_the_hub(
    hub: Any, clock: FakeClock
) -> None:
    reviews, hub.gate = AccessReviews(hub, clock), asyncio.Event()
    ann = reviews.of(Caller("ann", {"user": "ann"}, "ann"))
    asking = [asyncio.create_task(ann.allows("list", WORKLOADS, f"ns-{n}")) for n in range(100)]
    asking += [asyncio.create_task(ann.allows("list", WORKLOADS, "ns-0")) for _ in range(10)]
    await settle()
    assert hub.most == identity.IN_FLIGHT
    asking.pop().cancel()
    hub.gate.set()
    await asyncio.gather(*asking)
    assert len(hub.asked) == 100, "the same question is asked once"


@pytest.mark.proves("A18")
async def test_the_questions_of_all_callers_have_a_rate_and_each_caller_has_turns(
    hub: Any, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "REVIEWS_PER_SECOND", 10)
    reviews = AccessReviews(hub, clock)
    callers = [reviews.of(Caller(name, {"user": name}, name)) for name in ("ann", "bob")]
    asked = [
        asyncio.create_task(each.allows("list", WORKLOADS, f"ns-{n}"))
        for each in callers
        for n in range(100)
    ]
    await settle()
    assert len(hub.asked) == pytest.approx(10, abs=1), "what came of a second at once"
    for second in range(1, 5):
        await clock.advance(1.0)
        assert len(hub.asked) == pytest.approx(10 + 10 * second, abs=1)
    while not all(each.done() for each in asked):
        await clock.advance(1.0)
    assert len(hub.asked) == 200
    assert identity.MOST_ANSWERS >= 500 * identity.ACCESS_SECONDS, "no fresh answer makes room"


@pytest.mark.proves("V12")
async def test_old_answers_make_room(
    hub: Any, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "MOST_ANSWERS", 5)
    ann = AccessReviews(hub, clock).of(Caller("ann", {"user": "ann"}, "ann"))
    for n in (*range(6), 0):
        await ann.allows("list", WORKLOADS, f"ns-{n}")
    assert len(hub.asked) == 7
    assert len(ann.reviews._kept._kept) == 5


def asking(token: str) -> Request:
    return Request("GET", "/", headers={"Authorization": f"Bearer {token}"})


def door(hub: Any, clock: FakeClock) -> TokenDoor:
    snapshot = HubSnapshot()
    for namespace in ("shop", "train"):
        snapshot.put(WORKLOADS, fleets.workload("web", {"m1": 1}, namespace=namespace))
    snapshot.put(MEMBER_CLUSTERS, fleets.cluster("m1"))
    sights = Sights(snapshot, system="stowage-system", clock=clock)
    return TokenDoor(hub, sights, SealedTokens(key_of_process()), clock)


@pytest.mark.proves("V13", "V15")
async def test_a_scope_is_what_the_hub_says(hub: Any, clock: FakeClock) -> None:
    made = door(hub, clock)
    hub.rights = {("list", "workloads", "shop")}
    visit = await made.enter(asking("of-ann"))
    assert isinstance(visit, Visit)
    assert visit.scope == Scope(within=frozenset({("workloads", "shop")}))
    assert visit.namespace == "shop"
    again = await made.enter(asking("of-bob"))
    assert isinstance(again, Visit)
    assert again.sight is visit.sight, "the same rights show the same"
    hub.rights = set()
    await clock.advance(identity.ACCESS_SECONDS + 1)
    gone = await made.enter(asking("of-ann"))
    assert isinstance(gone, Visit)
    assert gone.scope.empty
    refused = await made.enter(asking("nobody"))
    assert isinstance(refused, Response)
    assert refused.status == 401


@pytest.mark.proves("V15")
async def test_a_stream_ends_with_the_right(hub: Any, clock: FakeClock) -> None:
    made = door(hub, clock)
    hub.rights = {("list", "workloads", "shop")}

    async def look() -> NarrowedSnapshot | None:
        now = await made.enter(asking("of-ann"))
        assert isinstance(now, Visit)
        return None if now.scope.empty else now.objects

    snapshot = made._sights.whole
    stream = LiveFeed(snapshot, clock=clock).stream("s", "", look)
    assert await anext(stream) == b"retry: 1000\n\n"
    snapshot.put(WORKLOADS, fleets.workload("other", {}, namespace="train"))
    snapshot.put(WORKLOADS, fleets.workload("own", {}))
    told = (await anext(stream)).decode()
    assert "shop/own" in told
    assert "train" not in told
    hub.rights.add(("list", "workloads", "train"))
    await clock.advance(identity.ACCESS_SECONDS + 1)
    snapshot.put(WORKLOADS, fleets.workload("own", {}))
    reading = asyncio.create_task(anext(stream))
    await clock.advance(1)
    assert (await reading).startswith(b"event: reset"), "more is seen: the page begins anew"
    hub.rights.clear()
    await clock.advance(identity.ACCESS_SECONDS + 1)
    snapshot.put(WORKLOADS, fleets.workload("own", {}))
    reading = asyncio.create_task(anext(stream, None))
    await clock.advance(1)
    assert await reading is None


# --- the cookie ---


def jwt(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.sig"


def with_cookie(header: str) -> Request:
    return Request("GET", "/", headers={"Cookie": header.partition(";")[0]})


@pytest.mark.proves("V12")
def test_a_cookie_ends_with_its_token_or_after_hours() -> None:
    now = [1000.0]
    cookies = SealedTokens(key_of_process(), now=lambda: now[0])
    short, long = jwt(exp=1060), jwt(exp=10**9)
    assert cookies.cookie(short).endswith("; Max-Age=60")
    assert cookies.cookie(long).endswith(f"; Max-Age={SESSION_SECONDS}")
    for token, seconds in ((short, 60), (long, SESSION_SECONDS), ("opaque", SESSION_SECONDS)):
        sealed = with_cookie(cookies.cookie(token))
        now[0] += seconds - 1
        assert cookies.token(sealed) == token
        now[0] += 1
        assert cookies.token(sealed) == ""
        now[0] = 1000.0
    assert cookies.cookie("x" * 4000) == ""


@pytest.mark.proves("V12")
def test_two_keys_open_while_they_are_rotated(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        keys_of_folder(tmp_path)
    (tmp_path / "current").write_bytes(b"a" * 32)
    cookies = SealedTokens(keys_of_folder(tmp_path))
    first = with_cookie(cookies.cookie("token"))
    (tmp_path / "previous").write_bytes(b"a" * 32)
    (tmp_path / "current").write_bytes(b"b" * 32)
    second = with_cookie(cookies.cookie("token"))
    assert cookies.token(first) == cookies.token(second) == "token"
    (tmp_path / "previous").unlink()
    assert cookies.token(first) == ""
    assert cookies.token(second) == "token"
    (tmp_path / "current").write_bytes(b"short")
    with pytest.raises(ConfigurationError):
        keys_of_folder(tmp_path)


@pytest.mark.proves("V12")
@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "__Host-stowage=",
        "__Host-stowage=AAAA",
        "__Host-stowage=%%",
        "\x00=;;",
        "__Host-stowage=é",
    ],
)
def test_a_cookie_of_another_form_is_none(cookie: str) -> None:
    assert SealedTokens(key_of_process()).token(with_cookie(cookie)) == ""


@pytest.mark.parametrize("token", ["a.b.c", "..", "a", jwt(exp="x"), jwt(), jwt(exp=float("inf"))])
def test_a_token_without_an_end_has_none(token: str) -> None:
    assert expiry(token) == 0
