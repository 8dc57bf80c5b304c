"""Answers of the wrong form: each is a PluginError that says what was wanted and what was found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from controller import catalogue
from controller.config import default_profile, parse
from controller.framework.calling.guard import ERRORS
from controller.framework.interface import Assignment, CycleState, FilterMask
from controller.framework.runtime import framework as runtime
from controller.framework.status import SKIP, SUCCESS, Code, Status, wait
from controller.planner.reasons import no_reasons
from controller.scheduling.decision import Decision
from crds.workload import ScheduledReason
from machinery.errors import ConfigurationError
from tests.controller.make import cluster, decided, info

SIZE = 3
ALL = np.ones(SIZE, dtype=np.bool_)
NUMBERS = np.zeros(SIZE, dtype=np.int64)


class Answers:
    """Gives at every point what it is told to."""

    name = "Odd"
    ignored_during_execution = True

    def __init__(self, answer: Any, **beside: Any) -> None:
        self._answer = answer
        self._beside = beside

    def _give(self, point: str, about: tuple[Any, ...]) -> Any:
        answer = self._beside.get(point, self._answer)
        return answer(*about) if callable(answer) else answer

    def before_pre_filter(self, *about: Any) -> Any:
        return self._give("hook", about)

    before_filter = before_score = before_pre_filter

    def score(self, *about: Any) -> Any:
        return self._give("plain", about)

    filter = pre_filter = post_filter = pre_score = score

    def reserve(self, *about: Any) -> Any:
        return self._give("plain", about)

    permit = reserve

    def unreserve(self, *_: Any) -> None:
        """Nothing was taken."""

    async def pre_bind(self, *about: Any) -> Any:
        return self._give("plain", about)

    def serves(self, *about: Any) -> Any:
        return self._give("serves", about)

    def assign(self, *about: Any) -> Any:
        return self._give("plain", about)


class Divides:
    """Has a say in the plan."""

    name = "Odd"

    def __init__(self, answer: Any, divides: Any = True) -> None:
        self._answer, self._divides = answer, divides

    def divides(self, *_: Any) -> Any:
        return self._divides

    def bound(self, info: Any, field: Any, problem: Any) -> Any:
        return self._answer(problem) if callable(self._answer) else self._answer


def said(decision: Decision) -> str:
    assert decision.reason is ScheduledReason.PLUGIN_ERROR
    assert decision.refused_by() == {"Odd"}
    return decision.message.partition(": ")[2]


def passed(**points: Any) -> Decision:
    """A Workload that has to be divided over three clusters, of which one is refused."""
    made = replace(default_profile(), **points)
    made = replace(made, weights={**made.weights, "Odd": 1})
    clusters = [cluster("a"), cluster("b"), cluster("c", ready=False)]
    return decided(info(distribution="Divided", replicas=400), *clusters, profile=made)


SHORT = "gave an array of shape (2,) for 3 clusters"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "gave None where a FilterMask is wanted"),
        ([(ALL, "no")], "gave list where a FilterMask is wanted"),
        (FilterMask([(ALL[:2], "no")]), SHORT),
        (FilterMask((), short=[(ALL[:2], "no")]), SHORT),
        (
            FilterMask((), reached=[(ALL[:, None], "no")]),
            "gave an array of shape (3, 1) for 3 clusters",
        ),
        (FilterMask([(NUMBERS, "no")]), "gave an array of int64, booleans are wanted"),  # type: ignore[list-item]
        (FilterMask([([True] * 3, "no")]), "gave list where an array of booleans is wanted"),  # type: ignore[list-item]
        (FilterMask([(ALL, 7)]), "gave 7 where a text as the reason is wanted"),  # type: ignore[list-item]
        (FilterMask([ALL]), "gave ndarray where pairs of a mask and a text is wanted"),  # type: ignore[list-item]
        (FilterMask(7), "TypeError: 'int' object is not iterable"),  # type: ignore[arg-type]
    ],
)
def test_filter(answer: Any, words: str) -> None:
    assert said(passed(filter=[Answers(answer)])).startswith(
        f"plugin Odd failed at Filter: {words}"
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (NUMBERS[:2], SHORT),
        (NUMBERS.astype(np.float64), "gave an array of float64, integers are wanted"),
        (np.full(SIZE, np.nan), "gave an array of float64, integers are wanted"),
        (ALL, "gave an array of bool, integers are wanted"),
        (NUMBERS.astype(object), "gave an array of object, integers are wanted"),
        ([0, 0, 0], "gave list where an array of integers is wanted"),
        (None, "gave None where an array of integers is wanted"),
    ],
)
def test_score(answer: Any, words: str) -> None:
    assert said(passed(score=[Answers(answer)])) == f"plugin Odd failed at Score: {words}"


def test_a_score_of_other_integers_counts_as_it_is() -> None:
    large = np.full(SIZE, 2**64 - 1, dtype=np.uint64)
    assert passed(score=[Answers(large)]).totals.tolist() == [100] * SIZE


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "gave None where (info, changed) or a Status is wanted"),
        ((1, 2, 3), "gave tuple where (info, changed) or a Status is wanted"),
        ((info(), 1), "gave 1 where True or False is wanted"),
        (("a", True), "gave 'a' where a WorkloadInfo is wanted"),
        ((info("other"), True), "gave the WorkloadInfo of another Workload, shop/other"),
        (SUCCESS, "gave the Status Success, which refuses nothing"),
        (SKIP, "gave the Status Skip, which refuses nothing"),
        (wait("Odd", seconds=3), "gave the Status Wait, which refuses nothing"),
    ],
)
def test_pre_filter_hook(answer: Any, words: str) -> None:
    decision = passed(before_pre_filter=[Answers(answer)])
    assert said(decision) == f"plugin Odd failed at PreFilterHook: {words}"


def test_filter_hook() -> None:
    answer = Answers(lambda _state, info, _snapshot, _bound: (info, None, True))
    words = said(passed(before_filter=[answer]))
    assert words == "plugin Odd failed at FilterHook: gave None where a Snapshot is wanted"


def test_score_hook() -> None:
    answer = Answers(lambda _state, info, _snapshot, _bound, left: (info, left[:2], True))
    assert said(passed(before_score=[answer])) == f"plugin Odd failed at ScoreHook: {SHORT}"


@pytest.mark.parametrize(
    ("point", "name"),
    [("pre_filter", "PreFilter"), ("post_filter", "PostFilter"), ("pre_score", "PreScore")],
)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "gave None where a Status is wanted"),
        (True, "gave True where a Status is wanted"),
        (Status("ok"), "gave 'ok' where a Code in the Status is wanted"),  # type: ignore[arg-type]
        (Status(reasons="no"), "gave 'no' where a tuple of strings as reasons is wanted"),  # type: ignore[arg-type]
        (Status(Code.WAIT, seconds=float("nan")), "gave nan seconds"),
    ],
)
async def test_a_status(point: str, name: str, answer: Any, words: str) -> None:
    assert said(passed(**{point: [Answers(answer)]})) == f"plugin Odd failed at {name}: {words}"
    made = replace(default_profile(), reserve=[Answers(answer)], permit=[Answers(answer)])
    made = replace(made, pre_bind=[Answers(answer)])
    about: Any = (made, CycleState(), info(), {})
    assert runtime.reserve(*about).reasons == (f"plugin Odd failed at Reserve: {words}",)
    assert runtime.permit(*about)[0].reasons == (f"plugin Odd failed at Permit: {words}",)
    status = await runtime.pre_bind(*about)
    assert status.reasons == (f"plugin Odd failed at PreBind: {words}",)


def test_pre_score_cannot_refuse() -> None:
    words = said(passed(pre_score=[Answers(Status(Code.UNSCHEDULABLE, ("no",)))]))
    assert words == "plugin Odd failed at PreScore: gave Unschedulable, it may prepare or skip"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "gave None where an Assignment is wanted"),
        (Assignment([], 2, no_reasons), "gave list where a mapping of rows to replicas"),  # type: ignore[arg-type]
        (Assignment({3: 1}, 2, no_reasons), "gave replicas to row 3 of 3 clusters"),
        (Assignment({-1: 1}, 2, no_reasons), "gave -1 as a row"),
        (Assignment({0: 1.5}, 2, no_reasons), "gave 1.5 where an integer as a share is wanted"),  # type: ignore[dict-item]
        (Assignment({0: 3}, 2, no_reasons), "gave 3 replicas where 2 are desired"),
        (Assignment({}, -2, no_reasons), "gave -2 as desired"),
    ],
)
def test_assign(answer: Any, words: str) -> None:
    decision = passed(assign=[Answers(answer, serves=True)])
    assert said(decision).startswith(f"plugin Odd failed at Assign: {words}")


def test_assign_gives_no_unit_to_a_refused_cluster() -> None:
    def to_c(_info: Any, field: Any) -> Assignment:
        return Assignment({field.snapshot.row["c"]: 1}, 400, no_reasons)

    decision = passed(assign=[Answers(to_c, serves=True)])
    assert said(decision) == "plugin Odd failed at Assign: gave 1 replicas to c, which is refused"


def test_serves_is_yes_or_no() -> None:
    words = said(passed(assign=[Answers(None, serves="yes")]))
    assert words == "plugin Odd failed at Assign: gave 'yes' where True or False is wanted"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "gave None where a Problem is wanted"),
        (lambda p: replace(p, total=p.total + 1), "gave a problem of 401 replicas for 400"),
        (lambda p: replace(p, upper=p.upper[:1]), "ValueError: upper: one entry for each of 3"),
        (lambda p: replace(p, lower=p.lower - 1), "ValueError: lower[0]: not below 0, found -1"),
    ],
)
def test_bounds(answer: Any, words: str) -> None:
    innocent = Divides(lambda p: replace(p, upper=p.upper - 1))
    innocent.name = "Innocent"
    decision = passed(assign=[innocent, Divides(answer)])
    assert said(decision).startswith(f"plugin Odd failed at Assign: {words}")


class Learns:
    """At Settle."""

    name = "Odd"

    def __init__(self, info: Any, look: Any) -> None:
        self._info, self._look = info, look

    def serves(self, *_: Any) -> bool:
        return False

    def assign(self, *_: Any) -> Any:
        raise AssertionError

    def settled(self, *_: Any) -> Any:
        return self._info

    def next_look(self, *_: Any) -> Any:
        return self._look


@pytest.mark.parametrize("look", ["soon", True, -1, float("inf"), float("nan")])
def test_a_look_that_is_no_time_is_taken_again_in_a_while(
    look: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = replace(default_profile(), assign=[Learns(info(), look)])
    now: Any = None
    assert runtime.next_look(made, info(), now) == runtime.ASK_AGAIN_SECONDS
    assert "plugin Odd failed at NextLook: gave" in caplog.text


CONFIG = """apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
profiles:
- pluginTimeoutMilliseconds: {}
"""


def test_the_time_of_plugins_stands_in_the_configuration() -> None:
    def seconds(value: object) -> float:
        found = parse(CONFIG.format(value), catalogue.registry())
        return found.profiles["stowage"].plugin_timeout

    assert seconds(250) == 0.25
    assert seconds(0) == 0
    assert default_profile().plugin_timeout == 2.0
    for wrong in (-1, 60_001, "soon"):
        with pytest.raises(ConfigurationError, match=r":4: .*pluginTimeoutMilliseconds"):
            seconds(wrong)


def test_faults_are_counted_from_zero() -> None:
    made = default_profile()
    there = {
        (s.labels["plugin"], s.labels["point"]) for each in ERRORS.collect() for s in each.samples
    }
    assert {(name, "Filter") for name in made.names["filter"]} <= there
    assert {(name, "Assign") for name in made.names["assign"]} <= there
