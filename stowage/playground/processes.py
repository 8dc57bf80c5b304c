"""Processes that are started, found again, and ended by their own id only.

Beside each log lies a file with the pid and the kernel's start time, so that a later command finds
the process, and never signals another one with its pid. Processes of a test die with the test
(PR_SET_PDEATHSIG on Linux); those of the playground outlive their command.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from machinery.clock import SystemClock
from machinery.errors import StowageError

_CLOCK = SystemClock()
_PR_SET_PDEATHSIG = 1
_PROC = Path("/proc/self/stat")
# Looked up before any fork: between fork and exec nothing may be imported or loaded.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class ProcessFailed(StowageError):
    """A process ended, or never became ready. The message ends with the last lines of its log."""


# Children of this process: it must collect their exit, or they stay as zombies.
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class Process:
    """One program and how it is started; `pidfile` says which process it is while it runs."""

    name: str
    argv: list[str]
    log: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def pidfile(self) -> Path:
        """The file with pid and start time, beside the log."""
        return self.log.with_suffix(".pid")

    def start(self, *, detached: bool) -> None:
        """Start it. A `detached` process outlives this one; any other is killed with this one."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as out:
            child = subprocess.Popen(  # noqa: S603 - the arguments are our own list
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.env},
                start_new_session=True,
                preexec_fn=None if detached else die_with_parent,  # noqa: PLW1509 - only prctl
            )
        _collect()
        _CHILDREN[child.pid] = child
        draft = self.pidfile.with_suffix(".draft")  # whoever reads it meanwhile reads all or none
        draft.write_text(f"{child.pid} {_born(child.pid)}")
        draft.rename(self.pidfile)

    def pid(self) -> int:
        """Return the pid while it runs; else 0. A stopped process runs, a zombie does not."""
        try:
            pid, _, born = self.pidfile.read_text().partition(" ")
        except FileNotFoundError:
            return 0
        number = int(pid)
        here = bool(born) and _born(number) == born
        if not here and (child := _CHILDREN.pop(number, None)) is not None:
            child.wait()  # at once: it is a zombie of ours, or was collected before
        return number if here else 0

    def alive(self) -> bool:
        return self.pid() != 0

    def send(self, number: signal.Signals) -> None:
        pid = self.pid()
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def freeze(self) -> None:
        """Send SIGSTOP, and return when every thread has stopped.

        The kernel stops each of them when it runs next: on a busy machine others serve meanwhile.
        """
        self.send(signal.SIGSTOP)
        if not wait_until(self._stands_still, seconds=10.0, every=0.001, grow=1.5):
            raise self.failure("did not stop on SIGSTOP")

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def _stands_still(self) -> bool:
        threads = Path(f"/proc/{self.pid()}/task")
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one ended meanwhile
            states = [_fields(each / "stat")[0] for each in threads.iterdir()]
            return all(state in "TZX" for state in states)
        return not _PROC.exists() or not self.alive()

    def end(self, number: signal.Signals = signal.SIGTERM, *, seconds: float = 10.0) -> None:
        """Send the signal and wait until it is gone; after that many seconds, kill it."""
        self.send(number)
        if not wait_until(lambda: not self.alive(), seconds=seconds):
            self.send(signal.SIGKILL)
            wait_until(lambda: not self.alive(), seconds=10.0)
        _collect()

    def tail(self, lines: int = 15) -> str:
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def failure(self, what: str) -> ProcessFailed:
        """Return the fault to raise about this process, with the end of its log."""
        return ProcessFailed(f"{self.name} {what}; the end of {self.log}:\n{self.tail()}")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "log": str(self.log)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Process:
        return Process(**{**data, "log": Path(data["log"])})


def _collect() -> None:
    """Collect the exits of our own children that ended, whichever process ended them."""
    for pid, child in list(_CHILDREN.items()):
        if child.poll() is not None:
            del _CHILDREN[pid]


# Python would warn that a child still runs which another process ended after the last _collect.
atexit.register(_collect)


def wait_until(
    check: Callable[[], bool], *, seconds: float, every: float = 0.05, grow: float = 1.0
) -> bool:
    """Poll until `check` holds; return False after `seconds`. `grow` lengthens the pauses."""
    deadline = _CLOCK.monotonic() + seconds
    while not check():
        if _CLOCK.monotonic() >= deadline:
            return False
        time.sleep(every)
        every = min(every * grow, 1.0)
    return True


def die_with_parent() -> None:
    """Ask the kernel to kill this process with its parent; runs between fork and exec."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _fields(stat: Path) -> list[str]:
    """Return the fields of a stat file from the state on; the command before it may hold spaces."""
    return stat.read_text().rpartition(")")[2].split()


def _born(pid: int) -> str:
    """Return the kernel's start time of a process; empty when it is gone or a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    if _PROC.exists():
        try:
            fields = _fields(stat)
        except (FileNotFoundError, ProcessLookupError):
            return ""
        return "" if fields[0] in "ZX" else fields[19]
    asked = subprocess.run(  # noqa: S603 - fixed arguments and a number
        ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, moment = asked.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else moment.strip()
