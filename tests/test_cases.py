"""A test of many cases fails for each of them, by its name."""

from __future__ import annotations

import pytest

from tests.cases import SHOWN, put


def even(number: int) -> None:
    assert number % 2 == 0, "odd"


def test_all_that_hold_pass() -> None:
    put([2, 4], even, known_by=str)


def test_every_one_that_fails_is_named() -> None:
    with pytest.raises(pytest.fail.Exception) as failed:
        put([2, 3, 4, 5], even, known_by=lambda n: f"case-{n}")
    told = str(failed.value).splitlines()
    assert told[0] == "2 cases fail:"
    assert [line for line in told if line.startswith("case-")] == ["case-3: odd", "case-5: odd"]
    with pytest.raises(pytest.fail.Exception, match="and 2 more"):
        put([1] * (SHOWN + 2), even, known_by=str)


def test_a_fault_tells_its_case() -> None:
    def divide(number: int) -> None:
        1 / number

    with pytest.raises(ZeroDivisionError) as fault:
        put([1, 0], divide, known_by=lambda n: f"case-{n}")
    assert fault.value.__notes__ == ["in the case case-0"]
