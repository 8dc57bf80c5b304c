"""A share that its decision makes smaller keeps what nothing ready elsewhere stands in for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machinery.api.resources import Resource
from machinery.errors import Unreachable
from machinery.types.metadata import Key
from propagator.members.health import Contact
from propagator.members.objects import ManagedObject, managed
from propagator.members.pod_index import Availability, PodCounts
from propagator.members.views import UNKNOWN, Live, Told
from propagator.removal.at_most_once import AtMostOnce
from propagator.removal.disruptions import Allowed
from propagator.removal.guard import COUNT_SECONDS, Guard, least
from propagator.types.workload import Workload, workload_of
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context
from tests.propagator.stage import DEPLOYMENTS, Stage, deployment


@dataclass
class Share:
    """One member of a random fleet."""

    target: int
    present: int
    ready: int


shares = st.builds(
    lambda target, present, ready: Share(target, present, min(ready, present)),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 9),
)


@pytest.mark.proves("M20")
@given(st.lists(shares, min_size=1, max_size=6), st.data())
def test_lowering_takes_no_ready_replica_below_the_goal(
    fleet: list[Share], data: st.DataObject
) -> None:
    """In any order, each on what it sees then, and however pods become ready and unready."""
    goal = data.draw(st.integers(0, 30), label="goal")
    for _ in range(len(fleet)):
        at = data.draw(st.integers(0, len(fleet) - 1), label="member")
        share, others = fleet[at], [each for place, each in enumerate(fleet) if place != at]
        elsewhere = sum(min(each.ready, each.target) for each in others)
        before = elsewhere + share.ready
        if share.present > share.target:
            keeps = least(
                target=share.target,
                present=share.present,
                ready=share.ready,
                elsewhere=elsewhere,
                goal=goal,
                ordered=False,
            )
            assert share.target <= keeps <= share.present
            share.present, share.ready = keeps, min(share.ready, keeps)
        assert elsewhere + share.ready >= min(goal, before)
        share.ready = data.draw(st.integers(0, share.present), label="ready")


@pytest.mark.proves("M8")
@pytest.mark.parametrize(
    ("ready_elsewhere", "kept"),
    [(2, 4), (3, 3), (4, 2), (9, 2)],
)
def test_it_falls_step_by_step_as_others_become_ready(ready_elsewhere: int, kept: int) -> None:
    facts = {"target": 2, "present": 4, "ready": 4, "goal": 6}
    assert least(**facts, elsewhere=min(ready_elsewhere, 4), ordered=False) == kept


def test_replicas_that_are_not_ready_hold_nothing_up() -> None:
    facts = {"target": 2, "present": 4, "elsewhere": 0, "goal": 6}
    assert least(**facts, ready=0, ordered=False) == 2
    assert least(**facts, ready=3, ordered=False) == 3


def test_the_highest_ordinals_stay_while_one_below_is_not_ready() -> None:
    """A StatefulSet would lose a ready pod, and keep the one that is not."""
    facts = {"target": 2, "present": 4, "elsewhere": 0, "goal": 6}
    assert least(**facts, ready=3, ordered=True) == 4


class _Session(SimpleNamespace):
    __hash__ = object.__hash__


@dataclass
class Fleet:
    """Members with a share of one Workload each, as the guard looks at them."""

    clock: FakeClock
    ready: dict[str, int]
    present: int
    outdated: int = 0
    looks: int = 0
    available: Availability | None = None
    labels: dict[str, Any] = field(default_factory=dict)
    contact: Contact = Contact.SERVING
    listing: bool = False
    """Whether the members list the kind anew, and show nothing of it so far."""
    changed: Callable[[str, Key | None], None] = lambda _name, _key: None

    def guard(self) -> Guard:
        def listen(listener: Callable[[str, Key | None], None]) -> None:
            self.changed = listener

        context: Any = Context(
            clock=self.clock,
            registry=SimpleNamespace(
                get=self.session, on_change=listen, names=lambda: sorted(self.ready)
            ),
            clusters=SimpleNamespace(get=lambda _key: None, add_handler=lambda _handler: None),
        )
        no: Any = SimpleNamespace()
        inventory: Any = SimpleNamespace(asked=lambda _session, _workload, kind: self.lists(kind))
        once = AtMostOnce(context, workloads=no, inventory=inventory)
        return Guard(context, inventory=inventory, once=once)

    def lists(self, kind: str) -> bool:
        return kind == "Deployment" and not self.listing

    def session(self, name: str) -> Any:
        watches = SimpleNamespace(owned=lambda _uid: self.owned(name))
        return _Session(
            contact=self.contact,
            link=SimpleNamespace(watches=watches),
            availability=lambda _main, _seconds: self.available,
            pod_counts=lambda _main: PodCounts(current=self.present),
        )

    def owned(self, name: str) -> list[tuple[Any, ManagedObject]]:
        self.looks += 1
        if self.listing:
            return []
        found = {
            "metadata": {"namespace": "shop", "name": "web", "uid": f"uid-{name}"},
            "spec": {
                "replicas": self.present,
                "template": {"metadata": {"labels": self.labels}},
            },
            "status": {
                "replicas": self.present,
                "readyReplicas": self.ready[name],
                "updatedReplicas": self.present - self.outdated,
            },
        }
        return [(DEPLOYMENTS, managed(DEPLOYMENTS, found))]


def placed(movement: dict[str, Any] | None = None, **shares: int) -> Workload:
    return workload_of(
        {
            "metadata": {"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7"},
            "spec": {"targetDeployment": deployment("web"), "movement": movement or {}},
            "status": {
                "placements": [{"cluster": c, "replicas": n} for c, n in shares.items()],
            },
        }
    )


@pytest.mark.proves("M20")
async def test_members_that_lower_their_shares_at_once_look_at_each_a_few_times() -> None:
    """And not each of them at all others."""
    names = [f"m{number}" for number in range(400)]
    fleet = Fleet(FakeClock(), dict.fromkeys(names, 3), present=3)
    guard, workload = fleet.guard(), placed(**dict.fromkeys(names, 2))
    kept = await asyncio.gather(*(guard.kept(workload, name) for name in names))
    assert kept == [None] * len(names)
    assert fleet.looks <= 4 * len(names)


@pytest.mark.proves("M20")
@pytest.mark.parametrize(
    "unseen", [{"contact": Contact.AWAY}, {"contact": Contact.CONNECTING}, {"listing": True}]
)
async def test_a_share_that_is_not_seen_is_not_taken_for_none(unseen: dict[str, Any]) -> None:
    fleet = Fleet(FakeClock(), {"m1": 3, "m2": 0}, present=3, **unseen)
    with pytest.raises(Unreachable):
        await fleet.guard().kept(placed(m1=1, m2=3), "m1")


@pytest.mark.proves("M20")
@pytest.mark.parametrize("told", [True, False], ids=["as it says so", "soon in any case"])
async def test_a_count_ends_when_a_member_changes(told: bool) -> None:
    fleet = Fleet(FakeClock(), {"m1": 3, "m2": 3}, present=3)
    guard, workload = fleet.guard(), placed(m1=2, m2=3)
    assert await guard.kept(workload, "m1") is None
    fleet.ready["m2"] = 1
    if told:
        fleet.changed("m2", workload.metadata.key)
    else:
        await fleet.clock.advance(COUNT_SECONDS)
    kept = await guard.kept(workload, "m1")
    assert kept is not None
    assert (kept.replicas, kept.ready_elsewhere, kept.goal) == (3, 1, 5)


@pytest.mark.proves("M11")
@pytest.mark.parametrize(("unavailable", "kept"), [(0, 3), (1, 3), (2, None), ("40%", None)])
async def test_no_more_lacks_than_may(unavailable: int | str, kept: int | None) -> None:
    fleet = Fleet(FakeClock(), {"m1": 3, "m2": 1}, present=3)
    workload = placed({"maxUnavailable": unavailable}, m1=2, m2=3)
    found = await fleet.guard().kept(workload, "m1")
    assert (found and found.replicas) == kept


@pytest.mark.proves("M51")
async def test_what_another_scheduler_takes_away_at_most_once_is_lowered_on_one_member_first() -> (
    None
):
    """Its successors on m1 wait for both, and it says of none that it leaves."""
    fleet = Fleet(FakeClock(), {"m1": 2, "m2": 2, "m3": 2}, present=2)
    workload = placed({"maxSurge": 0}, m1=4, m2=1)
    workload.metadata.annotations["stowage.dev/clusters"] = "m1,m2,m3"
    guard = fleet.guard()
    assert await guard.kept(workload, "m2") is None
    kept = await guard.kept(workload, "m3")
    assert (kept and kept.replicas) == 1


def seeing(seen: Any) -> Guard:
    """A guard with these views of members, all of which answer."""

    class Seeing(Context):
        views = seen

    session = SimpleNamespace(contact=Contact.SERVING)
    registry = SimpleNamespace(on_change=lambda _: None, get=lambda _: session)
    clusters = SimpleNamespace(add_handler=lambda _: None, get=lambda _: None)
    context: Any = Seeing(clock=FakeClock(), registry=registry, clusters=clusters)
    lists: Any = SimpleNamespace(asked=lambda *_: True)
    once = AtMostOnce(context, workloads=lists, inventory=lists)
    return Guard(context, inventory=lists, once=once)


@pytest.mark.proves("M8")
@pytest.mark.parametrize("carried_out", [True, False])
async def test_a_share_of_an_agent_counts_others_alone_before_its_order_is_carried_out(
    *, carried_out: bool
) -> None:
    """Else what is not counted of it is taken off, and its order waits for itself."""
    own = Told({"replicas": 1, "asked": 2, "ready": 2})
    others = {"m1": Told({"replicas": 2, "ready": 2}), "m2": Told({"replicas": 1, "ready": 1})}
    seen: Any = SimpleNamespace(
        of=lambda _workload, name: others.get(name, own if carried_out else UNKNOWN),
        own=lambda _workload, _name: own,
        pulled=lambda name: own if name == "m3" else None,
    )

    assert await seeing(seen).kept(placed(m1=2, m2=1, m3=1), "m3") is None


@pytest.mark.proves("M8")
@pytest.mark.parametrize(("ready", "kept"), [(True, None), (False, 2)])
async def test_what_nobody_has_described_stands_in_for_others_once_it_is_ready(
    *, ready: bool, kept: int | None
) -> None:
    """An agent tells the number that it was ordered, and another member shows none."""
    widgets = Resource("example.com", "v1", "widgets", "Widget")
    said = [{"type": "Ready", "status": str(ready)}]
    meta = {"namespace": "shop", "name": "web", "uid": "w"}
    body = {"metadata": meta, "spec": {"replicas": 2}, "status": {"conditions": said}}
    watches = SimpleNamespace(owned=lambda _uid: [(widgets, managed(widgets, body))])
    link = SimpleNamespace(watches=watches)
    live: Any = _Session(contact=Contact.SERVING, link=link)
    own = Told({"replicas": 1, "asked": 2, "ready": 2})
    seen: Any = SimpleNamespace(
        of=lambda _workload, name: Live(live) if name == "m1" else own,
        own=lambda _workload, _name: own,
        pulled=lambda name: own if name == "m3" else None,
    )

    template = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "web"}}
    placements = [{"cluster": "m1", "replicas": 2}, {"cluster": "m3", "replicas": 1}]
    workload = workload_of(
        {
            "metadata": {"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7"},
            "spec": {"template": template, "replicasPath": "spec.replicas"},
            "status": {"placements": placements},
        }
    )
    found = await seeing(seen).kept(workload, "m3")
    assert (found and found.replicas) == kept


@pytest.mark.proves("M10")
async def test_what_was_not_ready_for_long_enough_stands_in_for_nothing() -> None:
    """And a count that is kept for a while ends at the moment when more of it was."""
    fleet = Fleet(FakeClock(), {"m1": 3, "m2": 3}, present=3, available=Availability(2, 0, 0.2))
    guard, workload = fleet.guard(), placed({"minReadySeconds": 10}, m1=2, m2=3)
    kept = await guard.kept(workload, "m1")
    assert kept is not None
    assert (kept.replicas, kept.ready_elsewhere) == (3, 2)
    fleet.available = Availability(3)
    await fleet.clock.advance(0.2)
    assert await guard.kept(workload, "m1") is None
    fleet.available = None
    await fleet.clock.advance(COUNT_SECONDS)
    kept = await guard.kept(workload, "m1")
    assert kept is not None, "pods that are not seen"
    assert kept.ready_elsewhere == 0


@pytest.mark.proves("M17")
async def test_what_a_rollout_replaces_stands_in_for_nothing() -> None:
    """A Deployment counts an old pod as ready that it has begun to remove."""
    fleet = Fleet(FakeClock(), {"m1": 3, "m2": 3}, present=3, outdated=1)
    guard, workload = fleet.guard(), placed(m1=2, m2=3)
    kept = await guard.kept(workload, "m1")
    assert kept is not None
    assert kept.replicas == 3
    assert "2 of 5 are ready on other clusters, beside 1 that a rollout replaces" in (
        kept.sentence("m1", 2)
    )
    fleet.outdated = 0
    fleet.changed("m2", workload.metadata.key)
    assert await guard.kept(workload, "m1") is None


@pytest.mark.proves("B7")
async def test_disruption_budgets_are_matched_by_the_labels_of_the_pods_on_the_member() -> None:
    """An override, a subset's patch or an older revision gives them others than the template."""
    labels = {"app": "web", "track": "canary", "odd": 1}
    fleet = Fleet(FakeClock(), {"m1": 3, "m2": 3}, present=3, labels=labels)
    guard, seen = fleet.guard(), list[Any]()

    def allowed(*_: Any, labels: Any, **__: Any) -> Allowed:
        seen.append(labels)
        return Allowed(3, "a budget allows 0")

    guard._disruptions = cast("Any", SimpleNamespace(allowed=allowed))
    guard._causes.put(placed(m2=3).uid, "m1", "Drained")
    kept = await guard.kept(placed(m2=3), "m1")
    assert kept is not None
    assert (kept.replicas, kept.budget) == (3, "a budget allows 0")
    assert seen == [(("app", "web"), ("track", "canary"))]


@pytest.mark.proves("B12")
def test_what_is_noted_of_a_member_ends_with_its_session() -> None:
    disruptions = Fleet(FakeClock(), {"m1": 3}, present=3).guard()._disruptions
    session: Any = _Session(name="m1")
    disruptions._members[session] = cast("Any", None)
    del session
    assert not disruptions._members


async def replicas(stage: Stage, member: str) -> int:
    found = await stage.on(member)
    assert found is not None
    return int(found["spec"]["replicas"])
