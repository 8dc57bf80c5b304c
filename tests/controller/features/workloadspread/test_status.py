"""The status of a WorkloadSpread counts units, units under way and marks, without a hub."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from controller.features.workloadspread.adaptive import rescheduled
from controller.features.workloadspread.compiled import CompiledSpread, compile_spread
from controller.features.workloadspread.counted import Classes, SpreadTarget
from controller.features.workloadspread.entries import (
    Span,
    entries_of,
    named,
    stamp,
    to_dict,
    units,
)
from controller.features.workloadspread.status import SpreadResult, subset_statuses
from controller.model.objects import ClusterShare
from machinery.clock import timestamp
from machinery.types.api import SubsetStatus
from tests.controller import make
from tests.controller.features.workloadspread.spreading import adaptive, subset
from tests.controller.features.workloadspread.spreads import spread

START = datetime(2026, 1, 1, tzinfo=UTC)
ADAPTIVE = adaptive(30)


NORMAL = (subset("normal", 100), subset("elastic"))
FLEET = make.snapshot(
    make.cluster("m1", {"pool": "normal"}),
    make.cluster("m2", {"pool": "normal"}),
    make.cluster("e1", {"pool": "elastic"}),
    make.cluster("out"),
)


class Book:
    """A spread whose status is kept from look to look, as the hub would."""

    def __init__(self, *subsets: Mapping[str, Any], total: int = 80, **spec: Any) -> None:
        self.said = spread(*(subsets or NORMAL), **spec)
        self.before: list[SubsetStatus] = []
        self.now = START
        self.total = total
        self.placements: dict[str, int] = {}
        self.reports: dict[str, ClusterShare] = {}
        self.decided: datetime | None = None
        self.snapshot = FLEET
        self.mark_seconds = 300
        self.told: list[str] = []

    @property
    def spread(self) -> CompiledSpread:
        status = msgspec.structs.replace(self.said.status, subset_statuses=self.before)
        found = compile_spread(msgspec.structs.replace(self.said, status=status))
        assert not found.fault
        return found

    def look(self, placements: Mapping[str, int] | None = None, **target: Any) -> SpreadResult:
        """One look that is written; with placements the commit of a decision."""
        spread = self.spread
        leaving = dict(self.placements) if placements is not None else None
        aim = SpreadTarget(
            self.total,
            self.placements if placements is None else placements,
            self.reports,
            **{"decided": self.decided, "leaving": leaving, **target},
        )
        classes = Classes.of(spread, self.snapshot, self.total)
        look = subset_statuses(
            spread, classes, aim, self.before, self.now, mark_seconds=self.mark_seconds
        )
        self.before = msgspec.convert(look.statuses, list[SubsetStatus])
        self.told += [event.reason.value for event in look.events]
        return look

    def commit(self, **placements: int) -> SpreadResult:
        """Take the quota, then write the placements."""
        look = self.look(placements)
        self.placements = placements
        return look

    def runs(self, **units: int) -> None:
        """So many pods exist on each cluster."""
        self.reports = {
            name: ClusterShare(name, replicas=self.placements.get(name, 0), current=n)
            for name, n in units.items()
        }

    def after(self, seconds: float) -> SpreadResult:
        self.now += timedelta(seconds=seconds)
        return self.look()

    def __getitem__(self, name: str) -> SubsetStatus:
        return next(each for each in self.before if each.name == name)

    @property
    def numbers(self) -> dict[str, tuple[int, int]]:
        """{subset: (replicas, missing)}."""
        return {each.name: (each.replicas, each.missing_replicas) for each in self.before}


def running(**units: int) -> Book:
    """A spread whose units have all come."""
    book = Book()
    book.commit(**units)
    book.runs(**units)
    book.look()
    return book


@pytest.mark.proves("W16", "W7")
def test_exact_numbers_of_an_empty_spread():
    book = Book(subset("a", 1, "normal"), subset("b", None, "elastic"), total=0)
    look = book.look()
    assert [
        (each["name"], each["replicas"], each["missingReplicas"]) for each in look.statuses
    ] == [("a", 0, 1), ("b", 0, -1)]
    assert [each["deletionCost"] for each in look.statuses] == [200, 100]
    assert look.next_look is None


@pytest.mark.proves("W16", "W6")
def test_counts_of_a_full_subset_and_of_the_rest():
    book = Book(total=130)
    book.commit(m1=60, m2=40, e1=30)
    assert book.numbers == {"normal": (100, 0), "elastic": (30, -1)}
    assert book["normal"].creating_pods == {
        "m1/1-60": "2026-01-01T00:00:00Z",
        "m2/1-40": "2026-01-01T00:00:00Z",
    }
    book.runs(m1=60, m2=40, e1=30)
    look = book.look()
    assert book.numbers == {"normal": (100, 0), "elastic": (30, -1)}
    assert book["normal"].creating_pods == book["elastic"].creating_pods == {}
    assert look.next_look is None
    assert not look.events


@pytest.mark.proves("W8", "W16")
def test_percentages_follow_the_total():
    three = [subset(n, "20%", "normal") if n != "c" else subset(n, "60%", "elastic") for n in "abc"]
    book = Book(*three, total=10)
    book.look()
    assert [each.missing_replicas for each in book.before] == [2, 2, 6]
    book.total = 5
    book.look()
    assert [each.missing_replicas for each in book.before] == [1, 1, 3]


@pytest.mark.proves("W14", "W16")
def test_excess_counts_to_its_subset_and_nothing_is_missing():
    book = Book(subset("a", 2, "normal"), subset("b", 3, "elastic"), total=10)
    book.placements = {"m1": 6, "e1": 1, "out": 3}
    book.runs(m1=6, e1=1, out=3)
    book.look()
    assert book.numbers == {"a": (6, 0), "b": (1, 2)}


@pytest.mark.proves("W17")
def test_a_commit_made_anew_counts_its_units_once():
    book = Book()
    first = book.look({"m1": 80})
    again = book.look({"m1": 80})
    assert first.statuses == again.statuses
    assert book.numbers["normal"] == (80, 20)


@pytest.mark.proves("W17")
def test_quota_of_placements_that_never_come_is_free_again_after_30_seconds():
    book = Book()
    book.look({"m1": 80})  # and the process dies
    assert book.after(29).next_look == START + timedelta(seconds=30)
    assert book.numbers["normal"] == (80, 20)
    look = book.after(1)
    assert book.numbers["normal"] == (0, 100)
    assert book["normal"].creating_pods == {}
    assert not look.events, "no member was asked for a unit"


@pytest.mark.proves("W17")
def test_a_later_decision_ends_a_commit_that_never_came():
    book = Book()
    book.commit(m1=10)
    book.runs(m1=10)
    book.look({"m1": 80})  # and the process dies
    book.now += timedelta(seconds=2)
    book.decided = book.now  # another one decided otherwise
    book.look()
    assert book.numbers["normal"] == (10, 90)


@pytest.mark.proves("W17")
def test_a_withdrawn_commit_leaves_nothing():
    book = Book()
    book.look({"m1": 80})
    book.look(certain=True)
    assert book.numbers["normal"] == (0, 100)


@pytest.mark.proves("W18")
def test_a_unit_that_is_taken_back_is_missing_before_its_member_confirms():
    book = running(m1=80)
    look = book.commit(m1=79)
    assert book.numbers["normal"] == (79, 21)
    assert book["normal"].deleting_pods == {"m1/80": "2026-01-01T00:00:00Z"}
    assert look.next_look == START + timedelta(seconds=15)
    book.runs(m1=79)
    book.after(3)
    assert book.numbers["normal"] == (79, 21)
    assert book["normal"].deleting_pods == {}
    assert not book.told


@pytest.mark.proves("W23")
@pytest.mark.parametrize(
    "wrong",
    [
        {"replicas": 3},
        {"missing_replicas": 77},
        {"missing_replicas": -1},
        {"deletion_cost": -5},
        {"creating_pods": {"m1/1-70": "2026-01-01T00:00:00Z"}},
        {"creating_pods": {"nowhere/1-70": "2026-01-01T00:00:00Z"}},
        {"creating_pods": {"m1/9-3": "", "x": "y", "/": "", "m1/0": "", "m1/1-99999999999": ""}},
        {"deleting_pods": {"m1/1-70": "never", "m9/3": "2026-01-01T00:00:00Z"}},
        {"stuck_pods": {"m1/1-200": "2026-01-01T00:00:00Z", "*/9": "2026-01-01T00:00:00Z"}},
        {"conditions": [{"type": "Schedulable", "status": "False"}]},
        {"conditions": [{}, {"type": 3}, {"type": "Other", "status": "True"}]},
    ],
)
def test_what_somebody_wrote_into_the_status_is_repaired(wrong: dict[str, Any]):
    book = Book()
    book.placements = {"m1": 80}
    book.runs(m1=80)
    right = book.look().statuses
    book.before[0] = msgspec.structs.replace(book.before[0], **wrong)
    book.look()
    assert book.look().statuses == right


@pytest.mark.proves("W23")
def test_moments_of_tomorrow_and_of_no_calendar_are_taken_for_now():
    book = Book()
    book.commit(m1=80)
    for text in ("2999-01-01T00:00:00Z", "soon", "", "0001-01-01T00:00:00+23:00"):
        tampered = {"m1/1-80": text}
        book.before[0] = msgspec.structs.replace(book.before[0], creating_pods=tampered)
        book.look()
    book.after(60)
    assert book["normal"].creating_pods == {}


@pytest.mark.proves("W24")
def test_units_that_no_member_shows_have_failed_after_30_seconds():
    book = Book()
    book.commit(m1=50, m2=30)
    book.runs(m1=50)
    look = book.after(29)
    assert book.numbers["normal"] == (80, 20)
    assert book["normal"].creating_pods == {"m2/1-30": "2026-01-01T00:00:00Z"}
    assert look.next_look == START + timedelta(seconds=30)
    look = book.after(1)
    (event,) = look.events
    assert (event.reason.value, event.warning) == ("CreateFailed", True)
    assert "m2/1-30" in event.note
    assert book.numbers["normal"] == (50, 50)
    assert book["normal"].creating_pods == {}
    assert not book.after(1000).events, "once"
    book.runs(m1=50, m2=30)
    book.look()
    assert book.numbers["normal"] == (80, 20), "late is better than never"


@pytest.mark.proves("W24")
def test_each_unit_has_its_own_30_seconds():
    book = Book()
    book.commit(m1=10)
    book.now += timedelta(seconds=20)
    book.commit(m1=15)
    assert book["normal"].creating_pods == {
        "m1/1-10": "2026-01-01T00:00:00Z",
        "m1/11-15": "2026-01-01T00:00:20Z",
    }
    book.runs(m1=4)
    look = book.after(10)
    assert book["normal"].creating_pods == {"m1/11-15": "2026-01-01T00:00:20Z"}
    assert "m1/5-10" in look.events[0].note
    assert book["normal"].replicas == 4 + 5
    book.after(20)
    assert book["normal"].replicas == 4
    assert book.told == ["CreateFailed", "CreateFailed"]


@pytest.mark.proves("W25")
def test_a_unit_that_its_member_keeps_counts_again_after_15_seconds():
    book = running(m1=80)
    book.commit(m1=78)
    book.after(14)
    assert book.numbers["normal"] == (78, 22)
    look = book.after(1)
    (event,) = look.events
    assert (event.reason.value, event.warning) == ("DeleteFailed", True)
    assert "m1/79-80" in event.note
    assert book["normal"].deleting_pods == {}
    assert book["normal"].stuck_pods == {"m1/79-80": "2026-01-01T00:00:00Z"}
    assert book.numbers["normal"] == (80, 20)
    assert not book.after(1000).events, "once"
    book.runs(m1=79)
    book.look()
    assert book.numbers["normal"] == (79, 21)
    book.runs(m1=78)
    book.look()
    assert book.numbers["normal"] == (78, 22)
    assert book["normal"].stuck_pods == {}


@pytest.mark.proves("W25")
def test_units_that_are_wanted_again_are_neither_deleted_nor_created():
    book = running(m1=80)
    book.commit(m1=70)
    book.commit(m1=75)
    assert book["normal"].deleting_pods == {"m1/76-80": "2026-01-01T00:00:00Z"}
    assert book["normal"].creating_pods == {}
    assert book.numbers["normal"] == (75, 25)


def test_what_a_rolling_update_adds_counts_nothing():
    book = Book()
    book.commit(m1=80)
    book.runs(m1=100)
    look = book.look()
    assert book.numbers["normal"] == (80, 20)
    assert look.next_look is None
    assert not look.events


@pytest.mark.proves("W26")
def test_units_of_a_job_that_ended_are_not_active():
    book = Book(total=10)
    book.commit(m1=10)
    report = ClusterShare("m1", replicas=10, current=4, finished=3, ready=7)
    book.reports = {"m1": report}
    book.look()
    assert book.numbers["normal"] == (4 + 3, 93), "four run, three come, three ended"
    assert book["normal"].creating_pods == {"m1/8-10": "2026-01-01T00:00:00Z"}
    book.reports = {"m1": ClusterShare("m1", replicas=10, finished=10, ready=10)}
    look = book.look()
    assert book.numbers["normal"] == (0, 100)
    assert book["normal"].creating_pods == {}
    assert look.next_look is None


@pytest.mark.proves("W26")
def test_units_that_a_member_lost_count_no_more():
    book = running(m1=80)
    book.runs(m1=60)
    look = book.after(100)
    assert book.numbers["normal"] == (60, 40)
    assert not look.events


def test_units_of_a_kind_whose_pods_nobody_knows_exist_when_it_is_ready():
    book = Book(total=5)
    book.commit(m1=5)
    book.reports = {"m1": ClusterShare("m1", replicas=5, ready=5)}
    book.after(100)
    assert book.numbers["normal"] == (5, 95)
    assert not book.told


def waiting(book: Book, cluster: str = "m1", units: int = 5, since: datetime | None = None) -> None:
    asked = book.placements[cluster]
    book.reports[cluster] = ClusterShare(
        cluster,
        replicas=asked,
        current=asked,
        unschedulable=units,
        unschedulable_since=since or book.now,
    )


class TestMarks:
    """Adaptive: when a subset takes no new unit, and from when on it does."""

    @pytest.fixture
    def book(self) -> Book:
        book = Book(scheduleStrategy=ADAPTIVE)
        book.look()
        book.commit(m1=80)
        book.runs(m1=80)
        book.look()
        return book

    def marked(self, book: Book, name: str = "normal") -> bool:
        (condition,) = book[name].conditions
        good = {"True": "Sufficient", "False": "PodUnschedulable"}
        assert condition["type"] == "Schedulable"
        assert condition["reason"] == good[condition["status"]]
        assert (name in book.spread.marked) is (condition["status"] == "False")
        return bool(condition["status"] == "False")

    @pytest.mark.proves("W28")
    def test_units_that_wait_for_the_critical_seconds_mark_their_subset(self, book: Book) -> None:
        book.after(5)
        waiting(book)
        assert book.look().next_look == START + timedelta(seconds=35)
        book.after(29)
        assert not self.marked(book)
        look = book.after(1)
        assert self.marked(book)
        assert not self.marked(book, "elastic")
        ends = timestamp(START + timedelta(seconds=335))
        message = book["normal"].conditions[0]["message"]
        assert message == f"replicas have no node: 5 on m1; it takes no new one until {ends}"
        assert look.next_look == START + timedelta(seconds=335)

    @pytest.mark.proves("W29")
    def test_a_mark_lasts_300_seconds_from_its_transition(self, book: Book) -> None:
        waiting(book)
        book.after(30)
        stored = book["normal"].conditions
        for second in range(1, 300):
            waiting(book, units=1 + second % 7)  # and goes on waiting
            book.now += timedelta(seconds=1)
            look = book.look()
            assert book["normal"].conditions == stored, "not refreshed"
            assert look.next_look == START + timedelta(seconds=330)
        assert self.marked(book), "at 299 s"
        book.runs(m1=80)
        look = book.after(2)
        assert not self.marked(book), "at 301 s"
        assert [event.reason.value for event in look.events] == ["RecoverSchedulable"]
        assert not look.events[0].warning
        assert not book.after(1).events

    @pytest.mark.proves("W29")
    def test_between_two_whole_seconds_nothing_ends_early(self, book: Book) -> None:
        book.now += timedelta(seconds=0.7)
        waiting(book)
        book.after(30)
        book.after(299.9)
        assert self.marked(book)
        book.after(1.1)
        assert not self.marked(book)

    @pytest.mark.proves("W29")
    def test_units_that_never_left_wait_anew_before_the_next_mark(self, book: Book) -> None:
        waiting(book)
        since = book.now
        book.after(30)
        book.after(300)
        assert not self.marked(book), "tried once more"
        waiting(book, since=since)
        assert book.look().next_look == book.now + timedelta(seconds=30)
        book.after(29)
        assert not self.marked(book)
        book.after(1)
        assert self.marked(book)

    @pytest.mark.proves("W29")
    def test_no_seconds_mark_at_once_and_still_leave_a_chance(self) -> None:
        book = Book(scheduleStrategy=adaptive(0))
        book.look()
        book.commit(m1=80)
        book.after(5)
        waiting(book)
        book.look()
        assert self.marked(book)
        book.after(300)
        assert not self.marked(book)
        book.after(1)
        assert self.marked(book)

    @pytest.mark.proves("W30")
    def test_the_last_subset_is_never_marked(self, book: Book) -> None:
        book.commit(m1=40, e1=40)
        book.runs(m1=40, e1=40)
        waiting(book, "e1", 40)
        look = book.after(1000)
        assert not self.marked(book, "elastic")
        assert look.next_look is None
        wrong = [{"type": "Schedulable", "status": "False", "lastTransitionTime": timestamp(START)}]
        book.before[1] = msgspec.structs.replace(book.before[1], conditions=wrong)
        book.look()
        assert not self.marked(book, "elastic")

    @pytest.mark.proves("W27")
    def test_fixed_marks_nothing_and_ends_marks(self, book: Book) -> None:
        waiting(book)
        book.after(30)
        assert self.marked(book)
        book.said.spec["scheduleStrategy"] = {}
        look = book.look()
        assert not self.marked(book)
        assert [event.reason.value for event in look.events] == ["RecoverSchedulable"]
        assert book.after(100).next_look is None
        assert not self.marked(book)

    @pytest.mark.parametrize(
        "says",
        [
            {"replicas": 70},
            {"state": "Unreachable"},
            {"unschedulable": 0},
            {"unschedulable_since": None},
        ],
    )
    def test_reports_that_say_nothing_of_it(self, book: Book, says: dict[str, Any]) -> None:
        waiting(book)
        book.reports["m1"] = msgspec.structs.replace(book.reports["m1"], **says)
        book.after(100)
        assert not self.marked(book)

    @pytest.mark.parametrize(
        "since",
        [
            datetime.max,  # noqa: DTZ901 - as a member may tell it
            datetime.min,  # noqa: DTZ901 - the same
            datetime.max.replace(tzinfo=UTC),
            datetime.min.replace(tzinfo=UTC),
        ],
    )
    def test_moments_from_beyond_the_calendar(self, book: Book, since: datetime) -> None:
        waiting(book, since=since)
        book.after(31)
        assert self.marked(book) is (since.year == 1)

    def test_a_shorter_mark(self, book: Book) -> None:
        book.mark_seconds = 60
        waiting(book)
        book.after(30)
        assert book.look().next_look == START + timedelta(seconds=90)


@pytest.mark.proves("W28")
@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        ([5, 0, 0], [3, 2, 0], "replicas without a node went from subset a to b: 2"),
        ([5, 0, 0], [3, 1, 3], "replicas without a node went from subset a to b, c: 2"),
        ([5, 2, 0], [3, 0, 4], "replicas without a node went from subset a, b to c: 4"),
        ([5, 0, 0], [3, 0, 0], ""),
        ([5, 0, 1], [5, 0, 4], ""),
        ([5, 0, 4], [6, 0, 3], ""),
        ([3, 5, 0], [4, 3, 1], "replicas without a node went from subset b to c: 1"),
        ([3, 5, 0], [4, 3, 0], ""),
    ],
)
def test_who_is_said_to_have_moved(before: list[int], after: list[int], note: str):
    book = Book(*(subset(name, None, "normal") for name in "abc"), scheduleStrategy=ADAPTIVE)
    mark = [{"type": "Schedulable", "status": "False"}]
    book.before = [SubsetStatus(name, conditions=mark) for name in "ab"]
    found = rescheduled(book.spread, before, after)
    assert (found.note if found else "") == note


def test_waiting_units_are_the_last_ones_of_a_cluster_in_several_subsets():
    both = (subset("a", 3, "normal"), subset("b", 5, "normal"), subset("c", None, "elastic"))
    book = Book(*both, total=8, scheduleStrategy=ADAPTIVE)
    book.look()
    book.commit(m1=8)
    waiting(book, units=5)
    book.after(30)
    assert book.spread.marked == {"b"}
    waiting(book, units=6, since=START)
    book.look()
    assert book.spread.marked == {"a", "b"}


def test_a_restart_with_nothing_new_says_the_same():
    book = Book(scheduleStrategy=ADAPTIVE)
    book.look()
    book.commit(m1=60, m2=20)
    book.runs(m1=55)
    waiting(book, "m2", 3)
    first = book.after(7).statuses
    assert book.look().statuses == first
    book.after(23)
    assert book.look().statuses == book.look().statuses


def test_units_that_change_subset_keep_their_moments():
    book = Book()
    book.commit(m1=80)
    book.said = spread(subset("normal", 50), subset("late", None, "normal"))
    book.look()
    assert book["normal"].creating_pods == {"m1/1-50": "2026-01-01T00:00:00Z"}
    assert book["late"].creating_pods == {"m1/51-80": "2026-01-01T00:00:00Z"}
    book.said = spread(subset("other", None, "normal"))
    book.look()
    assert book["other"].creating_pods == {"m1/1-80": "2026-01-01T00:00:00Z"}


class TestBounds:
    """Thousands of units and clusters."""

    def wide(self, clusters: int) -> Book:
        book = Book(total=10 * clusters)
        names = [f"c{n:05}" for n in range(clusters)]
        book.snapshot = make.snapshot(*(make.cluster(name, {"pool": "elastic"}) for name in names))
        book.commit(**dict.fromkeys(names, 10))
        return book

    def test_the_status_stays_small_and_counts_right(self) -> None:
        book = self.wide(1000)
        told = book["elastic"].creating_pods
        assert len(told) == 256, "half of what a spread of two subsets may have"
        assert told["*/7450"] == "2026-01-01T00:00:00Z"
        assert book["elastic"].replicas == 10_000
        assert book.look().statuses == book.look().statuses
        assert book["elastic"].creating_pods == told
        book.runs(**dict.fromkeys([*book.placements][-500:], 10))
        book.look()
        assert book["elastic"].replicas == 10_000
        book.runs(**dict.fromkeys([*book.placements][-998:], 10))
        book.look()
        assert book["elastic"].replicas == 10_000
        assert book["elastic"].creating_pods == {
            "c00000/1-10": "2026-01-01T00:00:00Z",
            "c00001/1-10": "2026-01-01T00:00:00Z",
        }

    def test_those_that_are_not_named_fail_like_all_others(self) -> None:
        book = self.wide(1000)
        (event,) = book.after(30).events
        assert "replicas 10000" in event.note
        assert len(event.note) < 600
        assert book["elastic"].replicas == 0

    def test_deleting_units_too(self) -> None:
        book = self.wide(1000)
        book.runs(**dict.fromkeys(book.placements, 10))
        book.look()
        book.commit(**dict.fromkeys(book.placements, 4))
        assert len(book["elastic"].deleting_pods) == 256
        assert book["elastic"].replicas == 4000
        (event,) = book.after(15).events
        assert "replicas 6000" in event.note
        assert len(book["elastic"].stuck_pods) == 256
        assert book["elastic"].replicas == 10_000
        book.runs(**dict.fromkeys(book.placements, 4))
        book.look()
        assert book["elastic"].replicas == 4000
        assert book["elastic"].stuck_pods == {}


def test_entries_as_text() -> None:
    moment = START + timedelta(seconds=1)
    spans = (Span("m1", 3, 3, START), Span("m1", 1, 2, START), Span("m1", 4, 9, moment))
    told = to_dict(spans, 10)
    assert told == {"m1/1-3": "2026-01-01T00:00:00Z", "m1/4-9": "2026-01-01T00:00:01Z"}
    assert to_dict(spans, 1) == {"*/9": "2026-01-01T00:00:01Z"}
    again = entries_of(told, START + timedelta(hours=1))
    assert to_dict(again, 10) == told
    assert units(again) == 9
    twice = entries_of({"m1/1-5": "2026-01-01T00:00:00Z", "m1/4-7": "x"}, START)
    assert to_dict(twice, 9) == {"m1/1-7": "2026-01-01T00:00:00Z"}
    assert named(entries_of({"*/7": "x"}, START), 1) == "7 more"
    assert named(spans, 1) == "m1/1-3 and 6 more"
    assert stamp(START + timedelta(microseconds=1)) == moment
