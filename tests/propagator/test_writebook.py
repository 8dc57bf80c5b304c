"""What was written stands until it, or what is wanted, changes; what is fought over rests longer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from machinery.resources import Resource
from propagator.managed import ManagedObject
from propagator.model import Workload
from propagator.render import Piece, render
from propagator.writebook import FIGHT_SECONDS, LONGEST_TRUCE, Place, WriteBook
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
    (piece,) = render(msgspec.convert(body, Workload), units=1, first_ordinal=0, secrets=[])
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
def book(clock: FakeClock) -> WriteBook:
    return WriteBook(clock=clock)


@pytest.mark.proves("C32")
def test_a_write_stands_until_something_of_it_is_changed(book: WriteBook):
    piece = piece_of()
    assert not book.stands(PLACE, piece, lying(piece), "u-1"), "nothing was written yet"
    book.remember(PLACE, piece, lying(piece))
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


@pytest.mark.proves("C32")
async def test_truces_grow_while_an_object_is_fought_over(book: WriteBook, clock: FakeClock):
    piece = piece_of()
    assert book.truce(PLACE, piece) == 0
    truces = []
    for _ in range(12):
        book.remember(PLACE, piece, lying(piece))
        truces.append(book.truce(PLACE, piece))
        await clock.advance(max(truces[-1], 0))
        assert book.truce(PLACE, piece) <= 0, "a truce ends"
    assert truces[:4] == [0, 0.5, 1.5, 3.5]
    assert truces[-1] == LONGEST_TRUCE
    assert book.truce(PLACE, piece_of("y")) == 0, "an edit does not wait"
    await clock.advance(LONGEST_TRUCE + FIGHT_SECONDS)
    assert book.truce(PLACE, piece) <= 0
    book.remember(PLACE, piece, lying(piece))
    assert book.truce(PLACE, piece) == 0.5, "after a long peace it begins anew"


def test_a_member_that_went_is_forgotten_and_no_other(book: WriteBook):
    piece = piece_of()
    elsewhere = Place.of("m2", DEPLOYMENTS, piece)
    for place in (PLACE, elsewhere):
        book.remember(place, piece, lying(piece))
        book.give_back(place)
    book.forget("m1")
    assert not book.stands(PLACE, piece, lying(piece), "u-1")
    assert not book.given_back(PLACE)
    assert book.stands(elsewhere, piece, lying(piece), "u-1")
    assert book.given_back(elsewhere)
    book.remember(elsewhere, piece, lying(piece))
    assert not book.given_back(elsewhere), "what is written again is ours"


async def test_one_worker_at_a_time_is_at_work_in_a_place(book: WriteBook):
    assert book.lock(PLACE) is not book.lock(Place.of("m2", DEPLOYMENTS, piece_of()))
    async with book.lock(PLACE):
        assert book.lock(PLACE).locked()
    assert not book.lock(PLACE).locked()


def test_a_kind_without_namespaces_lies_in_none():
    assert Place.of("m1", CLUSTER_ROLES, piece_of()).key == ("", "web")
    assert PLACE.key == ("shop", "web")
