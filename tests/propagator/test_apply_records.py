"""What was written stands until it, or what is wanted, changes; what is fought over rests longer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import structs

from machinery.api.resources import Resource
from propagator.execution.apply_records import (
    LONGEST_BACKOFF,
    OPEN_FIGHT,
    PEACE_SECONDS,
    ApplyRecords,
    Backoff,
    Place,
)
from propagator.execution.render import Piece, render
from propagator.hub.workload_types import workload_of
from propagator.members.objects import ManagedObject
from tests.fakeclock import FakeClock

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
    (piece,) = render(workload_of(body), units=1, first_ordinal=0, secrets=[])
    return piece


def lying(piece: Piece, **meta: Any) -> ManagedObject:
    """The piece as a member shows it."""
    there = {**piece.body["metadata"], "uid": "o-1", "generation": 1, **meta}
    return msgspec.convert({"metadata": there}, ManagedObject)


PLACE = Place.of("m1", DEPLOYMENTS, piece_of())


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def book(clock: FakeClock) -> ApplyRecords:
    return ApplyRecords(clock=clock)


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
    await clock.advance(PEACE_SECONDS - LONGEST_BACKOFF)
    book.remember(PLACE, piece, lying(piece), "u-1")
    assert kept(book.backoff(PLACE, piece, None)) == LONGEST_BACKOFF, "no peace yet"
    await clock.advance(PEACE_SECONDS + 1)
    book.remember(PLACE, piece, lying(piece), "u-1")
    assert book.backoff(PLACE, piece, None) is None, "after a long peace it begins anew"


@pytest.mark.proves("R11")
async def test_a_fight_is_told_with_the_names_of_who_fights_until_there_is_peace(
    book: ApplyRecords, clock: FakeClock
):
    piece = piece_of()
    theirs = structs.replace(lying(piece), rivals=("kube-controller-manager (scale)",))
    for _ in range(OPEN_FIGHT):
        book.remember(PLACE, piece, lying(piece), "u-1")
        assert book.fight(PLACE, piece) is None, "once or twice is no fight"
        book.backoff(PLACE, piece, theirs)
        await clock.advance(LONGEST_BACKOFF)
    book.remember(PLACE, piece, lying(piece), "u-1")
    backoff = book.fight(PLACE, piece)
    assert backoff is not None
    assert "Deployment shop/web" in backoff.sentence
    assert "kube-controller-manager (scale)" in backoff.sentence
    await clock.advance(backoff.seconds)
    assert book.fight(PLACE, piece) is None, "it stood for as long as the backoff"


@pytest.mark.proves("R11")
def test_of_a_workload_that_ended_nothing_is_remembered(book: ApplyRecords):
    piece = piece_of()
    book.remember(PLACE, piece, lying(piece), "u-1")
    book.ended("u-1")
    assert not book._written
    assert not book._places


def test_a_member_that_went_is_forgotten_and_no_other(book: ApplyRecords):
    piece = piece_of()
    elsewhere = Place.of("m2", DEPLOYMENTS, piece)
    for place in (PLACE, elsewhere):
        book.remember(place, piece, lying(piece), "u-1")
    book.forget("m1")
    assert not book.stands(PLACE, piece, lying(piece), "u-1")
    assert book.stands(elsewhere, piece, lying(piece), "u-1")


async def test_one_worker_at_a_time_is_at_work_in_a_place(book: ApplyRecords):
    assert book.lock(PLACE) is not book.lock(Place.of("m2", DEPLOYMENTS, piece_of()))
    async with book.lock(PLACE):
        assert book.lock(PLACE).locked()
    assert not book.lock(PLACE).locked()


def test_a_kind_without_namespaces_lies_in_none():
    assert Place.of("m1", CLUSTER_ROLES, piece_of()).key == ("", "web")
    assert PLACE.key == ("shop", "web")


@pytest.mark.proves("R3")
def test_a_place_is_the_same_in_every_version_of_its_kind():
    older = Resource("apps", "v1beta1", "deployments", "Deployment")
    assert Place.of("m1", older, piece_of()) == PLACE
    assert hash(Place.of("m1", older, piece_of())) == hash(PLACE)
    elsewhere = Resource("extensions", "v1beta1", "deployments", "Deployment")
    assert Place.of("m1", elsewhere, piece_of()) != PLACE
