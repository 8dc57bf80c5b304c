"""Each id has a test, and each test's id a row."""

from __future__ import annotations

import pytest

from tests.requirements import OPEN, PAGE, Proofs, complaints, rows

pytest_plugins = ["pytester"]
LINES = f"""# Requirements
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

@pytest.mark.perf
@pytest.mark.proves("G2")
def test_three(): ...
"""


def test_each_id_of_the_page_has_a_test_and_each_id_of_a_test_its_row(
    request: pytest.FixtureRequest,
) -> None:
    """Whatever of the suite a run runs: it has collected all of it, on each of its workers."""
    proofs = request.config.pluginmanager.get_plugin("proofs")
    assert proofs
    if not proofs.whole:
        pytest.skip("a part of the tests is collected: `python -m tests.requirements` looks at all")
    if found := proofs.complaints(PAGE.read_text().splitlines()):
        pytest.fail("\n".join(found), pytrace=False)


def test_ids_below_the_heading_are_open() -> None:
    assert rows(LINES) == ({"K1", "K2", "G1"}, {"N3b"})


@pytest.mark.parametrize("line", ["| K1 | Again |", "| k7 | Small |", "| K7 |", "| K7 | |"])
def test_a_row_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a row"):
        rows([*LINES, line])


@pytest.fixture
def suite(pytester: pytest.Pytester) -> str:
    """A suite of one module, whose name it is."""
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\ntestpaths = .\n"
        "markers =\n proves: ids\n long: long\n perf: perf\n"
    )
    return pytester.makepyfile(TESTS).name


@pytest.mark.parametrize("options", [[], ["-m", "not long and not perf"], ["-k", "nothing"]])
def test_marks_are_read_as_pytest_reads_them_also_of_tests_that_do_not_run(
    pytester: pytest.Pytester, suite: str, options: list[str]
) -> None:
    proofs = Proofs()
    pytester.inline_run("--collect-only", *options, plugins=[proofs])
    assert proofs.short == {each: [f"{suite}::test_one[1]"] for each in ("K1", "K2")}
    assert proofs.apart == {
        "K1": [f"{suite}::test_one[30]"],
        "K2": [f"{suite}::test_one[30]"],
        "G1": [f"{suite}::TestOther::test_two"],
        "G2": [f"{suite}::test_three"],
    }
    assert proofs.whole


@pytest.mark.parametrize("part", [["{suite}"], ["."], ["--ignore={suite}"], ["--lf"]])
def test_a_run_of_a_part_says_nothing_of_the_rest(
    pytester: pytest.Pytester, suite: str, part: list[str]
) -> None:
    proofs = Proofs()
    options = [each.format(suite=suite) for each in part]
    pytester.inline_run("--collect-only", *options, plugins=[proofs])
    assert not proofs.whole


@pytest.mark.parametrize(
    ("short", "apart", "words"),
    [
        ({"K1": ["a"], "K2": ["a"]}, {}, []),
        ({"K1": ["a"]}, {}, ["K2: no test of `make test` proves it."]),
        ({"K1": ["a"]}, {"K2": ["b", "c"]}, ["K2: no test", "only others do: b, c."]),
        ({"K1": ["a"], "K2": ["a"], "K9": ["b"]}, {}, ["K9: b proves it", "Add the row"]),
        ({"K1": ["a"], "K2": ["a"]}, {"K9": ["b"]}, ["K9: b proves it", "Add the row"]),
        ({"K1": ["a"], "K2": ["a"], "N3": ["b"]}, {}, ["N3: b proves it. Move its row"]),
        ({"K1": ["a"], "K2": ["a"]}, {"N3": ["b"]}, []),
    ],
)
def test_what_differs_is_told(
    short: dict[str, list[str]], apart: dict[str, list[str]], words: list[str]
) -> None:
    told = list(complaints({"K1", "K2"}, {"N3"}, short, apart))
    assert len(told) == bool(words)
    assert all(each in told[0] for each in words)
