"""The command: `python -m e2e.chaos.rollouts [--seconds 120] [--seed N] [--runs 1]`.

See `run_seeds`.
"""

from __future__ import annotations

import click

from e2e.chaos.rollouts.run import Size, run
from e2e.chaos.seeds import run_seeds


@click.command()
@click.option("--workloads", default=Size.workloads, help="At the same time.")
@click.option("--seconds", default=Size.seconds, help="For so long users edit and leaders die.")
@click.option("--seed", type=int, default=None, help="Of the first run; otherwise a random one.")
@click.option("--runs", default=1, help="So many, each with the next seed.")
def main(workloads: int, seconds: float, seed: int | None, runs: int) -> None:
    """Edit images while leaders die, and see that no cluster runs what no wave gave it."""
    size = Size(workloads=workloads, seconds=seconds)
    run_seeds(
        "rollouts",
        seed,
        runs,
        lambda clusters, logs, number: run(clusters, logs, seed=number, size=size, say=click.echo),
    )


if __name__ == "__main__":
    main()
