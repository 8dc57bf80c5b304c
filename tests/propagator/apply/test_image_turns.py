"""The images of a cluster are taken by one Workload after the other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from machinery.api.resources import DEPLOYMENTS
from propagator.apply.image_turns import LONGEST_SECONDS, LOOK_SECONDS, ImageTurns
from propagator.apply.render import (
    ANNOTATION_HASH,
    ANNOTATION_TEMPLATE_HASH,
    Piece,
    render,
)
from propagator.members.objects import ManagedObject, managed
from propagator.shares import ShareTable
from propagator.types.workload import workload_of
from tests.fakeclock import FakeClock
from tests.propagator.apply.memberfacts import member_facts

OLD = [("docker.io", "old.example")]
NEW = [("docker.io", "new.example")]


def wanted(
    images: list[tuple[str, str]], uid: str = "u-1", image: str = "nginx", units: int = 2
) -> Piece:
    pods = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "a", "image": image}]},
    }
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": pods}
    template = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": spec,
    }
    body = {
        "metadata": {"namespace": "shop", "name": "web", "uid": uid},
        "spec": {"targetDeployment": template},
    }
    (piece,) = render(
        workload_of(body),
        replicas=units,
        first_ordinal=0,
        secrets=[],
        member=member_facts(images=images),
    )
    return piece


def live(piece: Piece, ready: int = 2) -> ManagedObject:
    """The object on the member after that was applied, with so many units ready."""
    status = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas"), ready)
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(piece.body))
    body["metadata"] |= {"uid": "o", "resourceVersion": "1", "generation": 1}
    body["status"] = {**status, "observedGeneration": 1}
    return managed(DEPLOYMENTS, body)


@pytest.fixture
def shares() -> ShareTable:
    return ShareTable()


@pytest.fixture
def turns(shares: ShareTable) -> ImageTurns:
    return ImageTurns(shares, clock=FakeClock())


@pytest.mark.proves("O12")
def test_an_object_that_the_images_change_tells_its_digest_without_them() -> None:
    plain, imaged, other = wanted([]), wanted(OLD), wanted([("quay.io", "x.example")])
    assert imaged.digest != plain.digest == plain.template_digest == imaged.template_digest
    assert imaged.body["metadata"]["annotations"][ANNOTATION_TEMPLATE_HASH] == plain.digest
    assert imaged.body["metadata"]["annotations"][ANNOTATION_HASH] == imaged.digest
    assert other.digest == plain.digest
    assert ANNOTATION_TEMPLATE_HASH not in other.body["metadata"]["annotations"]


class Member:
    """What a member shows of each Workload, by uid."""

    def __init__(self, turns: ImageTurns, name: str = "m1") -> None:
        self._turns, self._name = turns, name
        self.shown: dict[str, ManagedObject | None] = {}

    def pause(self, piece: Piece, uid: str, units: int = 2) -> float | None:
        return self._turns.pause(self._name, uid, piece, lambda: self.shown[uid], units)


@pytest.mark.proves("O13")
@pytest.mark.parametrize(("before", "after"), [(OLD, NEW), ([], NEW), (OLD, [])])
def test_the_second_waits_until_the_first_has_rolled(
    turns: ImageTurns, before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    one, two = wanted(after, "u-1"), wanted(after, "u-2")
    member, other = Member(turns), Member(turns, "m2")
    member.shown = {uid: live(wanted(before, uid)) for uid in ("u-1", "u-2")}
    other.shown = member.shown
    assert member.pause(one, "u-1") is None
    assert member.pause(two, "u-2") == LOOK_SECONDS, "nothing of it is shown yet"
    assert other.pause(two, "u-2") is None, "another member"
    member.shown["u-1"] = live(one, ready=1)
    assert member.pause(two, "u-2") == LOOK_SECONDS
    member.shown["u-1"] = live(one)
    assert member.pause(two, "u-2") is None


@pytest.mark.proves("O13")
def test_what_makes_another_difference_waits_for_nobody(turns: ImageTurns) -> None:
    member = Member(turns)
    member.shown = {f"u-{n}": live(wanted(OLD, f"u-{n}")) for n in range(1, 6)} | {"u-3": None}
    assert member.pause(wanted(NEW), "u-1") is None
    assert member.pause(wanted(NEW, "u-2", image="nginx:2"), "u-2") is None, "edited"
    assert member.pause(wanted(NEW, "u-3"), "u-3") is None, "a new one"
    assert member.pause(wanted(OLD, "u-4"), "u-4") is None, "nothing to do"
    assert member.pause(wanted(NEW, "u-5", units=3), "u-5", 3) is None, "scaled"


@pytest.mark.proves("O13")
@pytest.mark.parametrize("end", ["time", "ended", "left", "gone", "removed"])
async def test_nobody_holds_the_others_back_for_ever(
    turns: ImageTurns, shares: ShareTable, end: str
) -> None:
    clock: FakeClock = turns._clock  # type: ignore[assignment] # as it was given
    member, two = Member(turns), wanted(NEW, "u-2")
    member.shown = {uid: live(wanted(OLD, uid)) for uid in ("u-1", "u-2")}
    assert member.pause(wanted(NEW), "u-1") is None
    assert member.pause(two, "u-2") == LOOK_SECONDS
    match end:
        case "time":
            await clock.advance(LONGEST_SECONDS)
        case "ended":
            shares.drop_workload("u-1")
        case "left":
            shares.drop_share("u-1", "m2")
            assert member.pause(two, "u-2") == LOOK_SECONDS
            shares.drop_share("u-1", "m1")
        case "gone":
            member.shown["u-1"] = None
        case "removed":
            shares.drop_member("m1")
    assert member.pause(two, "u-2") is None


@pytest.mark.proves("O13")
def test_many_that_wait_ask_ten_times_a_second_together(
    turns: ImageTurns, shares: ShareTable
) -> None:
    member = Member(turns)
    member.shown = {f"u-{n}": live(wanted(OLD, f"u-{n}")) for n in range(41)}
    pauses = [member.pause(wanted(NEW, uid), uid) for uid in member.shown]
    assert pauses[0] is None
    assert pauses[1] == LOOK_SECONDS
    assert pauses[-1] == 4.0
    shares.drop_workload("u-7")
    assert member.pause(wanted(NEW, "u-8"), "u-8") == 3.9


@pytest.mark.proves("B6")
@pytest.mark.parametrize("to", [1, 5])
def test_the_turn_passes_on_though_its_workload_is_scaled_meanwhile(
    turns: ImageTurns, to: int
) -> None:
    member, two = Member(turns), wanted(NEW, "u-2")
    member.shown = {uid: live(wanted(OLD, uid)) for uid in ("u-1", "u-2")}
    assert member.pause(wanted(NEW), "u-1") is None
    scaled = wanted(NEW, units=to)
    for _ in range(2):
        assert member.pause(scaled, "u-1", to) is None
        assert member.pause(two, "u-2") == LOOK_SECONDS, "it rolls"
    member.shown["u-1"] = live(scaled, ready=to)
    assert member.pause(two, "u-2") is None


@pytest.mark.proves("B6")
def test_the_turn_passes_on_though_its_workload_is_edited_meanwhile(turns: ImageTurns) -> None:
    member, two = Member(turns), wanted(NEW, "u-2")
    member.shown = {uid: live(wanted(OLD, uid)) for uid in ("u-1", "u-2")}
    assert member.pause(wanted(NEW), "u-1") is None
    edited = wanted(NEW, image="nginx:2")
    assert member.pause(edited, "u-1") is None
    member.shown["u-1"] = live(edited)
    assert member.pause(two, "u-2") is None
