"""What plays the nodes of a member runs on for as long as the member does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROCESS = re.compile(r"""\[\s*["']kwok["']\s*\]|\bkwok\.(end|kill|start|restart|terminate)\b""")
BUT = {
    "tests/stowage/test_playground.py": "`playground up` starts what has died; it waits for no pod"
}


@pytest.mark.proves("RB20")
def test_no_test_ends_or_starts_kwok() -> None:
    """A kwok that is started anew leaves pods unready for ever whose node's lease it has not read."""
    files = [*ROOT.glob("e2e/**/*.py"), *ROOT.glob("tests/**/*.py")]
    found = {str(path.relative_to(ROOT)) for path in files if PROCESS.search(path.read_text())}
    assert found == {*BUT, str(Path(__file__).resolve().relative_to(ROOT))}


@pytest.mark.parametrize(
    "planted", ['cluster.processes["kwok"].end()', "kwok.start(detached=True)"]
)
def test_who_does_is_found(planted: str) -> None:
    assert PROCESS.search(planted)
