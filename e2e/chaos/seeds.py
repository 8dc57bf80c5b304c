"""Runs of a chaos command: one seed after the other, until one breaks a promise.

Exit code 0 when every promise held; 1 with the broken promise, the seed, and the folder of the
logs.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click

from e2e.chaos.run import Found
from e2e.chaos.stage import chaos_clusters


def run_seeds(
    name: str,
    seed: int | None,
    runs: int,
    run: Callable[[Path, Path, int], Coroutine[Any, Any, Any]],
    about: str = "",
) -> None:
    """Make so many runs, from that seed or a random one on; `about` is added to each run's title.

    `run` gets the folder of its clusters, which no other run uses, that of its logs, and the seed.
    """
    logging.getLogger("machinery").setLevel(logging.ERROR)  # the test's own watches are cut too
    signal.signal(signal.SIGTERM, _interrupt)
    first = seed if seed is not None else secrets.randbelow(10**6)
    for number in range(first, first + runs):
        directory = Path(tempfile.mkdtemp(prefix=f"stowage-{name}-{number}-"))
        click.echo(f"seed {number}{about}; logs in {directory}")
        try:
            with chaos_clusters(directory):
                made = asyncio.run(run(directory, directory, number))
        except Found as found:
            click.echo(f"seed {number}: BROKEN: {found}; logs in {directory}", err=True)
            sys.exit(1)
        click.echo(f"seed {number}: every promise held ({made})")
        shutil.rmtree(directory, ignore_errors=True)


def _interrupt(*_: object) -> None:
    """End as after Ctrl-C, so that all started processes end."""
    raise KeyboardInterrupt
