"""Claims on a quota: what counts, for how long, and which decisions stand no longer."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any, cast

import msgspec
import pytest

from controller.claims import CLAIM_SECONDS, LANDED_SECONDS, Ledger, Shares, Taken, admitted
from controller.config import default_profile
from controller.model import Claim, Placement, PolicyStatus, WorkloadPolicy
from controller.quotas import Quotas
from controller.world import World
from machinery.cache import Cache
from machinery.clock import SystemClock
from machinery.objects import Key, Meta

from .make import ZONE, cluster, decided, unit

KEY = ("shop", "web")


def claim(uid: str = "u1", holder: str = "other", time: str = "t1", **shares: int) -> Claim:
    placements = [Placement(cluster, units) for cluster, units in shares.items()]
    return Claim("shop/web", uid, holder, time, placements)


def policy(*claims: Claim, generation: int = 1) -> WorkloadPolicy:
    meta = Meta(name="demo", namespace="shop", generation=generation)
    return WorkloadPolicy(metadata=meta, status=PolicyStatus(claims=list(claims)))


def showing(shares: Shares | None) -> object:
    def seen(key: Key, uid: str) -> Shares | None:
        assert (key, uid) == (KEY, "u1")
        return shares

    return seen


@pytest.fixture
def ledger() -> Ledger:
    found = Ledger("me")
    found.learn(policy(), 0.0)
    return found


@pytest.mark.proves("K24")
def test_what_another_one_takes_ends_what_was_decided_before(ledger):
    epoch = ledger.epoch
    assert not ledger.learn(policy(), 1.0)
    assert not ledger.learn(policy(claim(holder="me", a=1)), 1.0), "our own changes nothing"
    assert ledger.epoch == epoch
    assert ledger.learn(policy(claim(a=1)), 1.0)
    assert ledger.epoch == epoch + 1
    assert not ledger.learn(policy(claim(a=1)), 2.0), "the same one again"
    assert ledger.learn(policy(claim(a=1, time="t2")), 3.0), "the same shares, taken anew"
    assert not ledger.learn(policy(), 4.0), "one less takes nothing from anybody"


def test_an_edit_of_the_policy_ends_it_too(ledger):
    assert ledger.learn(policy(generation=2), 1.0)


def test_a_policy_made_anew_does_not_pass_for_the_one_that_was_deleted():
    epochs = count(1)
    before, after = Ledger("me", epochs), Ledger("me", epochs)
    before.learn(policy(), 0.0)
    decided = before.epoch
    assert after.learn(policy(), 1.0), "of the same name, the same generation, without a claim"
    assert after.epoch != decided
    assert len({Ledger("me", epochs).epoch for _ in range(3)} | {decided, after.epoch}) == 5


@pytest.mark.proves("K24")
def test_a_claim_counts_as_far_as_its_workload_does_not_show_it(ledger):
    ledger.learn(policy(claim(a=2, b=1)), 0.0)
    assert ledger.ghosts(showing({}), 1.0) == {KEY: {"a": 2, "b": 1}}
    assert ledger.ghosts(showing({"a": 1}), 1.0) == {KEY: {"a": 1, "b": 1}}
    assert ledger.ghosts(showing({"a": 5, "b": 1}), 1.0) == {}
    assert ledger.ghosts(showing(None), 1.0) == {}, "a deleted Workload takes nothing"


@pytest.mark.proves("K24")
def test_a_claim_of_a_scheduler_that_died_is_void_after_a_while(ledger):
    ledger.learn(policy(claim(a=2)), 10.0)
    before, after = 10.0 + CLAIM_SECONDS - 0.1, 10.0 + CLAIM_SECONDS
    assert ledger.ghosts(showing({}), before)
    assert ledger.ghosts(showing({}), after) == {}
    assert ledger.told(showing({}), after) == []
    assert not ledger.learn(policy(claim(a=2)), after), "and does not come back"
    assert ledger.ghosts(showing({}), after) == {}


def test_one_that_has_landed_is_told_until_others_have_seen_it(ledger):
    ledger.add(Taken(KEY, "u1", {"a": 1}, "me", "t", 0.0))
    assert [t.uid for t in ledger.told(showing({}), 20.0)] == ["u1"]
    assert ledger.told(showing({"a": 1}), 21.0)
    assert ledger.told(showing({"a": 1}), 20.0 + LANDED_SECONDS)
    assert ledger.told(showing({"a": 1}), 21.0 + LANDED_SECONDS) == []
    assert ledger.own == {}


def test_our_own_claims_are_no_ghosts(ledger):
    ledger.add(Taken(KEY, "u1", {"a": 1}, "me", "t", 0.0))
    assert ledger.ghosts(showing({}), 1.0) == {}


class TestRoom:
    """How many claims one write may take."""

    def claims(self, *sizes: int) -> list[Taken]:
        found = []
        for n, size in enumerate(sizes):
            least = Taken(("shop", f"w{n}"), f"u{n}", {"": 1}, "me", "t", 0.0).size
            taken = Taken(("shop", f"w{n}"), f"u{n}", {"c" * (size - least): 1}, "me", "t", 0.0)
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
        monkeypatch.setattr("controller.claims.CLAIM_BYTES", 1000)
        claims = self.claims(*known, *wanted)
        assert admitted(claims[: len(known)], claims[len(known) :]) == chosen

    def test_who_claims_anew_needs_no_room_twice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("controller.claims.CLAIM_BYTES", 1000)
        before, other = self.claims(600, 300)
        assert admitted([before, other], [before]) == {"u0"}

    def test_no_more_than_the_kind_allows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("controller.claims.MOST_CLAIMS", 3)
        assert admitted(self.claims(200, 200), self.claims(*[200] * 5)[2:]) == {"u2"}


def bounding(uid: str) -> WorkloadPolicy:
    """A Required policy of three units, as it is when it was just made."""
    meta = {"name": "demo", "namespace": "shop", "uid": uid, "generation": 1}
    rules = {
        "topologyKey": ZONE,
        "labelSelector": {},
        "allocationPolicy": [{"name": "host", "replicas": 3}],
        "allocationType": "Required",
        "allocationMethod": "Balance",
    }
    return msgspec.convert({"metadata": meta, "spec": rules}, WorkloadPolicy)


@pytest.mark.proves("K24")
async def test_a_decision_that_waited_while_its_policy_was_made_anew_is_made_again():
    world = World({"stowage"}, sort=default_profile().queue_sort, reviewed=lambda _: True)
    policies = Cache[WorkloadPolicy]()
    policies.add_handler(world.policy_changed)
    policies.observe(bounding("one"))
    quotas = Quotas(
        cast("Any", None),
        policies=cast("Any", policies),
        world=world,
        holder="me",
        clock=SystemClock(),
        check=lambda: None,
    )
    bound = unit("web", labels={"stowage.dev/workload-policy": "demo"})
    decision = decided(bound, cluster("h1", {ZONE: "host"}), bound=world.index)
    assert decision.placements == {"h1": 2}
    quotas.decided(decision)
    policies.observe(bounding("two"))  # a deletion and an addition
    async with asyncio.timeout(1):
        assert not await quotas.claim(bound, decision.placements)
