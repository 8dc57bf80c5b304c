"""Ends what a test process leaves behind that was killed.

Servers are in sessions of their own, so that no signal to the tests reaches them, and a test
process that is killed ends none. So each has a guard beside it: a small process that waits until the
test process is gone, and then kills what still has its mark in the environment. Nothing else has
that mark.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

MARK = "STOWAGE_TESTS"
ROUNDS = 10
"""Looks at all processes: one that is started meanwhile is found by a later look."""


def guard() -> subprocess.Popen[bytes]:
    """Mark all processes that this one starts from now on, and start the guard.

    It lives as long as this process: it reads a pipe of which nobody else has the other end.
    """
    mark = uuid4().hex
    command = [sys.executable, __file__, mark]
    found = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    os.environ[MARK] = mark
    return found


def marked(mark: str) -> Iterator[int]:
    """Yield the processes with that mark; none where a system does not tell."""
    said = f"{MARK}={mark}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if said in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


def main(mark: str) -> None:
    sys.stdin.buffer.read()
    for _ in range(ROUNDS):
        left = list(marked(mark))
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1])
