"""What a test run has started is stopped, also when the run is told to end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import hold_on

ROOT = Path(__file__).resolve().parent.parent
TEST = """
import time
from pathlib import Path
import pytest

@pytest.fixture(scope="session")
def server():
    Path("{at}/up").touch()
    yield
    time.sleep(0.5)
    Path("{at}/down").touch()

def test_that_takes_its_time(server):
    time.sleep(60)
"""


@pytest.mark.parametrize("options", [[], ["--numprocesses=1"]], ids=["alone", "in a worker"])
def test_what_a_run_has_started_is_stopped_when_it_is_told_to_end(
    tmp_path: Path, options: list[str]
) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (tmp_path / "test_long.py").write_text(TEST.format(at=tmp_path))
    command = [sys.executable, "-m", "pytest", str(tmp_path), "-q", f"--rootdir={tmp_path}"]
    with subprocess.Popen(
        [*command, "--confcutdir", str(tmp_path), *options],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        hold_on((tmp_path / "up").exists)
        run.send_signal(signal.SIGTERM)  # to all of a group, and handed on: it comes twice
        run.send_signal(signal.SIGTERM)
        assert run.wait(timeout=30) != 0
    hold_on((tmp_path / "down").exists)
