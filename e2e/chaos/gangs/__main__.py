"""The command: `python -m e2e.chaos.gangs [--gangs 40] [--kills 30] [--seed N] [--runs 1]`.

See `run_seeds`.
"""

from __future__ import annotations

import click

from e2e.chaos.gangs.run import Size, run
from e2e.chaos.seeds import run_seeds


@click.command()
@click.option("--gangs", default=Size.gangs, help="At the same time.")
@click.option("--kills", default=Size.kills, help="Of the controller, and of the propagator.")
@click.option("--stops", default=Size.stops, help="Of members, which go on after a while.")
@click.option("--removals", default=Size.removals, help="Of members, which come back.")
@click.option("--seed", type=int, default=None, help="Of the first run; otherwise a random one.")
@click.option("--runs", default=1, help="So many, each with the next seed.")
def main(gangs: int, kills: int, stops: int, removals: int, seed: int | None, runs: int) -> None:
    """Kill who leads while gangs come and go, and see that no half gang stands on members."""
    size = Size(gangs, kills, stops, removals)
    run_seeds(
        "gangs",
        seed,
        runs,
        lambda clusters, logs, number: run(clusters, logs, seed=number, size=size, say=click.echo),
    )


if __name__ == "__main__":
    main()
