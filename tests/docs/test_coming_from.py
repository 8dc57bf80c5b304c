"""Each concept of another system has a row that says what is there instead, and where to read it."""

from __future__ import annotations

import re

import pytest
import yaml

from stowage.importing.command import SYSTEMS
from tests.docs.conftest import ROOT

PAGE = (ROOT / "docs" / "coming-from.md").read_text()
CONCEPTS = yaml.safe_load((ROOT / "tests/docs/concepts.yaml").read_text())


def rows(system: str) -> list[list[str]]:
    section = PAGE.partition(f"\n## {system}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (.+) \|$", section, re.MULTILINE)[1:]
    return [line.split(" | ") for line in lines]


@pytest.mark.proves("DOC6")
def test_each_concept_has_a_row_with_our_word_and_a_link() -> None:
    found = {system: rows(system) for system in CONCEPTS}
    told = {
        system: [each for row in table for each in row[0].split(", ")]
        for system, table in found.items()
    }
    assert told == CONCEPTS
    assert [
        f"{system}: {row}"
        for system, table in found.items()
        for row in table
        if not row[1] or not re.fullmatch(r"\[.+\]\(.+\)", row[2])
    ] == []


@pytest.mark.proves("DOC6")
def test_each_system_that_can_be_imported_is_there() -> None:
    assert {each.name for each in SYSTEMS} <= set(CONCEPTS)
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE) == list(CONCEPTS)


@pytest.mark.proves("J10")
def test_n_whole_copies_are_no_division() -> None:
    (row,) = (row for row in rows("KubeFleet") if row[0] == "PickN")
    assert "`distribution: Duplicated` with `spreadConstraints`" in row[1]
