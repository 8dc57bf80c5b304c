"""The check of lint that each id has a test, and each test's id a row."""

from __future__ import annotations

import pytest

from tests.requirements import OPEN, Proofs, complaints, rows

pytest_plugins = ["pytester"]
PAGE = f"""# Requirements
## K: WorkloadPolicy
| id | what it is |
|---|---|
| K1 | A kind |
| K2 | A split |
{OPEN}
| id | what it is |
|---|---|
| N3b | A Secret that is swapped |
## G
| G1 | Another kind |
""".splitlines()
TESTS = """
import pytest

@pytest.mark.proves("K1", "K2")
@pytest.mark.parametrize("kills", [1, pytest.param(30, marks=pytest.mark.long)])
def test_one(kills): ...

@pytest.mark.long
class TestOther:
    pytestmark = pytest.mark.proves("G1")
    def test_two(self): ...
"""


def test_ids_below_the_heading_are_open() -> None:
    assert rows(PAGE) == ({"K1", "K2", "G1"}, {"N3b"})


@pytest.mark.parametrize("line", ["| K1 | Again |", "| k7 | Small |", "| K7 |", "| K7 | |"])
def test_a_row_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a row"):
        rows([*PAGE, line])


def test_marks_are_read_as_pytest_reads_them(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
        "markers =\n proves: ids\n long: long\n"
    )
    pytester.makepyfile(TESTS)
    proofs = Proofs()
    assert pytester.inline_run("--collect-only", plugins=[proofs]).ret == 0
    name = "test_marks_are_read_as_pytest_reads_them.py"
    assert proofs.short == {each: [f"{name}::test_one[1]"] for each in ("K1", "K2")}
    assert proofs.long == {
        "K1": [f"{name}::test_one[30]"],
        "K2": [f"{name}::test_one[30]"],
        "G1": [f"{name}::TestOther::test_two"],
    }


@pytest.mark.parametrize(
    ("short", "long", "words"),
    [
        ({"K1": ["a"], "K2": ["a"]}, {}, []),
        ({"K1": ["a"]}, {}, ["K2: no test of `make test` proves it."]),
        ({"K1": ["a"]}, {"K2": ["b", "c"]}, ["K2: no test", "only long ones do: b, c."]),
        ({"K1": ["a"], "K2": ["a"], "K9": ["b"]}, {}, ["K9: b proves it", "Add the row"]),
        ({"K1": ["a"], "K2": ["a"]}, {"K9": ["b"]}, ["K9: b proves it", "Add the row"]),
        ({"K1": ["a"], "K2": ["a"], "N3": ["b"]}, {}, ["N3: b proves it. Move its row"]),
        ({"K1": ["a"], "K2": ["a"]}, {"N3": ["b"]}, []),
    ],
)
def test_what_differs_is_told(
    short: dict[str, list[str]], long: dict[str, list[str]], words: list[str]
) -> None:
    told = list(complaints({"K1", "K2"}, {"N3"}, short, long))
    assert len(told) == bool(words)
    assert all(each in told[0] for each in words)
