"""The root conftest: groups end with their servers, also when told to, and failures show the way."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import hold_on

ROOT = Path(__file__).resolve().parent.parent
BESIDE = ("--numprocesses=1", "--dist=loadgroup", "--no-loadscope-reorder")
SERVER = """
import os
from pathlib import Path
import pytest
{root}

def note(what):
    with Path("{at}/noted").open("a") as out:
        print(what, file=out)

@pytest.fixture(scope="session")
def bare_hub():
    note("up")
    yield note
    note("down")
"""
TAKES_LONG = """
import time

def test_that_takes_its_time(bare_hub):
    time.sleep(60)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the root conftest, a fixture that stands for a server, and an empty list."""
    root = (ROOT / "conftest.py").read_text()
    header, future, body = root.partition("from __future__ import annotations\n")
    (tmp_path / "conftest.py").write_text(header + future + SERVER.format(root=body, at=tmp_path))
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope=function\n")
    (tmp_path / "noted").touch()
    (tmp_path / "tests" / "controller").mkdir(parents=True)
    return tmp_path


def _command(checkout: Path, *options: str) -> list[str]:
    where = [f"--rootdir={checkout}", f"--confcutdir={checkout}", f"-c{checkout}/pytest.ini"]
    return [sys.executable, "-m", "pytest", "-q", *where, *options, str(checkout)]


def _run(checkout: Path, *options: str) -> str:
    done = subprocess.run(
        _command(checkout, *options), cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("options", [[], [BESIDE[0]]], ids=["alone", "in a worker"])
def test_what_a_run_has_started_is_stopped_when_it_is_told_to_end(
    checkout: Path, options: list[str]
) -> None:
    (checkout / "test_long.py").write_text(TAKES_LONG)
    noted = checkout / "noted"
    with subprocess.Popen(
        _command(checkout, *options), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as run:
        hold_on(lambda: "up" in noted.read_text())
        run.send_signal(signal.SIGTERM)  # to all of a group, and handed on: it comes twice
        run.send_signal(signal.SIGTERM)
        assert run.wait(timeout=120) != 0
    hold_on(lambda: "down" in noted.read_text())


LEAVES = """
import subprocess, sys, time

def test_that_leaves_a_server():
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    server = subprocess.Popen(sleeps, start_new_session=True)
    with open("{at}/noted", "a") as out:
        print(server.pid, file=out)
    time.sleep(60)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc").exists(), reason="it tells what has the mark")
@pytest.mark.parametrize("options", [[], [BESIDE[0]]], ids=["alone", "in a worker"])
def test_what_a_run_that_is_killed_leaves_is_ended(checkout: Path, options: list[str]) -> None:
    (checkout / "test_leaves.py").write_text(LEAVES.format(at=checkout))
    noted = checkout / "noted"
    with subprocess.Popen(
        _command(checkout, *options), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as run:
        hold_on(lambda: noted.read_text().endswith("\n"))
        server = Path("/proc") / noted.read_text().strip()
        assert server.exists()
        run.kill()
    hold_on(lambda: not server.exists())


def test_those_that_share_servers_come_first_and_the_servers_end_with_them(checkout: Path) -> None:
    plain = "def test_it(): ...\n"
    sharing = "def test_{0}(bare_hub): bare_hub('{0}')\n"
    (checkout / "tests" / "test_a.py").write_text(plain)
    for name in "bcd":
        (checkout / "tests" / "controller" / f"test_{name}.py").write_text(sharing.format(name))
    (checkout / "test_e.py").write_text(sharing.format("e"))
    assert "5 passed" in _run(checkout, *BESIDE)
    # b, c and d have one worker; e lies where nothing is shared.
    noted = (checkout / "noted").read_text().split()
    assert noted == ["up", "b", "c", "d", "down", "up", "e", "down"]


@pytest.mark.long
@pytest.mark.parametrize("options", [[], BESIDE], ids=["alone", "in a worker"])
def test_a_failure_shows_the_log_of_its_process_and_the_command_that_repeats_it(
    checkout: Path, options: list[str]
) -> None:
    (checkout / "test_x.py").write_text(f"""
from pathlib import Path
import pytest
from stowage.playground.processes import Process

@pytest.fixture
def controller():
    log = Path("{checkout}/controller.log")
    log.write_text("".join(f"line {{n}}\\n" for n in range(100)) + "the last words\\n")
    return Process("controller", ["true"], log)

@pytest.mark.parametrize("how", ["a@b 'c'"])
def test_fails(controller, how): assert False
""")
    said = _run(checkout, *options)
    assert "log of controller" in said
    assert "the last words" in said
    assert "line 0\n" not in said
    (again,) = [line for line in said.splitlines() if line.startswith("make test T=")]
    assert again == """make test T='test_x.py::test_fails[a@b '"'"'c'"'"']'"""
