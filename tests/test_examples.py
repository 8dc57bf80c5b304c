"""The profile of a run decides how many examples a property gets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import LONG, SHORT, examples

ROOT = Path(__file__).resolve().parent.parent
COUNTED = """
from hypothesis import given, strategies as st
from tests.examples import examples
seen = []

@examples(200)
@given(st.integers())
def test_a_property(number):
    seen.append(number)

def test_how_many():
    print("tried", len(seen))
"""


@pytest.fixture
def profile() -> Iterator[None]:
    before = settings.get_current_profile_name()
    yield
    settings.load_profile(before)


def test_a_short_run_tries_a_twentieth_and_the_same_every_time(profile: None) -> None:
    settings.load_profile(SHORT)
    drawn = []
    for _ in range(2):
        seen: list[int] = []

        @examples(200)
        @given(st.integers())
        def a_property(number: int) -> None:
            seen.append(number)  # noqa: B023 - it is called at once

        a_property()
        drawn.append(seen)
    assert 10 <= len(drawn[0]) <= 20
    assert drawn[0] == drawn[1]
    settings.load_profile(LONG)
    assert examples(200).max_examples == 200
    assert not examples(200).derandomize


def test_a_run_is_a_long_one_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(COUNTED)
    (tmp_path / "conftest.py").write_text("import tests.examples\n")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", f"--rootdir={tmp_path}",
         "--hypothesis-profile=long", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=480, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (line,) = [line for line in ran.stdout.splitlines() if "tried" in line]
    assert 200 <= int(line.split("tried ")[1].split()[0]) <= 250
