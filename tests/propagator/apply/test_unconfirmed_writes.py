"""A write is in doubt until an answer, or a look at its place, settles it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from machinery.api.resources import Resource
from machinery.errors import (
    ApiError,
    LeaseLost,
    NotSent,
    TLSVerificationFailed,
    TransportError,
    Unreachable,
)
from propagator.apply.apply_records import RIPE_SECONDS, ObjectPlace, UnconfirmedWrites
from propagator.members.objects import ManagedObject
from propagator.members.session import MemberSession
from propagator.shares import ShareTable
from tests.fakeclock import FakeClock

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
PLACE = ObjectPlace.at("m1", DEPLOYMENTS, ("shop", "web"))


class Member:
    """A session with a member that holds what a test says."""

    name = "m1"

    def __init__(self) -> None:
        self.lies: dict[str, Any] | None = None
        self.looks = 0
        self.held: list[ManagedObject] = []

    def client_for(self, _: str) -> Member:
        return self

    def track(self, *_: object) -> Member:
        return self

    def upsert(self, found: ManagedObject) -> None:
        self.held.append(found)

    async def find(self, *_: object, **__: object) -> dict[str, Any] | None:
        self.looks += 1
        return self.lies


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def shares() -> ShareTable:
    return ShareTable()


@pytest.fixture
def unconfirmed(shares: ShareTable, clock: FakeClock) -> UnconfirmedWrites:
    return UnconfirmedWrites(shares, clock=clock)


async def resolved(unconfirmed: UnconfirmedWrites, member: Member) -> bool:
    return not await unconfirmed.resolve(cast("MemberSession", member), "u")


def fail(unconfirmed: UnconfirmedWrites, fault: BaseException) -> None:
    with pytest.raises(type(fault)), unconfirmed.sending(PLACE, "u"):
        raise fault


def answer(code: int, reason: str = "") -> ApiError:
    return ApiError.of(code=code, reason=reason, message="no")


@pytest.mark.proves("R1")
async def test_while_it_is_under_way_it_is_in_doubt(unconfirmed: UnconfirmedWrites):
    member = Member()
    with unconfirmed.sending(PLACE, "u"):
        assert not await resolved(unconfirmed, member)
        assert not await unconfirmed.resolve(cast("MemberSession", member), "another")
    assert await resolved(unconfirmed, member)
    assert member.looks == 0, "an answer is an answer"


@pytest.mark.proves("R1")
@pytest.mark.parametrize(
    "fault", [Unreachable("cut"), TransportError("?"), asyncio.CancelledError()]
)
async def test_without_an_answer_the_place_is_looked_at_after_a_while(
    unconfirmed: UnconfirmedWrites, clock: FakeClock, fault: BaseException
):
    member = Member()
    fail(unconfirmed, fault)
    assert not await resolved(unconfirmed, member)
    assert member.looks == 0, "too early to tell"
    await clock.advance(RIPE_SECONDS)
    member.lies = {"metadata": {"name": "web", "labels": {"stowage.dev/managed": "true"}}}
    assert await resolved(unconfirmed, member)
    assert [found.metadata.name for found in member.held] == ["web"]
    assert await resolved(unconfirmed, member)
    assert member.looks == 1


@pytest.mark.proves("R1")
async def test_a_server_in_trouble_may_have_done_it_and_one_that_refuses_has_not(
    unconfirmed: UnconfirmedWrites,
):
    member = Member()
    for code in (403, 404, 409, 422, 429):
        fail(unconfirmed, answer(code))
        assert await resolved(unconfirmed, member)
    assert member.looks == 0
    fail(unconfirmed, answer(500, "InternalError"))
    assert await resolved(unconfirmed, member)
    assert member.looks == 1


@pytest.mark.proves("B13")
@pytest.mark.parametrize(
    "fault",
    [LeaseLost("over"), NotSent("Connection refused"), TLSVerificationFailed("another's")],
    ids=["no lease", "no connection", "another server"],
)
async def test_what_was_never_sent_is_in_no_doubt(
    unconfirmed: UnconfirmedWrites, fault: BaseException
):
    member = Member()
    fail(unconfirmed, fault)
    assert await resolved(unconfirmed, member)
    assert member.looks == 0


@pytest.mark.proves("B13")
async def test_a_write_whose_time_was_over_on_the_server_may_go_on_there(
    unconfirmed: UnconfirmedWrites, clock: FakeClock
):
    member = Member()
    fail(unconfirmed, answer(504, "Timeout"))
    assert not await resolved(unconfirmed, member)
    await clock.advance(RIPE_SECONDS)
    assert await resolved(unconfirmed, member)
    assert member.looks == 1


async def test_nothing_is_kept_of_what_left(unconfirmed: UnconfirmedWrites, shares: ShareTable):
    fail(unconfirmed, Unreachable("cut"))
    shares.drop_workload("u")
    assert await resolved(unconfirmed, Member())
    fail(unconfirmed, Unreachable("cut"))
    shares.drop_member("m1")
    assert await resolved(unconfirmed, Member())
