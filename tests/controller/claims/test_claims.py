"""Claims on a quota: what counts, for how long, and which decisions stand no longer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, cast

import msgspec
import pytest

from controller.claims.claims import (
    CLAIM_SECONDS,
    LANDED_SECONDS,
    WRITE_SECONDS,
    ClaimLedger,
    HeldClaim,
    Shares,
    admitted,
)
from controller.claims.controller import MOST_CLAIMING, MOST_WAITING
from controller.config import default_profile
from controller.eventhandlers import SchedulerCache, known
from controller.features.workloadpolicy.counts import WorkloadPolicy
from controller.features.workloadpolicy.feature import WorkloadPolicies
from controller.features.workloadpolicy.plugin import WorkloadPolicyPlugin as Plugin
from controller.framework.interface import CycleState
from controller.framework.runtime.feature import Term
from controller.model.unit import WorkloadInfo
from controller.queue.scheduling_queue import WORKERS
from controller.snapshot.snapshot import Snapshot
from machinery.errors import Unreachable
from machinery.runtime.store import Cache
from machinery.types.api import Claim, ClaimedShare
from machinery.types.metadata import Key
from tests.alive import Names
from tests.controller.make import ZONE, cluster, decided, info, policy_spec, workload
from tests.fakeclock import FakeClock, settle

KEY = ("shop", "web")


def claim(uid: str = "u1", holder: str = "other", time: str = "t1", **shares: int) -> Claim:
    placements = [ClaimedShare(cluster, units) for cluster, units in shares.items()]
    return Claim("shop/web", uid, holder, placements, time)


def policy(*claims: Claim, generation: int = 1) -> tuple[int, tuple[Claim, ...]]:
    """What the ledger reads of one."""
    return generation, claims


def showing(shares: Shares | None) -> object:
    def seen(key: Key, uid: str) -> Shares | None:
        assert (key, uid) == (KEY, "u1")
        return shares

    return seen


@pytest.fixture
def ledger() -> ClaimLedger:
    found = ClaimLedger("me")
    found.learn(*policy(), 0.0)
    return found


@pytest.mark.proves("K24")
def test_what_another_one_takes_ends_what_was_decided_before(ledger):
    epoch = ledger.epoch
    assert not ledger.learn(*policy(), 1.0)
    assert not ledger.learn(*policy(claim(holder="me", a=1)), 1.0), "our own changes nothing"
    assert ledger.epoch == epoch
    assert ledger.learn(*policy(claim(a=1)), 1.0)
    assert ledger.epoch == epoch + 1
    assert not ledger.learn(*policy(claim(a=1)), 2.0), "the same one again"
    assert ledger.learn(*policy(claim(a=1, time="t2")), 3.0), "the same shares, taken anew"
    assert not ledger.learn(*policy(), 4.0), "one less takes nothing from anybody"


def test_an_edit_of_the_policy_ends_it_too(ledger):
    assert ledger.learn(*policy(generation=2), 1.0)


def test_a_policy_made_anew_does_not_pass_for_the_one_that_was_deleted():
    epochs = count(1)
    before, after = ClaimLedger("me", epochs), ClaimLedger("me", epochs)
    before.learn(*policy(), 0.0)
    decided = before.epoch
    assert after.learn(*policy(), 1.0), "of the same name, the same generation, without a claim"
    assert after.epoch != decided
    assert len({ClaimLedger("me", epochs).epoch for _ in range(3)} | {decided, after.epoch}) == 5


@pytest.mark.proves("K24")
def test_a_claim_counts_as_far_as_its_workload_does_not_show_it(ledger):
    ledger.learn(*policy(claim(a=2, b=1)), 0.0)
    assert ledger.foreign(showing({}), 1.0) == {KEY: {"a": 2, "b": 1}}
    assert ledger.foreign(showing({"a": 1}), 1.0) == {KEY: {"a": 1, "b": 1}}
    assert ledger.foreign(showing({"a": 5, "b": 1}), 1.0) == {}
    assert ledger.foreign(showing(None), 1.0) == {}, "a deleted Workload takes nothing"


@pytest.mark.proves("K24")
def test_a_claim_of_a_scheduler_that_died_is_void_after_a_while(ledger):
    ledger.learn(*policy(claim(a=2)), 10.0)
    before, after = 10.0 + CLAIM_SECONDS - 0.1, 10.0 + CLAIM_SECONDS
    assert ledger.foreign(showing({}), before)
    assert ledger.foreign(showing({}), after) == {}
    assert ledger.told(showing({}), after) == []
    assert not ledger.learn(*policy(claim(a=2)), after), "and does not come back"
    assert ledger.foreign(showing({}), after) == {}


def test_one_that_has_landed_is_told_until_others_have_seen_it(ledger):
    ledger.add(HeldClaim(KEY, "u1", {"a": 1}, "me", "t", 0.0))
    assert [t.uid for t in ledger.told(showing({}), 20.0)] == ["u1"]
    assert ledger.told(showing({"a": 1}), 21.0)
    assert ledger.told(showing({"a": 1}), 20.0 + LANDED_SECONDS)
    assert ledger.told(showing({"a": 1}), 21.0 + LANDED_SECONDS) == []
    assert ledger.own == {}


def test_our_own_claims_are_no_ghosts(ledger):
    ledger.add(HeldClaim(KEY, "u1", {"a": 1}, "me", "t", 0.0))
    assert ledger.foreign(showing({}), 1.0) == {}


class TestRoom:
    """How many claims one write may take."""

    def claims(self, *sizes: int) -> list[HeldClaim]:
        found = []
        for n, size in enumerate(sizes):
            least = HeldClaim(("shop", f"w{n}"), f"u{n}", {"": 1}, "me", "t", 0.0).size
            taken = HeldClaim(("shop", f"w{n}"), f"u{n}", {"c" * (size - least): 1}, "me", "t", 0.0)
            assert taken.size == size
            found.append(taken)
        return found

    @pytest.mark.parametrize(
        ("known", "wanted", "chosen"),
        [
            ([], [400, 400, 200], {"u0", "u1", "u2"}),
            ([], [400, 400, 201], {"u0", "u1"}),
            ([400], [400, 300, 200], {"u1", "u3"}),
            ([400], [1001, 200], set()),
            ([], [1001, 200], {"u0"}),
            ([], [200, 1001, 200], {"u0"}),
            ([1001], [200], set()),
        ],
    )
    def test_who_waits(
        self,
        monkeypatch: pytest.MonkeyPatch,
        known: list[int],
        wanted: list[int],
        chosen: set[str],
    ) -> None:
        monkeypatch.setattr("controller.claims.claims.CLAIM_BYTES", 1000)
        claims = self.claims(*known, *wanted)
        assert admitted(claims[: len(known)], claims[len(known) :]) == chosen

    def test_who_claims_anew_needs_no_room_twice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("controller.claims.claims.CLAIM_BYTES", 1000)
        before, other = self.claims(600, 300)
        assert admitted([before, other], [before]) == {"u0"}

    def test_no_more_than_the_kind_allows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("controller.claims.claims.MOST_CLAIMS", 3)
        assert admitted(self.claims(200, 200), self.claims(*[200] * 5)[2:]) == {"u2"}


def bounding(uid: str) -> WorkloadPolicy:
    """A Required policy of three units, as it is when it was just made."""
    meta = {"name": "demo", "namespace": "shop", "uid": uid, "generation": 1}
    return msgspec.convert({"metadata": meta, "spec": policy_spec(host=3)}, WorkloadPolicy)


class Process:
    """A feature in a process that leads: a handle, a fleet, a clock that stands still."""

    def __init__(self) -> None:
        self.holder = "me"
        self.clock = FakeClock()
        self.plugin = Plugin()
        self.plugins = [self.plugin]
        self.feature = WorkloadPolicies()
        self.feature.attach(self)
        self.world = SchedulerCache(
            {"stowage"},
            sort=default_profile().queue_sort,
            reviewed=lambda _: True,
            ledgers=self.feature.ledgers,
        )
        self.policies = Cache[WorkloadPolicy]()
        self.policies.add_handler(self.feature.watches[0].handler)
        self.hub = Answering(self.policies)
        self.policies.upsert = self.policies.observe  # type: ignore[attr-defined]
        informer = cast("Any", self.policies)
        hub, nobody = cast("Any", self.hub), cast("Any", None)
        term = Term(hub, self.clock, lambda: None, lambda _: informer, nobody)
        self.quotas = self.feature.lead(term)

    def snapshot(self) -> Snapshot:
        return self.world.snapshot()

    def announce(self, *_about: Any) -> None:
        """Nobody waits."""

    async def claim(self, info: WorkloadInfo, placements: Shares) -> bool:
        """What PreBind does of a decision that was made just now."""
        return await self.quotas.claim(info, placements, self.quotas.epoch(info))

    def claims(self) -> list[Claim]:
        """As the hub tells them."""
        (policy,) = self.policies.values()
        return policy.status.claims


class Answering:
    """A hub of one kind: it takes every status."""

    def __init__(self, policies: Cache[WorkloadPolicy]) -> None:
        self._policies = policies
        self._version = 10

    async def request(self, method: str, path: str, *, body: Any, content_type: str) -> bytes:
        (stored,) = self._policies.values()
        self._version += 1
        document = msgspec.to_builtins(stored)
        document["metadata"] |= {"resourceVersion": str(self._version)}
        document["status"] = {**document["status"], **body["status"]}
        return msgspec.json.encode(document)


BOUND = {"labels": {"stowage.dev/workload-policy": "demo"}}


@pytest.mark.proves("K24")
async def test_a_decision_that_waited_while_its_policy_was_made_anew_is_made_again():
    process = Process()
    process.policies.observe(bounding("one"))
    bound = info("web", **BOUND)
    decision = decided(bound, cluster("h1", {ZONE: "host"}), bound=process.world.index)
    assert decision.placements == {"h1": 2}
    plugin, state = process.plugin, decision.cycle_state
    assert plugin.reserve(state, bound, decision.placements).ok
    process.policies.observe(bounding("two"))  # a deletion and an addition
    async with asyncio.timeout(30):
        assert not (await plugin.pre_bind(state, bound, decision.placements)).ok


@pytest.mark.proves("K24", "L5")
async def test_a_claim_is_told_until_its_write_has_landed_however_slow_that_is():
    process = Process()
    process.policies.observe(bounding("one"))
    bound = info("web", **BOUND)
    decision = decided(bound, cluster("h1", {ZONE: "host"}), bound=process.world.index)
    process.world.assume(bound, decision.placements)
    writing = asyncio.create_task(process.quotas.run())
    assert await process.claim(bound, decision.placements)
    for second in range(0, int(CLAIM_SECONDS), 5):
        assert [claim.uid for claim in process.claims()] == ["uid-web"], f"after {second} s"
        await process.clock.advance(5)
    written = known(workload("web", present=decision.placements, **BOUND))
    process.feature.workload_changed(None, written)
    await process.clock.advance(2 * LANDED_SECONDS + 5)
    assert process.claims() == []
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing


@pytest.mark.proves("K24")
async def test_who_finds_no_room_for_long_is_told_to_decide_anew(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("controller.claims.claims.CLAIM_BYTES", 600)
    process, wide = Process(), {f"cluster-{n}": 1 for n in range(10)}
    process.policies.observe(bounding("one"))
    writing = asyncio.create_task(process.quotas.run())
    assert await process.claim(info("first", **BOUND), wide)
    asking = [
        asyncio.create_task(process.claim(info(f"w{n}", **BOUND), wide))
        for n in range(MOST_WAITING + 2)
    ]
    await process.clock.advance(2)
    assert [each.done() for each in asking].count(True) == 2, "so many wait, and no more"
    await process.clock.advance(WRITE_SECONDS)
    assert [each.done() and each.result() for each in asking] == [False] * len(asking)
    assert all(each.done() for each in asking)
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing


@pytest.mark.proves("K24")
async def test_who_waits_is_told_so_when_the_method_of_the_policy_cannot_be_written():
    process = Process()
    process.hub.request = taking_statuses_alone(process.hub.request)  # type: ignore[method-assign]
    method_missing = msgspec.to_builtins(bounding("one"))
    del method_missing["spec"]["allocationMethod"]
    process.policies.observe(msgspec.convert(method_missing, WorkloadPolicy))
    writing = asyncio.create_task(process.quotas.run())
    asking = asyncio.create_task(process.claim(info("first", **BOUND), {"h1": 1}))
    await process.clock.advance(1)
    assert asking.done()
    with pytest.raises(Unreachable):
        await asking
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing


def taking_statuses_alone(request: Any) -> Any:
    """A hub that takes statuses alone."""

    async def asked(method: str, path: str, *, body: Any, content_type: str) -> bytes:
        if "spec" in body:
            raise Unreachable("not now")
        answer: bytes = await request(method, path, body=body, content_type=content_type)
        return answer

    return asked


@pytest.mark.proves("L15")
async def test_no_more_than_half_of_the_workers_wait_for_the_write_of_one_policy():
    process = Process()
    process.policies.observe(bounding("one"))
    units = [info(f"w{n}", **BOUND) for n in range(40)]
    asking = [asyncio.create_task(process.claim(each, {"h1": 1})) for each in units]
    await settle()  # nobody writes: the hub does not answer
    answered = [each.result() for each in asking if each.done()]
    assert answered == [False] * (len(asking) - MOST_CLAIMING)
    assert MOST_CLAIMING <= WORKERS // 2
    for each in asking:
        each.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


@pytest.mark.proves("L15")
async def test_a_decision_that_is_never_bound_leaves_nothing_behind():
    process = Process()
    process.policies.observe(bounding("one"))
    names = Names()
    for n in range(20):
        bound, state = replace(info("w", **BOUND), name=names.give(f"w{n}")), CycleState()
        process.plugin.reserve(state, bound, {"h1": 1})
        process.plugin.unreserve(state, bound, {"h1": 1})
    del bound, state
    assert names.kept() == 0
