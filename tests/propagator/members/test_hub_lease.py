"""A copy of the hub beside the original: it finds each member held, and does nothing there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from crds.membercluster import ReadyReason
from crds.names import SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import LEASES
from machinery.api.responses import Unreadable
from machinery.errors import Conflict, Forbidden, LeaseLost, NotFound
from machinery.runtime.leader_election import Moment, PastTerm
from propagator.members import hub_lease
from propagator.members.hub_lease import (
    HELD_SECONDS,
    HUB_LEASE,
    RENEW_SECONDS,
    VALID_SECONDS,
    HubHolder,
    HubLease,
)
from stowage.playground.controlplanes import Cluster
from tests.fakeclock import FakeClock

# --- the rule -------------------------------------------------------------------------------------

HUB = HubHolder("hub-uid", "https://hub", "p1", Moment(7, "2026-01-01T00:00:10.000000Z"))
"""A hub whose seventh term is in force; the sixth ended at the beginning of that day."""
PAST = {6: PastTerm("p0", "2026-01-01T00:00:00.000000Z")}
HUB = replace(HUB, past=PAST)


def followed(*terms: PastTerm) -> HubHolder:
    """A hub after that many terms from the seventh on, whose holders and ends are told."""
    past = PAST | dict(enumerate(terms, 7))
    return replace(HUB, instance="p9", moment=Moment(7 + len(terms), "x"), past=past)


ENDED = PastTerm("p1", HUB.moment.renewed)
BEFORE = PastTerm("p1", "2026-01-01T00:00:05.000000Z")
NEXT = PastTerm("p2", "2026-01-02T00:00:00.000000Z")


class Member:
    """A member's only Lease, behind compare-and-swap."""

    name = "m1"

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.fault: Exception | None = None
        self.writes = 0

    async def get(self, *_: Any, **__: Any) -> dict[str, Any]:
        if self.fault is not None:
            raise self.fault
        if self.lease is None:
            raise NotFound(code=404, reason="NotFound", message="no such lease")
        return self.lease

    async def apply(self, _: Any, body: dict[str, Any], **__: Any) -> dict[str, Any]:
        found = self.lease["metadata"] if self.lease else {"resourceVersion": "1"}
        there, said = found["resourceVersion"], body["metadata"]
        # A server makes a new object for a version of one that is gone, unless the UID is named.
        if said.get("uid") != found.get("uid") or said["resourceVersion"] != there:
            raise Conflict(code=409, reason="Conflict", message="changed meanwhile")
        self.writes += 1
        version = {"resourceVersion": str(int(there) + 1), "uid": found.get("uid") or "lease-uid"}
        self.lease = body | {"metadata": body["metadata"] | version}
        return self.lease


class Leader:
    """Who may hold it; `leads` is whether a term of it lasts."""

    def __init__(self, member: Member, clock: FakeClock, who: HubHolder = HUB) -> None:
        self.who, self.leads = who, True
        self.lease = HubLease(
            member,  # type: ignore[arg-type] # it is asked for one Lease
            home="stowage-system",
            holder=self._holder,
            before_write=self._check,
            clock=clock,
        )

    async def _holder(self) -> HubHolder:
        return self.who

    def _check(self) -> None:
        if not self.leads:
            raise LeaseLost("the term is over")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def member() -> Member:
    return Member()


@pytest.mark.proves("N12")
async def test_it_is_renewed_now_and_then_and_in_a_term_alone(member: Member, clock: FakeClock):
    leader = Leader(member, clock)
    for _ in range(60):
        assert await leader.lease.check() is None
        await clock.advance(5)
    assert member.writes == 300 / RENEW_SECONDS
    assert await leader.lease.unheld() == ""
    leader.leads = False
    await clock.advance(VALID_SECONDS)
    assert await leader.lease.check() is None
    assert member.writes == 300 / RENEW_SECONDS
    assert "is renewed before anything is removed" in await leader.lease.unheld()


@pytest.mark.proves("N12")
@pytest.mark.parametrize(
    ("copy", "refused"),
    [
        (followed(ENDED), False),
        (followed(ENDED, NEXT, NEXT, NEXT), False),
        (followed(PastTerm("", ENDED.renewed)), False),
        (followed(BEFORE), True),
        (followed(BEFORE, NEXT), True),
        (followed(PastTerm("p3", NEXT.renewed)), True),
        (replace(HUB, instance="p2"), True),
        (replace(HUB, instance="p2", moment=Moment(5, "x"), past={}), True),
        (replace(HUB, instance="p2", moment=Moment(12, "x"), past={11: NEXT}), True),
    ],
    ids=[
        "the next term",
        "a later one",
        "the next term after another release",
        "a copy of before",
        "a copy whose leader changed twice",
        "a copy that had a seventh term of its own",
        "a copy in its term",
        "an old copy",
        "a history that is too short",
    ],
)
async def test_who_has_not_seen_the_last_renewal_is_another(
    member: Member, clock: FakeClock, copy: HubHolder, refused: bool
):
    original, another = Leader(member, clock), Leader(member, clock, copy)
    await original.lease.check()
    verdict = await another.lease.check()
    assert (verdict is not None) is refused
    assert another.lease.was_later is refused
    if verdict is not None:
        assert verdict.reason is ReadyReason.HELD_BY_ANOTHER_HUB
        assert "https://hub" in verdict.message
        assert await another.lease.unheld()
        for _ in range(20):  # for as long as the original is there
            await clock.advance(RENEW_SECONDS)
            assert await original.lease.check() is None
            assert await another.lease.check() is not None
        await clock.advance(HELD_SECONDS)
        assert await another.lease.check() is None
        assert await another.lease.unheld() == ""
    assert await original.lease.unheld(), "it was followed by another"


@pytest.mark.proves("N12")
async def test_another_hub_has_the_member_beside_us(member: Member, clock: FakeClock):
    await Leader(member, clock).lease.check()
    second = Leader(member, clock, replace(HUB, uid="second", moment=Moment(1, "x")))
    assert await second.lease.check() is None
    assert await second.lease.unheld() == ""
    assert member.writes == 1


@pytest.mark.proves("N12")
async def test_a_member_without_the_right_is_served_without(member: Member, clock: FakeClock):
    member.fault = Forbidden(code=403, reason="Forbidden", message="not for you")
    leader = Leader(member, clock)
    assert await leader.lease.check() is None
    assert await leader.lease.unheld() == ""
    member.fault = None
    await clock.advance(600)
    assert await leader.lease.check() is None
    assert member.writes == 1


@pytest.mark.proves("RB26", "S5")
@pytest.mark.parametrize("lacks", ["uid", "resourceVersion"])
async def test_a_lease_that_names_no_object_is_an_answer_that_cannot_be_read(
    member: Member, clock: FakeClock, lacks: str
):
    await Leader(member, clock).lease.check()
    assert member.lease is not None
    del member.lease["metadata"][lacks]
    writes = member.writes
    with pytest.raises(Unreadable, match="has no uid or version"):
        await Leader(member, clock).lease.check()
    assert member.writes == writes


@pytest.mark.proves("N11")
async def test_a_process_that_ends_before_it_has_judged_tells_the_next(
    member: Member, clock: FakeClock
):
    """The next one finds a Lease of its own hub, which says that the hub was set back."""
    await Leader(member, clock).lease.check()
    back = Leader(member, clock, followed(BEFORE)).lease
    assert await back.check() is not None
    await clock.advance(HELD_SECONDS)
    assert await back.check() is None
    after = followed(BEFORE, PastTerm("p9", "x"))
    heir = Leader(member, clock, replace(after, instance="p10")).lease
    assert await heir.check() is None
    assert heir.was_later
    await clock.advance(RENEW_SECONDS)
    assert await heir.check() is None, "the mark stays until what lies there is judged"
    heir.settled()
    await clock.advance(RENEW_SECONDS)
    assert await heir.check() is None
    last = followed(BEFORE, PastTerm("p9", "x"), PastTerm("p10", "x"))
    later = Leader(member, clock, replace(last, instance="p11")).lease
    assert await later.check() is None
    assert not later.was_later


class _Vanishing:
    """A client of a member whose Lease is deleted right after each look at it."""

    name = "m1"

    def __init__(self, client: ApiClient) -> None:
        self.apply = client.apply
        self._client = client

    async def get(self, *what: Any, **how: Any) -> dict[str, Any]:
        found = await self._client.get(*what, **how)
        await self._client.delete(LEASES, HUB_LEASE, namespace=SYSTEM_NAMESPACE)
        return found


@pytest.mark.proves("RB26")
async def test_a_lease_that_goes_after_the_look_at_it_is_not_made_of_what_was_seen(hub: Cluster):
    """A server makes a new object of an apply that names the version of one that is gone."""
    clock = FakeClock()
    async with ApiClient(hub.connection()) as client:

        def lease(of: Any) -> HubLease:
            async def holder() -> HubHolder:
                return HUB

            how: dict[str, Any] = {"before_write": lambda: None, "clock": clock}
            return HubLease(of, home=SYSTEM_NAMESPACE, holder=holder, **how)

        assert await lease(client).check() is None
        ours = lease(_Vanishing(client))
        assert await ours.check() is None
        with pytest.raises(NotFound):
            await client.get(LEASES, HUB_LEASE, namespace=SYSTEM_NAMESPACE)
        assert await ours.unheld(), "it does not hold the Lease"


# --- a real copy ----------------------------------------------------------------------------------


@pytest.mark.proves("SC19")
@pytest.mark.parametrize(
    ("term", "renewed", "later"),
    [(5, "2026-01-01T00:00:09Z", False), (5, "2026-01-01T00:00:11Z", True), (6, "", True)],
)
def test_a_moment_of_another_shard_is_judged_by_the_lease_of_that_shard(
    term: int, renewed: str, later: bool
) -> None:
    ours = HubHolder("hub", "a", "p0", Moment(5, "2026-01-01T00:00:00Z"), shard=0)
    spec = {"holderIdentity": "hub a p1", "leaseTransitions": term, "renewTime": renewed}
    meta = {"name": "stowage-hub", "annotations": {"stowage.dev/shard": "1"}}
    found = msgspec.convert({"metadata": meta, "spec": spec}, hub_lease._Lease)
    assert found.shard == 1
    others = {5: PastTerm("p1", "2026-01-01T00:00:10Z")}
    assert hub_lease._later(found, ours, others) is later
    assert hub_lease._later(found, ours, {}), "another hub has such a shard"
