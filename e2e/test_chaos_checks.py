"""The checks of the chaos are checked: each finds its own breach, and no other.

The watchman runs against fake servers, so that each case is one state of objects.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from crds.names import LABEL_WORKLOAD_UID, OWNER_PREFIX
from e2e.chaos import judgement, promises, wishes
from e2e.chaos.faults import Faults
from e2e.chaos.gangs import watch as gangwatch
from e2e.chaos.gangs import wishes as gangs
from e2e.chaos.gangs.users import ROOM, Gang
from e2e.chaos.gangs.watch import HALF_SECONDS, Gauge, findings_of
from e2e.chaos.judgement import Whole
from e2e.chaos.once import JobBook
from e2e.chaos.rollouts import watch as rolloutwatch
from e2e.chaos.rollouts.users import FIRST_WAVE, NAMESPACE, VARIABLE
from e2e.chaos.rollouts.users import Wish as AuthorsWish
from e2e.chaos.rollouts.users import workload as authored
from e2e.chaos.stage import MEMBERS
from e2e.chaos.watchman import Watchman
from e2e.chaos.writers import Write, interleaved
from machinery.api.resources import WORKLOADS
from machinery.api.verbs import ServerHistory
from machinery.errors import NotFound
from machinery.types.memory_budget import BudgetShare
from machinery.types.metadata import Meta
from propagator.status.cluster_share import UNPLACED
from tests.fakeclock import FakeClock, settle
from tests.memoryhub import MemoryHub

KEY = ("chaos-a", "w1")
INSTANCES = ("controller-a", "propagator-a", "propagator-b")
ITSELF = "the test itself"
"""What a finding begins with that is a fault of the watchman."""
NEW, OLD = wishes.image(wishes.PROBE), "registry.k8s.io/pause:old"


def workload(
    placed: Mapping[str, int],
    *,
    mode: str = "Divided",
    kind: str = "Deployment",
    generation: int = 2,
    **status: Any,
) -> dict[str, Any]:
    wish = wishes.Wish(mode, kind, sum(placed.values()), "3.1", config=None, secret=False)
    body = wishes.manifest(*KEY, wish)
    body["metadata"] |= {"uid": "u1", "generation": generation, "resourceVersion": "5"}
    body["spec"].setdefault("schedulerName", "stowage")
    body["status"] = {
        "placements": [{"cluster": c, "replicas": n} for c, n in placed.items()],
        "desired": sum(placed.values()),
        "decision": {"hash": "0123456789abcdef"},
        "assigned": sum(placed.values()),
        "pending": 0,
        "clusters": [{"name": c, "replicas": n, "state": "Running"} for c, n in placed.items()],
        "conditions": [{"type": "Propagated", "status": "True", "observedGeneration": generation}],
        **status,
    }
    return body


@pytest.mark.parametrize(
    ("kind", "cause", "first"),
    [
        ("StatefulSet", "Drained", True),
        ("StatefulSet", "ClusterGone", True),
        ("StatefulSet", "Placed", False),
        ("StatefulSet", "", True),
        ("Deployment", "Drained", False),
        ("Deployment", "ClusterGone", False),
        ("Deployment", "", False),
    ],
)
def test_only_what_runs_at_most_once_and_moves_may_be_nowhere(
    kind: str, cause: str, first: bool
) -> None:
    """Another scheduler's decisions have no history, and a set-back loses it."""
    found = workload({"member-1": 1}, kind=kind, history=[{"cause": cause}] if cause else [])
    if not cause:
        found["spec"]["schedulerName"] = wishes.SCHEDULER
    assert judgement.gives_first(found) is first
    assert judgement.gives_first(found, set_back=True) is (kind == "StatefulSet")


def test_numbers_that_do_not_add_up_are_found() -> None:
    assert not list(judgement.disagreements(workload({"member-1": 2})))
    assert list(judgement.disagreements(workload({"member-1": 2}, pending=1)))
    assert list(judgement.disagreements(workload({"member-1": 2}, desired=3)))
    assert list(judgement.disagreements(workload({"member-1": 2}, assigned=1)))
    twice = [{"name": "member-1"}, {"name": "member-1"}]
    assert list(judgement.disagreements(workload({"member-1": 2}, clusters=twice)))


def test_a_condition_ahead_of_its_time_is_found() -> None:
    ahead = [{"type": "Ready", "status": "True", "observedGeneration": 3}]
    assert list(judgement.disagreements(workload({"member-1": 2}, conditions=ahead)))


def test_a_unit_over_the_quota_is_found() -> None:
    full = [workload({"member-1": wishes.QUOTA}, mode="Strict")]
    assert not list(judgement.over_quota(full))
    assert not list(judgement.over_quota([*full, workload({"member-1": 1}, mode="Policy")]))
    more = workload({"member-1": 1}, mode="Strict")
    more["metadata"]["name"] = "more"
    assert list(judgement.over_quota([*full, more]))
    assert not list(judgement.over_quota([*full, workload({"member-1-again": 1}, mode="Strict")]))
    more["metadata"]["deletionTimestamp"] = "2026-11-22T00:00:00Z"
    assert not list(judgement.over_quota([*full, more]))


def test_a_move_without_cause_is_found() -> None:
    before, after = workload({"member-1": 2}), workload({"member-2": 2})
    assert list(judgement.moved(before, after, excused=()))
    assert not list(judgement.moved(before, after, excused={"member-1"}))
    assert not list(judgement.moved(before, workload({"member-2": 1}), excused=()))
    for cause, found in (("Drained", False), ("Edited", True)):
        after["status"]["history"] = [{"cause": cause, "time": "2026-11-26T08:00:00Z"}]
        assert bool(list(judgement.moved(before, after, excused=()))) is found
    for cause, found in (("Drained", False), ("Edited", True)):
        after["status"]["leaving"] = [{"cluster": "member-1", "replicas": 2, "cause": cause}]
        assert bool(list(judgement.moved(before, after, excused=()))) is found
    placed = [workload({f"member-{n}": 2}, mode="Placed") for n in (1, 2)]
    assert not list(judgement.moved(*placed, excused=()))


def test_only_what_is_said_of_the_present_generation_is_a_claim() -> None:
    assert judgement.claims(workload({"member-1": 2})) == ["member-1"]
    older = [{"type": "Propagated", "status": "True", "observedGeneration": 1}]
    assert not judgement.claims(workload({"member-1": 2}, conditions=older))
    creating = [{"name": "member-1", "replicas": 2, "state": "Creating"}]
    assert not judgement.claims(workload({"member-1": 2}, clusters=creating))


def test_less_than_a_quota_lets_in_is_found() -> None:
    wish = wishes.Wish("Strict", "Deployment", 3, "3.1", config=None, secret=False)
    promises._strict({KEY: workload({"member-1": 3}, mode="Strict")}, {KEY: wish})
    with pytest.raises(promises.Broken, match="2 of 3"):
        promises._strict({KEY: workload({"member-1": 2}, mode="Strict")}, {KEY: wish})


@pytest.mark.parametrize(("pending", "right"), [(1, True), (0, False)])
def test_what_ran_before_a_registration_may_stay_while_units_have_no_cluster(
    pending: int, right: bool
) -> None:
    wish = wishes.Wish("Strict", "Deployment", 2 + pending, "3.1", config=None, secret=False)
    full = "False" if pending else "True"
    found = workload({"member-1": 2}, mode="Strict", pending=pending, desired=2 + pending, ready=2)
    found["spec"]["replicas"] = wish.replicas
    found["status"]["clusters"].append(
        {"name": "member-2", "state": "Leaving", "message": UNPLACED}
    )
    found["status"]["conditions"] = [
        {"type": kind, "status": status, "observedGeneration": 2}
        for kind, status in (("Scheduled", full), ("Propagated", "False"), ("Ready", full))
    ]
    if right:
        promises._true(found, wish)
        return
    with pytest.raises(promises.Broken, match="Propagated is"):
        promises._true(found, wish)


def test_books_of_a_policy_that_are_not_true_are_found() -> None:
    there = {KEY: workload({"member-1": 2}, mode="Policy")}
    books = [{"name": zone, "replicas": 0} for zone in wishes.ZONES]
    books[0]["replicas"] = 2
    meta = {"namespace": KEY[0], "name": wishes.POLICY, "generation": 1}
    status: dict[str, Any] = {"allocated": books, "observedGeneration": 1}
    promises._counted({"metadata": meta, "status": status}, there)
    books[0]["replicas"] = 3
    with pytest.raises(promises.Broken, match="tells of"):
        promises._counted({"metadata": meta, "status": status}, there)


# --- the watchman on servers of the test's own ----------------------------------------------------


class Server:
    """An API server that holds a few objects by kind and key."""

    def __init__(self) -> None:
        self.holding = BudgetShare()
        self.history = ServerHistory()
        self.objects: dict[tuple[str, tuple[str, str]], dict[str, Any]] = {}

    async def get(self, resource: Any, name: str, *, namespace: str) -> dict[str, Any]:
        try:
            return self.objects[resource.kind, (namespace, name)]
        except KeyError:
            raise NotFound(code=404, reason="NotFound", message="not there") from None


def copy(*, ready: int, image: str = NEW, uid: str = "c1") -> Whole:
    return Whole(
        metadata=Meta(
            namespace=KEY[0],
            name=KEY[1],
            uid=uid,
            resource_version="1",
            annotations={f"{OWNER_PREFIX}u1": "/".join(KEY)},
        ),
        spec={"template": {"spec": {"containers": [{"image": image}]}}},
        status={"readyReplicas": ready},
    )


class Scene:
    """Two members, one Workload on the hub, and a watchman that sees the objects put there."""

    def __init__(self, hub: Mapping[str, Any]) -> None:
        self.hub, self.members = Server(), {"member-1": Server(), "member-2": Server()}
        self.hub.objects["Workload", KEY] = dict(hub)
        self.cut_off: set[str] = set()
        self.faults = SimpleNamespace(
            meddled=set(), spoilt=set(), away={}, acts=[], given_up={}, forgot=-math.inf, backs=0,
            quiet=lambda *subjects: 0.0 if self.cut_off & {*subjects} else math.inf,
        )  # fmt: skip
        self.churn = churn = SimpleNamespace(busy=set(), ended=set(), forgotten=set(), idle_at={})
        stage = SimpleNamespace(hub=self.hub, members=self.members, instances=INSTANCES)
        self.watchman = Watchman(stage, churn, self.faults)  # type: ignore[arg-type] # as much as it asks

    def put(self, member: str, there: Whole) -> None:
        self.members[member].objects["Deployment", KEY] = there.body()
        self.watchman._copies[member, "Deployment"].observe(there)
        self.watchman._handler(member, "Deployment")(None, there)

    async def removed(self, member: str, gone: Whole) -> list[str]:
        del self.members[member].objects["Deployment", KEY]
        self.watchman._handler(member, "Deployment")(gone, None)
        return await self.found()

    async def found(self) -> list[str]:
        await self.watchman.judged()
        assert not any(ITSELF in each for each in self.watchman.findings)
        return self.watchman.findings


@pytest.mark.parametrize(
    ("gone", "other", "breach"),
    [
        (1, 1, False),  # the other one is ready
        (1, 0, True),  # the other one is there, and not ready
        (1, None, True),  # there is no other one
        (0, None, True),  # also while it was not ready itself
        (0, 0, False),  # nothing healthy was lost
    ],
)
async def test_a_last_copy_that_goes_is_found(
    gone: int, other: int | None, *, breach: bool
) -> None:
    scene = Scene(workload({"member-2": 1}))
    leaving = copy(ready=gone)
    scene.put("member-1", leaving)
    if other is not None:
        scene.put("member-2", copy(ready=other, uid="c2"))
    assert bool(await scene.removed("member-1", leaving)) is breach


@pytest.mark.parametrize(
    ("image", "breach"), [(NEW, False), (OLD, True), (None, True)], ids=["new", "old", "none"]
)
async def test_a_claim_that_is_not_so_is_found(image: str | None, *, breach: bool) -> None:
    claimed = workload({"member-1": 1})
    scene = Scene(claimed)
    if image is not None:
        scene.put("member-1", copy(ready=1, image=image))
    scene.watchman._compare(claimed)
    assert bool(await scene.found()) is breach


@pytest.mark.parametrize("reported", [True, False])
async def test_a_claim_is_as_old_as_the_last_report_while_none_can_come(*, reported: bool) -> None:
    claimed = workload({"member-1": 1})
    scene = Scene(claimed)
    scene.cut_off.add("propagator-b")
    scene.watchman._compare(claimed)
    await settle()
    assert not scene.watchman.findings
    if reported:
        meta = {**claimed["metadata"], "resourceVersion": "6"}
        scene.hub.objects["Workload", KEY]["metadata"] = meta
    scene.cut_off.clear()
    assert bool(await scene.found()) is not reported


def volume(*, life: int = 1, deleting: str | None = None) -> Whole:
    return Whole(
        metadata=Meta(
            namespace=KEY[0],
            name=wishes.claim_of(KEY[1]),
            uid="v1",
            labels={wishes.LABEL_LIFE: str(life)},
            annotations={f"{OWNER_PREFIX}u1": "/".join(KEY)},
            deletion_timestamp=deleting,
        )
    )


@pytest.mark.parametrize("new", [None, volume(deleting="2026-11-22T00:00:00Z")])
@pytest.mark.parametrize(
    ("ended", "forgotten", "breach"),
    [
        (set(), set(), True),
        ({1}, set(), False),  # by a user's wish
        (set(), {"u1"}, False),  # the hub was set back, and a person let it go
        ({2}, {"u2"}, True),  # another Workload, and another life of this one
    ],
)
async def test_a_claim_that_goes_though_nobody_wished_it_is_found(
    ended: set[int], forgotten: set[str], new: Whole | None, *, breach: bool
) -> None:
    scene = Scene(workload({"member-1": 1}))
    scene.churn.ended, scene.churn.forgotten = ended, forgotten
    changed = scene.watchman._volume_handler("member-1")
    changed(None, volume())
    changed(volume(), volume(life=3))
    assert not scene.watchman.findings
    changed(volume(), new)
    changed(volume(deleting="2026-11-22T00:00:00Z"), None)
    assert len(scene.watchman.findings) == breach


def data(*, life: int = 1) -> Whole:
    """A claim of a StatefulSet, which carries no owner."""
    meta = volume(life=life).metadata
    return Whole(metadata=msgspec.structs.replace(meta, name="data-w1-0", annotations={}))


@pytest.mark.parametrize("how", ["kept", "ended", "given up", "set back"])
async def test_data_of_a_statefulset_that_goes_is_found(how: str) -> None:
    scene = Scene(workload({"member-1": 1}))
    changed = scene.watchman._volume_handler("member-1")
    changed(None, data())
    match how:
        case "ended":
            scene.churn.ended = {1}
        case "given up":
            scene.watchman._unsure.add(data().metadata.uid)
        case "set back":
            scene.faults.forgot = math.inf
    changed(data(), None)
    assert bool(scene.watchman.findings) is (how == "kept")


def test_a_kind_that_says_nothing_of_itself_and_moves_is_found() -> None:
    drained = [{"cause": "Drained", "time": "2026-11-26T08:00:00Z"}]
    for kind, found in (("Gadget", True), ("Widget", False)):
        before, after = (
            workload({member: 1}, kind=kind, history=history)
            for member, history in (("member-1", []), ("member-2", drained))
        )
        assert bool(list(judgement.moved(before, after, excused=()))) is found
        assert not list(judgement.moved(before, after, excused={"member-1"}))


def test_what_says_nothing_of_itself_and_is_called_ready_is_found() -> None:
    wish = wishes.Wish("Single", "Gadget", 1, "3.1", config=None, secret=False)
    unknown = {"type": "Ready", "status": "False", "reason": "ReadinessUnknown"}
    for said, ready, found in ((unknown, 0, False), (unknown, 1, True), ({"reason": "?"}, 0, True)):
        told = workload({"member-1": 1}, kind="Gadget", ready=ready)
        told["status"]["conditions"] = [
            {"observedGeneration": 2, "status": "True", **each}
            for each in ({"type": "Scheduled"}, {"type": "Propagated"}, unknown | said)
        ]
        if not found:
            promises._true(told, wish)
            continue
        with pytest.raises(promises.Broken, match=r"units are ready|not ReadinessUnknown"):
            promises._true(told, wish)


# --- what runs once -------------------------------------------------------------------------------


def job(uid: str, *, mode: str = "Single", end: str = "", completions: int = 8) -> dict[str, Any]:
    conditions = [{"type": end, "status": "True"}] if end else []
    return {
        "metadata": {"uid": uid, "labels": {wishes.LABEL_MODE: mode}},
        "spec": {"completions": completions},
        "status": {"conditions": conditions, "succeeded": completions if end == "Complete" else 0},
    }


NOTED: dict[str, Any] = {}
"""The hub has heard of the end."""


def in_turn(*states: tuple[str, dict[str, Any] | None], forgot: float = -math.inf) -> list[str]:
    """Return what is found of states of Jobs of one run; None where their member is given up."""
    book = JobBook()
    found: list[str] = []
    for member, each in states:
        if each is None:
            book.given_up([member])
        elif each is NOTED:
            shares = [{"name": member, "ended": {"result": "Complete"}}]
            book.noted({"metadata": {"uid": "u1"}, "status": {"clusters": shares}})
        else:
            found += book.seen(("u1", "w1-1-0"), member, each, now=1.0, forgot=forgot)
    return found


@pytest.mark.parametrize("member", ["member-1", "member-2"])
@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_a_job_that_runs_again_after_its_end_is_found(member: str, end: str) -> None:
    ended = [("member-1", job("j1")), ("member-1", job("j1", end=end))]
    assert not in_turn(*ended, *ended)
    assert in_turn(*ended, (member, job("j2")))
    assert not in_turn(*ended, (member, job("j2")), forgot=2.0), "the hub was set back"
    given_up = (("member-1", None), (member, job("j2")))
    assert in_turn(*ended, ("member-1", NOTED), *given_up)
    assert not in_turn(*ended, *given_up), "the hub has not heard of the end"


def test_a_copy_of_a_job_that_runs_again_on_its_cluster_is_found() -> None:
    copies = [("member-1", job(uid, mode="Duplicated", end="Complete")) for uid in ("j1", "j2")]
    noted = [copies[0], ("member-1", NOTED)]
    assert in_turn(*noted, copies[1])
    assert not in_turn(*noted, ("member-1", None), copies[1]), "by another name it is another one"


def test_a_job_that_is_made_elsewhere_before_its_end_runs_once() -> None:
    moved = [
        ("member-1", job("j1")),
        ("member-2", job("j2")),
        ("member-2", job("j2", end="Complete")),
    ]
    assert not in_turn(*moved)
    both = [*moved, ("member-1", job("j1", end="Complete"))]
    assert in_turn(*both)
    assert not in_turn(both[0], ("member-1", None), *both[1:]), "a person let go of what runs there"


@pytest.mark.parametrize("mode", ["Divided", "Duplicated"])
def test_more_than_a_divided_job_was_asked_for_is_found(mode: str) -> None:
    parts = [
        (f"member-{n}", job(f"j{n}", mode=mode, end="Complete", completions=4)) for n in (1, 2, 3)
    ]
    assert not in_turn(*parts[:2])
    assert bool(in_turn(*parts)) is (mode == "Divided")
    again = job("j4", mode=mode)
    assert bool(in_turn(parts[0], ("member-1", again))) is (mode == "Duplicated")
    assert not in_turn(parts[0], ("member-2", again))


def test_work_of_a_divided_job_that_nobody_has_done_is_found() -> None:
    book, part = JobBook(), job("j1", mode="Divided", completions=5)
    part["status"]["succeeded"] = 2  # and it leaves
    for member, each in (
        ("member-1", part),
        ("member-1", job("j2", mode="Divided", end="Complete", completions=3)),
    ):
        assert not list(book.seen(("u1", "w1-1-0"), member, each, now=1.0, forgot=-math.inf))
    assert book.lacking(("u1", "w1-1-0"), forgot=-math.inf) == 3
    assert book.lacking(("u1", "w1-1-0"), forgot=2.0) == 0, "the hub was set back"


def pod(name: str, *, runs: str = "by-ordinal", uid: str = "p1", of: str = "u1") -> Whole:
    labels = {LABEL_WORKLOAD_UID: of, wishes.LABEL_RUNS: runs}
    meta = Meta(namespace=KEY[0], name=name, uid=uid, resource_version="1", labels=labels)
    return Whole(metadata=meta, status={"phase": "Running"})


@pytest.mark.parametrize(
    ("one", "other", "breach"),
    [
        (pod("w1-0"), pod("w1-0", uid="p2"), True),
        (pod("w1-0"), pod("w1-1000", uid="p2"), False),
        (pod("w1-0"), pod("w1-0", uid="p2", of="u2"), False),
        (pod("w1-0", runs=wishes.ONCE), pod("w1-1000", runs=wishes.ONCE, uid="p2"), True),
    ],
    ids=["an ordinal twice", "two ordinals", "of two Workloads", "a whole that runs once"],
)
async def test_what_runs_twice_at_one_moment_is_found(
    one: Whole, other: Whole, *, breach: bool
) -> None:
    for there in (True, False):
        for given_up in (False, True):
            scene = Scene(workload({"member-1": 1}))
            once = scene.watchman.once
            once._pods["member-2"].observe(other)
            scene.members["member-1"].objects["Pod", one.metadata.key] = one.body()
            if there:  # otherwise the watch is behind, and it is gone
                scene.members["member-2"].objects["Pod", other.metadata.key] = other.body()
            if given_up:
                scene.faults.given_up["member-2"] = asyncio.get_running_loop().time()
            once.pod_handler("member-1")(None, one)
            assert bool(await scene.found()) is (breach and there and not given_up)


@pytest.mark.parametrize(("replicas", "breach"), [(1, True), (2, True), (3, False)])
async def test_a_whole_that_moves_replica_by_replica_has_no_more_than_wanted(
    replicas: int, *, breach: bool
) -> None:
    scene, once_more = Scene(workload({"member-1": 1})), {"runs": wishes.ONCE}
    template, once = {"kind": "StatefulSet"}, scene.watchman.once
    once.wanted({"metadata": {"uid": "u1"}, "spec": {"template": template, "replicas": replicas}})
    one = pod("w1-1000", **once_more)
    for other in (pod("w1-0", uid="p2", **once_more), pod("w1-1", uid="p3", **once_more)):
        once._pods["member-2"].observe(other)
        scene.members["member-2"].objects["Pod", other.metadata.key] = other.body()
    scene.members["member-1"].objects["Pod", one.metadata.key] = one.body()
    once.pod_handler("member-1")(None, one)
    assert bool(await scene.found()) is breach


def test_an_ordinal_that_stays_on_two_members_is_found() -> None:
    def stateful(replicas: int, **spec: Any) -> dict[str, Any]:
        meta = {"namespace": KEY[0], "name": KEY[1]}
        return {"metadata": meta, "spec": {"replicas": replicas, **spec}}

    first, second = stateful(2), stateful(2, ordinals={"start": 1000})
    assert not list(judgement.same_ordinals({"member-1": first, "member-2": second}))
    assert list(judgement.same_ordinals({"member-1": first, "member-2": stateful(1)}))
    assert not list(judgement.same_ordinals({"member-1": first, "member-2": stateful(0)}))


async def test_a_last_copy_goes_from_a_hub_that_forgot_it_is_found() -> None:
    scene = Scene(workload({"member-1": 1}))
    del scene.hub.objects["Workload", KEY]
    leaving = copy(ready=1)
    scene.put("member-1", leaving)
    assert await scene.removed("member-1", leaving)


async def test_a_fault_of_a_question_is_no_silence() -> None:
    scene = Scene(workload({}))

    async def wrong() -> None:
        await asyncio.sleep(0)
        raise KeyError("a field")

    scene.watchman._ask(wrong())
    await scene.watchman.judged()
    assert ITSELF in scene.watchman.findings[0]


# --- gangs ----------------------------------------------------------------------------------------


def gang_status(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "g1"},
        "spec": {"minMember": 3},
        "status": {"phase": "Running", "gate": "Open", "scheduled": 3, **status},
    }


def test_a_gang_that_stays_half_is_found_once() -> None:
    gauge = Gauge()
    assert not gauge.look("g1", {"member-1": 2}, 3, 10)
    assert not gauge.look("g1", {"member-1": 2}, 3, 10 + HALF_SECONDS)
    assert gauge.look("g1", {"member-1": 1}, 3, 10.1 + HALF_SECONDS)
    assert not gauge.look("g1", {"member-1": 1}, 3, 99 + HALF_SECONDS), "it was told"
    assert gauge.halves == 1
    assert gauge.longest > HALF_SECONDS


def test_a_group_that_tells_of_units_that_are_not_there_is_found() -> None:
    there = {"g1-0": {"member-1": 1, "member-2": 2}}
    assert not findings_of(gang_status(), there)
    assert findings_of(gang_status(scheduled=4), there)
    assert findings_of(gang_status(phase="Scheduled"), there)
    assert findings_of(gang_status(), {"g1-0": {}})
    nothing = gang_status(phase="Pending", gate=None, scheduled=0)
    assert not findings_of(nothing, {"g1-0": {}})
    assert findings_of(nothing, {"g1-0": {"member-1": 2}})
    assert findings_of({**nothing, "status": {"waiting": 2}}, {"g1-0": {}})


def test_a_gang_that_waits_though_it_fits_is_found() -> None:
    def gang(units: int) -> Gang:
        return Gang((units,), units, "3.1")

    many = {f"g{n}": gang(ROOM // 4) for n in range(1, 5)}
    told = {name: {**gang_status(scheduled=ROOM // 4), "metadata": {"name": name}} for name in many}
    there = {f"{name}-0": {"member-1": ROOM // 4} for name in many}
    wanted, waits = many | {"g5": gang(2)}, gang_status(phase="Pending", gate=None, scheduled=0)
    waits["metadata"] = {"name": "g5"}
    assert gangs.judged(wanted, told | {"g5": waits}, there) == len(many)
    del wanted["g4"], told["g4"], there["g4-0"]
    with pytest.raises(promises.Broken, match="g5 waits"):
        gangs.judged(wanted, told | {"g5": waits}, there)


def test_half_a_gang_is_held_against_who_can_mend_it() -> None:
    servers = {name: Server() for name in ("member-1", "member-2")}
    stage: Any = SimpleNamespace(hub=Server(), members=servers)
    users: Any = SimpleNamespace(
        wanted={"g1": Gang((3,), 3, "3.1")}, busy=set(), diminished=set(), absent={"g2"}
    )
    watchman = gangwatch.GangWatchman(stage, users, lambda _: frozenset())
    there = copy(ready=0)
    there.spec["replicas"] = 2
    meta = msgspec.structs.replace(there.metadata, namespace="gangs", name="g1-0")
    watchman._copies["member-1"].observe(msgspec.structs.replace(there, metadata=meta))
    assert watchman._held_against("g1", frozenset()) == {"member-1": 2}
    assert not watchman._held_against("g1", frozenset({"member-1"})), "nobody can empty it"
    assert watchman._held_against("g1", frozenset({"member-2"}))
    watchman.ran.add("g1")
    assert watchman._held_against("g1", frozenset())
    assert not watchman.removing("member-1"), "a group is away just now"
    users.absent.clear()
    assert watchman.removing("member-1")
    assert not watchman._held_against("g1", frozenset()), "its units there went with the member"
    watchman.ran.clear()
    users.busy.add("g1")
    assert not watchman._held_against("g1", frozenset())


async def test_what_comes_to_a_member_unreleased_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangwatch, "_RELEASED_SECONDS", 0.3)
    servers = {name: Server() for name in ("member-1", "member-2")}
    stage: Any = SimpleNamespace(hub=Server(), members=servers)
    watchman = gangwatch.GangWatchman(stage, SimpleNamespace(), lambda _: frozenset())  # type: ignore[arg-type] # never asked
    arrived = watchman._handler("member-1")
    group = Whole(metadata=Meta(name="g1", resource_version="1"), spec={"minMember": 1})
    group.status.update(gate="Open", decisions={"u1": "d"})
    arrived(None, copy(ready=0))
    watchman._group_changed(None, group)  # the hub's stream was behind
    await watchman.judged()
    assert not watchman.findings
    stranger = msgspec.structs.replace(
        copy(ready=0), metadata=Meta(name="g2-0", annotations={f"{OWNER_PREFIX}u2": "gangs/g2-0"})
    )
    arrived(None, stranger)
    await watchman.judged()
    assert len(watchman.findings) == 1


# --- rollouts -------------------------------------------------------------------------------------


def rolling(rollout: Mapping[str, Any], *members: str, approved: bool = False) -> Whole:
    """A Workload of which these members are given the revision `new`; `old` is the stable one."""
    meta = Meta(namespace=NAMESPACE, name="r1", uid="u1", resource_version="1")
    said = {"approvals": [{"wave": FIRST_WAVE, "revision": "new"}]} if approved else {}
    spec = authored("r1", AuthorsWish("pause:2", said=said))["spec"]
    placements = [{"cluster": each, "replicas": 1} for each in members]
    return Whole(metadata=meta, spec=spec, status={"rollout": rollout, "placements": placements})


@pytest.mark.parametrize("members", [("member-2",), ("member-1", "member-2")])
@pytest.mark.parametrize(
    ("approved", "healthy"), [(True, True), (False, True), (True, False), (False, False)]
)
async def test_a_wave_whose_approval_or_health_is_passed_over_is_found(
    members: tuple[str, ...], *, approved: bool, healthy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolloutwatch, "_LAG_SECONDS", 0.0)
    stage: Any = SimpleNamespace(hub=Server(), members={"member-1": Server()})
    watchman = rolloutwatch.RolloutWatchman(stage)
    moving = rolling(
        {"phase": "Progressing", "revision": "new", "stable": "old"}, *members, approved=approved
    )
    watchman._images["u1", "new"] = "pause:2"
    if healthy:
        watchman._healthy.add(("u1", "member-1", "pause:2"))
    watchman._workload_changed(None, moving)
    await watchman.judged()
    # A wave that has lost its only cluster cannot be healthy; its approval is owed all the same.
    owed = not approved or (not healthy and "member-1" in members)
    assert bool(watchman.findings) is owed


async def test_what_no_wave_gave_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolloutwatch, "_LAG_SECONDS", 0.0)
    stage: Any = SimpleNamespace(hub=Server(), members={"member-2": Server()})
    for given in (True, False):
        watchman = rolloutwatch.RolloutWatchman(stage)
        watchman._images["u1", "new"] = NEW
        if given:
            watchman._given.add(("u1", "member-2", "new"))
        there = copy(ready=1)
        env = [{"name": VARIABLE, "value": "member-2"}]
        there.spec["template"]["spec"]["containers"][0]["env"] = env
        watchman._judge_copy("member-2", "u1", there)
        await watchman.judged()
        assert bool(watchman.findings) is not given


# --- the faults -----------------------------------------------------------------------------------


async def test_what_is_being_mended_at_the_end_is_mended() -> None:
    """Registering a member takes several requests: the end of the run waits for all of them."""
    registered, asked = dict.fromkeys(MEMBERS, True), asyncio.Event()

    async def give_up(member: str) -> bool:
        registered[member] = False
        return True

    async def register(member: str) -> None:
        asked.set()
        await settle()
        registered[member] = True

    stage: Any = SimpleNamespace(
        give_up=give_up, register=register, pushed=MEMBERS, instances=INSTANCES, shards=1, pulled=""
    )
    faults = Faults(stage, SimpleNamespace(), seed=1, say=lambda _: None)  # type: ignore[arg-type] # never asked
    fault = faults._registrations.deregister
    faults._choose = lambda: ("member-1", "deregister", fault)  # type: ignore[method-assign] # only that
    faults._chance.uniform = lambda *_: 0.001  # type: ignore[method-assign] # at once
    running = asyncio.create_task(faults.run())
    await asked.wait()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert all(registered.values())


def _written(*made: tuple[str, str, float]) -> list[Write]:
    """Each write by process, term and when it came in; it is answered half a second later."""
    return [
        Write("m1", name, 7, term, began, began + 0.5, f"patch of {name}")
        for name, term, began in made
    ]


@pytest.mark.proves("SC2", "SC4", "PL19")
@pytest.mark.parametrize(
    ("made", "changes", "broken"),
    [
        pytest.param([("a", "t1", 0), ("b", "t2", 9), ("b", "t2", 20)], [], 0, id="over once"),
        pytest.param([("a", "t1", 0), ("b", "t2", 9), ("a", "t1", 20)], [], 1, id="and back"),
        pytest.param([("a", "t1", 0), ("b", "t2", 9), ("a", "t3", 20)], [], 0, id="a new term"),
        pytest.param([("a", "t1", 0), ("b", "t2", 9), ("a", "t1", 20)], [1], 1, id="a change"),
        pytest.param([("a", "t1", 0), ("b", "t2", 9), ("a", "t1", 20)], [1, 12], 0, id="two"),
        pytest.param([("a", "t1", 0), ("b", "t2", 0.3), ("a", "t1", 0.7)], [], 0, id="at once"),
        pytest.param([("a", "", 0), ("b", "", 1), ("a", "", 2)], [], 1, id="agents in turns"),
        pytest.param([("a", "", 0), ("b", "", 20), ("a", "", 90)], [], 0, id="one for the other"),
        pytest.param([("a", "t1", 0), ("a", "", 9), ("a", "t1", 20)], [8], 0, id="the only one"),
    ],
)
def test_a_process_that_writes_after_its_successor_is_found(
    made: list[tuple[str, str, float]], changes: list[float], broken: int
) -> None:
    assert len(list(interleaved(_written(*made), changes))) == broken


async def test_writes_that_undo_each_other_are_told_step_by_step() -> None:
    hub = MemoryHub(clock=FakeClock(), admission=False)
    hub.put(WORKLOADS, workload({"member-1": 1}))
    told: dict[str, Any] = {"namespace": KEY[0], "status": True}
    async with promises.steps(hub) as seen:
        for message in ("on its way", None):
            hub.edit(WORKLOADS, KEY[1], {"status": {"message": message}}, **told)
            await settle()
    there, back = seen["hub", "Workload", *KEY]
    assert ".status.message: None → on its way" in there
    assert ".status.message: on its way → None" in back


def test_what_a_process_wrote_when_it_was_killed_is_no_fault() -> None:
    one = '{"time": "2026-12-01T11:23:34Z", "level": "info", "logger": "machinery", '
    two = '{"time": "2026-12-01T11:23:47Z", "level": "LEVEL", "message": "listening"}'
    assert promises.log_faults(one + two.replace("LEVEL", "info")) == []
    assert len(promises.log_faults(one + two.replace("LEVEL", "error"))) == 1
    assert len(promises.log_faults(f"{one}\nTraceback (most recent call last):")) == 2
