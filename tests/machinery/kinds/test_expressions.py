"""A value of a profile: what is a path, what is an expression, and what neither can do."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from machinery.kinds import expressions
from machinery.kinds.expressions import (
    Comparison,
    EvaluationError,
    InvalidExpression,
    Missing,
    Path,
    Program,
    Scope,
    TooCostly,
    holds,
    java_memory,
    read,
    value,
    why_not,
)

GROUP = {"replicas": 2, "minReplicas": 3, "numOfHosts": 4}
COUNT = (
    "math.greatest(item.?replicas.orValue(0), item.?minReplicas.orValue(0))"
    " * item.?numOfHosts.orValue(1)"
)


def scope(**body: Any) -> Scope:
    return Scope({"metadata": {}, "spec": {}, "status": {}, **body})


def test_names_are_a_path_and_a_literal_beside_one_a_comparison() -> None:
    assert isinstance(value("spec.replicas"), Path)
    assert isinstance(value('metadata.annotations["a.b/c"]'), Path)
    assert isinstance(value("conditions.Ready == 'True'"), Comparison)
    assert isinstance(value("spec.a + 1"), Program)


@pytest.mark.parametrize(
    ("text", "body", "found"),
    [
        ("spec.replicas", {"spec": {"replicas": 3}}, 3),
        ("object.spec.replicas", {"spec": {"replicas": 3}}, 3),
        ("spec.replicas", {}, None),
        ("spec.replicas.more", {"spec": {"replicas": 3}}, None),
        ('metadata.labels["a.b/c"]', {"metadata": {"labels": {"a.b/c": "x"}}}, "x"),
        (COUNT, {"item": GROUP}, 12),
        (COUNT, {"item": {"minReplicas": 3}}, 3),
        ("javaMemory(spec.memory)", {"spec": {"memory": "2048m"}}, 2 << 30),
        ("spec.slots + 1", {}, None),
        ("{'cpu': spec.cpu}", {"spec": {"cpu": 0.5}}, {"cpu": 0.5}),
        ("spec.l.filter(x, x.a)[0]", {"spec": {"l": [{"a": False}, {"a": True}]}}, {"a": True}),
    ],
)
def test_a_value_is_read_and_a_missing_field_is_none(text: str, body: Any, found: Any) -> None:
    assert read(text, scope(**body)) == found


@pytest.mark.parametrize(
    ("text", "status", "why"),
    [
        ("status.phase == 'Running'", {"phase": "Running"}, ""),
        ("status.phase == 'Running'", {}, "status.phase is missing"),
        ("status.phase == 'Running'", {"phase": "Old"}, "status.phase == 'Running' is not true"),
        ("status.n == 1", {"n": True}, "status.n == 1 is not true"),
        ("status.phase != ''", {"phase": "a"}, ""),
        ("status.phase != ''", {}, "status.phase is missing"),
        ("status.phase != 'a'", {"phase": "a"}, "status.phase != 'a' is not true"),
        ("status.a.b >= 2", {"a": {}}, "status.a.b is missing"),
        ("status.a >= 2", {"a": "x"}, "status.a >= 2: No matching overloads found"),
        ("status.a", {"a": "True"}, "status.a is not true"),
    ],
)
def test_a_condition_says_why_it_does_not_hold(text: str, status: Any, why: str) -> None:
    assert why_not(text, scope(status=status)).startswith(why)
    assert holds(text, {"spec": {}, "status": status, "metadata": {}}) is not bool(why)


@pytest.mark.proves("KD3")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("status.a >", "1:11: Syntax error"),
        ("other.a > 1", "undeclared reference to 'other"),
        ("spec.l.map(x, x)", "the macro map is not allowed"),
        ("+".join(["1"] * 100), "more than 16 additions"),
        ("[" * 200 + "]" * 200, "recursion limit"),
        ("x" * 1025, "more than 1024 characters"),
        ("spec.a + '\ud800'", ""),
        ("other.a", "other.a begins with none of object, spec"),
    ],
)
def test_what_does_not_compile_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(InvalidExpression) as refused:
        value(text)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_word_in_quotes_is_no_macro() -> None:
    assert read("spec.a + '.map(x)'", scope(spec={"a": "b"})) == "b.map(x)"


@pytest.mark.proves("KD8")
def test_an_object_that_is_too_large_is_asked_nothing() -> None:
    large = {"a": "x" * 256 * 1024, "n": 1}
    with pytest.raises(TooCostly):
        read("spec.n + 1", scope(spec=large))
    assert read("spec.n", scope(spec=large)) == 1
    with pytest.raises(TooCostly, match="more than 16384 values"):
        read("spec.n + 1", scope(spec={"l": [0] * 16384, "n": 1}))


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the processor's time is a millisecond later."""
    looks = itertools.count()
    monkeypatch.setattr(expressions, "worktime", lambda: next(looks) / 1000)


@pytest.mark.proves("KD8")
@pytest.mark.usefixtures("work")
@pytest.mark.parametrize(
    "text",
    [
        "spec.l.all(x, !spec.s.contains('b'))",
        "spec.l.exists(x, x.n == 2 && x.n == 3)",
        "spec.l.exists_one(x, spec.l.exists( y , y.n == x.n && y.n == 2))",
        "spec.l.filter(x, spec.l == spec.l).size() >= 0",
        r"r'\d'.size() == 2 && spec.l.all(x, '''it's (,''' != spec.s)",
    ],
)
def test_a_macro_ends_with_the_time_for_its_object(text: str) -> None:
    about = scope(spec={"l": [{"n": 1}] * 60, "s": "a"})
    with pytest.raises(TooCostly, match="more than 50 ms"):
        why_not(text, about)
    with pytest.raises(TooCostly, match="more than 50 ms"):
        read("spec.n + 1", about)
    few = scope(spec={"l": [{"n": 1}] * 3, "s": "a"})
    assert read(text, few) is not None, "the next object has its own time"


@pytest.mark.usefixtures("work")
def test_elements_of_a_list_share_the_time_of_their_object() -> None:
    about = scope(spec={"l": [0] * 30})
    assert read("spec.l.all(x, x == item)", about.within(0, 0)) is True
    with pytest.raises(TooCostly):
        read("spec.l.all(x, x == item)", about.within(0, 1))


def test_what_looks_like_a_macro_in_quotes_or_comments_is_none() -> None:
    assert read("spec.a + '.all(x, ('", scope(spec={"a": "b"})) == "b.all(x, ("
    assert read("spec.l.all(x, x != '.all(y, )' )", scope(spec={"l": ["a"]})) is True
    with pytest.raises(InvalidExpression, match="leave comments out"):
        value("spec.l.all(x, // )\n x)")


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("spec.l.all(x, spec.l.all(y, x <= 200))", {"l": list(range(200))}),
        ("spec.n + 1", {"n": 2**63 - 1}),
        ("spec.n + 1", {"n": 2**80}),
        ("javaMemory(spec.n)", {"n": "much"}),
        ("spec.?n", {}),
        ("1 / spec.n", {"n": 0}),
    ],
)
def test_a_fault_on_one_object_is_told_as_such(text: str, body: Any) -> None:
    with pytest.raises(EvaluationError) as fault:
        read(text, scope(spec=body))
    assert not isinstance(fault.value, Missing | TooCostly)


def test_one_program_is_asked_by_many_threads() -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(read(COUNT, scope(item=GROUP))))
        for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [12] * 8


@pytest.mark.parametrize(
    ("text", "size"), [("2048m", 2 << 30), ("4g", 4 << 30), ("512", 512), ("1 GiB", 1 << 30)]
)
def test_memory_as_java_writes_it(text: str, size: int) -> None:
    assert java_memory(text) == size
