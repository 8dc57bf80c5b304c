"""The status of a WorkloadSpread stays right in whatever order things happen."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controller.features.workloadspread.counted import Classes
from controller.model.objects import ClusterShare
from machinery.clock import parse_timestamp, timestamp
from tests.controller import make
from tests.controller.features.workloadspread.spreading import (
    subset,
)
from tests.controller.features.workloadspread.test_status import ADAPTIVE, Book
from tests.examples import examples

CLUSTERS = ("m1", "m2", "e1", "both")
FLEET = make.snapshot(
    make.cluster("m1", {"pool": "normal"}),
    make.cluster("m2", {"pool": "normal"}),
    make.cluster("e1", {"pool": "elastic"}),
    make.cluster("both", {"pool": "normal", "other": "elastic"}),
    make.cluster("out"),
)
UNITS = st.integers(0, 12)
PLACED = st.dictionaries(st.sampled_from((*CLUSTERS, "out")), UNITS, max_size=5)
MAPS = ("creating_pods", "deleting_pods", "stuck_pods")


def caps(first: Any, second: Any) -> tuple[Mapping[str, Any], ...]:
    term = {"matchExpressions": [{"key": "other", "operator": "Exists"}]}
    return (
        subset("a", first, "normal"),
        {"name": "b", "maxReplicas": second, "requiredNodeSelectorTerm": term},
        subset("c", None, "elastic"),
    )


class Books(RuleBasedStateMachine):
    """One spread with three subsets, of which one cluster is in two; every look is written."""

    def __init__(self) -> None:
        super().__init__()
        self.book = Book(*caps(3, 4), scheduleStrategy=ADAPTIVE)
        self.book.snapshot = FLEET
        self.marked: dict[str, str] = {}

    @initialize()
    def begins(self) -> None:
        self.book.look()

    @rule(placed=PLACED)
    def decides(self, placed: dict[str, int]) -> None:
        """Quota, then the placements."""
        self.book.decided = self.book.now
        self.book.commit(**{name: n for name, n in placed.items() if n})

    @rule(placed=PLACED)
    def dies_between(self, placed: dict[str, int]) -> None:
        self.book.look(placed)

    @rule(placed=PLACED)
    def takes_back(self, placed: dict[str, int]) -> None:
        self.book.look(placed)
        self.book.look(certain=True)

    @rule(shown=PLACED, finished=st.integers(0, 2))
    def reports(self, shown: dict[str, int], finished: int) -> None:
        self.book.reports = {
            name: ClusterShare(
                name, replicas=self.book.placements.get(name, 0), current=n, finished=finished
            )
            for name, n in shown.items()
        }
        self.book.look()

    @rule(cluster=st.sampled_from(CLUSTERS), units=st.integers(1, 5), ago=st.integers(0, 60))
    def waits_for_a_node(self, cluster: str, units: int, ago: int) -> None:
        placed = self.book.placements.get(cluster, 0)
        since = self.book.now - timedelta(seconds=ago)
        self.book.reports[cluster] = ClusterShare(
            cluster,
            replicas=placed,
            current=placed,
            unschedulable=min(units, placed),
            unschedulable_since=since,
        )
        self.book.look()

    @rule(first=st.none() | UNITS, second=st.none() | UNITS, total=st.integers(0, 60))
    def edits(self, first: int | None, second: int | None, total: int) -> None:
        self.book.said.spec["subsets"] = list(caps(first, second))
        self.book.total = total
        self.book.look()

    @rule(seconds=st.sampled_from((0.3, 1, 5, 14, 16, 29, 31, 299, 301)))
    def time_passes(self, seconds: float) -> None:
        self.book.after(seconds)

    @rule(place=st.integers(0, 2), field=st.sampled_from(MAPS), units=st.integers(1, 9))
    def meddles(self, place: int, field: str, units: int) -> None:
        wrong = {f"m1/1-{units}": timestamp(self.book.now), "e1/3": "soon", "x": ""}
        told = msgspec.structs.replace(self.book.before[place], replicas=99, **{field: wrong})
        self.book.before[place] = told
        self.book.look()

    @invariant()
    def says_the_same_again(self) -> None:
        if self.book.before:
            first = self.book.look()
            assert not self.book.look().events
            assert self.book.look().statuses == first.statuses

    @invariant()
    def missing_is_what_the_cap_leaves(self) -> None:
        spread = self.book.spread
        classes = Classes.of(spread, FLEET, self.book.total)
        for place, told in enumerate(self.book.before):
            bounded = spread.subsets[place].most is not None
            left = max(classes.cap(place) - told.replicas, 0) if bounded else -1
            assert told.missing_replicas == left
            assert told.replicas >= 0
            assert told.deletion_cost == 100 * (3 - place)

    @invariant()
    def marks_are_never_made_longer(self) -> None:
        marked = {}
        for told in self.book.before:
            (condition,) = told.conditions
            if condition["status"] == "False":
                marked[told.name] = condition["lastTransitionTime"]
        assert "c" not in marked, "the last one"
        for name, since in marked.items():
            before = self.marked.get(name)
            began = parse_timestamp(since)
            assert self.book.now < began + timedelta(seconds=300)
            if before is not None and before != since:
                assert began >= parse_timestamp(before) + timedelta(seconds=300)
        self.marked = marked

    @rule()
    def is_calm(self) -> None:
        """Members run what they were given, and time passes: nothing is under way any more."""
        self.book.runs(**self.book.placements)
        self.book.after(60)
        classes = Classes.of(self.book.spread, FLEET, self.book.total)
        held = classes.held(self.book.placements)
        assert [told.replicas for told in self.book.before] == held
        for told in self.book.before:
            assert told.creating_pods == told.deleting_pods == told.stuck_pods == {}


TestBooks = pytest.mark.proves("W16", "W18", "W23", "W24", "W25", "W29")(Books.TestCase)
TestBooks.settings = examples(100, stateful_step_count=25)
