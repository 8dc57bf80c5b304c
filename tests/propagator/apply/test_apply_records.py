"""What was written stands until it, or what is wanted, changes; what is fought over rests longer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import structs

from crds.names import OWNER_PREFIX
from machinery.api.resources import Resource
from propagator.apply.apply_records import (
    CONTESTED_ROUNDS,
    LONGEST_BACKOFF,
    UNCONTESTED_SECONDS,
    ApplyRecords,
    Backoff,
    ObjectPlace,
)
from propagator.apply.ownership import owned_by_all
from propagator.apply.render import Piece, render
from propagator.members.objects import ManagedObject
from propagator.shares import ShareTable
from propagator.types.workload import workload_of
from tests.fakeclock import FakeClock
from tests.propagator.apply.memberfacts import member_facts

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False
)


def piece_of(image: str = "x") -> Piece:
    template = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}},
    }
    body = {
        "metadata": {"namespace": "shop", "name": "demo", "uid": "u-1"},
        "spec": {"targetDeployment": template},
    }
    (piece,) = render(
        workload_of(body), replicas=1, first_ordinal=0, secrets=[], member=member_facts()
    )
    return piece


def lying(piece: Piece, **meta: Any) -> ManagedObject:
    """The piece as a member shows it."""
    there = {**piece.body["metadata"], "uid": "o-1", "generation": 1, **meta}
    return msgspec.convert({"metadata": there}, ManagedObject)


PLACE = ObjectPlace.of("m1", DEPLOYMENTS, piece_of())


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def shares() -> ShareTable:
    return ShareTable()


@pytest.fixture
def book(shares: ShareTable, clock: FakeClock) -> ApplyRecords:
    return ApplyRecords(shares, clock=clock)


@pytest.mark.proves("C32")
def test_owners_that_join_one_after_the_other_contest_nothing(book: ApplyRecords):
    """A rival that takes the owner away changes what our apply owns, and that is a round."""
    piece = piece_of()
    book.remember(PLACE, piece, lying(piece), "u-1")
    for number in range(2, 3 * CONTESTED_ROUNDS):
        assert not book.stands(PLACE, piece, lying(piece), f"u-{number}")
        assert book.backoff(PLACE, piece, lying(piece)) is None
        book.remember(PLACE, piece, lying(piece), f"u-{number}")
    assert book.contest(PLACE, piece) is None
    bare = lying(piece, annotations={}, generation=2)
    assert not book.stands(PLACE, piece, bare, "u-1")
    book.remember(PLACE, piece, lying(piece), "u-1")
    assert not book.stands(PLACE, piece, bare, "u-1")
    assert book.backoff(PLACE, piece, bare) is not None


@pytest.mark.proves("C32")
def test_a_write_stands_until_something_of_it_is_changed(book: ApplyRecords):
    piece = piece_of()
    assert not book.stands(PLACE, piece, lying(piece), "u-1"), "nothing was written yet"
    book.remember(PLACE, piece, lying(piece), "u-1")
    assert book.stands(PLACE, piece, lying(piece), "u-1")
    assert not book.stands(PLACE, piece, lying(piece, generation=2), "u-1")
    assert not book.stands(PLACE, piece, lying(piece, uid="o-2"), "u-1")
    assert not book.stands(PLACE, piece, lying(piece, labels={}), "u-1")
    assert not book.stands(PLACE, piece, lying(piece), "u-2"), "not of that owner"
    assert not book.stands(PLACE, piece_of("y"), lying(piece), "u-1"), "something else is wanted"
    leaving = lying(piece, deletionTimestamp="2026-01-01T00:00:00Z")
    assert not book.stands(PLACE, piece, leaving, "u-1")
    book.removed(PLACE)
    assert not book.stands(PLACE, piece, lying(piece), "u-1")


def kept(backoff: Backoff | None) -> float:
    return backoff.seconds if backoff is not None else 0.0


@pytest.mark.proves("C32", "R10", "R11")
async def test_backoffs_grow_while_an_object_is_fought_over(book: ApplyRecords, clock: FakeClock):
    piece = piece_of()
    assert book.backoff(PLACE, piece, None) is None
    backoffs = []
    for _ in range(12):
        book.remember(PLACE, piece, lying(piece), "u-1")
        backoffs.append(kept(book.backoff(PLACE, piece, None)))
        await clock.advance(backoffs[-1])
        assert book.backoff(PLACE, piece, None) is None, "a backoff ends"
    assert backoffs[:4] == [0, 0.5, 1.5, 3.5]
    assert backoffs[-1] == LONGEST_BACKOFF
    assert book.backoff(PLACE, piece_of("y"), None) is None, "an edit does not wait"
    await clock.advance(UNCONTESTED_SECONDS - LONGEST_BACKOFF)
    book.remember(PLACE, piece, lying(piece), "u-1")
    assert kept(book.backoff(PLACE, piece, None)) == LONGEST_BACKOFF, "no peace yet"
    await clock.advance(UNCONTESTED_SECONDS + 1)
    book.remember(PLACE, piece, lying(piece), "u-1")
    assert book.backoff(PLACE, piece, None) is None, "after a long peace it begins anew"


@pytest.mark.proves("R11")
async def test_a_fight_is_told_with_the_names_of_who_fights_until_there_is_peace(
    book: ApplyRecords, clock: FakeClock
):
    piece = piece_of()
    theirs = structs.replace(lying(piece), rivals=("kube-controller-manager (scale)",))
    for _ in range(CONTESTED_ROUNDS):
        book.remember(PLACE, piece, lying(piece), "u-1")
        assert book.contest(PLACE, piece) is None, "once or twice is no fight"
        book.backoff(PLACE, piece, theirs)
        await clock.advance(LONGEST_BACKOFF)
    book.remember(PLACE, piece, lying(piece), "u-1")
    backoff = book.contest(PLACE, piece)
    assert backoff is not None
    assert "Deployment shop/web" in backoff.sentence
    assert "kube-controller-manager (scale)" in backoff.sentence
    await clock.advance(backoff.seconds)
    assert book.contest(PLACE, piece) is None, "it stood for as long as the backoff"


async def rounds(book: ApplyRecords, clock: FakeClock, number: int, *, seconds: float = 1) -> Piece:
    """Written so many times, and each time changed back after some seconds."""
    piece = piece_of()
    for _ in range(number):
        book.remember(PLACE, piece, lying(piece), "u-1")
        await clock.advance(seconds)
        book.backoff(PLACE, piece, lying(piece, generation=2))
    book.remember(PLACE, piece, lying(piece), "u-1")
    return piece


@pytest.mark.proves("N5")
@pytest.mark.parametrize(("seconds", "peace"), [(0.1, 5), (15, 30), (100, UNCONTESTED_SECONDS)])
async def test_a_fight_is_over_once_the_object_has_stood_twice_as_long_as_ever(
    book: ApplyRecords, clock: FakeClock, seconds: float, peace: float
):
    piece = await rounds(book, clock, 8, seconds=seconds)
    assert kept(book.contest(PLACE, piece)) == pytest.approx(peace)
    await clock.advance(peace - 0.1)
    assert book.contest(PLACE, piece) is not None
    await clock.advance(0.2)
    assert book.contest(PLACE, piece) is None


@pytest.mark.proves("N5")
@pytest.mark.parametrize("uid", ["o-1", "its-owner", ""])
async def test_what_we_removed_was_changed_back_by_nobody(
    book: ApplyRecords, clock: FakeClock, uid: str
):
    """An object, and one that the garbage collector takes along with another."""
    piece = piece_of()
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "its-owner"}
    for number in range(5):
        found = lying(piece, uid=f"o-{number}", ownerReferences=[reference])
        book.remember(PLACE, piece, found, "u-1")
        book.sent_removal(f"o-{number}" if uid == "o-1" else uid)
        await clock.advance(1)
        if uid:
            assert book.backoff(PLACE, piece, None) is None
    fight = book.contest(PLACE, piece)
    assert (fight is None) is bool(uid)
    if fight is not None:
        assert "Deployment shop/web is deleted each time it is written, by somebody" in (
            fight.sentence
        )


@pytest.mark.proves("N5")
async def test_who_wrote_last_to_what_is_deleted_each_time_is_named(
    book: ApplyRecords, clock: FakeClock
):
    piece = piece_of()
    theirs = structs.replace(lying(piece, generation=2), rivals=("argocd-controller",))
    for number in range(4):
        book.remember(PLACE, piece, lying(piece, uid=f"o-{number}"), "u-1")
        if number == 1:
            book.backoff(PLACE, piece, structs.replace(theirs, metadata=theirs.metadata))
        book.backoff(PLACE, piece, None)
        await clock.advance(LONGEST_BACKOFF)
    book.remember(PLACE, piece, lying(piece, uid="o-9"), "u-1")
    fight = book.contest(PLACE, piece)
    assert fight is not None
    assert "deleted each time" in fight.sentence
    assert "argocd-controller wrote to it last" in fight.sentence


@pytest.mark.proves("N5")
async def test_removals_are_remembered_for_as_long_as_a_round_counts(
    book: ApplyRecords, clock: FakeClock
):
    for number in range(100):
        book.sent_removal(f"o-{number}")
        await clock.advance(UNCONTESTED_SECONDS / 10)
    assert len(book._removals) <= 11


@pytest.mark.proves("N5", "R11")
@pytest.mark.parametrize(
    "end",
    [
        lambda shares: shares.drop_share("u-1", "m1"),
        lambda shares: shares.drop_member("m1"),
        lambda shares: shares.drop_workload("u-1"),
        lambda shares: shares.new_term(alone=False),
    ],
)
def test_of_a_share_that_ended_nothing_is_remembered(
    book: ApplyRecords, shares: ShareTable, end: Callable[[ShareTable], None]
):
    piece = piece_of()
    book.remember(PLACE, piece, lying(piece), "u-1")
    end(shares)
    assert not book.wrote(PLACE, piece)
    assert not book._written


async def test_one_worker_at_a_time_is_at_work_in_a_place(book: ApplyRecords):
    assert book.lock(PLACE) is not book.lock(ObjectPlace.of("m2", DEPLOYMENTS, piece_of()))
    async with book.lock(PLACE):
        assert book.lock(PLACE).locked()
    assert not book.lock(PLACE).locked()


def test_a_kind_without_namespaces_lies_in_none():
    assert ObjectPlace.of("m1", CLUSTER_ROLES, piece_of()).key == ("", "web")
    assert PLACE.key == ("shop", "web")


@pytest.mark.proves("R3")
def test_a_place_is_the_same_in_every_version_of_its_kind():
    older = Resource("apps", "v1beta1", "deployments", "Deployment")
    assert ObjectPlace.of("m1", older, piece_of()) == PLACE
    assert hash(ObjectPlace.of("m1", older, piece_of())) == hash(PLACE)
    elsewhere = Resource("extensions", "v1beta1", "deployments", "Deployment")
    assert ObjectPlace.of("m1", elsewhere, piece_of()) != PLACE


@pytest.mark.proves("B10")
def test_a_record_ends_with_its_object_or_its_owners(
    book: ApplyRecords, shares: ShareTable
) -> None:
    piece = piece_of()

    def written() -> None:
        for uid in ("u-1", "u-2", "u-1"):
            book.remember(PLACE, piece, lying(piece), uid)

    written()
    book.removed(PLACE)
    assert (book._written, *map(book._places.of, ("u-1", "u-2"))) == ({}, {}, {})
    written()
    for uid in ("u-1", "u-2"):
        shares.drop_workload(uid)
    assert (book._written, *map(book._places.of, ("u-1", "u-2"))) == ({}, {}, {})


@pytest.mark.proves("C28")
def test_an_apply_of_what_others_own_as_well_fails_where_that_has_changed() -> None:
    """Else it would bring back an owner that has left meanwhile, whose object nobody removes then."""
    own, other = piece_of(), {f"{OWNER_PREFIX}u-2": "shop/other"}
    live = lying(own, resourceVersion="7")
    for piece, version in ((own, None), (dataclasses.replace(own, shared=True), "7")):
        body = owned_by_all(piece, other, DEPLOYMENTS, live, version="3")
        assert body["metadata"].get("resourceVersion") == version
        assert body["metadata"]["uid"] == "o-1"
