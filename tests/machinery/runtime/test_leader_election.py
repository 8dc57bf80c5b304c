"""Who leads, on a clock that stands still: takeover, loss, hanging requests, and giving up."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from machinery.api.verbs import ServerHistory
from machinery.clock import SystemClock
from machinery.errors import AlreadyExists, Conflict, LeaseLost, NotFound, Unreachable
from machinery.runtime.leader_election import PAST_TERMS, LeaderElector
from tests.fakeclock import FakeClock


class Leases:
    """One Lease in memory behind compare-and-swap, and the faults that a test asks for."""

    def __init__(self) -> None:
        self.history = ServerHistory()
        self.lease: dict[str, Any] | None = None
        self.writes: list[dict[str, Any]] = []
        self.down = False
        self.hung = False
        self.losing_answers = False  # writes arrive, their answers do not
        self.delay: Callable[[], Awaitable[None]] | None = None
        self._version = 0

    async def get(self, res: Any, name: str, **_: Any) -> dict[str, Any]:
        await self._travel()
        if self.lease is None:
            raise NotFound(code=404, reason="NotFound", message="no such lease")
        return copy.deepcopy(self.lease)

    async def create(self, res: Any, obj: dict[str, Any], **_: Any) -> dict[str, Any]:
        await self._travel()
        if self.lease is not None:
            raise AlreadyExists(code=409, reason="AlreadyExists", message="taken")
        self.lease = copy.deepcopy(obj)
        return await self._answer()

    async def merge_patch(
        self, res: Any, name: str, patch: dict[str, Any], **_: Any
    ) -> dict[str, Any]:
        await self._travel()
        if self.lease is None:
            raise NotFound(code=404, reason="NotFound", message="no such lease")
        if self.lease["metadata"]["resourceVersion"] != patch["metadata"]["resourceVersion"]:
            raise Conflict(code=409, reason="Conflict", message="changed meanwhile")
        self.lease["spec"] |= patch["spec"]
        noted = patch["metadata"].get("annotations", {})
        self.lease["metadata"].setdefault("annotations", {}).update(noted)
        return await self._answer()

    async def _travel(self) -> None:
        await asyncio.sleep(0)
        if self.delay:
            await self.delay()
        if self.hung:
            await asyncio.Event().wait()
        if self.down:
            raise Unreachable("down")

    async def _answer(self) -> dict[str, Any]:
        assert self.lease is not None
        self.touch()
        self.writes.append(copy.deepcopy(self.lease["spec"]))
        if self.losing_answers:
            await asyncio.Event().wait()
        return copy.deepcopy(self.lease)

    def copy(self) -> tuple[Any, int]:
        """What a backup has of the lease."""
        return copy.deepcopy(self.lease), self._version

    def set_back(self, backup: tuple[Any, int]) -> None:
        self.lease, self._version = copy.deepcopy(backup)

    def touch(self) -> None:
        self._version += 1
        self.lease["metadata"]["resourceVersion"] = str(self._version)

    def taken_by(self, holder: str, *, transitions: int = 5) -> None:
        self.lease = {
            "metadata": {"name": "lease"},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": 10,
                "leaseTransitions": transitions,
                "renewTime": "2020-01-01T00:00:00.000000Z",
            },
        }
        self.touch()


class Contender:
    """An elector that runs, and what its `lead` lived through."""

    def __init__(self, leases: Leases, clock: FakeClock, name: str, **how: Any) -> None:
        self.clock = clock
        self.elector = LeaderElector(
            leases,
            namespace="ns",
            name="lease",
            identity=name,
            clock=clock,
            jitter=lambda: 0.5,
            **how,
        )
        self.terms: list[list[float]] = []
        self.winding_up = 0.0
        self.finish = asyncio.Event()
        self.task = asyncio.create_task(self.elector.run(self.lead))

    async def lead(self) -> None:
        self.elector.check()
        self.terms.append([self.clock.monotonic()])
        try:
            await self.finish.wait()
        finally:
            if self.winding_up:
                await self.clock.sleep(self.winding_up)
            self.terms[-1].append(self.clock.monotonic())

    @property
    def at_work(self) -> bool:
        return bool(self.terms) and len(self.terms[-1]) == 1

    async def stop(self) -> None:
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task

    def kill(self) -> None:
        """As SIGKILL leaves it: nothing is released, nothing renewed."""
        self.elector._client = Leases()
        self.elector._client.down = True
        self.task.cancel()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def leases() -> Leases:
    return Leases()


@pytest.fixture
async def contend(leases, clock):
    contenders = []

    def start(name: str, **how: Any) -> Contender:
        contenders.append(Contender(how.pop("leases", leases), clock, name, **how))
        return contenders[-1]

    yield start
    for contender in contenders:
        contender.task.cancel()
        contender.elector._client.hung = False
    await clock.advance(30)
    await asyncio.gather(*(c.task for c in contenders), return_exceptions=True)


@pytest.mark.proves("RB24")
async def test_it_says_for_how_long_it_leads(leases, clock, contend):
    """Counted from when the last renewal began; a write ends by then."""
    a = contend("a")
    await clock.advance(0)
    assert a.elector.check() == 7.0
    await clock.advance(1.5)
    assert a.elector.check() == 5.5
    await clock.advance(0.5)
    assert a.elector.check() == 7.0


async def test_leads_and_renews(leases, clock, contend):
    a = contend("a")
    assert not a.elector.leading
    await clock.advance(60)
    assert a.terms == [[0.0]]
    assert a.elector.leading
    assert a.elector.leader == "a"
    a.elector.check()
    spec = leases.lease["spec"]
    assert spec["holderIdentity"] == "a"
    assert spec["leaseDurationSeconds"] == 10
    assert spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert spec["renewTime"] == "2026-01-01T00:01:00.000000Z"
    assert len(leases.writes) == 31


def transitions(leases: Leases) -> int:
    """The number of the term, which grows with every change of the holder."""
    assert leases.lease is not None
    return int(leases.lease["spec"]["leaseTransitions"])


async def test_the_standby_waits_and_knows_who_leads(clock, contend):
    contend("a")
    await clock.advance(1)
    b = contend("b")
    await clock.advance(60)
    assert b.terms == []
    assert not b.elector.leading
    assert b.elector.leader == "a"
    with pytest.raises(LeaseLost, match="b does not hold"):
        b.elector.check()


@pytest.mark.proves("W22")
async def test_takes_over_within_15_seconds_of_a_kill(leases, clock, contend):
    a = contend("a")
    await clock.advance(1)
    b = contend("b")
    await clock.advance(61)
    first = transitions(leases)
    a.kill()
    await clock.advance(9)
    assert b.terms == []  # not before the lease has run out
    await clock.advance(6)
    assert b.at_work
    assert b.elector.leader == "b"
    assert transitions(leases) == first + 1


async def test_a_clean_stop_hands_over_at_once(leases, clock, contend):
    a, b = contend("a"), contend("b")
    await clock.advance(10)
    await a.stop()
    assert a.terms == [[0.0, 10.0]]
    assert leases.lease["spec"]["holderIdentity"] == ""
    assert leases.lease["spec"]["leaseTransitions"] == 1
    assert not a.elector.leading
    await clock.advance(2.5)
    assert b.at_work
    assert transitions(leases) == 2


async def test_keeps_the_lease_while_lead_winds_up(clock, contend):
    a, b = contend("a"), contend("b")
    await clock.advance(10)
    a.winding_up = 30.0
    a.task.cancel()
    await clock.advance(29)
    assert a.elector.leading
    assert b.terms == []
    await clock.advance(4)
    assert a.terms == [[0.0, 40.0]]
    assert b.at_work


async def test_another_clock_does_not_matter(leases, clock, contend):
    """renewTime is years ago; the lease is free only when we saw it unchanged for its duration."""
    leases.taken_by("other")
    b = contend("b")
    await clock.advance(9.9)
    assert b.terms == []
    await clock.advance(0.2)
    assert b.at_work
    assert transitions(leases) == 6


async def test_looks_again_at_the_moment_it_runs_out(leases, clock, contend):
    leases.taken_by("other")
    b = contend("b", retry_seconds=3.0)
    await clock.advance(10.1)
    assert b.terms == [[10.0]]


async def test_a_label_prolongs_nothing(leases, clock, contend):
    leases.taken_by("other")
    b = contend("b")
    for _ in range(11):
        await clock.advance(1)
        leases.touch()
    assert b.at_work


async def test_a_longer_lease_of_the_holder_is_respected(leases, clock, contend):
    leases.taken_by("other")
    leases.lease["spec"]["leaseDurationSeconds"] = 60
    b = contend("b")
    await clock.advance(59)
    assert b.terms == []
    await clock.advance(2)
    assert b.at_work


@pytest.mark.parametrize("fault", ["hung", "down"])
async def test_lead_ends_before_another_can_take_over(leases, clock, contend, fault):
    a = contend("a", leases=(way := Way(leases)))
    await clock.advance(3)
    b = contend("b")
    await clock.advance(20)
    assert a.at_work
    setattr(way, fault, True)
    cut = clock.monotonic()
    await clock.advance(15)
    ended, began = a.terms[-1][1], b.terms[-1][0]
    assert cut + 4.9 <= ended <= cut + 7.0  # from the start of the last renewal, 7 s
    assert began >= ended + 2.9
    assert began <= cut + 15
    assert transitions(leases) == 2
    setattr(way, fault, False)
    await clock.advance(10)
    assert not a.elector.leading
    assert a.elector.leader == "b"


class Way(Leases):
    """Another connection to the same lease, which can be cut by itself."""

    def __init__(self, target: Leases) -> None:
        super().__init__()
        self.target = target

    async def get(self, *args: Any, **how: Any) -> Any:
        await self._travel()
        return await self.target.get(*args, **how)

    async def create(self, *args: Any, **how: Any) -> Any:
        await self._travel()
        return await self.target.create(*args, **how)

    async def merge_patch(self, *args: Any, **how: Any) -> Any:
        await self._travel()
        answer = await self.target.merge_patch(*args, **how)
        if self.losing_answers:
            raise Unreachable("the answer was lost")
        return answer


async def test_check_does_not_wait_for_the_watchdog(clock, contend):
    a = contend("a")
    await clock.advance(1)
    a.elector.check()
    clock._elapsed += 60  # the process was stopped: nothing of ours ran meanwhile
    assert not a.elector.leading
    with pytest.raises(LeaseLost):
        a.elector.check()


async def test_one_slow_renewal_costs_nothing(leases, clock, contend):
    a = contend("a")
    await clock.advance(3)
    leases.hung = True
    await clock.advance(3)
    leases.hung = False
    await clock.advance(30)
    assert a.terms == [[0.0]]


async def test_a_failed_renewal_is_tried_again_soon(leases, clock, contend):
    a = contend("a")
    await clock.advance(1.9)
    leases.down = True
    await clock.advance(4.4)
    leases.down = False
    await clock.advance(30)
    assert a.terms == [[0.0]]


async def test_the_time_that_the_request_took_counts_against_us(leases, clock, contend):
    leases.delay = lambda: clock.sleep(1.0)
    a = contend("a")
    await clock.advance(2.1)
    assert a.terms == [[2.0]]  # the lease was read, then asked for at second 1
    leases.delay, leases.down = None, True
    await clock.advance(5.8)
    assert a.elector.leading
    await clock.advance(0.2)
    assert not a.elector.leading


async def test_a_lost_lease_is_not_renewed_while_lead_winds_up(leases, clock, contend):
    a = contend("a")
    await clock.advance(1)
    a.winding_up = 20.0
    leases.down = True
    await clock.advance(7)
    assert not a.elector.leading
    writes = len(leases.writes)
    leases.down = False
    await clock.advance(10)
    assert a.at_work  # winding up still
    assert len(leases.writes) == writes
    assert not a.elector.leading


async def test_a_renewal_that_comes_too_late_revives_nothing(leases, clock, contend):
    a = contend("a")
    await clock.advance(1)
    a.winding_up = 20.0
    leases.down = True
    await clock.advance(5)
    leases.down, leases.delay = False, lambda: clock.sleep(1.2)
    await clock.advance(0.9)
    writes = len(leases.writes)
    assert a.elector.leading
    await clock.advance(0.9)  # the lease ran out at second 7, its renewal arrives just after
    assert len(leases.writes) == writes + 1
    assert not a.elector.leading


async def test_leads_again_after_an_outage(leases, clock, contend, caplog):
    a = contend("a")
    await clock.advance(3)
    leases.down = True
    await clock.advance(60)
    assert not a.at_work
    assert a.elector.leader is None
    leases.down = False
    await clock.advance(3)
    assert a.at_work
    assert len(a.terms) == 2
    assert transitions(leases) == 2  # another term
    assert sum("down" in record.message for record in caplog.records) == 1  # said once


async def test_a_lost_answer_to_a_renewal_is_not_a_lost_lease(leases, clock, contend):
    a = contend("a")
    await clock.advance(1)
    leases.losing_answers = True
    await clock.advance(2)
    leases.losing_answers = False
    await clock.advance(30)
    assert a.terms == [[0.0]]


async def test_a_label_on_our_lease_is_not_a_lost_lease(leases, clock, contend):
    a = contend("a")
    for _ in range(10):
        await clock.advance(2)
        leases.touch()
    assert a.terms == [[0.0]]


async def test_another_holder_ends_it_at_the_next_renewal(leases, clock, contend):
    a = contend("a")
    await clock.advance(3)
    leases.taken_by("usurper")
    await clock.advance(1.5)
    assert not a.elector.leading
    assert not a.at_work
    assert a.elector.leader == "usurper"


async def test_a_namesake_is_somebody_else(leases, clock, contend):
    a = contend("same")
    await clock.advance(3)
    b = contend("same")
    await clock.advance(30)
    assert b.terms == []
    assert a.at_work


async def test_a_namesake_that_took_over_is_somebody_else(leases, clock, contend):
    a = contend("a")
    await clock.advance(3)
    leases.taken_by("a", transitions=9)
    await clock.advance(1.5)
    assert not a.elector.leading
    assert not a.at_work


async def test_an_earlier_life_of_ours_is_waited_for(leases, clock, contend):
    leases.taken_by("a")
    a = contend("a")
    await clock.advance(9)
    assert a.terms == []
    assert a.elector.leader is None
    await clock.advance(2)
    assert a.at_work


async def test_a_deleted_lease_is_a_lost_one(leases, clock, contend):
    a = contend("a")
    await clock.advance(3)
    leases.lease = None
    await clock.advance(1.2)
    assert len(a.terms[0]) == 2
    await clock.advance(3)
    assert a.at_work


async def test_two_that_start_together_do_not_both_lead(clock, contend):
    contenders = [contend(name) for name in "abcde"]
    await clock.advance(30)
    assert sum(c.at_work for c in contenders) == 1
    assert {c.elector.leader for c in contenders} == {
        c.elector.identity for c in contenders if c.at_work
    }


async def test_returns_when_lead_returns(leases, clock, contend):
    a = contend("a")
    await clock.advance(1)
    a.finish.set()
    await a.task
    assert leases.lease["spec"]["holderIdentity"] == ""


async def test_what_lead_raises_comes_out_and_the_lease_is_given_up(leases, clock):
    async def lead() -> None:
        raise RuntimeError("a bug")

    elector = LeaderElector(leases, namespace="ns", name="lease", identity="a", clock=clock)
    running = asyncio.create_task(elector.run(lead))
    await clock.advance(1)
    with pytest.raises(RuntimeError, match="a bug"):
        await running
    assert leases.lease["spec"]["holderIdentity"] == ""


async def test_what_fails_as_the_lease_is_lost_is_logged_and_we_go_on(
    leases, clock, contend, caplog
):
    a = contend("a")
    await clock.advance(1)

    async def fail() -> None:
        raise RuntimeError("on the way out")

    a.clock = type("Clock", (), {"monotonic": clock.monotonic, "sleep": lambda *_: fail()})()
    a.winding_up = 1.0
    leases.taken_by("other")
    with caplog.at_level(logging.ERROR):
        await clock.advance(5)
    assert not a.task.done()
    [failure] = [record for record in caplog.records if record.exc_info]
    assert failure.exc_info[0] is RuntimeError


async def test_a_stop_while_the_server_is_away_ends(leases, clock, contend):
    a = contend("a")
    await clock.advance(1)
    leases.hung = True
    a.task.cancel()
    await clock.advance(6)
    assert a.task.done()


async def test_a_renewal_cut_off_by_the_stop_does_not_prevent_the_release(leases, clock, contend):
    a = contend("a")
    await clock.advance(1.9)
    leases.losing_answers = True
    await clock.advance(0.2)
    leases.losing_answers = False
    await a.stop()
    assert leases.lease["spec"]["holderIdentity"] == ""


async def test_nor_does_one_that_arrives_between_the_look_and_the_release(leases, clock, contend):
    a = contend("a")
    await clock.advance(1)
    late, look = [leases.touch], leases.get

    async def get(*about: Any, **where: Any) -> dict[str, Any]:
        found = await look(*about, **where)
        if late:
            late.pop()()
        return found

    leases.get = get
    await a.stop()
    assert leases.lease["spec"]["holderIdentity"] == ""


async def test_unknown_fields_of_the_lease_survive(leases, clock, contend):
    leases.taken_by("")
    leases.lease["spec"]["strategy"] = "OldestEmulationVersion"
    contend("a")
    await clock.advance(1)
    assert leases.lease["spec"]["strategy"] == "OldestEmulationVersion"


@pytest.mark.parametrize(
    "durations",
    [
        {"lease_seconds": 7.0},
        {"renew_deadline": 2.0},
        {"retry_seconds": 0.0},
        {"identity": ""},
    ],
)
def test_durations_that_promise_nothing_are_refused(leases, clock, durations):
    how = {"identity": "a"} | durations
    with pytest.raises(ValueError, match=r"must hold|identity"):
        LeaderElector(leases, namespace="ns", name="lease", clock=clock, **how)


@pytest.mark.proves("N6")
async def test_after_an_outage_of_the_server_the_one_that_led_goes_on_at_once(
    leases, clock, contend
):
    a = contend("a")
    await clock.advance(1)
    b = contend("b")
    await clock.advance(20)
    for seconds in (15, 60):
        leases.down = True
        await clock.advance(seconds)
        assert not a.at_work
        assert a.elector.leader is None
        leases.down = False
        await clock.advance(2.5)
        assert a.at_work
        assert a.elector.alone
    assert b.terms == []
    leases.down = True
    await clock.advance(15)
    a.kill()
    leases.down = False
    await clock.advance(13)
    assert b.at_work, "it waits for the other once, and not for ever"
    assert not b.elector.alone


@pytest.mark.proves("N6")
@pytest.mark.parametrize("answered", [True, False])
async def test_it_knows_that_another_led_in_between(leases, clock, contend, answered):
    a = contend("a", leases=(way := Way(leases)))
    await clock.advance(1)
    b = contend("b")
    way.down = True
    await clock.advance(30)
    assert b.at_work
    b.kill()
    way.down = False
    way.losing_answers = not answered
    await clock.advance(15)
    way.losing_answers = False
    await clock.advance(15)
    assert a.at_work
    assert not a.elector.alone


@pytest.mark.proves("N6", "N11")
@pytest.mark.parametrize("seen", ["by its version", "by its term"])
async def test_a_lease_that_was_set_back_hides_who_led_since(leases, clock, contend, seen):
    """The copy names the one that led first, which saw another lead and would not believe it."""
    a = contend("a", leases=(way := Way(leases)))
    await clock.advance(1)
    backup = leases.copy()
    b = contend("b")
    way.down = True
    await clock.advance(30)
    way.down = False
    await clock.advance(5)
    assert (a.elector.leader, way.history.number) == ("b", 0)
    b.kill()
    leases.set_back(backup if seen == "by its version" else (backup[0], 1000))
    if seen == "by its term":
        leases.touch()
    await clock.advance(2.5)
    assert a.at_work
    assert not a.elector.alone
    assert way.history.number == 1
    way.down = True
    await clock.advance(15)
    way.down = False
    await clock.advance(2.5)
    assert a.elector.alone, "after that term it knows all again"


@pytest.mark.proves("N6", "N11")
async def test_who_leads_when_the_lease_is_set_back_begins_another_term(leases, clock, contend):
    a = contend("a")
    await clock.advance(10)
    backup = leases.copy()
    await clock.advance(10)
    leases.set_back(backup)
    await clock.advance(5)
    assert len(a.terms) == 2
    assert not a.elector.alone
    assert leases.history.number == 1


@pytest.mark.proves("N12")
async def test_the_lease_tells_of_past_terms_and_who_held_them(leases, clock, contend):
    a = contend("a")
    await clock.advance(10)
    first = a.elector.moment
    a.kill()
    b = contend("b")
    await clock.advance(30)
    await b.stop()
    second = leases.lease["spec"]["renewTime"]
    c = contend("c")
    await clock.advance(1)
    assert c.elector.moment.term == 3
    assert c.elector.past == {1: ("a", first.renewed), 2: ("b", second)}
    leases.lease["metadata"]["annotations"][PAST_TERMS] = "[]"
    c.kill()
    d = contend("d")
    await clock.advance(30)
    assert list(d.elector.past) == [3], "nobody else's text is an error"


@pytest.mark.proves("N12")
async def test_a_leader_whose_machine_slept_knows_that_its_term_is_over(leases, monkeypatch):
    """CLOCK_MONOTONIC stands still meanwhile; no test can put this machine to sleep."""
    slept, read = 0.0, time.clock_gettime

    def awake(which: int) -> float:
        return read(which) + (slept if which == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", awake)
    elector = LeaderElector(leases, namespace="ns", name="lease", identity="a", clock=SystemClock())
    leads = asyncio.Event()

    async def lead() -> None:
        leads.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(elector.run(lead))
    await leads.wait()
    elector.check()
    slept = 60.0
    with pytest.raises(LeaseLost):
        elector.check()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
