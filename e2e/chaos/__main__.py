"""The command: `python -m e2e.chaos [workloads|gangs|rollouts] [--seed N] [--runs 1] …`.

Runs go one seed after the other until one breaks a promise. Exit code 0 when every promise held; 1
with the broken promise, the seed, and the folder of the logs.
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

from e2e.chaos.engine import Found, Say, Wishes, run
from e2e.chaos.gangs.wishes import Gangs
from e2e.chaos.gangs.wishes import Size as GangSize
from e2e.chaos.rollouts.wishes import Rollouts, Size
from e2e.chaos.stage import MEMBERS, ChaosStage, chaos_clusters
from e2e.chaos.workloads import Workloads

WISHES = ("workloads", "gangs", "rollouts")


@click.command()
@click.argument("wishes", type=click.Choice(WISHES), default=WISHES[0])
@click.option("--seconds", default=300.0, help="How long things break; all else comes on top.")
@click.option("--seed", type=int, default=None, help="Of the first run; otherwise a random one.")
@click.option("--runs", default=1, help="So many, each with the next seed.")
@click.option("--shards", default=1, help="Propagators share the members out; one is spare.")
@click.option("--pull", is_flag=True, help="The last member is in mode Pull, with two agents.")
def main(
    wishes: str, seconds: float, seed: int | None, runs: int, *, shards: int, pull: bool
) -> None:
    """Break things while users edit, and check what was promised."""
    logging.getLogger("machinery").setLevel(logging.ERROR)  # the test's own watches are cut too
    signal.signal(signal.SIGTERM, _interrupt)
    first = seed if seed is not None else secrets.randbelow(10**6)
    for number in range(first, first + runs):

        def given(stage: ChaosStage, say: Say, number: int = number) -> Wishes:
            if wishes == "gangs":
                return Gangs(stage, say, seed=number, size=GangSize())
            if wishes == "rollouts":
                return Rollouts(stage, say, seed=number, size=Size(seconds=seconds))
            return Workloads(stage, say, seed=number, seconds=seconds)

        directory = Path(tempfile.mkdtemp(prefix=f"stowage-{wishes}-{number}-"))
        click.echo(f"seed {number}, {wishes}; logs in {directory}")
        pulled = MEMBERS[-1] if pull else ""
        try:
            with chaos_clusters(directory):
                made = asyncio.run(
                    run(directory, directory, given, say=click.echo, shards=shards, pulled=pulled)
                )
        except Found as found:
            click.echo(f"seed {number}: BROKEN: {found}; logs in {directory}", err=True)
            sys.exit(1)
        words = ", ".join(f"{what}: {amount}" for what, amount in made.items())
        click.echo(f"seed {number}: every promise held ({words})")
        shutil.rmtree(directory, ignore_errors=True)


def _interrupt(*_: object) -> None:
    """End as after Ctrl-C, so that all started processes end."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
