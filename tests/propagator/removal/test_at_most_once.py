"""What runs at most once is made on a cluster as far as it is seen to be gone from the others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from crds.names import ANNOTATION_SWEEP
from crds.workload import PropagatedReason
from machinery.api.resources import USUAL
from machinery.types.metadata import Key, Meta
from propagator.errors import Refused
from propagator.members.health import Contact
from propagator.members.objects import managed
from propagator.removal.at_most_once import AtMostOnce, grown, held_back
from propagator.removal.guard import least
from propagator.shards.membership import ONE_SHARD, OneShard
from propagator.types.workload import Workload, workload_of
from tests.propagator.contexts import Context
from tests.propagator.stage import deployment

KINDS = {resource.kind: resource for resource in USUAL}


@dataclass
class Member:
    """What one member shows of the Workload."""

    replicas: int | None = None
    """Of its object; None: there is none."""
    pods: int | None = 0
    former_pods: int = 0
    """Those that an object of another name made."""
    serves: bool = True
    connecting: bool = False
    tainted: bool = False
    listed: bool = True
    ends: bool = False
    """Whether its object is being deleted."""
    forgotten: bool = False
    """Whether its object is that of a Workload of the same name from before."""
    begun: bool = False
    """Whether what the pods of that object need is taken over already."""
    elsewhere: bool = False
    """Whether another shard serves it."""
    status: dict[str, Any] = field(default_factory=dict)
    """That of its MemberCluster."""
    annotations: dict[str, str] = field(default_factory=dict)
    """The same."""


@dataclass
class Fleet:
    """The members of a test, and what AtMostOnce sees of them."""

    members: dict[str, Member]
    kind: str = "StatefulSet"
    workload: Workload | None = None
    missing: set[str] = field(default_factory=set)
    given_up: set[str] = field(default_factory=set)
    membership: OneShard = ONE_SHARD

    def once(self) -> AtMostOnce:
        context: Any = Context(
            registry=SimpleNamespace(
                get=self.session,
                names=lambda: [n for n, each in self.members.items() if not each.elsewhere],
                gave_up=self.given_up.__contains__,
                holders=lambda _uid: {n for n in self.members if self.holds(n)},
            ),
            clusters=SimpleNamespace(
                get=self.cluster, values=lambda: [self.cluster(("", n)) for n in self.members]
            ),
            membership=self.membership,
        )
        workloads: Any = SimpleNamespace(by_uid=lambda _uid: self.workload)
        inventory: Any = SimpleNamespace(
            may_hold=lambda _workload, name: self.may_hold(name),
            knows=lambda session, _workload: self.members[session.name].listed,
            asked=lambda session, _workload, _kind: self.members[session.name].listed,
        )
        return AtMostOnce(context, workloads=workloads, inventory=inventory)

    def may_hold(self, name: str) -> bool:
        member = self.members[name]
        there = name not in self.missing | self.given_up
        return there and (member.elsewhere or not (member.serves and member.listed))

    def holds(self, name: str) -> bool:
        member = self.members[name]
        return member.serves and member.replicas is not None and not member.forgotten

    def cluster(self, key: Key) -> Any:
        if key[1] in self.missing:
            return None
        member, name = self.members[key[1]], key[1]
        meta = Meta(name=name, annotations=member.annotations)
        told = {"name": name, "metadata": meta, "status": member.status, "pulls": False}
        gone = {"out_of_service": member.tainted, "given_up": name in self.given_up}
        return SimpleNamespace(**told, **gone)

    def session(self, name: str) -> Any:
        member = self.members[name]
        if member.elsewhere:
            return None
        watches = SimpleNamespace(
            owned=lambda _uid: self.begun(member) if member.forgotten else self.owned(member),
            named=lambda _key: self.owned(member),
        )
        counts = None if member.pods is None else SimpleNamespace(current=member.pods)
        contact = Contact.SERVING if member.serves else Contact.AWAY
        return SimpleNamespace(
            name=name,
            contact=Contact.CONNECTING if member.connecting else contact,
            link=SimpleNamespace(watches=watches),
            pod_counts=lambda _main: counts,
            former_pods=lambda _main: member.former_pods,
            owners={"u": ("shop", "web")},
        )

    def begun(self, member: Member) -> list[Any]:
        config = KINDS["ConfigMap"]
        meta = {"namespace": "shop", "name": "conf", "uid": "c"}
        return [(config, managed(config, {"metadata": meta}))] if member.begun else []

    def owned(self, member: Member) -> list[Any]:
        if member.replicas is None:
            return []
        resource = KINDS[self.kind]
        meta: dict[str, Any] = {"namespace": "shop", "name": "web", "uid": "object"}
        owner = "before" if member.forgotten else "u"
        meta["annotations"] = {f"owner.stowage.dev/{owner}": "shop/web"}
        if member.ends:
            meta["deletionTimestamp"] = "2026-11-27T08:00:00Z"
        return [
            (resource, managed(resource, {"metadata": meta, "spec": {"replicas": member.replicas}}))
        ]


def moving(
    kind: str = "StatefulSet", leaving: int = 3, sent: str = "old", **shares: int
) -> Workload:
    group = {"Job": "batch/v1", "CronJob": "batch/v1"}.get(kind, "apps/v1")
    return workload_of(
        {
            "metadata": {
                "namespace": "shop",
                "name": "web",
                "uid": "u",
                "annotations": {"stowage.dev/clusters": sent},
            },
            "spec": {"template": {**deployment("web"), "kind": kind, "apiVersion": group}},
            "status": {
                "placements": [{"cluster": c, "replicas": n} for c, n in shares.items()],
                "leaving": [{"cluster": "old", "replicas": leaving, "cause": "Drained"}],
            },
        }
    )


@dataclass
class Side:
    """A share in a random move: what it is to have, what its object asks for, and its pods."""

    target: int
    asked: int
    pods: int = 0
    ready: int = 0

    def __post_init__(self) -> None:
        self.pods = self.ready = self.asked

    @property
    def units(self) -> int:
        """Those that may run."""
        return max(self.pods, self.asked)


def step(fleet: list[Side], at: int, what: str, unavailable: int) -> None:
    """One thing that happens on one member."""
    side, wanted = fleet[at], sum(each.target for each in fleet)
    others = [each for place, each in enumerate(fleet) if place != at]
    before = sum(each.ready for each in fleet)
    match what:
        case "ready":
            side.ready = min(side.asked, side.pods)
        case "end":
            side.pods -= side.pods > side.asked
        case "start":
            side.pods += side.pods < side.asked
        case "lower" if side.asked > side.target:
            side.asked = least(
                target=side.target,
                present=side.asked,
                ready=side.ready,
                elsewhere=sum(min(each.ready, each.target) for each in others)
                + sum(max(each.ready - each.target, 0) for each in fleet[at + 1 :]),
                goal=wanted - unavailable,
                ordered=False,
            )
            side.ready = min(side.ready, side.asked)
            ready = sum(each.ready for each in fleet)
            assert ready >= min(wanted - unavailable, before)
        case "grow" if side.asked < side.target:
            excess = sum(max(each.units - each.target, 0) for each in others)
            later = [max(each.target - each.asked, 0) for each in fleet[at + 1 :]]
            back = held_back(excess, later)
            after = grown(target=side.target, present=side.asked, back=back)
            assert after >= side.asked, "what is present stays"
            side.asked = after


WHAT = ("lower", "end", "grow", "start", "ready")


@pytest.mark.proves("M51", "M57")
@given(st.data(), st.integers(1, 3))
def test_there_are_never_more_units_than_wanted_and_the_move_ends(
    data: st.DataObject, unavailable: int
) -> None:
    """From any shares to any others, whatever comes first, and however long pods take to end."""
    sizes = st.lists(st.integers(0, 4), min_size=2, max_size=4)
    before = data.draw(sizes, label="before")
    after = [0] * len(before)
    for _ in range(sum(before)):
        after[data.draw(st.integers(0, len(before) - 1), label="to")] += 1
    fleet = [Side(target, asked) for target, asked in zip(after, before, strict=True)]
    wanted = sum(before)
    places = st.integers(0, len(fleet) - 1)
    for at, what in data.draw(st.lists(st.tuples(places, st.sampled_from(WHAT)), max_size=30)):
        step(fleet, at, what, unavailable)
        assert sum(each.units for each in fleet) <= wanted
    for _ in range(10 * wanted + 10):
        for at in range(len(fleet)):
            for what in WHAT:
                step(fleet, at, what, unavailable)
                assert sum(each.units for each in fleet) <= wanted
    assert [each.asked for each in fleet] == after


@pytest.mark.proves("M51")
@pytest.mark.parametrize(
    ("old", "gets"),
    [
        (Member(replicas=3, pods=3), 0),
        (Member(replicas=2, pods=3), 0),
        (Member(replicas=2, pods=2), 1),
        (Member(replicas=3, pods=2), 0),
        (Member(replicas=None, pods=1), 2),
        (Member(replicas=None, pods=0), 3),
        (Member(replicas=None, pods=None), 0),
        (Member(serves=False, pods=0), 0),
        (Member(serves=False, pods=3, tainted=True), 3),
        (Member(replicas=1, pods=1, tainted=True), 2),
    ],
    ids=[
        "all there",
        "ends",
        "one is gone",
        "one is made again",
        "its last one ends",
        "gone",
        "its pods are not seen",
        "away",
        "away and out of service",
        "out of service and there",
    ],
)
def test_a_share_gets_what_is_gone_elsewhere(old: Member, gets: int) -> None:
    fleet = Fleet({"old": old, "new": Member()})
    waiting = fleet.once().waiting(moving(new=3), "new")
    assert (3 if waiting is None else waiting.replicas) == gets
    if waiting is not None:
        told = waiting.sentence("new", 3)
        assert told == f"new: {3 - gets} replicas wait until they are gone from old"


@pytest.mark.proves("M51")
@pytest.mark.parametrize(
    ("old", "gets"),
    [
        (Member(replicas=2, pods=2), 2),
        (Member(replicas=3, pods=3), 1),
        (Member(replicas=2, pods=3), 1),
        (Member(serves=False, pods=3), 2),
        (Member(replicas=None, former_pods=3), 2),
    ],
    ids=["as decided", "not lowered", "its last one ends", "away", "by another name yet"],
)
def test_a_share_waits_for_what_a_late_decision_does_not_know_to_leave(
    old: Member, gets: int
) -> None:
    """Taken back in its middle, a move had gone further than the report that was decided of."""
    fleet = Fleet({"old": old, "new": Member(replicas=1, pods=1)})
    waiting = fleet.once().waiting(stateful("new", "old"), "new")
    assert (2 if waiting is None else waiting.replicas) == gets


@pytest.mark.proves("M51")
def test_what_is_not_listed_may_be_there_unless_the_member_has_confirmed_its_end() -> None:
    fleet = Fleet({"old": Member(listed=False), "new": Member()})
    waiting = fleet.once().waiting(moving(new=3), "new")
    assert waiting is not None
    assert waiting.replicas == 0
    assert fleet.once().waiting(moving(new=3, sent=""), "new") is None


def stateful(*clusters: str) -> Workload:
    """A StatefulSet of two replicas on each of those clusters."""
    template = {**deployment("web"), "kind": "StatefulSet"}
    status = {
        "placements": [{"cluster": each, "replicas": 2} for each in clusters],
        "ordinals": [{"cluster": "new", "start": 0}, {"cluster": "old", "start": 1000}],
    }
    meta = {"name": "web", "namespace": "shop", "uid": "u"}
    return workload_of({"metadata": meta, "spec": {"template": template}, "status": status})


@pytest.mark.proves("KD52")
def test_of_two_objects_with_the_same_ordinals_one_is_taken_over_and_the_other_waits() -> None:
    """Both are of Workloads of this name that the hub has forgotten."""
    there = Member(replicas=2, forgotten=True)
    fleet = Fleet({"new": there, "old": replace(there)})
    both = stateful("new", "old")
    refused = "old: StatefulSet shop/web has the ordinals that new runs: delete it"
    assert fleet.once().first_ordinal(fleet.session("new"), both) == 0
    with pytest.raises(Refused, match=refused) as raised:
        fleet.once().first_ordinal(fleet.session("old"), both)
    assert raised.value.reason is PropagatedReason.ALREADY_EXISTS
    fleet.members["new"].forgotten = False  # it was taken over
    with pytest.raises(Refused, match=refused):
        fleet.once().first_ordinal(fleet.session("old"), both)
    assert fleet.once().first_ordinal(fleet.session("new"), both) == 0
    fleet.members["new"].replicas = None  # a person deleted it
    assert fleet.once().first_ordinal(fleet.session("old"), both) == 0
    fleet.members["old"].forgotten = False
    fleet.members["new"] = replace(there, replicas=2, forgotten=True)
    with pytest.raises(Refused, match="new: StatefulSet shop/web has the ordinals that old runs"):
        fleet.once().first_ordinal(fleet.session("new"), both)


@pytest.mark.proves("KD52")
@pytest.mark.parametrize(("forgotten", "begun"), [(False, False), (True, False), (True, True)])
def test_an_object_that_is_taken_over_keeps_ordinals_that_no_other_cluster_gets(
    *, forgotten: bool, begun: bool
) -> None:
    old = Member(replicas=2, forgotten=forgotten, begun=begun)
    fleet = Fleet({"old": old, "new": Member()})
    once, both = fleet.once(), stateful("new", "old")
    assert once.first_ordinal(fleet.session("old"), both) == 0
    with pytest.raises(Refused, match="waits for another range of ordinals, as old has its"):
        once.first_ordinal(fleet.session("new"), both)
    fleet.members["old"].listed = False
    with pytest.raises(Refused, match="waits until old has told which ordinals it has"):
        once.first_ordinal(fleet.session("new"), both)
    fleet.members["old"].connecting = True  # by other credentials, as those on a hub of before
    with pytest.raises(Refused, match="waits until old has told which ordinals it has"):
        once.first_ordinal(fleet.session("new"), both)
    fleet.members["old"] = replace(fleet.members["old"], connecting=False, serves=False)
    fleet.members["old"].replicas = None
    assert once.first_ordinal(fleet.session("new"), both) == 0, "it may be away for long"
    fleet.members["old"] = replace(fleet.members["old"], replicas=2, serves=True, listed=True)
    if forgotten:  # it is no share of this one, and is swept
        assert once.first_ordinal(fleet.session("new"), stateful("new")) == 0


@pytest.mark.proves("KD52", "M51")
def test_what_a_hub_that_was_set_back_has_forgotten_is_waited_for_until_a_person_says_more() -> (
    None
):
    fleet = Fleet({"old": Member(replicas=2, forgotten=True), "new": Member()})
    alone = moving(leaving=0, sent="new", new=2)
    waits = fleet.once().waiting(alone, "new")
    assert waits is not None
    assert (waits.replicas, waits.clusters) == (0, ("old",))
    fleet.members["old"].replicas = None  # it was swept
    assert fleet.once().waiting(alone, "new") is None
    fleet = Fleet({"old": Member(replicas=2, forgotten=True), "new": Member()}, kind="Deployment")
    assert fleet.once().waiting(moving("Deployment", leaving=0, sent="new", new=2), "new") is None


@pytest.mark.proves("M51")
@pytest.mark.parametrize("kind", ["StatefulSet", "Job"])
def test_what_stands_on_a_cluster_that_the_footprint_has_forgotten_is_waited_for(kind: str) -> None:
    """A hub that was set back may know the Workload, and not that it was sent there."""
    old = Member(replicas=2, pods=2)
    fleet = Fleet({"old": old, "new": Member()}, kind=kind)
    waits = fleet.once().waiting(moving(kind, leaving=0, sent="new", new=2), "new")
    assert waits is not None
    assert (waits.replicas, waits.clusters) == (0, ("old",))
    old.replicas, old.pods = None, 0
    assert fleet.once().waiting(moving(kind, leaving=0, sent="new", new=2), "new") is None


class Two(OneShard):
    """This process holds shard 0; `old` is of shard 1."""

    several = True

    def __init__(self, set_back: str = "", *, looked: bool = True) -> None:
        self.since, self._looked = set_back, looked

    @property
    def set_back(self) -> str:
        return self.since

    def serves(self, member: str) -> bool:
        return member != "old"

    def owner(self, member: str) -> int:
        return int(member == "old")

    def looked(self, _shard: int) -> bool:
        return self._looked


def held(name: str, uid: str = "before", count: int = 1) -> dict[str, Any]:
    listed = [{"namespace": "shop", "name": name, "uid": uid}]
    return {"sweepHeld": {"count": count, "workloads": listed}}


def refused(reason: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": "False", "reason": reason}]}


LATER = "2026-11-30T12:00:00Z"


@pytest.mark.proves("SC15", "KD52")
@pytest.mark.parametrize(
    ("status", "shards", "told"),
    [
        (held("web"), Two(), "old runs another Workload shop/web that"),
        (held("web", uid="u"), Two(), ""),
        (held("api"), Two(), ""),
        (held("api", count=300), Two(), "old runs another Workload shop/web that"),
        (held("zoo", count=300), Two(), ""),
        ({"sweepHeld": {"count": 3, "workloads": []}}, Two(), "old runs another Workload"),
        ({}, Two(LATER, looked=False), "is not told yet"),
        ({}, Two(LATER), ""),
        ({}, Two(looked=False), ""),
        (refused("HeldByAnotherHub"), Two(), "is not told yet"),
        (refused("Unreachable"), Two(), ""),
    ],
    ids=[
        "told",
        "its own",
        "another's",
        "not listed, perhaps",
        "not listed, and before it",
        "none listed",
        "not looked since",
        "looked since",
        "of a hub that was not set back",
        "not served yet",
        "away",
    ],
)
def test_what_another_shard_tells_to_be_forgotten_is_waited_for(
    status: dict[str, Any], shards: OneShard, told: str
) -> None:
    old = Member(elsewhere=True, status=status)
    fleet = Fleet({"old": old, "new": Member()}, membership=shards)
    alone = moving(leaving=0, sent="new", new=2)
    waits = fleet.once().waiting(alone, "new")
    assert (waits is not None) is bool(told)
    if waits is not None:
        assert (waits.replicas, waits.clusters) == (0, ("old",))
        assert told in waits.sentence("new", 2)
        old.tainted = True
        assert fleet.once().waiting(alone, "new") is None, "nothing runs there"


@pytest.mark.proves("SC13", "M51")
@pytest.mark.parametrize(
    ("sent", "running", "waits"),
    [("new", 2, True), ("new,old", 2, True), ("new,old", 0, False)],
    ids=["not noted", "noted", "noted, and gone"],
)
def test_what_another_shard_tells_to_run_is_waited_for_though_the_footprint_has_forgotten_it(
    sent: str, running: int, *, waits: bool
) -> None:
    """The shard has looked since the hub was set back, at a member that holds an older share."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    old = Member(elsewhere=True, status=ready)
    fleet = Fleet({"old": old, "new": Member()}, membership=Two(LATER))
    fleet.membership.tells = lambda _: True  # type: ignore[method-assign] # it has compared all
    alone = moving(leaving=0, sent=sent, new=2)
    counts = {"asked": running, "current": running, "decision": alone.decided_by}
    entry = {"name": "old", "state": "Leaving", "replicas": 0, **counts}
    status = structs.replace(alone.status, clusters=[entry], leaving=[])
    alone = structs.replace(alone, status=status)
    assert (fleet.once().waiting(alone, "new") is not None) is waits


@pytest.mark.proves("SC15", "KD52")
def test_no_ordinals_are_given_before_each_shard_has_looked_since_a_set_back() -> None:
    """Its MemberCluster is as the hub had it then, so it may serve a member that is not Ready."""
    old = Member(elsewhere=True, status=refused("Unauthorized"))
    fleet = Fleet({"old": old, "new": Member()}, membership=Two(LATER, looked=False))
    with pytest.raises(Refused, match="waits until old has told which ordinals it has"):
        fleet.once().first_ordinal(fleet.session("new"), stateful("new", "old"))
    fleet.membership = Two(LATER)
    assert fleet.once().first_ordinal(fleet.session("new"), stateful("new", "old")) == 0


@pytest.mark.proves("KD52")
@pytest.mark.parametrize("placed", [("new",), ("new", "old")])
def test_no_ordinals_are_given_while_a_member_is_not_served_since_a_set_back(
    placed: tuple[str, ...],
) -> None:
    """It may run those of this Workload, with a share that the hub has forgotten or without."""
    old = Member(replicas=2, serves=False, status=refused("HeldByAnotherHub"))
    fleet = Fleet({"old": old, "new": Member()})
    with pytest.raises(Refused, match="waits until old has told which ordinals it has"):
        fleet.once().first_ordinal(fleet.session("new"), stateful(*placed))
    old.serves = True  # its MemberCluster tells that later
    with pytest.raises(Refused, match="waits for another range of ordinals, as old has its"):
        fleet.once().first_ordinal(fleet.session("new"), stateful(*placed))
    old.replicas = None
    assert fleet.once().first_ordinal(fleet.session("new"), stateful(*placed)) == 0


@pytest.mark.proves("SC15", "KD52")
def test_what_another_shard_is_to_take_over_has_its_ordinals_first() -> None:
    before = Member(replicas=2, forgotten=True)
    old = Member(elsewhere=True, status=held("web"))
    fleet = Fleet({"old": old, "new": Member(), "zoo": before}, membership=Two())
    for name in ("new", "zoo"):
        with pytest.raises(Refused, match="waits until old has told which ordinals it has"):
            fleet.once().first_ordinal(fleet.session(name), stateful(name, "old"))
    fleet = Fleet({"old": old, "new": before}, membership=Two())
    assert fleet.once().first_ordinal(fleet.session("new"), stateful("new", "old")) == 0, "by name"
    old.status = held("web", uid="u")
    fleet.members["new"] = Member()
    assert fleet.once().first_ordinal(fleet.session("new"), stateful("new", "old")) == 0


@pytest.mark.proves("SC15")
def test_what_a_person_lets_go_of_elsewhere_is_waited_for() -> None:
    old = Member(elsewhere=True, annotations={ANNOTATION_SWEEP: "before"})
    fleet = Fleet({"old": old, "new": Member()}, membership=Two())
    assert fleet.once().waiting(moving(leaving=0, sent="new", new=2), "new") is not None
    del old.annotations[ANNOTATION_SWEEP]
    assert fleet.once().waiting(moving(leaving=0, sent="new", new=2), "new") is None


@pytest.mark.proves("SC15")
def test_a_member_that_is_not_connected_yet_is_waited_for_after_a_set_back() -> None:
    for member in (Member(connecting=True), Member(elsewhere=True)):
        fleet = Fleet({"m0": member, "new": Member()}, membership=Two(LATER))
        waits = fleet.once().waiting(moving(leaving=0, sent="new", new=2), "new")
        assert waits is not None
        fleet.membership = Two()
        assert fleet.once().waiting(moving(leaving=0, sent="new", new=2), "new") is None


@pytest.mark.proves("SC15", "SC27")
def test_what_has_ended_there_waits_for_nothing() -> None:
    fleet = Fleet({"m0": Member(connecting=True), "new": Member()}, membership=Two(LATER))
    job = moving("Job", leaving=0, sent="new", new=2)
    assert fleet.once().waiting(job, "new") is not None
    told = {"name": "new", "ended": {"object": job.run, "result": "Succeeded"}}
    status = msgspec.structs.replace(job.status, clusters=[told])
    over = msgspec.structs.replace(job, status=status)
    assert fleet.once().waiting(over, "new") is None


@pytest.mark.proves("M51", "A2")
def test_a_cluster_that_is_named_no_more_is_waited_for_until_it_is_given_up() -> None:
    fleet = Fleet({"old": Member(serves=False), "new": Member()}, missing={"old"})
    waiting = fleet.once().waiting(moving(new=3), "new")
    assert waiting is not None
    assert waiting.replicas == 0
    for missing in (set[str](), {"old"}):
        members = {"old": Member(serves=False), "new": Member()}
        fleet = Fleet(members, missing=missing, given_up={"old"})
        assert fleet.once().waiting(moving(new=3), "new") is None


@pytest.mark.proves("A32")
@pytest.mark.parametrize(("pods", "gets"), [(2, 1), (1, 2), (0, 3)])
def test_pods_that_end_are_waited_for_though_the_share_is_named_no_more(
    pods: int, gets: int
) -> None:
    fleet = Fleet({"old": Member(pods=pods), "new": Member()})
    waiting = fleet.once().waiting(moving(leaving=0, new=3), "new")
    assert (3 if waiting is None else waiting.replicas) == gets


@pytest.mark.proves("A32")
@pytest.mark.parametrize(
    ("old", "gets"),
    [
        (Member(), 3),
        (Member(replicas=2), 1),
        (Member(serves=False), 0),
        (Member(listed=False), 0),
        (Member(pods=None), 0),
        (Member(serves=False, tainted=True), 3),
    ],
    ids=["gone", "an object", "away", "not listed", "pods not seen", "out of service"],
)
def test_what_left_without_a_word_may_run_until_it_is_seen_to_be_gone(
    old: Member, gets: int
) -> None:
    """As a gang's: right after its start a propagator has not heard of all members."""
    fleet, workload = Fleet({"old": old, "new": Member()}), moving(leaving=0, new=3)
    waiting = fleet.once().waiting(workload, "new")
    assert (3 if waiting is None else waiting.replicas) == gets
    confirmed = fleet.once().waiting(moving(leaving=0, sent="", new=3), "new")
    assert (confirmed is None) is (old.replicas is None), "an object there is seen in any case"
    spec = structs.replace(workload.spec, distribution="Duplicated")
    copies = structs.replace(workload, spec=spec)
    assert fleet.once().waiting(copies, "new") is None, "it stands in for no other"
    fleet.given_up.add("old")
    assert old.serves or fleet.once().waiting(workload, "new") is None


@pytest.mark.proves("M51")
def test_a_share_that_stays_in_part_counts_beyond_its_placement() -> None:
    fleet = Fleet({"old": Member(replicas=2, pods=3), "new": Member(replicas=1, pods=1)})
    waiting = fleet.once().waiting(moving(leaving=2, old=1, new=3), "new")
    assert waiting is not None
    assert waiting.replicas == 1, "never below what is present"


@pytest.mark.proves("M51")
def test_of_two_shares_that_grow_the_first_gets_what_is_gone() -> None:
    """None would get anything, if both were held back by all that is not gone."""
    fleet = Fleet({"old": Member(replicas=2, pods=2), "a": Member(), "b": Member()})
    workload, once = moving(a=2, b=1), fleet.once()
    got = {name: once.waiting(workload, name) for name in ("a", "b")}
    assert {name: each and each.replicas for name, each in got.items()} == {"a": 1, "b": 0}
    fleet.members["b"].serves = False
    away = once.waiting(workload, "a")
    assert away is not None
    assert away.replicas == 0, "it may have grown, unseen"


@pytest.mark.proves("M16", "M51")
@pytest.mark.parametrize("kind", ["Job", "CronJob"])
def test_an_object_without_a_number_has_to_go_first(kind: str) -> None:
    fleet = Fleet({"old": Member(replicas=0, pods=0), "new": Member()}, kind=kind)
    waiting = fleet.once().waiting(moving(kind, new=3), "new")
    assert waiting is not None
    assert waiting.replicas == 0
    fleet.members["old"] = Member(replicas=0, pods=0, ends=True)
    assert fleet.once().waiting(moving(kind, new=3), "new") is not None, "it may still start a pod"
    fleet.members["old"] = Member(replicas=None, pods=1)
    assert fleet.once().waiting(moving(kind, new=3), "new") is not None
    fleet.members["old"] = Member()
    assert fleet.once().waiting(moving(kind, new=3), "new") is None


def test_what_may_be_made_twice_waits_for_nothing() -> None:
    fleet = Fleet({"old": Member(replicas=3, pods=3), "new": Member()}, kind="Deployment")
    assert fleet.once().waiting(moving("Deployment", new=3), "new") is None


@pytest.mark.proves("M54", "M55")
def test_a_member_out_of_service_keeps_what_does_not_run_elsewhere() -> None:
    """The taint alone doubles nothing: what is seen to run there goes as in a drain."""
    workload = moving(new=3)
    fleet = Fleet(
        {"old": Member(replicas=3, pods=3, tainted=True), "new": Member()}, workload=workload
    )
    once = fleet.once()
    assert once.left(workload, "old") == 3
    assert once.overdue("old") is None
    fleet.members["new"] = Member(replicas=2, pods=2)
    assert once.left(workload, "old") == 1
    assert once.overdue("old") == ("shop", "web"), "two of its three run elsewhere"
    fleet.members["old"].replicas = 1
    assert once.overdue("old") is None
    fleet.members["new"] = Member(serves=False)
    assert once.left(workload, "old") == 0, "all of it may run there"
    assert once.overdue("old") == ("shop", "web")
    fleet.members["old"].replicas = None
    assert once.overdue("old") is None
    fleet.members["old"] = Member(replicas=3, pods=3)
    assert once.left(workload, "old") is None
    assert once.overdue("old") is None
