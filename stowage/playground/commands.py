"""Runs docker and kind: their output goes into a log, the cause of a failure to the screen.

kind ends with the output of kubeadm and a stack of Go. The cause stands far above, in lines that
begin with `error`.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from machinery.errors import StowageError
from stowage.playground.processes import die_with_parent, wait_until

_LAST_LINES = 8
_MOST_CAUSES = 3
_POLL_SECONDS = 0.2
_ERROR = re.compile(
    r"(?i)^(error\b|\[error |failed to )|too many open files|no space left on device"
    r"|cannot allocate memory|address already in use|port is already allocated"
)
_FRAME = re.compile(r"^(\S+/)?\S+\.(go|s):\d+")
_FUNCTION = re.compile(r"^[\w./*()-]+\.[\w.*()]+$")


def run(command: Sequence[str], *, seconds: float | None = None) -> str:
    """Return standard output. Raises StowageError with the command, its exit code and the cause."""
    try:
        done = subprocess.run(  # noqa: S603 - kind that we built, or docker
            command, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise StowageError(_late(command, seconds or 0.0)) from None
    except OSError as e:
        raise StowageError(f"`{shlex.join(command)}` could not be run: {e.strerror}") from e
    if done.returncode:
        raise StowageError(_failure(command, done.returncode, done.stdout + done.stderr))
    return done.stdout


@dataclass(frozen=True)
class Job:
    """A command that takes minutes and runs beside others; its output goes into `log`."""

    command: Sequence[str]
    log: Path
    process: subprocess.Popen[bytes]

    @staticmethod
    def start(command: Sequence[str], log: Path) -> Job:
        """Start the command, with its children in one process group, which `end` ends."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as out:
            process = subprocess.Popen(  # noqa: S603 - the binary that we built
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - only prctl
            )
        return Job(command, log, process)

    def done(self) -> bool:
        return self.process.poll() is not None

    def fault(self) -> str:
        """Return the cause of its failure, and its log; empty if it succeeded."""
        if not self.process.returncode:
            return ""
        output = self.log.read_text(errors="replace")
        told = _failure(self.command, self.process.returncode, output)
        return f"{told} (all its words: {self.log})"

    def overdue(self, seconds: float) -> str:
        """Return the message for a job that has not ended in that time."""
        return f"{_late(self.command, seconds)} (all its words: {self.log})"

    def end(self) -> None:
        """End it and its children, if it has not ended, and return when it is gone."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait()


def watch(job: Job, tick: Callable[[], None], *, seconds: float) -> None:
    """Call `tick` until the job is done; end it in any case.

    Raises StowageError if it fails or does not end within `seconds`.
    """

    def looked_at() -> bool:
        tick()
        return job.done()

    try:
        ended = wait_until(looked_at, seconds=seconds, every=_POLL_SECONDS)
    finally:
        job.end()
    if not ended:
        raise StowageError(job.overdue(seconds))
    if fault := job.fault():
        raise StowageError(fault)


def cause(output: str) -> str:
    """Return the cause of a failure as one line: lines with `error`, else the last lines."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = [line for line in lines if _ERROR.search(line)]
    if told:
        return " / ".join(dict.fromkeys(told[:_MOST_CAUSES]))
    plain = [line for line in lines if not (_FRAME.match(line) or _FUNCTION.match(line))]
    return " / ".join((plain or lines)[-_LAST_LINES:])


def _late(command: Sequence[str], seconds: float) -> str:
    return f"`{shlex.join(command)}` did not end within {seconds:g} s"


def _failure(command: Sequence[str], code: int, output: str) -> str:
    return f"`{shlex.join(command)}` ended with exit code {code}: {cause(output) or 'no output'}"
