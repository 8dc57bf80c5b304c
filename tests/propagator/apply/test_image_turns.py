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
from propagator.types.workload import workload_of
from tests.fakeclock import FakeClock
from tests.propagator.apply.sites import site

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
        workload_of(body), replicas=units, first_ordinal=0, secrets=[], site=site(images=images)
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
def turns() -> ImageTurns:
    return ImageTurns(clock=FakeClock())


@pytest.mark.proves("O12")
def test_an_object_that_the_images_change_tells_its_digest_without_them() -> None:
    plain, imaged, other = wanted([]), wanted(OLD), wanted([("quay.io", "x.example")])
    assert imaged.digest != plain.digest == plain.template_digest == imaged.template_digest
    assert imaged.body["metadata"]["annotations"][ANNOTATION_TEMPLATE_HASH] == plain.digest
    assert imaged.body["metadata"]["annotations"][ANNOTATION_HASH] == imaged.digest
    assert other.digest == plain.digest
    assert ANNOTATION_TEMPLATE_HASH not in other.body["metadata"]["annotations"]


@pytest.mark.proves("O13")
@pytest.mark.parametrize(("before", "after"), [(OLD, NEW), ([], NEW), (OLD, [])])
def test_the_second_waits_until_the_first_has_rolled(
    turns: ImageTurns, before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    one, two = wanted(after, "u-1"), wanted(after, "u-2")
    first, second = live(wanted(before, "u-1")), live(wanted(before, "u-2"))
    assert turns.pause("m1", "u-1", one, first, 2) is None
    assert turns.pause("m1", "u-2", two, second, 2) == LOOK_SECONDS
    assert turns.pause("m2", "u-2", two, second, 2) is None, "another member"
    assert turns.pause("m1", "u-1", one, live(one, ready=1), 2) is None
    assert turns.pause("m1", "u-2", two, second, 2) == LOOK_SECONDS
    assert turns.pause("m1", "u-1", one, live(one), 2) is None
    assert turns.pause("m1", "u-2", two, second, 2) is None


@pytest.mark.proves("O13")
def test_what_makes_another_difference_waits_for_nobody(turns: ImageTurns) -> None:
    assert turns.pause("m1", "u-1", wanted(NEW), live(wanted(OLD)), 2) is None
    edited = wanted(NEW, "u-2", image="nginx:2")
    assert turns.pause("m1", "u-2", edited, live(wanted(OLD, "u-2")), 2) is None
    assert turns.pause("m1", "u-3", wanted(NEW, "u-3"), None, 2) is None, "a new one"
    assert turns.pause("m1", "u-4", wanted(OLD, "u-4"), live(wanted(OLD, "u-4")), 2) is None
    scaled = wanted(NEW, "u-5", units=3)
    assert turns.pause("m1", "u-5", scaled, live(wanted(OLD, "u-5")), 3) is None


@pytest.mark.proves("O13")
async def test_nobody_holds_the_others_back_for_ever(turns: ImageTurns) -> None:
    clock: FakeClock = turns._clock  # type: ignore[assignment] # as it was given
    two, second = wanted(NEW, "u-2"), live(wanted(OLD, "u-2"))
    for end in ("time", "ended", "left", "removed"):
        turns.removed("m1")
        assert turns.pause("m1", "u-1", wanted(NEW), live(wanted(OLD)), 2) is None
        assert turns.pause("m1", "u-2", two, second, 2) == LOOK_SECONDS
        match end:
            case "time":
                await clock.advance(LONGEST_SECONDS)
            case "ended":
                turns.ended("u-1")
            case "left":
                turns.ended("u-1", "m2")
                assert turns.pause("m1", "u-2", two, second, 2) == LOOK_SECONDS
                turns.ended("u-1", "m1")
            case "removed":
                turns.removed("m1")
        assert turns.pause("m1", "u-2", two, second, 2) is None
