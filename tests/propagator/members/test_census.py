"""What is searched for on a member, and what a member says it is. No server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from crds.names import ANNOTATION_COUNTED
from machinery.api.resources import MEMBER_CLUSTERS, Resource
from machinery.errors import TransportError
from machinery.runtime.informer import Informer
from machinery.tasks import end
from propagator.hub.watched_kinds import Census
from propagator.members.cluster_identity import cluster_id
from propagator.types.cluster import MemberCluster
from tests.fakeclock import FakeClock, settle
from tests.memoryhub import MemoryHub
from tests.propagator.contexts import Context

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
UID = "uid-of-kube-system"


class Member:
    """Answers with whatever it was given."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer

    async def get(self, *_: object) -> dict[str, Any]:
        return self._answer


@pytest.mark.proves("S10")
@pytest.mark.parametrize(
    ("answer", "uid"),
    [
        ({"metadata": {"uid": "123"}}, "123"),
        ({}, ""),
        ({"metadata": {"name": "kube-system"}}, ""),
        ({"metadata": {"uid": "\x1b[31m1\n2"}}, "[31m1 2"),
        ({"metadata": {"uid": "x" * 1000}}, "x" * 127 + "…"),
    ],
)
async def test_who_a_member_is_becomes_a_short_clean_note(answer: dict[str, Any], uid: str) -> None:
    assert await cluster_id(Member(answer)) == uid


@pytest.mark.parametrize("metadata", [None, [], "x", {"uid": 5}])
async def test_what_is_no_object_at_all_is_a_fault_of_the_answer(metadata: Any) -> None:
    with pytest.raises(TransportError, match="not what was asked for"):
        await cluster_id(Member({"metadata": metadata}))


# --- the search -----------------------------------------------------------------------------------


class Widgeted:
    """A member with an object of ours, of a custom kind, as its client shows it."""

    def __init__(self) -> None:
        self.listed = 0

    async def get(self, *_: object) -> dict[str, Any]:
        return {"metadata": {"uid": UID}}

    async def api_versions(self) -> list[str]:
        return [WIDGETS.api_version]

    async def discover(self, _: str) -> list[Resource]:
        return [WIDGETS]

    async def pages(self, resource: Resource, **_: object) -> AsyncIterator[bytes]:
        assert resource == WIDGETS
        self.listed += 1
        yield msgspec.json.encode({"metadata": {}, "items": [{"metadata": {"name": "w32"}}]})


@dataclass(eq=False)
class Link:
    client: Widgeted
    hub_went_back: bool = False
    search_due: float | None = None

    def __post_init__(self) -> None:
        self.watches = SimpleNamespace(is_apart=lambda _: True)  # the usual kinds are followed


class Session:
    """A member's session, and the kinds that it was told to watch."""

    name, ready = "m1", True

    def __init__(self, link: Link) -> None:
        self.link, self.kinds = link, set[Resource]()

    def track(self, resource: Resource) -> None:
        self.kinds.add(resource)


@dataclass
class Office:
    """A process whose hub says that the member has been searched."""

    hub: MemoryHub
    member: Widgeted = field(default_factory=Widgeted)
    went_back: bool = False

    def __post_init__(self) -> None:
        self.session = Session(Link(self.member, self.went_back))
        registry = SimpleNamespace(
            on_change=lambda _: None, names=lambda: ["m1"], get=lambda _: self.session
        )
        clusters = Informer(self.hub, MEMBER_CLUSTERS, MemberCluster)
        clusters.observe(msgspec.convert(self.hub.read(MEMBER_CLUSTERS, "m1"), MemberCluster))
        context: Any = Context(
            hub=self.hub, registry=registry, clusters=clusters, clock=self.hub.clock
        )
        self.census = Census(context)

    def ready(self) -> None:
        self.census._member_changed("m1", None)

    async def term(self) -> None:
        """A term, for as long as there is something to do."""
        term = asyncio.create_task(self.census.run())
        await settle()
        await end([term])


def searched(*conditions: dict[str, str]) -> MemoryHub:
    """A hub that says of m1 that it has been searched."""
    hub = MemoryHub(clock=FakeClock(), admission=False)
    noted = {"name": "m1", "uid": "u1", "annotations": {ANNOTATION_COUNTED: UID}}
    hub.put(MEMBER_CLUSTERS, {"metadata": noted, "status": {"conditions": list(conditions)}})
    return hub


@pytest.fixture
def hub() -> MemoryHub:
    return searched()


async def test_a_member_that_was_searched_is_not_searched_by_each_process(hub: MemoryHub):
    office = Office(hub)
    office.ready()
    await office.term()
    assert (office.member.listed, hub.writes("")) == (0, [])


@pytest.mark.proves("A14")
async def test_a_member_whose_sweep_is_held_is_searched_by_each_process():
    """No Workload refers to the kinds of what is held."""
    office = Office(searched({"type": "SweepHeld", "status": "True", "reason": "HoldsData"}))
    office.ready()
    await office.term()
    assert office.session.kinds == {WIDGETS}


@pytest.mark.proves("R2")
async def test_after_the_hub_went_back_each_member_is_searched_once_more(hub: MemoryHub):
    """The hub says that it was searched, and has forgotten what was written since."""
    office = Office(hub)
    office.ready()
    await office.term()
    hub.history.end(0)
    for _ in range(3):  # the next terms
        await office.term()
    assert office.session.kinds == {WIDGETS}
    assert office.member.listed == 1


@pytest.mark.proves("R2")
async def test_a_process_that_has_not_seen_the_hub_go_back_learns_it_from_the_member(
    hub: MemoryHub,
):
    office = Office(hub, went_back=True)
    office.ready()
    await office.term()
    assert office.session.kinds == {WIDGETS}
