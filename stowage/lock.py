"""One command at a time in a folder: a kernel lock that ends with its process."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stowage.console.progress import Progress


@contextmanager
def alone(path: Path, progress: Progress, *, waiting: str) -> Iterator[None]:
    """Hold the lock file `path`; while another process holds it, print `waiting` and wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(waiting)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
