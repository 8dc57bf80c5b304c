"""Members are shared out by a hash, and no two processes serve one at a time."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from machinery.types.shards import (
    MOST_SHARDS,
    Claim,
    Rival,
    Step,
    lease_name,
    owner,
    shards_of,
)
from tests.machinery.shards.model import (
    NUMBERS,
    SHARDS,
    Fault,
    Holder,
    Shard,
    State,
    reached,
    settled,
    writers,
)

MEMBERS = [f"member-{n}" for n in range(1000)]


def moved(name: str) -> tuple[int, ...]:
    return tuple(owner(name, number) for number in NUMBERS)


KINDS = {moved(f"m{n}"): f"m{n}" for n in reversed(range(40))}
"""A member for each way in which one moves between three shards."""


@pytest.mark.proves("SC2")
def test_the_owner_is_the_shard_with_the_greatest_hash() -> None:
    for name in MEMBERS[:50]:
        hashes = [
            int.from_bytes(hashlib.blake2b(f"{name}\0{i}".encode(), digest_size=8).digest(), "big")
            for i in range(5)
        ]
        assert owner(name, 5) == hashes.index(max(hashes))
    assert owner("any", 1) == 0


@pytest.mark.proves("SC5")
def test_one_more_shard_takes_its_part_and_nothing_else_moves() -> None:
    for number in (1, 2, 3, 4, 7, 63):
        before = [owner(name, number) for name in MEMBERS]
        after = [owner(name, number + 1) for name in MEMBERS]
        moves = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        assert {new for _, new in moves} <= {number}
        assert abs(len(moves) - 1000 / (number + 1)) < 100
    assert len({lease_name(shard) for shard in range(MOST_SHARDS)}) == MOST_SHARDS
    assert (lease_name(0), lease_name(3)) == ("stowage-propagator", "stowage-propagator-3")


@pytest.mark.proves("SC10")
@pytest.mark.parametrize(
    ("said", "number"),
    [("1", 1), ("64", 64), ("0", None), ("65", None), ("x", None), ("", None), ("-1", None),
     ("1.5", None), ("٣", None), ("9" * 5000, None), (" 3", None)],
)  # fmt: skip
def test_a_number_of_shards(said: str, number: int | None) -> None:
    assert shards_of(said) == number


def test_one_shard_that_never_had_another_reads_no_other_lease() -> None:
    claim = Claim(0, 1, None)
    assert claim.alone
    assert claim.step is Step.SERVE
    assert claim.serves("any")
    assert not Claim(0, 1, None, answered=False).serves("any")
    assert Claim(0, 1, 1).step is Step.READ, "there were others"


def test_a_held_lease_that_says_no_number_may_claim_any_member() -> None:
    assert Rival(2, 0, held=True).claims("any")
    assert Rival(2, None, held=True).claims("any")
    assert not Rival(2, None, held=False).claims("any")
    assert Rival(0, None, held=False).claims("any"), "whoever takes it reads nothing"


def two(name: str, depth: int, **how: Any) -> State | None:
    found = (state for state, _ in reached(name, depth=depth, **how) if writers(state) > 1)
    return next(found, None)


@pytest.mark.proves("SC6")
def test_no_two_serve_one_member() -> None:
    assert len(KINDS) == 4
    for name in KINDS.values():
        assert two(name, 3) is None


SERVES = Holder(1, serves=True, writes=True, read=(1, 2))
ALONE = (
    Shard(1, held=True, holder=SERVES),
    Shard(2, held=True, holder=Holder(2, read=(2,))),
    Shard(1),
)
"""The first shard serves, and has read; the second one still reads."""
TWO = (*(Shard(n, held=True, holder=Holder(n, read=(2,))) for n in (2, 1)), Shard(2))
"""Both have begun to read, and each would serve by the other's number."""


@pytest.mark.proves("SC6")
@pytest.mark.parametrize(
    ("first", "fault"),
    [
        (ALONE, lambda claim: replace(claim, serving=frozenset())),
        (TWO, lambda claim: replace(claim, announced=claim.shards, answered=True)),
        (ALONE, lambda claim: replace(claim, rivals=claim.rivals or {})),
    ],
    ids=["drop", "announce", "read"],
)
def test_each_part_of_the_rule_is_needed(first: State, fault: Fault) -> None:
    assert two(KINDS[0, 1, 1], 4, first=first, fault=fault) is not None
    assert two(KINDS[0, 1, 1], 3, first=first) is None


@pytest.mark.proves("SC5")
def test_after_any_trouble_one_serves() -> None:
    for state, _ in reached(KINDS[0, 1, 2], depth=1):
        ends(state, KINDS[0, 1, 2], orders=[SHARDS])


def ends(state: State, name: str, *, orders: list[tuple[int, ...]]) -> None:
    for shards in NUMBERS:
        for order in orders:
            after = settled(state, name, shards, order)
            serving = [n for n, each in enumerate(after) if each.holder and each.holder.serves]
            assert serving == [owner(name, shards)], (state, shards, order, after)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.proves("SC6")
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_all_runs_of_three_shards(kind: tuple[int, ...]) -> None:
    """Some hundred thousand states: no two serve, and from each of them one comes to serve."""
    name, states = KINDS[kind], 0
    for state, _ in reached(name):
        states += 1
        assert writers(state) < 2, state
        if states % 97 == 0:
            ends(state, name, orders=[*permutations(SHARDS)][states % 6 :][:1])
    assert states > 50_000
