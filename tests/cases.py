"""Many recorded cases in one test: each is put to the check, and every one that fails is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import pytest

T = TypeVar("T")
SHOWN = 20
"""Of so many cases that fail the message is told; of the others the number."""


def each_of(
    files: Mapping[str, Iterable[T]], *, known_by: Callable[[T], str]
) -> Callable[[Callable[[T], None]], pytest.MarkDecorator]:
    """Make a check of one case one test for each file, over all of that file's cases.

    Files without a case are left out; `known_by` gives the name of a case.
    """
    some = {file: list(cases) for file, cases in files.items()}
    some = {file: cases for file, cases in some.items() if cases}
    if not some:
        raise ValueError("no file has a case: there is nothing to check")

    def decorate(check: Callable[[T], None]) -> pytest.MarkDecorator:
        def test(file: str) -> None:
            put(some[file], check, known_by=known_by)

        test.__name__, test.__doc__, test.__module__ = (
            check.__name__, check.__doc__, check.__module__,
        )  # fmt: skip
        return pytest.mark.parametrize("file", list(some))(test)

    return decorate


def put(cases: Iterable[T], check: Callable[[T], None], *, known_by: Callable[[T], str]) -> None:
    """Check every case. Fails with the name and message of each that does not hold."""
    failed = []
    for case in cases:
        try:
            check(case)
        except AssertionError as e:
            failed.append(f"{known_by(case)}: {e}")
        except Exception as e:
            e.add_note(f"in the case {known_by(case)}")
            raise
    if failed:
        more = f"\n… and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
        pytest.fail(
            f"{len(failed)} cases fail:\n" + "\n".join(failed[:SHOWN]) + more, pytrace=False
        )
