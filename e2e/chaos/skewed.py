"""Runs `stowage` with a wall clock that is wrong by the number of seconds in a file.

`python -m e2e.chaos.skewed FILE NAME controller …`. The file is read at every read of the clock, so
that a test makes the clock of a running process jump. Durations (`monotonic`) are not touched: no
jump of a wall clock touches them on a real machine either. Name and process id stand in the
User-Agent of its requests.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta
from pathlib import Path

from machinery import release
from machinery.clock import SystemClock


def skew(file: Path) -> None:
    """Shift every `SystemClock` of this process by the number in the file."""
    honest = SystemClock.now

    def now(self: SystemClock) -> datetime:
        text = file.read_text() if file.exists() else ""
        return honest(self) + timedelta(seconds=float(text or 0))

    SystemClock.now = now  # type: ignore[method-assign] # the one clock of the process under test


def name(instance: str) -> None:
    """Add that name and the process id to User-Agents; before the modules that make them."""
    plain = release.user_agent
    release.user_agent = lambda process: f"{plain(process)} {instance}/{os.getpid()}"


if __name__ == "__main__":
    skew(Path(sys.argv.pop(1)))
    name(sys.argv.pop(1))
    from stowage.cli import main

    main()
