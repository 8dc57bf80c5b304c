"""Selectors: all six operators, and the two ways to be empty."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from machinery.types.selectors import (
    ClusterSelector,
    LabelSelector,
    Requirement,
    SelectorTerm,
    flattened,
    label_selector,
    parse_label_selector,
)

LABELS = {"tier": "gold", "generation": "7", "name": "a"}


@pytest.mark.proves("C13", "W5")
@pytest.mark.parametrize(
    ("key", "operator", "values", "holds"),
    [
        ("tier", "In", ["gold", "silver"], True),
        ("tier", "In", ["silver"], False),
        ("absent", "In", ["gold"], False),
        ("tier", "NotIn", ["silver"], True),
        ("tier", "NotIn", ["gold"], False),
        ("absent", "NotIn", ["gold"], True),
        ("tier", "Exists", [], True),
        ("absent", "Exists", [], False),
        ("tier", "DoesNotExist", [], False),
        ("absent", "DoesNotExist", [], True),
        ("generation", "Gt", ["6"], True),
        ("generation", "Gt", ["7"], False),
        ("generation", "Lt", ["8"], True),
        ("generation", "Lt", ["7"], False),
        ("name", "Gt", ["1"], False),
        ("absent", "Lt", ["1"], False),
        ("tier", "Like", ["gold"], False),
    ],
)
def test_operators(key: str, operator: str, values: list[str], holds: bool) -> None:
    requirement = Requirement(key, operator, values)
    assert requirement.matches(LABELS) is holds
    assert LabelSelector(match_expressions=[requirement]).matches(LABELS) is holds
    assert SelectorTerm(match_expressions=[requirement]).matches(LABELS) is holds


@pytest.mark.proves("RB3")
@pytest.mark.parametrize("label", ["1_000", "1e3", "0x10", "99.5", "²", "٣", "9223372036854775808"])
def test_what_go_does_not_read_as_an_integer_is_neither_greater_nor_less(label: str) -> None:
    for operator in ("Gt", "Lt"):
        assert not Requirement("n", operator, ["7"]).matches({"n": label})
        assert not Requirement("n", operator, [label]).matches({"n": "7"})


@pytest.mark.proves("RB3")
@pytest.mark.parametrize("label", ["0010", "+10", "9223372036854775807"])
def test_what_go_reads_as_an_integer_is_one(label: str) -> None:
    assert Requirement("n", "Gt", ["-7"]).matches({"n": label})
    assert not Requirement("n", "Lt", ["7"]).matches({"n": label})


def test_empty_selects_everything_or_nothing() -> None:
    assert LabelSelector().matches(LABELS)
    assert not SelectorTerm().matches(LABELS)


def test_all_must_hold() -> None:
    both = LabelSelector({"tier": "gold"}, [Requirement("name", "In", ["b"])])
    assert not both.matches(LABELS)


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "Like"}]}, r"\[0\]\.operator"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, r"\[0\]\.values"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}, "values"),
        ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}, "integer"),
        ({"matchLabels": {"a": 1}}, "matchLabels"),
    ],
)
def test_a_wrong_selector_names_the_field(obj: dict, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        parse_label_selector(obj)


GOLD = {"tier": "gold"}
IN_EU = {"key": "region", "operator": "In", "values": ["eu"]}
EU = Requirement("region", "In", ("eu",))


@pytest.mark.proves("Q9")
@pytest.mark.parametrize(
    ("given", "meant", "flat"),
    [
        ({}, LabelSelector(), {}),
        (GOLD, LabelSelector(GOLD), GOLD),
        ({"matchLabels": GOLD}, LabelSelector(GOLD), GOLD),
        ({"matchExpressions": [IN_EU]}, LabelSelector({}, [EU]), {"matchExpressions": [EU]}),
        (
            {"matchLabels": GOLD, "matchExpressions": [IN_EU]},
            LabelSelector(GOLD, [EU]),
            {**GOLD, "matchExpressions": [EU]},
        ),
        # Admission refuses both at once; where it was not asked, no label is passed over.
        ({"matchLabels": GOLD, "a": "b"}, LabelSelector({"a": "b", **GOLD}), {"a": "b", **GOLD}),
    ],
)
def test_labels_alone_are_match_labels(
    given: dict[str, Any], meant: LabelSelector, flat: dict[str, Any]
) -> None:
    stored = msgspec.convert(given, ClusterSelector)
    assert label_selector(stored) == meant
    assert flattened(stored) == flat
    assert label_selector(flattened(stored)) == meant
