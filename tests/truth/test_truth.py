"""No change of the code changes what is decided, written and explained, unless it says so.

`python -m tests.truth` writes the records anew; what it changes belongs into the commit's message.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.truth.records import FOLDER, NAMES, record, text


@pytest.mark.parametrize("name", NAMES)
async def test_it_is_as_it_was(name: str) -> None:
    stored = (FOLDER / f"{name}.json").read_text()
    found = text(await record(name))
    if found != stored:
        lines = difflib.unified_diff(stored.splitlines(), found.splitlines(), "stored", "now", n=4)
        pytest.fail("\n".join([*lines][:80]))


@pytest.mark.proves("Q21")
def test_each_condition_that_the_controller_writes_has_a_message() -> None:
    found = [
        each for path in FOLDER.glob("*.json") for each in _conditions(json.loads(path.read_text()))
    ]
    assert len(found) > 300
    # The fake members write Ready of a MemberCluster, the propagator in their stead.
    members = ("Connected", "Unreachable")
    assert [c for c in found if not c["message"] and c["reason"] not in members] == []


def _conditions(found: Any) -> Iterator[dict[str, Any]]:
    if isinstance(found, dict):
        if {"type", "status", "lastTransitionTime"} <= found.keys():
            yield found
        found = [*found.values()]
    for each in found if isinstance(found, list) else ():
        yield from _conditions(each)


def test_each_record_is_of_a_scenario() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(NAMES)
