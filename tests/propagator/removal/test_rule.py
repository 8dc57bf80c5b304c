"""What a session may take away, over random histories of registrations, decisions and backups."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.fields.labels import KEEPS
from crds.membercluster import SweepHeldReason
from crds.names import (
    ANNOTATION_HUB_VERSION,
    ANNOTATION_KEEP,
    ANNOTATION_MEMBER,
    ORPHAN_PREFIX,
    OWNER_PREFIX,
)
from machinery.api.resources import Resource
from machinery.types.metadata import Meta
from propagator.members.objects import ManagedObject, Mark, managed
from propagator.removal.brake import FEW, SHARE, reason_to_hold
from propagator.removal.rule import Grant, Stays, granted
from propagator.types.workload import WorkTold
from tests.examples import examples

pytestmark = pytest.mark.proves("N1", "N2", "N3b", "N11")

registrations = st.sampled_from(["", "r1", "r2", "r3"])
clusters = st.sampled_from(["", "c1", "c2"])
marks = st.builds(Mark, registrations, clusters)
kinds = st.sampled_from(["Deployment", "PersistentVolumeClaim", "ConfigMap"])
keeps = st.sampled_from(["", *KEEPS, "sometimes"])


def found(kind: str, mark: Mark, keep: str, version: int = 0) -> ManagedObject:
    annotations = {ANNOTATION_MEMBER: str(mark)} if any(mark) else {}
    if keep:
        annotations[ANNOTATION_KEEP] = keep
    if version:
        annotations[ANNOTATION_HUB_VERSION] = str(version)
    return ManagedObject(metadata=Meta(name="a", uid="o", annotations=annotations), kind=kind)


@pytest.mark.proves("KD19")
@pytest.mark.parametrize(("done", "known", "goes"), [(3, 2, False), (3, 3, True), (3, None, True)])
def test_a_job_whose_work_others_go_on_with_goes_once_the_hub_knows_what_it_has_done(
    *, done: int, known: int | None, goes: bool
) -> None:
    jobs, mark = Resource("batch", "v1", "jobs", "Job"), Mark("r1", "c1")
    meta = {"name": "bill", "uid": "o", "resourceVersion": "7"}
    body = {"metadata": meta, "spec": {"completions": 5}, "status": {"succeeded": done}}
    grant = granted(
        managed(jobs, body),
        "w",
        mark=mark,
        ended=False,
        decided=math.inf,
        registered=lambda _: False,
        told=WorkTold(done=known),
    )
    assert isinstance(grant, Grant) == goes
    if isinstance(grant, Grant):
        assert grant.version == ("" if known is None else "7")
    else:
        assert grant is Stays.UNTOLD


@pytest.mark.proves("KD29")
@pytest.mark.parametrize(
    ("ended", "untold", "goes"), [(True, True, False), (True, False, True), (False, True, True)]
)
def test_a_job_that_ended_while_it_leaves_goes_once_the_hub_knows_its_end(
    *, ended: bool, untold: bool, goes: bool
) -> None:
    jobs, mark = Resource("batch", "v1", "jobs", "Job"), Mark("r1", "c1")
    conditions = [{"type": "Complete", "status": "True"}] if ended else []
    meta = {"name": "bill", "uid": "o", "resourceVersion": "7"}
    found = managed(jobs, {"metadata": meta, "spec": {}, "status": {"conditions": conditions}})
    grant = granted(
        found,
        "w",
        mark=mark,
        ended=False,
        decided=math.inf,
        registered=lambda _: False,
        told=WorkTold(awaits_end=untold),
    )
    assert isinstance(grant, Grant) == goes
    # What ends between the look and the removal stays as well.
    assert grant is Stays.UNTOLD or grant.version == ("7" if untold else "")


@pytest.mark.proves("KD29", "KD32")
@pytest.mark.parametrize(("name", "goes"), [("bill", False), ("again", True)])
def test_a_job_of_another_run_waits_for_nobody_to_know_its_work(name: str, *, goes: bool) -> None:
    """No cluster goes on with it, and the hub stores nothing of it any more."""
    jobs, mark = Resource("batch", "v1", "jobs", "Job"), Mark("r1", "c1")
    meta = {"name": "bill", "namespace": "shop", "uid": "o", "resourceVersion": "7"}
    status = {"succeeded": 5, "conditions": [{"type": "Complete", "status": "True"}]}
    grant = granted(
        managed(jobs, {"metadata": meta, "spec": {"completions": 5}, "status": status}),
        "w",
        mark=mark,
        ended=False,
        decided=math.inf,
        registered=lambda _: False,
        told=WorkTold(done=2, awaits_end=True, run=f"Job shop/{name}"),
    )
    assert isinstance(grant, Grant) is goes


@given(
    kind=kinds,
    theirs=marks,
    ours=marks,
    keep=keeps,
    ended=st.booleans(),
    version=st.integers(0, 3),
    decided=st.sampled_from([0, 1, 2, math.inf]),
    registered=st.sets(registrations),
)
@examples(1500)
def test_only_what_is_its_own_and_not_kept_is_taken_away(
    kind: str,
    theirs: Mark,
    ours: Mark,
    keep: str,
    ended: bool,
    version: int,
    decided: float,
    registered: set[str],
) -> None:
    grant = granted(
        found(kind, theirs, keep, version),
        "w",
        mark=ours,
        ended=ended,
        decided=decided,
        registered=registered.__contains__,
    )
    if not ours.registration:
        assert isinstance(grant, Stays), "its MemberCluster has not been taken in"
    elif ended:
        assert isinstance(grant, Grant), "what has no Workload stays nobody's, or goes"
    if isinstance(grant, Grant) and not grant.let_go:
        assert grant == Grant("o", "w", let_go=False)
        assert keep != "Always"
        assert ended or keep == "Never" or (keep != "Move" and kind != "PersistentVolumeClaim")
        assert ended or version <= decided
        assert not (theirs.cluster and ours.cluster and theirs.cluster != ours.cluster)
        other = theirs.registration not in ("", ours.registration)
        assert not (other and theirs.registration in registered)
        assert ours.registration
    if isinstance(grant, Grant) and grant.let_go:
        assert ended, "what has a Workload is found again by it"


@pytest.mark.parametrize("ended", [True, False])
def test_what_an_older_release_wrote_is_ours(ended: bool) -> None:
    grant = granted(
        found("Deployment", Mark(), ""),
        "w",
        mark=Mark("r1", "c1"),
        ended=ended,
        decided=1,
        registered=lambda _: True,
    )
    assert isinstance(grant, Grant)
    assert not grant.let_go


@pytest.mark.proves("X8", "X10", "X11")
@given(
    kind=kinds,
    keep=keeps,
    ended=st.booleans(),
    said=st.booleans(),
    known=st.booleans(),
    left=st.booleans(),
    owning=st.sets(st.sampled_from(["w", "v"])),
    marked=st.sets(st.sampled_from(["w", "v"])),
)
@examples(500)
def test_an_end_leaves_what_it_was_asked_to_leave_and_nothing_else_does(
    kind: str,
    keep: str,
    ended: bool,
    said: bool,
    known: bool,
    left: bool,
    owning: set[str],
    marked: set[str],
) -> None:
    lies = found(kind, Mark("r1", "c1"), keep)
    lies.metadata.annotations.update({OWNER_PREFIX + uid: "a/a" for uid in {"w", *owning}})
    bare = copy.deepcopy(lies)
    lies.metadata.annotations.update({ORPHAN_PREFIX + uid: "true" for uid in marked})
    how: dict[str, Any] = {
        "mark": Mark("r1", "c1"),
        "decided": math.inf,
        "registered": lambda _: True,
    }
    before = granted(bare, "w", ended=ended, **how)
    grant = granted(lies, "w", ended=ended, orphan=said if known else None, left=left, **how)
    needed = not marked <= {"w", *owning}
    if not isinstance(before, Grant) or not ended:
        # A move, and what is not rendered any more, go as ever.
        assert isinstance(grant, Stays) or grant == replace(before, let_go=needed)
        assert isinstance(grant, Stays) is isinstance(before, Stays)
        return
    assert isinstance(grant, Grant)
    holds = keep in ("Move", "Always") or (kind == "PersistentVolumeClaim" and keep != "Never")
    stays = (said if known else "w" in marked) and (holds or not left)
    assert grant.orphan is stays
    assert grant.let_go is (before.let_go or stays or needed)


# --- histories ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workload:
    """A Workload as the hub has it, or as a process has read it; `made` is in true time."""

    version: int = 1
    made: int = 0
    placed: frozenset[str] = frozenset()
    ended: bool = False


@dataclass
class Hub:
    """Its store, which a backup sets back. UIDs of registrations are never used twice."""

    version: int = 1
    names: dict[str, str] = field(default_factory=dict)
    """The UID of the MemberCluster of each name."""
    workload: Workload = field(default_factory=Workload)


@dataclass
class Process:
    """What it has read of the hub, and whether it saw the Workload's present wish come."""

    hub: Hub
    witnessed: bool = False

    def read(self, hub: Hub) -> None:
        before, now = self.hub.workload, hub.workload
        if now.version < before.version:
            self.witnessed = False
        elif now.placed != before.placed:
            self.witnessed = True
        self.hub = copy.deepcopy(hub)

    @property
    def decided(self) -> float:
        return math.inf if self.witnessed else self.hub.workload.version


@dataclass(frozen=True)
class Lying:
    """An object on a member, and when, in true time, the decision was made that it is of."""

    shown: ManagedObject
    through: str
    made: int


class World:
    """A hub, two members, two processes, and secrets that lead somewhere."""

    def __init__(self) -> None:
        self.time = 0
        self.uids = 0
        self.hub = Hub()
        self.backup = copy.deepcopy(self.hub)
        self.leads: dict[str, str] = {}
        self.objects: dict[tuple[str, str], Lying] = {}
        self.processes = [Process(copy.deepcopy(self.hub)) for _ in range(2)]

    def step(self, what: str, name: str, member: str, process: int, kind: str) -> None:
        self.time += 1
        at = self.processes[process]
        match what:
            case "register":  # a name that is there: deleted and made again, or its Secret swapped
                self.uids += 1
                self.hub.names[name] = f"r{self.uids}"
                self.leads[name] = member
                self.hub.version += 1
            case "swap":
                self.leads[name] = member
            case "unregister":
                self.hub.names.pop(name, None)
                self.hub.version += 1
            case "place":
                placed = self.hub.workload.placed ^ {name}
                self.decide(placed)
            case "end":
                self.decide(frozenset(), ended=True)
            case "begin":
                self.decide(frozenset({name}))
            case "backup":
                self.backup = copy.deepcopy(self.hub)
            case "restore":
                self.hub = copy.deepcopy(self.backup)
            case "read":
                at.read(self.hub)
            case "restart":
                self.processes[process] = Process(copy.deepcopy(self.hub))
            case "push":
                self.push(at, name, kind)
            case "remove":
                self.remove(at, name)

    def decide(self, placed: frozenset[str], *, ended: bool = False) -> None:
        self.hub.version += 1
        self.hub.workload = Workload(self.hub.version, self.time, placed, ended)

    def push(self, at: Process, name: str, kind: str) -> None:
        uid, member, workload = at.hub.names.get(name), self.leads.get(name), at.hub.workload
        if uid is None or member is None or name not in workload.placed:
            return
        shown = found(kind, Mark(uid, member), "", workload.version)
        self.objects[member, kind] = Lying(shown, uid, workload.made)

    def remove(self, at: Process, name: str) -> None:
        uid, member, workload = at.hub.names.get(name), self.leads.get(name), at.hub.workload
        if uid is None or member is None or name in workload.placed:
            return
        if at.witnessed and workload != self.hub.workload:
            return  # a view that is not fresh is not acted on
        registered = set(at.hub.names.values())
        for (where, kind), lying in list(self.objects.items()):
            if where != member:
                continue
            grant = granted(
                lying.shown,
                "w",
                mark=Mark(uid, member),
                ended=workload.ended,
                decided=at.decided,
                registered=registered.__contains__,
            )
            if isinstance(grant, Grant) and not grant.let_go:
                self.check(lying, workload, uid, kind, registered)
                del self.objects[where, kind]

    def check(
        self, lying: Lying, workload: Workload, uid: str, kind: str, registered: set[str]
    ) -> None:
        assert lying.through == uid or lying.through not in registered, "another one serves it"
        if not workload.ended:
            assert kind != "PersistentVolumeClaim", "claims stay until the Workload ends"
            assert lying.made <= workload.made, "an old decision took away what a young one made"


steps = st.tuples(
    st.sampled_from(
        [
            *("register", "swap", "unregister", "place", "end", "begin", "backup", "restore"),
            *("place", "read", "read", "read", "restart", "push", "push", "remove", "remove"),
        ]
    ),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["c1", "c2"]),
    st.integers(0, 1),
    kinds,
)


@given(history=st.lists(steps, max_size=60))
@examples(1000)
def test_no_history_takes_away_what_another_registration_or_a_younger_decision_made(
    history: list[tuple[str, str, str, int, str]],
) -> None:
    world = World()
    for each in history:
        world.step(*each)


def test_histories_do_take_something_away() -> None:
    """Else the property above would say nothing."""
    world = World()
    for what in ("register", "place", "read", "push", "place", "read", "remove"):
        world.step(what, "a", "c1", 0, "Deployment")
    assert not world.objects


@pytest.mark.parametrize(
    ("then", "stays"),
    [
        (["restart"], True),  # what it finds is older than what runs
        (["read"], True),
        (["restart", "place", "read", "place", "read"], False),  # decided before its eyes
    ],
)
def test_a_hub_that_was_set_back_takes_nothing_that_runs(then: list[str], stays: bool) -> None:
    world = World()
    history = ["register", "backup", "place", "read", "push", "restore", *then, "remove"]
    for what in history:
        world.step(what, "a", "c1", 0, "Deployment")
    assert bool(world.objects) is stays


# --- the sweep ------------------------------------------------------------------------------------


@given(
    going=st.integers(1, 500),
    others=st.integers(0, 5000),
    went_back=st.booleans(),
    held=st.booleans(),
    older=st.booleans(),
)
@examples(300)
def test_much_at_once_waits_for_a_person(
    going: int, others: int, went_back: bool, held: bool, older: bool
) -> None:
    present = going + others
    reason = reason_to_hold(
        going=going, present=present, went_back=went_back, held=held, older=older
    )
    much = going > FEW and going > present / SHARE
    assert (reason is not None) is (went_back or held or much or older)
    if went_back:
        assert reason is SweepHeldReason.HUB_WENT_BACK
    elif older:
        assert reason is SweepHeldReason.KIND_MADE_ANEW
