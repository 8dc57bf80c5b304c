"""The command: `python -m e2e.chaos [--seconds 300] [--seed N] [--runs 1] [--keep DIR]`.

Exit code 0 when every promise held, 1 with what broke, the seed, and where the logs are.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import click

from e2e.chaos.run import Found, run


@click.command()
@click.option("--seconds", default=300.0, help="How long things break; all else comes on top.")
@click.option("--seed", type=int, default=None, help="Of the first run; otherwise a random one.")
@click.option("--runs", default=1, help="So many, each with the next seed.")
def main(seconds: float, seed: int | None, runs: int) -> None:
    """Break things while sixty Workloads are churned, and check what was promised."""
    logging.getLogger("machinery").setLevel(logging.ERROR)  # the test's own watches are cut too
    signal.signal(signal.SIGTERM, _interrupt)
    first = seed if seed is not None else secrets.randbelow(10**6)
    for number in range(first, first + runs):
        directory = Path(tempfile.mkdtemp(prefix=f"stowage-chaos-{number}-"))
        click.echo(f"seed {number}, {seconds:g} s; logs in {directory}")
        try:
            made = asyncio.run(run(directory, seed=number, seconds=seconds, say=click.echo))
        except Found as found:
            click.echo(f"seed {number}: BROKEN: {found}; logs in {directory}", err=True)
            sys.exit(1)
        click.echo(f"seed {number}: every promise held ({made})")
        shutil.rmtree(directory, ignore_errors=True)


def _interrupt(*_: object) -> None:
    """End as after Ctrl-C: what was started goes."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
