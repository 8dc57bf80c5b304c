"""Each id of docs/requirements.md has a test in `make test`, and each id of a test has its row.

`python -m tests.requirements`, a part of lint, has pytest collect the tests and compares their marks
`proves` with the page. Tests with the mark `long` run in `make test-all` alone: they keep no id.
"""

from __future__ import annotations

import io
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "requirements.md"
OPEN = "## Open findings"
"""Rows below this heading wait for their first test."""
ROW = re.compile(r"\| ([A-Z]{1,3}[0-9]+[a-z]?) \| .+ \|")


@dataclass
class Proofs:
    """A plugin of pytest: the tests of each id, those with the mark `long` apart."""

    short: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    long: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            tests = self.long if item.get_closest_marker("long") else self.short
            for mark in item.iter_markers("proves"):
                for each in mark.args:
                    tests[each].append(item.nodeid)


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
    long: Mapping[str, list[str]],
) -> Iterator[str]:
    """The differences between page and tests, and what to do about them."""
    for each in sorted(kept - short.keys()):
        slow = f"; only long ones do: {', '.join(long[each])}" if each in long else ""
        yield f"{each}: no test of `make test` proves it{slow}. Write one, and mark it with the id"
    for each in sorted((short.keys() | long.keys()) - kept - waiting):
        test = (short.get(each) or long[each])[0]
        yield f"{each}: {test} proves it, and {PAGE.name} has no such row. Add the row"
    for each in sorted(waiting & short.keys()):
        yield f"{each}: {short[each][0]} proves it. Move its row out of `{OPEN}`"


def main() -> int:
    """Print what is wrong; 0 where nothing is."""
    kept, waiting = rows(PAGE.read_text().splitlines())
    proofs = Proofs()
    with redirect_stdout(io.StringIO()) as said:
        code = pytest.main(["--collect-only", "-qq"], [proofs])
    if code:
        print(said.getvalue())
        return int(code)
    found = list(complaints(kept, waiting, proofs.short, proofs.long))
    print("\n".join(found) or f"requirements: {len(kept)} ids have a test; {len(waiting)} are open")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
