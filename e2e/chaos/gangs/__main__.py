"""The command: `python -m e2e.chaos.gangs [--gangs 40] [--kills 30] [--seed N] [--runs 1]`.

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

from e2e.chaos.gangs.run import Size, run
from e2e.chaos.run import Found


@click.command()
@click.option("--gangs", default=Size.gangs, help="At the same time.")
@click.option("--kills", default=Size.kills, help="Of the controller, and of the propagator.")
@click.option("--stops", default=Size.stops, help="Of members, which go on after a while.")
@click.option("--removals", default=Size.removals, help="Of members, which come back.")
@click.option("--seed", type=int, default=None, help="Of the first run; otherwise a random one.")
@click.option("--runs", default=1, help="So many, each with the next seed.")
def main(gangs: int, kills: int, stops: int, removals: int, seed: int | None, runs: int) -> None:
    """Kill who leads while gangs come and go, and see that no half gang stands on members."""
    logging.getLogger("machinery").setLevel(logging.ERROR)  # members are stopped under our watches
    signal.signal(signal.SIGTERM, _interrupt)
    size = Size(gangs, kills, stops, removals)
    first = seed if seed is not None else secrets.randbelow(10**6)
    for number in range(first, first + runs):
        directory = Path(tempfile.mkdtemp(prefix=f"stowage-gangs-{number}-"))
        click.echo(f"seed {number}; logs in {directory}")
        try:
            made = asyncio.run(run(directory, seed=number, size=size, say=click.echo))
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
