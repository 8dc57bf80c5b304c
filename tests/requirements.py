"""Each id of docs/requirements.md has a test in `make test`, and each id of a test has its row.

A run that collects the whole suite notes the marks `proves` of all tests, also of those that it does
not run, and `test_requirements` compares them with the page. `python -m tests.requirements` does the
same without a run. Tests with a mark of `APART` are no part of `make test`: they keep no id.
"""

from __future__ import annotations

import io
import re
import sys
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "requirements.md"
OPEN = "## Open findings"
"""Rows below this heading wait for their first test."""
ROW = re.compile(r"\| ([A-Z]{1,3}[0-9]+[a-z]?) \| .+ \|")


APART = ("long", "perf")
PARTIAL = ("ignore", "ignore_glob", "lf")
"""Options by which pytest leaves out files."""


@dataclass
class Proofs:
    """A plugin of pytest: the tests of each id, those with a mark of `APART` by themselves."""

    short: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    apart: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    whole: bool = False
    """Whether all tests were collected, and not those of some files."""

    @pytest.hookimpl(wrapper=True)  # before -m and -k take tests out
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None]:
        everywhere = config.args_source == pytest.Config.ArgsSource.TESTPATHS
        self.whole = everywhere and not any(config.getoption(each, None) for each in PARTIAL)
        for item in items:
            tests = self.apart if any(map(item.get_closest_marker, APART)) else self.short
            for mark in item.iter_markers("proves"):
                for each in mark.args:
                    tests[each].append(item.nodeid)
        yield

    def complaints(self, page: Iterable[str]) -> list[str]:
        """What differs from the lines of the page."""
        return list(complaints(*rows(page), self.short, self.apart))


def rows(lines: Iterable[str]) -> tuple[set[str], set[str]]:
    """The ids of the tables, and those of them that stand below the heading `OPEN`.

    Raises ValueError for a row that is none, and for an id that has two.
    """
    kept: set[str] = set()
    waiting: set[str] = set()
    now = kept
    for line in lines:
        now = waiting if line == OPEN else kept if line.startswith("## ") else now
        if not line.startswith("|") or set(line) <= set("|- ") or line.startswith("| id |"):
            continue
        found = ROW.fullmatch(line)
        if found is None or found[1] in kept | waiting:
            raise ValueError(f"{PAGE.name}: not a row of a new id `| id | what it is |`: {line}")
        now.add(found[1])
    return kept, waiting


def complaints(
    kept: set[str],
    waiting: set[str],
    short: Mapping[str, list[str]],
    apart: Mapping[str, list[str]],
) -> Iterator[str]:
    """The differences between page and tests, and what to do about them."""
    for each in sorted(kept - short.keys()):
        others = f"; only others do: {', '.join(apart[each])}" if each in apart else ""
        yield f"{each}: no test of `make test` proves it{others}. Write one, and mark it with the id"
    for each in sorted((short.keys() | apart.keys()) - kept - waiting):
        test = (short.get(each) or apart[each])[0]
        yield f"{each}: {test} proves it, and {PAGE.name} has no such row. Add the row"
    for each in sorted(waiting & short.keys()):
        yield f"{each}: {short[each][0]} proves it. Move its row out of `{OPEN}`"


def main() -> int:
    """Print what is wrong; 0 where nothing is."""
    proofs = Proofs()
    with redirect_stdout(io.StringIO()) as said:
        code = pytest.main(["--collect-only", "-qq"], [proofs])
    if code:
        print(said.getvalue())
        return int(code)
    found = proofs.complaints(PAGE.read_text().splitlines())
    print("\n".join(found) or f"requirements: {len(proofs.short)} ids have a test")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
