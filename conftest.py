"""How tests run beside each other, and what a failure shows; for `tests/` and `e2e/` alike.

`make test` runs several workers (pytest-xdist), as most of the time goes by waiting for servers. A
group of tests goes to one worker, in its order: the tests of a module, or all that share servers
(`SHARED`). When a worker has ended a group, all fixtures of the session end there as well, so that
servers run while they are needed, and no group finds what another left.
"""

from __future__ import annotations

import gc
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pytest
from hypothesis import settings
from xdist.workermanage import NodeManager

from machinery.kinds import table
from stowage.playground.controlplanes import ControlPlanes
from stowage.playground.processes import Process
from tests import leftovers
from tests.examples import SHORT

gc.disable()  # until the tests are collected, which makes no garbage
settings.load_profile(SHORT)  # before --hypothesis-profile is looked at

SHARED = {
    "playground": "e2e",
    "m1": "tests",
    "hub": "tests",
    "engine": "tests/stowage",
    "bare_hub": "tests/controller",
    "older_hub": "tests/controller",
}
"""Fixtures whose servers all tests below a folder share: one group each, on one worker.

A test that asks for several of them goes with the first. Groups that start servers are begun first,
in this order: they wait for servers while other modules compute.
"""
LOG_LINES = 40
LONGEST_ID = 80
"""Characters of a parameter's value in the id of its test."""


_GUARD = pytest.StashKey[subprocess.Popen[bytes]]()
"""What ends the servers of this process, should it be killed."""
_WORKERS: list[int] = []
"""The process ids of the workers, where this process is the one that has started them."""


@pytest.fixture(autouse=True)
def _no_kinds_of_another_test() -> Iterator[None]:
    """The table of kinds is the process's, and follows the hub of the test."""
    yield
    table.use(())


def pytest_configure(config: pytest.Config) -> None:
    """End as if interrupted when SIGTERM comes: what was started is stopped."""
    # API servers and etcd collect garbage a quarter as often: memory is there, processor time not.
    os.environ.setdefault("GOGC", "400")
    # Dozens of them share few cores, and each would keep threads for all of these awake.
    os.environ.setdefault("GOMAXPROCS", "1")
    signal.signal(signal.SIGTERM, _interrupt)
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.stash[_GUARD] = leftovers.guard()
    # A worker that has a playground to take down needs more than the ten seconds it has by default.
    NodeManager.EXIT_TIMEOUT = 60


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the guard; it kills what the tests have left, had any of them left something."""
    guard = config.stash.get(_GUARD, None)
    if guard is not None:
        guard.communicate()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready(node: Any) -> None:
    """Note a worker's process id, so that it is told to end as this process is."""
    _WORKERS.append(node.gateway._io.popen.pid)  # noqa: SLF001 - nothing public has it


def _interrupt(*_: object) -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)  # unlike SIG_IGN no child inherits it
    for worker in _WORKERS:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGTERM)
    raise KeyboardInterrupt


# --- groups ---------------------------------------------------------------------------------------

_GROUP = pytest.StashKey[str]()


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups after that
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say of each test which group it is of, and put those first that wait for shared servers."""
    ranks: dict[str, int] = {}
    for item in items:
        group = next((name for name in SHARED if _shares(item, name)), "")
        if group:
            rank = list(SHARED).index(group)
        else:
            group = item.nodeid.partition("::")[0]
            rank = len(SHARED) + ("control_planes" not in getattr(item, "fixturenames", ()))
        if item.get_closest_marker("long") and (mark := item.get_closest_marker("long_group")):
            group = mark.args[0]
        if mark := item.get_closest_marker("xdist_group"):
            group = mark.args[0]
        else:
            item.add_marker(pytest.mark.xdist_group(group))
        item.stash[_GROUP] = group
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.property)
        ranks[group] = min(rank, ranks.get(group, rank))
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: ranks[item.stash[_GROUP]])


def pytest_make_parametrize_id(val: object) -> str | None:
    """Cut the id of a long value: each worker would send megabytes of them with each report."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{val[:LONGEST_ID]!a}... of {len(val)}"
    return None


def pytest_collection_finish() -> None:
    """Set aside what collection has made: each complete collection of garbage would look at it."""
    gc.collect()
    gc.freeze()
    # Ten thousand new objects before a look at them, and not 700: most go by themselves by then.
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def _shares(item: pytest.Item, fixture: str) -> bool:
    """Whether it asks for that one, and not for a hub in memory that its module calls so."""
    names = getattr(item, "fixturenames", ())
    in_memory = fixture == "hub" and "make_cluster" not in names
    return item.nodeid.startswith(f"{SHARED[fixture]}/") and fixture in names and not in_memory


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End all fixtures after a worker's last test of a group, those of the session too."""
    worker = hasattr(item.config, "workerinput")
    if worker and nextitem is not None and nextitem.stash[_GROUP] != item.stash[_GROUP]:
        # Pytest does this after the last test of all; no public call does it earlier.
        item.session._setupstate.teardown_exact(None)  # noqa: SLF001 - the reason is above


# --- failures -------------------------------------------------------------------------------------


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show beside a failure the end of the log of each process that the test is about."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed:
        values = getattr(item, "funcargs", {}).values()
        logs = {log: name for value in values for name, log in _logs(value)}
        for log, name in logs.items():
            if log.exists():
                lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
                report.sections.append((f"log of {name}", "\n".join(lines)))


def _logs(value: Any) -> Iterator[tuple[str, Path]]:
    """Name and log of each process that a fixture's value stands for.

    Of control planes those that have ended alone: all their logs would hide the failure.
    """
    if isinstance(value, ControlPlanes):
        for cluster in value.clusters.values():
            for process in cluster.processes.values():
                if not process.alive():
                    yield f"{process.name}, which has ended", process.log
    elif isinstance(value, Process):
        yield value.name, value.log
    elif isinstance(value, HasLogs):
        yield from value.logs()


@runtime_checkable
class HasLogs(Protocol):
    """Who knows the logs of the processes that a test is about: a playground, a stage."""

    def logs(self) -> Iterator[tuple[str, Path]]:
        """Name and log of each."""
        ...


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the command that repeats each failure alone."""
    stats = terminalreporter.stats
    failed = [report.nodeid for kind in ("failed", "error") for report in stats.get(kind, ())]
    if failed:
        terminalreporter.section("each alone")
        for nodeid in dict.fromkeys(map(_without_group, failed)):
            terminalreporter.write_line(f"make test T={shlex.quote(nodeid)}")


def _without_group(nodeid: str) -> str:
    """The id that pytest takes; xdist has appended `@` and the group."""
    at = nodeid.rfind("@")
    return nodeid[:at] if at > nodeid.rfind("]") else nodeid
