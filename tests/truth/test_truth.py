"""No change of the code changes what is decided, written and explained, unless it says so.

`python -m tests.truth` writes the records anew; what it changes belongs into the commit's message.
"""

from __future__ import annotations

import difflib

import pytest

from tests.truth.records import FOLDER, NAMES, record, text


@pytest.mark.parametrize("name", NAMES)
async def test_it_is_as_it_was(name: str) -> None:
    stored = (FOLDER / f"{name}.json").read_text()
    found = text(await record(name))
    if found != stored:
        lines = difflib.unified_diff(stored.splitlines(), found.splitlines(), "stored", "now", n=4)
        pytest.fail("\n".join([*lines][:80]))


def test_each_record_is_of_a_scenario() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(NAMES)
