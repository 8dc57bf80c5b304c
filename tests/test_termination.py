"""What a test run has started is stopped, also when the run is told to end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import hold_on

ROOT = Path(__file__).resolve().parent.parent
CONFTEST = """
import time
from pathlib import Path
import pytest
from tests import termination
termination.heed()

@pytest.fixture(scope="session")
def server():
    Path("{at}/up").touch()
    yield
    time.sleep(0.5)
    Path("{at}/down").touch()
"""
TEST = """
import time

def test_long(server):
    time.sleep(60)
"""


@pytest.mark.parametrize("lanes", [False, True])
def test_what_a_run_has_started_is_stopped_when_it_is_told_to_end(
    tmp_path: Path, *, lanes: bool
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(at=tmp_path))
    (tmp_path / "test_long.py").write_text(TEST)
    options = ["-q", f"--rootdir={tmp_path}"]
    code = f"""
from tests import lanes
raise SystemExit(lanes.run([[{str(tmp_path)!r}]], {options!r}))
"""
    alone = ["-m", "pytest", str(tmp_path), *options]
    with subprocess.Popen(
        [sys.executable, *(["-c", code] if lanes else alone)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        hold_on((tmp_path / "up").exists)
        run.send_signal(signal.SIGTERM)  # to all of a group, and handed on: it comes twice
        run.send_signal(signal.SIGTERM)
        assert run.wait(timeout=30) != 0
    assert (tmp_path / "down").exists()
