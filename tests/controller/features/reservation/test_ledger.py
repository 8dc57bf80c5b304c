"""The ledger of Reservations: owners, held room, and the units inside."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controller.features.reservation.compiled import compile_reservation
from controller.features.reservation.ledger import MOST_PLACES, MOST_USED, ReservationLedger
from controller.features.reservation.owners import matches
from controller.features.reservation.split import fitting, pieces, using_up
from crds.fields.shares import MOST_RESERVED_SHARES
from machinery.types.workload_api import ReservedShare
from tests.controller.features.reservation.reservations import (
    CREATED,
    NS,
    PLACED,
    Hall,
    as_placed,
    owner,
    reservation,
)

PEAK = (NS, "peak")


def share(units: int, cluster: str = "a", name: str = "peak", uid: str = "") -> ReservedShare:
    return ReservedShare(NS, name, uid or f"uid-{name}", cluster, units)


def everybody(**more: Any) -> dict[str, Any]:
    return {"owners": [{"labelSelector": {}}], "allocateOnce": False, **more}


# --- what is held, and given back ----------------------------------------------------------------


@pytest.mark.proves("E25")
def test_what_is_reserved_is_there_for_nobody_else():
    hall = Hall("a")
    other = owner("other")
    assert hall.fits(other, "a") == 8
    hall.reserve(reservation(placed={"a": 1}))
    assert hall.fits(other, "a") == 4
    assert hall.amounts("a").reserved == {"cpu": 4000, "pods": 1}
    hall.release()
    assert hall.fits(other, "a") == 8
    assert hall.holds == {}


@pytest.mark.proves("E28")
def test_an_owner_finds_the_room_and_takes_it_once():
    hall = Hall("a").reserving(reservation(request={"cpu": "8"}, placed={"a": 1}))
    demo = owner(request={"cpu": "2"}, replicas=4)
    assert hall.fits(demo, "a") == 0
    assert hall.fits_with_its_own(demo, "a") == 4
    assert hall.inside(demo.info) == {"a": 4}
    assert hall.decide(demo, {"a": 4}) == (share(4),)
    assert hall.amounts("a").reserved == {}
    assert hall.amounts("a").requested["cpu"] == 8000


@pytest.mark.proves("E28", "E29")
def test_room_of_an_owner_that_goes_comes_back_unless_it_serves_once():
    for once, left in ((False, 4000), (True, 0)):
        hall = Hall("a")
        hall.reserve(reservation(request={"cpu": "6"}, placed={"a": 1}, allocateOnce=once))
        demo = owner(request={"cpu": "2"}, replicas=1)
        hall.decide(demo, {"a": 1})
        assert hall.amounts("a").reserved.get("cpu", 0) == left
        hall.undo(demo, {"a": 1})
        assert hall.amounts("a").reserved == {"cpu": 6000, "pods": 1}


@pytest.mark.proves("E29")
def test_one_that_serves_once_serves_nobody_else():
    hall = Hall("a").reserving(reservation(placed={"a": 2}, owners=[{"labelSelector": {}}]))
    first, second = hall.store(owner("first")), hall.store(owner("second"))
    assert [r.name for r in hall.books.of(second)] == ["peak"]
    hall.world.assume(first, {"a": 1})
    assert hall.books.of(second) == []
    assert hall.books.split(second, {"a": 1}) == ()
    assert hall.inside(first) == {}


@pytest.mark.proves("E29")
def test_what_its_only_owner_did_not_take_at_first_it_does_not_take_later():
    hall = Hall("a").reserving(reservation(placed={"a": 2}))
    hall.store(owner(present={"a": 1}, inside=[share(1)]))
    grown = hall.workloads[NS, "demo"].info
    assert hall.books.split(grown, {"a": 5}) == (share(1),)


@pytest.mark.proves("E29")
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_one_that_has_ended_holds_nothing_and_takes_nobody(phase):
    hall = Hall("a").reserving(reservation(placed={"a": 1}, allocateOnce=False))
    demo = hall.store(owner(present={"a": 1}, inside=[share(1)], replicas=3))
    assert hall.amounts("a").reserved["cpu"] == 3000
    hall.reserve(reservation(placed={"a": 1}, allocateOnce=False, phase=phase))
    assert hall.amounts("a").reserved == {}
    assert hall.books.of(demo) == []
    assert hall.books.split(demo, {"a": 2}) == (share(1),), "who was inside stays on record"
    assert [*hall.books.uses(PEAK)] == [(NS, "demo")]


@pytest.mark.proves("E29")
def test_one_that_is_being_deleted_holds_nothing():
    hall = Hall("a").reserving(reservation(placed={"a": 1}))
    hall.reserve(reservation(placed={"a": 1}, deleting=True))
    assert hall.amounts("a").reserved == {}


@pytest.mark.proves("E28")
def test_who_was_inside_stays_and_units_outside_go_first():
    hall = Hall("a", "b").reserving(reservation(placed={"a": 1}, **everybody()))
    demo = hall.store(owner(present={"a": 3, "b": 1}, inside=[share(2)], replicas=4))
    assert hall.books.split(demo, {"a": 2, "b": 2}) == (share(2),)
    assert hall.books.split(demo, {"a": 1, "b": 3}) == (share(1),)
    assert hall.books.split(demo, {"b": 4}) == ()
    assert hall.books.split(demo, {"a": 6}) == (share(4),), "two new ones use it up"


@pytest.mark.proves("E26", "E28")
def test_who_was_inside_is_outside_as_far_as_it_no_longer_reaches():
    hall = Hall("a", "b").reserving(reservation(placed={"a": 3}, **everybody()))
    demo = hall.store(owner(request={"cpu": "4"}, present={"a": 3}, inside=[share(3)], replicas=3))
    assert not hall.books.says_too_much(demo)
    hall.reserve(reservation(placed={"a": 1, "b": 2}, **everybody()))
    assert hall.books.says_too_much(demo)
    assert hall.books.split(demo, {"a": 3}) == (share(1),)
    hall.reserve(reservation(placed={"b": 3}, **everybody()))
    assert hall.books.split(demo, {"a": 3}) == (), "and it is nowhere inside where nothing is held"
    assert not hall.books.says_too_much(demo), "that is seen by who looks at the claimants"


@pytest.mark.proves("E29")
def test_what_ends_first_is_used_first_then_the_oldest_then_by_name():
    hall = Hall("a")
    spec = everybody(ttl="0")
    old = {"created": "2025-01-01T00:00:00Z"}
    hall.reserve(reservation("d", placed={"a": 1}, **spec))
    hall.reserve(reservation("c", placed={"a": 1}, **spec))
    hall.reserve(reservation("b", placed={"a": 1}, **spec, **old))
    hall.reserve(reservation("a", placed={"a": 1}, **spec | {"expires": "2030-01-01T00:00:00Z"}))
    hall.reserve(reservation("z", placed={"a": 1}, **spec | {"ttl": "1h"}))
    demo = hall.store(owner(request={"cpu": "3"}))
    assert [r.name for r in hall.books.of(demo)] == ["z", "a", "b", "c", "d"]
    inside = hall.books.split(demo, {"a": 3})
    assert inside == tuple(share(1, name=name) for name in ("a", "b", "z")), "a whole one in each"


@pytest.mark.proves("E28")
def test_what_is_left_is_held_in_pieces_that_lie_where_a_unit_lay():
    """Ten units of 1 cpu and 1Gi, of which all cpu is taken: 10Gi at once would lie nowhere."""
    request = {"cpu": 1000, "memory": 2**30, "pods": 1}
    rest = {"cpu": 0, "memory": 10 * 2**30, "pods": 3}
    assert pieces(rest, request) == [
        ({"memory": 2**30, "pods": 1}, 3),
        ({"memory": 2**30}, 7),
    ]
    assert pieces({"cpu": 2500, "memory": 2**30, "pods": 1}, request) == [
        (request, 1),
        ({"cpu": 1000}, 1),
        ({"cpu": 500}, 1),
    ]
    assert pieces(dict.fromkeys(request, 0), request) == []


@pytest.mark.proves("E28")
def test_places_for_pods_bound_nobody_where_anything_else_is_reserved():
    unused, one = {"cpu": 4000, "pods": 1}, {"cpu": 1000, "memory": 5, "pods": 1}
    assert (fitting(unused, one), using_up(unused, one)) == (4, 4)
    assert fitting({"cpu": 4000, "memory": 12, "pods": 1}, one) == 2
    assert using_up({"cpu": 4000, "memory": 12, "pods": 1}, one) == 4
    assert fitting({"pods": 3}, one) == using_up({"pods": 3}, one) == 3
    assert fitting({"cpu": 4000, "pods": 2}, {"pods": 1}) == 2
    assert fitting({}, one) == using_up({}, one) == 0


@pytest.mark.proves("E25")
def test_who_waits_for_room_hears_of_it_when_others_gain_and_only_then():
    class Listening:
        def __init__(self) -> None:
            self.heard: list[str] = []

        def hold(self, cluster: str, load: Any, units: int) -> None:
            """Counted elsewhere."""

        def freed(self, cluster: str) -> None:
            self.heard.append(cluster)

    room, hall = Listening(), Hall("a", "b")
    hall.books.keep(room)
    hall.reserve(reservation(placed={"a": 1, "b": 1}, allocateOnce=False))
    demo = owner()
    hall.decide(demo, {"a": 2})
    hall.undo(demo, {"a": 2})
    assert room.heard == [], "what owners take and leave is held for them before and after"
    hall.reserve(reservation(placed={"a": 1}, allocateOnce=False))
    assert room.heard == ["b"]
    hall.reserve(reservation(placed={"a": 1}, allocateOnce=True))
    assert room.heard == ["b"]
    hall.decide(demo, {"a": 2})
    assert room.heard == ["b", "a"], "from the first owner on the rest is everybody's"


# --- owners ---------------------------------------------------------------------------------------

DEPLOYED = {"apiVersion": "v1", "kind": "App", "name": "web", "uid": "u7"}
DEPLOYMENT = {"kind": "Deployment", "name": "demo"}
APP = {"kind": "App", "name": "web"}


def with_label(key: str, operator: str, *values: str) -> dict[str, Any]:
    term = {"key": key, "operator": operator, **({"values": [*values]} if values else {})}
    return {"labelSelector": {"matchExpressions": [term]}}


ENTRIES: list[tuple[str, dict[str, Any], dict[str, Any], bool]] = [
    ("its name", {"object": {"name": "demo"}}, {}, True),
    ("its name and UID", {"object": {"name": "demo", "uid": "uid-demo"}}, {}, True),
    ("another UID", {"object": {"name": "demo", "uid": "x"}}, {}, False),
    ("another name", {"object": {"name": "other"}}, {}, False),
    ("another kind", {"object": {"name": "demo", "kind": "Job"}}, {}, False),
    ("its own namespace", {"object": {"name": "demo", "namespace": NS}}, {}, True),
    ("another one", {"object": {"name": "demo", "namespace": "x"}}, {"namespace": "x"}, False),
    ("nobody", {}, {}, False),
    ("a label", {"labelSelector": {"matchLabels": {"app": "demo"}}}, {}, True),
    ("another label", {"labelSelector": {"matchLabels": {"app": "x"}}}, {}, False),
    ("no requirement", {"labelSelector": {}}, {}, True),
    ("one of several labels", with_label("app", "In", "x", "demo"), {}, True),
    ("a label that is not there", with_label("b", "DoesNotExist"), {}, True),
    ("name and label", {"object": {"name": "demo"}, **with_label("app", "In", "x")}, {}, False),
    ("its template", {"controller": DEPLOYMENT}, {}, True),
    ("its template's version", {"controller": DEPLOYMENT | {"apiVersion": "apps/v1"}}, {}, True),
    ("another version", {"controller": DEPLOYMENT | {"apiVersion": "apps/v2"}}, {}, False),
    ("a UID that no template has", {"controller": DEPLOYMENT | {"uid": "u"}}, {}, False),
    ("who controls it", {"controller": DEPLOYED}, {"controller": DEPLOYED}, True),
    ("one of that name", {"controller": APP | {"uid": "u8"}}, {"controller": DEPLOYED}, False),
    (
        "who owns it and does not control it",
        {"controller": APP},
        {"controller": {**DEPLOYED, "controller": False}},
        False,
    ),
    (
        "two namespaces",
        {
            "object": {"name": "demo", "namespace": NS},
            "controller": DEPLOYMENT | {"namespace": "x"},
        },
        {},
        False,
    ),
]


@pytest.mark.proves("E29")
@pytest.mark.parametrize(
    ("entry", "fields", "expected"), [pytest.param(*rest, id=name) for name, *rest in ENTRIES]
)
def test_an_owner_is_whom_all_that_is_given_means(entry, fields, expected):
    hall = Hall("a")
    never = {"object": {"name": "nobody"}}
    compiled = hall.reserve(reservation(owners=[never, entry]))
    demo = owner(**fields)
    assert matches(compiled, demo.info) is expected
    assert bool(hall.books.of(demo.info)) is expected


@pytest.mark.proves("E29")
def test_only_what_runs_stowage_may_hold_room_for_other_namespaces():
    entry = {"object": {"name": "demo", "namespace": "shop"}}
    for namespace, expected in (("stowage-system", True), ("other", False), ("shop", True)):
        hall = Hall("a")
        hall.reserve(reservation(namespace=namespace, owners=[entry], placed={"a": 1}))
        assert bool(hall.books.of(owner().info)) is expected


@pytest.mark.proves("E29")
def test_a_reservation_is_no_owner_of_another_one():
    hall = Hall("a").reserving(reservation("first", **everybody()))
    placed = as_placed(reservation("second", **everybody(), labels={"app": "demo"}))
    assert placed is not None
    assert hall.books.of(placed.info) == []
    assert hall.books.split(placed.info, {"a": 1}) == ()


@pytest.mark.proves("E29")
def test_an_edit_of_owners_keeps_who_is_inside_and_takes_others_in():
    hall = Hall("a").reserving(reservation(placed={"a": 1}, allocateOnce=False))
    demo = hall.store(owner(present={"a": 1}, inside=[share(1)], replicas=2))
    other = hall.store(owner("other"))
    compiled = hall.reserve(
        reservation(placed={"a": 1}, allocateOnce=False, owners=[{"object": {"name": "other"}}])
    )
    assert hall.books.of(demo) == []
    assert hall.books.split(demo, {"a": 2}) == (share(1),)
    assert hall.inside(other) == {"a": 3}
    assert [*hall.books.pending_owners(compiled)] == [(NS, "other")]


def test_who_waits_is_found_among_owners():
    hall = Hall("a")
    compiled = hall.reserve(reservation(placed={"a": 1}, **everybody()))
    hall.store(owner("waits", replicas=2, present={"a": 1}))
    hall.store(owner("runs", replicas=2, present={"a": 2}))
    hall.store(owner("wants-nothing", replicas=0))
    hall.store(owner("elsewhere", namespace="other"))
    assert [*hall.books.pending_owners(compiled)] == [(NS, "waits")]
    hall.delete("waits")
    assert [*hall.books.pending_owners(compiled)] == []


# --- what others write ----------------------------------------------------------------------------

NONSENSE: list[tuple[str, list[Any], tuple[ReservedShare, ...]]] = [
    ("another UID", [msgspec.to_builtins(share(1, uid="old"))], ()),
    ("one that is not there", [msgspec.to_builtins(share(1, name="none"))], ()),
    ("a cluster where it is not", [msgspec.to_builtins(share(1, "b"))], ()),
    ("a cluster that does not exist", [msgspec.to_builtins(share(1, "zz"))], ()),
    ("more units than are there", [msgspec.to_builtins(share(9))], (share(2),)),
    ("the same twice", [msgspec.to_builtins(share(1))] * 2, (share(2),)),
    ("far too much", [msgspec.to_builtins(share(2**31 - 1))] * 3, (share(2),)),
    ("less than nothing", [msgspec.to_builtins(share(-3))], ()),
    ("no objects", ["peak", 7, None, {"name": "peak"}], ()),
    ("no list", {"peak": 1}, ()),  # type: ignore[list-item]  # whatever is stored
]


@pytest.mark.proves("E28")
@pytest.mark.parametrize(
    ("said", "counts"), [pytest.param(*rest, id=name) for name, *rest in NONSENSE]
)
def test_what_a_status_says_beyond_what_is_there_counts_for_nothing(said, counts):
    hall = Hall("a", "b").reserving(reservation(placed={"a": 1}, **everybody()))
    demo = hall.store(owner(present={"a": 2, "b": 1}, said=said, replicas=3))
    assert hall.books.split(demo, demo.present) == counts
    assert hall.amounts("a").reserved["cpu"] == 4000 - 1000 * sum(s.replicas for s in counts)


@pytest.mark.proves("E28")
def test_a_tenant_cannot_talk_itself_into_the_room_of_another():
    hall = Hall("a").reserving(reservation(placed={"a": 1}, **everybody()))
    hall.store(owner(namespace="other", present={"a": 1}, inside=[share(1)], replicas=1))
    assert hall.amounts("a").reserved["cpu"] == 4000


@pytest.mark.proves("E28")
def test_a_workload_uses_the_first_64_of_more():
    hall = Hall("a")
    for n in range(MOST_USED + 6):
        hall.reserve(reservation(f"r-{n:03}", {"cpu": "1m"}, placed={"a": 1}, **everybody(ttl="0")))
    demo = hall.store(owner(replicas=MOST_USED + 6))
    assert [r.name for r in hall.books.of(demo)] == [f"r-{n:03}" for n in range(MOST_USED)]
    assert len(hall.books.split(demo, {"a": MOST_USED + 6})) == MOST_USED


@pytest.mark.proves("E28")
def test_a_workload_uses_those_that_lie_on_so_many_clusters_together():
    wide = {f"c{n}": 1 for n in range(MOST_PLACES // 2)}
    hall = Hall(*wide)
    for n in range(4):
        hall.reserve(reservation(f"r-{n}", {"cpu": "1m"}, placed=wide, **everybody(ttl="0")))
    demo = hall.store(owner(replicas=1))
    assert [r.name for r in hall.books.of(demo)] == ["r-0", "r-1"]


@pytest.mark.proves("E28")
def test_a_workload_tells_no_more_shares_than_a_status_keeps():
    hall = Hall()
    clusters = {f"c{n:04}": 1 for n in range(MOST_RESERVED_SHARES + 10)}
    hall.reserve(reservation(placed=clusters, **everybody()))
    demo = hall.store(owner(replicas=len(clusters)))
    assert len(hall.books.split(demo, clusters)) == MOST_RESERVED_SHARES


# --- what is compiled and written -----------------------------------------------------------------


@pytest.mark.proves("E29")
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, datetime(2026, 1, 3, 3, 4, 5, tzinfo=UTC)),
        ({"ttl": "10s"}, datetime(2026, 1, 2, 3, 4, 15, tzinfo=UTC)),
        ({"ttl": "1h30m"}, datetime(2026, 1, 2, 4, 34, 5, tzinfo=UTC)),
        ({"ttl": "0"}, None),
        ({"ttl": "0s"}, None),
        ({"ttl": "0", "expires": "2027-01-01T00:00:00Z"}, datetime(2027, 1, 1, tzinfo=UTC)),
        ({"ttl": "1h", "expires": "2027-01-01T02:00:00+02:00"}, datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_it_ends_a_day_after_its_creation_or_as_its_spec_says(spec, expected):
    assert compile_reservation(reservation(**spec)).expires == expected


def test_every_duration_that_admission_takes_ends_within_the_calendar():
    longest = compile_reservation(reservation(ttl="999999h999999h999999h999999h"))
    assert longest.expires is not None
    assert longest.expires.year < 3000


@pytest.mark.proves("E25")
@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"ttl": "soon"}, "spec.ttl: String should match pattern"),
        ({"ttl": "9" * 40 + "h"}, "spec.ttl: String should have at most 32 characters"),
        ({"ttl": 5}, "spec.ttl: Input should be a valid string, not 5"),
        ({"expires": "tomorrow"}, "spec.expires: String should match pattern"),
        ({"expires": "2026-01-02T03:04:05"}, "spec.expires: "),
        ({"owners": []}, "spec.owners: List should have at least 1 item"),
        (
            {"owners": [{"object": {"name": f"o{n}"}} for n in range(33)]},
            "spec.owners: List should have at most 32 items",
        ),
        ({"owners": "all"}, "spec.owners: Input should be a valid list"),
        (
            {
                "owners": [
                    {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
                ]
            },
            "spec.owners[0].labelSelector.matchExpressions[0].operator",
        ),
        ({"template": "pod"}, "spec.template: Input should be an object"),
        ({"template": {"spec": {"containers": "x"}}}, "spec.template"),
        (
            {"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "9E"}}}]}}},
            "more than any node offers",
        ),
        (
            {"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": -1}}}]}}},
            "negative",
        ),
        ({"replicas": "many"}, "spec.replicas: Input should be a valid integer"),
        ({"priority": 2**70}, "spec.priority"),
        pytest.param(
            {
                "template": {
                    "spec": {"containers": [{}], "priorityClassName": "stowage-placeholder"}
                }
            },
            "spec.template.spec.priorityClassName: the PriorityClass stowage-placeholder",
            marks=pytest.mark.proves("N7"),
        ),
    ],
)
def test_one_that_makes_no_sense_says_so_and_holds_nothing(spec, fault):
    hall = Hall("a")
    compiled = hall.reserve(reservation(placed={"a": 1}, **spec))
    assert fault in compiled.fault
    assert not compiled.open
    assert hall.amounts("a").reserved == {}
    assert hall.books.of(owner().info) == []
    placed = as_placed(reservation(**spec))
    assert placed is not None


@pytest.mark.proves("E25")
def test_its_unit_is_one_of_its_template_and_placed_by_its_rules():
    stored = reservation(
        request={"cpu": "2", "memory": "1Gi"},
        labels={"app": "peak"},
        replicas=3,
        priority=7,
        clusterSelector={"tier": "gold"},
    )
    placed = as_placed(stored)
    assert placed is not None
    info = placed.info
    assert info.key == (NS, "reservations/peak")
    assert info.booked
    assert info.request == {"cpu": 2000, "memory": 2**30, "pods": 1}
    assert (info.kind, info.distribution, info.replicas, info.priority) == (
        "Deployment",
        "Divided",
        3,
        7,
    )
    assert info.labels == info.unit_labels == {"app": "peak"}
    assert info.cluster_selector == {"tier": "gold"}
    assert info.target_namespace == NS
    assert compile_reservation(stored).load == info.load


@pytest.mark.proves("E25")
def test_room_for_other_namespaces_lies_where_these_may_go():
    entry = {"object": {"name": "demo", "namespace": "shop"}}
    placed = as_placed(reservation(namespace="stowage-system", owners=[entry]))
    assert placed is not None
    assert placed.info.target_namespace == "shop"


@pytest.mark.proves("E29")
def test_one_that_has_ended_takes_no_part():
    assert as_placed(reservation(phase="Failed")) is None
    assert as_placed(reservation(phase="Succeeded")) is None
    assert as_placed(reservation(phase="Available")) is not None


def told(phase: str, *, told_of: int = 0, **placed: int) -> dict[str, Any]:
    """What a decision writes; the stored Ready is about that generation, of the object's 1."""
    placements = [{"cluster": c, "replicas": n} for c, n in placed.items()]
    fields = {"placements": placements, "state": "Scheduled", "selector": "", "desired": 1}
    fields |= {"decision": {"hash": "h", "time": CREATED}, "conditions": []}
    ready = {"type": "Ready", "status": "True", "observedGeneration": told_of}
    stored = reservation(phase=phase)
    status = msgspec.structs.replace(stored.status, conditions=[ready])
    meta = msgspec.structs.replace(stored.metadata, generation=1)
    return dict(
        PLACED.status(msgspec.structs.replace(stored, metadata=meta, status=status), fields)
    )


@pytest.mark.proves("E26")
def test_phase_and_cluster_are_written_with_the_placements():
    said = told("", a=1, b=2)
    shares = [{"cluster": "a", "replicas": 1}, {"cluster": "b", "replicas": 2}]
    assert (said["placements"], said["desired"]) == (shares, 1)
    assert (said["phase"], said["clusterName"]) == ("Available", "a,b")
    assert said["allocatable"] == {"cpu": "12"}, "whoever waits for the phase finds the amount"
    ready = [(c["type"], c["status"], c["reason"]) for c in said["conditions"]]
    assert ready == [("Ready", "True", "Available")]
    assert told("Available", told_of=1, a=1)["conditions"] == [], "then it is told by who leads"
    said = told("")
    assert (said["placements"], said["phase"], said["clusterName"]) == ([], "Pending", None)
    words = [(c["type"], c["status"], c["reason"]) for c in said["conditions"]]
    assert words == [("Ready", "False", "Pending"), ("Reconciling", "True", "Pending")]
    assert "phase" not in told("Available"), "whether its clusters are lost is told by who leads"
    assert PLACED.status(reservation(), {"conditions": [], "limits": []}) == {"conditions": []}
    assert len(told("", **{f"c{n}": 1 for n in range(2000)})["clusterName"]) == 4096


@pytest.mark.proves("E28")
def test_an_owner_with_all_of_its_units_waits_no_more():
    hall = Hall("a")
    peak = hall.reserve(reservation(placed={"a": 1}))
    demo = owner(replicas=2)
    hall.store(demo)
    assert [*hall.books.pending_owners(peak)] == [(NS, "demo")]
    hall.decide(demo, {"a": 1})
    assert [*hall.books.pending_owners(peak)] == [(NS, "demo")]
    hall.decide(demo, {"a": 2})
    assert [*hall.books.pending_owners(peak)] == []


def test_what_is_left_in_a_namespace_is_less_in_an_overlay_with_more_inside() -> None:
    hall = Hall("a", "b").reserving(reservation(placed={"a": 1, "b": 1}, **everybody()))
    first, second = (hall.store(owner(name)) for name in ("first", "second"))
    hall.decide(hall.workloads[first.key], {"a": 1})
    left = hall.books.unused_in(NS)["cpu"]
    over = hall.books.overlay({second.key: (second, {"a": 1, "b": 2})})
    assert over.unused_in(NS)["cpu"] == left - 3000
    assert over.unused_in("elsewhere") == {}
    assert hall.books.unused_in(NS)["cpu"] == left


@pytest.mark.parametrize("placed", [{"a": 2}, {"a": 1, "b": 1}, {"b": 2}])
def test_an_overlay_that_grows_says_what_one_that_is_made_anew_says(
    placed: dict[str, int],
) -> None:
    hall = Hall("a", "b").reserving(reservation(replicas=3, placed={"a": 2, "b": 1}, **everybody()))
    units = [hall.store(owner(f"w{n}")) for n in range(3)]
    grown, late = hall.world.index.overlay({}), hall.world.index.overlay({})
    for info in units:
        grown.ledger(ReservationLedger)
        for each in (grown, late):
            each.place(info, placed)
    mine, others = grown.ledger(ReservationLedger), late.ledger(ReservationLedger)
    for cluster in ("a", "b"):
        assert mine.taken(PEAK, cluster) == others.taken(PEAK, cluster)
    assert mine.uses(PEAK) == others.uses(PEAK) != {}
    assert hall.books.uses(PEAK) == {}


def test_an_overlay_takes_each_workload_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a pass on four thousand of them, each of whom asks the books, would never end."""
    hall, count = Hall("a"), 0
    hall.reserve(reservation(placed={"a": 1}, **everybody()))
    units = [hall.store(owner(f"w{n}")) for n in range(100)]
    put = ReservationLedger._put_inside

    def counted(*about: Any) -> Any:
        nonlocal count
        count += 1
        return put(*about)

    monkeypatch.setattr(ReservationLedger, "_put_inside", counted)
    overlay = hall.world.index.overlay({})
    for info in units:
        overlay.place(info, {"a": 1})
        overlay.ledger(ReservationLedger)
    assert count == len(units)
