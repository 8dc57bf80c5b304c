"""What is known of shares ends with the Workload, the share, the member or the term."""

from __future__ import annotations

import pytest

from propagator.shares import ShareTable
from tests.fakeclock import FakeClock

SHARES = {(uid, member) for uid in ("u1", "u2") for member in ("m1", "m2")}


def filled() -> tuple[ShareTable, set[tuple[str, str, str]]]:
    """A table with a value in each share of two columns, and what was told of their ends."""
    table, ended = ShareTable(), set[tuple[str, str, str]]()
    for of_term in (False, True):
        column = table.column(
            str, of_term=of_term, ended=lambda uid, member, value: ended.add((uid, member, value))
        )
        for uid, member in SHARES:
            column.put(uid, member, f"{of_term}")
    return table, ended


@pytest.mark.proves("B11", "B12")
@pytest.mark.parametrize(
    ("end", "left"),
    [
        (lambda table: table.drop_workload("u1"), {("u2", "m1"), ("u2", "m2")}),
        (lambda table: table.drop_member("m1"), {("u1", "m2"), ("u2", "m2")}),
        (lambda table: table.drop_share("u1", "m1"), SHARES - {("u1", "m1")}),
    ],
)
def test_an_end_is_one_of_every_column_and_backoff(end: object, left: set[tuple[str, str]]) -> None:
    table, ended = filled()
    backoff = table.backoff(tuple[str, str, int], clock=FakeClock(), base=1, cap=9)
    for uid, member in SHARES:
        backoff.failed((uid, member, 5))
    end(table)  # type: ignore[operator]
    assert ended == {(u, m, v) for u, m in SHARES - left for v in ("False", "True")}
    assert {of for of in SHARES if backoff.remaining((*of, 5))} == left
    for column in table._columns:
        assert {*column} == left


def test_only_another_leader_ends_what_is_of_a_term() -> None:
    table, ended = filled()
    table.new_term(alone=True)
    assert not ended
    table.new_term(alone=False)
    assert ended == {(*of, "True") for of in SHARES}


def test_a_share_of_which_nothing_is_known_takes_no_memory() -> None:
    table = ShareTable()
    column, other = table.column(set[str]), table.column(int)
    column.at("u", "m").add("x")
    column.at("u", "m").add("y")
    other.put("u", "n", 3)
    assert (column.of("u"), column.get("u", "n"), other.of("u")) == (
        {"m": {"x", "y"}},
        None,
        {"n": 3},
    )
    column.pop("u", "m")
    other.pop("u", "n")
    other.pop("u", "n")
    assert not table._shares
